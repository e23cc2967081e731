//! Built-in programs: traffic with a known result, to examine a machine.
//!
//! Each is a value with its sizes, and one async function that a rank runs. If messages carry
//! bytes, every receiver checks every byte. So a run that ends without an error has delivered the
//! sent data. With lengths only, lengths are checked.
//!
//! | program | traffic |
//! |---|---|
//! | [`PingPong`] | latency and bandwidth between two ranks |
//! | [`Ring`] | each rank to the next: nearest neighbours |
//! | [`Halo`] | 1-D to 3-D exchange with neighbours and computation between |
//! | [`RandomTraffic`] | each rank to any other at random times: contention |
//!
//! ```
//! use hikyaku_sim::engine::Simulation;
//! use hikyaku_sim::job::{Job, JobConfig};
//! use hikyaku_sim::machine::Machine;
//! use hikyaku_sim::program::PingPong;
//!
//! let text = include_str!("../../../machines/cp-pacs.toml");
//! let machine = Machine::parse("cp-pacs.toml", text)?;
//! let simulation = Simulation::new(1);
//! let installed = machine.install(&simulation);
//! let job = Job::new(&simulation, JobConfig::new(2), installed.carrier)?;
//! let report = job.run(|rank| PingPong { bytes: 8, rounds: 10 }.run(rank))?;
//! assert!(report.results.iter().all(Result::is_ok));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::rc::Rc;

use hikyaku_nic::time::Time;

use crate::engine;
use crate::error::SimError;
use crate::job::{Content, Payload, Rank, ReceivedMessage, SendRequest};
use crate::topology::Grid;

/// The reasons why a program failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// A call failed.
    #[error(transparent)]
    Call(#[from] SimError),
    /// A message differs from the one that was sent: a fault of the simulator.
    #[error("rank {rank} got a wrong message from rank {source_rank}: {what}")]
    Wrong {
        /// The receiver.
        rank: u32,
        /// The sender.
        source_rank: u32,
        /// The difference.
        what: String,
    },
}

/// The byte that fills message `number` of `from`.
fn fill(from: u32, number: u32) -> u8 {
    // Odd multipliers: neighbours in rank or number get different bytes.
    (from.wrapping_mul(167) ^ number.wrapping_mul(59)) as u8
}

/// Starts a send of `bytes` bytes, each filled with `fill` of the sender and the number.
fn start(
    rank: &Rank,
    to: u32,
    tag: i32,
    (bytes, number): (u64, u32),
) -> Result<SendRequest, SimError> {
    match rank.payload() {
        Payload::LengthsOnly => rank.isend(to, tag, bytes),
        Payload::Carried => {
            let data = vec![fill(rank.rank(), number); bytes as usize];
            rank.isend(to, tag, Content::Bytes(&data))
        }
    }
}

/// Checks that a message is the one that its source sent with this number.
fn check(
    rank: &Rank,
    message: &ReceivedMessage,
    bytes: u64,
    number: u32,
) -> Result<(), ProgramError> {
    let wrong = |what: String| {
        Err(ProgramError::Wrong { rank: rank.rank(), source_rank: message.source, what })
    };
    if message.bytes != bytes {
        return wrong(format!("{} bytes in place of {bytes}", message.bytes));
    }
    let expected = fill(message.source, number);
    let data = message.data.as_deref().unwrap_or_default();
    match data.iter().position(|&byte| byte != expected) {
        Some(place) => wrong(format!("byte {place} is {} and not {expected}", data[place])),
        None if rank.payload() == Payload::Carried && data.len() as u64 != bytes => {
            wrong(format!("it carries {} of its {bytes} bytes", data.len()))
        }
        None => Ok(()),
    }
}

/// Rank 0 sends and the last rank answers. The other ranks do nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PingPong {
    /// Bytes of each message.
    pub bytes: u64,
    /// Round trips.
    pub rounds: u32,
}

impl PingPong {
    /// Runs one rank's part. In a job of one rank it ends at once.
    ///
    /// # Errors
    /// A call failed, or a message came back changed.
    pub async fn run(self, rank: Rank) -> Result<(), ProgramError> {
        let (me, last) = (rank.rank(), rank.size() - 1);
        if last == 0 || (me != 0 && me != last) {
            return Ok(());
        }
        let peer = if me == 0 { last } else { 0 };
        for number in 0..self.rounds {
            let _round = rank.enter("round trip");
            if me == 0 {
                start(&rank, peer, 0, (self.bytes, number))?.await;
            }
            let message = rank.recv(Some(peer), Some(0)).await;
            check(&rank, &message, self.bytes, number)?;
            if me == last {
                start(&rank, peer, 0, (self.bytes, number))?.await;
            }
        }
        Ok(())
    }
}

/// A ring of all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ring {
    /// Bytes of each message.
    pub bytes: u64,
    /// The number of rounds.
    pub steps: u32,
}

impl Ring {
    /// Runs one rank's part.
    ///
    /// # Errors
    /// A call failed, or a message arrived changed.
    pub async fn run(self, rank: Rank) -> Result<(), ProgramError> {
        let (me, size) = (rank.rank(), rank.size());
        for number in 0..self.steps {
            let _step = rank.enter("step");
            let incoming = rank.irecv(Some((me + size - 1) % size), Some(0));
            let outgoing = start(&rank, (me + 1) % size, 0, (self.bytes, number))?;
            check(&rank, &incoming.await, self.bytes, number)?;
            outgoing.await;
        }
        Ok(())
    }
}

