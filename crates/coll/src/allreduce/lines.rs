//! Allreduce by lines. Up to 624 bytes each line carries its rank's elements, and every rank
//! combines all. Larger data: every rank combines one share of all contributions, then all collect
//! the shares.
//!
//! Contributions are combined up a binomial tree, `((0 ∘ 1) ∘ (2 ∘ 3)) ∘ ...`, and each result
//! either by one rank or by all in the same way: every rank has the same bits, and operations need
//! not be commutative. Over several nodes the leaders combine the results of their nodes, and each
//! passes the result on. After lines are lost, messages combine in the same order: see
//! [`crate::select`].

use std::ops::Range;

use crate::call::Team;
use crate::combine::{Combine, LINE, PARTS, Reduction, combine, combine_share, combine_whole};
use crate::doubling::recursive_doubling;
use crate::error::Failure;
use crate::group::Group;
use crate::long::{LongOperation, LongWay};
use crate::part::Data;
use crate::rounds::{LineRounds, Stop, starts};

use super::{in_one_piece, read};

/// From this many bytes on the ranks share the work.
const SHARE_FROM: usize = 2 << 10;

/// `from`: this rank's contribution, if it is not in `data`.
#[inline(always)]
pub(super) async fn run<G: Group, D: Data<G::Byte> + ?Sized, F: Combine<G::Byte>>(
    team: &Team<'_, G>,
    from: Option<&[G::Byte]>,
    data: &mut D,
    reduction: &mut Reduction<F>,
    (reads, is_named): (bool, bool),
) -> Result<(), Stop<G>> {
    let rounds = LineRounds::begin(team).await?;
    let (rounds, way) = match reads {
        true => (rounds, LongWay::Read),
        false => rounds.way_of(LongOperation::Allreduce, (data.length(), is_named)),
    };
    if way == LongWay::Read && read::run(&rounds, from, data.whole_mut(), reduction).await? {
        return Ok(());
    }
    match data.whole_mut() {
        Some(data) if data.len() <= LINE => {
            rounds.meet(&[data]).await?;
            combine(&rounds, data, 0, reduction)?;
        }
        _ => combine_parts(&rounds, from, data, reduction).await?,
    }
    if !rounds.mates.are_all() {
        across(&rounds, data, reduction).await?;
    }
    Ok(())
}

/// The same without a long wait, if it is one part whose way is not asked for.
#[inline(always)]
pub(super) fn at_once<G: Group, D: Data<G::Byte> + ?Sized, F: Combine<G::Byte>>(
    team: &Team<'_, G>,
    from: Option<&[G::Byte]>,
    data: &mut D,
    reduction: &mut Reduction<F>,
) -> Option<Result<(), Failure<G>>> {
    let data = data.whole_mut()?;
    if let Err(failure) = team.check_elements(data.len(), reduction.width) {
        return Some(Err(failure));
    }
    let rounds = LineRounds::at_once(team)?;
    if !rounds.is_one_part(data.len(), PARTS, reduction.width) {
        return None;
    }
    if data.len() >= SHARE_FROM && rounds.size > 1 {
        let differs = from.is_some_and(|from| from.len() != data.len());
        if differs || rounds.asks(LongOperation::Allreduce, data.len()) {
            return None;
        }
        return share_at_once(&rounds, from, data, reduction);
    }
    if from.is_some() {
        return None;
    }
    match rounds.try_meet(&[data]) {
        Ok(met) => met.map(|_| combine_whole(&rounds, None, data, 0, reduction)),
        Err(failure) => Some(Err(failure)),
    }
}

/// [`combine_part`] of data that is shared out. `None`: the call continues where this has stopped,
/// in its first round or, if [`Team::rounds_over`] says so, in its second.
#[inline(never)]
fn share_at_once<G: Group, F: Combine<G::Byte>>(
    rounds: &LineRounds<'_, G>,
    given: Option<&[G::Byte]>,
    data: &mut [G::Byte],
    reduction: &mut Reduction<F>,
) -> Option<Result<(), Failure<G>>> {
    let own = share(data.len(), reduction.width, rounds.place, rounds.size);
    match rounds.try_meet(&[given.unwrap_or(data)]) {
        Ok(met) => met?,
        Err(failure) => return Some(Err(failure)),
    }
    if let Err(failure) = combine_own(rounds, given, data, own.clone(), reduction) {
        return Some(Err(failure));
    }
    rounds.team.rounds_over().set(1);
    match rounds.try_meet(&[&data[own]]) {
        Ok(met) => met.map(|()| collect_shares(rounds, data, reduction.width)),
        Err(failure) => Some(Err(failure)),
    }
}

