//! A copy that both ends of a message make at once, from opposite sides.
//!
//! ```text
//!   page     0                                               n
//!            [ w         |  w  | w>]     [<r |      r       ]
//!              sender writes from the front ─►   ◄─ receiver reads from the back
//! ```
//!
//! The receiver opens the copy in the one word that each rank has for this. Each end claims a part
//! by a compare-and-swap before it copies, between two limits: the receiver half of the unclaimed
//! pages, the sender all of them up to half of the message. So a message takes few system calls,
//! and both ends finish at about the same time. The sender copies at most one part at a time, and
//! marks that by a bit, so the receiver knows when the message is complete: all is claimed and the
//! bit is clear. A sender that never comes costs nothing: the receiver claims everything.
//!
//! ```text
//!   bits  0..16   pages claimed by the sender, from the front
//!   bits 16..32   pages claimed by the receiver, from the back
//!   bit  32       the sender is copying
//!   bit  33       closed to the sender
//!   bits 40..64   number of the copy: a late invitation finds another number
//! ```
//!
//! Words of peers are checked at each use: whatever their value, nothing outside the message is
//! claimed, and every loop is bounded.

use crate::sync::{AtomicU64, Ordering};

/// Parts begin and end at multiples of this, counted from the first byte; in very long messages the
/// unit is larger.
const PAGE: u64 = 4096;

/// The sizes of parts, bytes. A system call costs a microsecond, independent of its size: 64 KiB in
/// parts of 16 KiB by both ends took as long as in one part by one end (AMD EPYC, Linux 6.18).
const LEAST: u64 = 32 << 10;
const MOST: u64 = 256 << 10;

const BACK: u32 = 16;
const COUNT: u64 = 0xffff;
const COPYING: u64 = 1 << 32;
const CLOSED: u64 = 1 << 33;
const NUMBER: u32 = 40;

/// The largest number of a copy; the numbers then start again.
pub const MOST_COPIES: u32 = 0xff_ffff;

/// Limit of attempts to change a word. Two ends change it, so an attempt fails only a few times,
/// unless another process overwrites the word.
const ATTEMPTS: u32 = 1000;

/// The progress of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyStage {
    /// Some pages are unclaimed.
    Open,
    /// The sender is copying the last part.
    Copying,
    /// All is copied: the sender does not access the memory any more.
    Over,
    /// The word has another number: it was overwritten.
    Lost,
}

/// A message of `length` bytes, divided into pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pages {
    length: u64,
    size: u64,
}

impl Pages {
    /// The pages of a message.
    pub fn of(length: u64) -> Pages {
        Pages { length, size: length.div_ceil(COUNT).next_multiple_of(PAGE).max(PAGE) }
    }

    fn count(self) -> u64 {
        self.length.div_ceil(self.size)
    }

    /// The number of unclaimed pages that the receiver claims next.
    fn back(self, free: u64) -> u64 {
        self.limit(free.div_ceil(2)).min(free)
    }

    /// The number of unclaimed pages that the sender claims next. Its half is one part: when it
    /// took half of the unclaimed pages, too, the last ones were one end's alone. 256 KiB one way,
    /// untouched, took 7.2 us, and takes 5.9; 128 KiB 4.4 and 4.0; data just written 14.4 and 13.6
    /// (two processors of a Xeon, a line 55 ns).
    fn front(self, free: u64) -> u64 {
        self.limit(self.count().div_ceil(2)).min(free)
    }

    fn limit(self, pages: u64) -> u64 {
        pages.clamp(LEAST.div_ceil(self.size), MOST.div_ceil(self.size))
    }

    /// The first byte and the length of some pages.
    fn range(self, first: u64, pages: u64) -> (u64, u64) {
        let start = first * self.size;
        (start, (pages * self.size).min(self.length - start))
    }
}

/// The word by which two ranks divide a copy.
#[derive(Debug, Clone, Copy)]
pub struct JointWord<'m>(pub &'m AtomicU64);

impl JointWord<'_> {
    /// Opens a copy. Receiver only.
    pub fn open(self, number: u32) {
        // Release: the sender's writes come after the receiver's earlier accesses to its memory.
        self.0.store(u64::from(number) << NUMBER, Ordering::Release);
    }

    /// Claims a part at the end of the unclaimed pages: its first byte and length. Receiver only.
    pub fn claim_back(self, number: u32, pages: Pages) -> Option<(u64, u64)> {
        let before = self.change(number, |word| {
            let part = pages.back(free(word, pages)?);
            Some(word + (part << BACK))
        })?;
        let part = pages.back(free(before, pages)?);
        Some(pages.range(pages.count() - (before >> BACK & COUNT) - part, part))
    }

    /// Claims a part at the front of the unclaimed pages and marks that the sender copies it, until
    /// [`JointWord::copied_front`]. Sender only.
    pub fn claim_front(self, number: u32, pages: Pages) -> Option<(u64, u64)> {
        let before = self.change(number, |word| {
            let part = pages.front(free(word, pages)?);
            (word & (CLOSED | COPYING) == 0).then_some((word + part) | COPYING)
        })?;
        Some(pages.range(before & COUNT, pages.front(free(before, pages)?)))
    }

    /// Ends the copy of the sender's part of `length` bytes. `copied` is `false` if it failed: then
    /// the receiver has to copy the part and all other unclaimed pages.
    pub fn copied_front(self, number: u32, pages: Pages, length: u64, copied: bool) {
        let part = if copied { 0 } else { length.div_ceil(pages.size) };
        self.change(number, |word| {
            let front = (word & COUNT).saturating_sub(part);
            let closed = if copied { 0 } else { CLOSED };
            Some(word & !(COUNT | COPYING) | front | closed)
        });
    }

    /// Bars the sender from further claims. Receiver only.
    pub fn close(self, number: u32) {
        self.change(number, |word| Some(word | CLOSED));
    }

    /// The progress of the copy. Receiver only.
    pub fn stage(self, number: u32, pages: Pages) -> CopyStage {
        // Acquire: pairs with the sender's change after its copy.
        let word = self.0.load(Ordering::Acquire);
        if word >> NUMBER != u64::from(number) {
            return CopyStage::Lost;
        }
        match (word & COPYING != 0, free(word, pages)) {
            (_, Some(_)) => CopyStage::Open,
            (true, None) => CopyStage::Copying,
            (false, None) => CopyStage::Over,
        }
    }

    /// Whether the sender is copying.
    pub fn is_copying(self, number: u32) -> bool {
        let word = self.0.load(Ordering::Acquire);
        word >> NUMBER == u64::from(number) && word & COPYING != 0
    }

    /// Changes the word of this copy. Returns its old value. `None`: the word belongs to another
    /// copy, or `to` returned `None`.
    fn change(self, number: u32, to: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        let mut word = self.0.load(Ordering::Acquire);
        for _ in 0..ATTEMPTS {
            if word >> NUMBER != u64::from(number) {
                return None;
            }
            let next = to(word)?;
            // Release: earlier copies are visible to a process that sees the change. Acquire: the
            // sender sees the receiver's accesses to its memory before it opened the copy.
            let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
            match self.0.compare_exchange(word, next, success, failure) {
                Ok(_) => return Some(word),
                Err(seen) => word = seen,
            }
        }
        None
    }
}

