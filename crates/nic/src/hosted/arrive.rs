//! Arrival: records become events, and released bytes become room.
//!
//! Every field of a record was written by a peer and is checked before use: source, kind, ring,
//! bytes. An invalid record becomes [`Event::Malformed`].

use super::state::StatusLane;
use super::stores::{self, sampled_way};
use super::{Host, HostedPort};
use crate::doorbell::ASKED_TO_FOLLOW;
use crate::fabric::{
    Event, INLINE_BYTES, Inline, Landed, Landing, Notified, PeerState, Port, Rank, RingId,
    RingSlice, Short,
};
use crate::ring::{LongStores, StatusRing, records_of, span_of};
use crate::sync::Ordering;
use crate::time::Time;
use crate::wire::{DATA, HEADER, Stamp, StatusKind, TIME};

/// A ring's head is published each time this fraction of the ring has been freed.
pub(super) const PUBLISH_PARTS: u64 = 8;

/// Payload lines to prefetch beyond the record; the processor prefetches the rest itself. Measured
/// one way, with none and with 4, far cores: 64 B 440 and 380 ns, 256 B 595 and 460 ns, 1 KiB 920
/// and 870 ns. With 17, near cores, 1 KiB takes 150 ns as with 4, and 2 KiB 186 instead of 165.
const LOOK_AHEAD_LINES: u64 = 4;

/// If at least one of this many messages lands in a ring, the receiver prefetches there.
const MIXED: u64 = 8;

impl<H: Host> HostedPort<H> {
    #[inline]
    pub(super) fn next_event(&mut self) -> Option<Event> {
        if !self.events.is_empty() {
            return self.events.pop_front();
        }
        loop {
            let Some((lane, stamp, time)) = self.oldest() else {
                return self.nothing_arrived();
            };
            self.idle = 0;
            self.clock = self.clock.max(time);
            let event = self.decode(lane, stamp);
            self.expect_longer(lane, stamp);
            let records = self.lanes[lane].ring.records_at(stamp);
            self.consume_records(lane, records);
            if event.is_none() && stamp.kind() == Some(StatusKind::Moved) {
                self.source_moved(lane, stamp.source());
            }
            if event.is_some() {
                self.account(event.as_ref());
                return event;
            }
        }
    }

    /// See [`crate::fabric::Port::receive_whole`]. An inline message needs no function call.
    #[inline(always)]
    pub(super) fn take_whole(
        &mut self,
        source: Rank,
        protocol: u8,
        header: u64,
        into: &mut [u8],
    ) -> Short {
        let id = self.lane_of(source);
        let lane = &self.lanes[id];
        let head = lane.head;
        let Some(stamp) = lane.ring.peek(head) else {
            if head < lane.longer_until {
                self.look_ahead(source);
            }
            return Short::Nothing;
        };
        let found = lane.ring.word(head, HEADER);
        if found != header {
            return Short::Differs(found);
        }
        let time = lane.ring.word(head, TIME);
        let (length, records) = match stamp.is(StatusKind::Inline, protocol, source) {
            true => {
                self.prepare_reply(source);
                (copy_inline(&lane.ring, head, stamp, into), 1)
            }
            false => self.copy_longer(id, (source, protocol), stamp, into),
        };
        let Some(length) = length else { return Short::Other };
        self.idle = 0;
        self.clock = self.clock.max(time);
        self.consume_records(id, records);
        if let Some(conductor) = self.host.conductor() {
            conductor.received(source, length as u64, Some(length as u64));
        }
        Short::Taken(length)
    }

    /// Prefetches for writing the slot of the next message to a source: a reply may follow, and the
    /// line has to come from the source, which polls it. Before a message with a payload elsewhere
    /// the source would take the line back meanwhile: 1 KiB one way took 660 ns with the prefetch,
    /// 575 without. In a ring that other ranks post to as well, the slot is not known in advance.
    #[inline(always)]
    fn prepare_reply(&self, source: Rank) {
        if let Some(peer) = self.peers.get(source as usize)
            && peer.poster.posted < peer.allowed
        {
            peer.status.prefetch_slots(peer.poster.posted, 1);
        }
    }

