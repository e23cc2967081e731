//! Barrier: no rank leaves before all have entered (MPI 5.0 §6.3).
//!
//! The five of paper 003, Fig. 10, where they are named A to E, and two of today's libraries. Their
//! requirements and costs:
//!
//! | algorithm | needs | longest path | messages in all |
//! |---|---|---|---|
//! | wide-tree | | 2 log16 n | 2 (n - 1) |
//! | binary-tree (B) | | 2 log2 n | 2 (n - 1) |
//! | dissemination | | log2 n | n log2 n |
//! | all-to-all (A) | | 1, and n - 1 sends | n (n - 1) |
//! | atomic-add (C) | counters | 1, and n adds | n² adds |
//! | multicast-add (D) | multicast to counters | 1 | n commands |
//! | sync (E) | network synchronisation | 1 | n commands |
//! | lines | lines that ranks of a node share | 1 poll of all; 2 messages between nodes | |

use std::future::Future;

use hikyaku_msg::join;
use hikyaku_nic::fabric::SYNC_MEMBERS;

use crate::call::{Begun, Call, Team};
use crate::error::Failure;
use crate::group::Group;
use crate::names::Operation;
use crate::part::Place;
use crate::rounds::{LineRounds, NEEDS_LINES, Stop, begin_on_network, by_lines, unless_lost};
use crate::select;
use crate::signature::Signature;

pub use crate::algorithms::barrier::Algorithm;

/// Returns after every rank has called it.
///
/// # Errors
/// [`crate::CollError`]: a rank is gone or abandoned the call, or the group lacks what `algorithm`
/// needs.
pub fn barrier<G: Group>(
    group: &G,
    algorithm: Option<Algorithm>,
) -> impl Future<Output = Result<(), Failure<G>>> {
    begin_barrier(group, algorithm).end()
}

/// The same, but the call is ordered among the group's calls here, and entered at the first poll:
/// what a rank does before that poll is done when others leave.
///
/// # Errors
/// As [`barrier()`].
pub fn open_barrier<G: Group>(
    group: &G,
    algorithm: Option<Algorithm>,
) -> impl Future<Output = Result<(), Failure<G>>> {
    let (algorithm, shared) = chosen(group, algorithm);
    let signature = Signature::new(Operation::Barrier);
    let call = Call::new_on(group, signature, algorithm as usize, shared);
    run(group, call, algorithm, shared)
}

/// Replaces a call of any operation that failed at this rank before it could begin: it fails at all
/// ranks.
pub fn fail_call<G: Group>(group: &G) {
    let (algorithm, shared) = chosen(group, None);
    let signature = Signature::new(Operation::Barrier);
    Call::new_on(group, signature, algorithm as usize, shared).fail();
}

/// Starts [`barrier()`], which may complete at once.
///
/// # Errors
/// As [`barrier()`].
#[inline]
pub fn begin_barrier<G: Group>(
    group: &G,
    algorithm: Option<Algorithm>,
) -> Begun<Result<(), Failure<G>>, impl Future<Output = Result<(), Failure<G>>>> {
    let (algorithm, shared) = chosen(group, algorithm);
    let signature = Signature::new(Operation::Barrier);
    if algorithm != Algorithm::Lines {
        let call = Call::new_on(group, signature, algorithm as usize, shared);
        return Begun::Waits(run(group, call, algorithm, shared));
    }
    Call::on_lines(group, signature, algorithm as usize, lines_at_once)
        .or_start(|call| run(group, call, algorithm, shared))
}

/// The algorithm, and whether it takes turns on memory that ranks share.
#[inline]
fn chosen<G: Group>(group: &G, named: Option<Algorithm>) -> (Algorithm, bool) {
    match named {
        Some(by @ (Algorithm::Sync | Algorithm::AtomicAdd | Algorithm::MulticastAdd)) => {
            on_network(group, by)
        }
        _ => {
            let is_lines = |by: &Algorithm| *by == Algorithm::Lines;
            let by = select::resolve(group, named, is_lines, || select::for_barrier(group));
            (by, by == Algorithm::Lines)
        }
    }
}