/// An exchange with two neighbours in every dimension of a torus of ranks.
#[derive(Debug, Clone)]
pub struct Halo {
    grid: Rc<Grid>,
    /// The bytes of a face.
    bytes: u64,
    steps: u32,
    /// The computing time per step.
    compute: Time,
}

impl Halo {
    /// `steps` exchanges of `bytes` per face. Every rank computes for a time after each exchange.
    /// Ranks are numbered along `extent`, the first dimension varying fastest.
    pub fn new(extent: &[u32], bytes: u64, steps: u32, compute: Time) -> Halo {
        Halo { grid: Rc::new(Grid::torus(extent)), bytes, steps, compute }
    }

    /// Runs one rank's part.
    ///
    /// # Errors
    /// A call failed, or a message arrived changed.
    pub async fn run(self, rank: Rank) -> Result<(), ProgramError> {
        // The tags of faces are dimension and direction of travel. An extent of one has no
        // neighbours.
        let sizes = self.grid.dimensions().iter().map(|dimension| dimension.size);
        let faces: Vec<(usize, bool)> = sizes
            .enumerate()
            .filter(|(_, size)| *size > 1)
            .flat_map(|(d, _)| [(d, false), (d, true)])
            .collect();
        let tag = |(d, up): (usize, bool)| d as i32 * 2 + i32::from(up);
        let other = |d, up| self.grid.neighbour(rank.rank(), d, up).unwrap_or(rank.rank());
        let mut incoming = Vec::with_capacity(faces.len());
        let mut outgoing = Vec::with_capacity(faces.len());
        for step in 0..self.steps {
            let exchange = rank.enter("exchange");
            let posts =
                faces.iter().map(|&(d, up)| rank.irecv(Some(other(d, !up)), Some(tag((d, up)))));
            incoming.extend(posts);
            for &(d, up) in &faces {
                let number = step * 8 + tag((d, up)) as u32;
                outgoing.push(start(&rank, other(d, up), tag((d, up)), (self.bytes, number))?);
            }
            for (message, &face) in rank.wait_all(&mut incoming).await.iter().zip(&faces) {
                let number = step * 8 + tag(face) as u32;
                check(&rank, message, self.bytes, number)?;
            }
            for request in outgoing.drain(..) {
                request.await;
            }
            drop(exchange);
            rank.compute(self.compute);
        }
        Ok(())
    }
}

/// The extents of a grid with this many dimensions for `ranks` ranks: as equal as the number
/// allows, the largest first.
pub fn balanced(ranks: u32, dimensions: u32) -> Vec<u32> {
    let mut extent = Vec::new();
    let mut rest = ranks.max(1);
    for left in (1..=dimensions.max(1)).rev() {
        // The largest divisor that is not above the root shared by the remaining dimensions.
        let fits = |d: u32| d.checked_pow(left).is_some_and(|power| power <= rest);
        let divisor =
            (1..=rest).take_while(|&d| fits(d)).filter(|&d| rest.is_multiple_of(d)).last();
        let divisor = if left == 1 { rest } else { divisor.unwrap_or(1) };
        extent.push(divisor);
        rest /= divisor;
    }
    extent.sort_unstable_by(|one, other| other.cmp(one));
    extent
}

/// The tag of random traffic. No other program uses this tag, so one program may follow another.
const TAG: i32 = 100;

/// Random traffic: each rank sends to random ranks, uniformly distributed, with exponentially
/// distributed gaps. It is the textbook load of a network.
#[derive(Debug, Clone)]
pub struct RandomTraffic {
    bytes: u64,
    /// The number of messages that each rank sends.
    messages: u32,
    /// The mean gap between two messages of a rank, picoseconds.
    gap: f64,
    /// By rank: the number of messages that it will receive.
    expected: Rc<[u32]>,
}

impl RandomTraffic {
    /// `messages` messages from each of `ranks` ranks, `gap` apart on average.
    ///
    /// The numbers of messages to receive are drawn here as the ranks will draw them, with the
    /// simulation's `seed`. So every rank knows when it has all of its messages.
    pub fn new(seed: u64, ranks: u32, bytes: u64, messages: u32, gap: Time) -> RandomTraffic {
        let mut expected = vec![0; ranks as usize];
        for from in 0..ranks {
            let mut draws = engine::Random::stream(seed, u64::from(from));
            for _ in 0..messages {
                let (_, to) = draw(&mut draws, ranks);
                expected[to as usize] += 1;
            }
        }
        RandomTraffic { bytes, messages, gap: gap.picoseconds() as f64, expected: expected.into() }
    }

    /// Runs one rank's part.
    ///
    /// # Errors
    /// A call failed, or a message arrived changed.
    pub async fn run(self, rank: Rank) -> Result<(), ProgramError> {
        let mut draws = rank.sim().random(u64::from(rank.rank()));
        for _ in 0..self.messages {
            let (gap, to) = draw(&mut draws, rank.size());
            rank.sleep(Time::from_picoseconds((gap * self.gap) as u64)).await;
            drop(start(&rank, to, TAG, (self.bytes, 0))?);
        }
        for _ in 0..self.expected[rank.rank() as usize] {
            check(&rank, &rank.recv(None, Some(TAG)).await, self.bytes, 0)?;
        }
        Ok(())
    }
}

/// A gap, in units of the mean, and a destination.
fn draw(random: &mut engine::Random, ranks: u32) -> (f64, u32) {
    let gap = random.exponential(1.0);
    (gap, random.below(u64::from(ranks)) as u32)
}

#[cfg(test)]
mod tests;
