//! Reduce-scatter: combines all ranks' arrays, with a part of the result at each (MPI 5.0 §6.10).
//!
//! | algorithm | longest path | remarks |
//! |---|---|---|
//! | reduce-then-scatter | a reduce of n m and a scatter | any reduction |
//! | pairwise | n - 1 exchanges of m | commutative reductions |
//! | ring | n - 1 exchanges of m with neighbours, in pieces | commutative reductions |
//! | lines | a poll of all lines | any reduction; all ranks on one node with lines; short data |
//! | read | n - 1 copies of m out of others' memory | commutative reductions; else as lines |

use std::future::Future;
use std::ops::Range;

use hikyaku_nic::ring::{LINE_BYTES, copy};

use crate::blocks::BlockPlaces;
use crate::call::{Begun, Call, Team};
use crate::combine::{Combine, PARTS, Reduction, combine_tree, digits};
use crate::error::Failure;
use crate::group::Group;
use crate::list;
use crate::names::Operation;
use crate::part::{Place, whole_parts};
use crate::reduce::{Operand, binomial as reduce};
use crate::ring::reduce_round;
use crate::rounds::{LineRounds, NEEDS_LINES, Stop, by_lines};
use crate::scatter::{Algorithm as Scatter, flat as scatter};
use crate::scratch::Scratch;
use crate::select;
use crate::signature::Signature;

pub use crate::algorithms::reduce_scatter::Algorithm;

/// Bytes that are combined at a time: they fit the caches, and are long compared with the cost of
/// requesting a copy.
const PIECE: usize = 64 << 10;

/// Combines `data` of all ranks, which has one block of equal length for each rank; `into` of rank
/// `r` receives block `r` of the result (MPI_Reduce_scatter_block). `data` is unspecified
/// afterwards.
///
/// # Errors
/// [`crate::CollError`]: lengths differ, a rank is gone or abandoned the call, or `algorithm`
/// cannot keep the order of an ordered reduction.
pub fn reduce_scatter_block<'a, G: Group, F: Combine<G::Byte>>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    data: &'a mut [G::Byte],
    into: &'a mut [G::Byte],
    reduction: Reduction<F>,
) -> impl Future<Output = Result<(), Failure<G>>> {
    begin_reduce_scatter_block(group, algorithm, Operand::Own(data), into, reduction).end()
}

/// Starts [`reduce_scatter_block`], which may complete at once.
///
/// # Errors
/// As [`reduce_scatter_block`].
#[inline]
pub fn begin_reduce_scatter_block<'a, G: Group, F: Combine<G::Byte>>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    data: Operand<'a, G::Byte>,
    into: &'a mut [G::Byte],
    reduction: Reduction<F>,
) -> Begun<Result<(), Failure<G>>, impl Future<Output = Result<(), Failure<G>>>> {
    let (bytes, size) = (data.bytes().len(), group.size() as usize);
    // The usual case needs no division.
    let length = match into.len().checked_mul(size) == Some(bytes) {
        true => into.len(),
        false => bytes / size,
    };
    begin(group, algorithm, data, BlockPlaces::Equal { length }, into, reduction)
}

/// The same with any length per rank: `lengths[r]` bytes for rank `r`, with the same list at all
/// ranks (MPI_Reduce_scatter).
///
/// # Errors
/// As [`reduce_scatter_block`].
pub fn reduce_scatter<'a, G: Group, F: Combine<G::Byte>>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    data: &'a mut [G::Byte],
    lengths: &[usize],
    into: &'a mut [G::Byte],
    reduction: Reduction<F>,
) -> impl Future<Output = Result<(), Failure<G>>> {
    let (data, lengths) = (Operand::Own(data), lengths.iter().copied());
    begin_reduce_scatter(group, algorithm, data, lengths, into, reduction).end()
}

/// Starts [`reduce_scatter()`], which may complete at once.
///
/// # Errors
/// As [`reduce_scatter()`].
#[inline]
pub fn begin_reduce_scatter<'a, G: Group, F: Combine<G::Byte>>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    data: Operand<'a, G::Byte>,
    lengths: impl ExactSizeIterator<Item = usize>,
    into: &'a mut [G::Byte],
    reduction: Reduction<F>,
) -> Begun<Result<(), Failure<G>>, impl Future<Output = Result<(), Failure<G>>>> {
    begin(group, algorithm, data, BlockPlaces::of_lengths(lengths), into, reduction)
}