/// The same for an algorithm that needs more than messages.
#[cold]
fn on_network<G: Group>(group: &G, by: Algorithm) -> (Algorithm, bool) {
    match select::on_network(group, by) {
        (None, _) => chosen(group, None),
        // Paper 003: a sync id is for few ranks; larger groups synchronise by multicast and atomic
        // add.
        (Some(Algorithm::Sync), true) if group.size() as usize > SYNC_MEMBERS => {
            (Algorithm::MulticastAdd, true)
        }
        (Some(by), shared) => (by, shared),
    }
}

fn run<'g, G: Group>(
    group: &'g G,
    call: Call<'g, G>,
    algorithm: Algorithm,
    shared: bool,
) -> impl Future<Output = Result<(), Failure<G>>> {
    let facilities = group.facilities();
    // A sync has no tag: its order is fixed at the call, like that of tags.
    let synchronised = (algorithm == Algorithm::Sync && facilities.sync).then(|| group.sync());
    call.run(async move |team| {
        let mut algorithm = algorithm;
        if shared {
            let done = match algorithm {
                Algorithm::Lines => lines(team).await,
                // Boxed, so that it takes no room in the future of every barrier.
                _ => Box::pin(by_network(team, algorithm)).await,
            };
            if by_lines(team, done)?.is_some() {
                return Ok(());
            }
            algorithm = select::for_barrier_by_messages(group);
            team.without_lines(algorithm as usize)?;
        }
        match algorithm {
            Algorithm::WideTree => tree(team, 16).await,
            Algorithm::BinaryTree => tree(team, 2).await,
            Algorithm::Dissemination => dissemination(team).await,
            Algorithm::AllToAll => all_to_all(team).await,
            Algorithm::AtomicAdd => {
                team.require(false, "needs ranks that share memory, or remote counters")
            }
            Algorithm::MulticastAdd => {
                team.require(false, "needs ranks that share memory, or multicast to counters")
            }
            Algorithm::Sync => match synchronised {
                Some(all) => Ok(all.await?),
                None => team.require(false, NEEDS_SYNC),
            },
            Algorithm::Lines => team.require(false, NEEDS_LINES),
        }
    })
}

/// Barrier by a tree: ranks report to their parent and are released by it.
///
/// With a core for every rank a dissemination barrier has a shorter path, but it wakes every rank
/// log2(n) times. With more ranks than cores the time is the number of context switches, and in a
/// tree of arity sixteen each rank but the root waits at most twice.
async fn tree<G: Group>(team: &Team<'_, G>, arity: u32) -> Result<(), Failure<G>> {
    let (rank, size) = (team.rank(), team.size());
    // One after the other: the last report ends the wait, whatever the order of the receives.
    for child in children(rank, size, arity) {
        team.recv(&mut [], child).await?;
    }
    if let Some(parent) = rank.checked_sub(1).map(|above| above / arity) {
        team.send(&[], parent).await?;
        team.recv(&mut [], parent).await?;
    }
    for child in children(rank, size, arity) {
        team.send(&[], child).await?;
    }
    Ok(())
}

/// The ranks that report to this one.
fn children(rank: u32, size: u32, arity: u32) -> impl Iterator<Item = u32> {
    let first = u64::from(rank) * u64::from(arity) + 1;
    let last = (first + u64::from(arity)).min(u64::from(size));
    (first..last).map(|child| child as u32)
}

/// Barrier by dissemination: after round k every rank has a report, direct or not, of the 2^k ranks
/// before it.
async fn dissemination<G: Group>(team: &Team<'_, G>) -> Result<(), Failure<G>> {
    let mut distance = 1;
    while distance < team.size() {
        team.exchange(&[], team.after(distance), &mut [], team.before(distance)).await?;
        distance = distance.saturating_mul(2);
    }
    Ok(())
}

