//! The order of a communicator's calls on the lines, and the end of the lines after a failure.
//!
//! Lines have one order of rounds, and calls may overlap. So calls use the lines in the order in
//! which they were made, each from its first round to its last. A call waits for its turn.
//!
//! A call that fails on the lines at one rank leaves that rank in another round than the others.
//! That rank never contributes again, and reports it to all others ([`Loss`]):
//!
//! ```text
//!   calls     ... k - 1 │ k, which failed │ k + 1 ... until │ until + 1 ...
//!             by lines  │ an error        │ see below       │ by messages
//! ```
//!
//! Some ranks may have returned before they received the report: a root does not wait for its
//! receivers. `until` is the last call that any rank has made by lines. A call between the two
//! starts again by messages if no rank has completed it. If a rank has completed it by lines, that
//! rank reports a larger `until`, and all others end the call with the error of call `k`.
//!
//! A rank that has returned may be in a call on another communicator, or make no further call on
//! this one. So its answer must not wait for its next call here: [`Passed`] answers as soon as the
//! note arrives, in any call that waits.
//!
//! Ranks agree on lines in the first call whose turn it is. If they find none, that call and some
//! later ones use messages, the same number at every rank.
//!
//! No rank can have completed a call after `k` to which all contribute, because the failed rank did
//! not. So such a call starts again at all ranks if it does at one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hikyaku_msg::Answerer;

use crate::error::Cause;
use crate::names::LOSS_TAG;

/// A report that a communicator's lines are lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// The call that failed.
    pub from: u32,
    /// The last call that any rank is known to have made by lines.
    pub until: u32,
    /// The rank where it failed.
    pub rank: u32,
    /// The reason.
    pub cause: Cause,
}

impl Loss {
    /// The encoding for other ranks: the calls, the rank, the cause.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = [self.from, self.until, self.rank].map(u32::to_le_bytes).concat();
        bytes.extend(self.cause.to_bytes());
        bytes
    }

    /// Decodes what another rank sent; `None` if it is malformed.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Loss> {
        let half = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let cause = Cause::from_bytes(bytes.get(12..)?)?;
        Some(Loss { from: half(0)?, until: half(4)?, rank: half(8)?, cause })
    }
}

/// Whether a call may use the lines now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineTurn {
    /// It is the call's turn.
    Now,
    /// Earlier calls use the lines.
    Later,
    /// The lines are lost.
    Lost,
}

/// The last call that a rank has completed by lines, shared with the answerer for this rank.
#[derive(Debug, Clone, Default)]
pub struct Passed(Arc<AtomicU64>);

impl Passed {
    /// The number of the call. `None`: there was none.
    fn last(&self) -> Option<u32> {
        let word = self.0.load(Ordering::Relaxed);
        word.checked_sub(1).map(|number| number as u32)
    }

    #[inline]
    fn set(&self, number: u32) {
        self.0.store(u64::from(number) + 1, Ordering::Relaxed);
    }

    /// The correction to send to a rank that reports a loss: this rank has completed later calls by
    /// lines.
    pub fn correct(&self, heard: Loss) -> Option<Loss> {
        let until = self.last().filter(|last| is_before(heard.until, *last))?;
        Some(Loss { until, ..heard })
    }
}

/// Answers reports of lost lines, in any call of this rank.
impl Answerer for Passed {
    fn answer(&mut self, tag: i32, bytes: &[u8]) -> Option<Vec<u8>> {
        let heard = Loss::from_bytes(bytes).filter(|_| tag == LOSS_TAG)?;
        self.correct(heard).map(|loss| loss.to_bytes())
    }
}

/// One rank's state of the order of calls on the lines.
#[derive(Debug, Default)]
pub struct LineTurns {
    /// Open calls that use the lines, in order.
    open: VecDeque<u32>,
    /// The last call completed by lines.
    done: Passed,
    loss: Option<Loss>,
    /// The first call that used messages because no lines were found, and the number of such calls.
    refused: Option<(u32, u32)>,
}

/// The number of calls without a new search after no lines were found; doubled each time.
pub(crate) const REFUSED_FIRST: u32 = 8;
const REFUSED_MOST: u32 = 1 << 20;

