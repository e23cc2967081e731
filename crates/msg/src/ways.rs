//! The ways to carry a long message whose bytes the receiver can reach, and the choice among them.
//!
//! Which way is fastest depends on the distance of the two processors, on what else runs there, on
//! who else uses the memory, and on whether the sender waits. No table has the answer, and it
//! changes while a job runs. So the receiver, which chooses, measures: for each source and class of
//! lengths it keeps what each way took, takes the fastest, and tries the others now and then, for
//! at most a hundredth of the time that the messages of the class take.

use std::fmt;
use std::str::FromStr;

use hikyaku_nic::time::Time;
use thiserror::Error;

use crate::tally::Reason;

/// How a long message is carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Way {
    /// Through the landing ring: the sender stores it, the receiver copies it out. Two copies, at
    /// the same time.
    Ring,
    /// The receiver copies it out of the sender's memory.
    Read,
    /// Both copy, from opposite ends.
    Both,
}

impl Way {
    /// All ways.
    pub const ALL: [Way; 3] = [Way::Ring, Way::Read, Way::Both];

    /// How messages go by it.
    pub(crate) fn in_words(self) -> &'static str {
        match self {
            Way::Ring => "through rings",
            Way::Read => "copied by the receiver",
            Way::Both => "copied by both ends",
        }
    }
}

/// How to carry long messages: as measured to be fastest, or in one way wherever that is possible.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LongMessages {
    /// The fastest way.
    #[default]
    Fastest,
    /// This way.
    By(Way),
}

/// A text that is no [`LongMessages`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{given}` is no way of long messages: give auto, ring, read or both")]
pub struct NotAWay {
    given: String,
}

impl LongMessages {
    /// The variable of the environment that chooses it.
    pub const VARIABLE: &'static str = "HIKYAKU_LONG_MESSAGES";

    const NAMES: [(&'static str, LongMessages); 4] = [
        ("auto", LongMessages::Fastest),
        ("ring", LongMessages::By(Way::Ring)),
        ("read", LongMessages::By(Way::Read)),
        ("both", LongMessages::By(Way::Both)),
    ];
}

impl FromStr for LongMessages {
    type Err = NotAWay;

    fn from_str(given: &str) -> Result<LongMessages, NotAWay> {
        let found = LongMessages::NAMES.into_iter().find(|(name, _)| *name == given);
        found.map(|(_, ways)| ways).ok_or_else(|| NotAWay { given: given.to_owned() })
    }
}

impl fmt::Display for LongMessages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = LongMessages::NAMES.into_iter().find(|(_, ways)| ways == self);
        f.write_str(found.map_or("", |(name, _)| name))
    }
}

/// Messages of at least this length, bytes, are of the first class; each further class is of twice
/// the length.
pub(crate) const FIRST_CLASS: u64 = 4 << 10;

/// Classes of lengths. The last is of all longer messages.
pub(crate) const CLASSES: usize = 16;

/// Messages in a row by which a way is tried. The first one finds caches and pages in the state
/// that another way has left, and says nothing: a single message by the ring, tried among copies by
/// both ends, took 85 us where a row of them takes 30 (256 KiB, far cores of an EPYC).
const TRIES: u32 = 4;

/// What part of the time of a class is for trying other ways: one in this many.
const TRIES_SHARE: u64 = 100;

/// The fastest way costs at most this many eighths more than what was known: one interruption says
/// little.
const RISE: u64 = 10;

/// Messages in a row by the fastest way that take a quarter more or less than before: then what is
/// known of the others is old.
const NEWS: u32 = 8;

/// What the ways have taken, from one source.
#[derive(Debug, Default)]
pub(crate) struct Ways {
    classes: [Class; CLASSES],
    /// When the last message had come.
    last: Time,
}

#[derive(Debug, Clone, Copy, Default)]
struct Class {
    took: [Took; 3],
    /// The way that is being tried, and how many messages are still to go by it.
    trial: Option<(Way, u32)>,
    /// Nanoseconds of all messages, and of those that were tries.
    all: u64,
    tries: u64,
    /// What the fastest way took when the others were last tried because of news, and how many
    /// messages in a row have taken something else.
    usual: u64,
    unusual: u32,
}

