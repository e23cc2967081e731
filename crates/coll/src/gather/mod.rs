//! Gather: all ranks' parts side by side at one (MPI 5.0 §6.5).
//!
//! | algorithm | longest path | remarks |
//! |---|---|---|
//! | chained | n - 1 messages of m at the root, in whatever order they come | |
//! | linear | the same, in the order of ranks: one receive at a time | |
//! | binomial | log2 n messages, of m to n m / 2 | equal parts; for small ones |

pub(crate) mod binomial;
mod direct;

use std::future::Future;

use crate::blocks::split_mut;
use crate::call::{Call, Team};
use crate::error::Failure;
use crate::group::Group;
use crate::names::Operation;
use crate::select;
use crate::signature::Signature;

pub use crate::algorithms::gather::Algorithm;

/// Collects `mine` of every rank at `root`, in rank order, in `into`, which has room for as many
/// bytes of each; elsewhere `into` is not looked at. `None` at the root: its part is in its place
/// already (MPI_IN_PLACE).
///
/// # Errors
/// [`crate::CollError`]: `root` does not exist, lengths differ, or a rank is gone or gave up.
pub fn gather<'a, G: Group>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    mine: Option<&'a [G::Byte]>,
    into: &'a mut [G::Byte],
    root: u32,
) -> impl Future<Output = Result<(), Failure<G>>> {
    let size = group.size();
    let length = mine.map_or(into.len() / size as usize, <[G::Byte]>::len);
    let algorithm = algorithm.unwrap_or_else(|| select::for_gather(group, length));
    let call = Call::new(
        group,
        Signature::new(Operation::Gather).root(root).bytes(length),
        algorithm as usize,
    );
    call.run(async move |team| {
        check(team, mine, root)?;
        let at_root = team.rank() == root;
        if at_root {
            team.share("the buffer for all parts", into.len())?;
            let what = "the buffer for all parts, in bytes,";
            team.check_argument(what, into.len(), length * size as usize)?;
        }
        let blocks = if at_root { size } else { 0 };
        match algorithm {
            Algorithm::Binomial => binomial::run(team, mine, into, length, root).await,
            Algorithm::Chained => {
                direct::chained(team, mine, split_mut(into, length, blocks), root).await
            }
            Algorithm::Linear => {
                direct::linear(team, mine, split_mut(into, length, blocks), root).await
            }
        }
    })
}

/// The same with any length per rank (MPI_Gatherv): block `r` of `blocks` gets what rank `r` has,
/// and is as long. Elsewhere than at the root `blocks` is not looked at.
///
/// # Errors
/// As [`gather()`]; and the binomial tree, in which ranks would have to know others' lengths.
pub fn gatherv<'a, G: Group>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    mine: Option<&'a [G::Byte]>,
    blocks: Vec<&'a mut [G::Byte]>,
    root: u32,
) -> impl Future<Output = Result<(), Failure<G>>> {
    let algorithm = algorithm.unwrap_or_else(|| select::for_gatherv(group));
    let call = Call::new(group, Signature::new(Operation::Gather).root(root), algorithm as usize);
    call.run(async move |team| {
        check(team, mine, root)?;
        if team.rank() == root {
            let needed = team.size() as usize;
            team.check_argument("the list of blocks, one a rank,", blocks.len(), needed)?;
        }
        match algorithm {
            Algorithm::Chained => direct::chained(team, mine, blocks, root).await,
            Algorithm::Linear => direct::linear(team, mine, blocks, root).await,
            Algorithm::Binomial => team.require(false, "needs parts of one length"),
        }
    })
}

fn check<G: Group>(
    team: &Team<'_, G>,
    mine: Option<&[G::Byte]>,
    root: u32,
) -> Result<(), Failure<G>> {
    team.check_root(root)?;
    team.unless_in_place(mine, root).map(drop)
}