    /// Prefetches the lines where a source's next payload will land. Called while its status record
    /// has not arrived, if its last messages had such lines. The payload is written before the
    /// record. A load after the record would wait for one transfer after the other.
    #[inline(never)]
    fn look_ahead(&self, source: Rank) {
        let lane = &self.lanes[self.lane_of(source)];
        if lane.last > 1 {
            return lane.ring.prefetch_records(lane.head + 1, lane.last - 1);
        }
        let id = self.route_of(source);
        let Some(landing) = id.and_then(|id| self.rings.get(id as usize)) else { return };
        if let Some(id) = id {
            self.own.ring(id).prefetch(landing.ledger.end(), LOOK_AHEAD_LINES);
        }
    }

    /// Copies a message out of its records, or a message of one packet out of its landing ring, and
    /// releases the bytes. Returns its length and its number of records. `None`: the message is not
    /// whole, too long, of another kind or invalid; nothing was taken.
    #[inline(never)]
    fn copy_longer(
        &mut self,
        lane: usize,
        (source, protocol): (Rank, u8),
        stamp: Stamp,
        into: &mut [u8],
    ) -> (Option<usize>, u64) {
        self.expect_longer(lane, stamp);
        if stamp.is(StatusKind::Short, protocol, source) {
            let StatusLane { ring, head, .. } = &self.lanes[lane];
            let length = INLINE_BYTES + usize::from(stamp.length());
            let into = into.get_mut(..length).filter(|_| ring.is_private());
            let copied = into.map(|into| ring.load_short(*head, into));
            return (copied.map(|()| length), records_of(length));
        }
        let is_landed = stamp.is(StatusKind::Ring, protocol, source);
        let taken = is_landed.then(|| self.copy_landed(lane, source, stamp.length(), into));
        (taken.flatten(), 1)
    }

    /// The part of [`copy_longer`](Self::copy_longer) for landing rings.
    fn copy_landed(
        &mut self,
        lane: usize,
        source: Rank,
        sample: u8,
        into: &mut [u8],
    ) -> Option<usize> {
        let (status, head) = (self.lanes[lane].ring, self.lanes[lane].head);
        let (position, place) = (status.word(head, DATA + 2), status.word(head, DATA + 3));
        let (ring, length) = ((place >> 32) as RingId, place as u32);
        let bytes = into.get_mut(..length as usize)?;
        let whole =
            status.word(head, DATA) == u64::from(length) && status.word(head, DATA + 1) == 0;
        let landing = self.rings.get_mut(ring as usize).filter(|_| whole)?;
        landing.ledger.announce(position, span_of(u64::from(length))).ok()?;
        self.count_shared(ring, source);
        let sample = sampled_way(sample).map(|way| (source, way));
        let slice = RingSlice { ring, position, length, sample };
        self.load(&slice, bytes);
        self.give_back(&slice);
        Some(length as usize)
    }

    /// Copies all of a slice out of its ring.
    #[inline]
    pub(super) fn load(&mut self, slice: &RingSlice, into: &mut [u8]) {
        let ring = self.own.ring(slice.ring);
        match slice.sample {
            None => ring.load(slice.position, into),
            Some((source, way)) => {
                let began = self.host.now();
                ring.load(slice.position, into);
                let took = self.host.now() - began;
                self.note_load(source, way, LongStores::class_of(into.len()), took, into.len());
            }
        }
    }

    /// Publishes to a source the load cost of payloads of a class, once each way has been measured.
    #[cold]
    pub(super) fn note_load(
        &mut self,
        source: Rank,
        way: LongStores,
        class: usize,
        took: Time,
        length: usize,
    ) {
        let Some(peer) = self.peers.get_mut(source as usize) else { return };
        if let Some(costs) = peer.loads[class].note(way, took, length) {
            self.own.source(source).set_loads(class, stores::pack(costs));
        }
    }

