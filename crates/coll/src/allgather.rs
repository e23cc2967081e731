//! Allgather: all ranks' parts side by side at all ranks (MPI 5.0 §6.7).
//!
//! | algorithm | longest path | remarks |
//! |---|---|---|
//! | butterfly | log2 n exchanges, of m to n m / 2 | paper 004, Fig. 6; 2 more if n is not 2^k |
//! | bruck | ⌈log2 n⌉ exchanges, and a copy of all | any number of ranks |
//! | ring | n - 1 exchanges of m with neighbours | for large m |
//! | lines | a poll of all lines | all ranks on one node with lines |
//! | read | a copy of each part out of its rank's memory | as lines, equal parts; for large m |

use std::future::Future;
use std::ops::Range;

use crate::blocks::{BlockPlaces, disjoint};
use crate::call::{Begun, Call, Team};
use crate::doubling::Fold;
use crate::error::Failure;
use crate::group::Group;
use crate::long::{ByLines, LongOperation, LongWay};
use crate::names::Operation;
use crate::part::{Data, Part, Place};
use crate::rounds::{LineRounds, NEEDS_LINES, Stop, after_lines, starts};
use crate::select;
use crate::signature::Signature;

pub use crate::algorithms::allgather::Algorithm;

/// A piece is the longest contribution divided by this: all ranks wait for each other anyway.
pub(crate) const PIECES: usize = 4;

/// Fills `data`, which has one block of equal length for each rank, in rank order, with `mine` of
/// every rank. `None`: this rank's block is in its place already (MPI_IN_PLACE).
///
/// # Errors
/// [`crate::CollError`]: lengths differ, or a rank is gone or abandoned the call.
pub fn allgather<'a, G: Group>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    mine: Option<&'a [G::Byte]>,
    data: &'a mut [G::Byte],
) -> impl Future<Output = Result<(), Failure<G>>> {
    begin_allgather(group, algorithm, mine, data).end()
}

/// The same where this rank's blocks have gaps.
///
/// # Errors
/// As [`allgather()`].
pub fn allgather_scattered<'a, G: Group<Byte = u8>>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    mine: Option<&'a [u8]>,
    data: &'a mut Place<'_, u8>,
) -> impl Future<Output = Result<(), Failure<G>>> {
    begin_equal(group, algorithm, mine, data).end()
}

/// Starts [`allgather()`], which may complete at once.
///
/// # Errors
/// As [`allgather()`].
#[inline]
pub fn begin_allgather<'a, G: Group>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    mine: Option<&'a [G::Byte]>,
    data: &'a mut [G::Byte],
) -> Begun<Result<(), Failure<G>>, impl Future<Output = Result<(), Failure<G>>>> {
    begin_equal(group, algorithm, mine, data)
}

#[inline]
fn begin_equal<'a, G: Group, D: Data<G::Byte> + ?Sized>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    mine: Option<&'a [G::Byte]>,
    data: &'a mut D,
) -> Begun<Result<(), Failure<G>>, impl Future<Output = Result<(), Failure<G>>> + use<'a, G, D>> {
    let length = mine.map_or_else(|| data.length() / group.size() as usize, <[G::Byte]>::len);
    begin(group, algorithm, mine, data, BlockPlaces::Equal { length })
}

#[inline]
fn begin<'a, G: Group, D: Data<G::Byte> + ?Sized>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    mine: Option<&'a [G::Byte]>,
    data: &'a mut D,
    blocks: BlockPlaces,
) -> Begun<Result<(), Failure<G>>, impl Future<Output = Result<(), Failure<G>>> + use<'a, G, D>> {
    let needs_lines = |by: &Algorithm| matches!(by, Algorithm::Lines | Algorithm::Read);
    let table = || select::for_allgather(group, data.length());
    let named = algorithm;
    let algorithm = select::resolve(group, named, needs_lines, table);
    let signature = Signature::new(Operation::Allgather);
    let signature = match &blocks {
        BlockPlaces::Equal { length } => signature.bytes(*length),
        _ => signature.list(true),
    };
    if !needs_lines(&algorithm) {
        let call = Call::new(group, signature, algorithm as usize);
        return Begun::Waits(start(call, (algorithm, true), mine, data, blocks));
    }
    let act = |team: &Team<'_, G>| match check(team, mine, data, &blocks) {
        Ok(()) if algorithm == Algorithm::Lines => {
            at_once(team, mine, data, (&blocks, named.is_some()))
        }
        Ok(()) => None,
        Err(failure) => Some(Err(failure)),
    };
    Call::on_lines(group, signature, algorithm as usize, act)
        .or_start(|call| start(call, (algorithm, named.is_some()), mine, data, blocks))
}

