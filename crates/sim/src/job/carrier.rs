//! The boundary between a job and the carrier that moves its messages between nodes.

use std::cell::RefCell;
use std::fmt;
use std::rc::{Rc, Weak};

use hikyaku_nic::time::Time;

use super::HostCosts;
use crate::engine::PrefetchStage;
use crate::topology::Node;

/// A message as the carrier sees it: bytes from node to node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parcel {
    /// The sending node.
    pub source: Node,
    /// The receiving node.
    pub destination: Node,
    /// Bytes of payload.
    pub bytes: u64,
    /// The job's number for the message, returned in reports. Below 2^63.
    pub token: u64,
}

/// Moves messages: a modelled interface with a network below it.
///
/// The contract: every parcel is delivered once, and parcels between two nodes in the order in
/// which they were handed over. No delivery is reported before its departure.
pub trait Carrier {
    /// The number of reachable nodes.
    fn nodes(&self) -> u32;

    /// The costs of a message of `bytes` bytes for the processors at its ends, in addition to the
    /// job's own costs: the host's steps of this interface. Charged to the ranks, not the carrier.
    fn host(&self, bytes: u64) -> HostCosts {
        let _ = bytes;
        HostCosts::default()
    }

    /// The sending processor's cost of each message after the first of a chain, in place of the
    /// cost in [`host`](Carrier::host). It is lower if an interface takes a chain of commands
    /// (paper 004).
    fn chained(&self, bytes: u64) -> Time {
        self.host(bytes).send
    }

    /// The processor's cost of a poll that finds no message.
    fn look(&self) -> Time {
        Time::ZERO
    }

    /// Takes a message. `Some(time)` if the time is already known at which the sender's memory is
    /// free again. Then [`Consignee::departed`] is not called.
    ///
    /// `at` is now, unless [`takes_ahead`](Carrier::takes_ahead) allows later times.
    fn carry(&self, parcel: Parcel, at: Time) -> Option<Time>;

    /// Whether messages may be handed over ahead of their time, in order of time per node. Such a
    /// carrier reports no departure before [`carry`](Carrier::carry) has returned.
    fn takes_ahead(&self) -> bool {
        false
    }

    /// The network's function for copying a message to several nodes, if it has one (paper 003).
    fn multicast(&self) -> Option<&dyn Multicast> {
        None
    }

    /// Sets the consignee.
    fn connect(&self, consignee: Weak<dyn Consignee>);
}

/// A network that copies messages.
pub trait Multicast {
    /// Takes one message for several nodes, now. The parcels differ only in destination and token.
    /// The departure of each is reported.
    fn carry_to_all(&self, parcels: &[Parcel]);
}

/// A message that will soon arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coming {
    /// The job's number for the message.
    pub token: u64,
    /// The receiving node.
    pub destination: Node,
}

/// Receives the carrier's reports about messages.
pub trait Consignee {
    /// The sender's memory is free again.
    fn departed(&self, token: u64);

    /// The whole message has arrived.
    fn delivered(&self, token: u64);

    /// Prepares for messages that will soon arrive: a
    /// [`prepare`](crate::engine::Component::prepare) of the engine, from the second stage on.
    fn prepare(&self, messages: &[Coming], stage: PrefetchStage) {
        let _ = (messages, stage);
    }
}

/// A carrier's reference to its consignee. It is weak, because the consignee holds the carrier.
#[derive(Default)]
pub struct Connection(RefCell<Option<Weak<dyn Consignee>>>);

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connection").finish_non_exhaustive()
    }
}

impl Connection {
    /// Sets the consignee.
    pub fn set(&self, consignee: Weak<dyn Consignee>) {
        *self.0.borrow_mut() = Some(consignee);
    }

    /// The consignee; `None` if it has not been set or has been dropped.
    pub fn get(&self) -> Option<Rc<dyn Consignee>> {
        self.0.borrow().as_ref().and_then(Weak::upgrade)
    }
}
