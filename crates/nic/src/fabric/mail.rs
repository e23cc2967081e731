//! Mailboxes: small data that two ranks exchange repeatedly, without commands.
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
//! In a command queue, each message costs a doorbell, a release and a count, and each of those is a
//! cache line that moves between caches. A letter costs only its own line. The rounds replace a
//! queue's pointers: there are at least two slots, and two ranks write to each other in every
//! round, even if only an empty letter. A rank that has the other's letter of round `k` knows that
//! the other has started `k`, hence finished `k - 1`: it may overwrite that slot in `k + 1`.
//!
//! A writer ends a mailbox once, with a word that gives the reason. Then it writes no more, and the
//! memory can be reused. The same word ends the wait of a reader for a letter that will never come.

use super::{Port, PostError, Rank};
use crate::region::RegionError;
use crate::ring::MailSlots;

/// Index of a mailbox of one rank.
pub type MailboxId = u32;

/// The address of a mailbox, for its writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MailboxAddress {
    /// The rank that reads the mailbox.
    pub rank: Rank,
    /// Its offset in that rank's region, bytes.
    pub at: u64,
    /// Its division into slots.
    pub slots: MailSlots,
}

/// Why a mailbox receives no more letters. The word is written by another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailEnd {
    /// Its writer has finished with it, after this many rounds.
    Retired {
        /// The number of rounds, modulo 2^56.
        rounds: u64,
    },
    /// Its writer stopped because a rank is missing.
    Abandoned {
        /// The missing rank.
        rank: Rank,
    },
}

const RETIRED: u64 = 1;
const ABANDONED: u64 = 2;
const VALUE: u64 = (1 << 56) - 1;

#[cfg_attr(loom, expect(dead_code, reason = "only hosts have mailboxes"))]
impl MailEnd {
    /// The end as a word of a mailbox: code (8) | value (56). Not zero.
    pub fn to_word(self) -> u64 {
        match self {
            MailEnd::Retired { rounds } => RETIRED << 56 | rounds & VALUE,
            MailEnd::Abandoned { rank } => ABANDONED << 56 | u64::from(rank),
        }
    }

    /// The end that a word encodes; `None`: more letters may come. An invalid word counts as the
    /// end of a writer that has completed no round.
    pub(crate) fn from_word(word: u64) -> Option<MailEnd> {
        match word >> 56 {
            0 if word == 0 => None,
            RETIRED => Some(MailEnd::Retired { rounds: word & VALUE }),
            ABANDONED => Some(MailEnd::Abandoned { rank: word as u32 }),
            _ => Some(MailEnd::Retired { rounds: 0 }),
        }
    }
}

/// A port with mailboxes.
pub trait MailboxPort: Port {
    /// Opens a mailbox in this rank's region, for letters of up to `room` bytes from rank `from`.
    /// See [`MailboxAddress`].
    ///
    /// # Errors
    /// The region has no room, or the fabric has no mailboxes.
    fn open_mailbox(
        &mut self,
        from: Rank,
        room: u32,
    ) -> Result<(MailboxId, MailboxAddress), RegionError>;

    /// Frees a mailbox. Its memory is reused once its writer has ended it, or is gone.
    fn close_mailbox(&mut self, mailbox: MailboxId);

    /// Writes bytes of a round's letter, from its byte `at` on, into another rank's mailbox. The
    /// letter of the round before the last must have been read.
    ///
    /// # Errors
    /// The bytes do not fit the letter, or there is no such memory. Nothing was written.
    fn write_mail(
        &mut self,
        to: MailboxAddress,
        round: u64,
        at: u32,
        bytes: &[u8],
    ) -> Result<(), PostError>;

    /// Marks the letter of a round as complete. Rounds are counted from 1.
    ///
    /// # Errors
    /// There is no such memory.
    fn post_mail(&mut self, to: MailboxAddress, round: u64) -> Result<(), PostError>;

    /// Whether a mailbox of this rank has the letter of a round.
    fn has_mail(&mut self, mailbox: MailboxId, round: u64) -> bool;

    /// Copies bytes of a letter that has arrived, from its byte `at` on.
    ///
    /// # Errors
    /// The letter has no such bytes, or there is no such mailbox.
    fn read_mail(
        &self,
        mailbox: MailboxId,
        round: u64,
        at: u32,
        into: &mut [u8],
    ) -> Result<(), PostError>;

    /// Ends a mailbox of another rank: this rank writes no more. Call it once for each mailbox.
    fn end_mail(&mut self, to: MailboxAddress, end: MailEnd);

    /// Why a mailbox of this rank receives no more letters; `None` if more may come.
    fn mail_end(&self, mailbox: MailboxId) -> Option<MailEnd>;
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn ends_survive_their_word() {
        for end in [
            MailEnd::Retired { rounds: 0 },
            MailEnd::Retired { rounds: VALUE },
            MailEnd::Abandoned { rank: u32::MAX },
        ] {
            assert_eq!(MailEnd::from_word(end.to_word()), Some(end));
        }
        assert_eq!(MailEnd::from_word(0), None);
        for word in [1, u64::MAX, 77 << 56] {
            assert_eq!(MailEnd::from_word(word), Some(MailEnd::Retired { rounds: 0 }));
        }
    }
}
