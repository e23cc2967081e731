//! Reduce-scatter: all ranks' arrays combined, a part of the result at each (MPI 5.0 §6.10).
//!
//! | algorithm | longest path | remarks |
//! |---|---|---|
//! | reduce-then-scatter | a reduce of n m and a scatter | any reduction |
//! | pairwise | n - 1 exchanges of m | commutative reductions |
//! | ring | n - 1 exchanges of m with neighbours | commutative reductions |
//! | read | n - 1 copies of m out of others' memory | the same; needs lines on one node |

mod pairwise;
mod read;
mod reduce_then_scatter;
mod ring;

use std::future::Future;

use crate::blocks::Blocks;
use crate::call::Call;
use crate::error::Failure;
use crate::group::Group;
use crate::names::Operation;
use crate::reduction::Reduction;
use crate::rounds::{NEEDS_LINES, Stop};
use crate::select;
use crate::signature::Signature;

pub use crate::algorithms::reduce_scatter::Algorithm;

/// Combines `data` of all ranks, one block for each rank and of equal length; `into` of rank `r` is
/// block `r` of the result (MPI_Reduce_scatter_block). What `data` is afterwards is not said.
///
/// # Errors
/// [`crate::CollError`]: lengths differ, a rank is gone or gave up, or `algorithm` cannot keep the
/// order of an ordered reduction.
pub fn reduce_scatter_block<'a, G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    data: &'a mut [G::Byte],
    into: &'a mut [G::Byte],
    reduction: Reduction<F>,
) -> impl Future<Output = Result<(), Failure<G>>> {
    let blocks = Blocks::Equal { length: data.len() / group.size() as usize };
    start(group, algorithm, data, into, blocks, reduction)
}

/// The same with any length per rank, `lengths[r]` bytes for rank `r`, the same list at all ranks
/// (MPI_Reduce_scatter).
///
/// # Errors
/// As [`reduce_scatter_block`].
pub fn reduce_scatter<'a, G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    data: &'a mut [G::Byte],
    lengths: &[usize],
    into: &'a mut [G::Byte],
    reduction: Reduction<F>,
) -> impl Future<Output = Result<(), Failure<G>>> {
    start(group, algorithm, data, into, Blocks::of_lengths(lengths), reduction)
}

fn start<'a, G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    data: &'a mut [G::Byte],
    into: &'a mut [G::Byte],
    blocks: Blocks,
    mut reduction: Reduction<F>,
) -> impl Future<Output = Result<(), Failure<G>>> {
    let needs_lines = |by: &Algorithm| *by == Algorithm::Read;
    let commutative = reduction.commutative;
    let table = || select::for_reduce_scatter(group, data.len(), commutative);
    let mut algorithm = select::resolve(group, algorithm, needs_lines, table);
    let signature = Signature::new(Operation::ReduceScatter)
        .bytes(data.len())
        .combination(reduction.combination);
    let call = Call::new_on(group, signature, algorithm as usize, needs_lines(&algorithm));
    call.run(async move |team| {
        let size = team.size();
        match blocks.count() {
            Some(count) => {
                team.check_argument("the list of lengths, one a rank,", count, size as usize)?;
            }
            None => drop(team.share("the array of all parts", data.len())?),
        }
        team.check_argument("the array of all parts, in bytes,", data.len(), blocks.offset(size))?;
        let own = blocks.length(team.rank());
        team.check_argument("the buffer for the result, in bytes,", into.len(), own)?;
        for rank in 0..size {
            team.check_elements(blocks.length(rank), reduction.width)?;
        }
        if algorithm == Algorithm::Read {
            match read::run(team, data, into, &blocks, &mut reduction).await {
                Ok(true) => return Ok(()),
                Ok(false) | Err(Stop::Lost) => {}
                Err(Stop::Failed(failure)) => return Err(failure),
            }
            let bytes = data.len();
            algorithm = select::for_reduce_scatter(group, bytes, commutative);
            team.without_lines(algorithm as usize)?;
        }
        match algorithm {
            Algorithm::ReduceThenScatter => {
                reduce_then_scatter::run(team, data, into, &blocks, &mut reduction).await
            }
            Algorithm::Pairwise => pairwise::run(team, data, into, &blocks, &mut reduction).await,
            Algorithm::Ring => ring::run(team, data, into, &blocks, &mut reduction).await,
            Algorithm::Read => team.require(false, NEEDS_LINES),
        }
    })
}
