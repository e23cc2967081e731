//! Broadcast: one rank's data to all ranks (MPI 5.0 §6.4).
//!
//! The three algorithms of paper 004, Fig. 4 (ONE2ALL-BT, ONE2ALL-PP and ONE2ALL-SYS), and others
//! for large messages, any number of ranks and networks with multicast:
//!
//! | algorithm | longest path | remarks |
//! |---|---|---|
//! | binomial | log2 n messages of m | any number of ranks |
//! | binary-tree | the same, sends of a rank in one chain | powers of two only, as in the paper |
//! | point-to-point | n - 1 sends of m at the root | |
//! | system | a + b + c - 3 messages of m | along the dimensions of the network |
//! | pipelined | (n - 2) segments and m | for large messages |
//! | multicast | 1 command | needs ranks that share memory, or a network that multicasts |
//! | lines | 1 poll at the root; between nodes a tree | needs lines that ranks of a node share |
//! | read | 1 copy out of the root's memory | needs lines on one node; else as lines |

use std::future::Future;
use std::ops::Range;

use hikyaku_msg::join;

use crate::algorithms::broadcast::SEGMENT;
use crate::call::{Begun, Call, Team};
use crate::error::Failure;
use crate::group::Group;
use crate::long::{ByLines, LongOperation, LongWay};
use crate::names::Operation;
use crate::part::{Data, Place};
use crate::rounds::{
    BROADCAST_PARTS, LineRounds, NEEDS_LINES, Stop, after_lines, begin_on_network, unless_lost,
};
use crate::select;
use crate::signature::Signature;

pub use crate::algorithms::broadcast::Algorithm;

/// Copies `data` of rank `root` to `data` of every other, which has the same length.
///
/// # Errors
/// [`crate::CollError`]: `root` does not exist, lengths differ, a rank is gone or abandoned the
/// call, or `algorithm` cannot do it.
pub fn broadcast<'a, G: Group>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    data: &'a mut [G::Byte],
    root: u32,
) -> impl Future<Output = Result<(), Failure<G>>> {
    begin_broadcast(group, algorithm, data, root).end()
}

/// The same where this rank's data has gaps.
///
/// # Errors
/// As [`broadcast()`].
pub fn broadcast_scattered<'a, G: Group<Byte = u8>>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    data: &'a mut Place<'_, u8>,
    root: u32,
) -> impl Future<Output = Result<(), Failure<G>>> {
    begin(group, algorithm, data, root).end()
}

/// Starts [`broadcast()`], which may complete at once.
///
/// # Errors
/// As [`broadcast()`].
#[inline]
pub fn begin_broadcast<'a, G: Group>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    data: &'a mut [G::Byte],
    root: u32,
) -> Begun<Result<(), Failure<G>>, impl Future<Output = Result<(), Failure<G>>>> {
    begin(group, algorithm, data, root)
}

#[inline]
fn begin<'a, G: Group, D: Data<G::Byte> + ?Sized>(
    group: &'a G,
    algorithm: Option<Algorithm>,
    data: &'a mut D,
    root: u32,
) -> Begun<Result<(), Failure<G>>, impl Future<Output = Result<(), Failure<G>>>> {
    let needs_lines = |by: &Algorithm| matches!(by, Algorithm::Lines | Algorithm::Read);
    let (named, on_network) = match algorithm {
        Some(by @ Algorithm::Multicast) => select::on_network(group, by),
        _ => (algorithm, false),
    };
    let algorithm =
        select::resolve(group, named, needs_lines, || select::for_broadcast(group, data.length()));
    let signature = Signature::new(Operation::Broadcast).root(root).bytes(data.length());
    let shared = on_network || needs_lines(&algorithm);
    if !needs_lines(&algorithm) {
        let call = Call::new_on(group, signature, algorithm as usize, shared);
        return Begun::Waits(run(group, call, (algorithm, shared), data, (root, true)));
    }
    let act = |team: &Team<'_, G>| match algorithm {
        Algorithm::Lines => lines_at_once(team, data, (root, named.is_some())),
        _ => None,
    };
    Call::on_lines(group, signature, algorithm as usize, act)
        .or_start(|call| run(group, call, (algorithm, shared), data, (root, named.is_some())))
}