    /// The ring whose next record arrived first, with that record's stamp and time.
    ///
    /// A record sent in response to another one (by its receiver, or later by the same rank) has a
    /// later time, and when it is visible, so is the other. But the scan may have passed the
    /// other's ring before that. So after a find the rings are scanned again until a scan changes
    /// nothing. Each ring has one record at its head, so an earlier one is found at most once per
    /// ring: more scans than rings would mean that a time is being overwritten.
    #[inline]
    fn oldest(&self) -> Option<(usize, Stamp, u64)> {
        let mut best = self.earlier_than(None)?;
        for _ in 1..self.lanes.len() {
            let Some(earlier) = self.earlier_than(Some(best)) else { break };
            best = earlier;
        }
        Some(best)
    }

    #[inline]
    fn earlier_than(&self, mut best: Option<(usize, Stamp, u64)>) -> Option<(usize, Stamp, u64)> {
        let mut found = None;
        for (id, lane) in self.lanes.iter().enumerate() {
            if let Some(stamp) = lane.ring.peek(lane.head) {
                let time = lane.ring.word(lane.head, TIME);
                if best.is_none_or(|(_, _, earliest)| time < earliest) {
                    found = Some((id, stamp, time));
                    best = found;
                }
            }
        }
        found
    }

    /// The event that a record announces; `None` for a void record.
    #[inline]
    fn decode(&mut self, lane: usize, stamp: Stamp) -> Option<Event> {
        let source = stamp.source();
        if source >= self.size {
            return Some(Event::Malformed { source });
        }
        let (status, head) = (self.lanes[lane].ring, self.lanes[lane].head);
        let protocol = stamp.protocol();
        match stamp.kind() {
            Some(StatusKind::Inline) => {
                let length = stamp.length();
                if usize::from(length) > INLINE_BYTES {
                    return Some(Event::Malformed { source });
                }
                let mut words = [0; INLINE_BYTES / 8];
                for (which, word) in words.iter_mut().enumerate() {
                    *word = status.word(head, DATA + which);
                }
                Some(Event::Landed(Landed {
                    source,
                    protocol,
                    header: status.word(head, HEADER),
                    total: u64::from(length),
                    offset: 0,
                    data: Landing::Inline(Inline { words, length }),
                }))
            }
            Some(StatusKind::Short) if status.is_private() => {
                let mut bytes = vec![0; INLINE_BYTES + usize::from(stamp.length())];
                status.load_short(head, &mut bytes);
                let (header, total) = (status.word(head, HEADER), bytes.len() as u64);
                let data = Landing::Copied(bytes.into_boxed_slice());
                Some(Event::Landed(Landed { source, protocol, header, total, offset: 0, data }))
            }
            Some(StatusKind::Short) => Some(Event::Malformed { source }),
            Some(StatusKind::Ring) => Some(self.decode_ring(lane, stamp)),
            Some(StatusKind::Put) => Some(Event::Notified(Notified {
                source,
                protocol,
                header: status.word(head, HEADER),
                length: status.word(head, DATA),
                offset: status.word(head, DATA + 1),
            })),
            Some(StatusKind::Void | StatusKind::Moved) => None,
            None => Some(Event::Malformed { source }),
        }
    }

    #[inline]
    fn decode_ring(&mut self, lane: usize, stamp: Stamp) -> Event {
        let (source, protocol) = (stamp.source(), stamp.protocol());
        let (status, head) = (self.lanes[lane].ring, self.lanes[lane].head);
        let (total, offset) = (status.word(head, DATA), status.word(head, DATA + 1));
        let (position, place) = (status.word(head, DATA + 2), status.word(head, DATA + 3));
        let (ring, length) = ((place >> 32) as RingId, place as u32);
        let inside = offset.checked_add(u64::from(length)).is_some_and(|end| end <= total);
        let announced =
            self.rings.get_mut(ring as usize).filter(|_| inside).and_then(|landing| {
                landing.ledger.announce(position, span_of(u64::from(length))).ok()
            });
        if announced.is_none() {
            return Event::Malformed { source };
        }
        self.count_shared(ring, source);
        let sample = sampled_way(stamp.length()).map(|way| (source, way));
        Event::Landed(Landed {
            source,
            protocol,
            header: status.word(head, HEADER),
            total,
            offset,
            data: Landing::Ring(RingSlice { ring, position, length, sample }),
        })
    }