/// Whether call `one` was made before `other`. Numbers wrap around.
pub(crate) fn is_before(one: u32, other: u32) -> bool {
    (one.wrapping_sub(other) as i32) < 0
}

pub(crate) fn later(one: u32, other: u32) -> u32 {
    if is_before(one, other) { other } else { one }
}

impl LineTurns {
    /// Whether a call may use lines.
    #[inline]
    pub fn are_for(&self, number: u32) -> bool {
        let refused = |(from, count): (u32, u32)| number.wrapping_sub(from) < count;
        self.are_kept_for(number) && !self.refused.is_some_and(refused)
    }

    /// Whether a call has failed on the lines: ranks may be in different rounds.
    pub fn are_lost(&self) -> bool {
        self.loss.is_some()
    }

    /// Whether a call can use existing lines: they are not lost for it.
    #[inline]
    pub fn are_kept_for(&self, number: u32) -> bool {
        self.loss.is_none_or(|loss| is_before(number, loss.from))
    }

    /// Records that the ranks have agreed, in this call, that there are no lines.
    pub fn refuse(&mut self, number: u32) {
        let twice = |(_, count): (u32, u32)| (2 * count).min(REFUSED_MOST);
        self.refused = Some((number, self.refused.map_or(REFUSED_FIRST, twice)));
    }

    /// Records that the ranks have lines.
    pub fn agree(&mut self) {
        self.refused = None;
    }

    /// Opens a call by lines.
    #[inline]
    pub fn open(&mut self, number: u32) {
        self.open.push_back(number);
    }

    /// Whether the next call, if it is by lines, may use them at once: no call is open on them.
    #[inline]
    pub fn is_next(&self, number: u32) -> bool {
        self.open.is_empty() && self.are_kept_for(number)
    }

    /// Records that the next call has used the lines and is complete.
    #[inline]
    pub fn pass(&mut self, number: u32) {
        self.done.set(number);
    }

    /// The last call completed by lines, readable while this is borrowed.
    pub fn passed(&self) -> &Passed {
        &self.done
    }

    /// Whether it is the call's turn on the lines.
    #[inline]
    pub fn turn(&self, number: u32) -> LineTurn {
        if !self.are_for(number) {
            LineTurn::Lost
        } else if self.open.front() == Some(&number) {
            LineTurn::Now
        } else {
            LineTurn::Later
        }
    }

    /// Removes a call that continues without the lines.
    pub fn give_way(&mut self, number: u32) {
        self.open.retain(|other| *other != number);
    }

    /// Ends a call by lines, if it still is one.
    #[inline]
    pub fn done(&mut self, number: u32) {
        if self.open.front() == Some(&number) {
            self.open.pop_front();
            self.done.set(number);
        }
    }

    /// Records that a call has failed here. Returns the report for the others, if the call used
    /// lines and they do not know.
    pub fn fail(&mut self, number: u32, rank: u32, cause: Cause) -> Option<Loss> {
        let by_lines = self.open.contains(&number);
        self.give_way(number);
        if !by_lines || self.ends(number).is_some() {
            return None;
        }
        self.hear(Loss { from: number, until: number, rank, cause });
        self.loss
    }

    /// Records another rank's report of a loss. Returns a correction for the others, if this rank
    /// has completed later calls by lines.
    pub fn hear(&mut self, heard: Loss) -> Option<Loss> {
        let known = self.loss.get_or_insert(heard);
        let until = later(known.until, heard.until);
        if is_before(heard.from, known.from) {
            *known = heard;
        }
        known.until = self.done.last().map_or(until, |done| later(done, until));
        (known.until != until).then_some(*known)
    }

