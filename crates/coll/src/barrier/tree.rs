//! Barrier by a tree of sixteen.
//!
//! Ranks report to their parent and are released by it. A dissemination barrier has a shorter path
//! when every rank has a core, but wakes every rank log2(n) times; with more ranks than cores the
//! time is the number of context switches, and here each rank but the root waits at most twice.

use std::future::Future;

use hikyaku_nic::fabric::{Port, Rank};

use hikyaku_msg::Endpoint;
use hikyaku_msg::MsgError;

/// Children of one rank.
const ARITY: u32 = 16;

/// Returns when every rank has called it (MPI 5.0 §6.3).
///
/// Cost: 2 log16(n) messages of no bytes on the longest path, 2 (n - 1) in all.
///
/// # Errors
/// [`MsgError`] of the messages it consists of: a rank is gone.
pub fn barrier<'e, P: Port>(
    endpoint: &Endpoint<'e, P>,
) -> impl Future<Output = Result<(), MsgError>> + use<'e, P> {
    let (endpoint, tag) = (*endpoint, endpoint.next_tag());
    async move {
        let (rank, size) = (endpoint.rank(), endpoint.size());
        // One after the other: whoever reports last ends the wait, in whatever order it is noticed.
        for child in children(rank, size) {
            endpoint.recv(&mut [], Some(child), Some(tag)).await?;
        }
        if let Some(parent) = rank.checked_sub(1).map(|above| above / ARITY) {
            endpoint.send(&[], parent, tag).await?;
            endpoint.recv(&mut [], Some(parent), Some(tag)).await?;
        }
        for child in children(rank, size) {
            endpoint.send(&[], child, tag).await?;
        }
        Ok(())
    }
}

/// The ranks that report to this one.
fn children(rank: Rank, size: u32) -> impl Iterator<Item = Rank> {
    let first = u64::from(rank) * u64::from(ARITY) + 1;
    let last = (first + u64::from(ARITY)).min(u64::from(size));
    (first..last).map(|child| child as Rank)
}
