//! The status ring: it records what has arrived at a rank (paper 000 §3.1; the log buffer of paper
//! 003, the MRQ of paper 002).
//!
//! In the paper one status ring common to all sources gives the order of arrival. Here a rank has a
//! few, by source like the landing rings, and the single *order* comes from the arrival time in
//! each record (`hosted::arrive` merges). The reason is measured: with one ring, each message needs
//! a locked add, which waits until the earlier message's stores have got their cache line. On the
//! reference machine (near cores, 8-byte messages, window 64) that is 11.5 M messages/s in a bare
//! ring against 38 M without the lock. With the processor's clock as the arrival time it is 17 M,
//! so the arrival time is a plain count (`hosted::send`). Sources beyond the private rings share a
//! ring, and pay for the add.
//!
//! ```text
//!   senders                                        the receiver
//!   room?   tail - head < slots - senders
//!   reserve tail += 1                ──► slot ──►  stamp.lap == lap(head)?  read words
//!   write words 1..8, then the stamp               head += 1, published now and then
//! ```
//!
//! On a shared ring the reservation is one atomic add without a compare-and-swap loop. A sender
//! checks for room *before* it reserves, and has at most one reservation between its check and its
//! publication. The `senders` slots kept free therefore cover all senders that check at the same
//! moment, and no reservation is ever revoked. A private ring has one sender, which counts by
//! itself: its tail is not in shared memory, and no unpublished reservation can precede a published
//! record.
//!
//! The writers: of `tail` the senders of a shared ring, of `head` the receiver (lazily: a sender
//! that last saw enough room does not read it at all), of a slot its reserving sender. The receiver
//! never writes a slot, so the line travels one way.

use super::bytes::{load_bytes, store_bytes};
use crate::fabric::INLINE_BYTES;
use crate::sync::{AtomicU64, Line, Ordering, prefetch_for_read, prefetch_for_write};
use crate::wire::{BODY_BYTES, BODY_WORDS, Stamp, StatusKind, StatusRecord};

/// The slot of one record: a cache line.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Slot {
    stamp: AtomicU64,
    body: [AtomicU64; BODY_WORDS],
}

/// The pointers and counters of a status ring, as stored in shared memory. All zero is empty.
#[derive(Debug, Default)]
#[repr(C)]
pub struct StatusControl {
    /// The number of records ever reserved in a shared ring. Written by senders.
    tail: Line<AtomicU64>,
    /// The number of records ever consumed. Written by the receiver.
    head: Line<AtomicU64>,
    /// Posts that found the ring full, and waited or were refused. Written by senders.
    full: Line<AtomicU64>,
}

/// One sender's view of a status ring to which it posts.
#[derive(Debug, Clone, Copy, Default)]
pub struct Poster {
    /// The number of records it has posted; in a private ring these are all records.
    pub posted: u64,
    /// The head as last seen.
    pub head: u64,
}

/// A status ring over shared memory. A view: cheap to copy, owns nothing.
#[derive(Debug, Clone, Copy)]
pub struct StatusRing<'m> {
    control: &'m StatusControl,
    slots: &'m [Slot],
    senders: u64,
}

