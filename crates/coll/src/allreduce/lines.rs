//! Allreduce by lines: to 112 bytes each line carries its rank's numbers, and every rank combines
//! all. Larger: every rank combines one share of everybody's, then all collect the shares.
//!
//! What all contribute is combined up a binomial tree, `((0 ∘ 1) ∘ (2 ∘ 3)) ∘ ...`, and each result
//! by one rank or by all alike: every rank has the same bits, and operations need not be
//! commutative. Over several nodes the leaders combine what comes of that, and each hands it on.
//! Where there are no lines left, messages combine in the same order: see [`crate::select`].

use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;
use crate::mates::MOST_MATES;
use crate::reduction::Reduction;
use crate::rounds::{Rounds, Stop, starts};

use super::recursive_doubling;

/// A part is this part of the longest contribution: all wait for each other anyway.
const PARTS: usize = 4;

/// Longest array that fits into lines.
const LINE: usize = hikyaku_nic::ring::LINE_BYTES;

/// From here on the work is shared out.
const SHARE_FROM: usize = 2 << 10;

/// Bytes that are combined at a time: in the first-level cache.
const PIECE: usize = 4 << 10;

/// Most trees that are still to be combined with each other, of [`MOST_MATES`] ranks.
const DEPTH: usize = MOST_MATES.ilog2() as usize + 1;

#[inline(always)]
pub(super) async fn run<G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    team: &Team<'_, G>,
    data: &mut [G::Byte],
    reduction: &mut Reduction<F>,
) -> Result<(), Stop<G>> {
    let rounds = Rounds::begin(team).await?;
    if data.len() <= LINE {
        rounds.meet(data).await?;
        combine(&rounds, data, reduction)?;
    } else {
        combine_parts(&rounds, data, reduction).await?;
    }
    if rounds.mates.are_all() { Ok(()) } else { across(&rounds, data, reduction).await }
}

/// The same without waiting, if it fits into lines and all are there.
#[inline(always)]
pub(super) fn at_once<G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    team: &Team<'_, G>,
    data: &mut [G::Byte],
    reduction: &mut Reduction<F>,
) -> Option<Result<(), Failure<G>>> {
    if data.len() > LINE {
        return None;
    }
    if let Err(failure) = team.check_elements(data.len(), reduction.width) {
        return Some(Err(failure));
    }
    let rounds = Rounds::at_once(team)?;
    match rounds.try_meet(data) {
        Ok(met) => met.map(|_| combine(&rounds, data, reduction)),
        Err(failure) => Some(Err(failure)),
    }
}

/// What is on all lines.
#[inline(always)]
fn combine<G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    rounds: &Rounds<'_, G>,
    data: &mut [G::Byte],
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    rounds.finish(match data.len() {
        // The usual one or two numbers, without the cost of room for more.
        0..=16 => combine_lines::<16, _, _>(rounds, data, reduction),
        _ => combine_lines::<LINE, _, _>(rounds, data, reduction),
    })
}

/// At most `ROOM` bytes of every rank.
#[inline(always)]
fn combine_lines<const ROOM: usize, G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    rounds: &Rounds<'_, G>,
    data: &mut [G::Byte],
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    let mut own = [G::Byte::default(); ROOM];
    let own = &mut own[..data.len()];
    own.copy_from_slice(data);
    if rounds.size == 2 {
        let mut theirs = [G::Byte::default(); ROOM];
        return combine_two(rounds, own, 0, data, &mut theirs[..own.len()], reduction);
    }
    let mut scratch = [[G::Byte::default(); ROOM]; DEPTH];
    combine_tree(rounds, own, 0, data, scratch.as_flattened_mut(), reduction)
}

/// What both ranks have contributed from byte `at` on. `own` is this rank's part, of which `out`
/// holds a copy.
#[inline(always)]
fn combine_two<G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    rounds: &Rounds<'_, G>,
    own: &[G::Byte],
    at: usize,
    out: &mut [G::Byte],
    theirs: &mut [G::Byte],
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    if rounds.place == 0 {
        rounds.read(1, at, out)?;
        (reduction.combine)(own, out);
    } else {
        rounds.read(0, at, theirs)?;
        (reduction.combine)(theirs, out);
    }
    Ok(())
}

