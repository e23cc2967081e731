//! Broadcast by lines: the root writes, all read, in parts; the root is a few parts ahead. Over
//! several nodes its leader sends to the others' leaders, which hand on.

use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;
use crate::part::Data;
use crate::rounds::{LineRounds, Stop};

use super::{binomial, read};

#[inline(always)]
pub(super) async fn run<G: Group, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    data: &mut D,
    root: u32,
    reads: bool,
) -> Result<(), Stop<G>> {
    let rounds = LineRounds::begin(team).await?;
    if reads && read::run(&rounds, data, root as usize).await? {
        return Ok(());
    }
    if rounds.mates.are_all() {
        return rounds.broadcast_of(data, root as usize).await;
    }
    across(&rounds, data, root).await
}

/// The same without waiting, if it is one part that is there.
#[inline(always)]
pub(super) fn at_once<G: Group, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    data: &mut D,
    root: u32,
) -> Option<Result<(), Failure<G>>> {
    if let Err(failure) = team.check_root(root) {
        return Some(Err(failure));
    }
    let (rounds, data) = (LineRounds::at_once(team)?, data.whole_mut()?);
    if !rounds.is_one_part(data.len()) {
        return None;
    }
    rounds.try_broadcast(data, root as usize)
}

#[inline(never)]
async fn across<G: Group, D: Data<G::Byte> + ?Sized>(
    rounds: &LineRounds<'_, G>,
    data: &mut D,
    root: u32,
) -> Result<(), Stop<G>> {
    let mates = rounds.mates;
    let is_near = mates.ranks().contains(&root);
    if is_near {
        rounds.broadcast_of(data, (root - mates.ranks().start) as usize).await?;
    }
    if rounds.place == 0 {
        let leaders = rounds.team.among(mates.leaders(), mates.own() as u32);
        let sent = binomial::run(&leaders, data, mates.leader_of(root) as u32);
        rounds.unless_lost(sent).await.map_err(|stop| match is_near {
            true => stop.into_failure(rounds.team).into(),
            false => stop,
        })?;
    }
    if is_near { Ok(()) } else { rounds.broadcast_of(data, 0).await }
}