/// The number of unclaimed pages; `None` instead of zero.
fn free(word: u64, pages: Pages) -> Option<u64> {
    let claimed = (word & COUNT) + (word >> BACK & COUNT);
    pages.count().checked_sub(claimed).filter(|free| *free > 0)
}

#[cfg(all(test, not(loom)))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_byte_is_claimed_once(length in 1u64..1 << 22, turns: Vec<bool>) {
            let (word, pages) = (AtomicU64::new(0), Pages::of(length));
            let joint = JointWord(&word);
            joint.open(7);
            let mut claimed = Vec::new();
            for front in turns.into_iter().chain([true, false].into_iter().cycle()) {
                let claim = if front { JointWord::claim_front } else { JointWord::claim_back };
                let Some(part) = claim(joint, 7, pages) else { break };
                if front {
                    joint.copied_front(7, pages, part.1, true);
                }
                claimed.push(part);
            }
            prop_assert_eq!(joint.stage(7, pages), CopyStage::Over);
            claimed.sort_unstable();
            let end = claimed.iter().try_fold(0, |at, (start, length)| {
                (at == *start && *length > 0).then_some(start + length)
            });
            prop_assert_eq!(end, Some(length));
        }

        #[test]
        fn a_scribbled_word_claims_nothing_outside(contents: u64, length in 1u64..1 << 40) {
            let (word, pages) = (AtomicU64::new(contents), Pages::of(length));
            let number = (contents >> NUMBER) as u32;
            for claim in [JointWord::claim_front, JointWord::claim_back] {
                if let Some((start, bytes)) = claim(JointWord(&word), number, pages) {
                    prop_assert!(bytes > 0 && start + bytes <= length);
                }
            }
            JointWord(&word).copied_front(number, pages, length, false);
            prop_assert_eq!(word.load(Ordering::Relaxed) >> NUMBER, u64::from(number));
        }
    }

    #[test]
    fn who_comes_late_claims_nothing() {
        let (word, pages) = (AtomicU64::new(0), Pages::of(1 << 20));
        let joint = JointWord(&word);
        joint.open(1);
        joint.open(2);
        assert_eq!(joint.claim_front(1, pages), None);
        assert_eq!(joint.stage(1, pages), CopyStage::Lost);
        joint.close(2);
        assert_eq!(joint.claim_front(2, pages), None);
        assert_eq!(joint.claim_back(2, pages), Some(((1 << 20) - MOST, MOST)));
    }

    #[test]
    fn both_ends_of_a_message_claim_a_half_each() {
        for length in [2 * LEAST, 4 * LEAST, 2 * MOST] {
            let (word, pages) = (AtomicU64::new(0), Pages::of(length));
            let joint = JointWord(&word);
            joint.open(1);
            let half = length / 2;
            assert_eq!(joint.claim_back(1, pages), Some((half, half)));
            assert_eq!(joint.claim_front(1, pages), Some((0, half)), "{length}");
            assert_eq!(joint.stage(1, pages), CopyStage::Copying);
        }
        // A longer one is divided further.
        let (word, pages) = (AtomicU64::new(0), Pages::of(8 * MOST));
        JointWord(&word).open(1);
        assert_eq!(JointWord(&word).claim_front(1, pages), Some((0, MOST)));
    }

    #[test]
    fn a_part_that_the_sender_could_not_write_is_the_receivers() {
        let (word, pages) = (AtomicU64::new(0), Pages::of(2 * LEAST));
        let joint = JointWord(&word);
        joint.open(1);
        assert_eq!(joint.claim_front(1, pages), Some((0, LEAST)));
        assert!(joint.is_copying(1));
        assert_eq!(joint.claim_back(1, pages), Some((LEAST, LEAST)));
        assert_eq!((joint.claim_back(1, pages), joint.stage(1, pages)), (None, CopyStage::Copying));
        joint.copied_front(1, pages, LEAST, false);
        assert_eq!(joint.stage(1, pages), CopyStage::Open);
        assert_eq!(joint.claim_front(1, pages), None, "it tries once only");
        assert_eq!(joint.claim_back(1, pages), Some((0, LEAST)));
        assert_eq!(joint.stage(1, pages), CopyStage::Over);
    }
}
