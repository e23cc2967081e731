//! Broadcast: one rank's data to all (MPI 5.0 §6.4).
//!
//! The three of paper 004, Fig. 4 (ONE2ALL-BT, ONE2ALL-PP and ONE2ALL-SYS), and what large
//! messages, any number of ranks and multicasting networks want:
//!
//! | algorithm | longest path | remarks |
//! |---|---|---|
//! | binomial | log2 n messages of m | any number of ranks |
//! | binary-tree | the same, sends of a rank in one chain | powers of two only, as in the paper |
//! | point-to-point | n - 1 sends of m at the root | |
//! | system | a + b + c - 3 messages of m | along the dimensions of the network |
//! | pipelined | (n - 2) segments and m | for large messages |
//! | multicast | 1 command | needs ranks that share memory, or a network that multicasts |
//! | lines | 1 look at the root; between nodes a tree | needs lines that ranks of a node share |
//! | read | 1 copy out of the root's memory | needs lines on one node; else as lines |

mod binomial;
mod lines;
mod multicast;
mod pipelined;
mod point_to_point;
mod read;
mod system;

use std::future::Future;

use crate::call::{Begun, Call, Team};
use crate::error::Failure;
use crate::group::Group;
use crate::names::Operation;
use crate::part::{Data, Place};
use crate::rounds::{NEEDS_LINES, Stop};
use crate::select;
use crate::signature::Signature;

pub(crate) use binomial::run as by_binomial;

pub use crate::algorithms::broadcast::Algorithm;

/// Copies `data` of rank `root` to `data` of every other, which has the same length.
///
/// # Errors
/// [`crate::CollError`]: `root` does not exist, lengths differ, a rank is gone or gave up, or
/// `algorithm` cannot do it.
pub fn broadcast<'a, G: Group>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    data: &'a mut [G::Byte],
    root: u32,
) -> impl Future<Output = Result<(), Failure<G>>> {
    begin_broadcast(group, algorithm, data, root).end()
}

/// The same of data that have gaps, at this rank.
///
/// # Errors
/// As [`broadcast()`].
pub fn broadcast_scattered<'a, G: Group<Byte = u8>>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    data: &'a mut Place<'_, u8>,
    root: u32,
) -> impl Future<Output = Result<(), Failure<G>>> {
    begin(group, algorithm, data, root).end()
}

/// Starts [`broadcast()`]: it may be over.
///
/// # Errors
/// As there.
#[inline]
pub fn begin_broadcast<'a, G: Group>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    data: &'a mut [G::Byte],
    root: u32,
) -> Begun<Result<(), Failure<G>>, impl Future<Output = Result<(), Failure<G>>>> {
    begin(group, algorithm, data, root)
}

#[inline]
fn begin<'a, G: Group, D: Data<G::Byte> + ?Sized>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    data: &'a mut D,
    root: u32,
) -> Begun<Result<(), Failure<G>>, impl Future<Output = Result<(), Failure<G>>>> {
    let needs_lines = |by: &Algorithm| matches!(by, Algorithm::Lines | Algorithm::Read);
    let (named, on_network) = match algorithm {
        Some(by @ Algorithm::Multicast) => select::on_network(group, by),
        _ => (algorithm, false),
    };
    let algorithm =
        select::resolve(group, named, needs_lines, || select::for_broadcast(group, data.length()));
    let signature = Signature::new(Operation::Broadcast).root(root).bytes(data.length());
    let shared = on_network || needs_lines(&algorithm);
    if !needs_lines(&algorithm) {
        let call = Call::new_on(group, signature, algorithm as usize, shared);
        return Begun::Waits(run(group, call, (algorithm, shared), data, root));
    }
    let act = |team: &Team<'_, G>| match algorithm {
        Algorithm::Lines => lines::at_once(team, data, root),
        _ => None,
    };
    Call::on_lines(group, signature, algorithm as usize, act)
        .or_start(|call| run(group, call, (algorithm, shared), data, root))
}

fn run<'a, G: Group, D: Data<G::Byte> + ?Sized>(
    group: &'a G,
    call: Call<'a, G>,
    (algorithm, shared): (Algorithm, bool),
    data: &'a mut D,
    root: u32,
) -> impl Future<Output = Result<(), Failure<G>>> {
    call.run(async move |team| {
        team.check_root(root)?;
        let mut algorithm = algorithm;
        if shared {
            let done = match algorithm {
                // Apart, so that it takes no room in the future of every broadcast.
                Algorithm::Multicast => Box::pin(multicast::run_on_network(team, data, root)).await,
                by => lines::run(team, data, root, by == Algorithm::Read).await,
            };
            match done {
                Err(Stop::Lost) => {
                    algorithm = select::for_broadcast_by_messages(group, data.length());
                }
                Err(Stop::Failed(failure)) => return Err(failure),
                Ok(()) => return Ok(()),
            }
            team.without_lines(algorithm as usize)?;
        }
        match algorithm {
            Algorithm::Binomial => binomial::run(team, data, root).await,
            Algorithm::BinaryTree => {
                let can = team.size().is_power_of_two();
                team.require(can, "needs a number of ranks that is a power of two")?;
                binomial::run_chained(team, data, root).await
            }
            Algorithm::PointToPoint => point_to_point::run(team, data, root).await,
            Algorithm::System => system::run(team, data, root).await,
            Algorithm::Pipelined => pipelined::run(team, data, root).await,
            Algorithm::Multicast => multicast::run(team, data, root).await,
            Algorithm::Lines | Algorithm::Read => team.require(false, NEEDS_LINES),
        }
    })
}
