//! Scatter: a part of one rank's data to each (MPI 5.0 §6.6).
//!
//! | algorithm | longest path | remarks |
//! |---|---|---|
//! | chained | n - 1 messages of m at the root, one chain | paper 004, Fig. 5 |
//! | linear | the same, one send after the other | |
//! | binomial | log2 n messages, of n m / 2 to m | equal parts; for small ones |

mod binomial;
mod direct;

use std::future::Future;

use crate::blocks::split;
use crate::call::{Call, Team};
use crate::error::Failure;
use crate::group::Group;
use crate::names::Operation;
use crate::select;
use crate::signature::Signature;

pub(crate) use direct::chained as by_chain;

pub use crate::algorithms::scatter::Algorithm;

/// Copies block `r` of `all` at `root` to `into` of rank `r`; all blocks have the length of
/// `into`. Elsewhere than at the root `all` is not looked at. `None` at the root: its part stays
/// where it is (MPI_IN_PLACE).
///
/// # Errors
/// [`crate::CollError`]: `root` does not exist, lengths differ, or a rank is gone or gave up.
pub fn scatter<'a, G: Group>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    all: &'a [G::Byte],
    into: Option<&'a mut [G::Byte]>,
    root: u32,
) -> impl Future<Output = Result<(), Failure<G>>> {
    let size = group.size();
    let length = into.as_ref().map_or(all.len() / size as usize, |into| into.len());
    let algorithm = algorithm.unwrap_or_else(|| select::for_scatter(group, length));
    let call = Call::new(
        group,
        Signature::new(Operation::Scatter).root(root).bytes(length),
        algorithm as usize,
    );
    call.run(async move |team| {
        let into = check(team, into, root)?;
        let at_root = team.rank() == root;
        if at_root {
            team.share("the array of all parts", all.len())?;
            let what = "the array of all parts, in bytes,";
            team.check_argument(what, all.len(), length * size as usize)?;
        }
        let blocks = || split(all, length, if at_root { size } else { 0 });
        match algorithm {
            Algorithm::Binomial => binomial::run(team, all, into, length, root).await,
            Algorithm::Chained => direct::chained(team, &blocks(), into, root).await,
            Algorithm::Linear => direct::linear(team, &blocks(), into, root).await,
        }
    })
}

/// The same with any length per rank (MPI_Scatterv): rank `r` gets block `r` of `blocks`, and its
/// `into` is as long. Elsewhere than at the root `blocks` is not looked at.
///
/// # Errors
/// As [`scatter()`]; and the binomial tree, in which ranks would have to know others' lengths.
pub fn scatterv<'a, G: Group>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    blocks: &'a [&'a [G::Byte]],
    into: Option<&'a mut [G::Byte]>,
    root: u32,
) -> impl Future<Output = Result<(), Failure<G>>> {
    let algorithm = algorithm.unwrap_or_else(|| select::for_scatterv(group));
    let call = Call::new(group, Signature::new(Operation::Scatter).root(root), algorithm as usize);
    call.run(async move |team| {
        let into = check(team, into, root)?;
        if team.rank() == root {
            let needed = team.size() as usize;
            team.check_argument("the list of blocks, one a rank,", blocks.len(), needed)?;
        }
        match algorithm {
            Algorithm::Chained => direct::chained(team, blocks, into, root).await,
            Algorithm::Linear => direct::linear(team, blocks, into, root).await,
            Algorithm::Binomial => team.require(false, "needs parts of one length"),
        }
    })
}

fn check<'b, G: Group>(
    team: &Team<'_, G>,
    into: Option<&'b mut [G::Byte]>,
    root: u32,
) -> Result<Option<&'b mut [G::Byte]>, Failure<G>> {
    team.check_root(root)?;
    team.unless_in_place(into, root)
}
