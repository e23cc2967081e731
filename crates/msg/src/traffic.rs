//! The messages that an engine has sent, by receiver, for a trace ([`hikyaku_nic::plan`]).

use hikyaku_nic::fabric::{Command, INLINE_BYTES, Rank};
use hikyaku_nic::plan::{SentRows, TrafficKind};
use hikyaku_nic::ring::span_of;

use crate::envelope::context_of;

/// Counts by destination and kind. Exists only while a trace is made.
#[derive(Debug)]
pub(crate) struct TrafficCounts {
    sent: SentRows,
    /// Payload bytes of a packet.
    packet_bytes: usize,
    /// The kind of traffic in a context.
    kind: fn(u32) -> TrafficKind,
}

impl TrafficCounts {
    pub(crate) fn new(packet_bytes: usize, kind: fn(u32) -> TrafficKind) -> TrafficCounts {
        TrafficCounts { sent: SentRows::default(), packet_bytes: packet_bytes.max(1), kind }
    }

    pub(crate) fn sent(&self) -> &SentRows {
        &self.sent
    }

    /// Counts a whole message; `bits` are its match bits.
    pub(crate) fn sent_to(&mut self, destination: Rank, bits: u64, bytes: u64) {
        let flow = self.sent.to(destination, (self.kind)(context_of(bits)));
        flow.messages += 1;
        flow.bytes += bytes;
    }

    /// Counts a message that found no room at once.
    pub(crate) fn held_up(&mut self, destination: Rank, bits: u64) {
        self.sent.to(destination, (self.kind)(context_of(bits))).held_up += 1;
    }

    /// Counts the packets of a post of which `taken` bytes were accepted. A short message uses no
    /// ring:
    /// it is in its status record.
    pub(crate) fn landed(&mut self, command: &Command<'_>, bits: u64, taken: usize) {
        if command.total <= INLINE_BYTES as u64 {
            return;
        }
        let (whole, rest) = (taken / self.packet_bytes, taken % self.packet_bytes);
        let flow = self.sent.to(command.destination, (self.kind)(context_of(bits)));
        flow.packets += whole as u64 + u64::from(rest > 0);
        flow.ring_bytes += whole as u64 * span_of(self.packet_bytes as u64) + span_of(rest as u64);
    }
}
