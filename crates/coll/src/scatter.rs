//! Scatter: a part of one rank's data to each rank (MPI 5.0 §6.6).
//!
//! | algorithm | longest path | remarks |
//! |---|---|---|
//! | chained | n - 1 messages of m at the root, one chain | paper 004, Fig. 5 |
//! | linear | the same, one send after the other | |
//! | binomial | log2 n messages, of n m / 2 to m | equal parts; for small ones |
//! | lines | all poll the root's line | equal parts, all on one node with lines; short parts |

use std::future::Future;
use std::ops::Range;

use hikyaku_msg::join;

use crate::alltoall::PIECES;
use crate::call::{Begun, Call, Team};
use crate::error::Failure;
use crate::gather::{lowest_bit, subtree};
use crate::group::Group;
use crate::names::Operation;
use crate::part::{Data, Part, Place, Source, whole_parts};
use crate::rounds::{LineRounds, Stop, by_lines, starts};
use crate::select;
use crate::signature::Signature;

pub use crate::algorithms::scatter::Algorithm;

/// Copies block `r` of `all` at `root` to `into` of rank `r`; all blocks have the length of `into`.
/// Only the root uses `all`. `None` at the root: its part stays where it is (MPI_IN_PLACE).
///
/// # Errors
/// [`crate::CollError`]: `root` does not exist, lengths differ, or a rank is gone or abandoned the
/// call.
pub fn scatter<'a, G: Group>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    all: &'a [G::Byte],
    into: Option<&'a mut [G::Byte]>,
    root: u32,
) -> impl Future<Output = Result<(), Failure<G>>> {
    begin_scatter(group, algorithm, all, into, root).end()
}

/// Starts [`scatter()`], which may complete at once.
///
/// # Errors
/// As [`scatter()`].
#[inline]
pub fn begin_scatter<'a, G: Group>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    all: &'a [G::Byte],
    into: Option<&'a mut [G::Byte]>,
    root: u32,
) -> Begun<Result<(), Failure<G>>, impl Future<Output = Result<(), Failure<G>>>> {
    begin(group, algorithm, all, into, root)
}

/// The same where this rank's data has gaps.
///
/// # Errors
/// As [`scatter()`].
pub fn scatter_scattered<'a, G: Group<Byte = u8>>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    all: &'a Part<'_, u8>,
    into: Option<&'a mut Place<'_, u8>>,
    root: u32,
) -> impl Future<Output = Result<(), Failure<G>>> {
    begin(group, algorithm, all, into, root).end()
}

#[inline]
fn begin<'a, G: Group, S: Source<G::Byte> + ?Sized, D: Data<G::Byte> + ?Sized>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    all: &'a S,
    mut into: Option<&'a mut D>,
    root: u32,
) -> Begun<Result<(), Failure<G>>, impl Future<Output = Result<(), Failure<G>>>> {
    let length = match &into {
        Some(into) => into.length(),
        None => all.length() / group.size() as usize,
    };
    let is_lines = |by: &Algorithm| *by == Algorithm::Lines;
    let table = || select::for_scatter(group, length);
    let algorithm = select::resolve(group, algorithm, is_lines, table);
    let signature = Signature::new(Operation::Scatter).root(root).bytes(length);
    let act = |team: &Team<'_, G>| match check(team, all, into.as_deref(), length, root) {
        Ok(()) => at_once(team, all, &mut into, length, root),
        Err(failure) => Some(Err(failure)),
    };
    let lines = algorithm == Algorithm::Lines;
    Call::begin(group, signature, algorithm as usize, lines, act)
        .or_start(|call| start(call, algorithm, (all, into), length, root))
}

async fn start<G: Group, S: Source<G::Byte> + ?Sized, D: Data<G::Byte> + ?Sized>(
    call: Call<'_, G>,
    algorithm: Algorithm,
    (all, mut into): (&S, Option<&mut D>),
    length: usize,
    root: u32,
) -> Result<(), Failure<G>> {
    call.run(async move |team| {
        check(team, all, into.as_deref(), length, root)?;
        let mut algorithm = algorithm;
        if algorithm == Algorithm::Lines {
            if by_lines(team, lines(team, all, into.as_deref_mut(), length, root).await)?.is_some()
            {
                keep_own(team, all, into, root);
                return Ok(());
            }
            algorithm = select::for_scatter_by_messages(team.group(), length);
            team.without_lines(algorithm as usize)?;
        }
        let is_root = team.rank() == root;
        let (own, into) = if is_root { (into, None) } else { (None, into) };
        let by_messages = async {
            if algorithm == Algorithm::Binomial {
                return binomial(team, all, into, length, root).await;
            }
            let blocks = if is_root { all.cut(length, team.size()) } else { Vec::new() };
            flat(team, algorithm, blocks, into.map(D::all_places), root).await
        };
        // While others receive their parts.
        let keep = async { keep_own(team, all, own, root) };
        join(by_messages, keep).await.0
    })
    .await
}

