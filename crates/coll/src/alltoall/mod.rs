//! All-to-all: a part of every rank's data to every rank (MPI 5.0 §6.8).
//!
//! The matrix transposition of paper 004, Figs. 8 and 9; the first two are its "basic" and "chain":
//!
//! | algorithm | longest path | remarks |
//! |---|---|---|
//! | pairwise | n - 1 exchanges of m, one after the other | no more than one message to anybody |
//! | chained | n - 1 messages of m, all at once | one start-up |
//! | bruck | ⌈log2 n⌉ exchanges of n m / 2 | equal parts; for short ones |
//! | read | n - 1 copies of m out of others' memory | equal parts; needs lines on one node |
//!
//! Parts that do not lie in one piece are for [`crate::alltoallw()`].

mod bruck;
mod chained;
mod in_place;
mod pairwise;
mod read;

use std::future::Future;

use crate::blocks::{split, split_mut};
use crate::call::{Call, Team};
use crate::error::Failure;
use crate::group::Group;
use crate::names::Operation;
use crate::rounds::{NEEDS_LINES, Stop};
use crate::select;
use crate::signature::Signature;

pub use crate::algorithms::alltoall::Algorithm;

/// Copies block `s` of `data` of rank `r` to block `r` of `into` of rank `s`. Blocks are in rank
/// order and all of the same length.
///
/// # Errors
/// [`crate::CollError`]: lengths differ, or a rank is gone or gave up.
pub fn alltoall<'a, G: Group>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    data: &'a [G::Byte],
    into: &'a mut [G::Byte],
) -> impl Future<Output = Result<(), Failure<G>>> {
    let size = group.size();
    let length = data.len() / size as usize;
    let needs_lines = |by: &Algorithm| *by == Algorithm::Read;
    let table = || select::for_alltoall(group, length);
    let algorithm = select::resolve(group, algorithm, needs_lines, table);
    let signature = Signature::new(Operation::Alltoall).bytes(data.len());
    let call = Call::new_on(group, signature, algorithm as usize, needs_lines(&algorithm));
    call.run(async move |team| {
        let length = team.share("the array of parts to send", data.len())?;
        let what = "the array of parts to receive, in bytes,";
        team.check_argument(what, into.len(), data.len())?;
        let parts = || split(data, length, size);
        let mut algorithm = algorithm;
        if algorithm == Algorithm::Read {
            match read::run(team, data, into, length).await {
                Ok(true) => return Ok(()),
                Ok(false) | Err(Stop::Lost) => {}
                Err(Stop::Failed(failure)) => return Err(failure),
            }
            algorithm = select::for_alltoall(group, length);
            team.without_lines(algorithm as usize)?;
        }
        match algorithm {
            Algorithm::Pairwise => {
                pairwise::run(team, &parts(), split_mut(into, length, size)).await
            }
            Algorithm::Chained => chained::run(team, &parts(), split_mut(into, length, size)).await,
            Algorithm::Bruck => bruck::run(team, data, into, length).await,
            Algorithm::Read => team.require(false, NEEDS_LINES),
        }
    })
}

/// The same with lengths of each pair's own (MPI_Alltoallv): rank `s` gets block `s`
/// of `parts` of rank `r` in its block `r` of `into`, which is as long.
///
/// # Errors
/// As [`alltoall()`]; and Bruck's algorithm, in which ranks would have to know others' lengths.
pub fn alltoallv<'a, G: Group>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    parts: &'a [&'a [G::Byte]],
    into: Vec<&'a mut [G::Byte]>,
) -> impl Future<Output = Result<(), Failure<G>>> {
    let algorithm = algorithm.unwrap_or_else(|| select::for_alltoallv(group));
    let call = Call::new(group, Signature::new(Operation::Alltoall), algorithm as usize);
    call.run(async move |team| {
        check_list(team, "the list of parts to send, one a rank,", parts.len())?;
        check_list(team, "the list of parts to receive, one a rank,", into.len())?;
        match algorithm {
            Algorithm::Pairwise => pairwise::run(team, parts, into).await,
            Algorithm::Chained => chained::run(team, parts, into).await,
            Algorithm::Bruck | Algorithm::Read => team.require(false, "needs parts of one length"),
        }
    })
}

/// [`alltoall()`] where each rank's parts are replaced by what comes for them (MPI_IN_PLACE). By
/// pairs of ranks.
///
/// # Errors
/// As [`alltoall()`].
pub fn alltoall_in_place<'a, G: Group>(
    group: &'a G,
    data: &'a mut [G::Byte],
) -> impl Future<Output = Result<(), Failure<G>>> {
    let call = Call::new(
        group,
        Signature::new(Operation::Alltoall).bytes(data.len()),
        Algorithm::Pairwise as usize,
    );
    call.run(async move |team| {
        let size = team.size();
        let length = team.share("the array of parts", data.len())?;
        in_place::run(team, split_mut(data, length, size)).await
    })
}

/// [`alltoallv`] where each rank's parts are replaced by what comes for them: block `s` of rank `r`
/// and block `r` of rank `s` are as long and change places.
///
/// # Errors
/// As [`alltoall()`].
pub fn alltoallv_in_place<'a, G: Group>(
    group: &'a G,
    blocks: Vec<&'a mut [G::Byte]>,
) -> impl Future<Output = Result<(), Failure<G>>> {
    let call = Call::new(group, Signature::new(Operation::Alltoall), Algorithm::Pairwise as usize);
    call.run(async move |team| {
        check_list(team, "the list of parts, one a rank,", blocks.len())?;
        in_place::run(team, blocks).await
    })
}

fn check_list<G: Group>(
    team: &Team<'_, G>,
    what: &'static str,
    given: usize,
) -> Result<(), Failure<G>> {
    team.check_argument(what, given, team.size() as usize)
}

/// Moves this rank's part for itself.
fn own_part<G: Group>(
    team: &Team<'_, G>,
    parts: &[&[G::Byte]],
    into: &mut [&mut [G::Byte]],
) -> Result<(), Failure<G>> {
    let rank = team.rank() as usize;
    let (from, to) = (parts[rank], &mut *into[rank]);
    team.check_argument("a rank's part for itself, in bytes,", to.len(), from.len())?;
    to.copy_from_slice(from);
    Ok(())
}
