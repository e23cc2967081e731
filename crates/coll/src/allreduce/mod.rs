//! Allreduce: all ranks' data combined, at all (MPI 5.0 §6.9.6).
//!
//! | algorithm | longest path | remarks |
//! |---|---|---|
//! | recursive-doubling | log2 n exchanges of m, two messages more if n is no power of two | |
//! | ring | 2 (n - 1) exchanges of m / n | commutative reductions; for large m |
//! | two-level | a reduce and a broadcast within the node, and between nodes as the first | |
//!
//! Whatever the algorithm, each element is combined in one expression whose value goes to all
//! ranks, or in the same expression at every rank: results are bitwise equal.

pub(crate) mod recursive_doubling;
mod ring;
mod two_level;

use std::future::Future;

use crate::call::Call;
use crate::error::Failure;
use crate::group::Group;
use crate::names::{Operation, algorithms};
use crate::reduction::Reduction;
use crate::select;

algorithms! {
    "The ways to combine at all ranks."
    /// Pairs of ranks exchange and combine all they have, at doubling distances.
    RecursiveDoubling = "recursive-doubling",
    /// Each rank combines one block, then all blocks go round.
    Ring = "ring",
    /// First within each node, then between one rank of each.
    TwoLevel = "two-level",
}

/// Combines `data` of all ranks; afterwards every rank's `data` is the result. All ranks have the
/// same number of bytes.
///
/// # Errors
/// [`crate::CollError`]: lengths differ, a rank is gone or gave up, or `algorithm` cannot keep the
/// order of an ordered reduction.
pub fn allreduce<'a, G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    data: &'a mut [G::Byte],
    mut reduction: Reduction<F>,
) -> impl Future<Output = Result<(), Failure<G>>> {
    let choose = || select::for_allreduce(group, data.len(), reduction.commutative);
    let algorithm = algorithm.unwrap_or_else(choose);
    let call = Call::new(group, Operation::Allreduce, algorithm as usize);
    call.run(async move |team| {
        team.check_elements(data.len(), reduction.width)?;
        match algorithm {
            Algorithm::RecursiveDoubling => {
                recursive_doubling::run(team, data, &mut reduction).await
            }
            Algorithm::Ring => ring::run(team, data, &mut reduction).await,
            Algorithm::TwoLevel => two_level::run(team, data, &mut reduction).await,
        }
    })
}