impl<'m> StatusRing<'m> {
    /// A view of the ring of `slots` (a power of two, more than twice as many as `senders`) for the
    /// `senders` ports that post to it.
    #[inline]
    pub fn new(control: &'m StatusControl, slots: &'m [Slot], senders: u32) -> StatusRing<'m> {
        debug_assert!(slots.len().is_power_of_two() && slots.len() > 2 * senders as usize);
        StatusRing { control, slots, senders: u64::from(senders) }
    }

    /// The number of records that fit.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Whether it has one sender.
    #[inline]
    pub fn is_private(&self) -> bool {
        self.senders == 1
    }

    /// Whether a record may be reserved now. Reads the shared head only if the ring is full
    /// according to the poster's cached head.
    ///
    /// After each `true`, a port may make one reservation; it must ask again before the next.
    #[inline]
    pub fn has_room(&self, poster: &mut Poster) -> bool {
        self.has_room_for(1, poster)
    }

    /// Whether this many records may be posted now, up to [`records_of`] the longest short message.
    #[inline]
    pub fn has_room_for(&self, records: u64, poster: &mut Poster) -> bool {
        let limit = (self.slots.len() as u64 - self.senders).saturating_sub(records - 1);
        let tail = match self.is_private() {
            true => poster.posted,
            false => self.control.tail.load(Ordering::Relaxed),
        };
        if tail.wrapping_sub(poster.head) < limit {
            return true;
        }
        poster.head = self.head();
        tail.wrapping_sub(poster.head) < limit
    }

    /// The number of records up to which the one sender of a private ring may post before it must
    /// check for room again.
    pub fn limit(&self, poster: &Poster) -> u64 {
        poster.head.wrapping_add(self.slots.len() as u64 - self.senders)
    }

    /// Reserves the next slot. Only after [`StatusRing::has_room`] returned true.
    #[inline]
    pub fn reserve(&self, poster: &mut Poster) -> u64 {
        let own = poster.posted;
        poster.posted = own.wrapping_add(1);
        if self.is_private() {
            return own;
        }
        // Release: the source's epoch (see `segment::SenderLine`) is odd before the reservation is
        // visible, so that a receiver can tell a dead sender's hole from a slow one's.
        self.control.tail.fetch_add(1, Ordering::AcqRel)
    }

    /// Fills and publishes the record at `index`: the words first, the stamp last.
    #[inline]
    pub fn publish(
        &self,
        index: u64,
        kind: StatusKind,
        protocol: u8,
        length: u8,
        source: u32,
        body: &[u64],
    ) {
        let slot = self.slot(index);
        for (place, word) in slot.body.iter().zip(body) {
            place.store(*word, Ordering::Relaxed);
        }
        let stamp = Stamp::new(self.lap(index), kind, protocol, length, source);
        slot.stamp.store(stamp.0, Ordering::Release);
    }

    /// Fills and publishes the record of an inline message: header and time, then the payload word
    /// by word, then the stamp.
    #[inline]
    pub fn publish_inline(
        &self,
        index: u64,
        protocol: u8,
        source: u32,
        words: [u64; 2],
        payload: &[u8],
    ) {
        let length = payload.len() as u8;
        let stamp = Stamp::new(self.lap(index), StatusKind::Inline, protocol, length, source);
        self.publish_payload(index, stamp, words, payload);
    }

    /// Stores the words before the payload of a record, then the payload, then the stamp.
    #[inline(always)]
    fn publish_payload(&self, index: u64, stamp: Stamp, words: [u64; 2], payload: &[u8]) {
        let slot = self.slot(index);
        let (head, places) = slot.body.split_at(words.len());
        head.iter().zip(words).for_each(|(place, word)| place.store(word, Ordering::Relaxed));
        store_bytes::<BODY_WORDS, BODY_BYTES>(places, payload);
        slot.stamp.store(stamp.0, Ordering::Release);
    }

    /// Fills and publishes the records of a short message from `index` on, [`records_of`] its
    /// length, the first one last.
    #[inline]
    pub fn publish_short(
        &self,
        index: u64,
        protocol: u8,
        source: u32,
        words: [u64; 2],
        payload: &[u8],
    ) {
        let (first, rest) = payload.split_at(payload.len().min(INLINE_BYTES));
        let mut at = index;
        for part in rest.chunks(BODY_BYTES) {
            at = at.wrapping_add(1);
            let slot = self.slot(at);
            store_bytes::<BODY_WORDS, BODY_BYTES>(&slot.body, part);
            // A reader that polls this slot in a later lap must not take payload for a stamp.
            let stamp = Stamp::new(self.lap(at), StatusKind::Void, 0, 0, source);
            slot.stamp.store(stamp.0, Ordering::Relaxed);
        }
        let length = rest.len() as u8;
        let stamp = Stamp::new(self.lap(index), StatusKind::Short, protocol, length, source);
        self.publish_payload(index, stamp, words, first);
    }

    /// Copies the payload of the short message at `head` to `into`, which has the same length. Its
    /// records are read within the ring, whatever length their sender claims.
    #[inline]
    pub fn load_short(&self, head: u64, into: &mut [u8]) {
        let (first, rest) = into.split_at_mut(into.len().min(INLINE_BYTES));
        let places = &self.slot(head).body;
        load_bytes::<BODY_WORDS, BODY_BYTES>(&places[BODY_WORDS - INLINE_BYTES / 8..], 0, first);
        let mut at = head;
        for part in rest.chunks_mut(BODY_BYTES) {
            at = at.wrapping_add(1);
            load_bytes::<BODY_WORDS, BODY_BYTES>(&self.slot(at).body, 0, part);
        }
    }

    /// The records of the message that a stamp begins; one if the next record is another source's.
    #[inline(always)]
    pub fn records_at(&self, stamp: Stamp) -> u64 {
        match stamp.kind() {
            Some(StatusKind::Short) if self.is_private() => {
                records_of(INLINE_BYTES + usize::from(stamp.length()))
            }
            _ => 1,
        }
    }

    /// Prefetches `slots` slots from `index` on, for a sender.
    #[inline]
    pub fn prefetch_slots(&self, index: u64, slots: u64) {
        for at in 0..slots {
            prefetch_for_write(std::ptr::from_ref(self.slot(index.wrapping_add(at))));
        }
    }

    /// Prefetches `records` records from `index` on, for the receiver.
    #[inline]
    pub fn prefetch_records(&self, index: u64, records: u64) {
        for at in 0..records {
            prefetch_for_read(std::ptr::from_ref(self.slot(index.wrapping_add(at))));
        }
    }

    /// The stamp at `head`, if the record there has been published. For the receiver.
    #[inline(always)]
    pub fn peek(&self, head: u64) -> Option<Stamp> {
        // Acquire: pairs with the release in `publish`; the words, and the payload stored before
        // them, are visible after it (IP-05).
        let stamp = Stamp(self.slot(head).stamp.load(Ordering::Acquire));
        (stamp.lap() == self.lap(head)).then_some(stamp)
    }

    /// Word `which` (1 to 7) of the record at `head`, after [`StatusRing::peek`] found it.
    #[inline(always)]
    pub fn word(&self, head: u64, which: usize) -> u64 {
        self.slot(head).body[which - 1].load(Ordering::Relaxed)
    }

    /// The whole record at `head`, if published.
    pub fn read(&self, head: u64) -> Option<StatusRecord> {
        let stamp = self.peek(head)?;
        let mut body = [0; BODY_WORDS];
        for (word, place) in body.iter_mut().zip(&self.slot(head).body) {
            *word = place.load(Ordering::Relaxed);
        }
        Some(StatusRecord { stamp, body })
    }

    /// Publishes to the senders that everything before `head` has been consumed.
    #[inline]
    pub fn free(&self, head: u64) {
        // Release: the receiver's reads of the slots come before their reuse.
        self.control.head.store(head, Ordering::Release);
    }

    /// The position up to which the ring has been read, as published by the receiver.
    pub fn head(&self) -> u64 {
        // Acquire: the receiver's reads of freed slots come before our stores.
        self.control.head.load(Ordering::Acquire)
    }

    /// The number of records ever reserved in a shared ring; 0 in a private one, where only the
    /// sender knows it. With it, the reserving sender's epoch, or a later one, is visible.
    pub fn reserved(&self) -> u64 {
        self.control.tail.load(Ordering::Acquire)
    }

    /// Counts a post that found the ring full.
    pub fn count_full(&self) {
        self.control.full.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of posts that found the ring full.
    pub fn full(&self) -> u64 {
        self.control.full.load(Ordering::Relaxed)
    }

    #[inline]
    fn slot(&self, index: u64) -> &'m Slot {
        &self.slots[(index & (self.slots.len() as u64 - 1)) as usize]
    }

    /// The lap of `index`. Starts at one, because zero is the lap of zeroed memory.
    #[inline]
    fn lap(&self, index: u64) -> u16 {
        (index >> self.slots.len().trailing_zeros()).wrapping_add(1) as u16
    }
}

