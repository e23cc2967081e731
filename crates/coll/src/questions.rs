//! Questions, by which ranks that make different calls by messages detect that.
//!
//! The tags of such calls differ, so neither side receives the other's messages, and all wait. A
//! rank that has waited for long in a call asks other ranks whether they have made the same call. A
//! rank that finds a message with the same number and another tag asks at once:
//!
//! ```text
//!   rank 0   call 7: barrier ──20 ms──► question ─┐        ┌─► error
//!   rank 1   call 7: scan, over ───────── call 8 ─┴─► notice
//! ```
//!
//! The asked rank compares the call with its own recent, current or later ones. It answers only if
//! they differ, with the notice of a failed call, so that all ranks are notified. A rank that has
//! done its part and makes no further call does not answer; then its message is evidence enough
//! ([`Cause::OtherCall`]). Questions are notes, so no message delays them. The
//! question after 20 ms is not asked in virtual time, where a rank that waits for ever is detected.
//!
//! Calls that only send end before any rank can detect the difference, for example two ranks that
//! both reduce to the other. A call that has succeeded has received all its messages, so a
//! left-over message with its number belongs to another call ([`Doubt`]). Its sender is asked. If
//! the sender's own call has succeeded too, no rank has waited, and both fail the next call:
//!
//! ```text
//!   rank 0   call 7: reduce to 1, over │ call 8: message of 7? ─┐       ┌─► error
//!                                      │               question │       │ question
//!   rank 1   call 7: reduce to 0, over │ call 8 ────────────────┴─► error
//! ```
//!
//! After a call has failed, left-over messages from it and from earlier calls carry no further
//! information.
//!
//! A rank that has left the job does not answer. If it completed a different call and left, as rank
//! 0 of a scan may, the others only learn that it left. To report its last call on each
//! communicator when it leaves, it would have to notify all other ranks, as each may be the one
//! that waits: in a job of n ranks n² notes at every end, also of correct programs.
//!
//! [`Cause::OtherCall`]: crate::Cause::OtherCall

use std::cell::{Cell, RefCell};

use hikyaku_nic::time::Time;

use crate::error::Cause;
use crate::names::{Named, Operation, is_of_call, sequence_of};
use crate::signature::Signature;

/// How long a rank waits before it asks. Ranks of one call are rarely apart for so long, and a rank
/// that waits in vain can afford it.
pub(crate) const PATIENCE: Time = Time::from_nanoseconds(20_000_000);

/// How long it waits for an answer from a rank that has sent it a message of another call.
pub(crate) const LONG_PATIENCE: Time = Time::from_nanoseconds(200_000_000);

/// The maximum number of other ranks that are all asked at the same time.
const MOST_AT_ONCE: u32 = 8;

/// The number of ranks that are asked at a time if there are more. All waiting ranks ask, each
/// starting with its neighbours, so that each rank is soon asked by some. More would flood the job:
/// 1,024 ranks that asked eight others each every 20 ms took 20 s for a barrier of 7 s.
const FEW_AT_ONCE: u32 = 2;

/// How often the time between questions is doubled.
const MOST_DOUBLINGS: u32 = 6;

/// The number of calls that a rank remembers.
const REMEMBERED: usize = 64;

/// A call that a rank has made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Made {
    /// The properties that all ranks must agree on.
    pub call: Signature,
    /// The index of the algorithm among those of the operation. `None`: lines, which another
    /// algorithm may replace.
    pub algorithm: Option<u8>,
}

impl Made {
    /// Whether two ranks can have made the same call. By lines all properties must be equal: a call
    /// by messages matches one by lines only if it replaces that very call.
    pub fn fits(&self, other: &Made) -> bool {
        match self.algorithm.zip(other.algorithm) {
            Some((one, two)) => one == two && self.call.fits(&other.call),
            None => self.call == other.call,
        }
    }

    /// A checksum over calls by lines in which ranks run ahead: those of `before`, then this one.
    /// It changes if the root of one call differs, or if two calls change places.
    #[inline]
    pub(crate) fn past(&self, before: u32) -> u32 {
        if !self.is_ahead() {
            return before;
        }
        let bytes = (self.call.length() % 251) as u32;
        let own = self.call.sum() + self.call.operation() as u32 * 89 + bytes;
        before.wrapping_mul(5).wrapping_add(own)
    }

    /// Whether a rank may have returned without checking the others.
    #[inline]
    fn is_ahead(&self) -> bool {
        self.algorithm.is_none() && self.call.operation().runs_ahead()
    }

    /// The tag of its messages as call `number`. `None`: it began by lines, and may have more than
    /// one.
    fn tag(&self, number: u32) -> Option<i32> {
        let index = usize::from(self.algorithm?);
        Some(Named { operation: self.call.operation(), index }.tag(number, self.call.sum()))
    }
}

/// Asks whether another rank has made the same call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) number: u32,
    /// The call of the asking rank.
    pub(crate) made: Made,
    /// Whether its call has succeeded.
    pub(crate) is_over: bool,
}

