//! What a blocked rank does so that it is not the cause of its own waiting.
//!
//! Unmatched messages stay in their landing ring and hold their credit: that slows a fast sender
//! and keeps memory flat. But when this rank waits for a message that its source cannot send,
//! because the ring or the credit is used up by messages that this rank will only receive later,
//! somebody has to give. Then, and only then, that source's messages are moved to ordinary memory
//! and it is granted another window: up to [`EngineConfig::unmatched_bytes`] at this rank. From
//! there on sources stay held up, and the wait's announcement says why.
//!
//! [`EngineConfig::unmatched_bytes`]: crate::EngineConfig::unmatched_bytes

use hikyaku_nic::fabric::{Port, Rank, Unmatched};

use super::Engine;
use crate::envelope::Selector;
use crate::error::MsgError;
use crate::request::{ReceiveStage, Request, RequestId, SendStage};
use crate::statistics::Statistics;
use crate::unexpected::EntryBody;

/// What an evacuated message takes beside its own bytes, about.
const MESSAGE_BYTES: u64 = 128;

impl<P: Port> Engine<P> {
    /// Helps the sources that are held up and needed by a pending receive or by a probe; says
    /// whether there was anything to do.
    pub(super) fn relieve(&mut self, probing: Option<&Selector>) -> bool {
        let mut held_up = false;
        for source in 0..self.size() {
            let now = self.port.held_up(source);
            let state = &mut self.sources[source as usize];
            state.held_up |= now;
            held_up |= state.held_up;
        }
        if !held_up {
            return false;
        }
        // What it sent before it was held up comes in now. Anything later says that it goes on,
        // and clears the mark (`note_credited`).
        let marks: Vec<Rank> =
            (0..self.size()).filter(|rank| self.sources[*rank as usize].held_up).collect();
        self.progress();
        let mut any = false;
        for source in marks {
            self.sources[source as usize].held_up = true;
            if let Some(grant) = self.sources[source as usize].credit.settle() {
                self.port.grant(source, grant);
                any = true;
            }
            if self.needs(source, probing) {
                any |= self.evacuate(source);
            }
        }
        any
    }

    /// Whether a pending receive or a probe may take a message of this source.
    fn needs(&self, source: Rank, probing: Option<&Selector>) -> bool {
        let probed = probing.is_some_and(|selector| selector.source.is_none_or(|s| s == source));
        probed
            || self.posted.wants(source)
            || self.requests.iter().any(|(_, request)| match request {
                Request::Receive(receive) => match &receive.stage {
                    ReceiveStage::Incoming(incoming) => incoming.source == source,
                    _ => false,
                },
                _ => false,
            })
    }

    /// Moves what lies in the ring of a source, its own messages and those of the sources it
    /// shares the ring with, to ordinary memory, and grants it another window; not beyond the
    /// limit.
    fn evacuate(&mut self, source: Rank) -> bool {
        let Unmatched { messages, bytes } = self.unexpected.evacuated();
        if bytes + messages * MESSAGE_BYTES >= self.config.unmatched_bytes {
            let Statistics { unexpected_messages, unexpected_bytes, .. } = self.statistics;
            self.at_limit =
                Some(Unmatched { messages: unexpected_messages, bytes: unexpected_bytes });
            return false;
        }
        let grant = self.sources[source as usize].credit.extend();
        if let Some(grant) = grant {
            self.port.grant(source, grant);
        }
        let bytes = self.empty_ring_of(source);
        if grant.is_none() && bytes == 0 {
            return false;
        }
        self.statistics.evacuations += 1;
        self.statistics.evacuated_bytes += bytes;
        true
    }

    /// Moves what lies in the ring of a source to ordinary memory; says how many bytes.
    fn empty_ring_of(&mut self, source: Rank) -> u64 {
        let ring = self.port.route_of(source);
        let shares = |engine: &Engine<P>, other: Rank| {
            other == source || (ring.is_some() && engine.port.route_of(other) == ring)
        };
        let mut bytes = 0;
        for other in 0..self.size() {
            if shares(self, other) {
                bytes += self.copy_out_of_ring(other);
            }
        }
        bytes
    }

    /// Moves what one source has in its ring to ordinary memory; says how many bytes.
    fn copy_out_of_ring(&mut self, source: Rank) -> u64 {
        let mut bytes = self.unexpected.evacuate(source, &mut self.port);
        for request in self.requests.values_mut() {
            if let Request::Receive(receive) = request
                && let ReceiveStage::Incoming(incoming) = &mut receive.stage
                && incoming.source == source
            {
                bytes += incoming.parts.evacuate(&mut self.port);
            }
        }
        bytes
    }

    /// Whether only this rank itself could complete a request: a send to itself, or a receive from
    /// itself with nothing on the way.
    pub(super) fn is_up_to_us(&self, id: RequestId) -> bool {
        let alone = self.size() == 1;
        match self.requests.get(id) {
            Some(Request::Send(send)) => send.destination == self.rank,
            Some(Request::Receive(receive)) => {
                let own = match &receive.stage {
                    ReceiveStage::Posted => match receive.selector.source {
                        Some(source) => source == self.rank,
                        None => alone,
                    },
                    ReceiveStage::Announced(announced) => announced.source == self.rank,
                    ReceiveStage::Incoming(incoming) => incoming.source == self.rank,
                };
                own && self.outbox.is_empty_to(self.rank)
            }
            _ => false,
        }
    }

    /// Makes room for a message to ourselves in our own ring, or ends its request with
    /// [`MsgError::WaitsForItself`]. Eager messages are thus bounded by the credit and by nothing
    /// else, as they are between two ranks.
    pub(super) fn give_up_on_ourselves(&mut self, id: RequestId) {
        let eager = match self.requests.get(id) {
            Some(Request::Send(send)) => matches!(send.stage, SendStage::Eager { .. }),
            _ => false,
        };
        if eager && self.empty_ring_of(self.rank) > 0 {
            self.progress();
            return;
        }
        self.drop_unexpected(self.rank, |entry| match &entry.body {
            EntryBody::Announced(rts) => rts.request != id.word(),
            EntryBody::Eager { .. } => true,
        });
        self.fail(id, MsgError::WaitsForItself { rank: self.rank });
    }
}
