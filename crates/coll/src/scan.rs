//! Scan and exscan: combine the data of all ranks up to, or before, each rank (MPI 5.0 §6.11).
//!
//! | algorithm | longest path | remarks |
//! |---|---|---|
//! | recursive-doubling | log2 n exchanges of m; one more for exscan | |
//! | linear | n - 2 segments and m, from rank to rank | each rank combines once; for long data |
//! | lines | a poll of all lines | all ranks on one node with lines; for short data |
//!
//! All keep the order of the ranks; the first and the last give the same bits.

use std::future::Future;

use hikyaku_nic::ring::copy;

use crate::algorithms::broadcast::SEGMENT;
use crate::broadcast::segment;
use crate::call::{Begun, Call, Team};
use crate::combine::{Combine, PARTS, Reduction, digits};
use crate::error::Failure;
use crate::group::Group;
use crate::names::Operation;
use crate::rounds::{LineRounds, NEEDS_LINES, Stop, by_lines, starts};
use crate::scratch::Scratch;
use crate::select;
use crate::signature::Signature;
use hikyaku_msg::join;

pub use crate::algorithms::scan::Algorithm;

/// Combines `data` of the ranks from 0 to this one into `data` (MPI_Scan).
///
/// # Errors
/// [`crate::CollError`]: lengths differ, or a rank is gone or abandoned the call.
pub fn scan<'a, G: Group, F: Combine<G::Byte>>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    data: &'a mut [G::Byte],
    reduction: Reduction<F>,
) -> impl Future<Output = Result<(), Failure<G>>> {
    begin_scan(group, algorithm, data, reduction).end()
}

/// Starts [`scan()`], which may complete at once.
///
/// # Errors
/// As [`scan()`].
#[inline]
pub fn begin_scan<'a, G: Group, F: Combine<G::Byte>>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    data: &'a mut [G::Byte],
    reduction: Reduction<F>,
) -> Begun<Result<(), Failure<G>>, impl Future<Output = Result<(), Failure<G>>>> {
    begin(group, Operation::Scan, algorithm, data, reduction)
}

/// Combines `data` of the ranks from 0 to the one before this one into `data`, which stays
/// unchanged at rank 0 (MPI_Exscan).
///
/// # Errors
/// As [`scan()`].
pub fn exscan<'a, G: Group, F: Combine<G::Byte>>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    data: &'a mut [G::Byte],
    reduction: Reduction<F>,
) -> impl Future<Output = Result<(), Failure<G>>> {
    begin_exscan(group, algorithm, data, reduction).end()
}

/// Starts [`exscan`], which may complete at once.
///
/// # Errors
/// As [`exscan`].
#[inline]
pub fn begin_exscan<'a, G: Group, F: Combine<G::Byte>>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    data: &'a mut [G::Byte],
    reduction: Reduction<F>,
) -> Begun<Result<(), Failure<G>>, impl Future<Output = Result<(), Failure<G>>>> {
    begin(group, Operation::Exscan, algorithm, data, reduction)
}

/// Starts either of them.
#[inline]
fn begin<'a, G: Group, F: Combine<G::Byte>>(
    group: &'a G,
    operation: Operation,
    algorithm: Option<Algorithm>,
    data: &'a mut [G::Byte],
    mut reduction: Reduction<F>,
) -> Begun<Result<(), Failure<G>>, impl Future<Output = Result<(), Failure<G>>>> {
    let needs_lines = |by: &Algorithm| *by == Algorithm::Lines;
    let table = || select::for_scan(group, data.len());
    let algorithm = select::resolve(group, algorithm, needs_lines, table);
    let signature = Signature::new(operation).bytes(data.len()).combination(reduction.combination);
    let inclusive = operation == Operation::Scan;
    let act = |team: &Team<'_, G>| match team.check_elements(data.len(), reduction.width) {
        Ok(()) => at_once(team, inclusive, data, &mut reduction),
        Err(failure) => Some(Err(failure)),
    };
    let lines = needs_lines(&algorithm);
    Call::begin(group, signature, algorithm as usize, lines, act)
        .or_start(|call| start(call, inclusive, algorithm, data, reduction))
}

