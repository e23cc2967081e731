//! All-to-all: a part of every rank's data to every rank (MPI 5.0 §6.8).
//!
//! The matrix transposition of paper 004, Figs. 8 and 9; the first two are its "basic" and "chain":
//!
//! | algorithm | longest path | remarks |
//! |---|---|---|
//! | pairwise | n - 1 exchanges of m, one after the other | one message in flight to each rank |
//! | chained | n - 1 messages of m, all at once | one start-up |
//! | two-level | between two nodes one message each way, and 2 in a node | equal, short parts |
//! | bruck | ⌈log2 n⌉ exchanges of n m / 2 | equal parts; for short ones |
//! | lines | a poll of all lines | all ranks on one node with lines; for short parts |
//! | read | n - 1 copies of m out of others' memory | as lines, equal parts; for large m |
//!
//! Parts with gaps are for [`crate::alltoallw()`].

mod listed;
mod two_level;

use std::future::Future;
use std::mem::replace;
use std::ops::Range;

use hikyaku_nic::ring::copy;

use crate::call::{Begun, Call, Team};
use crate::error::Failure;
use crate::group::Group;
use crate::names::Operation;
use crate::part::{Data, Part, Place, Source, whole_parts, whole_places};
use crate::rounds::{LineRounds, NEEDS_LINES, Stop, by_lines, starts};
use crate::scratch::Scratch;
use crate::select;
use crate::signature::{Combination, Signature};

use hikyaku_msg::join;

pub use crate::algorithms::alltoall::Algorithm;

/// By lines, all parts of a rank are sent in pieces of the longest contribution divided by this.
pub(crate) const PIECES: usize = 4;

/// The argument that must be as long as its place.
const OWN_PART: &str = "a rank's part for itself, in bytes,";

/// Bytes of a block that are exchanged at a time where received data replaces sent data: large
/// compared with the cost of a message.
const SWAP: usize = 64 << 10;

/// Copies block `s` of `data` of rank `r` to block `r` of `into` of rank `s`. Blocks are in rank
/// order and all of the same length.
///
/// # Errors
/// [`crate::CollError`]: lengths differ, or a rank is gone or abandoned the call.
pub fn alltoall<'a, G: Group>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    data: &'a [G::Byte],
    into: &'a mut [G::Byte],
) -> impl Future<Output = Result<(), Failure<G>>> {
    begin_alltoall(group, algorithm, data, into).end()
}

/// Starts [`alltoall()`], which may complete at once.
///
/// # Errors
/// As [`alltoall()`].
#[inline]
pub fn begin_alltoall<'a, G: Group>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    data: &'a [G::Byte],
    into: &'a mut [G::Byte],
) -> Begun<Result<(), Failure<G>>, impl Future<Output = Result<(), Failure<G>>>> {
    begin(group, algorithm, data, into)
}

/// The same where this rank's data has gaps.
///
/// # Errors
/// As [`alltoall()`].
pub fn alltoall_scattered<'a, G: Group<Byte = u8>>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    data: &'a Part<'_, u8>,
    into: &'a mut Place<'_, u8>,
) -> impl Future<Output = Result<(), Failure<G>>> {
    begin(group, algorithm, data, into).end()
}

#[inline]
fn begin<'a, G: Group, S: Source<G::Byte> + ?Sized, D: Data<G::Byte> + ?Sized>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    data: &'a S,
    into: &'a mut D,
) -> Begun<Result<(), Failure<G>>, impl Future<Output = Result<(), Failure<G>>>> {
    let length = data.length() / group.size() as usize;
    let needs_lines = |by: &Algorithm| matches!(by, Algorithm::Lines | Algorithm::Read);
    let table = || select::for_alltoall(group, length);
    let algorithm = select::resolve(group, algorithm, needs_lines, table);
    let signature = Signature::new(Operation::Alltoall).bytes(data.length());
    let begun = if algorithm == Algorithm::Lines {
        let act = |team: &Team<'_, G>| match check(team, data, into) {
            Ok(length) => at_once(team, data, into, length),
            Err(failure) => Some(Err(failure)),
        };
        Call::on_lines(group, signature, algorithm as usize, act)
    } else {
        let reads = algorithm == Algorithm::Read;
        Begun::Waits(Call::new_on(group, signature, algorithm as usize, reads))
    };
    begun.or_start(|call| start(call, algorithm, data, into))
}

