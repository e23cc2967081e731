//! Questions: how ranks that call different things by messages learn that from each other.
//!
//! The tags of such calls differ, so nobody takes the other's messages, and all wait. A rank that
//! has waited for long in a call asks other ranks whether they have made the same. So does one that
//! sees a message of the same number with another tag, at once:
//!
//! ```text
//!   rank 0   call 7: barrier ──20 ms──► question ─┐        ┌─► error
//!   rank 1   call 7: scan, over ───────── call 8 ─┴─► notice
//! ```
//!
//! Whoever is asked compares with what it has called, now or lately, or will call. It answers only
//! if that differs, by the notice of a call that has failed: then all ranks hear of it. A rank that
//! has done its part and calls nothing more does not answer; then its message says enough
//! ([`Cause::OtherCall`]). Questions are notes, so nothing holds them up. After 20 ms nothing is
//! asked in virtual time, where a rank that waits for ever is known to.
//!
//! [`Cause::OtherCall`]: crate::Cause::OtherCall

use std::cell::{Cell, RefCell};

use hikyaku_nic::time::Time;

use crate::signature::Signature;

/// How long a rank waits before it asks. Ranks of one call are rarely apart for so long, and who
/// waits in vain does not notice.
pub(crate) const PATIENCE: Time = Time::from_nanoseconds(20_000_000);

/// How long it waits for the answer of a rank that has sent it a message of another call.
pub(crate) const LONG_PATIENCE: Time = Time::from_nanoseconds(200_000_000);

/// How many ranks are asked at a time.
pub(crate) const AT_ONCE: u32 = 8;

/// How often the time between questions is doubled.
const MOST_DOUBLINGS: u32 = 6;

/// How many calls a rank remembers.
const REMEMBERED: usize = 64;

/// What a rank called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Made {
    /// What all ranks must say alike.
    pub call: Signature,
    /// The place of the algorithm among those of the operation; `None`: lines, which another one
    /// may replace.
    pub algorithm: Option<u8>,
}

impl Made {
    /// Whether two ranks can have made the same call so.
    pub fn fits(&self, other: &Made) -> bool {
        let same = |(one, two)| one == two;
        self.call.fits(&other.call) && self.algorithm.zip(other.algorithm).is_none_or(same)
    }

