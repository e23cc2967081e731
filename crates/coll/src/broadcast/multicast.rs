//! Broadcast by one command that the network delivers to all (paper 003, Fig. 9 C).

use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;

pub(super) async fn run<G: Group>(
    team: &Team<'_, G>,
    data: &mut [G::Byte],
    root: u32,
) -> Result<(), Failure<G>> {
    let can = team.group().facilities().multicast;
    team.require(can, "needs a network that multicasts")?;
    if team.rank() == root { team.multicast(data).await } else { team.recv(data, root).await }
}
