//! Reduce-scatter by reading: everyone combines its block out of all others' memory, in the order
//! in which [`super::pairwise`] gets them, so that the bits are the same.

use crate::blocks::Blocks;
use crate::call::Team;
use crate::group::Group;
use crate::reduction::Reduction;
use crate::rounds::{Rounds, Stop};
use crate::scratch::Scratch;

/// Bytes that are combined at a time: in the caches, and long against what a copy costs to ask for.
const PIECE: usize = 64 << 10;

/// `false`: they cannot be read.
pub(super) async fn run<G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    team: &Team<'_, G>,
    data: &[G::Byte],
    into: &mut [G::Byte],
    blocks: &Blocks,
    reduction: &mut Reduction<F>,
) -> Result<bool, Stop<G>> {
    team.require(reduction.commutative, "needs a commutative reduction")?;
    let rounds = Rounds::begin(team).await?;
    let Some(memory) = rounds.show(data).await? else { return Ok(false) };
    let own = blocks.range(team.rank());
    into.copy_from_slice(&data[own.clone()]);
    let piece = (PIECE / reduction.width * reduction.width).max(reduction.width);
    let mut scratch = Scratch::new(piece.min(into.len()));
    for (at, into) in into.chunks_mut(piece).enumerate() {
        let theirs = &mut scratch.bytes()[..into.len()];
        for step in 1..team.size() {
            memory.read(team.before(step) as usize, own.start + at * piece, theirs)?;
            (reduction.combine)(theirs, into);
        }
    }
    memory.end().await
}
