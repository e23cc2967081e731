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
//! If the receiver can access the memory, it chooses one of three ways ([`Way`]). A sender on
//! another host may lend its memory to the fabric: the receiver's port may then fetch the bytes,
//! which land like those of a stream, and FIN follows the last.
//!
//! The address need not be valid: if a read is refused, out of bounds or not possible on this
//! fabric, the receiver sends a CTS. After the kernel has refused once, no address of that source
//! is tried again (containers refuse every time). A sender that abandons a message marks its memory
//! as revoked until the receiver has answered: what is read meanwhile does not count.

use hikyaku_nic::fabric::{CopyPort, LentAddress, PostError, Rank, RemoteAddress, Space};
use hikyaku_nic::time::Time;

use super::Engine;
use crate::buffer::RecvBuffer;
use crate::error::MsgError;
use crate::late::is_late;
use crate::protocol::{Control, DATA, MessageOutcome, ReadyToSend, decode_put_next};
use crate::request::{Announced, PartialMessage, ReceiveStage, RequestId, SendStage, outcome};
use crate::tally::{WayReason, WayTally};
use crate::unexpected::{EntryBody, UnexpectedEntry};
use crate::ways::{LongMessages, MessageKind, Way};

/// Limit of one direct read. The kernel's own limit is just below 2 GiB.
const READ_BYTES: usize = 1 << 30;

