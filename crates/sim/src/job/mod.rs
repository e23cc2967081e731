//! Jobs: ranks as async tasks that exchange messages in virtual time.
//!
//! ```text
//!   program of a rank (async fn)
//!        |  send, recv, compute          Rank
//!        v
//!   matching, host's costs               Job        one per simulated job
//!        |  Parcel                          ^ departed, delivered
//!        v                                  |
//!   a modelled interface, or PlainInterface: packets    (trait Carrier)
//!        |  Packet                          ^
//!        v                                  |
//!   Network                                 |        wormhole, cut-through, LogGP
//!        +----------------------------------+
//! ```
//!
//! **A rank's own time.** The engine's clock is the time of the network. A rank's processor may be
//! further ahead. A call that only costs time (`compute`, the overhead of a send) moves the rank's
//! own time and schedules no event. The rank is held back only when it needs something from others,
//! that is when it waits for a message. So a message costs the engine its arrival and nothing else.
//! This is exact, not an approximation. The order of the receives and the order of the arrivals
//! decide the matching; their interleaving does not. A message that the rank hands to the network
//! ahead of time is held until that time.
//!
//! A rank that never waits would run arbitrarily far ahead and fill memory with messages. So a
//! blocking send joins the engine's time every [`AHEAD`] messages.
//!
//! Matching is MPI's (MPI 5.0 §3.5): by source and tag, wildcards allowed, messages between two
//! ranks in order. A message is matched when its last byte has arrived.

mod carrier;
mod matching;
mod plain;
mod rank;
mod receiving;
mod request;
mod state;

use hikyaku_nic::time::Time;

use crate::network::Rate;

pub use carrier::{Carrier, Coming, Connection, Consignee, Multicast, Parcel};
pub use plain::{PacketFormat, PlainInterface};
pub use rank::{Content, Entered, Rank};
pub use request::{ReceivedMessage, RecvRequest, SendRequest, WaitAll};
pub use state::{ChainPlace, Job, JobReport, JobResults, Totals, Usage};

/// The number of blocking sends by which a rank may be ahead of the engine.
pub const AHEAD: u32 = 64;

/// Whether messages carry contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Payload {
    /// Messages carry their bytes, so that the program computes its real result.
    #[default]
    Carried,
    /// Messages have only a length, for large runs. Contents are dropped, and receives return no
    /// data.
    LengthsOnly,
}

/// A job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobConfig {
    /// The number of ranks.
    pub ranks: u32,
    /// The number of ranks per node, in blocks: rank `r` is on node `r / ranks_per_node`.
    pub ranks_per_node: u32,
    /// Whether messages carry contents.
    pub payload: Payload,
    /// The host's costs per message.
    pub host: HostCosts,
    /// The path of messages within a node.
    pub memory: MemoryPath,
    /// The maximum number of messages in flight or unexpected at one time.
    pub in_flight: usize,
}

impl JobConfig {
    /// `ranks` ranks, one per node, on hosts without costs.
    pub fn new(ranks: u32) -> JobConfig {
        JobConfig {
            ranks,
            ranks_per_node: 1,
            payload: Payload::Carried,
            host: HostCosts::default(),
            memory: MemoryPath { latency: Time::ZERO, rate: Rate::INFINITE },
            in_flight: 1 << 26,
        }
    }
}

/// The costs of a message for the processors at its ends: LogP's `o`, split in two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostCosts {
    /// Per sent message.
    pub send: Time,
    /// Per received message.
    pub receive: Time,
}

/// The path of messages between ranks of one node, which do not use the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryPath {
    /// The time from the end of the copy until the receiver sees it.
    pub latency: Time,
    /// The rate at which the sender's processor copies.
    pub rate: Rate,
}