/// The same with any length per rank: `lengths[r]` bytes for rank `r`, with the same list at all
/// ranks (MPI_Allgatherv).
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
    begin_allgatherv(group, algorithm, mine, data, lengths.iter().copied()).end()
}

/// Starts [`allgatherv`], which may complete at once.
///
/// # Errors
/// As [`allgatherv`].
#[inline]
pub fn begin_allgatherv<'a, G: Group>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    mine: Option<&'a [G::Byte]>,
    data: &'a mut [G::Byte],
    lengths: impl ExactSizeIterator<Item = usize>,
) -> Begun<Result<(), Failure<G>>, impl Future<Output = Result<(), Failure<G>>>> {
    begin(group, algorithm, mine, data, BlockPlaces::of_lengths(lengths))
}

/// The same where this rank's blocks have gaps.
///
/// # Errors
/// As [`allgather()`].
pub fn allgatherv_scattered<'a, G: Group<Byte = u8>>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    mine: Option<&'a [u8]>,
    data: &'a mut Place<'_, u8>,
    lengths: &[usize],
) -> impl Future<Output = Result<(), Failure<G>>> {
    let blocks = BlockPlaces::of_lengths(lengths.iter().copied());
    begin(group, algorithm, mine, data, blocks).end()
}

async fn start<G: Group, D: Data<G::Byte> + ?Sized>(
    call: Call<'_, G>,
    (algorithm, is_named): (Algorithm, bool),
    mine: Option<&[G::Byte]>,
    data: &mut D,
    blocks: BlockPlaces,
) -> Result<(), Failure<G>> {
    call.run(async move |team| {
        check(team, mine, data, &blocks)?;
        keep_own(team, mine, data, &blocks);
        let mut algorithm = algorithm;
        if matches!(algorithm, Algorithm::Lines | Algorithm::Read) {
            let how = (algorithm == Algorithm::Read, is_named);
            if after_lines(team, lines(team, data, &blocks, how, mine).await)?.is_none() {
                return Ok(());
            }
            algorithm = select::for_allgather_by_messages(team.group(), data.length());
            team.without_lines(algorithm as usize)?;
        }
        match algorithm {
            Algorithm::Ring => ring(team, mine, data, &blocks).await,
            Algorithm::Butterfly => butterfly(team, data, &blocks).await,
            Algorithm::Bruck => bruck(team, data, &blocks).await,
            Algorithm::Lines | Algorithm::Read => team.require(false, NEEDS_LINES),
        }
    })
    .await
}

/// Checks the arguments.
#[inline]
fn check<G: Group, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    mine: Option<&[G::Byte]>,
    data: &D,
    blocks: &BlockPlaces,
) -> Result<(), Failure<G>> {
    match blocks.count() {
        Some(count) => {
            let needed = team.size() as usize;
            team.check_argument("the list of lengths, one a rank,", count, needed)?;
        }
        // The usual case needs no division.
        None if mine.is_some() && data.length() == blocks.offset(team.size()) => {}
        None => drop(team.share("the array of all parts", data.length())?),
    }
    let what = "the array of all parts, in bytes,";
    team.check_argument(what, data.length(), blocks.offset(team.size()))?;
    if let Some(mine) = mine {
        let place = blocks.range(team.rank());
        team.check_argument("this rank's part, in bytes,", mine.len(), place.len())?;
    }
    Ok(())
}

/// Puts this rank's part in its place.
#[inline]
fn keep_own<G: Group, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    mine: Option<&[G::Byte]>,
    data: &mut D,
    blocks: &BlockPlaces,
) {
    if let Some(mine) = mine {
        data.put(blocks.offset(team.rank()), mine);
    }
}

