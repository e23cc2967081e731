//! The trait that all network models implement, with its inputs and outcomes.

use std::fmt;

use hikyaku_nic::time::Time;

use crate::engine::{ComponentId, PrefetchStage, RecordKind, Sim, TraceRecord};
use crate::topology::{Link, Node};

/// A packet, or a whole message if the network takes messages whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// The sending node.
    pub source: Node,
    /// The receiving node.
    pub destination: Node,
    /// Bytes on the wire, headers included.
    pub bytes: u64,
    /// The sender's number for the packet, returned with every outcome.
    pub token: u64,
}

/// An outcome that a model reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkOutcome {
    /// The last byte has left the sender.
    Departed(Packet),
    /// The last byte has arrived.
    Delivered(Packet),
}

/// A model's access to its simulation, during one call.
pub struct Agenda<'a> {
    pub(super) sim: &'a Sim,
    pub(super) component: ComponentId,
    pub(super) outcomes: &'a mut Vec<NetworkOutcome>,
    pub(super) traced: bool,
}

impl fmt::Debug for Agenda<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agenda").field("now", &self.now()).finish_non_exhaustive()
    }
}

impl Agenda<'_> {
    /// Virtual time.
    pub fn now(&self) -> Time {
        self.sim.now()
    }

    /// Schedules an event: the model handles `event` at `time`.
    pub fn schedule(&mut self, time: Time, event: u32) {
        self.sim.schedule(time, self.component, event);
    }

    /// Records in the trace that a link carries bytes for a span from `start` on.
    pub fn carries(&self, link: Link, start: Time, span: Time) {
        if self.traced {
            let (who, what) = (link, span.picoseconds());
            let record = TraceRecord { time: start, kind: RecordKind::Link, who, whom: link, what };
            self.sim.trace().add(record);
        }
    }

    /// Reports an outcome at the current time.
    pub fn report(&mut self, outcome: NetworkOutcome) {
        self.outcomes.push(outcome);
    }
}

/// A network's behaviour in time.
pub trait NetworkModel: fmt::Debug {
    /// The number of nodes.
    fn nodes(&self) -> u32;

    /// Takes a packet. `Some(time)` if the time is already known at which its last byte leaves the
    /// sender. Then no [`NetworkOutcome::Departed`] follows.
    ///
    /// `at` is the time of the hand-over. It is later than now only if the model
    /// [`takes_ahead`](NetworkModel::takes_ahead).
    fn send(&mut self, packet: Packet, at: Time, agenda: &mut Agenda<'_>) -> Option<Time>;

    /// Takes a packet for several nodes, to be copied on its path. Its `destination` is ignored.
    /// Each copy is reported as delivered with its own destination.
    ///
    /// # Errors
    /// [`NoMulticast`] if this network cannot copy.
    fn multicast(
        &mut self,
        packet: Packet,
        to: &[Node],
        agenda: &mut Agenda<'_>,
    ) -> Result<(), NoMulticast> {
        let _ = (packet, to, agenda);
        Err(NoMulticast)
    }

    /// Handles an event that this model scheduled.
    fn handle(&mut self, event: u32, agenda: &mut Agenda<'_>);

    /// The packet that an event will deliver, if any. Called for events that are due soon. The
    /// first stage may only prefetch its entry, as in [`Component::prepare`].
    ///
    /// [`Component::prepare`]: crate::engine::Component::prepare
    fn prepare(&self, event: u32, stage: PrefetchStage) -> Option<Packet> {
        let _ = (event, stage);
        None
    }

    /// Whether packets may be handed over before their time, because no earlier event can change
    /// their departure. Each sender's packets must be in order of time.
    fn takes_ahead(&self) -> bool {
        false
    }

    /// Opens or closes a node's door. While it is closed, packets for the node wait in the network,
    /// as in front of an interface that stalls.
    fn set_open(&mut self, node: Node, open: bool, agenda: &mut Agenda<'_>) {
        let _ = (node, open, agenda);
    }

    /// The time during which each link has carried bytes so far, by the topology's link number.
    /// Empty without links.
    fn link_busy(&self) -> &[Time] {
        &[]
    }
}

/// The network's switches cannot copy packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this network cannot multicast: its topology or its model has no copying switches")]
pub struct NoMulticast;