/// What one way took.
#[derive(Debug, Clone, Copy, Default)]
struct Took {
    /// Nanoseconds for 8 KiB, as far as known.
    estimate: u64,
    is_known: bool,
    /// `Class::all` when it was last taken.
    at: u64,
}

impl Ways {
    /// The way for the next message of this length, and why.
    pub(crate) fn choose(&mut self, length: u64) -> (Way, Reason) {
        let class = &mut self.classes[class_of(length)];
        if class.trial.is_none() {
            class.trial = class.next_trial().map(|way| (way, TRIES));
        }
        match class.trial {
            Some((way, _)) => (way, Reason::Tried),
            None => (class.fastest(), Reason::Fastest),
        }
    }

    /// Notes a message, carried from `began` to `now`.
    ///
    /// What a way costs is not over when the message is there: the program finds its data in the
    /// caches of one core or the other, and the sender its buffer. So the time since the message
    /// before counts, too, up to four times that of the message. Between far cores 256 KiB were
    /// there soonest by both ends, and a program that used them took 95 us a message, by the ring
    /// 35 (EPYC).
    pub(crate) fn note(&mut self, length: u64, way: Way, began: Time, now: Time) {
        let class = &mut self.classes[class_of(length)];
        let carried = (now - began).nanoseconds().max(1);
        let nanoseconds = (now - self.last).nanoseconds().clamp(carried, carried.saturating_mul(4));
        self.last = now;
        let cost = (nanoseconds.saturating_mul(8 << 10) / length.max(1)).max(1);
        class.all = class.all.saturating_add(nanoseconds);
        let took = &mut class.took[way as usize];
        took.at = class.all;
        match class.trial {
            Some((tried, left)) if tried == way => {
                class.tries = class.tries.saturating_add(nanoseconds);
                // After the first, the least counts.
                took.estimate = if left + 1 >= TRIES { cost } else { cost.min(took.estimate) };
                took.is_known = true;
                class.trial = (left > 1).then_some((way, left - 1));
            }
            // It was chosen before the trial began.
            Some(_) => {}
            None => {
                let most = (took.estimate.saturating_mul(RISE) / 8).max(took.estimate + 1);
                took.estimate = cost.min(most);
                class.look_for_news(cost);
            }
        }
    }
}

impl Class {
    /// The way to be tried now: one that is not known, or, if there is time for it, the one that
    /// was not taken for longest.
    fn next_trial(&self) -> Option<Way> {
        let unknown = Way::ALL.into_iter().find(|way| !self.took[*way as usize].is_known);
        if unknown.is_some() || self.tries.saturating_mul(TRIES_SHARE) >= self.all {
            return unknown;
        }
        let others = Way::ALL.into_iter().filter(|way| *way != self.fastest());
        others.min_by_key(|way| self.took[*way as usize].at)
    }

    /// Has the ways tried again if what the fastest takes has changed: another phase of the
    /// program, or another machine. Not if that has taken a twentieth of the time already.
    fn look_for_news(&mut self, cost: u64) {
        let (less, more) = (self.usual - self.usual / 4, self.usual.saturating_add(self.usual / 4));
        self.unusual =
            if (less..=more).contains(&cost) { 0 } else { self.unusual.saturating_add(1) };
        if self.unusual >= NEWS && self.tries.saturating_mul(20) < self.all {
            (self.usual, self.unusual) = (cost, 0);
            self.took.iter_mut().for_each(|took| took.is_known = false);
        }
    }

    fn fastest(&self) -> Way {
        let cost = |way: &Way| self.took[*way as usize].estimate;
        Way::ALL.into_iter().min_by_key(cost).unwrap_or(Way::Ring)
    }
}

