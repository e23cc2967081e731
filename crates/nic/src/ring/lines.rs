//! Shared control lines: the contributions of a group's members to a round, one line each.
//!
//! Collectives among ranks that reach each other's memory need no messages. Each member has its own
//! lines that only it writes; the others read them:
//!
//! ```text
//!              member 0          member 1          member 2
//!   line 6   | 6 word data |   | 6 word data |   | 4 word data |   <- round 6: waits for member 2
//!   line 5   | 5 word data |   | 5 word data |   | 5 word data |
//!   ...
//!   finished | 4           |   | 5           |   | 4           |
//! ```
//!
//! A member *enters* round `k` by writing its line of `k` modulo [`LINES`], stamp last. It
//! *finishes* the round when it will read no more lines of it. In a round it may contribute, or
//! only read the contributions and publish in `finished` that it has.
//!
//! **When a line is reused.** Round `k + LINES` overwrites the line of round `k`. Its owner may do
//! so once all members have finished `k`. A member has finished `k` if its `finished` is `k` or
//! more, or if it has entered a later round, since rounds are sequential. The line of `k + 1` shows
//! the latter: a member that has done anything after `k` has either written that line or, if it
//! only read in `k + 1`, published that it finished `k + 1`. Where all members contribute and read
//! all lines, as in a barrier, no check is needed. A member that has seen all lines of `k + 1`
//! knows that all entered it, hence that all have finished `k`, and `k + 2` may follow at once. So
//! a barrier is one store and one read of each other line, and `finished` stays unused.
//!
//! It follows that a reader that waits for round `k` finds `k`, or `k - LINES` and before, and
//! never `k + LINES`. Stamps only grow, even from one group to the next that uses the same lines,
//! so a slow reader never takes an earlier group's round for its own.
//!
//! **The number of lines.** Two are enough, and explored by loom. With more, a member that only
//! writes, like the root of a broadcast, can run ahead of the members that only read. This matters
//! where ranks share cores: there the readers read several rounds each time they run.

use super::bytes::{load_bytes, store_bytes};
use crate::sync::{AtomicU64, Line, Ordering, prefetch_for_read, prefetch_for_write};

/// Payload bytes that fit a control line: 48 in its first cache line, the rest in nine more. All
/// these lines are fetched in parallel; a payload in an area is fetched only after its control
/// line. Allgather of 256 B between far cores of an EPYC takes 350 ns, from areas 570; between near
/// ones 168 and 173, allreduce 149 and 204.
pub const LINE_BYTES: usize = 624;

/// Lines of a member: a power of two.
pub const LINES: usize = if cfg!(loom) { 2 } else { 8 };

/// Bytes of a cache line.
const LINE_SIZE: usize = 64;

/// Bits of a stamp that hold the length.
const LENGTH_BITS: u32 = 10;

/// The length value of a payload that is not in the line.
const ELSEWHERE: u64 = (1 << LENGTH_BITS) - 1;

/// One member's line of a round: whole pairs of cache lines, because the adjacent-line prefetcher
/// moves pairs.
///
/// ```text
///   stamp   round (54 bits) | length or 0x3ff (10)
///   word    the writer's word, not read here
///   body    payload, or its place
/// ```
#[derive(Debug)]
#[repr(C, align(128))]
struct ControlLine {
    stamp: AtomicU64,
    word: AtomicU64,
    body: [AtomicU64; LINE_BYTES / 8],
}

