//! Mailboxes: small data that two ranks exchange again and again, without commands.
//!
//! A mailbox lies in its reader's region and has one writer, who stores the letter of a round
//! straight into it:
//!
//! ```text
//!   writer                              reader's mailbox
//!   write_mail(round 7, bytes) ───────► | end | even: 6, bytes | odd: 7, bytes |
//!   post_mail(round 7): stamp last                               has_mail(7)? read_mail
//! ```
//!
//! Where a command queue costs a doorbell, a release and a count for each message, each a line
//! that moves between caches, this costs the letter's own line. What a queue's pointers would say
//! follows from the rounds: there are two slots or more, and two ranks that write to each other in
//! every round, if only an empty letter, need nothing else. Who has the other's letter of round `k`
//! knows that he has started `k`, hence is done with `k - 1`, and so may write round `k + 1` over
//! it.
//!
//! A writer ends a mailbox once, with a word that says why; then it writes no more, and the
//! memory can be used for something else. It is also what ends the wait of a reader to whom
//! nothing comes any more.

use super::Rank;
use crate::ring::Slots;

/// Index of a mailbox of one rank.
pub type MailboxId = u32;

/// A mailbox as its writer names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MailboxAddress {
    /// Whose mailbox.
    pub rank: Rank,
    /// Where it is in that rank's region, bytes.
    pub at: u64,
    /// How it is divided.
    pub slots: Slots,
}

/// Why a mailbox gets no more letters. The words of another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailEnd {
    /// Its writer is done with it, after so many rounds.
    Retired {
        /// How many, modulo 2^56.
        rounds: u64,
    },
    /// Its writer gave up because it misses a rank.
    GivenUp {
        /// Who is missing.
        rank: Rank,
    },
}

const RETIRED: u64 = 1;
const GIVEN_UP: u64 = 2;
const VALUE: u64 = (1 << 56) - 1;

#[cfg_attr(loom, expect(dead_code, reason = "only hosts have mailboxes"))]
impl MailEnd {
    /// The end as a word of a mailbox: code (8) | value (56). Not zero.
    pub(crate) fn to_word(self) -> u64 {
        match self {
            MailEnd::Retired { rounds } => RETIRED << 56 | rounds & VALUE,
            MailEnd::GivenUp { rank } => GIVEN_UP << 56 | u64::from(rank),
        }
    }

    /// The end that a word says; `None`: there are more letters to come. A word that makes no
    /// sense is the end of a writer who has done no round.
    pub(crate) fn from_word(word: u64) -> Option<MailEnd> {
        match word >> 56 {
            0 if word == 0 => None,
            RETIRED => Some(MailEnd::Retired { rounds: word & VALUE }),
            GIVEN_UP => Some(MailEnd::GivenUp { rank: word as u32 }),
            _ => Some(MailEnd::Retired { rounds: 0 }),
        }
    }
}

/// The calls of [`Port`](super::Port) about mailboxes. A macro, because a trait cannot be spread
/// over files.
macro_rules! calls {
    () => {
        /// Whether the fabric has mailboxes.
        fn has_mailboxes(&self) -> bool {
            false
        }

        /// Opens a mailbox in this rank's region, for letters of up to `room` bytes that `from` is
        /// to write. See [`MailboxAddress`](super::MailboxAddress).
        ///
        /// # Errors
        /// There is no room in the region, or the fabric has none.
        fn open_mailbox(
            &mut self,
            from: Rank,
            room: u32,
        ) -> Result<
            ($crate::fabric::MailboxId, $crate::fabric::MailboxAddress),
            $crate::region::RegionError,
        > {
            let _ = (from, room);
            Err($crate::region::RegionError::Unsupported)
        }

        /// Gives a mailbox back. Its memory is used again when its writer has ended it, or is gone.
        fn close_mailbox(&mut self, mailbox: $crate::fabric::MailboxId) {
            let _ = mailbox;
        }

        /// Writes bytes of the letter of a round, from byte `at` of it on, into another rank's
        /// mailbox. The letter of the round before the last must have been read.
        ///
        /// # Errors
        /// They do not fit the letter, or there is no such memory. Nothing was written then.
        fn write_mail(
            &mut self,
            to: $crate::fabric::MailboxAddress,
            round: u64,
            at: u32,
            bytes: &[u8],
        ) -> Result<(), $crate::fabric::PostError> {
            let _ = (to, round, at, bytes);
            Err($crate::fabric::PostError::Unsupported("write a letter"))
        }

        /// Says that the letter of a round is complete. Rounds are counted from 1.
        ///
        /// # Errors
        /// There is no such memory.
        fn post_mail(
            &mut self,
            to: $crate::fabric::MailboxAddress,
            round: u64,
        ) -> Result<(), $crate::fabric::PostError> {
            let _ = (to, round);
            Err($crate::fabric::PostError::Unsupported("post a letter"))
        }

        /// Whether the letter of a round is in a mailbox of this rank.
        fn has_mail(&mut self, mailbox: $crate::fabric::MailboxId, round: u64) -> bool {
            let _ = (mailbox, round);
            false
        }

        /// Copies bytes of a letter that is there, from byte `at` of it on.
        ///
        /// # Errors
        /// The letter has no such bytes, or there is no such mailbox.
        fn read_mail(
            &self,
            mailbox: $crate::fabric::MailboxId,
            round: u64,
            at: u32,
            into: &mut [u8],
        ) -> Result<(), $crate::fabric::PostError> {
            let _ = (mailbox, round, at, into);
            Err($crate::fabric::PostError::Unsupported("read a letter"))
        }

        /// Ends a mailbox of another rank: this one writes no more. Once for each.
        fn end_mail(&mut self, to: $crate::fabric::MailboxAddress, end: $crate::fabric::MailEnd) {
            let _ = (to, end);
        }

        /// Why no more letters come to a mailbox of this rank, if none do.
        fn mail_end(&self, mailbox: $crate::fabric::MailboxId) -> Option<$crate::fabric::MailEnd> {
            let _ = mailbox;
            None
        }
    };
}
pub(super) use calls;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn ends_survive_their_word() {
        for end in [
            MailEnd::Retired { rounds: 0 },
            MailEnd::Retired { rounds: VALUE },
            MailEnd::GivenUp { rank: u32::MAX },
        ] {
            assert_eq!(MailEnd::from_word(end.to_word()), Some(end));
        }
        assert_eq!(MailEnd::from_word(0), None);
        for word in [1, u64::MAX, 77 << 56] {
            assert_eq!(MailEnd::from_word(word), Some(MailEnd::Retired { rounds: 0 }));
        }
    }
}
