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
//! | multicast | 1 command | needs a network that multicasts |

mod binomial;
mod multicast;
mod pipelined;
mod point_to_point;
mod system;

use std::future::Future;

use crate::call::Call;
use crate::error::Failure;
use crate::group::Group;
use crate::names::{Operation, algorithms};
use crate::select;

pub(crate) use binomial::run as by_binomial;

algorithms! {
    "The ways to broadcast."
    /// Those who have the data double in each round; a rank's sends follow each other.
    Binomial = "binomial",
    /// The same with a rank's sends in one chain; powers of two only (paper 004, ONE2ALL-BT).
    BinaryTree = "binary-tree",
    /// The root sends to each (paper 004, ONE2ALL-PP).
    PointToPoint = "point-to-point",
    /// Chains along each dimension of the network in turn (paper 004, ONE2ALL-SYS).
    System = "system",
    /// A chain of all ranks, through which segments follow each other.
    Pipelined = "pipelined",
    /// One command that the network delivers to all (paper 003, multicast).
    Multicast = "multicast",
}

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
    let algorithm = algorithm.unwrap_or_else(|| select::for_broadcast(group, data.len()));
    let call = Call::new(group, Operation::Broadcast, algorithm as usize);
    call.run(async move |team| {
        team.check_root(root)?;
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
        }
    })
}
