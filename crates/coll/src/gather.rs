//! Gather: the parts of all ranks side by side at one rank (MPI 5.0 §6.5).
//!
//! | algorithm | longest path | remarks |
//! |---|---|---|
//! | chained | n - 1 messages of m at the root, in any order of arrival | |
//! | linear | the same, in rank order: one receive at a time | |
//! | binomial | log2 n messages, of m to n m / 2 | equal parts; for small ones |
//! | lines | the root polls all lines | equal parts, all on one node with lines; short parts |

use std::future::Future;

use crate::allgather::{PIECES, collect_piece};
use crate::blocks::BlockPlaces;
use crate::call::{Begun, Call, Team};
use crate::error::Failure;
use crate::group::Group;
use crate::names::Operation;
use crate::part::{Data, Part, Place, Source, whole_places};
use crate::rounds::{LineRounds, Stop, by_lines, starts};
use crate::select;
use crate::signature::Signature;

pub use crate::algorithms::gather::Algorithm;

/// Collects `mine` of every rank at `root`, in rank order, in `into`, which has room for that many
/// bytes of each rank; other ranks ignore `into`. `None` at the root: its part is already in its
/// place (MPI_IN_PLACE).
///
/// # Errors
/// [`crate::CollError`]: `root` does not exist, lengths differ, or a rank is gone or abandoned the
/// call.
pub fn gather<'a, G: Group>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    mine: Option<&'a [G::Byte]>,
    into: &'a mut [G::Byte],
    root: u32,
) -> impl Future<Output = Result<(), Failure<G>>> {
    begin_gather(group, algorithm, mine, into, root).end()
}

/// Starts [`gather()`], which may complete at once.
///
/// # Errors
/// As [`gather()`].
#[inline]
pub fn begin_gather<'a, G: Group>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    mine: Option<&'a [G::Byte]>,
    into: &'a mut [G::Byte],
    root: u32,
) -> Begun<Result<(), Failure<G>>, impl Future<Output = Result<(), Failure<G>>>> {
    begin(group, algorithm, mine, into, root)
}

/// The same where this rank's data has gaps.
///
/// # Errors
/// As [`gather()`].
pub fn gather_scattered<'a, G: Group<Byte = u8>>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    mine: Option<&'a Part<'_, u8>>,
    into: &'a mut Place<'_, u8>,
    root: u32,
) -> impl Future<Output = Result<(), Failure<G>>> {
    begin(group, algorithm, mine, into, root).end()
}

#[inline]
fn begin<'a, G: Group, S: Source<G::Byte> + ?Sized, D: Data<G::Byte> + ?Sized>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    mine: Option<&'a S>,
    into: &'a mut D,
    root: u32,
) -> Begun<Result<(), Failure<G>>, impl Future<Output = Result<(), Failure<G>>>> {
    let length = mine.map_or_else(|| into.length() / group.size() as usize, S::length);
    let is_lines = |by: &Algorithm| *by == Algorithm::Lines;
    let table = || select::for_gather(group, length);
    let algorithm = select::resolve(group, algorithm, is_lines, table);
    let signature = Signature::new(Operation::Gather).root(root).bytes(length);
    let mut is_kept = false;
    let act = |team: &Team<'_, G>| match check(team, mine, into, length, root) {
        Ok(()) => {
            // While others write their parts.
            keep_own(team, mine, into, root);
            is_kept = true;
            at_once(team, mine, into, length, root)
        }
        Err(failure) => Some(Err(failure)),
    };
    let lines = algorithm == Algorithm::Lines;
    Call::begin(group, signature, algorithm as usize, lines, act)
        .or_start(|call| start(call, algorithm, (mine, into, is_kept), length, root))
}