fn run<'a, G: Group, D: Data<G::Byte> + ?Sized>(
    group: &'a G,
    call: Call<'a, G>,
    (algorithm, shared): (Algorithm, bool),
    data: &'a mut D,
    (root, is_named): (u32, bool),
) -> impl Future<Output = Result<(), Failure<G>>> {
    call.run(async move |team| {
        team.check_root(root)?;
        let mut algorithm = algorithm;
        if shared {
            let done = match algorithm {
                // Boxed, so that it takes no room in the future of every broadcast.
                Algorithm::Multicast => Box::pin(multicast_on_network(team, data, root)).await,
                by => lines(team, data, root, (by == Algorithm::Read, is_named)).await,
            };
            let Some(why) = after_lines(team, done)? else { return Ok(()) };
            algorithm = select::for_broadcast_after_lines(group, data.length(), why);
            team.without_lines(algorithm as usize)?;
        }
        match algorithm {
            Algorithm::Binomial => binomial(team, data, root).await,
            Algorithm::BinaryTree => {
                let can = team.size().is_power_of_two();
                team.require(can, "needs a number of ranks that is a power of two")?;
                binomial_chained(team, data, root).await
            }
            Algorithm::PointToPoint => point_to_point(team, data, root).await,
            Algorithm::System => system(team, data, root).await,
            Algorithm::Pipelined => pipelined(team, data, root).await,
            Algorithm::Multicast => multicast(team, data, root).await,
            Algorithm::Lines | Algorithm::Read => team.require(false, NEEDS_LINES),
        }
    })
}

/// Broadcast by a binomial tree: in each round, every rank that has the data sends it on.
///
/// Paper 004's ONE2ALL-BT is this tree with the sends of each rank combined in one TCW chain.
///
/// The sends of a rank are sequential, those to the largest subtrees first.
pub(crate) async fn binomial<G: Group, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    data: &mut D,
    root: u32,
) -> Result<(), Failure<G>> {
    let reach = receive(team, data, root).await?;
    for child in children(team, root, reach) {
        team.send_part(data.all(), child).await?;
    }
    Ok(())
}

/// The same with the sends of a rank as one chain.
async fn binomial_chained<G: Group, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    data: &mut D,
    root: u32,
) -> Result<(), Failure<G>> {
    let reach = receive(team, data, root).await?;
    let part = |child| (child, data.all());
    team.send_parts(children(team, root, reach).map(part).collect()).await
}

/// Receives the data from the parent. Returns the number of places in this rank's subtree.
async fn receive<G: Group, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    data: &mut D,
    root: u32,
) -> Result<u64, Failure<G>> {
    // Places are ranks as seen from the root.
    let place = team.before(root);
    let mut reach = 1;
    while reach < u64::from(team.size()) && u64::from(place) & reach == 0 {
        reach <<= 1;
    }
    if place != 0 {
        team.recv_part(data.all_places(), team.before(reach as u32)).await?;
    }
    Ok(reach)
}

/// The ranks that this rank sends the data to.
fn children<G: Group>(team: &Team<'_, G>, root: u32, reach: u64) -> impl Iterator<Item = u32> {
    let place = u64::from(team.before(root));
    let halves = std::iter::successors(Some(reach >> 1), |half| Some(half >> 1));
    halves
        .take_while(|half| *half > 0)
        .filter(move |half| place + half < u64::from(team.size()))
        .map(|half| team.after(half as u32))
}

/// Broadcast from the root to each rank: paper 004's ONE2ALL-PP.
async fn point_to_point<G: Group, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    data: &mut D,
    root: u32,
) -> Result<(), Failure<G>> {
    if team.rank() != root {
        return team.recv_part(data.all_places(), root).await;
    }
    for distance in 1..team.size() {
        team.send_part(data.all(), team.after(distance)).await?;
    }
    Ok(())
}

/// Broadcast through a chain of all ranks, in segments that follow each other.
///
/// ```text
///   root   s0 s1 s2 s3
///   next      s0 s1 s2 s3
///   next         s0 s1 s2 s3
/// ```
///
/// The last segment is always shorter than the others, and may be empty. So ranks that disagree on
/// the length receive a segment of a wrong length and do not wait for one that never arrives.
async fn pipelined<G: Group, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    data: &mut D,
    root: u32,
) -> Result<(), Failure<G>> {
    let place = team.before(root);
    let previous = (place > 0).then(|| team.before(1));
    let next = (place + 1 < team.size()).then(|| team.after(1));
    let length = data.length();
    let segments = length / SEGMENT + 1;
    for step in 0..=segments {
        let here = if step > 0 { segment(length, SEGMENT, step - 1) } else { 0..0 };
        let (here, coming) = data.disjoint(here, segment(length, SEGMENT, step));
        let receive = async {
            match previous {
                Some(previous) if step < segments => team.recv_part(coming, previous).await,
                _ => Ok(()),
            }
        };
        let pass_on = async {
            match next {
                Some(next) if step > 0 => team.send_part(here, next).await,
                _ => Ok(()),
            }
        };
        let (received, passed_on) = join(receive, pass_on).await;
        received.and(passed_on)?;
    }
    Ok(())
}

