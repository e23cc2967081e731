//! Combines values: two of them, a stream of them, and contributions by lines, up a binomial tree:
//! `((0 ∘ 1) ∘ (2 ∘ 3)) ∘ ...`.

use hikyaku_nic::ring::copy;

use crate::error::Failure;
use crate::group::Group;
use crate::mates::MOST_MATES;
use crate::rounds::{LineRounds, starts};
use crate::signature::{Combination, Element};

/// Computes `left ∘ right` into `right`, element by element, for two arrays of one length.
pub trait Combine<B>: FnMut(&[B], &mut [B]) {}

impl<B, F: FnMut(&[B], &mut [B])> Combine<B> for F {}

/// An operation on arrays of elements (MPI 5.0 §6.9.2 and §6.9.5).
///
/// It is assumed to be associative, even if floating-point numbers round. An operation that is not
/// commutative is applied in the order of the ranks.
#[derive(Debug, Clone, Copy)]
pub struct Reduction<F> {
    /// `combine(left, right)` stores `left ∘ right` in `right`, element by element.
    pub combine: F,
    /// Whether `left ∘ right` equals `right ∘ left`.
    pub commutative: bool,
    /// Bytes of one element, at least 1. Arrays are cut between elements only.
    pub width: usize,
    /// Its name, as far as ranks compare it.
    pub combination: Combination,
}

impl<F> Reduction<F> {
    /// An operation on elements of `width` bytes in which order does not matter.
    pub fn commutative(width: usize, combine: F) -> Reduction<F> {
        Reduction { combine, commutative: true, width: width.max(1), combination: Combination::OWN }
    }

    /// An operation on elements of `width` bytes in which order matters.
    pub fn ordered(width: usize, combine: F) -> Reduction<F> {
        Reduction {
            combine,
            commutative: false,
            width: width.max(1),
            combination: Combination::OWN,
        }
    }

    /// Whether the bits of elements of this type do not depend on the order of combining: sums,
    /// products, minima and maxima of integers. For floating-point numbers they do.
    pub(crate) fn is_exact(&self, element: Element) -> bool {
        self.commutative && self.combination != Combination::OWN && element.is_integer()
    }
}

/// A part is the longest contribution divided by this: all ranks wait for each other anyway.
pub(crate) const PARTS: usize = 4;

/// The length of the longest array that fits into a line.
pub(crate) const LINE: usize = hikyaku_nic::ring::LINE_BYTES;

/// Bytes that are combined at a time: in the first-level cache.
pub(crate) const PIECE: usize = 4 << 10;

/// The maximum number of trees that are not yet combined with each other, for `size` ranks.
pub(crate) const fn digits(size: usize) -> usize {
    size.ilog2() as usize + 1
}

/// The same for [`MOST_MATES`] ranks.
const DEPTH: usize = digits(MOST_MATES as usize);

/// Combines all lines, of at most [`LINE`] bytes, in the order of places from `first` on.
#[inline(always)]
pub(crate) fn combine<G: Group, F: Combine<G::Byte>>(
    rounds: &LineRounds<'_, G>,
    data: &mut [G::Byte],
    first: usize,
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    rounds.finish(match data.len() {
        // The usual one or two numbers, without the cost of a larger buffer.
        0..=16 => combine_lines::<16, _, _>(rounds, data, first, reduction),
        _ => combine_lines::<LINE, _, _>(rounds, data, first, reduction),
    })
}

/// Combines whole contributions of all ranks, in the order of places from `first` on. `own`: this
/// rank's contribution, if it is not in `data`.
#[inline(always)]
pub(crate) fn combine_whole<G: Group, F: Combine<G::Byte>>(
    rounds: &LineRounds<'_, G>,
    own: Option<&[G::Byte]>,
    data: &mut [G::Byte],
    first: usize,
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    if data.len() > LINE {
        return rounds.finish(combine_share(rounds, own, data, (0, first), reduction));
    }
    if let Some(own) = own {
        data.copy_from_slice(own);
    }
    combine(rounds, data, first, reduction)
}

/// Combines at most `ROOM` bytes of every rank.
#[inline(always)]
fn combine_lines<const ROOM: usize, G: Group, F: Combine<G::Byte>>(
    rounds: &LineRounds<'_, G>,
    data: &mut [G::Byte],
    first: usize,
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    let mut own = [G::Byte::default(); ROOM];
    let own = &mut own[..data.len()];
    own.copy_from_slice(data);
    let place = rounds.place_from(first);
    let read = |place, into: &mut [G::Byte]| rounds.read(rounds.place_at(first, place), 0, into);
    if rounds.size == 2 {
        let mut theirs = [G::Byte::default(); ROOM];
        let theirs = &mut theirs[..own.len()];
        return combine_two(place, own, data, theirs, reduction, read);
    }
    let mut scratch = [[G::Byte::default(); ROOM]; DEPTH];
    let scratch = scratch.as_flattened_mut();
    combine_tree(place, rounds.size, own, data, scratch, reduction, read)
}

/// Combines the parts of two ranks. `own` is the part of this rank, at `place`; `out` holds a copy
/// of it unless that is the first place. `read` reads the other part into `theirs`, which has room
/// for it.
#[inline(always)]
pub(crate) fn combine_two<B, E, F: Combine<B>>(
    place: usize,
    own: &[B],
    out: &mut [B],
    theirs: &mut [B],
    reduction: &mut Reduction<F>,
    mut read: impl FnMut(usize, &mut [B]) -> Result<(), E>,
) -> Result<(), E> {
    if place == 0 {
        read(1, out)?;
        (reduction.combine)(own, out);
    } else {
        read(0, theirs)?;
        (reduction.combine)(theirs, out);
    }
    Ok(())
}