pub(crate) fn class_of(length: u64) -> usize {
    let doublings = (length.max(FIRST_CLASS) / FIRST_CLASS).ilog2() as usize;
    doublings.min(CLASSES - 1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Carries `messages` of 1 MiB on a machine where the ways take so many microseconds. Returns
    /// how often each was chosen and the time of those that were not the fastest.
    fn carry(ways: &mut Ways, messages: u32, micros: [u64; 3]) -> ([u32; 3], f64) {
        let (mut chosen, mut other, mut all) = ([0; 3], 0, 0);
        for _ in 0..messages {
            let (way, _) = ways.choose(1 << 20);
            let took = micros[way as usize];
            let began = ways.last;
            ways.note(1 << 20, way, began, began + Time::from_nanoseconds(took * 1000));
            chosen[way as usize] += 1;
            all += took;
            other += if took > *micros.iter().min().unwrap() { took } else { 0 };
        }
        (chosen, other as f64 / all as f64)
    }

    #[test]
    fn the_fastest_way_is_taken_and_the_others_are_tried_a_little() {
        for fastest in 0..3 {
            let mut ways = Ways::default();
            let mut micros = [100, 100, 100];
            micros[fastest] = 50;
            let (chosen, _) = carry(&mut ways, 12, micros);
            assert!(chosen.iter().all(|times| *times >= 2), "{chosen:?}");
            let (chosen, share) = carry(&mut ways, 10_000, micros);
            assert!(chosen.iter().all(|times| *times > 10), "{chosen:?}");
            assert!(share < 0.015, "{share}");
        }
    }

    #[test]
    fn a_machine_that_changes_is_followed() {
        let mut ways = Ways::default();
        carry(&mut ways, 1000, [50, 100, 100]);
        // The way in use becomes slow: at once. Another becomes faster: as soon as it is tried.
        carry(&mut ways, 20, [200, 100, 150]);
        assert_eq!(ways.choose(1 << 20).0, Way::Read);
        carry(&mut ways, 5000, [200, 100, 25]);
        let (chosen, _) = carry(&mut ways, 100, [200, 100, 25]);
        assert!(chosen[Way::Both as usize] >= 90, "{chosen:?}");
    }

    #[test]
    fn another_phase_of_the_program_is_noticed_soon() {
        let mut ways = Ways::default();
        for _ in 0..5 {
            carry(&mut ways, 1000, [50, 100, 100]);
            // Now both would take 25, if they were tried; the ring takes less than before, too.
            let (chosen, _) = carry(&mut ways, 40, [33, 100, 25]);
            assert!(chosen[Way::Both as usize] >= 20, "{chosen:?}");
        }
    }

    #[test]
    fn one_interruption_changes_nothing() {
        let mut ways = Ways::default();
        carry(&mut ways, 100, [80, 50, 100]);
        let began = ways.last;
        ways.note(1 << 20, Way::Read, began, began + Time::from_nanoseconds(20_000_000));
        let (chosen, _) = carry(&mut ways, 100, [80, 50, 100]);
        assert!(chosen[Way::Read as usize] >= 90, "{chosen:?}");
    }

    #[test]
    fn what_a_way_leaves_behind_counts() {
        // Both ends have the message there soonest, and then the program waits for its data.
        let (mut ways, carried, after) = (Ways::default(), [50, 60, 40], [10, 10, 60]);
        let mut now = Time::ZERO;
        for _ in 0..50 {
            let (way, _) = ways.choose(1 << 20);
            let began = now + Time::from_nanoseconds(after[way as usize] * 1000);
            now = began + Time::from_nanoseconds(carried[way as usize] * 1000);
            ways.note(1 << 20, way, began, now);
        }
        assert_eq!(ways.choose(1 << 20), (Way::Ring, Reason::Fastest));
    }

    #[test]
    fn lengths_have_classes_and_any_length_one() {
        let mut ways = Ways::default();
        carry(&mut ways, 100, [100, 50, 100]);
        assert_eq!(ways.choose((2 << 20) - 1).0, Way::Read, "the same class");
        assert_eq!(ways.choose(2 << 20), (Way::Ring, Reason::Tried), "nothing is known");
        for length in [0, 1, 4 << 10, u64::MAX] {
            ways.note(length, Way::Both, Time::ZERO, Time::from_picoseconds(u64::MAX));
            ways.note(length, Way::Both, Time::ZERO, Time::ZERO);
            ways.choose(length);
        }
    }

    #[test]
    fn ways_are_read_as_they_are_written() {
        for (name, ways) in LongMessages::NAMES {
            assert_eq!((name.parse(), ways.to_string().as_str()), (Ok(ways), name));
        }
        let error = "kernel".parse::<LongMessages>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "`kernel` is no way of long messages: give auto, ring, read or both"
        );
    }
}
