//! Allreduce in two levels: within each node to its first rank, between those, and back.
//!
//! Only one rank of each node uses the network, once. The order of the ranks is kept if each node's
//! ranks follow each other.

use crate::broadcast::by_binomial as broadcast;
use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;
use crate::layout::NodeLayout;
use crate::reduce::by_binomial as reduce;
use crate::reduction::Reduction;

use super::recursive_doubling;

pub(super) async fn run<G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    team: &Team<'_, G>,
    data: &mut [G::Byte],
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    let layout = NodeLayout::of(team.group());
    let in_order = reduction.commutative || layout.in_order;
    team.require(in_order, "needs nodes of consecutive ranks for an ordered reduction")?;
    let node = team.among(&layout.mates, layout.place);
    reduce(&node, data, 0, reduction).await?;
    if let Some(place) = layout.as_leader(team.rank()) {
        let leaders = team.among(&layout.leaders, place);
        recursive_doubling::run(&leaders, data, reduction).await?;
    }
    broadcast(&node, data, 0).await
}
