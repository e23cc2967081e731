//! Receivers that come late to what they were to read.
//!
//! A message that its receiver reads out of the sender's memory moves when the receiver comes to
//! it. If that computes meanwhile, the message waits, and the sender that waits for its send too.
//! In a landing ring it would be there, and the sender free. So a receiver that came late again
//! and again asks for the next ones to be put into its ring ([`Way::Put`](crate::ways::Way::Put)),
//! until one is announced again. Between two ranks, near cores of an EPYC, by requests: a rank
//! whose neighbour starts late and then computes for 50 us had 2 x 16 KiB of shared memory 51 us
//! after that start, 1.1 now, and 2 x 64 KiB of its own 62 us, 12 now; a program that computes
//! between start and wait spent 13 us in calls for 2 x 64 KiB, 6.2 now (all by `hikyaku bench
//! late`).

use hikyaku_nic::time::Time;

/// What a message to which the receiver came late adds to its score; each one that it reads takes
/// one off.
const CAME: u8 = 3;

/// From this score on it asks for puts.
const LATE: u8 = 4;

/// Lateness that is none: so much, and a nanosecond for two bytes, half of what the slowest copy
/// moves.
const SOON: u64 = 10_000;

/// Nanoseconds of a stamp.
const STAMP: u64 = 1000;

/// How often a rank has come late to messages of one source.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lateness {
    score: u8,
}

impl Lateness {
    /// Takes in a message that this rank reads. Returns whether the next ones are better put.
    pub(crate) fn read(&mut self, is_late: bool) -> bool {
        if is_late {
            self.score = (self.score + CAME).min(LATE + 1);
        }
        let is_often = is_late && self.score > LATE;
        self.score = self.score.saturating_sub(1);
        is_often
    }
}

/// When a message was announced: microseconds of the fabric's clock, which starts anew after an
/// hour.
pub(crate) fn stamp(now: Time) -> u32 {
    (now.nanoseconds() / STAMP) as u32
}

/// Whether a message of so many bytes, announced at this moment, should have been there. One that
/// waited for `last`, the end of the message before it, has not waited for its receiver.
pub(crate) fn is_late(announced: u32, bytes: u64, last: Time, now: Time) -> bool {
    let waited = u64::from(stamp(now).wrapping_sub(announced)) * STAMP;
    // Stamps are whole: the message before may have ended when this one was announced.
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
