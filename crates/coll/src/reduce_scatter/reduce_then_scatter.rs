//! Reduce-scatter as a reduce at rank 0 and a scatter from there: the one that keeps the order of
//! the ranks.

use crate::blocks::Blocks;
use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;
use crate::reduce::by_binomial as reduce;
use crate::reduction::Reduction;
use crate::scatter::by_chain as scatter;

pub(super) async fn run<G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    team: &Team<'_, G>,
    data: &mut [G::Byte],
    into: &mut [G::Byte],
    blocks: &Blocks,
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    reduce(team, data, 0, reduction).await?;
    let parts: Vec<&[G::Byte]> = if team.rank() == 0 {
        (0..team.size()).map(|rank| &data[blocks.range(rank)]).collect()
    } else {
        Vec::new()
    };
    scatter(team, &parts, Some(into), 0).await
}
