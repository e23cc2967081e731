//! Broadcast from the root to each rank: paper 004's ONE2ALL-PP.

use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;
use crate::part::Data;

pub(super) async fn run<G: Group, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    data: &mut D,
    root: u32,
) -> Result<(), Failure<G>> {
    if team.rank() != root {
        return team.recv_part(data.all_places(), root).await;
    }
    for distance in 1..team.size() {
        team.send_part(data.all(), team.after(distance)).await?;
    }
    Ok(())
}