/// Checks the arguments. Returns the bytes of a part.
#[inline]
fn check<G, S, D>(team: &Team<'_, G>, data: &S, into: &D) -> Result<usize, Failure<G>>
where
    G: Group,
    S: Source<G::Byte> + ?Sized,
    D: Data<G::Byte> + ?Sized,
{
    let length = team.share("the array of parts to send", data.length())?;
    let what = "the array of parts to receive, in bytes,";
    team.check_argument(what, into.length(), data.length())?;
    Ok(length)
}

async fn start<G: Group, S: Source<G::Byte> + ?Sized, D: Data<G::Byte> + ?Sized>(
    call: Call<'_, G>,
    algorithm: Algorithm,
    data: &S,
    into: &mut D,
) -> Result<(), Failure<G>> {
    call.run(async move |team| {
        let (length, size) = (check(team, data, into)?, team.size());
        let mut algorithm = algorithm;
        let tried = match algorithm {
            Algorithm::Lines => Some(lines(team, data, into, length).await.map(|()| true)),
            Algorithm::Read => Some(read(team, data, into, length).await),
            _ => None,
        };
        if let Some(tried) = tried {
            if by_lines(team, tried)? == Some(true) {
                return Ok(());
            }
            algorithm = select::for_alltoall_by_messages(team.group(), length);
            team.without_lines(algorithm as usize)?;
        }
        match algorithm {
            Algorithm::Bruck => bruck(team, data, into, length).await,
            Algorithm::TwoLevel => two_level::two_level(team, data, into, length).await,
            Algorithm::Lines | Algorithm::Read => team.require(false, NEEDS_LINES),
            Algorithm::Pairwise | Algorithm::Chained => {
                let is_whole = data.whole().is_some() && into.whole_mut().is_some();
                if !is_whole {
                    put_own(team, data, into, length);
                }
                let (mut parts, mut into) = (data.cut(length, size), into.split(length, size));
                if !is_whole {
                    let own = team.rank() as usize;
                    (parts[own], into[own]) = (Part::Whole(&[]), Place::Whole(&mut []));
                }
                flat(team, algorithm, parts, into).await
            }
        }
    })
    .await
}

/// The same with a length for each pair of ranks (MPI_Alltoallv): rank `s` receives block `s` of
/// `parts` of rank `r` in its block `r` of `into`, which has the same length.
///
/// # Errors
/// As [`alltoall()`]; and the algorithms in which ranks would have to know others' lengths,
/// `bruck`, `two-level` and `read`.
pub fn alltoallv<'a, G: Group>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    parts: &'a [&'a [G::Byte]],
    into: Vec<&'a mut [G::Byte]>,
) -> impl Future<Output = Result<(), Failure<G>>> {
    alltoallv_parts(group, algorithm, whole_parts(parts), whole_places(into))
}

/// The same for data that may have gaps. If it does, this rank's part and place for itself are
/// empty.
///
/// # Errors
/// As [`alltoallv`].
pub fn alltoallv_parts<'a, G: Group>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    parts: Vec<Part<'a, G::Byte>>,
    into: Vec<Place<'a, G::Byte>>,
) -> impl Future<Output = Result<(), Failure<G>>> {
    begin_alltoallv(group, algorithm, parts, into).end()
}

/// Starts [`alltoallv_parts`], which may complete at once. The lists are unspecified afterwards.
///
/// # Errors
/// As [`alltoallv_parts`].
#[inline]
pub fn begin_alltoallv<'a, G: Group>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    mut parts: impl AsMut<[Part<'a, G::Byte>]>,
    mut into: impl AsMut<[Place<'a, G::Byte>]>,
) -> Begun<Result<(), Failure<G>>, impl Future<Output = Result<(), Failure<G>>>> {
    let needs_lines = |by: &Algorithm| *by == Algorithm::Lines;
    let algorithm = select::resolve(group, algorithm, needs_lines, || select::for_alltoallv(group));
    let signature = Signature::new(Operation::Alltoall).list(true);
    let act = |team: &Team<'_, G>| match check_lists(team, parts.as_mut(), into.as_mut()) {
        Ok(()) => listed::at_once(team, parts.as_mut(), into.as_mut()),
        Err(failure) => Some(Err(failure)),
    };
    let lines = needs_lines(&algorithm);
    Call::begin(group, signature, algorithm as usize, lines, act)
        .or_start(|call| start_listed(call, algorithm, parts, into))
}

