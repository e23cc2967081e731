//! What a job is made of: how many ranks, where, and what their hosts cost.

use hikyaku_nic::time::Time;

use crate::network::Rate;

/// Whether messages have contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Payload {
    /// They carry their bytes, so that the program's answer is right.
    #[default]
    Carried,
    /// They have a length only, for scale: what was written is dropped, and receives give no data.
    LengthsOnly,
}

/// A job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobConfig {
    /// How many ranks.
    pub ranks: u32,
    /// How many of them share a node, in blocks: rank `r` is on node `r / ranks_per_node`.
    pub ranks_per_node: u32,
    /// Whether messages have contents.
    pub payload: Payload,
    /// What messages cost the host.
    pub host: HostCosts,
    /// How messages travel within a node.
    pub memory: MemoryPath,
    /// The most messages that may be under way or unexpected at one time.
    pub in_flight: usize,
}

impl JobConfig {
    /// `ranks` ranks, one to a node, on hosts that cost nothing.
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

/// What a message costs the processors at its ends: LogP's `o`, told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostCosts {
    /// For each message sent.
    pub send: Time,
    /// For each message received.
    pub receive: Time,
}

/// Messages between ranks of one node do not use the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryPath {
    /// From the end of the copy to its being seen.
    pub latency: Time,
    /// At which bytes are copied; the sender's processor does it.
    pub rate: Rate,
}
