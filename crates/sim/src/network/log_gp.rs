//! LogGP: latency, gaps at both ends, no contention in between (Alexandrov et al., SPAA 1995).
//!
//! ```text
//!   sender's wire    |<- g or (k-1)G ->|<- next message
//!                    \                  \
//!                     \  L               \  L
//!   receiver's wire    |<--- (k-1)G ----->| delivered
//! ```
//!
//! The model is for large runs: a message costs one event. Each end moves one message at a time,
//! which is exact, so fan-in and fan-out take their time. The path between the ends is not
//! modelled. `o`, the processor's part, belongs to the host and not to the network.
//!
//! Messages of a fan-in are served in the order in which each would have arrived alone.

use hikyaku_nic::sync::prefetch_for_write;
use hikyaku_nic::time::Time;

use super::rate::Rate;
use super::{Agenda, NetworkModel, NetworkOutcome, Packet};
use crate::engine::PrefetchStage;
use crate::slab::Slab;

/// The parameters, with the names of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogGpParameters {
    /// L: the latency of the network, from the first byte's departure to its arrival.
    pub latency: Time,
    /// g: the minimum time between two messages at one end.
    pub gap: Time,
    /// 1/G: the rate at which a long message's bytes leave and arrive.
    pub rate: Rate,
}

/// Nodes joined by an ideal network.
#[derive(Debug)]
pub struct LogGp {
    parameters: LogGpParameters,
    ends: Vec<NodeWires>,
    in_flight: Slab<LogGpMessage>,
}

/// A node's two wires.
#[derive(Debug, Clone, Copy, Default)]
struct NodeWires {
    /// The time when the next message may start to leave.
    out_free: Time,
    /// The time when the next message may start to arrive.
    in_free: Time,
}

/// A message in flight. Half a cache line, and never across two lines.
#[derive(Debug)]
#[repr(align(32))]
struct LogGpMessage {
    packet: Packet,
    /// Whether the receiver is serving it: it is delivered at its event.
    served: bool,
}

impl LogGp {
    /// `nodes` nodes.
    pub fn new(nodes: u32, parameters: LogGpParameters) -> LogGp {
        let ends = vec![NodeWires::default(); nodes as usize];
        LogGp { parameters, ends, in_flight: Slab::default() }
    }

    /// The time of the bytes after the first.
    fn length(&self, packet: &Packet) -> Time {
        self.parameters.rate.time(packet.bytes.saturating_sub(1))
    }
}

impl NetworkModel for LogGp {
    fn nodes(&self) -> u32 {
        self.ends.len() as u32
    }

    fn send(&mut self, packet: Packet, at: Time, agenda: &mut Agenda<'_>) -> Option<Time> {
        let length = self.length(&packet);
        let source = &mut self.ends[packet.source as usize];
        let start = at.max(source.out_free);
        source.out_free = start + length.max(self.parameters.gap);
        let flight = self.in_flight.insert(LogGpMessage { packet, served: false });
        agenda.schedule(start + self.parameters.latency + length, flight);
        Some(start + length)
    }

    /// At this event the last byte of a message arrives if there is no contention. With contention
    /// it arrives later.
    fn handle(&mut self, event: u32, agenda: &mut Agenda<'_>) {
        let LogGpMessage { packet, served } = self.in_flight[event];
        if !served {
            let length = self.length(&packet);
            let end = &mut self.ends[packet.destination as usize];
            let first_byte = agenda.now() - length;
            let start = first_byte.max(end.in_free);
            end.in_free = start + length.max(self.parameters.gap);
            if start > first_byte {
                self.in_flight[event].served = true;
                agenda.schedule(start + length, event);
                return;
            }
        }
        self.in_flight.remove(event);
        agenda.report(NetworkOutcome::Delivered(packet));
    }

    fn prepare(&self, event: u32, stage: PrefetchStage) -> Option<Packet> {
        if stage == PrefetchStage::First {
            self.in_flight.prepare(event);
            return None;
        }
        let packet = self.in_flight.get(event)?.packet;
        if stage == PrefetchStage::Second {
            prefetch_for_write(&raw const self.ends[packet.destination as usize]);
        }
        Some(packet)
    }

    fn takes_ahead(&self) -> bool {
        true
    }
}