/// Barrier by n (n - 1) messages: paper 003's A, which grows with n at every rank.
async fn all_to_all<G: Group>(team: &Team<'_, G>) -> Result<(), Failure<G>> {
    // From the next rank on, so that not all ranks send to rank 0 first.
    let others = || (1..team.size()).map(|distance| team.after(distance));
    let news = others().map(|to| (to, &[][..])).collect();
    let places = others().map(|from| (from, Place::Whole(&mut []))).collect();
    let (told, heard) = join(team.send_chain(news), team.recv_all(places)).await;
    told.and(heard)
}

/// Barrier by counters that only grow: every rank adds one to each rank's counter, and leaves when
/// its own has grown by the number of ranks (`taken`). Paper 003's C: by one command for each rank.
///
/// Additions of a later barrier may be counted for this one without harm: a rank enters the later
/// one only after it has left this one, and then all ranks have entered this one.
async fn add_one_by_one<G: Group>(
    team: &Team<'_, G>,
    taken: impl Future<Output = Result<(), G::Error>>,
) -> Result<(), Failure<G>> {
    for distance in 0..team.size() {
        team.group().add(team.after(distance)).await?;
    }
    Ok(taken.await?)
}

/// The same by one command for all: paper 003's D.
async fn add_by_multicast<G: Group>(
    team: &Team<'_, G>,
    taken: impl Future<Output = Result<(), G::Error>>,
) -> Result<(), Failure<G>> {
    team.group().add_to_all().await?;
    Ok(taken.await?)
}

/// Why a barrier by sync ids is refused.
const NEEDS_SYNC: &str = "needs ranks that share memory, or a network that synchronises";

/// Barrier by the port's group of all ranks: by a sync id, or by counters (paper 003's C, D, E).
async fn by_network<G: Group>(team: &Team<'_, G>, algorithm: Algorithm) -> Result<(), Stop<G>> {
    begin_on_network(team).await?;
    let group = team.group();
    // Only now: the additions of a call that never has its turn must not be waited for.
    let taken = || group.take(u64::from(group.size()));
    match algorithm {
        Algorithm::AtomicAdd => unless_lost(team, add_one_by_one(team, taken())).await,
        Algorithm::MulticastAdd => unless_lost(team, add_by_multicast(team, taken())).await,
        _ => {
            let all = async { group.sync().await.map_err(Failure::<G>::from) };
            unless_lost(team, all).await
        }
    }
}

/// The children of a leader: all others.
const ARITY: u32 = 16;

/// Barrier by lines: every rank enters a round and waits until all have. Over several nodes the
/// leaders then wait for each other, and each releases its node.
#[inline(always)]
async fn lines<G: Group>(team: &Team<'_, G>) -> Result<(), Stop<G>> {
    let rounds = LineRounds::begin(team).await?;
    rounds.meet(&[]).await?;
    rounds.finish(Ok(()))?;
    if rounds.mates.are_all() { Ok(()) } else { across(&rounds).await }
}

/// The same without waiting, if all have entered.
#[inline(always)]
fn lines_at_once<G: Group>(team: &Team<'_, G>) -> Option<Result<(), Failure<G>>> {
    let rounds = LineRounds::at_once(team)?;
    match rounds.try_meet(&[]) {
        Ok(met) => met.map(|()| rounds.finish(Ok(()))),
        Err(failure) => Some(Err(failure)),
    }
}

#[inline(never)]
async fn across<G: Group>(rounds: &LineRounds<'_, G>) -> Result<(), Stop<G>> {
    if rounds.place == 0 {
        let leaders = rounds.team.among(rounds.mates.leaders(), rounds.mates.own() as u32);
        rounds.unless_lost(tree(&leaders, ARITY)).await?;
    }
    rounds.broadcast(&mut [], 0).await
}
