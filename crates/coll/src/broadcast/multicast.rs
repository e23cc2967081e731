//! Broadcast by one command that the network delivers to all (paper 003, Fig. 9 C).

use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;
use crate::part::Data;
use crate::rounds::{Stop, begin_on_network, unless_lost};

pub(super) async fn run<G: Group, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    data: &mut D,
    root: u32,
) -> Result<(), Failure<G>> {
    let can = team.group().facilities().multicast;
    team.require(can, "needs ranks that share memory, or a network that multicasts")?;
    if team.rank() == root { to_all(team, data).await } else { receive(team, data, root).await }
}

/// One command cannot have data with gaps: they go as messages.
async fn to_all<G: Group, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    data: &mut D,
) -> Result<(), Failure<G>> {
    match data.whole() {
        Some(bytes) => team.multicast(bytes).await,
        None => {
            let part = |distance| (team.after(distance), data.all());
            team.send_parts((1..team.size()).map(part).collect()).await
        }
    }
}

fn receive<G: Group, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    data: &mut D,
    root: u32,
) -> impl Future<Output = Result<(), Failure<G>>> {
    team.recv_part(data.all_places(), root)
}

/// The same by the port's group of all ranks.
pub(super) async fn run_on_network<G: Group, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    data: &mut D,
    root: u32,
) -> Result<(), Stop<G>> {
    begin_on_network(team).await?;
    if team.rank() != root {
        return unless_lost(team, receive(team, data, root)).await;
    }
    match unless_lost(team, to_all(team, data)).await {
        // Some may have it already.
        Err(Stop::Lost) => Err(team.lost().into()),
        done => done,
    }
}
