//! Arrival: events of the port are matched, and messages assembled from their parts.
//!
//! A packet was written by a peer. Its source, length, offset and every request it names are
//! checked; an invalid one is dropped and counted, and its ring bytes released.

use hikyaku_nic::fabric::{CopyPort, Event, INLINE_BYTES, Landed, Landing, Rank};

use super::{Engine, PartTarget};
use crate::error::MsgError;
use crate::parcel::{MessagePart, MessageParts};
use crate::protocol::{
    ABORT, CANCEL, CTS, DATA, EAGER_READY, FIN, JOIN, NOTE, NOTE_PART, PUT_NEXT, RTS, ReadyToSend,
    decode_clear_to_send, decode_finish, decode_join, is_eager, put_kind,
};
use crate::request::{PartialMessage, Receive, ReceiveStage, RequestId, outcome};
use crate::unexpected::{EntryBody, Grown, UnexpectedEntry};

impl<P: CopyPort> Engine<P> {
    /// Handles one event.
    #[inline(always)]
    pub(super) fn handle(&mut self, event: Event) {
        match event {
            Event::Landed(landed) => self.landed(landed),
            Event::PeerFailed(failure) => self.peer_failed(failure),
            Event::Malformed { .. } => self.statistics.malformed += 1,
            // Puts belong to another layer. Matching empties a full ring; if necessary, relief.rs
            // asks the port for the waiting sources and empties it.
            Event::Notified(_) | Event::Completed(_) | Event::RingFull(_) | Event::StatusFull => {}
        }
    }

    // A record is a cache line: each call that is not inlined copies it once more.
    #[inline(always)]
    fn landed(&mut self, landed: Landed) {
        let Some(source) = self.sources.get(landed.source as usize) else {
            return self.drop_malformed(landed.data);
        };
        let whole = landed.offset == 0 && landed.len() as u64 == landed.total;
        let eager = is_eager(landed.protocol);
        if source.failed.is_some() && !(eager && whole) {
            // The rest of the message will not arrive.
            return self.drop_stray(landed.data);
        }
        match landed.protocol {
            _ if eager && landed.offset == 0 => self.eager_first(landed, whole),
            _ if eager => self.eager_next(landed),
            DATA => self.data(landed),
            RTS | CTS | JOIN | FIN | PUT_NEXT | CANCEL | ABORT | NOTE | NOTE_PART => {
                self.control(landed);
            }
            _ => self.drop_malformed(landed.data),
        }
    }

    /// The first part of an eager message, or all of it.
    #[inline(always)]
    fn eager_first(&mut self, landed: Landed, whole: bool) {
        let length = landed.len() as u64;
        let Landed { source, header: bits, total, .. } = landed;
        self.note_credited(source);
        if self.sources[source as usize].assembling.is_some() {
            self.abort_assembly(source);
        }
        if length > total || (length == 0 && total > 0) {
            self.consumed(source);
            return self.drop_malformed(landed.data);
        }
        let target = match self.posted.take(source, bits) {
            Some(id) => {
                self.consumed(source);
                self.eager_matched(id, landed);
                PartTarget::Request(id)
            }
            None if self.ended.has(source, bits) => {
                self.consumed(source);
                MessagePart::from(landed.data).discard(&mut self.port);
                PartTarget::Nowhere
            }
            None => {
                self.statistics.unexpected_more(1, length);
                self.statistics.ready_unposted += u64::from(landed.protocol == EAGER_READY);
                let kind = put_kind(landed.protocol, total);
                let parts = MessageParts::one(landed.data.into());
                let body = EntryBody::Eager { arrived: length, parts, kind };
                self.unexpected.push(source, bits, total, body);
                PartTarget::Unexpected
            }
        };
        if !whole {
            self.assemble(source, bits, total, length, target);
        }
    }

    /// The first part of a message, or all of it, has matched a posted receive.
    #[inline(always)]
    fn eager_matched(&mut self, id: RequestId, landed: Landed) {
        let arrived = landed.len() as u64;
        let Landed { source, protocol, header: bits, total, data, .. } = landed;
        let began = self.begin_put(source, put_kind(protocol, total));
        let receive = self.requests.receive_mut(id);
        if let Some(Receive { buffer: Some(buffer), room, .. }) = receive
            && arrived == total
            && let Some(into) = buffer.whole()
        {
            let result = outcome(source, bits, total, *room);
            let copied = data.read_out(&mut self.port, into);
            self.statistics.received(copied as u64);
            self.requests.complete(id, result);
            if let Some((kind, way, began)) = began {
                self.note_way(source, kind, (way, way), began);
            }
            return;
        }
        let parts = MessageParts::one(data.into());
        let eager = PartialMessage::eager((source, bits), (arrived, total), parts);
        let incoming = PartialMessage { began, ..eager };
        self.set_incoming(id, incoming);
    }

    /// The next part of an eager message.
    fn eager_next(&mut self, landed: Landed) {
        let length = landed.len() as u64;
        let Landed { source, header, total, offset, data, .. } = landed;
        let state = &mut self.sources[source as usize];
        let next = state.assembling.as_mut().filter(|message| {
            let fits = offset.checked_add(length).is_some_and(|end| end <= total);
            let same = message.bits == header && message.total == total;
            same && message.arrived == offset && fits && length > 0
        });
        let Some(message) = next else {
            // A part is missing: later ones cannot be assembled either.
            self.abort_assembly(source);
            return self.drop_malformed(data);
        };
        message.arrived += length;
        let target = message.target;
        if message.arrived == total {
            state.assembling = None;
        }
        state.held_up = false;
        match target {
            PartTarget::Unexpected => match self.unexpected.grow(source, data.into()) {
                Grown::Partial | Grown::Complete => self.statistics.unexpected_more(0, length),
                Grown::Refused(part) => part.discard(&mut self.port),
            },
            PartTarget::Request(id) => self.part_for(id, data.into()),
            PartTarget::Nowhere => MessagePart::from(data).discard(&mut self.port),
        }
    }

