//! Allreduce round a ring: every rank combines one block of the array, then the blocks go round.
//!
//! ```text
//!   blocks of 3 ranks, each passing on to the next:
//!   combine:  rank r adds what it has to block r - 1 - s in step s; in the end it has block r + 1
//!   hand out: block r + 1 - s goes on in step s, and everybody has all
//! ```
//!
//! Every byte crosses each link about twice whatever the number of ranks, which is the least there
//! can be (Patarasu, Yuan 2009). A block is combined once, along one way round, so all ranks have
//! the same bits; but it starts at a different rank for each block, so the reduction must be
//! commutative.

use crate::blocks::{Blocks, disjoint};
use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;
use crate::reduction::Reduction;
use crate::scratch::Scratch;

pub(super) async fn run<G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    team: &Team<'_, G>,
    data: &mut [G::Byte],
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    team.require(reduction.commutative, "needs a commutative reduction")?;
    let size = team.size();
    let blocks = Blocks::even(data.len(), reduction.width, size);
    let (next, previous) = (team.after(1), team.before(1));
    let mut scratch = Scratch::new(blocks.length(0));
    for step in 0..size - 1 {
        let (goes, comes) = (blocks.range(team.before(step)), team.before(step + 1));
        let part = &mut scratch.bytes()[..blocks.length(comes)];
        team.exchange(&data[goes], next, part, previous).await?;
        (reduction.combine)(part, &mut data[blocks.range(comes)]);
    }
    for step in 0..size - 1 {
        let (goes, comes) = (team.before((step + size - 1) % size), team.before(step));
        let (goes, comes) = disjoint(data, blocks.range(goes), blocks.range(comes));
        team.exchange(goes, next, comes, previous).await?;
    }
    Ok(())
}
