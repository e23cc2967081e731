//! A slot of a mailbox: a stamp, and the bytes of one letter behind it.
//!
//! ```text
//!   at 0           end         written once, by the writer
//!   at 128         slot 0      stamp (8) | letter (room)      rounded up to pairs of lines
//!   behind it      slot 1      stamp (8) | letter (room)      of the odd rounds, if there are two
//!   ...                                                       slots are used in turn
//! ```
//!
//! The stamp is the round of the letter and stored last, so one line tells of a letter that fits
//! behind it and brings it. A letter of a kibibyte or more begins with a line of its own. See `fabric::mail` for why two slots are enough; loom explores it.
//!
//! Larger letters have more slots all the same: to write over lines that their reader has in its
//! first-level cache takes twice as long as over lines that it has forgotten. Two ranks of a Xeon
//! (48 KiB of that cache each, a line 90 ns apart) that write each other a letter in every round:
//!
//! ```text
//!   a letter     2 slots     4      8     16     32     64      us a round
//!     4 KiB          1.9   1.9    1.9    1.9    1.4    1.4
//!     8 KiB          3.1   3.1    3.2    2.2    2.3    2.2
//!    16 KiB          5.6   5.6    3.5    3.4    3.6    3.8
//!    32 KiB         11.0   5.7    5.6    5.6    5.4    5.3
//!    64 KiB         12.0  12.2   12.1   11.7   11.7   11.4
//! ```
//!
//! That is, as soon as the slots together are 128 KiB.

use crate::sync::{AtomicU64, Ordering};

/// Alignment of slots: two cache lines, because the adjacent-line prefetcher moves pairs.
const ALIGN: u64 = 128;

/// Bytes of a stamp.
const STAMP: u64 = 8;

/// Bytes of all slots together, at least, where letters are of [`CYCLED_FROM`] bytes or more.
const CYCLE: u64 = 128 << 10;

/// Smaller letters cost little beside their stamp: they have two slots.
const CYCLED_FROM: u32 = 1 << 10;

/// Bytes before a letter.
const fn ahead(room: u32) -> u64 {
    if room < CYCLED_FROM { STAMP } else { 64 }
}

/// Bytes of a slot for letters of `room` bytes.
const fn slot_bytes(room: u32) -> u64 {
    (ahead(room) + room as u64).next_multiple_of(ALIGN)
}

/// Slots of a mailbox for letters of `room` bytes: a power of two.
const fn slots(room: u32) -> u64 {
    if room < CYCLED_FROM {
        return 2;
    }
    let enough = CYCLE.div_ceil(slot_bytes(room)).next_power_of_two();
    if enough < 2 { 2 } else { enough }
}

/// Bytes of a mailbox for letters of `room` bytes.
pub const fn mailbox_bytes(room: u32) -> u64 {
    ALIGN + slots(room) * slot_bytes(room)
}

/// Where the stamp of a round is, from the begin of the mailbox.
#[inline]
pub const fn stamp_at(room: u32, round: u64) -> u64 {
    ALIGN + (round & (slots(room) - 1)) * slot_bytes(room)
}

/// Where byte `at` of a round's letter is.
#[inline]
pub const fn letter_at(room: u32, round: u64, at: u64) -> u64 {
    stamp_at(room, round) + ahead(room) + at
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
        for room in [0, 1, 120, 121, 1023, 1024, 4096, 16 << 10, 1 << 20, u32::MAX] {
            let count = slots(room);
            let first = 6 * count;
            assert!(count >= 2 && count.is_power_of_two());
            for round in first..first + count {
                let at = stamp_at(room, round);
                assert!(at >= ALIGN && at.is_multiple_of(ALIGN));
                let end = letter_at(room, round, u64::from(room));
                let next = if round + 1 < first + count { stamp_at(room, round + 1) } else { end };
                assert!(end <= next && end <= mailbox_bytes(room));
                assert_eq!(stamp_at(room, round + count), at);
            }
        }
    }

    #[test]
    fn larger_letters_have_slots_beyond_a_first_level_cache() {
        assert_eq!([8, 1023].map(slots), [2, 2]);
        for room in [1 << 10, 4 << 10, 32 << 10, 64 << 10, 1 << 20] {
            assert!(slots(room) * slot_bytes(room) >= CYCLE, "{room}");
        }
    }
}