async fn start<G: Group, S: Source<G::Byte> + ?Sized, D: Data<G::Byte> + ?Sized>(
    call: Call<'_, G>,
    algorithm: Algorithm,
    (mine, into, is_kept): (Option<&S>, &mut D, bool),
    length: usize,
    root: u32,
) -> Result<(), Failure<G>> {
    call.run(async move |team| {
        check(team, mine, into, length, root)?;
        if !is_kept {
            keep_own(team, mine, into, root);
        }
        let mut algorithm = algorithm;
        if algorithm == Algorithm::Lines {
            if by_lines(team, lines(team, mine, into, length, root).await)?.is_some() {
                return Ok(());
            }
            algorithm = select::for_gather_by_messages(team.group(), length);
            team.without_lines(algorithm as usize)?;
        }
        if algorithm == Algorithm::Binomial {
            return binomial(team, mine, into, length, root).await;
        }
        let at_root = team.rank() == root;
        let blocks = if at_root { into.split(length, team.size()) } else { Vec::new() };
        let mine = mine.filter(|_| !at_root).map(S::all);
        flat(team, algorithm, mine, blocks, root).await
    })
    .await
}

/// Checks the arguments.
#[inline]
fn check<G: Group, S: Source<G::Byte> + ?Sized, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    mine: Option<&S>,
    into: &D,
    length: usize,
    root: u32,
) -> Result<(), Failure<G>> {
    team.check_own(mine, root)?;
    if team.rank() != root {
        return Ok(());
    }
    let needed = length * team.size() as usize;
    if into.length() != needed || mine.is_none() {
        team.share("the buffer for all parts", into.length())?;
    }
    team.check_argument("the buffer for all parts, in bytes,", into.length(), needed)
}

/// Puts the root's own part in its place.
#[inline]
fn keep_own<G: Group, S: Source<G::Byte> + ?Sized, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    mine: Option<&S>,
    into: &mut D,
    root: u32,
) {
    if let Some(mine) = mine.filter(|_| team.rank() == root) {
        into.copy(root as usize * mine.length(), mine, 0..mine.length());
    }
}

/// Gather by lines: every rank writes its part and returns; the root reads all.
async fn lines<G: Group, S: Source<G::Byte> + ?Sized, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    mine: Option<&S>,
    into: &mut D,
    length: usize,
    root: u32,
) -> Result<(), Stop<G>> {
    let rounds = LineRounds::begin_all(team).await?;
    let piece = rounds.part(PIECES, 1);
    let mut packet = Vec::new();
    for from in starts(length, piece) {
        let piece = from..length.min(from.saturating_add(piece));
        match mine.filter(|_| team.rank() != root) {
            Some(mine) => rounds.give(mine.load(piece, &mut packet)).await?,
            None => {
                rounds.await_others().await?;
                collect_piece(&rounds, into, &BlockPlaces::Equal { length }, piece)?;
            }
        }
    }
    Ok(())
}

/// The same without waiting, if the part is one piece. The root also needs that all have written.
#[inline(always)]
fn at_once<G: Group, S: Source<G::Byte> + ?Sized, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    mine: Option<&S>,
    into: &mut D,
    length: usize,
    root: u32,
) -> Option<Result<(), Failure<G>>> {
    let rounds = LineRounds::at_once(team)?;
    if !rounds.is_one_part(length, PIECES, 1) {
        return None;
    }
    if team.rank() != root {
        return rounds.try_give(mine?.whole()?);
    }
    let (into, blocks) = (into.whole_mut()?, BlockPlaces::Equal { length });
    match rounds.try_others() {
        Ok(all) => all.then(|| collect_piece(&rounds, into, &blocks, 0..length)),
        Err(failure) => Some(Err(failure)),
    }
}

/// The same with any length per rank (MPI_Gatherv): block `r` of `blocks` receives the part of rank
/// `r` and has the same length. Only the root uses `blocks`.
///
/// # Errors
/// As [`gather()`]; and the algorithms `binomial` and `lines`, in which ranks would have to know
/// others' lengths.
pub fn gatherv<'a, G: Group>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    mine: Option<&'a [G::Byte]>,
    blocks: Vec<&'a mut [G::Byte]>,
    root: u32,
) -> impl Future<Output = Result<(), Failure<G>>> {
    gatherv_parts(group, algorithm, mine.map(Part::Whole), whole_places(blocks), root)
}

/// The same for data that may have gaps. If the root's do, its own part is `None` and in its place.
///
/// # Errors
/// As [`gatherv`].
pub fn gatherv_parts<'a, G: Group>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    mine: Option<Part<'a, G::Byte>>,
    blocks: Vec<Place<'a, G::Byte>>,
    root: u32,
) -> impl Future<Output = Result<(), Failure<G>>> {
    let algorithm = algorithm.unwrap_or_else(|| select::for_gatherv(group));
    let signature = Signature::new(Operation::Gather).root(root);
    let call = Call::new(group, signature, algorithm as usize);
    call.run(async move |team| {
        let mine = team.check_own(mine, root)?;
        if team.rank() == root {
            let needed = team.size() as usize;
            team.check_argument("the list of blocks, one a rank,", blocks.len(), needed)?;
        }
        flat(team, algorithm, mine, blocks, root).await
    })
}

