//! Reduce-scatter: all ranks' arrays combined, a part of the result at each (MPI 5.0 §6.10).
//!
//! | algorithm | longest path | remarks |
//! |---|---|---|
//! | reduce-then-scatter | a reduce of n m and a scatter | any reduction |
//! | pairwise | n - 1 exchanges of m | commutative reductions |
//! | ring | n - 1 exchanges of m with neighbours, in pieces | commutative reductions |
//! | read | n - 1 copies of m out of others' memory | the same; needs lines on one node |

use std::future::Future;

use crate::blocks::BlockPlaces;
use crate::call::{Call, Team};
use crate::error::Failure;
use crate::group::Group;
use crate::names::Operation;
use crate::part::{Place, whole_parts};
use crate::reduce::binomial as reduce;
use crate::reduction::Reduction;
use crate::ring::reduce_round;
use crate::rounds::{LineRounds, NEEDS_LINES, Stop};
use crate::scatter::{Algorithm as Scatter, flat as scatter};
use crate::scratch::Scratch;
use crate::select;
use crate::signature::Signature;

pub use crate::algorithms::reduce_scatter::Algorithm;

/// Bytes that are combined at a time: in the caches, and long against what a copy costs to ask for.
const PIECE: usize = 64 << 10;

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
    let blocks = BlockPlaces::Equal { length: data.len() / group.size() as usize };
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
    start(group, algorithm, data, into, BlockPlaces::of_lengths(lengths), reduction)
}

fn start<'a, G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    data: &'a mut [G::Byte],
    into: &'a mut [G::Byte],
    blocks: BlockPlaces,
    mut reduction: Reduction<F>,
) -> impl Future<Output = Result<(), Failure<G>>> {
    let needs_lines = |by: &Algorithm| *by == Algorithm::Read;
    let commutative = reduction.commutative;
    let exact = reduction.is_exact(group.element());
    let table = || select::for_reduce_scatter(group, data.len(), commutative, exact);
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
            match read(team, data, into, &blocks, &mut reduction).await {
                Ok(true) => return Ok(()),
                Ok(false) | Err(Stop::Lost) => {}
                Err(Stop::Failed(failure)) => return Err(failure),
            }
            let bytes = data.len();
            algorithm = select::for_reduce_scatter(group, bytes, commutative, exact);
            team.without_lines(algorithm as usize)?;
        }
        match algorithm {
            Algorithm::ReduceThenScatter => {
                reduce_then_scatter(team, data, into, &blocks, &mut reduction).await
            }
            Algorithm::Pairwise => pairwise(team, data, into, &blocks, &mut reduction).await,
            Algorithm::Ring => ring(team, data, into, &blocks, &mut reduction).await,
            Algorithm::Read => team.require(false, NEEDS_LINES),
        }
    })
}

/// Reduce-scatter as a reduce at rank 0 and a scatter from there: the one that keeps the order of
/// the ranks.
async fn reduce_then_scatter<G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    team: &Team<'_, G>,
    data: &mut [G::Byte],
    into: &mut [G::Byte],
    blocks: &BlockPlaces,
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    reduce(team, data, 0, reduction).await?;
    let parts: Vec<&[G::Byte]> = if team.rank() == 0 {
        (0..team.size()).map(|rank| &data[blocks.range(rank)]).collect()
    } else {
        Vec::new()
    };
    let parts = whole_parts(&parts);
    scatter(team, Scatter::Chained, parts, Some(Place::Whole(into)), 0).await
}

/// Reduce-scatter by exchanges at distance 1, 2, 3, …: each rank hands every other its block and
/// combines what it gets for its own, in an order that depends on the rank.
async fn pairwise<G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    team: &Team<'_, G>,
    data: &[G::Byte],
    into: &mut [G::Byte],
    blocks: &BlockPlaces,
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    team.require(reduction.commutative, "needs a commutative reduction")?;
    let mut scratch = Scratch::new(into.len());
    into.copy_from_slice(&data[blocks.range(team.rank())]);
    for step in 1..team.size() {
        let (to, from) = (team.after(step), team.before(step));
        team.exchange(&data[blocks.range(to)], to, scratch.bytes(), from).await?;
        (reduction.combine)(scratch.bytes(), into);
    }
    Ok(())
}

/// Reduce-scatter round a ring: block `b` starts at rank `b + 1`, is combined with what each rank
/// has, and arrives at rank `b` last.
async fn ring<G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    team: &Team<'_, G>,
    data: &mut [G::Byte],
    into: &mut [G::Byte],
    blocks: &BlockPlaces,
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    reduce_round(team, data, blocks, 0, reduction).await?;
    into.copy_from_slice(&data[blocks.range(team.rank())]);
    Ok(())
}

/// Reduce-scatter by reading: everyone combines its block out of all others' memory, in the order
/// in which [`pairwise`] gets them, so that the bits are the same.
///
/// `false`: they cannot be read.
async fn read<G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
    team: &Team<'_, G>,
    data: &[G::Byte],
    into: &mut [G::Byte],
    blocks: &BlockPlaces,
    reduction: &mut Reduction<F>,
) -> Result<bool, Stop<G>> {
    team.require(reduction.commutative, "needs a commutative reduction")?;
    let rounds = LineRounds::begin(team).await?;
    let Some(memory) = rounds.show(Some(data)).await? else { return Ok(false) };
    let own = blocks.range(team.rank());
    into.copy_from_slice(&data[own.clone()]);
    let piece = (PIECE / reduction.width * reduction.width).max(reduction.width);
    let mut scratch = Scratch::new(piece.min(into.len()));
    for (at, into) in into.chunks_mut(piece).enumerate() {
        let theirs = &mut scratch.bytes()[..into.len()];
        for step in 1..team.size() {
            memory.read(team.before(step) as usize, own.start + at * piece, theirs)?;
            (reduction.combine)(theirs, into);
        }
    }
    memory.end().await
}
