//! The boundary between a job and what moves its messages from node to node.

use std::rc::Weak;

use hikyaku_nic::time::Time;

use super::config::HostCosts;
use crate::engine::Stage;
use crate::topology::Node;

/// A message as an interface sees it: bytes from node to node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parcel {
    /// The sending node.
    pub source: Node,
    /// The receiving node.
    pub destination: Node,
    /// Bytes of payload.
    pub bytes: u64,
    /// The job's name for it, to be handed back; below 2^63.
    pub token: u64,
}

/// Moves messages: a modelled interface with a network below it.
///
/// What it owes: every parcel is delivered once, those between two nodes in the order in which they
/// were handed over, and no delivery is told before its departure.
pub trait Carrier {
    /// How many nodes it reaches.
    fn nodes(&self) -> u32;

    /// What a message of so many bytes costs the processors at its ends, beyond what the job's own
    /// costs say: the host's steps of this interface. Charged to the ranks, not to the carrier.
    fn host(&self, bytes: u64) -> HostCosts {
        let _ = bytes;
        HostCosts::default()
    }

    /// What a look for a message costs a processor that finds nothing.
    fn look(&self) -> Time {
        Time::ZERO
    }

    /// Takes a message. `Some(time)` if it is known already when the sender's memory is free again;
    /// then [`Consignee::departed`] is not called.
    ///
    /// `at` is now, unless [`takes_ahead`](Carrier::takes_ahead) says that later times are welcome.
    fn carry(&self, parcel: Parcel, at: Time) -> Option<Time>;

    /// Whether messages may be handed over ahead of their time, each node's in order of time. Such
    /// a carrier tells of no departure before [`carry`](Carrier::carry) has returned.
    fn takes_ahead(&self) -> bool {
        false
    }

    /// Sets whom to tell; held weakly, as it holds the carrier.
    fn connect(&self, consignee: Weak<dyn Consignee>);
}

/// A message that will soon arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coming {
    /// The job's name for it.
    pub token: u64,
    /// The receiving node.
    pub destination: Node,
}

/// Learns what became of messages.
pub trait Consignee {
    /// The sender's memory is free again.
    fn departed(&self, token: u64);

    /// The whole message has arrived.
    fn delivered(&self, token: u64);

    /// Messages will soon arrive: what the engine says of
    /// [preparing](crate::engine::Component::prepare), from the second stage on.
    fn prepare(&self, messages: &[Coming], stage: Stage) {
        let _ = (messages, stage);
    }
}
