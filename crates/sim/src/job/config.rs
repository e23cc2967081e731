//! The configuration of a job: how many ranks, where, and the costs of their hosts.

use hikyaku_nic::time::Time;

use crate::network::Rate;

/// Whether messages have contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Payload {
    /// They carry their bytes, so that the program's answer is right.
    #[default]
    Carried,
    /// They have only a length, for large runs: contents are dropped, and receives return no data.
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
    /// The host's costs of a message.
    pub host: HostCosts,
    /// How messages travel within a node.
    pub memory: MemoryPath,
    /// The most messages that may be in flight or unexpected at one time.
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

/// The costs of a message for the processors at its ends: LogP's `o`, split in two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostCosts {
    /// For each message sent.
    pub send: Time,
    /// For each message received.
    pub receive: Time,
}

/// The path of messages between ranks of one node, which do not use the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryPath {
    /// From the end of the copy until the receiver sees it.
    pub latency: Time,
    /// The rate at which the sender's processor copies.
    pub rate: Rate,
}