/// Starts either of them.
#[inline]
fn begin<'a, G: Group, F: Combine<G::Byte>>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    data: Operand<'a, G::Byte>,
    blocks: BlockPlaces,
    into: &'a mut [G::Byte],
    mut reduction: Reduction<F>,
) -> Begun<Result<(), Failure<G>>, impl Future<Output = Result<(), Failure<G>>> + use<'a, G, F>> {
    let bytes = data.bytes().len();
    let needs_lines = |by: &Algorithm| matches!(by, Algorithm::Lines | Algorithm::Read);
    let (commutative, has_list) = (reduction.commutative, blocks.count().is_some());
    let table = || {
        let exact = reduction.is_exact(group.element());
        select::for_reduce_scatter(group, bytes, commutative, has_list, exact)
    };
    let algorithm = select::resolve(group, algorithm, needs_lines, table);
    let signature = Signature::new(Operation::ReduceScatter)
        .bytes(bytes)
        .list(has_list)
        .combination(reduction.combination);
    let act = |team: &Team<'_, G>| {
        let data = data.bytes();
        match check(team, data, into, &blocks, reduction.width) {
            Ok(()) if algorithm == Algorithm::Lines => {
                at_once(team, data, into, &blocks, &mut reduction)
            }
            Ok(()) => None,
            Err(failure) => Some(Err(failure)),
        }
    };
    let lines = needs_lines(&algorithm);
    Call::begin(group, signature, algorithm as usize, lines, act)
        .or_start(|call| start(call, algorithm, data, into, blocks, reduction))
}

/// Checks the arguments.
fn check<G: Group>(
    team: &Team<'_, G>,
    data: &[G::Byte],
    into: &[G::Byte],
    blocks: &BlockPlaces,
    width: usize,
) -> Result<(), Failure<G>> {
    let size = team.size();
    match blocks.count() {
        Some(count) => {
            team.check_argument("the list of lengths, one a rank,", count, size as usize)?;
            (0..size).try_for_each(|rank| team.check_elements(blocks.length(rank), width))?;
        }
        None => match team.check_elements(blocks.length(0), width) {
            Ok(()) if data.len() == blocks.offset(size) => {}
            uneven => {
                team.share("the array of all parts", data.len())?;
                uneven?;
            }
        },
    }
    team.check_argument("the array of all parts, in bytes,", data.len(), blocks.offset(size))?;
    let own = blocks.length(team.rank());
    team.check_argument("the buffer for the result, in bytes,", into.len(), own)
}

fn start<'a, G: Group, F: Combine<G::Byte>>(
    call: Call<'a, G>,
    algorithm: Algorithm,
    data: Operand<'a, G::Byte>,
    into: &'a mut [G::Byte],
    blocks: BlockPlaces,
    mut reduction: Reduction<F>,
) -> impl Future<Output = Result<(), Failure<G>>> {
    call.run(async move |team| {
        let (blocks, reduction) = (&blocks, &mut reduction);
        check(team, data.bytes(), into, blocks, reduction.width)?;
        let mut algorithm = algorithm;
        let tried = match algorithm {
            Algorithm::Lines => {
                Some(lines(team, data.bytes(), into, blocks, reduction).await.map(|()| true))
            }
            Algorithm::Read => Some(read(team, data.bytes(), into, blocks, reduction).await),
            _ => None,
        };
        if let Some(tried) = tried {
            if by_lines(team, tried)? == Some(true) {
                return Ok(());
            }
            let (group, bytes) = (team.group(), data.bytes().len());
            let commutative = reduction.commutative;
            algorithm = select::for_reduce_scatter_by_messages(group, bytes, commutative);
            team.without_lines(algorithm as usize)?;
        }
        if algorithm == Algorithm::Pairwise {
            return pairwise(team, data.bytes(), into, blocks, reduction).await;
        }
        let mut copy = Vec::new();
        let data = data.own(&mut copy);
        match algorithm {
            Algorithm::ReduceThenScatter => {
                reduce_then_scatter(team, data, into, blocks, reduction).await
            }
            Algorithm::Ring => ring(team, data, into, blocks, reduction).await,
            _ => team.require(false, NEEDS_LINES),
        }
    })
}

