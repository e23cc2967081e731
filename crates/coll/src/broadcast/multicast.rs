//! Broadcast by one command that the network delivers to all (paper 003, Fig. 9 C).

use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;
use crate::rounds::{Stop, begin_on_network, unless_lost};

pub(super) async fn run<G: Group>(
    team: &Team<'_, G>,
    data: &mut [G::Byte],
    root: u32,
) -> Result<(), Failure<G>> {
    let can = team.group().facilities().multicast;
    team.require(can, "needs ranks that share memory, or a network that multicasts")?;
    if team.rank() == root { team.multicast(data).await } else { team.recv(data, root).await }
}

/// The same by the port's group of all ranks.
pub(super) async fn run_on_network<G: Group>(
    team: &Team<'_, G>,
    data: &mut [G::Byte],
    root: u32,
) -> Result<(), Stop<G>> {
    begin_on_network(team).await?;
    if team.rank() != root {
        return unless_lost(team, team.recv(data, root)).await;
    }
    match unless_lost(team, team.multicast(data)).await {
        // Some may have it already.
        Err(Stop::Lost) => Err(team.lost().into()),
        done => done,
    }
}
