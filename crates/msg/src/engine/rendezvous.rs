//! Rendezvous: messages whose bytes move only when their receive has matched.
//!
//! ```text
//!   sender                                    receiver
//!   Announce ── RTS(total, request, address) ─► matched
//!   Announced                                   ├─ read its memory ────────── FIN ─► complete
//!      ▲  │ ◄──────── JOIN ─────────────────────├─ read it while it writes ─── FIN ─► complete
//!      │  │                                     └─ CTS(request, bytes wanted)
//!      │  └───────── CTS ─────────────► Stream      │
//!      │                                DATA ... ──► PartialMessage ─────► complete
//!      └─ CANCEL ► still unmatched? withdrawn, FIN(withdrawn)
//! ```
//!
//! If the memory can be reached, there are three ways ([`Way`]), and the receiver chooses. A sender
//! on another host may lend its memory to the fabric: the receiver's port may then fetch the bytes,
//! which land as those of a stream, and FIN follows the last.
//!
//! The address need not be right: if a read is refused, out of bounds or not possible on this
//! fabric, the receiver sends a CTS. After the kernel has refused once, no address of that source
//! is tried again (containers refuse every time).

use hikyaku_nic::fabric::{LentAddress, Port, PostError, Rank, RemoteAddress};
use hikyaku_nic::time::Time;

use super::Engine;
use crate::buffer::RecvBuffer;
use crate::error::MsgError;
use crate::late::is_late;
use crate::parcel::MessageParts;
use crate::protocol::{Control, DATA, MessageOutcome, ReadyToSend};
use crate::request::{Announced, PartialMessage, ReceiveStage, RequestId, SendStage, outcome};
use crate::tally::{WayReason, WayTally};
use crate::unexpected::{EntryBody, UnexpectedEntry};
use crate::ways::{LongMessages, MessageKind, Way};

/// Limit of one direct read. The kernel's own limit is just below 2 GiB.
const READ_BYTES: usize = 1 << 30;

impl<P: Port> Engine<P> {
    /// A receive has matched an announcement.
    pub(super) fn begin_rendezvous(
        &mut self,
        id: RequestId,
        source: Rank,
        bits: u64,
        rts: ReadyToSend,
    ) {
        let Some(receive) = self.requests.receive_mut(id) else { return };
        let room = receive.room;
        let want = rts.total.min(room as u64);
        let announced = Announced { source, bits, rts };
        if want > 0 && receive.buffer.is_none() {
            receive.stage = ReceiveStage::Announced(Box::new(announced));
            return;
        }
        if want == 0 {
            return self.finish_rendezvous(id, &announced, want);
        }
        // What is not in one piece is unpacked out of the ring.
        let is_scattered = receive.buffer.as_ref().is_some_and(RecvBuffer::is_scattered);
        if is_scattered && rts.lent.is_none() {
            self.tally().chose(want, Way::Ring, WayReason::Only);
            return self.clear(id, &announced, want, None);
        }
        let (way, why) = self.choose_way(source, &rts, want);
        let (kind, began) = (MessageKind::new(want, rts.address), self.port.now());
        self.say_if_late(source, &rts, began);
        if let Some(lent) = rts.lent
            && way != Way::Ring
            && self.fetch(id, &announced, (lent, want), (kind, way, began))
        {
            return self.tally().chose(want, Way::Read, why);
        }
        if way == Way::Both && rts.lent.is_none() && self.begin_joint(id, announced, want, began) {
            return self.tally().chose(want, Way::Both, why);
        }
        if way != Way::Ring && self.read_directly(id, source, &rts, want) {
            self.tally().chose(want, Way::Read, why);
            // Also if both ends were chosen and could not: that is what choosing them takes.
            self.note_way(source, kind, (way, Way::Read), began);
            return self.finish_rendezvous(id, &announced, want);
        }
        let why = if way == Way::Ring { why } else { WayReason::Only };
        self.tally().chose(want, Way::Ring, why);
        self.clear(id, &announced, want, (way == Way::Ring).then_some((kind, way, began)));
    }