/// Reduce-scatter as a reduce at rank 0 and a scatter from there. It keeps the order of the ranks.
async fn reduce_then_scatter<G: Group, F: Combine<G::Byte>>(
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

/// Reduce-scatter by exchanges at distance 1, 2, 3, …: each rank sends every other its block and
/// combines the contributions to its own, in an order that depends on the rank.
async fn pairwise<G: Group, F: Combine<G::Byte>>(
    team: &Team<'_, G>,
    data: &[G::Byte],
    into: &mut [G::Byte],
    blocks: &BlockPlaces,
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    team.require(reduction.commutative, "needs a commutative reduction")?;
    let mut scratch = Scratch::new(into.len());
    copy(&data[blocks.range(team.rank())], into);
    for step in 1..team.size() {
        let (to, from) = (team.after(step), team.before(step));
        team.exchange(&data[blocks.range(to)], to, scratch.bytes(), from).await?;
        (reduction.combine)(scratch.bytes(), into);
    }
    Ok(())
}

/// Reduce-scatter round a ring: block `b` starts at rank `b + 1`, is combined with each rank's
/// contribution, and arrives at rank `b` last.
async fn ring<G: Group, F: Combine<G::Byte>>(
    team: &Team<'_, G>,
    data: &mut [G::Byte],
    into: &mut [G::Byte],
    blocks: &BlockPlaces,
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    reduce_round(team, data, blocks, 0, reduction).await?;
    copy(&data[blocks.range(team.rank())], into);
    Ok(())
}

/// Reduce-scatter by reading: every rank combines its block from all others' memory, in the order
/// in which [`pairwise`] receives them, so that the bits are the same.
///
/// `false`: the memory cannot be read.
async fn read<G: Group, F: Combine<G::Byte>>(
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
    copy(&data[own.clone()], into);
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

/// Reduce-scatter by lines: every rank writes its data for the others, and combines its block from
/// all.
///
/// If the data is long, each round has a part of it. The list of lengths precedes the first part,
/// so that ranks that divide the data differently detect that.
async fn lines<G: Group, F: Combine<G::Byte>>(
    team: &Team<'_, G>,
    data: &[G::Byte],
    into: &mut [G::Byte],
    blocks: &BlockPlaces,
    reduction: &mut Reduction<F>,
) -> Result<(), Stop<G>> {
    let rounds = LineRounds::begin_all(team).await?;
    let (front, part) = (front(blocks), rounds.part(PARTS, reduction.width));
    team.require(front <= rounds.part(1, 1), "needs longer lines for so many ranks")?;
    team.require(front == 0 || data.len() < u32::MAX as usize, "needs less than 4 GiB")?;
    let mut piece = Piece { front, range: 0..first_part(&rounds, front, data, reduction) };
    loop {
        rounds
            .meet(&piece.said(list_in(&piece, blocks).bytes(), data, blocks, rounds.place))
            .await?;
        rounds.finish(combine(&rounds, &piece, data, into, blocks, reduction))?;
        if piece.range.end == data.len() {
            return Ok(());
        }
        let from = piece.range.end;
        piece = Piece { front: 0, range: from..data.len().min(from.saturating_add(part)) };
    }
}

/// The same without waiting, if it is one part and all have contributed.
#[inline(always)]
fn at_once<G: Group, F: Combine<G::Byte>>(
    team: &Team<'_, G>,
    data: &[G::Byte],
    into: &mut [G::Byte],
    blocks: &BlockPlaces,
    reduction: &mut Reduction<F>,
) -> Option<Result<(), Failure<G>>> {
    let (rounds, front) = (LineRounds::at_once(team)?, front(blocks));
    if front > LINE_BYTES || first_part(&rounds, front, data, reduction) < data.len() {
        return None;
    }
    let piece = Piece { front, range: 0..data.len() };
    let mut list = None;
    let list = match front {
        0 => &[][..],
        _ => list.insert(list_in(&piece, blocks)).bytes(),
    };
    match rounds.try_meet(&piece.said(list, data, blocks, rounds.place)) {
        Ok(met) => {
            met.map(|()| rounds.finish(combine(&rounds, &piece, data, into, blocks, reduction)))
        }
        Err(failure) => Some(Err(failure)),
    }
}

/// The data range of a contribution, and the length of the list in front of it.
struct Piece {
    front: usize,
    range: Range<usize>,
}

impl Piece {
    /// The part of a rank's block in this range, as a range of the data.
    #[inline]
    fn part(&self, blocks: &BlockPlaces, place: usize) -> Range<usize> {
        let block = blocks.range(place as u32);
        let start = block.start.clamp(self.range.start, self.range.end);
        start..block.end.clamp(start, self.range.end)
    }

    /// The contribution of the rank at `own`: the list, if there is one, and the data of other
    /// ranks' blocks.
    #[inline]
    fn said<'p, B>(
        &self,
        list: &'p [B],
        data: &'p [B],
        blocks: &BlockPlaces,
        own: usize,
    ) -> [&'p [B]; 3] {
        let own = self.part(blocks, own);
        [list, &data[self.range.start..own.start], &data[own.end..self.range.end]]
    }

    /// The offset of the block of the rank at `own` in the contribution of the one at `place`.
    fn place_of(&self, blocks: &BlockPlaces, own: usize, place: usize) -> usize {
        let left_out = if place < own { self.part(blocks, place).len() } else { 0 };
        self.front + self.part(blocks, own).start - self.range.start - left_out
    }
}

/// Bytes of the list of lengths, if lengths were given.
fn front(blocks: &BlockPlaces) -> usize {
    blocks.count().map_or(0, list::bytes_of)
}

/// Bytes of data in the first contribution.
fn first_part<G: Group, F>(
    rounds: &LineRounds<'_, G>,
    front: usize,
    data: &[G::Byte],
    reduction: &Reduction<F>,
) -> usize {
    if data.len() <= LINE_BYTES - front.min(LINE_BYTES) {
        return data.len();
    }
    let (part, width) = (rounds.part(PARTS, reduction.width), reduction.width);
    data.len().min(part.saturating_sub(front) / width * width)
}

/// The list of the blocks' lengths in front of a piece; empty if the piece has none.
fn list_in<B: Copy + Default + 'static>(piece: &Piece, blocks: &BlockPlaces) -> Scratch<B> {
    let mut list = Scratch::new(piece.front);
    let ends = 1..=blocks.count().unwrap_or(0) as u32;
    list::write(list.bytes(), ends.map(|end| blocks.offset(end)));
    list
}