/// What every rank has contributed from byte `at` on, as much as there is of `own`, this rank's
/// part. `scratch` has room for that [`DEPTH`] times.
///
/// Ranks come in one after the other. Whenever there are two neighbouring trees of the same size,
/// they become one, as digits are carried in a binary counter.
#[inline(never)]
fn combine_tree<G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    rounds: &Rounds<'_, G>,
    own: &[G::Byte],
    at: usize,
    out: &mut [G::Byte],
    scratch: &mut [G::Byte],
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    let length = own.len();
    // Where each tree's result is: `combine` leaves it in the right one of two.
    let mut slots: [usize; DEPTH] = std::array::from_fn(|slot| slot * length);
    let mut trees = 0;
    for place in 0..rounds.size {
        let slot = &mut scratch[slots[trees]..][..length];
        if place == rounds.place {
            slot.copy_from_slice(own);
        } else {
            rounds.read(place, at, slot)?;
        }
        trees += 1;
        let is_last = place + 1 == rounds.size;
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

#[inline(never)]
async fn combine_parts<G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    rounds: &Rounds<'_, G>,
    data: &mut [G::Byte],
    reduction: &mut Reduction<F>,
) -> Result<(), Stop<G>> {
    let part = rounds.part(PARTS, reduction.width);
    for (at, part) in data.chunks_mut(part).enumerate() {
        combine_part(rounds, part, reduction, at == 0).await?;
    }
    Ok(())
}

/// Combines one part: this rank's share of everybody's first, then everybody's shares are
/// collected. A small part is everybody's share.
async fn combine_part<G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    rounds: &Rounds<'_, G>,
    data: &mut [G::Byte],
    reduction: &mut Reduction<F>,
    is_first: bool,
) -> Result<(), Stop<G>> {
    let (size, own, width) = (rounds.size, rounds.place, reduction.width);
    let elements = data.len() / width;
    let shared_out = data.len() >= SHARE_FROM;
    let share = move |place: usize| match shared_out {
        true => elements * place / size * width..elements * (place + 1) / size * width,
        false => 0..elements * width,
    };
    let begun = |stop: Stop<G>| Stop::Failed(stop.into_failure(rounds.team));
    rounds.meet(data).await.map_err(|stop| if is_first { stop } else { begun(stop) })?;
    let mut result = data[share(own)].to_vec();
    let combined = combine_share(rounds, data, &mut result, share(own), reduction);
    rounds.finish(combined)?;
    data[share(own)].copy_from_slice(&result);
    if !shared_out {
        return Ok(());
    }
    rounds.meet(&result).await.map_err(begun)?;
    let mut others = (1..size).map(|distance| (own + distance) % size);
    let read = others.try_for_each(|place| rounds.read(place, 0, &mut data[share(place)]));
    Ok(rounds.finish(read)?)
}

/// One share of everybody's. `result` holds this rank's.
fn combine_share<G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    rounds: &Rounds<'_, G>,
    data: &[G::Byte],
    result: &mut [G::Byte],
    share: std::ops::Range<usize>,
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    let piece = (PIECE / reduction.width * reduction.width).max(reduction.width);
    let piece = piece.min(result.len()).max(1);
    let depth = if rounds.size == 2 { 1 } else { DEPTH };
    let mut scratch = vec![G::Byte::default(); depth * piece];
    // Also of an empty share: what it was called with.
    for from in starts(share.len(), piece) {
        let length = piece.min(share.len() - from);
        let at = share.start + from;
        let (own, out) = (&data[at..][..length], &mut result[from..][..length]);
        if rounds.size == 2 {
            combine_two(rounds, own, at, out, &mut scratch[..length], reduction)?;
        } else {
            combine_tree(rounds, own, at, out, &mut scratch, reduction)?;
        }
    }
    Ok(())
}

#[inline(never)]
async fn across<G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    rounds: &Rounds<'_, G>,
    data: &mut [G::Byte],
    reduction: &mut Reduction<F>,
) -> Result<(), Stop<G>> {
    let begun = |stop: Stop<G>| Stop::Failed(stop.into_failure(rounds.team));
    if rounds.place == 0 {
        let leaders = rounds.team.among(rounds.mates.leaders(), rounds.mates.own() as u32);
        let combined = recursive_doubling::run(&leaders, data, reduction);
        rounds.unless_lost(combined).await.map_err(begun)?;
    }
    rounds.broadcast(data, 0).await.map_err(begun)
}
