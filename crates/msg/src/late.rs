//! Receivers that come late to what they were to read.
//!
//! A message that its receiver reads out of the sender's memory moves when the receiver comes to
//! it. If that computes meanwhile, the message waits, and the sender that waits for its send too.
//! In a landing ring it would be there, and the sender free. So a receiver says when it came late,
//! and the next messages of that sender that fit the eager limit are put into the ring, until one
//! is announced again. Between two ranks, near cores of an EPYC, by requests: a rank whose
//! neighbour starts late and then computes for 50 us had 2 x 16 KiB of shared memory 51 us after
//! that start, 1.1 now, and 2 x 64 KiB of its own 62 us, 12 now; a program that computes between
//! start and wait spent 13 us in calls for 2 x 64 KiB, 6.2 now (all by `hikyaku bench late`).

use hikyaku_nic::time::Time;

/// What one of whom it was said adds to the score; each message that was read takes one off.
const SAID: u8 = 3;

/// From this score on messages are put into the ring.
const LATE: u8 = 4;

/// Messages that are put into the ring before one is announced again.
const PUT: u8 = 64;

/// Lateness that is none: so much, and a nanosecond for two bytes, half of what the slowest copy
/// moves.
const SOON: u64 = 10_000;

/// Nanoseconds of a stamp.
const STAMP: u64 = 1000;

/// What a sender knows of one receiver.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LateReceiver {
    score: u8,
    to_put: u8,
}

impl LateReceiver {
    /// Whether the next message, which it could read, is put into its ring.
    #[inline]
    pub(crate) fn takes_from_ring(&mut self) -> bool {
        let left = self.to_put.checked_sub(1);
        self.to_put = left.unwrap_or(0);
        left.is_some()
    }

    /// It says that it came late to a message, which it has not read yet.
    pub(crate) fn came_late(&mut self) {
        self.score = (self.score + SAID).min(LATE + 1);
        if self.score > LATE {
            self.to_put = PUT;
        }
    }

    /// It reads a message.
    pub(crate) fn reads(&mut self) {
        self.score = self.score.saturating_sub(1);
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

    fn put(receiver: &mut LateReceiver) -> u32 {
        (0..).take_while(|_| receiver.takes_from_ring()).count() as u32
    }

    #[test]
    fn who_comes_late_again_and_again_takes_from_the_ring() {
        let mut receiver = LateReceiver::default();
        let mut read = |late: &[bool]| {
            for late in late {
                if *late {
                    receiver.came_late();
                }
                receiver.reads();
            }
            put(&mut receiver)
        };
        assert_eq!(read(&[true]), 0, "once is an accident");
        assert_eq!(read(&[false, false, true]), 0);
        assert_eq!(read(&[true]), u32::from(PUT));
        assert_eq!(read(&[true]), u32::from(PUT), "the one that is announced comes late again");
        assert_eq!(read(&[false, true]), u32::from(PUT));
        assert_eq!(read(&[false, false, false, false, true]), 0, "it has been there for long");
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
