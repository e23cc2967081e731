//! Receivers that are late to read announced messages.
//!
//! A message that its receiver reads out of the sender's memory moves only when the receiver gets
//! to it. If the receiver computes meanwhile, the message waits, and so does a sender that waits
//! for its send. In a landing ring the message would have arrived, and the sender would be free. So
//! a receiver that is late repeatedly asks for the next messages to be put into its ring
//! ([`Way::Put`](crate::ways::Way::Put)), until one is announced again. Between two ranks, near
//! cores of an EPYC, by requests: a rank whose neighbour starts late and then computes for 50 us
//! had 2 x 16 KiB of shared memory 51 us after that start, 1.1 now, and 2 x 64 KiB of its own 62
//! us, 12 now; a program that computes between start and wait spent 13 us in calls for 2 x 64 KiB,
//! 6.2 now (all by `hikyaku bench late`).

use hikyaku_nic::time::Time;

/// How much a late message adds to the score; each message that is read subtracts one.
const CAME: u8 = 3;

/// The receiver asks for puts when its score exceeds this.
const LATE: u8 = 4;

/// The delay that does not count as late: this many nanoseconds, and one more for two bytes, half
/// of what the slowest copy moves.
const SOON: u64 = 10_000;

/// Resolution of a stamp, nanoseconds.
const STAMP: u64 = 1000;

/// How often a rank was late to read messages of one source.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lateness {
    score: u8,
}

impl Lateness {
    /// Accounts for a message that this rank reads. Returns whether the next ones are better put.
    pub(crate) fn read(&mut self, is_late: bool) -> bool {
        if is_late {
            self.score = (self.score + CAME).min(LATE + 1);
        }
        let is_often = is_late && self.score > LATE;
        self.score = self.score.saturating_sub(1);
        is_often
    }
}

/// The time of an announcement: microseconds of the fabric's clock, which wraps after an hour.
pub(crate) fn stamp(now: Time) -> u32 {
    (now.nanoseconds() / STAMP) as u32
}

/// Whether a message of `bytes`, announced at this time, should have arrived by now. A message that
/// waited for the one before it, which ended at `last`, has not waited for its receiver.
pub(crate) fn is_late(announced: u32, bytes: u64, last: Time, now: Time) -> bool {
    let waited = u64::from(stamp(now).wrapping_sub(announced)) * STAMP;
    // Stamps are rounded: the message before may have ended at the time of this announcement.
    waited > SOON + bytes / 2 && (now - last).nanoseconds() + STAMP > waited
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_late_again_and_again_asks_for_puts() {
        let mut receiver = Lateness::default();
        let mut read = |late: &[bool]| late.iter().fold(false, |_, it| receiver.read(*it));
        for (late, asks, why) in [
            (&[true][..], false, "once is an accident"),
            (&[false, false, true], false, "neither is this often"),
            (&[true], true, "twice in a row"),
            (&[true], true, "the one that is announced comes late again"),
            (&[false, true], true, "in time once only"),
            (&[false, false, false, false, true], false, "in time for long"),
        ] {
            assert_eq!(read(late), asks, "{why}");
        }
    }

    #[test]
    fn lateness_is_measured_against_the_copy_and_the_message_before() {
        let at = |microseconds: u64| Time::from_nanoseconds(microseconds * 1000);
        let start = u64::from(u32::MAX) - 5;
        let is_late = |waited, last| {
            let now = at(start + waited);
            super::is_late(stamp(at(start)), 8 << 10, at(last), now)
        };
        assert!(!is_late(14, 0), "10 and 4 us are no lateness");
        assert!(is_late(15, 0), "the stamp has started anew");
        assert!(!is_late(15, start + 1), "another message was read then");
        assert!(is_late(15, start));
    }
}
