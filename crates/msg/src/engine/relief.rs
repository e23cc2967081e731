//! Relief: how a blocked rank avoids causing its own wait.
//!
//! Unmatched messages stay in their landing ring and hold their credit: that slows a fast sender
//! and keeps memory use constant. But this rank may wait for a message that its source cannot send,
//! because messages that this rank receives only later use up the ring or the credit. Only then are
//! that source's messages moved to ordinary memory, and it is granted another window, up to
//! [`EngineConfig::unmatched_bytes`] at this rank. Beyond that, sources have to wait, and the
//! announcement of this rank's wait says why.
//!
//! A message of up to the eager limit may be announced as well, because one copy out of its
//! sender's memory is faster than two through the ring. Its sender waits until it is read. To keep
//! that wait short, a rank reads the message into ordinary memory, within the same limit, if it has
//! waited for something else for so long that the matching receive is not about to be posted. Read
//! at once, 64 KiB round a ring of four ranks on two cores took 32 us instead of 21: neighbours are
//! a step ahead.
//!
//! [`EngineConfig::unmatched_bytes`]: crate::EngineConfig::unmatched_bytes

use hikyaku_nic::fabric::{CopyPort, Rank, RingId, Unmatched};

use super::Engine;
use super::rendezvous::read_out_of;
use crate::envelope::Selector;
use crate::error::MsgError;
use crate::protocol::ReadyToSend;
use crate::request::{ReceiveStage, RequestId, RequestState, SendStage};
use crate::statistics::Statistics;
use crate::tally::WayReason;
use crate::unexpected::EntryBody;
use crate::ways::Way;

/// Approximate overhead of an evacuated message beside its own bytes.
const MESSAGE_BYTES: u64 = 128;