/// Allgather by butterfly collection (paper 004, Fig. 6): exchange with the neighbour, then at
/// double the distance with double the amount, and so on.
///
/// Short parts soon form long messages, which is why the paper's throughput is above that of a
/// ping-pong of the same length. Numbers of ranks other than powers of two are folded.
async fn butterfly<G: Group, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    data: &mut D,
    blocks: &BlockPlaces,
) -> Result<(), Failure<G>> {
    let (rank, fold) = (team.rank(), Fold::new(team.size()));
    let Some(place) = fold.place_of(rank) else {
        team.send_part(data.part(blocks.range(rank)), rank + 1).await?;
        return team.recv_part(data.all_places(), rank + 1).await;
    };
    if fold.stands_in(rank) {
        team.recv_part(data.place(blocks.range(rank - 1)), rank - 1).await?;
    }
    let bytes_of = |first: u32, places: u32| {
        blocks.span(fold.first_rank(first)..fold.first_rank(first + places))
    };
    let mut distance = 1;
    while distance < fold.places {
        let (here, there) = (place & !(distance - 1), (place ^ distance) & !(distance - 1));
        let (mine, theirs) = (bytes_of(here, distance), bytes_of(there, distance));
        let (mine, theirs) = data.disjoint(mine, theirs);
        let partner = fold.rank_of(place ^ distance);
        team.exchange_parts(mine, partner, theirs, partner).await?;
        distance <<= 1;
    }
    if fold.stands_in(rank) {
        team.send_part(data.all(), rank - 1).await?;
    }
    Ok(())
}

/// Allgather by Bruck's algorithm (Bruck et al. 1997): with any number of ranks, ⌈log2 n⌉ steps.
///
/// A rank works on an array that starts with its own part, followed by those of the ranks after it.
/// In each step it sends the front of the array as many ranks back as it has parts, and appends
/// what it receives from as many ranks ahead. At the end the array is rotated into rank order.
async fn bruck<G: Group, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    data: &mut D,
    blocks: &BlockPlaces,
) -> Result<(), Failure<G>> {
    let (rank, size) = (team.rank(), team.size());
    let bytes = |first: u32, count: u32| blocks.run(first, count, size);
    let mut turned = vec![G::Byte::default(); data.length()];
    let own = blocks.range(rank);
    turned[..].copy(0, data, own);
    let mut full = 1;
    while full < size {
        let count = full.min(size - full);
        let (to, from) = (team.before(full), team.after(full));
        let start = bytes(rank, full);
        // Sends `count` parts from this rank on, and receives `count` from `from` on.
        let comes = start..start + bytes(from, count);
        let (goes, comes) = disjoint(&mut turned, 0..bytes(rank, count), comes);
        team.exchange(goes, to, comes, from).await?;
        full += count;
    }
    let front = blocks.offset(rank);
    let (from_here, before) = turned.split_at(data.length() - front);
    data.put(front, from_here);
    data.put(0, before);
    Ok(())
}

/// Allgather round a ring: in each step every rank passes on the part that it received last. Its
/// own part is sent from the program's buffer: untouched since, it is copied faster from there.
async fn ring<G: Group, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    mine: Option<&[G::Byte]>,
    data: &mut D,
    blocks: &BlockPlaces,
) -> Result<(), Failure<G>> {
    let (next, previous) = (team.after(1), team.before(1));
    for step in 0..team.size() - 1 {
        let goes = blocks.range(team.before(step));
        let comes = blocks.range(team.before(step + 1));
        let (goes, comes) = match mine.filter(|_| step == 0) {
            Some(mine) => (Part::Whole(mine), data.place(comes)),
            None => data.disjoint(goes, comes),
        };
        team.exchange_parts(goes, next, comes, previous).await?;
    }
    Ok(())
}

