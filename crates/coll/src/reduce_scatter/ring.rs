//! Reduce-scatter round a ring: block `b` starts at rank `b + 1`, is combined with what each rank
//! has, and arrives at rank `b` last.

use crate::blocks::Blocks;
use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;
use crate::reduction::Reduction;
use crate::scratch::Scratch;

pub(super) async fn run<G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    team: &Team<'_, G>,
    data: &mut [G::Byte],
    into: &mut [G::Byte],
    blocks: &Blocks,
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    team.require(reduction.commutative, "needs a commutative reduction")?;
    let size = team.size();
    let (next, previous) = (team.after(1), team.before(1));
    let longest = (0..size).map(|rank| blocks.length(rank)).max().unwrap_or(0);
    let mut scratch = Scratch::new(longest);
    for step in 1..size {
        let goes = blocks.range(team.before(step));
        let comes = blocks.range(team.before(step + 1));
        let part = &mut scratch.bytes()[..comes.len()];
        team.exchange(&data[goes], next, part, previous).await?;
        (reduction.combine)(part, &mut data[comes]);
    }
    into.copy_from_slice(&data[blocks.range(team.rank())]);
    Ok(())
}
