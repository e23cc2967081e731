//! The ways to carry a long message whose bytes the receiver can reach, and the choice among them.
//!
//! Which way is fastest depends on the distance of the two processors, on what else runs there, on
//! who else uses the memory, and on whether the sender waits. No table has the answer, and it
//! changes while a job runs. So the receiver, which chooses, measures: for each source and class of
//! lengths it keeps what each way took, takes the fastest, and tries the others now and then, for
//! at most a hundredth of the time that the messages of the class take.

use std::fmt;
use std::str::FromStr;

use hikyaku_nic::fabric::Space;
use hikyaku_nic::time::Time;
use thiserror::Error;

use crate::tally::WayReason;

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

/// Messages whose times are added up. Two that travel together, as those of an exchange with two
/// neighbours, share their time: alone, one of them says nothing.
const BLOCK: u32 = 2;

/// Blocks in a row by which a way is tried. The first one finds caches and pages in the state that
/// another way has left, and does not count: a single message by the ring, tried among copies by
/// both ends, took 85 us where a row of them takes 30 (256 KiB, far cores of an EPYC). In an
/// exchange the other end begins one later, and its buffers, of which two take turns, are clean
/// after two more.
const TRIES: u32 = 5;

/// What part of the time of a class may be lost by trying other ways: one in this many.
const TRIES_SHARE: u64 = 100;

/// After a message of the other end, so many messages to it say what is taken of its own.
const TOLD: u8 = 4;

/// The fastest way costs at most this many eighths more than what was known: one interruption says
/// little.
const RISE: u64 = 10;

/// Another way is taken when it costs at most this many sixteenths of the one in use. Ways that
/// differ by less are as good as each other, and to go to and fro between them is worse than
/// either.
const BETTER: u64 = 15;

/// Blocks in a row by the fastest way that take a quarter more or less than before: then what is
/// known of the others is old.
const NEWS: u32 = 4;

/// What of a message decides which way is the fastest, besides the two ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MessageKind {
    /// Bytes that are carried.
    pub(crate) length: u64,
    /// Whether the sender has them in memory that ranks share, where a copy needs no kernel.
    pub(crate) is_shared: bool,
}

impl MessageKind {
    /// The kind of a message of which the receiver takes `length` bytes at this address.
    pub(crate) fn new(length: u64, address: Option<(Space, u64)>) -> MessageKind {
        MessageKind { length, is_shared: matches!(address, Some((Space::Region, _))) }
    }
}

/// What the ways have taken, from one source.
#[derive(Debug, Default)]
pub(crate) struct Ways {
    /// Of messages from memory of one process, and from memory that ranks share.
    classes: [[LengthClass; CLASSES]; 2],
    /// When the last message had come.
    last: Time,
}

/// How a rank receives, as it tells the other end of its messages: a try, or what it takes.
///
/// In an exchange each end receives, and a way that needs the sender's help takes long while that
/// one copies by itself. With both ends reading, an exchange of 2 x 64 KiB of fresh data took 73
/// us, with both on the ring 22, and a try of the ring by one of them looked slower than either
/// (far cores of an EPYC). So whoever tries a way says so in what it announces, and the other end
/// tries that way with it.
///
/// Nor may they take different ways: one that reads while it serves the other's ring is slower than
/// either, takes that for what reading costs, and goes back (2 x 64 KiB, untouched, far: reading
/// 13.2 us, the ring 15.8, one of each 18.6). So the end of the lower number says what it takes,
/// and the other one takes that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trial {
    /// The way.
    pub(crate) way: Way,
    /// Which of the rank's tries in this class it is; [`Trial::NONE`]: no try, but what it takes.
    /// Each try is followed once: it may never end, if the rank receives no more.
    pub(crate) number: u8,
}

impl Trial {
    const NONE: u8 = 0;
}

