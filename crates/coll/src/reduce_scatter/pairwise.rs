//! Reduce-scatter by exchanges at distance 1, 2, 3, …: each rank hands every other its block and
//! combines what it gets for its own, in an order that depends on the rank.

use crate::blocks::Blocks;
use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;
use crate::reduction::Reduction;
use crate::scratch::Scratch;

pub(super) async fn run<G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    team: &Team<'_, G>,
    data: &[G::Byte],
    into: &mut [G::Byte],
    blocks: &Blocks,
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    team.require(reduction.commutative, "needs a commutative reduction")?;
    let mut scratch = Scratch::new(into.len());
    into.copy_from_slice(&data[blocks.range(team.rank())]);
    for step in 1..team.size() {
        let (to, from) = (team.after(step), team.before(step));
        team.exchange(&data[blocks.range(to)], to, scratch.bytes(), from).await?;
        (reduction.combine)(scratch.bytes(), into);
    }
    Ok(())
}