/// Checks the arguments.
#[inline]
fn check<G: Group, S: Source<G::Byte> + ?Sized, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    all: &S,
    into: Option<&D>,
    length: usize,
    root: u32,
) -> Result<(), Failure<G>> {
    let into = team.check_own(into, root)?;
    if team.rank() != root {
        return Ok(());
    }
    let needed = length * team.size() as usize;
    if all.length() != needed || into.is_none() {
        team.share("the array of all parts", all.length())?;
    }
    team.check_argument("the array of all parts, in bytes,", all.length(), needed)
}

/// Puts the root's own part in its place.
#[inline]
fn keep_own<G: Group, S: Source<G::Byte> + ?Sized, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    all: &S,
    into: Option<&mut D>,
    root: u32,
) {
    if let Some(into) = into.filter(|_| team.rank() == root) {
        let (length, root) = (into.length(), root as usize);
        into.copy(0, all, root * length..(root + 1) * length);
    }
}

/// Scatter by lines: the root writes all parts and returns; every rank reads its own.
///
/// Parts have `length` bytes. If they are long, a round has a piece of each.
async fn lines<G: Group, S: Source<G::Byte> + ?Sized, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    all: &S,
    into: Option<&mut D>,
    length: usize,
    root: u32,
) -> Result<(), Stop<G>> {
    let rounds = LineRounds::begin_all(team).await?;
    team.require(rounds.size <= rounds.part(1, 1), "needs longer lines for so many ranks")?;
    let piece = (rounds.part(PIECES, 1) / rounds.size).max(1);
    let mut into = into.filter(|_| team.rank() != root);
    let (mut pieces, mut packet) = (Vec::new(), Vec::new());
    let said = said(rounds.size, root as usize);
    for from in starts(length, piece) {
        let to = length.min(from.saturating_add(piece));
        let Some(into) = &mut into else {
            if said.len() == 1 {
                let part = said.start * length;
                rounds.give(all.load(part + from..part + to, &mut packet)).await?;
                continue;
            }
            pieces.resize((to - from) * said.len(), G::Byte::default());
            for (at, place) in said.clone().enumerate() {
                let part = place * length;
                pieces[..].copy(at * (to - from), all, part + from..part + to);
            }
            rounds.give(&pieces).await?;
            continue;
        };
        let room = into.room(from..to, &mut packet);
        rounds.take(root as usize, (rounds.place - said.start) * (to - from), room).await?;
        into.settle(from, &packet);
        rounds.finish(Ok(()))?;
    }
    Ok(())
}

/// The places whose parts the root writes: all but its own, if the others are then contiguous.
fn said(size: usize, root: usize) -> Range<usize> {
    usize::from(root == 0)..size - usize::from(root + 1 == size && root > 0)
}

/// The same without waiting, if it is one piece. Ranks other than the root also need that the root
/// has written.
#[inline(always)]
fn at_once<G: Group, S: Source<G::Byte> + ?Sized, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    all: &S,
    into: &mut Option<&mut D>,
    length: usize,
    root: u32,
) -> Option<Result<(), Failure<G>>> {
    let rounds = LineRounds::at_once(team)?;
    if length > rounds.part(PIECES, 1) / rounds.size {
        return None;
    }
    let said = said(rounds.size, root as usize);
    if team.rank() == root {
        let given = rounds.try_give(&all.whole()?[said.start * length..said.end * length])?;
        return Some(given.map(|()| keep_own(team, all, into.as_deref_mut(), root)));
    }
    let into = into.as_mut()?.whole_mut()?;
    rounds.try_part(root as usize, (rounds.place - said.start) * length, into)
}