impl Question {
    pub(crate) fn to_bytes(self) -> [u8; 14] {
        let mut bytes = [0; 14];
        bytes[..4].copy_from_slice(&self.number.to_le_bytes());
        bytes[4..12].copy_from_slice(&self.made.call.word(0).to_le_bytes());
        bytes[12] = self.made.algorithm.unwrap_or(u8::MAX);
        bytes[13] = u8::from(self.is_over);
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Question> {
        let (number, rest) = bytes.split_first_chunk()?;
        let (word, &[algorithm, is_over]) = rest.split_first_chunk()? else { return None };
        let call = Signature::of_word(u64::from_le_bytes(*word))?;
        let algorithm = Some(algorithm).filter(|index| *index != u8::MAX);
        let made = Made { call, algorithm };
        Some(Question { number: u32::from_le_bytes(*number), made, is_over: is_over != 0 })
    }
}

/// A call that has succeeded here, but differs from another rank's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Doubt {
    pub(crate) number: u32,
    /// The other rank.
    pub(crate) rank: u32,
    /// When that rank was asked.
    pub(crate) since: Time,
    /// Both calls, after they are known.
    pub(crate) cause: Option<Cause>,
}

/// The questions asked in one call.
#[derive(Debug, Default, Clone, Copy)]
pub struct Asked {
    /// The number of rounds of questions.
    pub(crate) times: u32,
    /// When to ask again.
    pub(crate) then: Option<Time>,
    /// When the sender of a contradicting message was asked.
    pub(crate) contradicted: Option<Time>,
}

impl Asked {
    /// The ranks to ask now, as distances from this rank. All others are asked in turn.
    pub(crate) fn next(&mut self, size: u32, since: Time, now: Time) -> impl Iterator<Item = u32> {
        let due = size > 1 && now >= self.then.unwrap_or(since + PATIENCE);
        let others = size.saturating_sub(1);
        let at_once = if others > MOST_AT_ONCE { FEW_AT_ONCE } else { others };
        let (first, count) = (self.times.wrapping_mul(at_once), if due { at_once } else { 0 });
        if due {
            let doublings = self.times.min(MOST_DOUBLINGS);
            self.then = Some(now + Time::from_picoseconds(PATIENCE.picoseconds() << doublings));
            self.times = self.times.wrapping_add(1);
        }
        (0..count).map(move |at| 1 + first.wrapping_add(at) % others)
    }
}

/// The recent calls of a rank in a group, and the questions about its later calls.
#[derive(Debug)]
pub(crate) struct Questions {
    made: [Remembered; REMEMBERED],
    early: RefCell<Vec<(u32, Question)>>,
}

/// A call and its number, in separate cells, so that they need not be combined before they are
/// stored.
#[derive(Debug)]
struct Remembered {
    number: Cell<Option<u32>>,
    made: Cell<Made>,
}

impl Remembered {
    fn get(&self) -> Option<(u32, Made)> {
        Some((self.number.get()?, self.made.get()))
    }
}

impl Default for Questions {
    fn default() -> Self {
        let nothing = Made { call: Signature::new(Operation::Barrier), algorithm: None };
        let empty = |_| Remembered { number: Cell::new(None), made: Cell::new(nothing) };
        Questions { made: std::array::from_fn(empty), early: RefCell::default() }
    }
}

impl Questions {
    /// Records a call. `true`: another rank may have asked about it already.
    #[inline]
    pub(crate) fn make(&self, number: u32, made: Made) -> bool {
        let place = &self.made[number as usize % REMEMBERED];
        place.number.set(Some(number));
        place.made.set(made);
        !self.early.borrow().is_empty()
    }

    /// Keeps a question about a later call. Only the last question of each rank counts.
    pub(crate) fn keep(&self, rank: u32, question: Question) {
        let mut early = self.early.borrow_mut();
        early.retain(|(other, _)| *other != rank);
        early.push((rank, question));
    }

    /// Takes the questions about the call that is made now.
    pub(crate) fn about(&self, number: u32) -> Vec<(u32, Question)> {
        let mut early = self.early.borrow_mut();
        early.extract_if(.., |(_, question)| question.number == number).collect()
    }

    /// This rank's call with this number, if it does not match `made` of another rank.
    pub(crate) fn differs(&self, number: u32, made: &Made) -> Option<Made> {
        let (known, own) = self.made[number as usize % REMEMBERED].get()?;
        (known == number && !own.fits(made)).then_some(own)
    }