/// What is known of messages of about one length.
#[derive(Debug, Clone, Copy, Default)]
struct LengthClass {
    took: [Took; 3],
    /// The way that is taken when none is tried.
    taken: Option<Way>,
    attempt: Option<Attempt>,
    /// How many tries this rank has begun, and the last one of the other end that was followed.
    trials: u8,
    followed: u8,
    /// To how many messages the other end is still told what is taken: it sends some, too.
    to_tell: u8,
    /// The messages that were added up since the last whole block.
    block: WayBlock,
    /// Nanoseconds of all messages, and those that tries have lost.
    all: u64,
    tries: u64,
    /// What the fastest way took when the others were last tried because of news, and how many
    /// blocks in a row have taken something else.
    usual: u64,
    unusual: u32,
}

/// A try that goes on.
#[derive(Debug, Clone, Copy)]
struct Attempt {
    way: Way,
    /// Whole blocks by it.
    blocks: u32,
    /// Of the blocks that count: what all cost, the least and the most that one did.
    all: u64,
    least: u64,
    most: u64,
    /// Whether this rank has begun it, and the other end follows.
    is_own: bool,
}

impl Attempt {
    fn new(way: Way, is_own: bool) -> Attempt {
        Attempt { way, blocks: 0, all: 0, least: u64::MAX, most: 0, is_own }
    }

    /// What a block costs, by those until now and one that has cost this: the mean without the
    /// least and the most. So neither an interruption counts, nor a block whose time has gone to
    /// the one before it, as that of every second one of a stream does.
    fn count(&mut self, cost: u64) -> u64 {
        self.all = self.all.saturating_add(cost);
        (self.least, self.most) = (self.least.min(cost), self.most.max(cost));
        match u64::from(self.blocks) {
            counted @ 0..3 => self.all / counted.max(1),
            counted => self.all.saturating_sub(self.least + self.most) / (counted - 2),
        }
        .max(1)
    }
}

/// What one way took.
#[derive(Debug, Clone, Copy, Default)]
struct Took {
    /// Nanoseconds for 8 KiB, as far as known.
    estimate: u64,
    is_known: bool,
    /// `LengthClass::all` when it was last taken.
    at: u64,
}

/// Consecutive messages that one way has carried, and what they took.
#[derive(Debug, Clone, Copy, Default)]
struct WayBlock {
    way: Option<Way>,
    messages: u32,
    nanoseconds: u64,
    bytes: u64,
}

impl Ways {
    /// The way for the next message of this kind, and why. `other`: what the sender tries or takes,
    /// with messages that it receives from here. `yields`: this rank ends a try of its own for its
    /// try, and takes what it takes.
    pub(crate) fn choose(
        &mut self,
        kind: MessageKind,
        other: Option<Trial>,
        yields: bool,
    ) -> (Way, WayReason) {
        let class = self.class(kind);
        class.to_tell = TOLD;
        let (taken, tried) = match other {
            Some(told) if told.number == Trial::NONE => (Some(told.way), None),
            tried => (None, tried),
        };
        if let Some(Trial { way, number }) = tried.filter(|it| it.number != class.followed)
            && (yields || class.attempt.is_none())
        {
            class.followed = number;
            if class.attempt.is_none_or(|own| own.way != way) {
                class.attempt = Some(Attempt::new(way, false));
            }
        }
        if class.attempt.is_none()
            && let Some(way) = class.next_trial()
        {
            // Not `Trial::NONE`.
            class.trials = class.trials % u8::MAX + 1;
            class.attempt = Some(Attempt::new(way, true));
        }
        match class.attempt {
            Some(Attempt { way, .. }) => (way, WayReason::Tried),
            None => (class.take(taken.filter(|_| yields)), WayReason::Fastest),
        }
    }

    /// The try to tell the other end of, with a message of this kind to it, or what is taken.
    pub(crate) fn trial(&mut self, kind: MessageKind) -> Option<Trial> {
        let class = self.class(kind);
        if let Some(Attempt { way, is_own, .. }) = class.attempt {
            return is_own.then_some(Trial { way, number: class.trials });
        }
        class.to_tell = class.to_tell.checked_sub(1)?;
        class.taken.map(|way| Trial { way, number: Trial::NONE })
    }