fn start_listed<'a, G: Group>(
    call: Call<'a, G>,
    mut algorithm: Algorithm,
    mut parts: impl AsMut<[Part<'a, G::Byte>]>,
    mut into: impl AsMut<[Place<'a, G::Byte>]>,
) -> impl Future<Output = Result<(), Failure<G>>> {
    call.run(async move |team| {
        let (parts, into) = (parts.as_mut(), into.as_mut());
        check_lists(team, parts, into)?;
        if algorithm == Algorithm::Lines {
            if by_lines(team, listed::lines(team, parts, into).await)? == Some(true) {
                return Ok(());
            }
            algorithm = select::for_alltoallv_by_messages(team.group());
            team.without_lines(algorithm as usize)?;
        }
        let parts = parts.iter_mut().map(|part| replace(part, Part::Whole(&[]))).collect();
        let into = into.iter_mut().map(|place| replace(place, Place::Whole(&mut []))).collect();
        flat(team, algorithm, parts, into).await
    })
}

fn check_lists<G: Group>(
    team: &Team<'_, G>,
    parts: &[Part<'_, G::Byte>],
    into: &[Place<'_, G::Byte>],
) -> Result<(), Failure<G>> {
    check_list(team, "the list of parts to send, one a rank,", parts.len())?;
    check_list(team, "the list of parts to receive, one a rank,", into.len())
}

/// [`alltoall()`] where received parts replace the sent ones (MPI_IN_PLACE), in exchanges between
/// pairs of ranks.
///
/// # Errors
/// As [`alltoall()`].
pub fn alltoall_in_place<'a, G: Group>(
    group: &'a G,
    data: &'a mut [G::Byte],
) -> impl Future<Output = Result<(), Failure<G>>> {
    equal_in_place(group, data)
}

/// The same where this rank's data has gaps.
///
/// # Errors
/// As [`alltoall()`].
pub fn alltoall_in_place_scattered<'a, G: Group<Byte = u8>>(
    group: &'a G,
    data: &'a mut Place<'_, u8>,
) -> impl Future<Output = Result<(), Failure<G>>> {
    equal_in_place(group, data)
}

fn equal_in_place<'a, G: Group, D: Data<G::Byte> + ?Sized>(
    group: &'a G,
    data: &'a mut D,
) -> impl Future<Output = Result<(), Failure<G>>> {
    let signature = Signature::new(Operation::Alltoall).bytes(data.length());
    let signature = signature.combination(Combination::IN_PLACE);
    let call = Call::new(group, signature, Algorithm::Pairwise as usize);
    call.run(async move |team| {
        let length = team.share("the array of parts", data.length())?;
        let mut swap = Swap::new(length);
        for peer in partners(team) {
            let start = peer as usize * length;
            swap.with(team, peer, data, start..start + length).await?;
        }
        Ok(())
    })
}

/// [`alltoallv`] where received parts replace the sent ones: block `s` of rank `r` and block `r` of
/// rank `s` have the same length and change places.
///
/// # Errors
/// As [`alltoall()`].
pub fn alltoallv_in_place<'a, G: Group>(
    group: &'a G,
    blocks: Vec<&'a mut [G::Byte]>,
) -> impl Future<Output = Result<(), Failure<G>>> {
    blocks_in_place(group, blocks)
}

/// The same for blocks of which some have gaps.
///
/// # Errors
/// As [`alltoall()`].
pub fn alltoallv_in_place_scattered<'a, G: Group<Byte = u8>>(
    group: &'a G,
    blocks: Vec<&'a mut Place<'_, u8>>,
) -> impl Future<Output = Result<(), Failure<G>>> {
    blocks_in_place(group, blocks)
}

fn blocks_in_place<'a, G: Group, D: Data<G::Byte> + ?Sized>(
    group: &'a G,
    mut blocks: Vec<&'a mut D>,
) -> impl Future<Output = Result<(), Failure<G>>> {
    let signature = Signature::new(Operation::Alltoall).combination(Combination::IN_PLACE);
    let call = Call::new(group, signature, Algorithm::Pairwise as usize);
    call.run(async move |team| {
        check_list(team, "the list of parts, one a rank,", blocks.len())?;
        let longest = blocks.iter().map(|block| block.length()).max().unwrap_or(0);
        let mut swap = Swap::new(longest);
        for peer in partners(team) {
            let block = &mut *blocks[peer as usize];
            let all = 0..block.length();
            swap.with(team, peer, block, all).await?;
        }
        Ok(())
    })
}

fn check_list<G: Group>(
    team: &Team<'_, G>,
    what: &'static str,
    given: usize,
) -> Result<(), Failure<G>> {
    team.check_argument(what, given, team.size() as usize)
}

