//! A slot of a mailbox: a stamp, and the bytes of one letter behind it.
//!
//! ```text
//!   at 0           end         written once, by the writer
//!   at 128         even slot   stamp (8) | letter (room)      rounded up to pairs of lines
//!   behind it      odd slot    stamp (8) | letter (room)
//! ```
//!
//! The stamp is the round of the letter and stored last, so one line tells of a letter that fits
//! behind it and brings it. See `fabric::mail` for why two slots are enough; loom explores it.

use crate::sync::{AtomicU64, Ordering};

/// Alignment of slots: two cache lines, because the adjacent-line prefetcher moves pairs.
const ALIGN: u64 = 128;

/// Bytes of a stamp.
const STAMP: u64 = 8;

/// Bytes of a slot for letters of `room` bytes.
const fn slot_bytes(room: u32) -> u64 {
    (STAMP + room as u64).next_multiple_of(ALIGN)
}

/// Bytes of a mailbox for letters of `room` bytes.
pub const fn mailbox_bytes(room: u32) -> u64 {
    ALIGN + 2 * slot_bytes(room)
}

/// Where the stamp of a round is, from the begin of the mailbox.
#[inline]
pub const fn stamp_at(room: u32, round: u64) -> u64 {
    ALIGN + (round & 1) * slot_bytes(room)
}

/// Where byte `at` of a round's letter is.
#[inline]
pub const fn letter_at(room: u32, round: u64, at: u64) -> u64 {
    stamp_at(room, round) + STAMP + at
}

/// The stamp of a slot.
#[derive(Debug, Clone, Copy)]
pub struct Stamp<'m>(pub &'m AtomicU64);

impl Stamp<'_> {
    /// Says that the letter of a round is there. Writer only.
    #[inline]
    pub fn post(self, round: u64) {
        // Release: the letter is visible before its stamp. And what the writer has read of the
        // other's letters comes before: who sees this stamp may write over them.
        self.0.store(round, Ordering::Release);
    }

    /// Whether the letter of a round is there.
    #[inline]
    pub fn has(self, round: u64) -> bool {
        // Acquire: pairs with `post`.
        self.0.load(Ordering::Acquire) == round
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn slots_are_apart_and_inside() {
        for room in [0, 1, 120, 121, 4096, u32::MAX] {
            let [even, odd] = [2, 3].map(|round| stamp_at(room, round));
            assert!(even >= ALIGN && odd >= letter_at(room, 2, u64::from(room)));
            assert!(letter_at(room, 3, u64::from(room)) <= mailbox_bytes(room));
            assert!(even.is_multiple_of(ALIGN) && odd.is_multiple_of(ALIGN));
            assert_eq!(stamp_at(room, 5), odd);
        }
    }
}