/// The number of records of a short message of `length` bytes.
#[inline]
pub fn records_of(length: usize) -> u64 {
    1 + length.saturating_sub(INLINE_BYTES).div_ceil(BODY_BYTES) as u64
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::fabric::SHORT_BYTES;

    fn ring_of<'m>(control: &'m StatusControl, slots: &'m [Slot]) -> StatusRing<'m> {
        StatusRing::new(control, slots, 1)
    }

    #[test]
    fn records_come_out_in_reservation_order() {
        let (control, slots) = (StatusControl::default(), slots(4));
        let ring = ring_of(&control, &slots);
        let mut poster = Poster::default();
        let (first, second) = (ring.reserve(&mut poster), ring.reserve(&mut poster));
        ring.publish(second, StatusKind::Inline, 0, 0, 2, &[22]);
        assert!(ring.peek(0).is_none(), "the first record is reserved but not yet published");
        ring.publish(first, StatusKind::Inline, 0, 0, 1, &[11]);
        assert_eq!(ring.read(0).map(|r| r.body[0]), Some(11));
        assert_eq!(ring.read(1).map(|r| r.stamp.source()), Some(2));
    }

    #[test]
    fn inline_payloads_of_every_length_are_whole() {
        for length in 0..=crate::fabric::INLINE_BYTES {
            let payload: Vec<u8> = (1..).take(length).collect();
            let (control, slots) = (StatusControl::default(), slots(4));
            let ring = ring_of(&control, &slots);
            let index = ring.reserve(&mut Poster::default());
            ring.publish_inline(index, 7, 3, [11, 22], &payload);
            let record = ring.read(index).unwrap();
            let bytes: Vec<u8> = record.body.iter().flat_map(|word| word.to_le_bytes()).collect();
            assert_eq!(record.body[..2], [11, 22]);
            assert_eq!(bytes[16..][..length], payload, "{length} bytes");
        }
    }

    #[test]
    fn short_payloads_of_every_length_are_whole_wherever_they_begin() {
        let (control, slots) = (StatusControl::default(), slots(8));
        let ring = ring_of(&control, &slots);
        let mut head = 0;
        for length in INLINE_BYTES + 1..=SHORT_BYTES {
            let payload: Vec<u8> = (0..length).map(|n| (n * 7 + length) as u8).collect();
            ring.publish_short(head, 7, 3, [11, 22], &payload);
            let stamp = ring.peek(head).unwrap();
            assert!(stamp.is(StatusKind::Short, 7, 3));
            assert_eq!(usize::from(stamp.length()) + INLINE_BYTES, length);
            let mut bytes = vec![0; length];
            ring.load_short(head, &mut bytes);
            assert_eq!(([1, 2].map(|at| ring.word(head, at)), bytes), ([11, 22], payload));
            head += records_of(length);
            assert!(ring.peek(head).is_none(), "{length} bytes");
        }
        assert_eq!([40, 41, 96, 97, SHORT_BYTES].map(records_of), [1, 2, 2, 3, 5]);
    }

    #[test]
    fn payload_is_never_taken_for_a_record() {
        // Each word of the payload equals the stamp of a record of the next lap.
        let (control, slots) = (StatusControl::default(), slots(8));
        let ring = ring_of(&control, &slots);
        let stamp = Stamp::new(2, StatusKind::Inline, 0, 0, 0).0;
        let payload = stamp.to_le_bytes().repeat(SHORT_BYTES / 8);
        ring.publish_short(0, 0, 0, [stamp; 2], &payload);
        (5..13).for_each(|head| assert!(ring.peek(head).is_none(), "slot {head}"));
    }

    #[test]
    fn slots_of_the_last_lap_are_not_new() {
        let (control, slots) = (StatusControl::default(), slots(4));
        let ring = ring_of(&control, &slots);
        let mut poster = Poster::default();
        for round in 0..300_000u64 {
            assert!(ring.has_room(&mut poster));
            assert!(ring.peek(round).is_none());
            let index = ring.reserve(&mut poster);
            ring.publish(index, StatusKind::Void, 0, 0, 0, &[round]);
            assert_eq!(ring.read(round).map(|r| r.body[0]), Some(round));
            ring.free(round + 1);
        }
    }

    #[test]
    fn full_leaves_a_slot_for_each_sender() {
        let (control, slots) = (StatusControl::default(), slots(8));
        let ring = ring_of(&control, &slots);
        let mut poster = Poster::default();
        assert_eq!(ring.limit(&poster), 7);
        for _ in 0..7 {
            assert!(ring.has_room(&mut poster));
            ring.reserve(&mut poster);
        }
        assert!(!ring.has_room(&mut poster));
        ring.free(1);
        assert!(ring.has_room(&mut poster));
        assert_eq!(ring.limit(&poster), 8);
    }

    fn slots(count: usize) -> Vec<Slot> {
        (0..count).map(|_| Slot::default()).collect()
    }
}
