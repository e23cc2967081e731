//! Allreduce: combines all ranks' data at all ranks (MPI 5.0 §6.9.6).
//!
//! | algorithm | longest path | remarks |
//! |---|---|---|
//! | recursive-doubling | log2 n exchanges of m, two more messages if n is not a power of two | |
//! | ring | 2 (n - 1) exchanges of m / n, at first in pieces | commutative ones; for large m |
//! | two-level | a reduce and a broadcast within the node, and between nodes as the first | |
//! | lines | a poll of all lines of the node; between nodes as the first | needs shared lines |
//! | read | copies of 2 m (n - 1) / n out of others' memory | needs lines of one node |
//!
//! Each element is combined either in one expression whose value goes to all ranks, or in the same
//! expression at every rank, whatever the algorithm: results are bitwise equal.

mod lines;
mod read;

use std::future::Future;

use crate::blocks::BlockPlaces;
use crate::broadcast::binomial as broadcast;
use crate::call::{Begun, Call, Team};
use crate::combine::{Combine, Reduction};
use crate::doubling::recursive_doubling;
use crate::error::Failure;
use crate::group::Group;
use crate::mates::NodeLayout;
use crate::names::Operation;
use crate::part::{Data, Place};
use crate::reduce::{Operand, binomial as reduce};
use crate::ring::reduce_round;
use crate::rounds::{NEEDS_LINES, by_lines};
use crate::select;
use crate::signature::Signature;

pub use crate::algorithms::allreduce::Algorithm;

/// Up to this many bytes, a separate contribution is copied to the place of the result.
const COPIED_UP_TO: usize = 16 << 10;

/// Combines `data` of all ranks; every rank's `data` becomes the result. All ranks have the same
/// number of bytes.
///
/// # Errors
/// [`crate::CollError`]: lengths differ, a rank is gone or abandoned the call, or `algorithm`
/// cannot keep the order of an ordered reduction.
pub fn allreduce<'a, G: Group, F: Combine<G::Byte>>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    data: &'a mut [G::Byte],
    reduction: Reduction<F>,
) -> impl Future<Output = Result<(), Failure<G>>> {
    begin(group, algorithm, None, data, reduction).end()
}

/// The same where this rank's data has gaps.
///
/// # Errors
/// As [`allreduce()`].
pub fn allreduce_scattered<'a, G: Group<Byte = u8>, F: Combine<u8>>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    data: &'a mut Place<'_, u8>,
    reduction: Reduction<F>,
) -> impl Future<Output = Result<(), Failure<G>>> {
    begin(group, algorithm, None, data, reduction).end()
}

/// Starts [`allreduce()`], which may complete at once.
///
/// # Errors
/// As [`allreduce()`]; every rank must provide a place for the result, as long as its contribution.
#[inline]
pub fn begin_allreduce<'a, G: Group, F: Combine<G::Byte>>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    data: Operand<'a, G::Byte>,
    reduction: Reduction<F>,
) -> Begun<Result<(), Failure<G>>, impl Future<Output = Result<(), Failure<G>>>> {
    let (from, data) = data.apart();
    begin(group, algorithm, from, data, reduction)
}

#[inline]
fn begin<'a, G: Group, D: Data<G::Byte> + ?Sized, F: Combine<G::Byte>>(
    group: &'a G,
    named: Option<Algorithm>,
    mut from: Option<&'a [G::Byte]>,
    data: &'a mut D,
    mut reduction: Reduction<F>,
) -> Begun<Result<(), Failure<G>>, impl Future<Output = Result<(), Failure<G>>>> {
    let needs_lines = |by: &Algorithm| matches!(by, Algorithm::Lines | Algorithm::Read);
    let algorithm = select::resolve(group, named, needs_lines, || {
        let exact = reduction.is_exact(group.element());
        select::for_allreduce(group, data.length(), reduction.commutative, exact)
    });
    let signature = Signature::new(Operation::Allreduce)
        .bytes(data.length())
        .combination(reduction.combination);
    // Long data is combined from where it lies, by algorithms that read parts of it one by one.
    let has_lines = needs_lines(&algorithm);
    if data.length() < COPIED_UP_TO || !has_lines {
        place(from.take_if(|from| from.len() == data.length()), data);
    }
    let algorithm = (algorithm, named.is_some());
    if !has_lines {
        let call = Call::new(group, signature, algorithm.0 as usize);
        return Begun::Waits(run(group, call, algorithm, from, data, reduction));
    }
    let act = |team: &Team<'_, G>| match algorithm.0 {
        Algorithm::Lines => lines::at_once(team, from, data, &mut reduction),
        _ => None,
    };
    Call::on_lines(group, signature, algorithm.0 as usize, act)
        .or_start(|call| run(group, call, algorithm, from, data, reduction))
}

