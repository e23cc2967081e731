//! Broadcast from the root to each rank: paper 004's ONE2ALL-PP.

use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;

pub(super) async fn run<G: Group>(
    team: &Team<'_, G>,
    data: &mut [G::Byte],
    root: u32,
) -> Result<(), Failure<G>> {
    if team.rank() != root {
        return team.recv(data, root).await;
    }
    for distance in 1..team.size() {
        team.send(data, team.after(distance)).await?;
    }
    Ok(())
}
