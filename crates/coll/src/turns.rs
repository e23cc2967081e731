//! Which call of a communicator has the lines, and from which call on nobody uses them.
//!
//! Lines have one order of rounds, and calls may overlap: so calls take the lines in the order in
//! which they were made, each from its first round to its last. A call whose turn has not come
//! waits.
//!
//! A call that fails on the lines at one rank leaves that rank in another round than the others.
//! Such a rank never contributes again, and tells all others so ([`Loss`]):
//!
//! ```text
//!   calls     ... k - 1 │ k, which failed │ k + 1 ... until │ until + 1 ...
//!             by lines  │ an error        │ see below       │ by messages
//! ```
//!
//! Some ranks may have gone on before they heard: a root does not wait for its receivers. `until`
//! is the last call that any rank has made by lines. A call between the two starts anew by messages
//! where nothing of it was done. If a rank has done it by lines, that rank says so by a larger
//! `until`, and all others end it with the error of call `k`.
//!
//! Nobody can have completed a call after `k` to which all contribute: the rank that failed did
//! not. So what starts anew at one rank does so at all.

use std::collections::VecDeque;

use crate::error::Cause;

/// The end of a communicator's lines, as ranks tell each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// The call that failed.
    pub from: u32,
    /// The last call that any rank is known to have made by lines.
    pub until: u32,
    /// Where it failed.
    pub rank: u32,
    /// Why.
    pub cause: Cause,
}

/// Whether a call may use the lines now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// It has them.
    Now,
    /// Calls before it have them.
    Later,
    /// Nobody has them any more.
    Lost,
}

/// What one rank knows of who has the lines.
#[derive(Debug, Default)]
pub struct Turns {
    /// Calls that use the lines, in their order.
    open: VecDeque<u32>,
    /// The last one that was done by lines.
    done: Option<u32>,
    loss: Option<Loss>,
}

/// Whether call `one` was made before `other`: numbers come round.
fn is_before(one: u32, other: u32) -> bool {
    (one.wrapping_sub(other) as i32) < 0
}

fn later(one: u32, other: u32) -> u32 {
    if is_before(one, other) { other } else { one }
}

impl Turns {
    /// Whether a call may be made by lines.
    #[inline]
    pub fn are_for(&self, number: u32) -> bool {
        self.loss.is_none_or(|loss| is_before(number, loss.from))
    }

    /// A call by lines is made.
    #[inline]
    pub fn open(&mut self, number: u32) {
        self.open.push_back(number);
    }

    /// Whether a call has the lines.
    #[inline]
    pub fn turn(&self, number: u32) -> Turn {
        if !self.are_for(number) {
            Turn::Lost
        } else if self.open.front() == Some(&number) {
            Turn::Now
        } else {
            Turn::Later
        }
    }

    /// A call goes on without the lines.
    pub fn give_way(&mut self, number: u32) {
        self.open.retain(|other| *other != number);
    }

    /// The end of a call that was made by lines, if it still is.
    #[inline]
    pub fn done(&mut self, number: u32) {
        if self.open.front() == Some(&number) {
            self.open.pop_front();
            self.done = Some(number);
        }
    }

    /// A call has failed here. What the others must be told, if it was by lines and they do not
    /// know.
    pub fn fail(&mut self, number: u32, rank: u32, cause: Cause) -> Option<Loss> {
        let by_lines = self.open.contains(&number);
        self.give_way(number);
        if !by_lines || self.ends(number).is_some() {
            return None;
        }
        self.hear(Loss { from: number, until: number, rank, cause });
        self.loss
    }

    /// Another rank has told of a loss. What the others must be told in turn: that this rank has
    /// made later calls by lines.
    pub fn hear(&mut self, heard: Loss) -> Option<Loss> {
        let known = self.loss.get_or_insert(heard);
        let until = later(known.until, heard.until);
        if is_before(heard.from, known.from) {
            *known = heard;
        }
        known.until = self.done.map_or(until, |done| later(done, until));
        (known.until != until).then_some(*known)
    }

    /// Why a call cannot succeed.
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
        let mut turns = Turns::default();
        [3, 5, u32::MAX].into_iter().for_each(|number| turns.open(number));
        assert_eq!(
            [3, 5, 9].map(|number| turns.turn(number)),
            [Turn::Now, Turn::Later, Turn::Later]
        );
        turns.give_way(5);
        turns.done(u32::MAX);
        assert_eq!(turns.turn(u32::MAX), Turn::Later, "it cannot be done before its turn");
        turns.done(3);
        assert_eq!(turns.turn(u32::MAX), Turn::Now);
    }

    #[test]
    fn a_call_that_fails_ends_the_lines_for_those_after_it() {
        let mut turns = Turns::default();
        [3, 4, 6].into_iter().for_each(|number| turns.open(number));
        assert_eq!(turns.fail(5, 7, Cause::Dropped), None, "it was by messages");
        assert_eq!(turns.fail(4, 7, Cause::Dropped), Some(loss(4, 4)));
        assert_eq!([3, 4, 6].map(|number| turns.turn(number)), [Turn::Now, Turn::Lost, Turn::Lost]);
        assert_eq!([3, 4, 5].map(|number| turns.are_for(number)), [true, false, false]);
        assert_eq!([3, 4, 5].map(|number| turns.ends(number)), [None, Some(loss(4, 4)), None]);
        assert_eq!(turns.fail(6, 7, Cause::Dropped), Some(loss(4, 6)), "that is news");
        assert_eq!(turns.fail(3, 7, Cause::Failed).map(|it| (it.from, it.until)), Some((3, 6)));
    }

    #[test]
    fn a_rank_that_has_gone_on_says_how_far() {
        let mut turns = Turns::default();
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
}