#[inline(never)]
async fn combine_parts<G: Group, D: Data<G::Byte> + ?Sized, F: Combine<G::Byte>>(
    rounds: &LineRounds<'_, G>,
    given: Option<&[G::Byte]>,
    data: &mut D,
    reduction: &mut Reduction<F>,
) -> Result<(), Stop<G>> {
    let part = rounds.part(PARTS, reduction.width);
    let mut packet = Vec::new();
    for from in starts(data.length(), part) {
        let range = from..data.length().min(from.saturating_add(part));
        let given = given.map(|given| &given[range.clone()]);
        let data_part = data.change(range, &mut packet);
        combine_part(rounds, given, data_part, reduction, from == 0).await?;
        data.settle(from, &packet);
    }
    Ok(())
}

/// Combines one part: first this rank's share of all contributions, then it collects the others'
/// shares. Every rank combines all of a small part.
async fn combine_part<G: Group, F: Combine<G::Byte>>(
    rounds: &LineRounds<'_, G>,
    given: Option<&[G::Byte]>,
    data: &mut [G::Byte],
    reduction: &mut Reduction<F>,
    is_first: bool,
) -> Result<(), Stop<G>> {
    let shared_out = data.len() >= SHARE_FROM;
    let own = match shared_out {
        true => share(data.len(), reduction.width, rounds.place, rounds.size),
        false => 0..data.len(),
    };
    let begun = |stop: Stop<G>| Stop::Failed(stop.into_failure(rounds.team));
    if rounds.team.rounds_over().take() == 0 {
        let meet = rounds.meet(&[given.unwrap_or(data)]).await;
        meet.map_err(|stop| if is_first { stop } else { begun(stop) })?;
        combine_own(rounds, given, data, own.clone(), reduction)?;
    }
    if !shared_out {
        return Ok(());
    }
    rounds.meet(&[&data[own]]).await.map_err(begun)?;
    Ok(collect_shares(rounds, data, reduction.width)?)
}

/// Combines this rank's share `own` of all contributions, once all ranks have met, and ends the
/// round.
fn combine_own<G: Group, F: Combine<G::Byte>>(
    rounds: &LineRounds<'_, G>,
    given: Option<&[G::Byte]>,
    data: &mut [G::Byte],
    own: Range<usize>,
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    let (given, result) = (given.map(|given| &given[own.clone()]), &mut data[own.clone()]);
    let combined = combine_share(rounds, given, result, (own.start, 0), reduction);
    rounds.finish(combined)
}

/// Reads the others' shares of the result, once all ranks have met, and ends the round.
fn collect_shares<G: Group>(
    rounds: &LineRounds<'_, G>,
    data: &mut [G::Byte],
    width: usize,
) -> Result<(), Failure<G>> {
    let length = data.len();
    let read = rounds.others().try_for_each(|place| {
        rounds.read(place, 0, &mut data[share(length, width, place, rounds.size)])
    });
    rounds.finish(read)
}

/// The share of the rank at `place` in `length` bytes, in whole elements of `width`.
pub(super) fn share(length: usize, width: usize, place: usize, size: usize) -> Range<usize> {
    let elements = length / width;
    elements * place / size * width..elements * (place + 1) / size * width
}

#[inline(never)]
async fn across<G: Group, D: Data<G::Byte> + ?Sized, F: Combine<G::Byte>>(
    rounds: &LineRounds<'_, G>,
    data: &mut D,
    reduction: &mut Reduction<F>,
) -> Result<(), Stop<G>> {
    let begun = |stop: Stop<G>| Stop::Failed(stop.into_failure(rounds.team));
    if rounds.place == 0 {
        let leaders = rounds.team.among(rounds.mates.leaders(), rounds.mates.own() as u32);
        let combined = match data.whole_mut() {
            Some(data) => rounds.unless_lost(recursive_doubling(&leaders, data, reduction)).await,
            None => {
                let act =
                    async |data: &mut [_]| recursive_doubling(&leaders, data, reduction).await;
                rounds.unless_lost(Box::pin(in_one_piece(data, act))).await
            }
        };
        combined.map_err(begun)?;
    }
    rounds.broadcast_of(data, 0).await.map_err(begun)
}