/// The range of a segment of `length` bytes in segments of `part` bytes; empty behind the last.
pub(crate) fn segment(length: usize, part: usize, number: usize) -> Range<usize> {
    let start = length.min(number * part);
    start..length.min(start + part)
}

/// Broadcast along the dimensions of the network: paper 004's ONE2ALL-SYS.
///
/// ```text
///   root's line along x      every line along y of those      every line along z of those
///   r ─► o ─► o ─► o         each of them starts a chain      each of all starts a chain
/// ```
///
/// In the paper the system software of each node passes the data on along crossbars, three
/// transfers in all. Here a rank passes it to the next one of its line, and a line starts at a rank
/// that received the data in the previous dimension.
async fn system<G: Group, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    data: &mut D,
    root: u32,
) -> Result<(), Failure<G>> {
    let shape = team.group().shape();
    let (here, start) = (position(team.rank(), shape), position(root, shape));
    // The dimension in which this rank receives the data: the last in which it differs from the
    // root.
    let got = (0..3).rev().find(|dimension| here[*dimension] != start[*dimension]);
    if let Some(dimension) = got {
        let previous = neighbour(here, shape, dimension, shape[dimension] - 1);
        team.recv_part(data.all_places(), previous).await?;
    }
    // Next along its own line, then the chains of the following dimensions.
    let next = |dimension: usize| {
        let next = neighbour(here, shape, dimension, 1);
        let ends = position(next, shape)[dimension] == start[dimension];
        (!ends).then(|| (next, data.all()))
    };
    team.send_parts((got.unwrap_or(0)..3).filter_map(next).collect()).await
}

/// The coordinates of a rank.
fn position(rank: u32, [a, b, _]: [u32; 3]) -> [u32; 3] {
    [rank % a, rank / a % b, rank / a / b]
}

/// The rank `steps` further on in one dimension, cyclically.
fn neighbour(mut at: [u32; 3], shape: [u32; 3], dimension: usize, steps: u32) -> u32 {
    at[dimension] = (at[dimension] + steps) % shape[dimension];
    at[0] + shape[0] * (at[1] + shape[1] * at[2])
}

/// Broadcast by one command that the network delivers to all (paper 003, Fig. 9 C).
async fn multicast<G: Group, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    data: &mut D,
    root: u32,
) -> Result<(), Failure<G>> {
    let can = team.group().facilities().multicast;
    team.require(can, "needs ranks that share memory, or a network that multicasts")?;
    if team.rank() == root {
        to_all(team, data).await
    } else {
        receive_whole(team, data, root).await
    }
}

/// One command cannot carry data with gaps: these are sent as messages.
async fn to_all<G: Group, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    data: &mut D,
) -> Result<(), Failure<G>> {
    match data.whole() {
        Some(bytes) => team.multicast(bytes).await,
        None => {
            let part = |distance| (team.after(distance), data.all());
            team.send_parts((1..team.size()).map(part).collect()).await
        }
    }
}

fn receive_whole<G: Group, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    data: &mut D,
    root: u32,
) -> impl Future<Output = Result<(), Failure<G>>> {
    team.recv_part(data.all_places(), root)
}

/// The same through the port's group of all ranks.
async fn multicast_on_network<G: Group, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    data: &mut D,
    root: u32,
) -> Result<ByLines, Stop<G>> {
    begin_on_network(team).await?;
    let done = match team.rank() == root {
        true => match unless_lost(team, to_all(team, data)).await {
            // Some ranks may have received it already.
            Err(Stop::Lost) => Err(team.lost().into()),
            done => done,
        },
        false => unless_lost(team, receive_whole(team, data, root)).await,
    };
    done.map(|()| ByLines::Done)
}