    /// Counts a source's messages in a shared ring. For private rings it is one comparison.
    #[inline]
    fn count_shared(&mut self, ring: RingId, source: Rank) {
        if ring < self.shared
            && let Some(peer) = self.peers.get_mut(source as usize)
        {
            peer.from_shared = peer.from_shared.wrapping_add(1);
        }
    }

    /// Expects another message of more than one line: after one of several records, the next
    /// message; after one in a landing ring, one of the next [`MIXED`].
    fn expect_longer(&mut self, lane: usize, stamp: Stamp) {
        let lane = &mut self.lanes[lane];
        let messages = match stamp.kind() {
            Some(StatusKind::Short) => 1,
            Some(StatusKind::Ring) => MIXED,
            _ => return,
        };
        lane.longer_until = lane.head + lane.ring.records_at(stamp) + messages;
    }

    /// Moves past the records at the head of a status ring.
    #[inline(always)]
    pub(super) fn consume_records(&mut self, lane: usize, records: u64) {
        let consumed = &mut self.lanes[lane];
        consumed.head += records;
        consumed.last = records;
        self.heard = self.heard.wrapping_add(1);
        if consumed.head >= consumed.publish_at {
            self.publish_head(lane);
        }
    }

    /// Publishes to the senders how far a status ring has been read.
    #[cold]
    fn publish_head(&mut self, lane: usize) {
        let eager = self.eager;
        let lane = &mut self.lanes[lane];
        lane.publish(eager);
        if eager {
            self.wake_waiting();
        }
    }

    pub(super) fn give_back(&mut self, slice: &RingSlice) {
        let landing = &mut self.rings[slice.ring as usize];
        if !landing.ledger.release(slice.position) {
            return;
        }
        let ring = self.own.ring(slice.ring);
        let head = landing.ledger.head();
        if self.eager || head - landing.published >= ring.size() / PUBLISH_PARTS {
            ring.free(head);
            landing.published = head;
            if self.eager {
                self.wake_waiting();
            }
        }
    }

    /// The slow path of polling: waiting senders, departed peers, holes left by the dead.
    fn nothing_arrived(&mut self) -> Option<Event> {
        self.attend_if_asked();
        if self.host.registry().ends() != self.seen_ends {
            self.note_departures();
        }
        while !self.repairs.is_empty() && self.repair() {
            if !self.events.is_empty() {
                break;
            }
            if self.oldest().is_some() {
                return self.next_event();
            }
        }
        let event = self.events.pop_front();
        if let (None, Some(conductor)) = (&event, self.host.conductor()) {
            conductor.look_in_vain();
        }
        event
    }

    /// Accounts for the cost of an event in virtual time.
    #[inline]
    fn account(&mut self, event: Option<&Event>) {
        let Some(conductor) = self.host.conductor() else { return };
        let (source, bytes, begins) = match event {
            Some(Event::Landed(Landed { source, data, total, offset, .. })) => {
                let bytes = if let Landing::Ring(slice) = data { slice.len() } else { 0 };
                (*source, bytes, (*offset == 0).then_some(*total))
            }
            Some(Event::Notified(Notified { source, .. })) => (*source, 0, Some(0)),
            _ => (self.rank, 0, None),
        };
        conductor.received(source, bytes as u64, begins);
    }

    /// Attends to waiting senders, if any. They set one word of this rank, so that a waiting rank
    /// need not check a thousand sources.
    #[inline]
    pub(super) fn attend_if_asked(&mut self) {
        if self.own.doorbell().attention.load(Ordering::Relaxed) != 0 {
            self.attend();
        }
    }

