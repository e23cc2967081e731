//! Barrier: nobody leaves before all have come (MPI 5.0 §6.3).
//!
//! The five of paper 003, Fig. 10, which names them A to E, and two of today's libraries. What each
//! needs of the interface and costs:
//!
//! | algorithm | needs | longest path | messages in all |
//! |---|---|---|---|
//! | wide-tree | | 2 log16 n | 2 (n - 1) |
//! | binary-tree (B) | | 2 log2 n | 2 (n - 1) |
//! | dissemination | | log2 n | n log2 n |
//! | all-to-all (A) | | 1, and n - 1 sends | n (n - 1) |
//! | atomic-add (C) | counters | 1, and n adds | n² adds |
//! | multicast-add (D) | multicast to counters | 1 | n commands |
//! | sync (E) | network synchronisation | 1 | n commands |

mod all_to_all;
mod counters;
mod dissemination;
mod tree;

use std::future::Future;

use crate::call::Call;
use crate::error::Failure;
use crate::group::Group;
use crate::names::{Operation, algorithms};
use crate::select;

algorithms! {
    "The ways to make a barrier."
    /// Reports up a tree of sixteen and releases down.
    WideTree = "wide-tree",
    /// The same by a tree of two (paper 003, Fig. 10 B).
    BinaryTree = "binary-tree",
    /// In round k everyone tells the rank 2^k further on (Hensgen, Finkel, Manber 1988).
    Dissemination = "dissemination",
    /// Everyone tells everyone by messages (Fig. 10 A).
    AllToAll = "all-to-all",
    /// Everyone adds to everyone's counter (Fig. 10 C).
    AtomicAdd = "atomic-add",
    /// Everyone adds to all counters by one multicast (Fig. 10 D).
    MulticastAdd = "multicast-add",
    /// The network counts who has come (Fig. 10 E).
    Sync = "sync",
}

/// Returns when every rank has called it.
///
/// # Errors
/// [`crate::CollError`]: a rank is gone or gave up, or the group lacks what `algorithm` needs.
pub fn barrier<G: Group>(
    group: &G,
    algorithm: Option<Algorithm>,
) -> impl Future<Output = Result<(), Failure<G>>> {
    let algorithm = algorithm.unwrap_or_else(|| select::for_barrier(group));
    let call = Call::new(group, Operation::Barrier, algorithm as usize);
    let facilities = group.facilities();
    // Adds have no tag: the place among them is taken at the call, as the tag is.
    let counted = match algorithm {
        Algorithm::AtomicAdd => facilities.counter,
        Algorithm::MulticastAdd => facilities.multicast_counter,
        _ => false,
    };
    let taken = counted.then(|| group.take(u64::from(group.size())));
    let synchronised = (algorithm == Algorithm::Sync && facilities.sync).then(|| group.sync());
    call.run(async move |team| match algorithm {
        Algorithm::WideTree => tree::run(team, 16).await,
        Algorithm::BinaryTree => tree::run(team, 2).await,
        Algorithm::Dissemination => dissemination::run(team).await,
        Algorithm::AllToAll => all_to_all::run(team).await,
        Algorithm::AtomicAdd => counters::one_by_one(team, taken).await,
        Algorithm::MulticastAdd => counters::by_multicast(team, taken).await,
        Algorithm::Sync => match synchronised {
            Some(all) => Ok(all.await?),
            None => team.require(false, "needs a network that synchronises"),
        },
    })
}