/// All-to-all with a message from every rank to every other.
///
/// Pairwise is one exchange at a time, in step k with the ranks k further on and k back: paper
/// 004's "basic" transposition. Chained is all at once: all receives are posted and all sends are
/// one chain. That is the paper's "chain".
async fn flat<G: Group>(
    team: &Team<'_, G>,
    algorithm: Algorithm,
    parts: Vec<Part<'_, G::Byte>>,
    into: Vec<Place<'_, G::Byte>>,
) -> Result<(), Failure<G>> {
    let is_flat = matches!(algorithm, Algorithm::Pairwise | Algorithm::Chained);
    team.require(is_flat, "needs parts of one length")?;
    let own = team.rank() as usize;
    let mut parts: Vec<_> = (0..).zip(parts).collect();
    let mut into: Vec<_> = (0..).zip(into).collect();
    // From the next rank on, with this rank's own part first.
    parts.rotate_left(own);
    into.rotate_left(own);
    let ((_, part), (_, place)) = (parts.remove(0), into.remove(0));
    let copy = team.own_part(OWN_PART, part, place)?;
    let exchange = async {
        if algorithm == Algorithm::Chained {
            return team.exchange_all(parts, into).await;
        }
        for ((to, part), (from, place)) in parts.into_iter().zip(into.into_iter().rev()) {
            team.exchange_parts(part, to, place, from).await?;
        }
        Ok(())
    };
    // While the first parts are in flight.
    join(exchange, async { copy() }).await.0
}

/// All-to-all by Bruck's algorithm (Bruck et al. 1997): ⌈log2 n⌉ messages instead of n - 1.
///
/// A part for the rank `d` further on moves in steps of the powers of two that make up `d`; all
/// parts that take the same step are one message. Each part is sent about log2(n) / 2 times, so
/// this is for parts that are short compared with the cost of a message.
async fn bruck<G: Group, S: Source<G::Byte> + ?Sized, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    data: &S,
    into: &mut D,
    length: usize,
) -> Result<(), Failure<G>> {
    let size = team.size();
    let block = |index: u32| index as usize * length..(index as usize + 1) * length;
    // Part `d` is for the rank `d` further on.
    let mut parts = vec![G::Byte::default(); data.length()];
    for distance in 0..size {
        parts[..].copy(block(distance).start, data, block(team.after(distance)));
    }
    let (mut going, mut coming) = (Vec::with_capacity(data.length()), Vec::new());
    let mut step = 1;
    while step < size {
        let those = || (0..size).filter(|distance| distance & step != 0);
        going.clear();
        those().for_each(|distance| going.extend_from_slice(&parts[block(distance)]));
        coming.resize(going.len(), G::Byte::default());
        team.exchange(&going, team.after(step), &mut coming, team.before(step)).await?;
        for (distance, place) in those().zip(0..) {
            copy(&coming[block(place)], &mut parts[block(distance)]);
        }
        step = step.saturating_mul(2);
    }
    // Part `d` now is from the rank `d` back.
    for distance in 0..size {
        into.put(block(team.before(distance)).start, &parts[block(distance)]);
    }
    Ok(())
}

/// All-to-all by reading: every rank copies its parts from all others' memory.
///
/// Parts have `length` bytes. `false`: the memory cannot be read.
async fn read<G: Group, S: Source<G::Byte> + ?Sized, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    data: &S,
    into: &mut D,
    length: usize,
) -> Result<bool, Stop<G>> {
    let rounds = LineRounds::begin(team).await?;
    let Some(memory) = rounds.show(data.whole()).await? else { return Ok(false) };
    put_own(team, data, into, length);
    let own = rounds.place * length;
    for place in rounds.others() {
        memory.read_into(place, own, into, place * length..(place + 1) * length)?;
    }
    memory.end().await
}

