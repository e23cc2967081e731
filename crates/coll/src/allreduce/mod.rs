//! Allreduce: all ranks' data combined, at all (MPI 5.0 §6.9.6).
//!
//! | algorithm | longest path | remarks |
//! |---|---|---|
//! | recursive-doubling | log2 n exchanges of m, two messages more if n is no power of two | |
//! | ring | 2 (n - 1) exchanges of m / n, at first in pieces | commutative ones; for large m |
//! | two-level | a reduce and a broadcast within the node, and between nodes as the first | |
//! | lines | a look at all of the node; between nodes as the first | needs shared lines |
//! | read | copies of 2 m (n - 1) / n out of others' memory | needs lines of one node |
//!
//! Whatever the algorithm, each element is combined in one expression whose value goes to all
//! ranks, or in the same expression at every rank: results are bitwise equal.

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

/// Bytes up to which what a rank gives is put where the result is to be, if it is elsewhere.
const COPIED_UP_TO: usize = 16 << 10;

/// Combines `data` of all ranks; afterwards every rank's `data` is the result. All ranks have the
/// same number of bytes.
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

/// The same of data that have gaps, at this rank.
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

/// Starts [`allreduce()`]: it may be over.
///
/// # Errors
/// As there; every rank has to give a place for the result, as long as what it gives.
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
    // Long data are combined from where they are, where parts of them are looked at one by one.
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
        Algorithm::Lines if from.is_none() => lines::at_once(team, data, &mut reduction),
        _ => None,
    };
    Call::on_lines(group, signature, algorithm.0 as usize, act)
        .or_start(|call| run(group, call, algorithm, from, data, reduction))
}

/// Puts what a rank gives to where the result is to be, if it is elsewhere.
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

/// Does something with data in one piece: what is combined as a whole changes places with what
/// comes.
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

/// Allreduce round a ring: every rank combines one block of the array, then the blocks go round.
///
/// ```text
///   blocks of 3 ranks, each passing on to the next:
///   combine:  rank r adds what it has to block r - 1 - s in step s; in the end it has block r + 1
///   hand out: block r + 1 - s goes on in step s, and everybody has all
/// ```
///
/// Every byte crosses each link about twice whatever the number of ranks, which is the least there
/// can be (Patarasu, Yuan 2009). A block is combined once, along one way round, so all ranks have
/// the same bits; but it starts at a different rank for each block, so the reduction must be
/// commutative.
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
/// ranks follow each other.
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