    /// The loss because of which a call cannot succeed.
    pub fn ends(&self, number: u32) -> Option<Loss> {
        let ends = |loss: &Loss| !is_before(number, loss.from) && !is_before(loss.until, number);
        self.loss.filter(ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(from: u32, until: u32) -> Loss {
        Loss { from, until, rank: 7, cause: Cause::Dropped }
    }

    #[test]
    fn calls_have_the_lines_in_their_order() {
        let mut turns = LineTurns::default();
        [3, 5, u32::MAX].into_iter().for_each(|number| turns.open(number));
        assert_eq!(
            [3, 5, 9].map(|number| turns.turn(number)),
            [LineTurn::Now, LineTurn::Later, LineTurn::Later]
        );
        turns.give_way(5);
        turns.done(u32::MAX);
        assert_eq!(turns.turn(u32::MAX), LineTurn::Later, "it cannot be done before its turn");
        turns.done(3);
        assert_eq!(turns.turn(u32::MAX), LineTurn::Now);
    }

    #[test]
    fn a_call_that_fails_ends_the_lines_for_those_after_it() {
        let mut turns = LineTurns::default();
        [3, 4, 6].into_iter().for_each(|number| turns.open(number));
        assert_eq!(turns.fail(5, 7, Cause::Dropped), None, "it was by messages");
        assert_eq!(turns.fail(4, 7, Cause::Dropped), Some(loss(4, 4)));
        assert_eq!(
            [3, 4, 6].map(|number| turns.turn(number)),
            [LineTurn::Now, LineTurn::Lost, LineTurn::Lost]
        );
        assert_eq!([3, 4, 5].map(|number| turns.are_for(number)), [true, false, false]);
        assert_eq!([3, 4, 5].map(|number| turns.ends(number)), [None, Some(loss(4, 4)), None]);
        assert_eq!(turns.fail(6, 7, Cause::Dropped), Some(loss(4, 6)), "that is news");
        assert_eq!(turns.fail(3, 7, Cause::Failed).map(|it| (it.from, it.until)), Some((3, 6)));
    }

    #[test]
    fn where_no_lines_were_found_they_are_looked_for_less_and_less_often() {
        let mut turns = LineTurns::default();
        let mut number = u32::MAX - 3;
        for count in [8, 16, 32] {
            turns.open(number);
            assert_eq!(turns.turn(number), LineTurn::Now);
            turns.refuse(number);
            assert_eq!(turns.turn(number), LineTurn::Lost);
            turns.give_way(number);
            assert_eq!(turns.ends(number), None, "it goes on by messages");
            assert!((0..count).all(|later| !turns.are_for(number.wrapping_add(later))));
            number = number.wrapping_add(count);
            assert!(turns.are_for(number));
        }
        turns.agree();
        turns.refuse(number);
        assert!(!turns.are_for(number.wrapping_add(7)) && turns.are_for(number.wrapping_add(8)));
    }

    #[test]
    fn who_answers_for_a_rank_says_only_what_is_news() {
        let mut turns = LineTurns::default();
        let passed = turns.passed().clone();
        assert_eq!(passed.correct(loss(3, 3)), None, "it has made no call");
        for (number, answer) in [(3, None), (u32::MAX, None), (4, Some(loss(3, 4)))] {
            turns.pass(number);
            assert_eq!(passed.correct(loss(3, 3)), answer, "after {number}");
        }
    }

    #[test]
    fn a_rank_that_has_gone_on_says_how_far() {
        let mut turns = LineTurns::default();
        for number in [u32::MAX, 0, 1] {
            turns.open(number);
            turns.done(number);
        }
        assert_eq!(turns.hear(loss(u32::MAX, 0)), Some(loss(u32::MAX, 1)));
        assert_eq!(turns.hear(loss(0, 0)), None, "all know");
        assert_eq!(turns.hear(loss(0, 5)), None);
        assert_eq!(turns.ends(5), Some(loss(u32::MAX, 5)));
        assert_eq!((turns.ends(6), turns.ends(u32::MAX - 1)), (None, None));
    }

    #[test]
    fn who_tells_of_a_loss_is_told_of_later_calls() {
        let mut turns = LineTurns::default();
        let heard = Loss { from: 3, until: 5, rank: 1, cause: Cause::Dropped };
        let mut answerer = turns.passed().clone();
        let letter = heard.to_bytes();
        assert_eq!(answerer.answer(LOSS_TAG, &letter), None, "no call was made by lines");
        turns.pass(9);
        let answer = answerer.answer(LOSS_TAG, &letter);
        let later = Loss { until: 9, ..heard };
        assert_eq!(answer.and_then(|answer| Loss::from_bytes(&answer)), Some(later));
        assert_eq!(answerer.answer(LOSS_TAG, &later.to_bytes()), None, "that is no news");
        assert_eq!(answerer.answer(LOSS_TAG + 1, &letter), None, "another's letter");
        assert_eq!(answerer.answer(LOSS_TAG, &letter[1..]), None);
    }
}
