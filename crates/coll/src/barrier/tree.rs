//! Barrier by a tree: ranks report to their parent and are released by it.
//!
//! With a core for every rank a dissemination barrier has a shorter path, but it wakes every rank
//! log2(n) times; with more ranks than cores the time is the number of context switches, and in a
//! tree of sixteen each rank but the root waits at most twice.

use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;

pub(super) async fn run<G: Group>(team: &Team<'_, G>, arity: u32) -> Result<(), Failure<G>> {
    let (rank, size) = (team.rank(), team.size());
    // One after the other: whoever reports last ends the wait, in whatever order it is noticed.
    for child in children(rank, size, arity) {
        team.recv(&mut [], child).await?;
    }
    if let Some(parent) = rank.checked_sub(1).map(|above| above / arity) {
        team.send(&[], parent).await?;
        team.recv(&mut [], parent).await?;
    }
    for child in children(rank, size, arity) {
        team.send(&[], child).await?;
    }
    Ok(())
}

/// The ranks that report to this one.
fn children(rank: u32, size: u32, arity: u32) -> impl Iterator<Item = u32> {
    let first = u64::from(rank) * u64::from(arity) + 1;
    let last = (first + u64::from(arity)).min(u64::from(size));
    (first..last).map(|child| child as u32)
}
