//! Reduce at the root, one rank after the other: `x0 ∘ (x1 ∘ (x2 ∘ …))`.
//!
//! From the last rank to the first, because what is combined on the left needs no copy.

use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;
use crate::reduction::Reduction;
use crate::scratch::Scratch;

pub(super) async fn run<G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    team: &Team<'_, G>,
    data: &mut [G::Byte],
    root: u32,
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    if team.rank() != root {
        return team.send(data, root).await;
    }
    let (mut value, mut part) = (Scratch::new(data.len()), Scratch::new(data.len()));
    let last = team.size() - 1;
    for rank in (0..team.size()).rev() {
        match (rank == root, rank == last) {
            (true, true) => value.bytes().copy_from_slice(data),
            (true, false) => (reduction.combine)(data, value.bytes()),
            (false, true) => team.recv(value.bytes(), rank).await?,
            (false, false) => {
                team.recv(part.bytes(), rank).await?;
                (reduction.combine)(part.bytes(), value.bytes());
            }
        }
    }
    data.copy_from_slice(value.bytes());
    Ok(())
}
