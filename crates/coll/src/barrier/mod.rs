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
//! | lines | lines that ranks of a node share | 1 look at all; 2 messages between nodes | |

mod all_to_all;
mod counters;
mod dissemination;
mod lines;
mod network;
mod tree;

use std::future::Future;

use crate::call::{Begun, Call};
use crate::error::Failure;
use crate::group::Group;
use crate::names::Operation;
use crate::rounds::{NEEDS_LINES, Stop};
use crate::select;
use crate::signature::Signature;

use hikyaku_nic::fabric::SYNC_MEMBERS;

pub use crate::algorithms::barrier::Algorithm;

/// Returns when every rank has called it.
///
/// # Errors
/// [`crate::CollError`]: a rank is gone or gave up, or the group lacks what `algorithm` needs.
pub fn barrier<G: Group>(
    group: &G,
    algorithm: Option<Algorithm>,
) -> impl Future<Output = Result<(), Failure<G>>> {
    begin_barrier(group, algorithm).end()
}

/// The same, which takes its place among the group's calls here, and is entered when it is first
/// polled: what a rank does before that is done when others leave.
///
/// # Errors
/// As there.
pub fn open_barrier<G: Group>(
    group: &G,
    algorithm: Option<Algorithm>,
) -> impl Future<Output = Result<(), Failure<G>>> {
    let (algorithm, shared) = chosen(group, algorithm);
    let signature = Signature::new(Operation::Barrier);
    let call = Call::new_on(group, signature, algorithm as usize, shared);
    run(group, call, algorithm, shared)
}

/// Starts [`barrier()`]: it may be over.
///
/// # Errors
/// As there.
#[inline]
pub fn begin_barrier<G: Group>(
    group: &G,
    algorithm: Option<Algorithm>,
) -> Begun<Result<(), Failure<G>>, impl Future<Output = Result<(), Failure<G>>>> {
    let (algorithm, shared) = chosen(group, algorithm);
    let signature = Signature::new(Operation::Barrier);
    if algorithm != Algorithm::Lines {
        let call = Call::new_on(group, signature, algorithm as usize, shared);
        return Begun::Waits(run(group, call, algorithm, shared));
    }
    Call::on_lines(group, signature, algorithm as usize, lines::at_once)
        .or_start(|call| run(group, call, algorithm, shared))
}

/// The algorithm, and whether it takes turns on memory that ranks share.
#[inline]
fn chosen<G: Group>(group: &G, named: Option<Algorithm>) -> (Algorithm, bool) {
    match named {
        Some(by @ (Algorithm::Sync | Algorithm::AtomicAdd | Algorithm::MulticastAdd)) => {
            on_network(group, by)
        }
        _ => {
            let is_lines = |by: &Algorithm| *by == Algorithm::Lines;
            let by = select::resolve(group, named, is_lines, || select::for_barrier(group));
            (by, by == Algorithm::Lines)
        }
    }
}

/// The same for an algorithm that messages cannot do.
#[cold]
fn on_network<G: Group>(group: &G, by: Algorithm) -> (Algorithm, bool) {
    match select::on_network(group, by) {
        (None, _) => chosen(group, None),
        // Paper 003: a sync id is for few, and more synchronise by multicast and atomic add.
        (Some(Algorithm::Sync), true) if group.size() as usize > SYNC_MEMBERS => {
            (Algorithm::MulticastAdd, true)
        }
        (Some(by), shared) => (by, shared),
    }
}

fn run<'g, G: Group>(
    group: &'g G,
    call: Call<'g, G>,
    algorithm: Algorithm,
    shared: bool,
) -> impl Future<Output = Result<(), Failure<G>>> {
    let facilities = group.facilities();
    // Adds have no tag: the place among them is taken at the call, as the tag is.
    let counted = match algorithm {
        Algorithm::AtomicAdd => facilities.counter,
        Algorithm::MulticastAdd => facilities.multicast_counter,
        _ => false,
    };
    let taken = counted.then(|| group.take(u64::from(group.size())));
    let synchronised = (algorithm == Algorithm::Sync && facilities.sync).then(|| group.sync());
    call.run(async move |team| {
        let mut algorithm = algorithm;
        if shared {
            let done = match algorithm {
                Algorithm::Lines => lines::run(team).await,
                // Apart, so that it takes no room in the future of every barrier.
                _ => Box::pin(network::run(team, algorithm)).await,
            };
            match done {
                Err(Stop::Lost) => algorithm = select::for_barrier_by_messages(group),
                Err(Stop::Failed(failure)) => return Err(failure),
                Ok(()) => return Ok(()),
            }
            team.without_lines(algorithm as usize)?;
        }
        match algorithm {
            Algorithm::WideTree => tree::run(team, 16).await,
            Algorithm::BinaryTree => tree::run(team, 2).await,
            Algorithm::Dissemination => dissemination::run(team).await,
            Algorithm::AllToAll => all_to_all::run(team).await,
            Algorithm::AtomicAdd => counters::one_by_one(team, taken).await,
            Algorithm::MulticastAdd => counters::by_multicast(team, taken).await,
            Algorithm::Sync => match synchronised {
                Some(all) => Ok(all.await?),
                None => team.require(false, network::NEEDS_SYNC),
            },
            Algorithm::Lines => team.require(false, NEEDS_LINES),
        }
    })
}