fn start<'a, G: Group, F: Combine<G::Byte>>(
    call: Call<'a, G>,
    inclusive: bool,
    mut algorithm: Algorithm,
    data: &'a mut [G::Byte],
    mut reduction: Reduction<F>,
) -> impl Future<Output = Result<(), Failure<G>>> {
    call.run(async move |team| {
        team.check_elements(data.len(), reduction.width)?;
        let reduction = &mut reduction;
        if algorithm == Algorithm::Lines {
            if by_lines(team, lines(team, inclusive, data, reduction).await)?.is_some() {
                return Ok(());
            }
            algorithm = select::for_scan_by_messages(team.group());
            team.without_lines(algorithm as usize)?;
        }
        match (algorithm, inclusive) {
            (Algorithm::RecursiveDoubling, true) => {
                doubling_inclusive(team, 0, data, reduction).await
            }
            (Algorithm::RecursiveDoubling, false) => {
                doubling_exclusive(team, data, reduction).await
            }
            (Algorithm::Linear, inclusive) => linear(team, inclusive, data, reduction).await,
            (Algorithm::Lines, _) => team.require(false, NEEDS_LINES),
        }
    })
}

/// Scan in log2 n steps (Hillis, Steele 1986): after step k a rank has combined its own data with
/// those of the 2^k - 1 ranks before it, and sends the result to the rank 2^k further on.
///
/// Only the ranks from `first` on take part.
async fn doubling_inclusive<G: Group, F: Combine<G::Byte>>(
    team: &Team<'_, G>,
    first: u32,
    data: &mut [G::Byte],
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    let (rank, size) = (team.rank(), team.size());
    let Some(place) = rank.checked_sub(first) else { return Ok(()) };
    let mut scratch = Scratch::new(data.len());
    let mut distance = 1;
    while distance < size - first {
        let hand_on = async {
            if distance < size - rank { team.send(data, rank + distance).await } else { Ok(()) }
        };
        let take = async {
            if distance <= place {
                team.recv(scratch.bytes(), rank - distance).await
            } else {
                Ok(())
            }
        };
        let (handed_on, taken) = join(hand_on, take).await;
        handed_on.and(taken)?;
        if distance <= place {
            (reduction.combine)(scratch.bytes(), data);
        }
        distance = distance.saturating_mul(2);
    }
    Ok(())
}

/// Every rank sends its data to the next one; then the receivers do a scan among them.
async fn doubling_exclusive<G: Group, F: Combine<G::Byte>>(
    team: &Team<'_, G>,
    data: &mut [G::Byte],
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    let (rank, last) = (team.rank(), team.size() - 1);
    let mut before = Scratch::new(if rank > 0 { data.len() } else { 0 });
    let hand_on = async { if rank < last { team.send(data, rank + 1).await } else { Ok(()) } };
    let take = async { if rank > 0 { team.recv(before.bytes(), rank - 1).await } else { Ok(()) } };
    let (handed_on, taken) = join(hand_on, take).await;
    handed_on.and(taken)?;
    if rank > 0 {
        copy(before.bytes(), data);
    }
    doubling_inclusive(team, 1, data, reduction).await
}