    /// The way for a message, and why.
    fn choose_way(&mut self, source: Rank, rts: &ReadyToSend, want: u64) -> (Way, WayReason) {
        let state = &mut self.sources[source as usize];
        if rts.lent.is_none() && (rts.address.is_none() || state.read_refused) {
            return (Way::Ring, WayReason::Only);
        }
        if self.capabilities.virtual_time {
            // The same in each run.
            return (Way::Read, WayReason::Asked);
        }
        match self.config.long_messages {
            LongMessages::By(way) => (way, WayReason::Asked),
            LongMessages::Fastest => {
                let ways = state.ways.get_or_insert_default();
                ways.choose(MessageKind::new(want, rts.address), rts.trial, source < self.rank)
            }
        }
    }

    /// Tells the sender of a message that could have been in the ring for long.
    fn say_if_late(&mut self, source: Rank, rts: &ReadyToSend, now: Time) {
        let fits = rts.total <= self.config.eager_limit as u64;
        if rts.address.is_some() && fits && !self.capabilities.virtual_time {
            let last = self.sources[source as usize].ways.as_ref().map(|ways| ways.last());
            if is_late(rts.announced, rts.total, last.unwrap_or_default(), now) {
                self.post_control(source, Control::Late { sender: rts.request });
            }
        }
    }

    /// Handles a LATE. `false`: it is invalid.
    pub(super) fn came_late(&mut self, source: Rank, sender: u64) -> bool {
        let send = self.requests.send_mut(RequestId::from_word(sender));
        match send.filter(|send| send.destination == source).map(|send| send.stage) {
            Some(SendStage::Announced { .. }) => self.sources[source as usize].late.came_late(),
            Some(_) => return false,
            None => self.statistics.stray += 1,
        }
        true
    }

    /// Notes what a way has taken: the one that was chosen, and the one that was gone.
    pub(super) fn note_way(
        &mut self,
        source: Rank,
        kind: MessageKind,
        (chosen, gone): (Way, Way),
        began: Time,
    ) {
        let now = self.port.now();
        self.tally().took(kind.length, gone, now - began);
        if let Some(ways) = &mut self.sources[source as usize].ways {
            ways.note(kind, chosen, began, now);
        }
    }

    fn tally(&mut self) -> &mut WayTally {
        self.tally.get_or_insert_default()
    }

    /// Completes a receive whose wanted bytes are in its buffer: the sender has its memory back.
    pub(super) fn finish_rendezvous(&mut self, id: RequestId, announced: &Announced, want: u64) {
        let Announced { source, bits, rts } = *announced;
        let Some(room) = self.requests.receive_mut(id).map(|receive| receive.room) else { return };
        let finish = Control::Finish { sender: rts.request, outcome: MessageOutcome::Consumed };
        self.post_control(source, finish);
        self.statistics.received(want);
        self.requests.finish(id, outcome(source, bits, rts.total, room));
    }

    /// Asks the sender for a message's bytes.
    pub(super) fn clear(
        &mut self,
        id: RequestId,
        announced: &Announced,
        want: u64,
        began: Option<(MessageKind, Way, Time)>,
    ) {
        let Announced { source, rts, .. } = *announced;
        self.set_incoming(id, PartialMessage { began, ..streamed(announced, want) });
        let clear = Control::ClearToSend { sender: rts.request, receiver: id, want };
        self.post_control(source, clear);
    }

    /// Fetches the bytes that a sender on another host lends. They arrive as a stream does, and the
    /// sender has its memory back when all are here. `false`: that is not possible.
    fn fetch(
        &mut self,
        id: RequestId,
        announced: &Announced,
        (lent, want): (LentAddress, u64),
        began: (MessageKind, Way, Time),
    ) -> bool {
        let Announced { source, rts, .. } = *announced;
        if !self.port.fetch_lent((source, lent), want, (DATA, id.word())) {
            return false;
        }
        self.statistics.direct_reads += 1;
        let (lender, began) = (Some(rts.request), Some(began));
        self.set_incoming(id, PartialMessage { lender, began, ..streamed(announced, want) });
        true
    }

    /// Copies the first `want` bytes from the sender's memory, if that can be reached.
    fn read_directly(&mut self, id: RequestId, source: Rank, rts: &ReadyToSend, want: u64) -> bool {
        let Some((space, start)) = rts.address else { return false };
        if self.sources[source as usize].read_refused {
            return false;
        }
        let Some(buffer) = self.requests.receive_mut(id).and_then(|r| r.buffer.as_mut()) else {
            return false;
        };
        let Some(room) = buffer.whole() else { return false };
        let length = usize::try_from(want).map_or(room.len(), |want| want.min(room.len()));
        let mut offset = start;
        for chunk in room[..length].chunks_mut(READ_BYTES) {
            let from = RemoteAddress { rank: source, space, offset };
            if let Err(error) = self.port.read(from, chunk) {
                self.note_refusal(source, error);
                return false;
            }
            offset = offset.wrapping_add(chunk.len() as u64);
        }
        self.statistics.direct_reads += 1;
        true
    }