    /// Notes a message, carried from `began` to `now`.
    ///
    /// What a way costs is not over when the message is there: the program finds its data in the
    /// caches of one core or the other, and the sender its buffer. So what counts is the time since
    /// the message before, up to four times that of the message. Between far cores 256 KiB were
    /// there soonest by both ends, and a program that used them took 95 us a message, by the ring
    /// 35 (EPYC). And messages that travel together do not count their time twice.
    pub(crate) fn note(&mut self, kind: MessageKind, way: Way, began: Time, now: Time) {
        let length = kind.length;
        let most = (now - began).nanoseconds().max(1).saturating_mul(4);
        let nanoseconds = (now - self.last).nanoseconds().clamp(1, most);
        self.last = now;
        let class = self.class(kind);
        class.all = class.all.saturating_add(nanoseconds);
        class.took[way as usize].at = class.all;
        match class.attempt {
            Some(attempt) if attempt.way == way => class.count_try(nanoseconds, length),
            // It was chosen before the trial began.
            Some(_) => return,
            None => {}
        }
        if let Some(cost) = class.block.add(way, nanoseconds, length) {
            class.learn(way, cost);
        }
    }

    /// When the last message had come.
    pub(crate) fn last(&self) -> Time {
        self.last
    }

    fn class(&mut self, kind: MessageKind) -> &mut LengthClass {
        &mut self.classes[usize::from(kind.is_shared)][class_of(kind.length)]
    }
}

impl WayBlock {
    /// Adds a message. Returns the nanoseconds for 8 KiB if the block is whole.
    fn add(&mut self, way: Way, nanoseconds: u64, length: u64) -> Option<u64> {
        if self.way != Some(way) {
            *self = WayBlock { way: Some(way), ..WayBlock::default() };
        }
        self.messages += 1;
        self.nanoseconds = self.nanoseconds.saturating_add(nanoseconds);
        self.bytes = self.bytes.saturating_add(length);
        if self.messages < BLOCK {
            return None;
        }
        let cost = self.nanoseconds.saturating_mul(8 << 10) / self.bytes.max(1);
        *self = WayBlock::default();
        Some(cost.max(1))
    }
}

impl LengthClass {
    /// The way to be tried now: one that is not known, or, if there is time for it, the one that
    /// was not taken for longest.
    fn next_trial(&self) -> Option<Way> {
        // The ring last: it is the slowest where ranks share memory or processors.
        let mut all = Way::ALL.into_iter().rev();
        let unknown = all.find(|way| !self.took[*way as usize].is_known);
        if unknown.is_some() || self.tries.saturating_mul(TRIES_SHARE) >= self.all {
            return unknown;
        }
        let others = Way::ALL.into_iter().filter(|way| *way != self.fastest());
        others.min_by_key(|way| self.took[*way as usize].at)
    }

    /// The way to take: that of the other end, or the one in use, unless another is better.
    fn take(&mut self, others: Option<Way>) -> Way {
        if others.is_some() {
            self.taken = others;
        }
        let (cost, fastest) = (|way: Way| self.took[way as usize].estimate, self.fastest());
        let is_better = |taken: &Way| cost(fastest) <= cost(*taken).saturating_mul(BETTER) / 16;
        let kept = |taken: &Way| others.is_some() || !is_better(taken);
        let taken = self.taken.filter(kept).unwrap_or(fastest);
        self.taken = Some(taken);
        taken
    }

    /// Accounts for a message of a try: for what it has taken more than the fastest way would have.
    /// Something is lost in any case, or equal ways would be tried for ever.
    fn count_try(&mut self, nanoseconds: u64, length: u64) {
        let fastest = self.took[self.fastest() as usize].estimate;
        let expected = fastest.saturating_mul(length) >> 13;
        let lost = nanoseconds.saturating_sub(expected).max(nanoseconds / 8);
        self.tries = self.tries.saturating_add(lost);
    }