    pub(crate) fn to_bytes(self, number: u32) -> [u8; 13] {
        let mut bytes = [self.algorithm.unwrap_or(u8::MAX); 13];
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        bytes[4..12].copy_from_slice(&self.call.word(0).to_le_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<(u32, Made)> {
        let (number, rest) = bytes.split_first_chunk()?;
        let (word, &[algorithm]) = rest.split_first_chunk()? else { return None };
        let call = Signature::of_word(u64::from_le_bytes(*word))?;
        let algorithm = Some(algorithm).filter(|index| *index != u8::MAX);
        Some((u32::from_le_bytes(*number), Made { call, algorithm }))
    }
}

/// What one call has asked.
#[derive(Debug, Default, Clone, Copy)]
pub struct Asked {
    /// How many questions.
    pub(crate) count: u32,
    /// When to ask again.
    pub(crate) then: Option<Time>,
    /// When the sender of a message that contradicts was asked.
    pub(crate) contradicted: Option<Time>,
}

impl Asked {
    /// Whom to ask now, as distances from this rank; all others come round.
    pub(crate) fn next(&mut self, size: u32, since: Time, now: Time) -> impl Iterator<Item = u32> {
        let due = size > 1 && now >= self.then.unwrap_or(since + PATIENCE);
        let (first, others) = (self.count, size.saturating_sub(1));
        let count = if due { others.min(AT_ONCE) } else { 0 };
        if due {
            self.count = first.wrapping_add(count);
            let rounds = (first / others).min(MOST_DOUBLINGS);
            self.then = Some(now + Time::from_picoseconds(PATIENCE.picoseconds() << rounds));
        }
        (first..first + count).map(move |at| 1 + at % others)
    }
}

/// What a rank has called in a group lately, and the questions about what it has not called yet.
#[derive(Debug)]
pub(crate) struct Questions {
    made: [Cell<Option<(u32, Made)>>; REMEMBERED],
    early: RefCell<Vec<(u32, u32, Made)>>,
}

impl Default for Questions {
    fn default() -> Self {
        Questions { made: std::array::from_fn(|_| Cell::new(None)), early: RefCell::default() }
    }
}

impl Questions {
    /// A call is made. `true`: somebody has asked something already.
    #[inline]
    pub(crate) fn make(&self, number: u32, made: Made) -> bool {
        self.made[number as usize % REMEMBERED].set(Some((number, made)));
        !self.early.borrow().is_empty()
    }

    /// A question about a call that is still to be made. The last one of each rank counts.
    pub(crate) fn keep(&self, rank: u32, number: u32, made: Made) {
        let mut early = self.early.borrow_mut();
        early.retain(|(other, ..)| *other != rank);
        early.push((rank, number, made));
    }

    /// The questions about a call, which is made now.
    pub(crate) fn about(&self, number: u32) -> Vec<(u32, Made)> {
        let mut early = self.early.borrow_mut();
        let about = early.extract_if(.., |(_, other, _)| *other == number);
        about.map(|(rank, _, made)| (rank, made)).collect()
    }

    /// What this rank has called where another one has called `made`, if that does not fit.
    pub(crate) fn differs(&self, number: u32, made: &Made) -> Option<Made> {
        let (known, own) = self.made[number as usize % REMEMBERED].get()?;
        (known == number && !own.fits(made)).then_some(own)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::names::Operation;

    fn made(operation: Operation, algorithm: Option<u8>) -> Made {
        Made { call: Signature::new(operation), algorithm }
    }

    #[test]
    fn a_question_says_what_was_called_and_nonsense_says_nothing() {
        let call = Signature::new(Operation::Reduce).root(3).bytes(1 << 29);
        for algorithm in [None, Some(0), Some(7)] {
            let made = Made { call, algorithm };
            assert_eq!(Made::from_bytes(&made.to_bytes(u32::MAX)), Some((u32::MAX, made)));
        }
        (0..20).for_each(|length| assert_eq!(Made::from_bytes(&vec![0xFF; length]), None));
    }

    #[test]
    fn lines_fit_what_replaces_them() {
        let barrier = |algorithm| made(Operation::Barrier, algorithm);
        assert!(barrier(None).fits(&barrier(Some(1))) && barrier(Some(1)).fits(&barrier(None)));
        assert!(!barrier(Some(2)).fits(&barrier(Some(1))));
        assert!(!barrier(None).fits(&made(Operation::Scan, None)));
    }

    #[test]
    fn what_was_called_lately_is_compared_and_what_comes_is_kept() {
        let questions = Questions::default();
        let (barrier, scan) = (made(Operation::Barrier, Some(0)), made(Operation::Scan, Some(0)));
        for number in 0..REMEMBERED as u32 + 1 {
            assert!(!questions.make(number, barrier));
        }
        assert_eq!(questions.differs(1, &scan), Some(barrier));
        assert_eq!(questions.differs(1, &barrier), None);
        assert_eq!(questions.differs(0, &scan), None, "that is too long ago");
        questions.keep(3, 99, barrier);
        questions.keep(3, 100, scan);
        questions.keep(4, 100, barrier);
        assert!(questions.make(99, barrier) && questions.about(99).is_empty());
        assert!(questions.make(100, barrier));
        assert_eq!(questions.about(100), [(3, scan), (4, barrier)]);
        assert!(!questions.make(101, barrier));
    }

    #[test]
    fn all_others_are_asked_in_turn_and_less_and_less_often() {
        let mut asked = Asked::default();
        let milliseconds = |count: u64| Time::from_nanoseconds(count * 1_000_000);
        let mut next = |at| asked.next(11, Time::ZERO, milliseconds(at)).collect::<Vec<_>>();
        assert!(next(19).is_empty());
        assert_eq!(next(20), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert!(next(39).is_empty());
        assert_eq!(next(40), [9, 10, 1, 2, 3, 4, 5, 6]);
        assert!(next(59).is_empty());
        assert_eq!(next(60).len(), 8);
        assert!(next(99).is_empty(), "a round is over");
        assert_eq!(next(100).len(), 8);
        assert_eq!(Asked::default().next(1, Time::ZERO, milliseconds(99)).count(), 0);
    }
}
