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
    let rounds = LineRounds::begin(team).await.map_err(|stop| match team.has_combined().get() {
        // The result has replaced a part of this rank's contribution.
        true => Stop::Failed(stop.into_failure(team)),
        false => stop,
    })?;
    let way = match reads {
        true => LongWay::Read,
        false => rounds.way_of(LongOperation::Allreduce, (data.length(), is_named), 0).await?,
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
        let begins = rounds.begins_with(LongOperation::Allreduce, data.len(), PARTS);
        let fits = from.is_none_or(|from| from.len() == data.len());
        return (begins && fits).then(|| share_at_once(&rounds, from, data, reduction))?;
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
/// in its first round or, if [`Team::has_combined`], in its second.
#[inline(never)]
fn share_at_once<G: Group, F: Combine<G::Byte>>(
    rounds: &LineRounds<'_, G>,
    given: Option<&[G::Byte]>,
    data: &mut [G::Byte],
    reduction: &mut Reduction<F>,
) -> Option<Result<(), Failure<G>>> {
    let (length, width) = (data.len(), reduction.width);
    let share = |place: usize| share(length, width, place, rounds.size);
    let own = share(rounds.place);
    match rounds.try_meet(&[given.unwrap_or(data)]) {
        Ok(met) => met?,
        Err(failure) => return Some(Err(failure)),
    }
    let (given, result) = (given.map(|given| &given[own.clone()]), &mut data[own.clone()]);
    let combined = combine_share(rounds, given, result, (own.start, 0), reduction);
    if let Err(failure) = rounds.finish(combined) {
        return Some(Err(failure));
    }
    rounds.team.has_combined().set(true);
    match rounds.try_meet(&[&data[own]]) {
        Ok(met) => met?,
        Err(failure) => return Some(Err(failure)),
    }
    let read = rounds.others().try_for_each(|place| rounds.read(place, 0, &mut data[share(place)]));
    Some(rounds.finish(read))
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
    let (size, own, width, length) = (rounds.size, rounds.place, reduction.width, data.len());
    let shared_out = length >= SHARE_FROM;
    let share = move |place: usize| match shared_out {
        true => share(length, width, place, size),
        false => 0..length,
    };
    let begun = |stop: Stop<G>| Stop::Failed(stop.into_failure(rounds.team));
    if !rounds.team.has_combined().take() {
        let meet = rounds.meet(&[given.unwrap_or(data)]).await;
        meet.map_err(|stop| if is_first { stop } else { begun(stop) })?;
        let (given, result) = (given.map(|given| &given[share(own)]), &mut data[share(own)]);
        let combined = combine_share(rounds, given, result, (share(own).start, 0), reduction);
        rounds.finish(combined)?;
    }
    if !shared_out {
        return Ok(());
    }
    rounds.meet(&[&data[share(own)]]).await.map_err(begun)?;
    let read = rounds.others().try_for_each(|place| rounds.read(place, 0, &mut data[share(place)]));
    Ok(rounds.finish(read)?)
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
