//! Allreduce by lines: to 112 bytes each line carries its rank's numbers, and every rank combines
//! all. Larger: every rank combines one share of everybody's, then all collect the shares.
//!
//! What all contribute is combined as `0 ∘ (1 ∘ ...)`, and each result by one rank or by all alike:
//! every rank has the same bits, and operations need not be commutative. Over several nodes the
//! leaders combine what comes of that, and each hands it on.

use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;
use crate::reduction::Reduction;
use crate::rounds::{Rounds, Stop};

use super::recursive_doubling;

/// A part is this part of the longest contribution: all wait for each other anyway.
const PARTS: usize = 4;

/// Longest array that fits into lines.
const LINE: usize = hikyaku_nic::ring::LINE_BYTES;

/// From here on the work is shared out.
const SHARE_FROM: usize = 2 << 10;

/// Bytes that are combined at a time: in the first-level cache.
const PIECE: usize = 4 << 10;

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
        Ok(true) => Some(combine(&rounds, data, reduction)),
        Ok(false) => None,
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

/// At most `ROOM` bytes of every rank, from the last to the first.
#[inline(always)]
fn combine_lines<const ROOM: usize, G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    rounds: &Rounds<'_, G>,
    data: &mut [G::Byte],
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    let (mut mine, mut theirs) = ([G::Byte::default(); ROOM], [G::Byte::default(); ROOM]);
    let (mine, theirs) = (&mut mine[..data.len()], &mut theirs[..data.len()]);
    mine.copy_from_slice(data);
    let last = rounds.size - 1;
    for place in (0..rounds.size).rev() {
        if place == rounds.place {
            if place != last {
                (reduction.combine)(mine, data);
            }
        } else if place == last {
            rounds.read(place, 0, data)?;
        } else {
            rounds.read(place, 0, theirs)?;
            (reduction.combine)(theirs, data);
        }
    }
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

/// One share of everybody's, from the last rank to the first.
fn combine_share<G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    rounds: &Rounds<'_, G>,
    data: &[G::Byte],
    result: &mut [G::Byte],
    share: std::ops::Range<usize>,
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    let piece = (PIECE / reduction.width * reduction.width).max(reduction.width);
    let mut scratch = vec![G::Byte::default(); result.len().min(piece)];
    let last = rounds.size - 1;
    for place in (0..rounds.size).rev() {
        if place == rounds.place {
            if place != last {
                (reduction.combine)(&data[share.clone()], result);
            }
        } else if place == last {
            rounds.read(place, share.start, result)?;
        } else {
            // Also of an empty share: what it was called with.
            rounds.read(place, share.start, &mut [])?;
            for (from, result) in (share.start..).step_by(piece).zip(result.chunks_mut(piece)) {
                let theirs = &mut scratch[..result.len()];
                rounds.read(place, from, theirs)?;
                (reduction.combine)(theirs, result);
            }
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