    /// Reports each sender that found no room, and publishes all free room at once.
    fn attend(&mut self) {
        let own = self.own;
        if own.doorbell().attention.swap(0, Ordering::AcqRel) & ASKED_TO_FOLLOW != 0 {
            self.follow_all();
        }
        self.eager = true;
        self.idle = 0;
        for lane in &mut self.lanes {
            let full = lane.ring.full();
            if std::mem::replace(&mut lane.seen_full, full) != full {
                self.events.push_back(Event::StatusFull);
            }
            lane.publish(true);
        }
        for (id, landing) in self.rings.iter_mut().enumerate() {
            let ring = own.ring(id as RingId);
            let (stalls, refusals) = ring.full();
            let full = stalls.wrapping_add(refusals);
            if std::mem::replace(&mut landing.seen_full, full) != full {
                self.events.push_back(Event::RingFull(id as RingId));
            }
            landing.published = landing.ledger.head();
            ring.free(landing.published);
        }
        for place in 0..self.peers.known() {
            let source = self.peers.rank_at(place);
            let now = own.sender(source).held_up.load(Ordering::Relaxed);
            let peer = &mut self.peers[source as usize];
            let seen = std::mem::replace(&mut peer.seen_held_up, now);
            if seen != now && !std::mem::replace(&mut peer.is_in_held_up, true) {
                self.held_up.push_back(source);
            }
        }
        self.wake_waiting();
    }

    /// Wakes every source that waits for room or credit; ends eager mode if there is none.
    pub(super) fn wake_waiting(&mut self) {
        let own = self.own;
        let mut any = false;
        for (source, _) in self.peers.iter() {
            if own.sender(source).waiting.load(Ordering::Acquire) != 0 {
                any = true;
                self.wake_if_asleep(source);
            }
        }
        self.eager = any;
    }

    pub(super) fn wake_if_waiting(&self, source: Rank) {
        let own = self.own;
        if own.sender(source).waiting.load(Ordering::Acquire) != 0 {
            self.wake_if_asleep(source);
        }
    }

    fn wake_if_asleep(&self, rank: Rank) {
        // Wakes it even if its flag is not set. It may be about to sleep, and its last check before
        // sleeping does not cover this segment.
        self.host.wake(rank);
    }

    /// Handles the ranks that have left or died since the last call.
    fn note_departures(&mut self) {
        let now = self.host.registry().ends();
        let before = std::mem::replace(&mut self.seen_ends, now);
        match self.host.registry().ended_in(before..now) {
            Some(ranks) => ranks.into_iter().for_each(|rank| self.note_departure(rank)),
            // A rank may have died before it could record its end.
            None => self.note_all_departures(),
        }
    }

    /// Handles all ranks: the list of departed ranks is incomplete, or may have been overwritten.
    pub(super) fn note_all_departures(&mut self) {
        (0..self.size).for_each(|rank| self.note_departure(rank));
    }

    fn note_departure(&mut self, rank: Rank) {
        if let PeerState::Failed(failure) = self.host.state_of(rank)
            && self.peers[rank as usize].failed.is_none()
        {
            if !self.host.is_here(rank) {
                let _ = self.meet(rank);
            }
            self.peers[rank as usize].failed = Some(failure);
            self.peers[rank as usize].allowed = 0;
            let repair = self.begin_repair(failure);
            self.repairs.push_back(repair);
        }
    }
}

/// Copies an inline message out of its record. `None`: it does not fit, or is invalid.
#[inline(always)]
fn copy_inline(
    ring: &StatusRing<'static>,
    head: u64,
    stamp: Stamp,
    into: &mut [u8],
) -> Option<usize> {
    let length = usize::from(stamp.length());
    if length > into.len().min(INLINE_BYTES) {
        return None;
    }
    let (whole, rest) = into[..length].as_chunks_mut::<8>();
    let mut at = DATA;
    for bytes in whole {
        *bytes = ring.word(head, at).to_le_bytes();
        at += 1;
    }
    if !rest.is_empty() {
        // A copy of unknown length would be a function call.
        let mut word = ring.word(head, at);
        for byte in rest {
            *byte = word as u8;
            word >>= 8;
        }
    }
    Some(length)
}
