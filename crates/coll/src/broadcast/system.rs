//! Broadcast along the dimensions of the network: paper 004's ONE2ALL-SYS.
//!
//! ```text
//!   root's line along x      every line along y of those      every line along z of those
//!   r ─► o ─► o ─► o         each of them starts a chain      each of all starts a chain
//! ```
//!
//! In the paper the system software of each node passes the data on along crossbars, three
//! transfers in all; here a rank passes it to the next of its line, and the first of a line is
//! the ranks that got it in the dimension before.

use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;
use crate::part::Data;

pub(super) async fn run<G: Group, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    data: &mut D,
    root: u32,
) -> Result<(), Failure<G>> {
    let shape = team.group().shape();
    let (here, start) = (position(team.rank(), shape), position(root, shape));
    // The dimension in which this rank gets the data: the last in which it is not the root's.
    let got = (0..3).rev().find(|dimension| here[*dimension] != start[*dimension]);
    if let Some(dimension) = got {
        let previous = neighbour(here, shape, dimension, shape[dimension] - 1);
        team.recv_part(data.all_places(), previous).await?;
    }
    // On along its own line, then the chains of the dimensions that follow.
    let next = |dimension: usize| {
        let next = neighbour(here, shape, dimension, 1);
        let ends = position(next, shape)[dimension] == start[dimension];
        (!ends).then(|| (next, data.all()))
    };
    team.send_parts((got.unwrap_or(0)..3).filter_map(next).collect()).await
}

/// Where a rank stands.
fn position(rank: u32, [a, b, _]: [u32; 3]) -> [u32; 3] {
    [rank % a, rank / a % b, rank / a / b]
}

/// The rank `steps` further on in one dimension, counting on from 0 after the last.
fn neighbour(mut at: [u32; 3], shape: [u32; 3], dimension: usize, steps: u32) -> u32 {
    at[dimension] = (at[dimension] + steps) % shape[dimension];
    at[0] + shape[0] * (at[1] + shape[1] * at[2])
}
