//! Allgather: all ranks' parts side by side at all (MPI 5.0 §6.7).
//!
//! | algorithm | longest path | remarks |
//! |---|---|---|
//! | butterfly | log2 n exchanges, of m to n m / 2 | paper 004, Fig. 6; 2 more if n is not 2^k |
//! | bruck | ⌈log2 n⌉ exchanges, and a copy of all | any number of ranks alike |
//! | ring | n - 1 exchanges of m with neighbours | for large m |
//! | lines | a look at all | equal parts, all ranks on one node, which has lines |
//! | read | a copy of each part out of its rank's memory | the same; for large m |

mod bruck;
mod butterfly;
mod lines;
mod read;
mod ring;

use std::future::Future;

use crate::blocks::Blocks;
use crate::call::{Begun, Call, Team};
use crate::error::Failure;
use crate::group::Group;
use crate::names::Operation;
use crate::rounds::Stop;
use crate::select;
use crate::signature::Signature;

pub use crate::algorithms::allgather::Algorithm;

/// Fills `data`, one block for each rank, in rank order and of equal length, with `mine` of every
/// rank. `None`: this rank's block is in its place already (MPI_IN_PLACE).
///
/// # Errors
/// [`crate::CollError`]: lengths differ, or a rank is gone or gave up.
pub fn allgather<'a, G: Group>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    mine: Option<&'a [G::Byte]>,
    data: &'a mut [G::Byte],
) -> impl Future<Output = Result<(), Failure<G>>> {
    begin_allgather(group, algorithm, mine, data).end()
}

/// Starts [`allgather()`]: it may be over.
///
/// # Errors
/// As there.
#[inline]
pub fn begin_allgather<'a, G: Group>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    mine: Option<&'a [G::Byte]>,
    data: &'a mut [G::Byte],
) -> Begun<Result<(), Failure<G>>, impl Future<Output = Result<(), Failure<G>>>> {
    let needs_lines = |by: &Algorithm| matches!(by, Algorithm::Lines | Algorithm::Read);
    let algorithm =
        select::resolve(group, algorithm, needs_lines, || select::for_allgather(group, data.len()));
    let length = mine.map_or_else(|| data.len() / group.size() as usize, <[G::Byte]>::len);
    let signature = Signature::new(Operation::Allgather).bytes(length);
    let blocks = Blocks::Equal { length };
    if !needs_lines(&algorithm) {
        let call = Call::new(group, signature, algorithm as usize);
        return Begun::Waits(start(call, algorithm, mine, data, blocks));
    }
    let act = |team: &Team<'_, G>| match prepare(team, mine, data, &blocks) {
        Ok(()) if algorithm == Algorithm::Lines => lines::at_once(team, data, length),
        Ok(()) => None,
        Err(failure) => Some(Err(failure)),
    };
    match Call::on_lines(group, signature, algorithm as usize, act) {
        Begun::Done(done) => Begun::Done(done),
        Begun::Waits(call) => Begun::Waits(start(call, algorithm, mine, data, blocks)),
    }
}

/// The same with any length per rank, `lengths[r]` bytes for rank `r`, the same list at all ranks
/// (MPI_Allgatherv).
///
/// # Errors
/// As [`allgather()`].
pub fn allgatherv<'a, G: Group>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    mine: Option<&'a [G::Byte]>,
    data: &'a mut [G::Byte],
    lengths: &[usize],
) -> impl Future<Output = Result<(), Failure<G>>> {
    let algorithm = algorithm.unwrap_or_else(|| select::for_allgatherv(group, data.len()));
    let call = Call::new(group, Signature::new(Operation::Allgather), algorithm as usize);
    start(call, algorithm, mine, data, Blocks::of_lengths(lengths))
}

async fn start<G: Group>(
    call: Call<'_, G>,
    algorithm: Algorithm,
    mine: Option<&[G::Byte]>,
    data: &mut [G::Byte],
    blocks: Blocks,
) -> Result<(), Failure<G>> {
    call.run(async move |team| {
        prepare(team, mine, data, &blocks)?;
        let mut algorithm = algorithm;
        if let (Algorithm::Lines | Algorithm::Read, Blocks::Equal { length }) = (algorithm, &blocks)
        {
            let reads = (algorithm == Algorithm::Read, mine);
            match lines::run(team, data, *length, reads).await {
                Err(Stop::Lost) => {
                    algorithm = select::for_allgatherv(team.group(), data.len());
                }
                Err(Stop::Failed(failure)) => return Err(failure),
                Ok(()) => return Ok(()),
            }
            team.without_lines(algorithm as usize)?;
        }
        match algorithm {
            Algorithm::Ring => ring::run(team, data, &blocks).await,
            Algorithm::Butterfly => butterfly::run(team, data, &blocks).await,
            Algorithm::Bruck => bruck::run(team, data, &blocks).await,
            Algorithm::Lines | Algorithm::Read => {
                team.require(false, "needs parts of equal length")
            }
        }
    })
    .await
}

/// Checks the arguments, and puts this rank's part in its place.
#[inline]
fn prepare<G: Group>(
    team: &Team<'_, G>,
    mine: Option<&[G::Byte]>,
    data: &mut [G::Byte],
    blocks: &Blocks,
) -> Result<(), Failure<G>> {
    match blocks.count() {
        Some(count) => {
            let needed = team.size() as usize;
            team.check_argument("the list of lengths, one a rank,", count, needed)?;
        }
        // The usual case needs no division.
        None if mine.is_some() && data.len() == blocks.offset(team.size()) => {}
        None => drop(team.share("the array of all parts", data.len())?),
    }
    let what = "the array of all parts, in bytes,";
    team.check_argument(what, data.len(), blocks.offset(team.size()))?;
    if let Some(mine) = mine {
        let place = &mut data[blocks.range(team.rank())];
        team.check_argument("this rank's part, in bytes,", mine.len(), place.len())?;
        place.copy_from_slice(mine);
    }
    Ok(())
}