impl<P: CopyPort> Engine<P> {
    /// Helps the waiting sources that a pending receive or a probe needs. Returns whether there was
    /// anything to do.
    pub(super) fn relieve(&mut self, probing: Option<&Selector>) -> bool {
        self.needs_more = false;
        if !self.holds_up_somebody() {
            return false;
        }
        let mut any = false;
        for at in 0..self.held_up.len() {
            let source = self.held_up[at];
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

    /// Whether a source is marked as held up.
    pub(super) fn holds_up_somebody(&mut self) -> bool {
        let sources = &mut self.sources;
        self.held_up.retain(|source| sources[*source as usize].held_up);
        let mut is_news = false;
        while let Some(source) = self.port.held_up() {
            is_news = true;
            if !std::mem::replace(&mut sources[source as usize].held_up, true) {
                self.held_up.push(source);
            }
        }
        if is_news {
            // Messages that the source sent before it had to wait arrive now: all of them, even
            // more than one poll takes. A later message shows that the source continues, and clears
            // the mark (`note_credited`); nothing would set it again for a source that still waits.
            while self.progress() {}
            self.held_up.iter().for_each(|at| self.sources[*at as usize].held_up = true);
        }
        !self.held_up.is_empty()
    }

    /// Whether a pending receive or a probe may take a message of this source.
    fn needs(&self, source: Rank, probing: Option<&Selector>) -> bool {
        let probed = probing.is_some_and(|selector| selector.source.is_none_or(|s| s == source));
        probed
            || self.posted.wants(source)
            || self.requests.iter().any(|(_, request)| match request {
                RequestState::Receive(receive) => match &receive.stage {
                    ReceiveStage::Incoming(incoming) => incoming.source == source,
                    _ => false,
                },
                _ => false,
            })
    }

    /// Whether the evacuated messages have reached the limit. The announcement of this rank's wait
    /// then says so.
    fn has_met_limit(&mut self) -> bool {
        let Unmatched { messages, bytes } = self.unexpected.evacuated();
        let is_met = bytes + messages * MESSAGE_BYTES >= self.config.unmatched_bytes;
        if is_met {
            let Statistics { unexpected_messages, unexpected_bytes, .. } = self.statistics;
            self.at_limit =
                Some(Unmatched { messages: unexpected_messages, bytes: unexpected_bytes });
        }
        is_met
    }

    /// Reads announced messages whose senders need no matching receive into ordinary memory.
    /// Returns whether there were any.
    pub(super) fn read_early(&mut self) -> bool {
        let mut any = false;
        while let Some(source) = self.announcers.last().copied() {
            if self.has_met_limit() {
                break;
            }
            let Engine { unexpected, port, config, .. } = self;
            let longest = config.eager_limit as u64;
            let read = |address, into: &mut [u8]| read_out_of(port, source, address, into);
            match unexpected.bring_early(source, longest, read) {
                None => _ = self.announcers.pop(),
                Some(Err(error)) => self.note_refusal(source, error),
                Some(Ok(rts)) => {
                    any = true;
                    self.note_early(source, &rts);
                }
            }
        }
        any
    }

    /// An announced message of this source was read into ordinary memory.
    fn note_early(&mut self, source: Rank, rts: &ReadyToSend) {
        self.post_consumed(source, rts.request);
        self.statistics.unexpected_more(0, rts.total);
        self.statistics.evacuations += 1;
        self.statistics.evacuated_bytes += rts.total;
        self.statistics.direct_reads += 1;
        self.tally().chose(rts.total, Way::Read, WayReason::Early);
        // It arrived before its receive: through the ring it would not have held up its sender.
        self.came_late_to(source, self.kind_of(rts, rts.total));
    }

    /// Moves the contents of a source's ring, including other sources' messages in it, to ordinary
    /// memory, and grants the source another window, within the limit.
    fn evacuate(&mut self, source: Rank) -> bool {
        if self.has_met_limit() {
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

    /// Moves the contents of the ring in which a source waits to ordinary memory. Returns the
    /// number of bytes.
    fn empty_ring_of(&mut self, source: Rank) -> u64 {
        let ring = self.port.awaited_ring(source);
        let mut bytes = 0;
        for other in 0..self.size() {
            if other == source || (ring.is_some() && self.port.route_of(other) == ring) {
                bytes += self.copy_out_of_rings(other, None);
            } else if self.moves_rings && ring.is_some() {
                bytes += self.copy_out_of_rings(other, ring);
            }
        }
        bytes
    }

    /// From now on sources are redirected to other rings, or name the ring: their messages in rings
    /// that the table does not name may hold up others.
    pub fn begin_moving_rings(&mut self) {
        self.moves_rings = true;
    }

    /// Moves the messages of one source in one ring, or in any, to ordinary memory. Returns the
    /// number of bytes.
    fn copy_out_of_rings(&mut self, source: Rank, from: Option<RingId>) -> u64 {
        let mut bytes = match from {
            None => self.unexpected.evacuate(source, &mut self.port),
            Some(ring) => self.unexpected.evacuate_from(source, ring, &mut self.port),
        };
        for request in self.requests.values_mut() {
            if let RequestState::Receive(receive) = request
                && let ReceiveStage::Incoming(incoming) = &mut receive.stage
                && incoming.source == source
            {
                bytes += incoming.parts.evacuate(from, &mut self.port);
            }
        }
        bytes
    }

    /// Whether only this rank itself could complete a request: a send to itself, or a receive from
    /// itself with nothing in flight.
    pub(super) fn depends_on_self(&self, id: RequestId) -> bool {
        match self.requests.get(id) {
            Some(RequestState::Send(send)) => send.destination == self.rank,
            Some(RequestState::Receive(receive)) => {
                let matched = receive.stage.matched().map(|(source, _)| source);
                let own = match matched.or(receive.selector.source) {
                    Some(source) => source == self.rank,
                    None => self.is_alone_in(receive.selector.context),
                };
                own && self.outbox.is_empty_to(self.rank)
            }
            _ => false,
        }
    }

    /// Moves messages out of the own ring if this rank waits for room there: no other rank makes
    /// it.
    pub(super) fn make_room_to_itself(&mut self) -> bool {
        !self.outbox.is_empty_to(self.rank) && self.empty_ring_of(self.rank) > 0
    }

    fn is_alone_in(&self, context: u32) -> bool {
        self.groups.get(&context).map_or(self.size(), |members| members.size()) == 1
    }

    /// Makes room for a message to this rank in its own ring, or ends its request with
    /// [`MsgError::WaitsForItself`]. So only credit limits eager messages, as between two ranks.
    pub(super) fn relieve_self(&mut self, id: RequestId) {
        let eager = match self.requests.get(id) {
            Some(RequestState::Send(send)) => matches!(send.stage, SendStage::Eager { .. }),
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