    /// Takes in what a block of messages has taken.
    fn learn(&mut self, way: Way, cost: u64) {
        let took = &mut self.took[way as usize];
        let Some(attempt) = &mut self.attempt else {
            // A quarter of what is new, so that a block alone changes little.
            let most = (took.estimate.saturating_mul(RISE) / 8).max(took.estimate + 4);
            let sum = took.estimate.saturating_mul(3).saturating_add(cost.min(most));
            took.estimate = (sum / 4).max(1);
            return self.look_for_news(cost);
        };
        if attempt.blocks > 0 {
            took.estimate = attempt.count(cost);
            took.is_known = true;
        }
        attempt.blocks += 1;
        if attempt.blocks == TRIES {
            self.attempt = None;
        }
    }

    /// Has the ways tried again if what the fastest takes has changed: another phase of the
    /// program, or another machine. Not if tries have lost a tenth of the time already.
    fn look_for_news(&mut self, cost: u64) {
        let (less, more) = (self.usual - self.usual / 4, self.usual.saturating_add(self.usual / 4));
        self.unusual =
            if (less..=more).contains(&cost) { 0 } else { self.unusual.saturating_add(1) };
        if self.unusual >= NEWS && self.tries.saturating_mul(10) < self.all {
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

    /// All messages here are of 1 MiB.
    const KIND: MessageKind = MessageKind { length: 1 << 20, is_shared: false };

    /// Messages until each way has been tried.
    const FIRST: u32 = BLOCK * TRIES * Way::ALL.len() as u32;

    fn micros(span: u64) -> Time {
        Time::from_nanoseconds(span * 1000)
    }

    fn next(ways: &mut Ways) -> Way {
        ways.choose(KIND, None, false).0
    }

    fn fastest(ways: &Ways) -> Way {
        ways.classes[0][class_of(KIND.length)].fastest()
    }

    /// Carries `messages` on a machine where the ways take so many microseconds. Returns how often
    /// each was chosen, and the share of the time that was lost by others than the fastest.
    fn carry(ways: &mut Ways, messages: u32, took: [u64; 3]) -> ([u32; 3], f64) {
        let (mut chosen, mut lost, mut all) = ([0; 3], 0, 0);
        for _ in 0..messages {
            let way = next(ways);
            let span = took[way as usize];
            let began = ways.last;
            ways.note(KIND, way, began, began + micros(span));
            chosen[way as usize] += 1;
            all += span;
            lost += span - took.iter().min().unwrap();
        }
        (chosen, lost as f64 / all as f64)
    }

    #[test]
    fn the_fastest_way_is_taken_and_the_others_are_tried_a_little() {
        for fastest in 0..3 {
            let mut ways = Ways::default();
            let mut took = [100, 100, 100];
            took[fastest] = 50;
            let (chosen, _) = carry(&mut ways, FIRST, took);
            assert_eq!(chosen, [FIRST / 3; 3]);
            let (chosen, share) = carry(&mut ways, 10_000, took);
            assert!(chosen.iter().all(|times| *times > 10), "{chosen:?}");
            assert!(share < 0.015, "{share}");
        }
    }

    #[test]
    fn a_machine_that_changes_is_followed() {
        let mut ways = Ways::default();
        carry(&mut ways, 1000, [50, 100, 100]);
        // The way in use becomes slow: at once. Another becomes faster: as soon as it is tried.
        carry(&mut ways, 60, [200, 100, 150]);
        assert_eq!(next(&mut ways), Way::Read);
        carry(&mut ways, 10_000, [200, 100, 25]);
        let (chosen, _) = carry(&mut ways, 100, [200, 100, 25]);
        assert!(chosen[Way::Both as usize] >= 90, "{chosen:?}");
    }

    #[test]
    fn another_phase_of_the_program_is_noticed_soon() {
        let mut ways = Ways::default();
        for _ in 0..5 {
            carry(&mut ways, 1000, [50, 100, 100]);
            // Now both would take 25, if they were tried; the ring takes less than before, too.
            let (chosen, _) = carry(&mut ways, 100, [33, 100, 25]);
            assert!(chosen[Way::Both as usize] >= 50, "{chosen:?}");
        }
    }

    #[test]
    fn one_interruption_changes_nothing() {
        let mut ways = Ways::default();
        carry(&mut ways, 100, [80, 50, 100]);
        let began = ways.last;
        ways.note(KIND, Way::Read, began, began + micros(20_000));
        let (chosen, _) = carry(&mut ways, 1000, [80, 50, 100]);
        assert!(chosen[Way::Read as usize] >= 950, "{chosen:?}");
    }

    #[test]
    fn ways_that_are_as_good_do_not_take_turns() {
        let (mut ways, mut changes, mut before) = (Ways::default(), 0, None);
        for message in 0..2000_u64 {
            let (way, why) = ways.choose(KIND, None, false);
            if why == WayReason::Fastest {
                changes += u32::from(before.is_some_and(|before| before != way));
                before = Some(way);
            }
            // Either takes 100 us, give or take 2.
            let (began, span) = (ways.last, 98 + message * 7919 % 5);
            ways.note(KIND, way, began, began + micros(span));
        }
        assert_eq!(changes, 0);
    }

    #[test]
    fn what_a_way_leaves_behind_counts() {
        // Both ends have the message there soonest, and then the program waits for its data.
        let (mut ways, carried, after) = (Ways::default(), [50, 60, 40], [10, 10, 60]);
        let mut now = Time::ZERO;
        for _ in 0..50 {
            let way = next(&mut ways);
            let began = now + micros(after[way as usize]);
            now = began + micros(carried[way as usize]);
            ways.note(KIND, way, began, now);
        }
        assert_eq!(next(&mut ways), Way::Ring);
    }

    #[test]
    fn messages_that_travel_together_share_their_time() {
        // Two at a time: the ring's take 60 us each, and 60 in all.
        let mut ways = Ways::default();
        for _ in 0..50 {
            let (way, began) = (next(&mut ways), ways.last);
            let (first, second) = if way == Way::Ring { (59, 60) } else { (35, 70) };
            for came in [first, second] {
                ways.note(KIND, way, began, began + micros(came));
            }
        }
        assert_eq!(next(&mut ways), Way::Ring);
    }

    /// Two ranks exchange two messages each, which take so long when they choose these ways.
    fn exchange(ends: &mut [Ways; 2], times: u32, took: impl Fn(Way, Way) -> u64) {
        for _ in 0..times {
            let told = [0, 1].map(|end: usize| ends[1 - end].trial(KIND));
            // Both messages of a rank are announced before it takes in the other's.
            let chosen = [0, 1].map(|end| {
                let [first, second] =
                    [(); 2].map(|()| ends[end].choose(KIND, told[end], end == 1).0);
                assert_eq!(first, second, "nothing was noted in between");
                first
            });
            let span = took(chosen[0], chosen[1]);
            for (ways, way) in ends.iter_mut().zip(chosen) {
                let began = ways.last;
                for came in [span / 2, span] {
                    ways.note(KIND, way, began, began + micros(came));
                }
            }
        }
    }

    #[test]
    fn both_ends_of_an_exchange_try_a_way_together() {
        // As measured, fresh: a ring whose sender reads meanwhile waits for it.
        let fresh = |one, other| match (one, other) {
            (Way::Ring, Way::Ring) => 22,
            (Way::Ring, _) | (_, Way::Ring) => 80,
            _ => 72,
        };
        let warm =
            |one: Way, other: Way| if (one, other) == (Way::Read, Way::Read) { 15 } else { 22 };
        let mut ends = <[Ways; 2]>::default();
        // One has learned something before, so that they do not begin alike.
        carry(&mut ends[0], 14, [50, 40, 60]);
        for took in [&warm as &dyn Fn(Way, Way) -> u64, &fresh, &warm, &fresh] {
            // Long enough for tries where nothing shows that the times have changed.
            exchange(&mut ends, 10_000, took);
            let (one, other) = (fastest(&ends[0]), fastest(&ends[1]));
            assert_eq!(one, other);
            assert_eq!(
                took(one, other),
                took(Way::Ring, Way::Ring).min(took(Way::Read, Way::Read))
            );
        }
    }

    #[test]
    fn what_is_taken_is_told_to_who_sends_as_well() {
        let mut ways = Ways::default();
        carry(&mut ways, 1000, [50, 100, 100]);
        let told = Some(Trial { way: Way::Ring, number: Trial::NONE });
        assert_eq!(next(&mut ways), Way::Ring);
        (0..TOLD).for_each(|_| assert_eq!(ways.trial(KIND), told));
        assert_eq!(ways.trial(KIND), None, "nothing has come since");
        // The other one takes it, and goes on to try ways; the rank with the lower number does not.
        let mut other = Ways::default();
        carry(&mut other, 1000, [100, 50, 100]);
        let mut chosen = |yields| {
            let all = [(); 2000].map(|()| {
                let way = other.choose(KIND, told, yields).0;
                let began = other.last;
                other.note(KIND, way, began, began + micros([100, 50, 100][way as usize]));
                way
            });
            all.iter().filter(|way| **way == Way::Ring).count()
        };
        assert!(chosen(false) < 200);
        let followed = chosen(true);
        assert!(followed > 1800 && followed < 2000, "{followed}");
    }

    #[test]
    fn times_of_one_message_that_go_to_another_do_not_count() {
        // Every other message of a stream seems to take no time: the ring takes 100, not 10.
        let mut ways = Ways::default();
        for message in 0..400 {
            let way = next(&mut ways);
            let span = if way != Way::Ring { 90 } else { [10, 10, 190, 190][message % 4] };
            let began = ways.last;
            ways.note(KIND, way, began, began + micros(span));
        }
        assert_ne!(fastest(&ways), Way::Ring);
    }

    #[test]
    fn a_try_of_the_other_end_is_followed_once() {
        let mut ways = Ways::default();
        carry(&mut ways, 1000, [50, 100, 100]);
        let other = Some(Trial { way: Way::Both, number: 7 });
        let mut tried = 0;
        for _ in 0..100 {
            let (way, _) = ways.choose(KIND, other, false);
            if way == Way::Both {
                tried += 1;
                assert_eq!(ways.trial(KIND), None, "the one who follows says nothing");
            }
            let began = ways.last;
            ways.note(KIND, way, began, began + micros(50));
        }
        assert_eq!(tried, BLOCK * TRIES);
        // Of two who try at once one yields.
        let mut ways = Ways::default();
        let other = Some(Trial { way: Way::Read, number: 7 });
        assert_eq!(next(&mut ways), Way::Both);
        assert_eq!(ways.choose(KIND, other, false).0, Way::Both);
        assert_eq!(ways.choose(KIND, other, true).0, Way::Read);
    }

    #[test]
    fn lengths_have_classes_and_any_length_one() {
        let mut ways = Ways::default();
        carry(&mut ways, 100, [100, 50, 100]);
        let more = |length| MessageKind { length, ..KIND };
        assert_eq!(ways.choose(more((2 << 20) - 1), None, false).0, Way::Read, "the same class");
        for other in [more(2 << 20), MessageKind { is_shared: true, ..KIND }] {
            let unknown = ways.choose(other, None, false);
            assert_eq!(unknown, (Way::Both, WayReason::Tried), "nothing is known");
        }
        for length in [0, 1, 4 << 10, u64::MAX].map(more) {
            for now in [Time::from_picoseconds(u64::MAX), Time::ZERO, Time::ZERO] {
                ways.note(length, Way::Both, Time::ZERO, now);
            }
            ways.choose(length, None, false);
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