/// The same with any length per rank (MPI_Scatterv): rank `r` receives block `r` of `blocks`, and
/// its `into` has the same length. Only the root uses `blocks`.
///
/// # Errors
/// As [`scatter()`]; and the algorithms `binomial` and `lines`, in which ranks would have to know
/// others' lengths.
pub fn scatterv<'a, G: Group>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    blocks: &'a [&'a [G::Byte]],
    into: Option<&'a mut [G::Byte]>,
    root: u32,
) -> impl Future<Output = Result<(), Failure<G>>> {
    scatterv_parts(group, algorithm, whole_parts(blocks), into.map(Place::Whole), root)
}

/// The same for data that may have gaps. If the root's place does, it is `None` and has its part
/// already.
///
/// # Errors
/// As [`scatterv`].
pub fn scatterv_parts<'a, G: Group>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    blocks: Vec<Part<'a, G::Byte>>,
    into: Option<Place<'a, G::Byte>>,
    root: u32,
) -> impl Future<Output = Result<(), Failure<G>>> {
    let algorithm = algorithm.unwrap_or_else(|| select::for_scatterv(group));
    let signature = Signature::new(Operation::Scatter).root(root);
    let call = Call::new(group, signature, algorithm as usize);
    call.run(async move |team| {
        let into = team.check_own(into, root)?;
        if team.rank() == root {
            let needed = team.size() as usize;
            team.check_argument("the list of blocks, one a rank,", blocks.len(), needed)?;
        }
        flat(team, algorithm, blocks, into, root).await
    })
}

/// The root sends to each rank directly: by one chain, or one send after the other. Only the root
/// uses `blocks`.
pub(crate) async fn flat<G: Group>(
    team: &Team<'_, G>,
    algorithm: Algorithm,
    blocks: Vec<Part<'_, G::Byte>>,
    into: Option<Place<'_, G::Byte>>,
    root: u32,
) -> Result<(), Failure<G>> {
    let is_flat = matches!(algorithm, Algorithm::Chained | Algorithm::Linear);
    team.require(is_flat, "needs parts of one length")?;
    if team.rank() != root {
        return match into {
            Some(into) => team.recv_part(into, root).await,
            None => Ok(()),
        };
    }
    let mut others: Vec<_> = (0..).zip(blocks).collect();
    others.rotate_left(root as usize);
    let (_, own) = others.remove(0);
    let place = |into| team.own_part("the root's own part, in bytes,", own, into);
    let own = into.map(place).transpose()?;
    let send = async {
        if algorithm == Algorithm::Chained {
            return team.send_parts(others).await;
        }
        for (to, block) in others {
            team.send_part(block, to).await?;
        }
        Ok(())
    };
    // While the others' parts are in flight.
    join(send, async { own.into_iter().for_each(|copy| copy()) }).await.0
}

/// Scatter down a binomial tree: each rank receives the parts of its subtree as one message, keeps
/// its own and passes on the others. The root has its own already.
async fn binomial<G: Group, S: Source<G::Byte> + ?Sized, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    all: &S,
    into: Option<&mut D>,
    length: usize,
    root: u32,
) -> Result<(), Failure<G>> {
    let (place, size) = (team.before(root), team.size());
    if place == 0 && root == 0 {
        return hand_on(team, all, length, place).await;
    }
    let (places, parent) = (subtree(place, size), team.before(lowest_bit(place)));
    let mut parts = Vec::new();
    if let Some(into) = into {
        if places == 1 {
            // This rank has no children.
            return team.recv_part(into.all_places(), parent).await;
        }
        parts.resize(places as usize * length, G::Byte::default());
        team.recv(&mut parts, parent).await?;
        into.put(0, &parts[..length]);
    } else {
        // From ranks to places: the parts of ranks before the root move to the end.
        parts.resize(places as usize * length, G::Byte::default());
        let before = root as usize * length;
        parts[..].copy(0, all, before..all.length());
        parts[..].copy(all.length() - before, all, 0..before);
    }
    hand_on(team, &parts[..], length, place).await
}

/// Sends the parts of the places below this one, the largest subtree first.
async fn hand_on<G: Group, S: Source<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    parts: &S,
    length: usize,
    place: u32,
) -> Result<(), Failure<G>> {
    let places = subtree(place, team.size());
    let mut distance = places.next_power_of_two() >> 1;
    while distance > 0 {
        let count = subtree(place + distance, team.size()) as usize;
        let theirs = distance as usize * length..(distance as usize + count) * length;
        team.send_part(parts.part(theirs), team.after(distance)).await?;
        distance >>= 1;
    }
    Ok(())
}