impl Default for ControlLine {
    fn default() -> ControlLine {
        let [stamp, word] = [0, 0].map(AtomicU64::new);
        ControlLine { stamp, word, body: std::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

/// The lines that one member of a group writes for the others. All zero: no round entered.
#[derive(Debug, Default)]
#[repr(C)]
pub struct ControlLines {
    lines: [ControlLine; LINES],
    /// The last round that the owner is known to have finished; see the module.
    finished: Line<AtomicU64>,
}

/// The place of a line's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayloadPlace {
    /// In the line.
    Line,
    /// In the writer's multicast area. Written by a peer: check before use.
    Area {
        /// The offset in the area, bytes.
        at: u64,
        /// As in a record, for the member after the writer: how it was stored, if that was timed.
        sample: u8,
    },
}

/// The contents of a line. Written by a peer, except for the round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Said {
    /// The writer's word.
    pub word: u64,
    /// Bytes of payload. At most [`LINE_BYTES`] if in the line; otherwise check before use.
    pub length: u64,
    /// The place of the payload.
    pub place: PayloadPlace,
}

impl ControlLines {
    /// Enters a round with up to [`LINE_BYTES`] bytes. Owner only, in the order of the rounds, when
    /// all members have finished the round that last used the line.
    #[inline]
    pub fn enter(&self, round: u64, word: u64, payload: &[u8]) {
        assert!(payload.len() <= LINE_BYTES);
        let line = self.line(round);
        line.word.store(word, Ordering::Relaxed);
        store_bytes::<8, LINE_SIZE>(&line.body, payload);
        self.stamp(round, payload.len() as u64);
    }

    /// Prefetches for writing the line of a round that may be entered now, for `length` bytes of
    /// payload. An earlier prefetch would take the line from its readers.
    #[inline]
    pub fn prepare(&self, round: u64, length: usize) {
        self.prefetch(round, length, prefetch_for_write);
    }

    /// Prefetches for reading the line of a round that the owner has most likely entered, for
    /// `length` bytes of payload.
    #[inline]
    pub fn look_ahead(&self, round: u64, length: usize) {
        self.prefetch(round, length, prefetch_for_read);
    }

    /// Enters a round with `length` bytes at `at` in the owner's multicast area.
    pub fn enter_area(&self, round: u64, word: u64, at: u64, length: u64, sample: u8) {
        let line = self.line(round);
        line.word.store(word, Ordering::Relaxed);
        line.body[0].store(at, Ordering::Relaxed);
        line.body[1].store(length, Ordering::Relaxed);
        line.body[2].store(sample.into(), Ordering::Relaxed);
        self.stamp(round, ELSEWHERE);
    }

    #[inline]
    fn stamp(&self, round: u64, length: u64) {
        // Release: word and payload, in the line or in the area, are visible before the stamp.
        self.line(round).stamp.store(round << LENGTH_BITS | length, Ordering::Release);
    }

    /// The owner's contribution to a round; `None`: it has not entered it, or without a line.
    #[inline]
    pub fn look(&self, round: u64) -> Option<Said> {
        let line = self.line(round);
        // Acquire: pairs with `stamp`.
        let stamp = line.stamp.load(Ordering::Acquire);
        if stamp >> LENGTH_BITS != round {
            return None;
        }
        let word = line.word.load(Ordering::Relaxed);
        let length = stamp & ELSEWHERE;
        if length != ELSEWHERE {
            let length = length.min(LINE_BYTES as u64);
            return Some(Said { word, length, place: PayloadPlace::Line });
        }
        let [at, length, sample] = [0, 1, 2].map(|which| line.body[which].load(Ordering::Relaxed));
        Some(Said { word, length, place: PayloadPlace::Area { at, sample: sample as u8 } })
    }

    /// Whether [`ControlLines::look`] returns a contribution.
    #[inline]
    pub fn is_entered(&self, round: u64) -> bool {
        self.line(round).stamp.load(Ordering::Acquire) >> LENGTH_BITS == round
    }

    /// The word of the owner's contribution to a round.
    #[inline]
    pub fn word(&self, round: u64) -> Option<u64> {
        let line = self.line(round);
        // Acquire: pairs with `stamp`.
        let is_entered = line.stamp.load(Ordering::Acquire) >> LENGTH_BITS == round;
        is_entered.then(|| line.word.load(Ordering::Relaxed))
    }

    /// Copies a payload in the line, from its byte `from` on, to `into`; bytes beyond the line's
    /// end are unchanged. Call it after `look` found it and before the round is finished.
    #[inline]
    pub fn load(&self, round: u64, from: usize, into: &mut [u8]) {
        load_bytes::<8, LINE_SIZE>(&self.line(round).body, from, into);
    }