    /// The remembered calls before `number` from which a rank may have returned without checking
    /// the others, the last one first.
    pub(crate) fn ahead(&self, number: u32) -> impl Iterator<Item = (u32, Made)> + '_ {
        let before = (1..=REMEMBERED as u32).map(move |back| number.wrapping_sub(back));
        let remembered = |number: u32| {
            let known = self.made[number as usize % REMEMBERED].get();
            known.filter(|(known, made)| *known == number && made.is_ahead())
        };
        before.filter_map(remembered)
    }

    /// Whether a rank may have returned from the call before `number` without checking the others,
    /// by lines or by messages.
    pub(crate) fn has_run_ahead(&self, number: u32) -> bool {
        let last = number.wrapping_sub(1);
        let known = self.made[last as usize % REMEMBERED].get();
        known.is_some_and(|(known, made)| known == last && made.call.operation().runs_ahead())
    }

    /// This rank's call that a message with this tag names, if it is remembered; and whether the
    /// tag certainly belongs to another call.
    pub(crate) fn of_tag(&self, tag: i32) -> Option<(u32, Made, bool)> {
        let (number, made) = self.made[sequence_of(tag) as usize % REMEMBERED].get()?;
        let differs = made.tag(number).is_some_and(|own| own != tag);
        is_of_call(tag, number).then_some((number, made, differs))
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
        let call = Signature::new(Operation::Reduce).root(3).bytes(1 << 28);
        for algorithm in [None, Some(0), Some(7)] {
            for is_over in [false, true] {
                let made = Made { call, algorithm };
                let question = Question { number: u32::MAX, made, is_over };
                assert_eq!(Question::from_bytes(&question.to_bytes()), Some(question));
            }
        }
        (0..20).for_each(|length| assert_eq!(Question::from_bytes(&vec![0xFF; length]), None));
    }

    #[test]
    fn lines_fit_what_replaces_them() {
        let barrier = |algorithm| made(Operation::Barrier, algorithm);
        assert!(barrier(None).fits(&barrier(Some(1))) && barrier(Some(1)).fits(&barrier(None)));
        assert!(!barrier(Some(2)).fits(&barrier(Some(1))));
        assert!(!barrier(None).fits(&made(Operation::Scan, None)));
    }

    /// No rank waits in vain for messages of a rank that waits by lines.
    #[test]
    fn what_makes_no_difference_by_messages_does_beside_lines() {
        let call = Signature::new(Operation::Alltoall);
        for (one, other) in [(call.bytes(8), call.list(true)), (call.bytes(8), call)] {
            let made = |call, algorithm| Made { call, algorithm };
            assert!(made(one, Some(0)).fits(&made(other, Some(0))));
            for by in [None, Some(0)] {
                assert!(!made(one, None).fits(&made(other, by)));
                assert!(!made(other, by).fits(&made(one, None)));
                assert!(made(one, by).fits(&made(one, None)));
            }
        }
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
        let question = |number, made| Question { number, made, is_over: false };
        questions.keep(3, question(99, barrier));
        questions.keep(3, question(100, scan));
        questions.keep(4, question(100, barrier));
        assert!(questions.make(99, barrier) && questions.about(99).is_empty());
        assert!(questions.make(100, barrier));
        assert_eq!(questions.about(100), [(3, question(100, scan)), (4, question(100, barrier))]);
        assert!(!questions.make(101, barrier));
    }

    #[test]
    fn sums_tell_roots_and_orders_apart_and_count_calls_that_run_ahead() {
        let reduce = |root| {
            let call = Signature::new(Operation::Reduce).root(root).bytes(8);
            Made { call, algorithm: None }
        };
        // The bits that fit in a word.
        let sum = |calls: &[Made]| calls.iter().fold(0, |before, made| made.past(before)) % 256;
        assert_ne!(sum(&[reduce(0)]), sum(&[reduce(1)]));
        assert_ne!(sum(&[reduce(0), reduce(1)]), sum(&[reduce(1), reduce(0)]));
        let by_messages = Made { algorithm: Some(0), ..reduce(0) };
        assert_eq!(sum(&[made(Operation::Barrier, None), by_messages]), 0);
        let questions = Questions::default();
        let calls = [by_messages, reduce(0), made(Operation::Barrier, None), reduce(1), reduce(2)];
        for (number, made) in (u32::MAX - 2..=u32::MAX).chain(0..).zip(calls) {
            questions.make(number, made);
        }
        let ahead: Vec<(u32, Made)> = questions.ahead(1).collect();
        assert_eq!(ahead, [(0, reduce(1)), (u32::MAX - 1, reduce(0))]);
    }

    #[test]
    fn all_others_are_asked_in_turn_and_less_and_less_often() {
        let milliseconds = |count: u64| Time::from_nanoseconds(count * 1_000_000);
        let asked = |size: u32| {
            let mut asked = Asked::default();
            move |at| asked.next(size, Time::ZERO, milliseconds(at)).collect::<Vec<_>>()
        };
        let mut few = asked(9);
        assert!(few(19).is_empty());
        assert_eq!(few(20), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert!(few(39).is_empty());
        assert_eq!(few(40).len(), 8);
        assert!(few(79).is_empty());
        assert_eq!(few(80).len(), 8);
        let mut many = asked(12);
        let all: Vec<u32> = [20, 40, 80, 160, 320, 640].into_iter().flat_map(&mut many).collect();
        assert_eq!(all, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 1]);
        assert_eq!(asked(1)(99), []);
    }
}
