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

use std::future::Future;

use hikyaku_msg::join;

use crate::blocks::{split, split_mut};
use crate::call::{Call, Team};
use crate::error::Failure;
use crate::group::Group;
use crate::names::Operation;
use crate::rounds::{LineRounds, NEEDS_LINES, Stop};
use crate::scratch::Scratch;
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
            match read(team, data, into, length).await {
                Ok(true) => return Ok(()),
                Ok(false) | Err(Stop::Lost) => {}
                Err(Stop::Failed(failure)) => return Err(failure),
            }
            algorithm = select::for_alltoall(group, length);
            team.without_lines(algorithm as usize)?;
        }
        match algorithm {
            Algorithm::Pairwise => pairwise(team, &parts(), split_mut(into, length, size)).await,
            Algorithm::Chained => chained(team, &parts(), split_mut(into, length, size)).await,
            Algorithm::Bruck => bruck(team, data, into, length).await,
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
            Algorithm::Pairwise => pairwise(team, parts, into).await,
            Algorithm::Chained => chained(team, parts, into).await,
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
        in_place(team, split_mut(data, length, size)).await
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
        in_place(team, blocks).await
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

/// All-to-all with one exchange at a time: in step k with the ranks k further on and k back. Paper
/// 004's "basic" transposition.
async fn pairwise<G: Group>(
    team: &Team<'_, G>,
    parts: &[&[G::Byte]],
    mut into: Vec<&mut [G::Byte]>,
) -> Result<(), Failure<G>> {
    own_part(team, parts, &mut into)?;
    for step in 1..team.size() {
        let (to, from) = (team.after(step), team.before(step));
        team.exchange(parts[to as usize], to, into[from as usize], from).await?;
    }
    Ok(())
}

/// All-to-all at once: all receives are posted, all sends are one chain. Paper 004's "chain".
async fn chained<G: Group>(
    team: &Team<'_, G>,
    parts: &[&[G::Byte]],
    mut into: Vec<&mut [G::Byte]>,
) -> Result<(), Failure<G>> {
    own_part(team, parts, &mut into)?;
    let others = (1..team.size()).map(|distance| team.after(distance));
    let chain = others.map(|to| (to, parts[to as usize])).collect();
    let places = (0..).zip(into).filter(|(from, _)| *from != team.rank()).collect();
    // Receives first: what comes meanwhile finds its place.
    let (received, sent) = join(team.recv_all(places), team.send_chain(chain)).await;
    sent.and(received)
}

/// All-to-all by Bruck's algorithm (Bruck et al. 1997): ⌈log2 n⌉ messages instead of n - 1.
///
/// A part that has to go `d` ranks further goes in steps of the powers of two that make up `d`; all
/// parts that take the same step go in one message. Each part is sent about log2(n) / 2 times, so
/// this is for parts that are short against the cost of a message.
async fn bruck<G: Group>(
    team: &Team<'_, G>,
    data: &[G::Byte],
    into: &mut [G::Byte],
    length: usize,
) -> Result<(), Failure<G>> {
    let size = team.size();
    let block = |index: u32| index as usize * length..(index as usize + 1) * length;
    // Part `d` has to go `d` ranks further.
    let mut parts = vec![G::Byte::default(); data.len()];
    for distance in 0..size {
        parts[block(distance)].copy_from_slice(&data[block(team.after(distance))]);
    }
    let (mut going, mut coming) = (Vec::with_capacity(data.len()), Vec::new());
    let mut step = 1;
    while step < size {
        let those = || (0..size).filter(|distance| distance & step != 0);
        going.clear();
        those().for_each(|distance| going.extend_from_slice(&parts[block(distance)]));
        coming.resize(going.len(), G::Byte::default());
        team.exchange(&going, team.after(step), &mut coming, team.before(step)).await?;
        for (distance, place) in those().zip(0..) {
            parts[block(distance)].copy_from_slice(&coming[block(place)]);
        }
        step = step.saturating_mul(2);
    }
    // What had to go `d` ranks further has come from `d` ranks back.
    for distance in 0..size {
        into[block(team.before(distance))].copy_from_slice(&parts[block(distance)]);
    }
    Ok(())
}

/// All-to-all by reading: everyone copies its parts out of all others' memory.
///
/// Parts of `length` bytes. `false`: they cannot be read.
async fn read<G: Group>(
    team: &Team<'_, G>,
    data: &[G::Byte],
    into: &mut [G::Byte],
    length: usize,
) -> Result<bool, Stop<G>> {
    let rounds = LineRounds::begin(team).await?;
    let Some(memory) = rounds.show(data).await? else { return Ok(false) };
    let own = rounds.place * length;
    into[own..][..length].copy_from_slice(&data[own..][..length]);
    for place in rounds.others() {
        memory.read(place, own, &mut into[place * length..][..length])?;
    }
    memory.end().await
}

/// All-to-all that replaces what it sends: in step k rank r exchanges with rank k - r.
///
/// In each step the ranks are pairs (or alone), so a part has to be kept aside only while the two
/// of a pair exchange.
async fn in_place<G: Group>(
    team: &Team<'_, G>,
    mut blocks: Vec<&mut [G::Byte]>,
) -> Result<(), Failure<G>> {
    let (rank, size) = (team.rank(), team.size());
    let longest = blocks.iter().map(|block| block.len()).max().unwrap_or(0);
    let mut scratch = Scratch::new(longest);
    for step in 0..size {
        let partner = (step + (size - rank)) % size;
        if partner == rank {
            continue;
        }
        let block = &mut *blocks[partner as usize];
        let comes = &mut scratch.bytes()[..block.len()];
        team.exchange(block, partner, comes, partner).await?;
        block.copy_from_slice(comes);
    }
    Ok(())
}