/// Broadcast by lines: the root writes and all read, in parts; the root is a few parts ahead. Over
/// several nodes its leader sends to the others' leaders, which pass the data on.
#[inline(always)]
async fn lines<G: Group, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    data: &mut D,
    root: u32,
    (reads, is_named): (bool, bool),
) -> Result<ByLines, Stop<G>> {
    let rounds = LineRounds::begin(team).await?;
    if reads && read(&rounds, data, root as usize).await? {
        return Ok(ByLines::Done);
    }
    if !rounds.mates.are_all() {
        return across(&rounds, data, root).await.map(|()| ByLines::Done);
    }
    let (root, bytes) = (root as usize, data.length());
    if team.rounds_over().get() == 0 && rounds.asks(LongOperation::Broadcast, bytes) {
        if leaves(&rounds, root, (bytes, is_named || reads)) {
            return rounds.leave_lines().await.map(|()| ByLines::Messages);
        }
        if rounds.place != root {
            if rounds.is_left_by(root).await? {
                rounds.hear_way(bytes, root, LongWay::Messages);
                return Ok(ByLines::Messages);
            }
            rounds.hear_way(bytes, root, LongWay::Lines);
        }
    }
    rounds.broadcast_of(data, root).await.map(|()| ByLines::Done)
}

/// Whether this rank is the root and sends its data by messages. `is_named`: the program has chosen
/// lines.
fn leaves<G: Group>(
    rounds: &LineRounds<'_, G>,
    root: usize,
    (bytes, is_named): (usize, bool),
) -> bool {
    rounds.place == root
        && !is_named
        && rounds.asks(LongOperation::Broadcast, bytes)
        && rounds.choose_way(LongOperation::Broadcast, bytes) == LongWay::Messages
}

/// The same without waiting, if all parts are available. `None`: the call continues where this has
/// stopped, after [`Team::rounds_over`].
#[inline(always)]
fn lines_at_once<G: Group, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    data: &mut D,
    (root, is_named): (u32, bool),
) -> Option<Result<(), Failure<G>>> {
    if let Err(failure) = team.check_root(root) {
        return Some(Err(failure));
    }
    let (rounds, data) = (LineRounds::at_once(team)?, data.whole_mut()?);
    let is_asked = rounds.asks(LongOperation::Broadcast, data.len());
    if !is_asked && rounds.is_one_part(data.len(), BROADCAST_PARTS, 1) {
        return rounds.try_broadcast(data, root as usize);
    }
    parts_at_once(&rounds, data, root as usize, is_named)
}

#[inline(never)]
fn parts_at_once<G: Group>(
    rounds: &LineRounds<'_, G>,
    data: &mut [G::Byte],
    root: usize,
    is_named: bool,
) -> Option<Result<(), Failure<G>>> {
    if leaves(rounds, root, (data.len(), is_named)) {
        return None;
    }
    for part in data.chunks_mut(rounds.part(BROADCAST_PARTS, 1)) {
        if let Err(failure) = rounds.try_broadcast(part, root)? {
            return Some(Err(failure));
        }
        rounds.team.rounds_over().update(|over| over + 1);
    }
    if rounds.asks(LongOperation::Broadcast, data.len()) {
        rounds.hear_way(data.len(), root, LongWay::Lines);
    }
    Some(Ok(()))
}

#[inline(never)]
async fn across<G: Group, D: Data<G::Byte> + ?Sized>(
    rounds: &LineRounds<'_, G>,
    data: &mut D,
    root: u32,
) -> Result<(), Stop<G>> {
    let mates = rounds.mates;
    let is_near = mates.ranks().contains(&root);
    if is_near {
        rounds.broadcast_of(data, (root - mates.ranks().start) as usize).await?;
    }
    if rounds.place == 0 {
        let leaders = rounds.team.among(mates.leaders(), mates.own() as u32);
        let sent = binomial(&leaders, data, mates.leader_of(root) as u32);
        rounds.unless_lost(sent).await.map_err(|stop| match is_near {
            true => stop.into_failure(rounds.team).into(),
            false => stop,
        })?;
    }
    if is_near { Ok(()) } else { rounds.broadcast_of(data, 0).await }
}

/// Broadcast by reading: every rank copies out of the root's memory.
///
/// `false`: the memory cannot be read, and `data` of the root is unchanged.
async fn read<G: Group, D: Data<G::Byte> + ?Sized>(
    rounds: &LineRounds<'_, G>,
    data: &mut D,
    root: usize,
) -> Result<bool, Stop<G>> {
    let Some(memory) = rounds.show_root(data.whole(), root).await? else { return Ok(false) };
    if rounds.place != root {
        memory.read_into(root, 0, data, 0..data.length())?;
    }
    memory.end().await
}