/// Combines the parts of `size` ranks, each as long as `own`, this rank's part. `scratch` has room
/// for as many parts as the size has binary digits.
///
/// Ranks are added one after the other. Two neighbouring trees of the same size become one, like a
/// carry in a binary counter.
#[inline(never)]
pub(crate) fn combine_tree<B: Copy, E, F: Combine<B>>(
    own_place: usize,
    size: usize,
    own: &[B],
    out: &mut [B],
    scratch: &mut [B],
    reduction: &mut Reduction<F>,
    mut read: impl FnMut(usize, &mut [B]) -> Result<(), E>,
) -> Result<(), E> {
    let length = own.len();
    // The place of each tree's result: `combine` leaves it in the right one of two.
    let mut slots: [usize; DEPTH] = std::array::from_fn(|slot| slot * length);
    let mut trees = 0;
    for place in 0..size {
        let slot = &mut scratch[slots[trees]..][..length];
        if place == own_place {
            copy(own, slot);
        } else {
            read(place, slot)?;
        }
        trees += 1;
        let is_last = place + 1 == size;
        let carries = if is_last { trees - 1 } else { (place + 1).trailing_zeros() as usize };
        for _ in 0..carries {
            let [left, right] = [trees - 2, trees - 1].map(|tree| slots[tree]);
            let both = [left..left + length, right..right + length];
            if let Ok([left, right]) = scratch.get_disjoint_mut(both) {
                (reduction.combine)(left, right);
            }
            slots.swap(trees - 2, trees - 1);
            trees -= 1;
        }
    }
    copy(&scratch[slots[0]..][..length], out);
    Ok(())
}

/// Combines the share of all contributions that starts at `start`, in the order of places from
/// `first` on, into `result`. `own`: this rank's contribution to it, if it is not in `result`.
pub(crate) fn combine_share<G: Group, F: Combine<G::Byte>>(
    rounds: &LineRounds<'_, G>,
    own: Option<&[G::Byte]>,
    result: &mut [G::Byte],
    (start, first): (usize, usize),
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    let (place, size) = (rounds.place_from(first), rounds.size);
    if size == 1 {
        own.into_iter().for_each(|own| copy(own, result));
        return Ok(());
    }
    let piece = (PIECE / reduction.width * reduction.width).max(reduction.width);
    let piece = piece.min(result.len()).max(1);
    let depth = if size == 2 { 1 } else { digits(size) };
    let mut scratch = vec![G::Byte::default(); (1 + depth) * piece];
    // An empty share is read too, to check the other ranks' calls.
    for from in starts(result.len(), piece) {
        let length = piece.min(result.len() - from);
        let out = &mut result[from..][..length];
        let (kept, scratch) = scratch.split_at_mut(length);
        let own = match own {
            Some(own) => &own[from..][..length],
            None => {
                copy(out, kept);
                kept
            }
        };
        let read = |place, into: &mut [G::Byte]| {
            rounds.read(rounds.place_at(first, place), start + from, into)
        };
        if size == 2 {
            if place > 0 {
                copy(own, out);
            }
            combine_two(place, own, out, &mut scratch[..length], reduction, read)?;
        } else {
            combine_tree(place, size, own, out, scratch, reduction, read)?;
        }
    }
    Ok(())
}

/// A value that grows to its left and right while its parts arrive. It uses two buffers of equal
/// length, one for the value and one for the next part.
///
/// `combine` leaves its result in its right operand. A part on the left is combined in place; a
/// part on the right leaves the result in the buffer of that part, so the two buffers change roles.
/// A value in the wrong buffer at the end is copied once.
pub(crate) struct Accumulator<'b, B> {
    value: &'b mut [B],
    spare: &'b mut [B],
    /// Whether the value is in the buffer that was the spare one at first.
    swapped: bool,
}

impl<'b, B: Copy> Accumulator<'b, B> {
    /// The initial value is the contents of `data`.
    pub(crate) fn new(data: &'b mut [B], spare: &'b mut [B]) -> Accumulator<'b, B> {
        Accumulator { value: data, spare, swapped: false }
    }

    /// The value, and the buffer for the next part.
    pub(crate) fn parts(&mut self) -> (&[B], &mut [B]) {
        (self.value, self.spare)
    }

    /// Combines the next part before the value.
    pub(crate) fn prepend(&mut self, combine: &mut impl Combine<B>) {
        combine(self.spare, self.value);
    }

    /// Combines the next part after the value.
    pub(crate) fn append(&mut self, combine: &mut impl Combine<B>) {
        combine(self.value, self.spare);
        std::mem::swap(&mut self.value, &mut self.spare);
        self.swapped = !self.swapped;
    }

    /// Moves the value to its first buffer.
    pub(crate) fn finish(self) {
        if self.swapped {
            copy(self.value, self.spare);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_operations_on_integers_have_no_order() {
        let own = Reduction::commutative(8, ());
        let sum = Reduction { combination: Combination::SUM, ..own };
        assert!(sum.is_exact(Element::of::<i64>()) && sum.is_exact(Element::BYTE));
        assert!(sum.is_exact(Element::of::<u128>()) && sum.is_exact(Element::of::<usize>()));
        assert!(sum.is_exact(Element::of::<isize>()) && !sum.is_exact(Element::of::<bool>()));
        assert!(!sum.is_exact(Element::of::<f64>()) && !sum.is_exact(Element::of::<f32>()));
        assert!(!sum.is_exact(Element::of::<[u8; 3]>()) && !own.is_exact(Element::of::<i64>()));
    }
}