    /// A read of a source's memory was refused.
    pub(super) fn note_refusal(&mut self, source: Rank, error: PostError) {
        let for_good = matches!(error, PostError::Refused { .. } | PostError::Unsupported(_));
        self.sources[source as usize].read_refused |= for_good;
        self.statistics.refused_reads += 1;
    }

    /// Handles a CTS: streams the bytes that the receiver wants. `false`: it is invalid.
    pub(super) fn cleared(&mut self, source: Rank, sender: u64, receiver: u64, want: u64) -> bool {
        let id = RequestId::from_word(sender);
        let send = self.requests.send_mut(id).filter(|send| {
            send.destination == source && matches!(send.stage, SendStage::Announced { .. })
        });
        let Some(send) = send else {
            // The request was abandoned: inform the receiver, which waits for its bytes.
            self.statistics.stray += 1;
            self.post_control(source, Control::Abort { receiver });
            return true;
        };
        if want == 0 || want > send.total {
            return false;
        }
        if send.abandoned {
            self.forget(id);
            self.post_control(source, Control::Abort { receiver });
            return true;
        }
        send.stage = SendStage::Stream { receiver, sent: 0, want };
        self.sources[source as usize].late.reads();
        self.take_back(id);
        self.outbox.lane(source).streams.push_back(id);
        self.pump_lane(source);
        true
    }

    /// Handles a FIN: the message is finished. `false`: it is invalid.
    pub(super) fn finished(&mut self, source: Rank, sender: u64, outcome: MessageOutcome) -> bool {
        let id = RequestId::from_word(sender);
        let send = self.requests.send_mut(id).filter(|send| send.destination == source);
        let Some(send) = send else {
            self.statistics.stray += 1;
            return true;
        };
        match (send.stage, outcome) {
            (SendStage::Announced { .. }, MessageOutcome::Consumed) => {
                self.sources[source as usize].late.reads();
                self.finish_send(id);
            }
            (SendStage::Announced { cancelling: true }, MessageOutcome::Withdrawn) => {
                self.take_back(id);
                self.requests.finish(id, Err(MsgError::Cancelled));
            }
            _ => return false,
        }
        true
    }

    /// Handles a CANCEL: removes the announcement if it is unmatched. Otherwise its CTS or FIN is
    /// in flight to the sender and answers it.
    pub(super) fn withdraw(&mut self, source: Rank, sender: u64) {
        if self.drop_unexpected(source, |entry| !announces(entry, sender)) > 0 {
            let finish = Control::Finish { sender, outcome: MessageOutcome::Withdrawn };
            self.post_control(source, finish);
        }
    }

    /// Handles an ABORT: the rest of a message that this rank cleared does not come.
    pub(super) fn aborted(&mut self, source: Rank, receiver: u64) {
        let id = RequestId::from_word(receiver);
        let stage = self.requests.receive_mut(id).map(|receive| &receive.stage);
        match stage {
            Some(ReceiveStage::Incoming(i)) if i.streamed && i.source == source => {
                let tag = crate::envelope::tag_of(i.bits);
                self.fail(id, MsgError::Abandoned { source_rank: source, tag });
            }
            _ => self.statistics.stray += 1,
        }
    }
}

/// A message of which nothing has arrived, and whose parts will name its request.
fn streamed(announced: &Announced, want: u64) -> PartialMessage {
    PartialMessage {
        source: announced.source,
        bits: announced.bits,
        total: announced.rts.total,
        expected: want,
        arrived: 0,
        copied: 0,
        streamed: true,
        lender: None,
        began: None,
        parts: MessageParts::default(),
    }
}

/// Whether an unexpected message is the announcement of this request of its sender.
pub(super) fn announces(entry: &UnexpectedEntry, sender: u64) -> bool {
    matches!(&entry.body, EntryBody::Announced(rts) if rts.request == sender)
}