    /// Publishes that the owner has finished all rounds up to this one.
    #[inline]
    pub fn finish(&self, round: u64) {
        // Release: the owner's reads of the lines and areas come before their reuse.
        self.finished.store(round, Ordering::Release);
    }

    /// Whether the owner is known to have finished a round.
    #[inline]
    pub fn has_finished(&self, round: u64) -> bool {
        self.finished_from(round).is_some()
    }

    /// The last round that the owner is known to have finished, if not before `round`.
    #[inline]
    pub fn finished_from(&self, round: u64) -> Option<u64> {
        // Acquire: pairs with `finish` and, for the rounds before an entered one, with `stamp`.
        let finished = self.finished.load(Ordering::Acquire);
        if finished >= round {
            return Some(finished);
        }
        let entered = self.line(round + 1).stamp.load(Ordering::Acquire) >> LENGTH_BITS;
        (entered > round).then_some(round)
    }

    /// The last round with any contribution, for the next group that uses the lines.
    pub fn last(&self) -> u64 {
        let entered =
            self.lines.iter().map(|line| line.stamp.load(Ordering::Acquire) >> LENGTH_BITS);
        entered.fold(self.finished.load(Ordering::Acquire), u64::max)
    }

    #[inline]
    fn line(&self, round: u64) -> &ControlLine {
        &self.lines[round as usize % LINES]
    }

    /// Fetches the line of a round, for `length` bytes of payload.
    #[inline(always)]
    fn prefetch(&self, round: u64, length: usize, fetch: fn(*const u8)) {
        let start = std::ptr::from_ref(self.line(round)).cast::<u8>();
        fetch(start);
        let head = size_of::<ControlLine>() - LINE_BYTES;
        let end = head + length.min(LINE_BYTES);
        (LINE_SIZE..end).step_by(LINE_SIZE).for_each(|at| fetch(start.wrapping_add(at)));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn payloads_of_every_length_load_from_every_offset() {
        let lines = ControlLines::default();
        for length in 0..=LINE_BYTES {
            let payload: Vec<u8> = (0..length).map(|at| (at * 7 + length) as u8).collect();
            let round = length as u64 + 1;
            lines.enter(round, 77, &payload);
            let said = Said { word: 77, length: length as u64, place: PayloadPlace::Line };
            assert_eq!(lines.look(round), Some(said));
            for from in 0..=length {
                let mut into = vec![0; length - from];
                lines.load(round, from, &mut into);
                assert_eq!(into, payload[from..]);
            }
        }
        let mut beyond = [9; 4];
        lines.load(1, LINE_BYTES - 1, &mut beyond);
        assert_eq!(beyond[1..], [9; 3], "what is not in the line is left");
    }

    #[test]
    fn a_round_is_visible_only_in_its_turn() {
        let lines = ControlLines::default();
        assert_eq!(lines.look(1), None);
        lines.enter(1, 0, &[]);
        lines.enter_area(2, 5, 64, 1 << 40, 2);
        let place = PayloadPlace::Area { at: 64, sample: 2 };
        let said = Said { word: 5, length: 1 << 40, place };
        assert_eq!(lines.look(2), Some(said));
        assert!(lines.is_entered(1) && !lines.is_entered(3) && !lines.is_entered(4));
        let again = 1 + LINES as u64;
        lines.enter(again, 0, &[]);
        assert_eq!((lines.look(1), lines.last()), (None, again));
        assert_eq!(lines.look(2), Some(said), "of another line");
    }

    #[test]
    fn finishing_is_published_or_implied_by_entering() {
        let lines = ControlLines::default();
        lines.enter(1, 0, &[]);
        assert!(lines.has_finished(0) && !lines.has_finished(1));
        lines.enter(2, 0, &[]);
        assert!(lines.has_finished(1) && !lines.has_finished(2));
        lines.finish(7);
        assert!(lines.has_finished(7) && !lines.has_finished(8));
        lines.enter(9 + LINES as u64, 0, &[]);
        assert!(lines.has_finished(8), "also by a round that went over the next one's line");
    }
}