impl<P: CopyPort> Engine<P> {
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
        // A scattered receive is unpacked out of the ring.
        let is_scattered = receive.buffer.as_ref().is_some_and(RecvBuffer::is_scattered);
        if is_scattered && rts.lent.is_none() {
            self.tally().chose(want, Way::Ring, WayReason::Only);
            return self.clear(id, &announced, want, None);
        }
        let (way, why) = self.choose_way(source, &rts, want);
        let (kind, began) = (self.kind_of(&rts, want), self.port.now());
        self.ask_for_puts(source, &rts, (kind, way), began);
        // A message that should be put was announced this time: so it streams, and counts as a put.
        let is_ring = matches!(way, Way::Ring | Way::Put);
        if let Some(lent) = rts.lent
            && !is_ring
            && self.fetch(id, &announced, (lent, want), (kind, way, began))
        {
            return self.tally().chose(want, Way::Read, why);
        }
        if way == Way::Both && rts.lent.is_none() && self.begin_joint(id, announced, want, began) {
            return self.tally().chose(want, Way::Both, why);
        }
        if !is_ring && self.read_directly(id, source, &rts, want) {
            self.tally().chose(want, Way::Read, why);
            // Also if a joint copy was chosen and was not possible: that is the cost of choosing
            // it.
            self.note_way(source, kind, (way, Way::Read), began);
            return self.finish_rendezvous(id, &announced, want);
        }
        let why = if is_ring { why } else { WayReason::Only };
        self.tally().chose(want, Way::Ring, why);
        self.clear(id, &announced, want, is_ring.then_some((kind, way, began)));
    }

    /// The way for a message, and why.
    fn choose_way(&mut self, source: Rank, rts: &ReadyToSend, want: u64) -> (Way, WayReason) {
        let state = &mut self.sources[source as usize];
        if rts.lent.is_none() && (rts.address.is_none() || state.read_refused) {
            return (Way::Ring, WayReason::Only);
        }
        if self.capabilities.virtual_time {
            // The same choice in every run.
            return (Way::Read, WayReason::Asked);
        }
        match self.config.long_messages {
            LongMessages::By(way) => (way, WayReason::Asked),
            LongMessages::Fastest => {
                let kind = self.kind_of(rts, want);
                let ways = self.sources[source as usize].ways.get_or_insert_default();
                ways.choose(kind, rts.trial, source < self.rank)
            }
        }
    }

    /// The kind of an announced message of which this rank takes `want` bytes.
    pub(super) fn kind_of(&self, rts: &ReadyToSend, want: u64) -> MessageKind {
        let is_eager = rts.lent.is_none() && rts.total <= self.config.eager_limit as u64;
        MessageKind::new(want, rts.address, is_eager)
    }

    /// Asks the sender of a message to put the next ones, if that is the chosen way or if this
    /// message could have been in the ring long ago.
    fn ask_for_puts(
        &mut self,
        source: Rank,
        rts: &ReadyToSend,
        (kind, way): (MessageKind, Way),
        now: Time,
    ) {
        let state = &self.sources[source as usize];
        // Ways are compared in real time only, unless the configuration asks for one.
        let (Some(ways), true) = (&state.ways, kind.is_eager && rts.address.is_some()) else {
            return;
        };
        let is_late = is_late(rts.announced, rts.total, ways.last(), now);
        let is_late = self.is_late_often(source, is_late);
        if way == Way::Put || is_late {
            self.post_put_next(source, kind);
        }
    }

    /// An announced message of this kind arrived before its receive. If that is frequent, asks the
    /// sender to put the next ones.
    pub(super) fn came_late_to(&mut self, source: Rank, kind: MessageKind) {
        let chooses = self.config.long_messages == LongMessages::Fastest;
        if chooses && !self.capabilities.virtual_time && self.is_late_often(source, true) {
            self.post_put_next(source, kind);
        }
    }

    /// Accounts for a message that this rank reads late or in time. Returns whether the next ones
    /// are better put.
    ///
    /// Where ranks share processors, a rank is late because others run, and the second copy of a
    /// put takes their time. 8 ranks on 2 cores, exchanges with two neighbours of 64 KiB: 120 to
    /// 155 us with puts, 100 to 107 without (a Xeon, beside other work); gathers 83 to 94, now 61
    /// to 66.
    fn is_late_often(&mut self, source: Rank, is_late: bool) -> bool {
        !self.port.is_crowded() && self.sources[source as usize].late.read(is_late)
    }

    fn post_put_next(&mut self, source: Rank, kind: MessageKind) {
        let ways = self.sources[source as usize].ways.get_or_insert_default();
        let messages = ways.puts(kind);
        self.post_control(source, Control::PutNext { kind: kind.word(), messages });
    }

    /// Handles a PUT_NEXT. `false`: it is invalid.
    pub(super) fn asked_for_puts(&mut self, source: Rank, header: u64) -> bool {
        let (kind, messages) = decode_put_next(header);
        self.sources[source as usize].ways.get_or_insert_default().put_next(kind, messages)
    }

    /// Starts to take a message that was put into its receive's memory: counts it, and returns the
    /// start time if it is to be timed.
    #[inline]
    pub(super) fn begin_put(
        &mut self,
        source: Rank,
        kind: Option<MessageKind>,
    ) -> Option<(MessageKind, Way, Time)> {
        kind.and_then(|kind| self.count_put(source, kind))
    }

    #[inline(never)]
    fn count_put(&mut self, source: Rank, kind: MessageKind) -> Option<(MessageKind, Way, Time)> {
        let (why, is_timed) = match self.config.long_messages {
            LongMessages::By(_) => (WayReason::Asked, true),
            LongMessages::Fastest => {
                self.sources[source as usize].ways.get_or_insert_default().begin_put(kind)
            }
        };
        self.tally().chose(kind.length, Way::Put, why);
        is_timed.then(|| (kind, Way::Put, self.port.now()))
    }

    /// Records the time of a message, for the way that was chosen and the way that was taken.
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

    pub(super) fn tally(&mut self) -> &mut WayTally {
        self.tally.get_or_insert_default()
    }

    /// Completes a receive whose wanted bytes are in its buffer, and returns the sender's memory.
    pub(super) fn finish_rendezvous(&mut self, id: RequestId, announced: &Announced, want: u64) {
        let Announced { source, bits, rts } = *announced;
        let Some(room) = self.requests.receive_mut(id).map(|receive| receive.room) else { return };
        self.post_consumed(source, rts.request);
        self.statistics.received(want);
        self.requests.finish(id, outcome(source, bits, rts.total, room));
    }

    /// Tells the sender of an announced message that its memory is no longer needed.
    pub(super) fn post_consumed(&mut self, source: Rank, sender: u64) {
        let outcome = MessageOutcome::Consumed;
        self.post_control(source, Control::Finish { sender, outcome });
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

    /// Fetches the bytes that a sender on another host lends. They arrive like a stream, and the
    /// sender gets its memory back when all have arrived. `false`: that is not possible.
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

    /// Copies the first `want` bytes from the sender's memory, if it can be reached.
    fn read_directly(&mut self, id: RequestId, source: Rank, rts: &ReadyToSend, want: u64) -> bool {
        let Some(address) = rts.address else { return false };
        if self.sources[source as usize].read_refused {
            return false;
        }
        let Some(buffer) = self.requests.receive_mut(id).and_then(|r| r.buffer.as_mut()) else {
            return false;
        };
        let Some(room) = buffer.whole() else { return false };
        let length = usize::try_from(want).map_or(room.len(), |want| want.min(room.len()));
        if let Err(error) = read_out_of(&mut self.port, source, address, &mut room[..length]) {
            self.note_refusal(source, error);
            return false;
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
            // The request was abandoned: tell the receiver, which waits for its bytes.
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
            self.restore();
            return true;
        }
        send.stage = SendStage::Stream { receiver, sent: 0, want };
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
            (SendStage::Announced { .. }, MessageOutcome::Consumed) => self.finish_send(id),
            (SendStage::Announced { cancelling: true }, MessageOutcome::Withdrawn) => {
                self.take_back(id);
                self.requests.finish(id, Err(MsgError::Cancelled));
            }
            _ => return false,
        }
        self.restore();
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

    /// Handles an ABORT: the rest of a message that this rank cleared will not arrive.
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

/// Fills a buffer from an address in another rank's memory.
pub(super) fn read_out_of(
    port: &mut impl CopyPort,
    rank: Rank,
    (space, start): (Space, u64),
    into: &mut [u8],
) -> Result<(), PostError> {
    let mut offset = start;
    for chunk in into.chunks_mut(READ_BYTES) {
        port.read(RemoteAddress { rank, space, offset }, chunk)?;
        offset = offset.wrapping_add(chunk.len() as u64);
    }
    check_revoked(port, rank, start, into.len())
}

/// Checks that bytes which were read of a rank are those that it has announced. If it has abandoned
/// any announced message, its receivers ask for theirs instead: a CTS finds that message or not.
pub(super) fn check_revoked(
    port: &impl CopyPort,
    rank: Rank,
    offset: u64,
    length: usize,
) -> Result<(), PostError> {
    let outside = PostError::OutOfBounds { rank, offset, length: length as u64 };
    if port.has_revoked(rank) { Err(outside) } else { Ok(()) }
}

/// A message of which nothing has arrived, and whose parts will name its request.
fn streamed(announced: &Announced, want: u64) -> PartialMessage {
    let Announced { source, bits, .. } = *announced;
    let none = PartialMessage::eager((source, bits), (0, announced.rts.total), Default::default());
    PartialMessage { expected: want, streamed: true, ..none }
}

/// Whether an unexpected message is the announcement of this request of its sender.
pub(super) fn announces(entry: &UnexpectedEntry, sender: u64) -> bool {
    matches!(&entry.body, EntryBody::Announced(rts) if rts.request == sender)
}