    /// A part of a message that a receive has matched.
    fn part_for(&mut self, id: RequestId, part: MessagePart) {
        let receive = self.requests.receive_mut(id);
        let Some(receive) = receive else { return part.discard(&mut self.port) };
        let ReceiveStage::Incoming(incoming) = &mut receive.stage else {
            return part.discard(&mut self.port);
        };
        let length = part.len() as u64;
        incoming.arrived += length;
        match &mut receive.buffer {
            Some(buffer) if incoming.parts.is_empty() => {
                buffer.take_in(&mut self.port, part, incoming.copied);
                incoming.copied += length;
            }
            _ if receive.abandoned => {
                incoming.copied += length;
                part.discard(&mut self.port);
            }
            _ => incoming.parts.push(part),
        }
        if incoming.is_complete() {
            self.finish_incoming(id);
        }
    }

    /// A part of a message that this rank cleared.
    fn data(&mut self, landed: Landed) {
        let length = landed.len() as u64;
        let Landed { source, header, total, offset, data, .. } = landed;
        let id = RequestId::from_word(header);
        self.sources[source as usize].held_up = false;
        let incoming = match self.requests.receive_mut(id).map(|receive| &receive.stage) {
            Some(ReceiveStage::Incoming(i)) if i.streamed && i.source == source => i,
            _ => return self.drop_stray(data),
        };
        let fits = offset.checked_add(length).is_some_and(|end| end <= incoming.expected);
        if offset != incoming.arrived || total != incoming.expected || !fits || length == 0 {
            self.fail(id, MsgError::Malformed { source_rank: source });
            return self.drop_malformed(data);
        }
        self.part_for(id, data.into());
    }

    /// A control packet.
    fn control(&mut self, landed: Landed) {
        let Landed { source, protocol, header, total, data, .. } = landed;
        let mut bytes = [0; INLINE_BYTES];
        // A packet longer than any of ours is cut off, and decodes to `None`.
        let length = data.read_out(&mut self.port, &mut bytes);
        let payload = &bytes[..length];
        let sense = match protocol {
            RTS => {
                self.note_credited(source);
                let rts = ReadyToSend::decode(payload);
                match rts {
                    Some(rts) => self.announced(source, header, rts),
                    None => self.consumed(source),
                }
                rts.is_some()
            }
            CTS => decode_clear_to_send(payload)
                .is_some_and(|(receiver, want)| self.cleared(source, header, receiver, want)),
            JOIN => decode_join(source, payload).is_some_and(|copy| self.joined(header, &copy)),
            PUT_NEXT => self.asked_for_puts(source, header),
            FIN => {
                decode_finish(payload).is_some_and(|outcome| self.finished(source, header, outcome))
            }
            CANCEL => {
                self.withdraw(source, header);
                true
            }
            NOTE | NOTE_PART => {
                let whole = total == length as u64;
                let fits = whole && self.notes.arrive(source, header, payload, protocol == NOTE);
                self.news += 1;
                match fits && protocol == NOTE {
                    true if self.ended.close(source, header) => self.notes.drop_latest(),
                    true => self.answer_note(header),
                    false => {}
                }
                fits
            }
            _ => {
                self.aborted(source, header);
                true
            }
        };
        self.statistics.malformed += u64::from(!sense);
    }

    /// An announcement: it matches a posted receive or joins the unexpected messages.
    fn announced(&mut self, source: Rank, bits: u64, rts: ReadyToSend) {
        match self.posted.take(source, bits) {
            Some(id) => {
                self.consumed(source);
                self.begin_rendezvous(id, source, bits, rts);
            }
            None => {
                self.statistics.unexpected_more(1, 0);
                self.statistics.ready_unposted += u64::from(rts.ready);
                if rts.early {
                    self.announcers.push(source);
                }
                self.unexpected.push(source, bits, rts.total, EntryBody::Announced(rts));
            }
        }
    }

    /// A new message arrived before the source's last one was whole, which now cannot complete.
    fn abort_assembly(&mut self, source: Rank) {
        let Some(message) = self.sources[source as usize].assembling.take() else { return };
        self.statistics.malformed += 1;
        match message.target {
            PartTarget::Nowhere => {}
            PartTarget::Request(id) => self.fail(id, MsgError::Malformed { source_rank: source }),
            PartTarget::Unexpected => {
                _ = self.drop_unexpected(source, UnexpectedEntry::is_complete);
            }
        }
    }

    /// Drops the unexpected messages of a source that `keep` rejects.
    pub(super) fn drop_unexpected(
        &mut self,
        source: Rank,
        keep: impl Fn(&UnexpectedEntry) -> bool,
    ) -> usize {
        let dropped = self.unexpected.take_unless(source, keep);
        let count = dropped.len();
        for entry in dropped {
            self.statistics.unexpected_less(entry.bytes());
            if let EntryBody::Eager { mut parts, .. } = entry.body {
                parts.discard(&mut self.port);
            }
            self.consumed(source);
        }
        count
    }

    fn drop_malformed(&mut self, data: Landing) {
        self.statistics.malformed += 1;
        MessagePart::from(data).discard(&mut self.port);
    }

    pub(super) fn drop_stray(&mut self, data: Landing) {
        self.statistics.stray += 1;
        MessagePart::from(data).discard(&mut self.port);
    }
}