/// All ranks send to the root, which receives all at once or one after the other. Only the root
/// uses `blocks`.
async fn flat<G: Group>(
    team: &Team<'_, G>,
    algorithm: Algorithm,
    mine: Option<Part<'_, G::Byte>>,
    blocks: Vec<Place<'_, G::Byte>>,
    root: u32,
) -> Result<(), Failure<G>> {
    let is_flat = matches!(algorithm, Algorithm::Chained | Algorithm::Linear);
    team.require(is_flat, "needs parts of one length")?;
    let Some(others) = own_part(team, mine, blocks, root).await? else { return Ok(()) };
    if algorithm == Algorithm::Chained {
        return team.recv_all(others).await;
    }
    for (from, block) in others {
        team.recv_part(block, from).await?;
    }
    Ok(())
}

/// Sends this rank's part to the root. Returns at the root the parts that it has yet to receive.
async fn own_part<'b, G: Group>(
    team: &Team<'_, G>,
    mine: Option<Part<'_, G::Byte>>,
    blocks: Vec<Place<'b, G::Byte>>,
    root: u32,
) -> Result<Option<Vec<(u32, Place<'b, G::Byte>)>>, Failure<G>> {
    if team.rank() != root {
        team.send_part(mine.unwrap_or(Part::Whole(&[])), root).await?;
        return Ok(None);
    }
    let mut others: Vec<_> = (0..).zip(blocks).collect();
    let (_, block) = others.remove(root as usize);
    if let Some(mine) = mine {
        team.own_part("the root's own part, in bytes,", mine, block)?();
    }
    Ok(Some(others))
}

/// Gather up a binomial tree: each rank collects the parts of its subtree, which covers consecutive
/// places counted from the root, and sends them on as one message. The root's own part is in its
/// place.
async fn binomial<G: Group, S: Source<G::Byte> + ?Sized, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    mine: Option<&S>,
    into: &mut D,
    length: usize,
    root: u32,
) -> Result<(), Failure<G>> {
    let (place, size) = (team.before(root), team.size());
    if place == 0 && root == 0 {
        return collect(team, into, length, place).await;
    }
    let places = subtree(place, size);
    if let (1, Some(mine)) = (places, mine) {
        // This rank has no children.
        return team.send_part(mine.all(), team.before(lowest_bit(place))).await;
    }
    let mut parts = vec![G::Byte::default(); places as usize * length];
    if place > 0 {
        if let Some(mine) = mine {
            parts[..].copy(0, mine, 0..length);
        }
        collect(team, &mut parts[..], length, place).await?;
        return team.send(&parts, team.before(lowest_bit(place))).await;
    }
    collect(team, &mut parts[..], length, place).await?;
    // From places to ranks: the parts of ranks before the root are at the end.
    let (from_root, before_root) = parts.split_at((size - root) as usize * length);
    into.put((root as usize + 1) * length, &from_root[length..]);
    into.put(0, before_root);
    Ok(())
}

/// Receives the parts of the places below this one.
async fn collect<G: Group, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    parts: &mut D,
    length: usize,
    place: u32,
) -> Result<(), Failure<G>> {
    let mut distance = 1;
    while distance < team.size() - place && place & distance == 0 {
        let count = subtree(place + distance, team.size()) as usize;
        let theirs = distance as usize * length..(distance as usize + count) * length;
        team.recv_part(parts.place(theirs), team.after(distance)).await?;
        distance <<= 1;
    }
    Ok(())
}

/// The number of places in the subtree of a place, or in the whole tree for the root.
pub(crate) fn subtree(place: u32, size: u32) -> u32 {
    if place == 0 { size } else { lowest_bit(place).min(size - place) }
}

/// The distance from a place to its parent.
pub(crate) fn lowest_bit(place: u32) -> u32 {
    place & place.wrapping_neg()
}
