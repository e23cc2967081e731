//! Built-in programs: traffic with a known answer, to examine a machine.
//!
//! Each is a value with its sizes, and one async function that a rank runs. Where messages carry
//! bytes, every receiver checks every byte, so a run that ends without an error has delivered what
//! was sent; with lengths only, lengths are checked.
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
//! let text = include_str!("../../../../machines/cp-pacs.toml");
//! let machine = Machine::parse("cp-pacs.toml", text)?;
//! let simulation = Simulation::new(1);
//! let installed = machine.install(&simulation);
//! let job = Job::new(&simulation, JobConfig::new(2), installed.carrier)?;
//! let report = job.run(|rank| PingPong { bytes: 8, rounds: 10 }.run(rank))?;
//! assert!(report.results.iter().all(Result::is_ok));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod halo;
mod ping_pong;
mod random;
mod ring;

pub use halo::{Halo, balanced};
pub use ping_pong::PingPong;
pub use random::RandomTraffic;
pub use ring::Ring;

use crate::error::SimError;
use crate::job::{Content, Payload, Rank, ReceivedMessage, SendRequest};

/// Why a program did not end with its answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// A call failed.
    #[error(transparent)]
    Call(#[from] SimError),
    /// A message differs from what its sender sent: a fault of the simulator.
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
    // Odd multipliers: neighbours in either count differ.
    (from.wrapping_mul(167) ^ number.wrapping_mul(59)) as u8
}

/// Starts to send a message of `bytes` bytes, all of them `fill` of its sender and number.
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

/// Checks that a message is the one that its source sent under this number.
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

#[cfg(test)]
mod tests;
