//! Allgather round a ring: in each step every rank passes on the part that it got last.

use crate::blocks::{Blocks, disjoint};
use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;

pub(super) async fn run<G: Group>(
    team: &Team<'_, G>,
    data: &mut [G::Byte],
    blocks: &Blocks,
) -> Result<(), Failure<G>> {
    let (next, previous) = (team.after(1), team.before(1));
    for step in 0..team.size() - 1 {
        let goes = blocks.range(team.before(step));
        let comes = blocks.range(team.before(step + 1));
        let (goes, comes) = disjoint(data, goes, comes);
        team.exchange(goes, next, comes, previous).await?;
    }
    Ok(())
}
