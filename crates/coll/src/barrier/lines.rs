//! Barrier by lines: every rank enters a round and waits until all have. Over several nodes the
//! leaders then wait for each other, and each lets its node go.

use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;
use crate::rounds::{LineRounds, Stop};

use super::tree;

/// Children of a leader: all others.
const ARITY: u32 = 16;

#[inline(always)]
pub(super) async fn run<G: Group>(team: &Team<'_, G>) -> Result<(), Stop<G>> {
    let rounds = LineRounds::begin(team).await?;
    let same = rounds.meet(&[]).await?;
    part(&rounds, same)?;
    if rounds.mates.are_all() { Ok(()) } else { across(&rounds).await }
}

/// The same without waiting, if all are there.
#[inline(always)]
pub(super) fn at_once<G: Group>(team: &Team<'_, G>) -> Option<Result<(), Failure<G>>> {
    let rounds = LineRounds::at_once(team)?;
    match rounds.try_meet(&[]) {
        Ok(met) => met.map(|same| part(&rounds, same)),
        Err(failure) => Some(Err(failure)),
    }
}

/// All have come. `same`: to this call.
#[inline(always)]
fn part<G: Group>(rounds: &LineRounds<'_, G>, same: bool) -> Result<(), Failure<G>> {
    rounds.finish(if same { Ok(()) } else { who_differs(rounds) })
}

#[cold]
fn who_differs<G: Group>(rounds: &LineRounds<'_, G>) -> Result<(), Failure<G>> {
    let mut others = (0..rounds.size).filter(|place| *place != rounds.place);
    others.try_for_each(|place| rounds.read(place, 0, &mut []))
}

#[inline(never)]
async fn across<G: Group>(rounds: &LineRounds<'_, G>) -> Result<(), Stop<G>> {
    if rounds.place == 0 {
        let leaders = rounds.team.among(rounds.mates.leaders(), rounds.mates.own() as u32);
        rounds.unless_lost(tree::run(&leaders, ARITY)).await?;
    }
    rounds.broadcast(&mut [], 0).await
}
