//! Allgather by Bruck's algorithm (Bruck et al. 1997): with any number of ranks, ⌈log2 n⌉ steps.
//!
//! A rank works on an array that starts with its own part, followed by those of the ranks after it.
//! In each step it sends the front of it as many ranks back as parts are full, and what comes from
//! as many ranks ahead goes behind them. In the end the array is turned into rank order.

use crate::blocks::{Blocks, disjoint};
use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;

pub(super) async fn run<G: Group>(
    team: &Team<'_, G>,
    data: &mut [G::Byte],
    blocks: &Blocks,
) -> Result<(), Failure<G>> {
    let (rank, size) = (team.rank(), team.size());
    let bytes = |first: u32, count: u32| blocks.run(first, count, size);
    let mut turned = vec![G::Byte::default(); data.len()];
    let own = blocks.range(rank);
    turned[..own.len()].copy_from_slice(&data[own]);
    let mut full = 1;
    while full < size {
        let count = full.min(size - full);
        let (to, from) = (team.before(full), team.after(full));
        let start = bytes(rank, full);
        // What goes are `count` parts from this rank on, what comes `count` from `from` on.
        let comes = start..start + bytes(from, count);
        let (goes, comes) = disjoint(&mut turned, 0..bytes(rank, count), comes);
        team.exchange(goes, to, comes, from).await?;
        full += count;
    }
    let front = blocks.offset(rank);
    let (from_here, before) = turned.split_at(data.len() - front);
    data[front..].copy_from_slice(from_here);
    data[..front].copy_from_slice(before);
    Ok(())
}
