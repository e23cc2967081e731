//! A slot of a mailbox: a stamp, and the bytes of one letter behind it.
//!
//! ```text
//!   at 0           end         written once, by the writer
//!   at 128         slot 0      stamp (8) | letter (room)      rounded up to pairs of lines
//!   behind it      slot 1      stamp (8) | letter (room)      of the odd rounds, if there are two
//!   ...                                                       slots are used in turn
//! ```
//!
//! The stamp is the round of the letter and is stored last. If the letter fits behind it, a single
//! cache line holds both. A letter of a kibibyte or more begins with its own line. `fabric::mail`
//! explains why two slots are enough; loom explores it.
//!
//! Larger letters nevertheless have more slots. Overwriting lines that are in the reader's
//! first-level cache takes twice as long as lines that it has evicted. Two ranks of a Xeon (48 KiB
//! of that cache each, a line 90 ns apart) that write each other a letter in every round:
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
//! The gain comes as soon as the slots have 128 KiB together.

use crate::sync::{AtomicU64, Ordering};

/// Alignment of slots: two cache lines, because the adjacent-line prefetcher moves pairs.
const ALIGN: u64 = 128;

/// Bytes of a stamp.
const STAMP: u64 = 8;

/// The smallest total size of all slots, bytes, for letters of [`CYCLED_FROM`] or more.
const CYCLE: u64 = 128 << 10;

/// Smaller letters cost little more than their stamp, so they have two slots.
const CYCLED_FROM: u32 = 1 << 10;

/// The division of a mailbox. Both ends use the same values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MailSlots {
    /// Limit of a letter's bytes.
    pub room: u32,
    /// The number of slots: a power of two. Written by another process.
    pub count: u32,
}

impl MailSlots {
    /// The fewest slots that work.
    pub const fn least(room: u32) -> MailSlots {
        MailSlots { room, count: 2 }
    }

    /// The number of slots that is worth its memory; see the module.
    pub const fn best(room: u32) -> MailSlots {
        let least = MailSlots::least(room);
        if room < CYCLED_FROM {
            return least;
        }
        let enough = CYCLE.div_ceil(least.slot_bytes()).next_power_of_two() as u32;
        if enough < least.count { least } else { MailSlots { room, count: enough } }
    }

    /// Bytes of the mailbox.
    pub const fn mailbox_bytes(self) -> u64 {
        ALIGN + self.count as u64 * self.slot_bytes()
    }

    /// The offset of a round's stamp in the mailbox. Outside the mailbox if the count is invalid.
    #[inline]
    pub const fn stamp_at(self, round: u64) -> u64 {
        let slot = round & (self.count as u64).wrapping_sub(1);
        ALIGN.saturating_add(slot.saturating_mul(self.slot_bytes()))
    }

    /// The offset of byte `at` of a round's letter.
    #[inline]
    pub const fn letter_at(self, round: u64, at: u64) -> u64 {
        self.stamp_at(round).saturating_add(self.ahead() + at)
    }

    /// Bytes before a letter.
    const fn ahead(self) -> u64 {
        if self.room < CYCLED_FROM { STAMP } else { 64 }
    }

    const fn slot_bytes(self) -> u64 {
        (self.ahead() + self.room as u64).next_multiple_of(ALIGN)
    }
}

/// The stamp of a slot.
#[derive(Debug, Clone, Copy)]
pub struct SlotStamp<'m>(pub &'m AtomicU64);

impl SlotStamp<'_> {
    /// Publishes the letter of a round. Writer only.
    #[inline]
    pub fn post(self, round: u64) {
        // Release: the letter is visible before its stamp. The writer's reads of the other rank's
        // letters come before, too: a rank that sees this stamp may overwrite them.
        self.0.store(round, Ordering::Release);
    }

    /// Whether the letter of a round has arrived.
    #[inline]
    pub fn has(self, round: u64) -> bool {
        // Acquire: pairs with `post`.
        self.0.load(Ordering::Acquire) == round
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const ROOMS: [u32; 10] = [0, 1, 120, 121, 1023, 1024, 4096, 16 << 10, 1 << 20, u32::MAX];

    #[test]
    fn slots_are_apart_and_inside() {
        for slots in
            ROOMS.into_iter().flat_map(|room| [MailSlots::least(room), MailSlots::best(room)])
        {
            let count = u64::from(slots.count);
            assert!(count >= 2 && count.is_power_of_two());
            let mut free = ALIGN;
            for round in 6 * count..7 * count {
                let at = slots.stamp_at(round);
                assert!(at >= free && at.is_multiple_of(ALIGN));
                assert_eq!(slots.stamp_at(round + count), at);
                free = slots.letter_at(round, u64::from(slots.room));
            }
            assert!(free <= slots.mailbox_bytes());
        }
    }

    #[test]
    fn slots_of_large_letters_exceed_a_cache() {
        assert_eq!([8, 1023].map(MailSlots::best), [8, 1023].map(MailSlots::least));
        for room in ROOMS.into_iter().filter(|room| *room >= CYCLED_FROM) {
            assert!(MailSlots::best(room).mailbox_bytes() >= CYCLE, "{room}");
        }
    }

    #[test]
    fn an_invalid_count_does_not_panic() {
        for count in [0, 1, 3, u32::MAX] {
            for round in [0, 1, u64::MAX] {
                let slots = MailSlots { room: u32::MAX, count };
                assert!(slots.letter_at(round, 1) > slots.stamp_at(round).min(u64::MAX - 1));
            }
        }
    }
}
