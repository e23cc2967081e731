//! What ranks contribute by lines, combined up a binomial tree: `((0 ∘ 1) ∘ (2 ∘ 3)) ∘ ...`.

use std::ops::Range;

use crate::error::Failure;
use crate::group::Group;
use crate::mates::MOST_MATES;
use crate::reduction::Reduction;
use crate::rounds::{LineRounds, starts};

/// A part is this part of the longest contribution: all wait for each other anyway.
pub(crate) const PARTS: usize = 4;

/// Longest array that fits into lines.
pub(crate) const LINE: usize = hikyaku_nic::ring::LINE_BYTES;

/// Bytes that are combined at a time: in the first-level cache.
pub(crate) const PIECE: usize = 4 << 10;

/// Most trees that are still to be combined with each other, of so many ranks.
pub(crate) const fn digits(size: usize) -> usize {
    size.ilog2() as usize + 1
}

/// The same of [`MOST_MATES`].
const DEPTH: usize = digits(MOST_MATES as usize);

/// What is on all lines, at most [`LINE`] bytes, in the order of places from `first` on.
#[inline(always)]
pub(crate) fn combine<G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    rounds: &LineRounds<'_, G>,
    data: &mut [G::Byte],
    first: usize,
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    rounds.finish(match data.len() {
        // The usual one or two numbers, without the cost of room for more.
        0..=16 => combine_lines::<16, _, _>(rounds, data, first, reduction),
        _ => combine_lines::<LINE, _, _>(rounds, data, first, reduction),
    })
}

/// At most `ROOM` bytes of every rank.
#[inline(always)]
fn combine_lines<const ROOM: usize, G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
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

/// The parts of two ranks. `own` is that of this one, at `place`, of which `out` holds a copy;
/// `read` gets that of another, and there is room for it in `theirs`.
#[inline(always)]
pub(crate) fn combine_two<B, E, F: FnMut(&[B], &mut [B])>(
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

/// The parts of `size` ranks, as long as `own`, that of this one. `scratch` has room for as many
/// as the size has binary digits.
///
/// Ranks come in one after the other. Whenever there are two neighbouring trees of the same size,
/// they become one, as digits are carried in a binary counter.
#[inline(never)]
pub(crate) fn combine_tree<B: Copy, E, F: FnMut(&[B], &mut [B])>(
    own_place: usize,
    size: usize,
    own: &[B],
    out: &mut [B],
    scratch: &mut [B],
    reduction: &mut Reduction<F>,
    mut read: impl FnMut(usize, &mut [B]) -> Result<(), E>,
) -> Result<(), E> {
    let length = own.len();
    // Where each tree's result is: `combine` leaves it in the right one of two.
    let mut slots: [usize; DEPTH] = std::array::from_fn(|slot| slot * length);
    let mut trees = 0;
    for place in 0..size {
        let slot = &mut scratch[slots[trees]..][..length];
        if place == own_place {
            slot.copy_from_slice(own);
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
    out.copy_from_slice(&scratch[slots[0]..][..length]);
    Ok(())
}

/// One share of everybody's, in the order of places from `first` on. `result` holds this rank's.
pub(crate) fn combine_share<G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    rounds: &LineRounds<'_, G>,
    data: &[G::Byte],
    result: &mut [G::Byte],
    (share, first): (Range<usize>, usize),
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    let piece = (PIECE / reduction.width * reduction.width).max(reduction.width);
    let piece = piece.min(result.len()).max(1);
    let depth = if rounds.size == 2 { 1 } else { digits(rounds.size) };
    let mut scratch = vec![G::Byte::default(); depth * piece];
    // Also of an empty share: what it was called with.
    for from in starts(share.len(), piece) {
        let length = piece.min(share.len() - from);
        let at = share.start + from;
        let (own, out) = (&data[at..][..length], &mut result[from..][..length]);
        let (place, size) = (rounds.place_from(first), rounds.size);
        let read =
            |place, into: &mut [G::Byte]| rounds.read(rounds.place_at(first, place), at, into);
        if size == 2 {
            combine_two(place, own, out, &mut scratch[..length], reduction, read)?;
        } else {
            combine_tree(place, size, own, out, &mut scratch, reduction, read)?;
        }
    }
    Ok(())
}