/// Copies a separate contribution to the place of the result.
fn place<B, D: Data<B> + ?Sized>(from: Option<&[B]>, data: &mut D) {
    if let Some(from) = from {
        data.put(0, from);
    }
}

fn run<'a, G: Group, D: Data<G::Byte> + ?Sized, F: Combine<G::Byte>>(
    group: &'a G,
    call: Call<'a, G>,
    (algorithm, is_named): (Algorithm, bool),
    from: Option<&'a [G::Byte]>,
    data: &'a mut D,
    mut reduction: Reduction<F>,
) -> impl Future<Output = Result<(), Failure<G>>> {
    call.run(async move |team| {
        team.check_elements(data.length(), reduction.width)?;
        if let Some(from) = from {
            let what = "the place of the result, in bytes,";
            team.check_argument(what, data.length(), from.len())?;
        }
        let mut algorithm = algorithm;
        if matches!(algorithm, Algorithm::Lines | Algorithm::Read) {
            let how = (algorithm == Algorithm::Read, is_named);
            if by_lines(team, lines::run(team, from, data, &mut reduction, how).await)?.is_some() {
                return Ok(());
            }
            let commutative = reduction.commutative;
            algorithm = select::for_allreduce_by_messages(group, data.length(), commutative);
            team.without_lines(algorithm as usize)?;
            place(from, data);
        }
        match (algorithm, data.whole_mut()) {
            (Algorithm::Ring, _) => ring(team, data, &mut reduction).await,
            (Algorithm::RecursiveDoubling, Some(data)) => {
                recursive_doubling(team, data, &mut reduction).await
            }
            (Algorithm::TwoLevel, Some(data)) => two_level(team, data, &mut reduction).await,
            (Algorithm::RecursiveDoubling, None) => {
                let act =
                    async |data: &mut [_]| recursive_doubling(team, data, &mut reduction).await;
                Box::pin(in_one_piece(data, act)).await
            }
            (Algorithm::TwoLevel, None) => {
                let act = async |data: &mut [_]| two_level(team, data, &mut reduction).await;
                Box::pin(in_one_piece(data, act)).await
            }
            (Algorithm::Lines | Algorithm::Read, _) => team.require(false, NEEDS_LINES),
        }
    })
}

/// Runs `act` on the data in one piece, since algorithms that combine it as a whole exchange it
/// with a receive buffer.
async fn in_one_piece<B: Copy + Default, D: Data<B> + ?Sized, E>(
    data: &mut D,
    act: impl AsyncFnOnce(&mut [B]) -> Result<(), E>,
) -> Result<(), E> {
    if let Some(whole) = data.whole_mut() {
        return act(whole).await;
    }
    let mut beside = vec![B::default(); data.length()];
    beside[..].copy(0, data, 0..data.length());
    let done = act(&mut beside).await;
    data.put(0, &beside);
    done
}

/// Allreduce round a ring: every rank combines one block of the array, then the blocks are passed
/// round.
///
/// ```text
///   blocks of 3 ranks, each passing on to the next:
///   combine:  rank r adds its values to block r - 1 - s in step s; at the end it has block r + 1
///   hand out: block r + 1 - s is passed on in step s, until every rank has all
/// ```
///
/// Every byte crosses each link about twice for any number of ranks, which is the minimum
/// (Patarasu, Yuan 2009). A block is combined once, along one way round, so all ranks have the same
/// bits; but each block starts at a different rank, so the reduction must be commutative.
async fn ring<G: Group, D: Data<G::Byte> + ?Sized, F: Combine<G::Byte>>(
    team: &Team<'_, G>,
    data: &mut D,
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    let size = team.size();
    let blocks = BlockPlaces::even(data.length(), reduction.width, size);
    reduce_round(team, data, &blocks, 1, reduction).await?;
    let (next, previous) = (team.after(1), team.before(1));
    for step in 0..size - 1 {
        let (goes, comes) = (team.before((step + size - 1) % size), team.before(step));
        let (goes, comes) = data.disjoint(blocks.range(goes), blocks.range(comes));
        team.exchange_parts(goes, next, comes, previous).await?;
    }
    Ok(())
}

/// Allreduce in two levels: within each node to its first rank, between those, and back.
///
/// Only one rank of each node uses the network, once. The order of the ranks is kept if each node's
/// ranks are consecutive.
async fn two_level<G: Group, F: Combine<G::Byte>>(
    team: &Team<'_, G>,
    data: &mut [G::Byte],
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    let layout = NodeLayout::of(team.group());
    let in_order = reduction.commutative || layout.in_order;
    team.require(in_order, "needs nodes of consecutive ranks for an ordered reduction")?;
    let node = team.among(&layout.mates, layout.place);
    reduce(&node, data, 0, reduction).await?;
    if let Some(place) = layout.as_leader(team.rank()) {
        let leaders = team.among(&layout.leaders, place);
        recursive_doubling(&leaders, data, reduction).await?;
    }
    broadcast(&node, data, 0).await
}