/// All-to-all by lines: every rank writes all its parts, and reads its own from all others.
///
/// Parts have `length` bytes. If they are long, each round has a piece of each.
async fn lines<G: Group, S: Source<G::Byte> + ?Sized, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    data: &S,
    into: &mut D,
    length: usize,
) -> Result<(), Stop<G>> {
    let rounds = LineRounds::begin_all(team).await?;
    team.require(rounds.size <= rounds.part(1, 1), "needs longer lines for so many ranks")?;
    let piece = (rounds.part(PIECES, 1) / rounds.size).max(1);
    let (mut pieces, mut packet) = (Vec::new(), Vec::new());
    for from in starts(length, piece) {
        let to = length.min(from + piece);
        // The parts of all others, as one contribution.
        if let (Some(data), true) = (data.whole(), to - from == length) {
            rounds.meet(without(&around(data, rounds.place, length))).await?;
        } else {
            pieces.resize((to - from) * (rounds.size - 1), G::Byte::default());
            for place in rounds.others() {
                let (at, part) = (behind(rounds.place, place) * (to - from), place * length);
                pieces[..].copy(at, data, part + from..part + to);
            }
            rounds.meet(&[&pieces]).await?;
        }
        let mut collect = |place: usize| {
            let part = place * length;
            let room = into.room(part + from..part + to, &mut packet);
            rounds.read(place, behind(place, rounds.place) * (to - from), room)?;
            into.settle(part + from, &packet);
            Ok(())
        };
        rounds.finish(rounds.others().try_for_each(&mut collect))?;
    }
    put_own(team, data, into, length);
    Ok(())
}

/// The same without waiting, if it is one piece and all have contributed.
#[inline(always)]
fn at_once<G: Group, S: Source<G::Byte> + ?Sized, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    data: &S,
    into: &mut D,
    length: usize,
) -> Option<Result<(), Failure<G>>> {
    let rounds = LineRounds::at_once(team)?;
    let (data, into) = (data.whole()?, into.whole_mut()?);
    if length > rounds.part(PIECES, 1) / rounds.size {
        return None;
    }
    let mut collect = || {
        put_own(team, data, into, length);
        rounds.others().try_for_each(|place| {
            let room = &mut into[place * length..(place + 1) * length];
            rounds.read(place, behind(place, rounds.place) * length, room)
        })
    };
    match rounds.try_meet(without(&around(data, rounds.place, length))) {
        Ok(met) => met.map(|_| rounds.finish(collect())),
        Err(failure) => Some(Err(failure)),
    }
}

/// The data before and after the part for the rank at `place`.
fn around<B>(data: &[B], place: usize, length: usize) -> [&[B]; 2] {
    [&data[..place * length], &data[(place + 1) * length..]]
}

/// The two slices without an empty one.
fn without<'s, 'd, B>(around: &'s [&'d [B]; 2]) -> &'s [&'d [B]] {
    match around {
        [[], _] => &around[1..],
        [_, []] => &around[..1],
        _ => around,
    }
}

/// How many parts precede the one for the rank at `place` in the contribution of the one at
/// `writer`, which has none for itself.
fn behind(writer: usize, place: usize) -> usize {
    place - usize::from(place > writer)
}

/// Moves this rank's part of `length` bytes for itself.
fn put_own<G, S, D>(team: &Team<'_, G>, data: &S, into: &mut D, length: usize)
where
    G: Group,
    S: Source<G::Byte> + ?Sized,
    D: Data<G::Byte> + ?Sized,
{
    let own = team.rank() as usize * length;
    into.copy(own, data, own..own + length);
}

/// The peers of a rank where received data replaces sent data: in step k rank r exchanges with rank
/// k - r. So in each step the ranks form pairs, or are alone.
fn partners<G: Group>(team: &Team<'_, G>) -> impl Iterator<Item = u32> + use<G> {
    let (rank, size) = (team.rank(), team.size());
    (0..size).map(move |step| (step + (size - rank)) % size).filter(move |peer| *peer != rank)
}

/// A receive buffer for data that replaces sent data.
struct Swap<B> {
    room: Scratch<B>,
}

impl<B: Copy + Default> Swap<B> {
    /// For blocks of at most `longest` bytes.
    fn new(longest: usize) -> Swap<B> {
        Swap { room: Scratch::new(longest.min(SWAP)) }
    }

    /// Exchanges a block with that of another rank, piece by piece: it sends a piece only after it
    /// has received the one before. The last piece is shorter than the others, and may be empty, so
    /// ranks that disagree on the length receive a piece of a wrong length.
    async fn with<G: Group<Byte = B>, D: Data<B> + ?Sized>(
        &mut self,
        team: &Team<'_, G>,
        peer: u32,
        data: &mut D,
        block: Range<usize>,
    ) -> Result<(), Failure<G>> {
        for piece in 0..=block.len() / SWAP {
            let start = block.start + piece * SWAP;
            let goes = start..block.end.min(start + SWAP);
            let comes = &mut self.room.bytes()[..goes.len()];
            let place = Place::Whole(&mut *comes);
            team.exchange_parts(data.part(goes), peer, place, peer).await?;
            data.put(start, comes);
        }
        Ok(())
    }
}