/// Combines all contributions to this rank's block, in the order of [`pairwise`] or, if order
/// matters, of [`reduce_then_scatter`], so that the bits are the same.
fn combine<G: Group, F: Combine<G::Byte>>(
    rounds: &LineRounds<'_, G>,
    piece: &Piece,
    data: &[G::Byte],
    into: &mut [G::Byte],
    blocks: &BlockPlaces,
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    if piece.front > 0 {
        check_lists(rounds, blocks)?;
    }
    let (size, block) = (rounds.size, blocks.range(rounds.place as u32));
    let own = piece.part(blocks, rounds.place);
    if own.is_empty() {
        return Ok(());
    }
    let from = |place| piece.place_of(blocks, rounds.place, place);
    let into = &mut into[own.start - block.start..][..own.len()];
    if !reduction.commutative {
        let mut scratch = Scratch::new(digits(size) * own.len());
        let read = |place, into: &mut [G::Byte]| rounds.read(place, from(place), into);
        let own = &data[own];
        return combine_tree(rounds.place, size, own, into, scratch.bytes(), reduction, read);
    }
    copy(&data[own], into);
    let mut theirs = Scratch::new(into.len());
    for place in (0..rounds.place).rev().chain((rounds.place + 1..size).rev()) {
        rounds.read(place, from(place), theirs.bytes())?;
        (reduction.combine)(theirs.bytes(), into);
    }
    Ok(())
}

/// Checks that all ranks have divided the data alike. If two have not, each rank finds a list that
/// differs from its own.
fn check_lists<G: Group>(
    rounds: &LineRounds<'_, G>,
    blocks: &BlockPlaces,
) -> Result<(), Failure<G>> {
    let mut theirs = Scratch::new(list::bytes_of(rounds.size));
    rounds.others().try_for_each(|place| {
        rounds.read(place, 0, theirs.bytes())?;
        for rank in 0..rounds.size {
            let own = blocks.length(rank as u32);
            let part = list::part_of(&theirs.bytes()[list::entries_of(rank)]);
            let said = part.map_or(0, |(_, length)| length);
            if said != own {
                rounds.team.all_know();
                return Err(rounds.lengths_differ(place, said, own));
            }
        }
        Ok(())
    })
}