/// Scan from rank to rank: each combines the result of the previous rank with its own data and
/// passes it on, in segments that follow each other. 64 KiB take 23 to 27 us with 4 ranks on two
/// processors of a Xeon, by doubling 41 to 45, in one piece 31 to 36; with 8 ranks 103 to 119, by
/// doubling 167 to 223.
///
/// As in a broadcast through a chain, the last segment is always shorter than the others, and may
/// be empty: ranks that disagree on the length do not wait for one that never arrives.
async fn linear<G: Group, F: Combine<G::Byte>>(
    team: &Team<'_, G>,
    inclusive: bool,
    data: &mut [G::Byte],
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    let (rank, last, length) = (team.rank(), team.size() - 1, data.len());
    // Between two ranks nobody passes anything on.
    let (part, segments) = match team.size() {
        0..=2 => (length, 1),
        _ => {
            let part = (SEGMENT / reduction.width * reduction.width).max(reduction.width);
            (part, length / part + 1)
        }
    };
    // What the ranks before this one have combined: of this step's segment, and of the one before.
    let room = || Scratch::new(if rank > 0 { part.min(length) } else { 0 });
    let (mut now, mut earlier) = (room(), room());
    for step in 0..=segments {
        let coming = segment(length, part, step);
        let gone = segment(length, part, step.saturating_sub(1));
        let take = async {
            match rank.checked_sub(1).filter(|_| step < segments) {
                Some(previous) => team.recv(&mut now.bytes()[..coming.len()], previous).await,
                None => Ok(()),
            }
        };
        let hand_on = async {
            let hands_on = rank < last && step > 0;
            if hands_on { team.send(&data[gone.clone()], rank + 1).await } else { Ok(()) }
        };
        let (taken, handed_on) = join(take, hand_on).await;
        handed_on.and(taken)?;
        if rank > 0 && step > 0 && !inclusive {
            copy(&earlier.bytes()[..gone.len()], &mut data[gone]);
        }
        if rank > 0 && step < segments && (inclusive || rank < last) {
            (reduction.combine)(&mut now.bytes()[..coming.len()], &mut data[coming]);
        }
        std::mem::swap(&mut now, &mut earlier);
    }
    Ok(())
}

/// Scan by lines: every rank writes its data, and combines the data of the ranks up to it. If the
/// data is long, each round has a part of it.
async fn lines<G: Group, F: Combine<G::Byte>>(
    team: &Team<'_, G>,
    inclusive: bool,
    data: &mut [G::Byte],
    reduction: &mut Reduction<F>,
) -> Result<(), Stop<G>> {
    let rounds = LineRounds::begin_all(team).await?;
    let part = rounds.part(PARTS, reduction.width);
    for from in starts(data.len(), part) {
        let range = from..data.len().min(from.saturating_add(part));
        rounds.meet(&[&data[range.clone()]]).await.map_err(|stop| match from {
            0 => stop,
            // Some of the data has been replaced.
            _ => Stop::Failed(stop.into_failure(team)),
        })?;
        rounds.finish(combine(&rounds, inclusive, &mut data[range], reduction))?;
    }
    Ok(())
}

/// The same without waiting, if it is one part and all have contributed.
#[inline(always)]
fn at_once<G: Group, F: Combine<G::Byte>>(
    team: &Team<'_, G>,
    inclusive: bool,
    data: &mut [G::Byte],
    reduction: &mut Reduction<F>,
) -> Option<Result<(), Failure<G>>> {
    let rounds = LineRounds::at_once(team)?;
    if !rounds.is_one_part(data.len(), PARTS, reduction.width) {
        return None;
    }
    match rounds.try_meet(&[data]) {
        Ok(met) => met.map(|()| rounds.finish(combine(&rounds, inclusive, data, reduction))),
        Err(failure) => Some(Err(failure)),
    }
}

/// Combines the contributions of the ranks up to, or before, this one.
///
/// The order is that of [`doubling_inclusive`], so that the bits are the same: a binomial tree that
/// grows from the last rank down, `(0 ∘ 1) ∘ ((2 ∘ 3) ∘ (4 ∘ 5))` for rank 5.
fn combine<G: Group, F: Combine<G::Byte>>(
    rounds: &LineRounds<'_, G>,
    inclusive: bool,
    data: &mut [G::Byte],
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    let count = rounds.place + usize::from(inclusive);
    if count == 0 {
        return Ok(());
    }
    if !inclusive {
        rounds.read(rounds.place - 1, 0, data)?;
    }
    let length = data.len();
    // The first tree is in `data`, the others are here.
    let mut scratch = Scratch::new((digits(count) - 1) * length);
    let mut trees = 1;
    for distance in 1..count {
        let more = scratch.bytes();
        rounds.read(count - 1 - distance, 0, &mut more[(trees - 1) * length..][..length])?;
        trees += 1;
        let is_last = distance + 1 == count;
        let carries = if is_last { trees - 1 } else { (distance + 1).trailing_zeros() as usize };
        for _ in 0..carries {
            trees -= 1;
            let (right, left) = more.split_at_mut((trees - 1) * length);
            let right = if trees == 1 { &mut *data } else { &mut right[(trees - 2) * length..] };
            (reduction.combine)(&left[..length], right);
        }
    }
    Ok(())
}
