//! The ledger of a landing ring's owner: the bytes that records have announced, and which of them
//! have been released.
//!
//! Slices are announced in arrival order, which on a shared ring is not ring order, and released in
//! the order in which receives match them. The ring is a FIFO (paper 000 §3), so the head moves
//! past a slice when that slice and all before it are released. A sender that dies between claiming
//! and publishing leaves a slice that no record announces. Once the owner knows that no live sender
//! can fill it, it [abandons](Ledger::abandon) the slice.
//!
//! The ledger is private to its owner. It also checks for stray and hostile records: a slice
//! outside the ring's live part, or one that overlaps another, is refused.

use std::collections::VecDeque;

use thiserror::Error;

/// A record names bytes that do not belong to its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a record names bytes outside the ring's live part or already taken")]
pub struct Overlap;

#[derive(Debug, Clone, Copy)]
struct LedgerEntry {
    start: u64,
    end: u64,
    released: bool,
}

/// The ledger of one landing ring.
#[derive(Debug)]
pub struct Ledger {
    head: u64,
    size: u64,
    /// Announced slices from the head on, in ring order, without overlaps.
    entries: VecDeque<LedgerEntry>,
    /// Gaps before this position belong to dead senders.
    abandoned: u64,
}

impl Ledger {
    /// The ledger of an empty ring of `size` bytes whose head is at `head`.
    pub fn new(size: u64, head: u64) -> Ledger {
        Ledger { head, size, entries: VecDeque::new(), abandoned: head }
    }

    /// The position before which everything has been freed.
    #[inline]
    pub fn head(&self) -> u64 {
        self.head
    }

    /// The start of the next slice of a private ring.
    #[inline]
    pub fn end(&self) -> u64 {
        self.entries.back().map_or(self.head, |last| last.end)
    }

    /// Adds a slice that a record has announced.
    ///
    /// # Errors
    /// [`Overlap`] if it is empty, further than a ring's length from the head, or overlaps another.
    #[inline]
    pub fn announce(&mut self, start: u64, span: u64) -> Result<(), Overlap> {
        let from_head = start.wrapping_sub(self.head);
        if span == 0 || from_head >= self.size || span > self.size - from_head {
            return Err(Overlap);
        }
        let entry = LedgerEntry { start, end: start.wrapping_add(span), released: false };
        match self.entries.back() {
            Some(last) if from_head < last.end.wrapping_sub(self.head) => self.insert(entry),
            _ => {
                self.entries.push_back(entry);
                Ok(())
            }
        }
    }

    /// Inserts a slice announced out of ring order: only on shared rings, seldom far from the end.
    fn insert(&mut self, entry: LedgerEntry) -> Result<(), Overlap> {
        let head = self.head;
        let offset = |position: u64| position.wrapping_sub(head);
        let at = self.entries.partition_point(|e| offset(e.start) < offset(entry.start));
        let after_previous = at == 0 || offset(self.entries[at - 1].end) <= offset(entry.start);
        let before_next =
            at == self.entries.len() || offset(entry.end) <= offset(self.entries[at].start);
        if !(after_previous && before_next) {
            return Err(Overlap);
        }
        self.entries.insert(at, entry);
        Ok(())
    }

    /// Releases the slice that starts at `start`. Returns whether the head moved.
    #[inline]
    pub fn release(&mut self, start: u64) -> bool {
        if let Some(first) = self.entries.front_mut()
            && first.start == start
        {
            first.released = true;
            return self.advance();
        }
        let head = self.head;
        let offset = |position: u64| position.wrapping_sub(head);
        let found = self.entries.binary_search_by_key(&offset(start), |e| offset(e.start));
        let at = found.expect("a slice is released once, and only after it was announced");
        self.entries[at].released = true;
        false
    }

    /// Declares that gaps before `position` will never be filled. Returns whether the head moved.
    pub fn abandon(&mut self, position: u64) -> bool {
        if position.wrapping_sub(self.head) <= self.size {
            self.abandoned = position;
        }
        self.advance()
    }

    /// Advances the head past released slices, and past gaps left by dead senders.
    fn advance(&mut self) -> bool {
        let before = self.head;
        while let Some(first) = self.entries.front() {
            if first.start == self.head && first.released {
                self.head = first.end;
                self.entries.pop_front();
            } else if first.start != self.head && self.dead_until(first.start) {
                self.head = first.start;
            } else {
                break;
            }
        }
        if self.entries.is_empty() && self.dead_until(self.abandoned) {
            self.head = self.abandoned;
        }
        self.head != before
    }

    /// Whether the range from the head to `position` was abandoned.
    fn dead_until(&self, position: u64) -> bool {
        let dead = self.abandoned.wrapping_sub(self.head);
        // If it is further than a ring's length, the head is past it already.
        dead <= self.size && position.wrapping_sub(self.head) <= dead
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_waits_for_the_oldest_slice() {
        let mut ledger = Ledger::new(1024, 0);
        ledger.announce(0, 64).unwrap();
        ledger.announce(64, 128).unwrap();
        ledger.announce(192, 64).unwrap();
        assert!(!ledger.release(64));
        assert_eq!(ledger.head(), 0);
        assert!(ledger.release(0));
        assert_eq!(ledger.head(), 192);
        assert!(ledger.release(192));
        assert_eq!(ledger.head(), 256);
    }

    #[test]
    fn a_shared_ring_accepts_slices_out_of_order() {
        let mut ledger = Ledger::new(1024, 0);
        ledger.announce(128, 64).unwrap();
        assert!(!ledger.release(128));
        ledger.announce(0, 128).unwrap();
        assert!(ledger.release(0));
        assert_eq!(ledger.head(), 192);
    }

    #[test]
    fn a_record_over_live_bytes_is_refused() {
        let mut ledger = Ledger::new(256, 512);
        ledger.announce(576, 64).unwrap();
        for (start, span) in [(576, 64), (512, 128), (600, 8), (448, 64), (512, 512), (512, 0)] {
            assert_eq!(ledger.announce(start, span), Err(Overlap), "{start}+{span}");
        }
        assert_eq!(ledger.announce(704, 128), Err(Overlap), "past a ring's length");
        ledger.announce(512, 64).unwrap();
    }

    #[test]
    fn only_abandoned_gaps_are_freed() {
        let mut ledger = Ledger::new(1024, 0);
        ledger.announce(64, 64).unwrap();
        ledger.announce(256, 64).unwrap();
        ledger.release(64);
        ledger.release(256);
        assert_eq!(ledger.head(), 0);
        assert!(ledger.abandon(128));
        assert_eq!(ledger.head(), 128, "the gap 128..256 may still be filled");
        assert!(ledger.abandon(256));
        assert_eq!(ledger.head(), 320);
    }

    #[test]
    fn positions_may_pass_the_end_of_64_bits() {
        let start = u64::MAX - 63;
        let mut ledger = Ledger::new(256, start);
        ledger.announce(start, 64).unwrap();
        ledger.announce(0, 64).unwrap();
        assert!(ledger.release(start));
        assert!(ledger.release(0));
        assert_eq!(ledger.head(), 64);
    }
}