/// Allgather by reading: every rank copies the other parts from their ranks' memory.
///
/// Parts have `length` bytes. This rank's part is in its place and in the program's buffer:
/// untouched since, it is copied faster from there. `false`: the memory cannot be read.
async fn read<G: Group, D: Data<G::Byte> + ?Sized>(
    rounds: &LineRounds<'_, G>,
    mine: Option<&[G::Byte]>,
    data: &mut D,
    length: usize,
) -> Result<bool, Stop<G>> {
    let placed = || data.whole().map(|data| &data[rounds.place * length..][..length]);
    let Some(memory) = rounds.show(mine.or_else(placed)).await? else { return Ok(false) };
    for place in rounds.others() {
        memory.read_into(place, 0, data, place * length..(place + 1) * length)?;
    }
    memory.end().await
}

/// Allgather by lines: every rank writes its part and reads all others.
///
/// This rank's part is in its place. If parts are long, a round has a piece of each.
#[inline(always)]
async fn lines<G: Group, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    data: &mut D,
    blocks: &BlockPlaces,
    (reads, is_named): (bool, bool),
    mine: Option<&[G::Byte]>,
) -> Result<ByLines, Stop<G>> {
    if reads {
        team.require(blocks.count().is_none(), "needs parts of equal length")?;
    }
    let rounds = LineRounds::begin_all(team).await?;
    if reads && read(&rounds, mine, data, blocks.longest()).await? {
        return Ok(ByLines::Done);
    }
    let long = (blocks.longest(), is_named || reads);
    let (rounds, way) = rounds.way_of(LongOperation::Allgather, long);
    if way == LongWay::Messages {
        return Ok(ByLines::Messages);
    }
    let own = blocks.range(team.rank());
    let rounds = rounds.of_length(own.len());
    let piece = rounds.part(PIECES, 1);
    let mut packet = Vec::new();
    for from in starts(blocks.longest(), piece) {
        let piece = from..from.saturating_add(piece);
        let said = data.load(within(&own, &piece), &mut packet);
        rounds.meet_of(&[said], |place| rounds.word_of(blocks.length(place as u32))).await?;
        collect_piece(&rounds, data, blocks, piece)?;
    }
    Ok(ByLines::Done)
}

/// The range of a piece within a block, limited to the block's length.
fn within(block: &Range<usize>, piece: &Range<usize>) -> Range<usize> {
    let at = |offset: usize| block.start + offset.min(block.len());
    at(piece.start)..at(piece.end)
}

/// The same without waiting, if it is one piece and all have contributed.
#[inline(always)]
fn at_once<G: Group, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    mine: Option<&[G::Byte]>,
    data: &mut D,
    (blocks, is_named): (&BlockPlaces, bool),
) -> Option<Result<(), Failure<G>>> {
    let (rounds, data) = (LineRounds::at_once(team)?, data.whole_mut()?);
    let (own, longest) = (mine.unwrap_or(&data[blocks.range(team.rank())]), blocks.longest());
    if !rounds.is_one_part(longest, PIECES, 1) {
        return None;
    }
    let rounds = rounds.by_lines(LongOperation::Allgather, (longest, is_named))?;
    let rounds = rounds.of_length(own.len());
    match rounds.try_meet_of(&[own], |place| rounds.word_of(blocks.length(place as u32))) {
        Ok(met) => met.map(|()| {
            keep_own(team, mine, data, blocks);
            collect_piece(&rounds, data, blocks, 0..longest)
        }),
        Err(failure) => Some(Err(failure)),
    }
}

/// Reads one piece of every rank's part. Data with gaps is copied packet by packet.
#[inline(always)]
pub(crate) fn collect_piece<G: Group, D: Data<G::Byte> + ?Sized>(
    rounds: &LineRounds<'_, G>,
    data: &mut D,
    blocks: &BlockPlaces,
    piece: Range<usize>,
) -> Result<(), Failure<G>> {
    let mut packet = Vec::new();
    let mut read = |place: usize| {
        let block = blocks.range(place as u32);
        let piece = within(&block, &piece);
        for done in starts(piece.len(), data.at_a_time()) {
            let at = piece.start + done;
            let packets = at..piece.end.min(at.saturating_add(data.at_a_time()));
            let room = data.room(packets, &mut packet);
            rounds.read_said(place, rounds.word_of(block.len()), done, room)?;
            data.settle(at, &packet);
        }
        Ok(())
    };
    rounds.finish(rounds.others().try_for_each(&mut read))
}
