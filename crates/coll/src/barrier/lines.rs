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
    rounds.meet(&[]).await?;
    rounds.finish(Ok(()))?;
    if rounds.mates.are_all() { Ok(()) } else { across(&rounds).await }
}

/// The same without waiting, if all are there.
#[inline(always)]
pub(super) fn at_once<G: Group>(team: &Team<'_, G>) -> Option<Result<(), Failure<G>>> {
    let rounds = LineRounds::at_once(team)?;
    match rounds.try_meet(&[]) {
        Ok(met) => met.map(|()| rounds.finish(Ok(()))),
        Err(failure) => Some(Err(failure)),
    }
}

#[inline(never)]
async fn across<G: Group>(rounds: &LineRounds<'_, G>) -> Result<(), Stop<G>> {
    if rounds.place == 0 {
        let leaders = rounds.team.among(rounds.mates.leaders(), rounds.mates.own() as u32);
        rounds.unless_lost(tree::run(&leaders, ARITY)).await?;
    }
    rounds.broadcast(&mut [], 0).await
}
