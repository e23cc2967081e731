//! The ways to carry a long message whose bytes the receiver can reach, and the choice among them.
//!
//! Which way is fastest depends on the distance of the two processors, on other work that runs
//! there, on other users of the memory, and on whether the sender waits. No table has the answer,
//! and it changes while a job runs. So the receiver, which chooses, measures: for each source and
//! class of lengths it keeps the time of each way, uses the fastest, and tries the others now and
//! then, for at most a hundredth of the time that the messages of the class take.
//!
//! One way has no announcement, so the receiver has to ask for it in advance: [`Way::Put`], for the
//! next messages of a class, [`PUTS`] of them or those of a try. Then one message is announced
//! again, so that the receiver may choose anew. Announcement, answer and choice each move a cache
//! line between the cores. 64 KiB one way by the ring took 2.2 us between near cores of an EPYC,
//! put 1.8 (far: 4.9 and 4.1); exchanges of 2 x 64 KiB 6.5 and 5.6. The receiver asks, rather than
//! that the sender measures, because the sender of a put is done when it has stored, and does not
//! see the cost of the loads.

use std::fmt;
use std::str::FromStr;

use hikyaku_nic::fabric::Space;
use hikyaku_nic::time::Time;
use thiserror::Error;

use crate::tally::WayReason;

/// How a long message is carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Way {
    /// Through the landing ring: the sender stores it, the receiver copies it out. The two copies
    /// overlap.
    Ring,
    /// The receiver copies it out of the sender's memory.
    Read,
    /// Both copy, from opposite ends.
    Both,
    /// Through the landing ring, without an announcement. For messages up to the eager limit, after
    /// their receiver has asked for it.
    Put,
}

impl Way {
    /// All ways.
    pub const ALL: [Way; 4] = [Way::Ring, Way::Read, Way::Both, Way::Put];

    /// The order in which they are first tried. The rings are last among announced ways: they are
    /// the slowest where ranks share memory or processors.
    const TRIED: [Way; 4] = [Way::Both, Way::Read, Way::Ring, Way::Put];

    /// The way in words, for reports.
    pub(crate) fn in_words(self) -> &'static str {
        match self {
            Way::Ring => "through rings",
            Way::Read => "copied by the receiver",
            Way::Both => "copied by both ends",
            Way::Put => "put into rings",
        }
    }
}

/// How to carry long messages: in the way measured to be fastest, or in one way where possible.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LongMessages {
    /// The fastest way.
    #[default]
    Fastest,
    /// This way.
    By(Way),
}

/// A text that is not a [`LongMessages`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{given}` is no way of long messages: give auto, ring, read, both or put")]
pub struct NotAWay {
    given: String,
}

impl LongMessages {
    /// The environment variable that chooses it.
    pub const VARIABLE: &'static str = "HIKYAKU_LONG_MESSAGES";

    const NAMES: [(&'static str, LongMessages); 5] = [
        ("auto", LongMessages::Fastest),
        ("ring", LongMessages::By(Way::Ring)),
        ("read", LongMessages::By(Way::Read)),
        ("both", LongMessages::By(Way::Both)),
        ("put", LongMessages::By(Way::Put)),
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

/// Messages of at least this length, bytes, are of the first class; each further class starts at
/// twice the length.
pub(crate) const FIRST_CLASS: u64 = 4 << 10;

/// Classes of lengths. The last one contains all longer messages.
pub(crate) const CLASSES: usize = 16;

/// Messages whose times are added up. Two messages that travel together, as in an exchange with two
/// neighbours, share their time: one of them alone is no measure.
const BLOCK: u32 = 2;

/// Consecutive blocks in which a way is tried. The first one finds caches and pages in the state
/// that another way has left, and does not count: a single message by the ring, tried among copies
/// by both ends, took 85 us where a row of them takes 30 (256 KiB, far cores of an EPYC). In an
/// exchange the other end begins one later, and its buffers, of which two are used in turn, are
/// clean after two more.
const TRIES: u32 = 5;

/// The same for messages of at least [`VERY_LONG`] bytes, whose cost hardly depends on what the
/// caches hold, and of which a program may send few.
const FEW_TRIES: u32 = 3;

const VERY_LONG: u64 = 4 << 20;

/// The share of a class's time that tries of other ways may cost: one in this many.
const TRIES_SHARE: u64 = 100;

/// After a message from the other end, this many messages to it carry the way that this rank uses.
const TOLD: u8 = 4;

/// How many messages are put into the ring before one is announced again, so that the receiver can
/// choose: one more announcement costs a quarter of 64 KiB.
const PUTS: u8 = 64;

/// How many of those are timed, the last ones, after one that marks the start of the next: two
/// clock readings, and their evaluation, take a twentieth of 64 KiB between near cores.
const TIMED: u8 = 8;

/// In eighths of the known cost, the most that one block of the fastest way may count: a single
/// interruption says little.
const RISE: u64 = 10;

/// Another way replaces the one in use if it costs at most this many sixteenths of it. Ways that
/// differ by less are equally good, and switching between them is worse than either.
const BETTER: u64 = 15;

/// Consecutive blocks of the fastest way that take a quarter more or less than before: after these
/// the measurements of the other ways are outdated.
const NEWS: u32 = 4;

/// The properties of a message that decide which way is fastest, besides the two ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MessageKind {
    /// Bytes that are carried.
    pub(crate) length: u64,
    /// Whether it is in memory that the ranks share, where a copy needs no kernel.
    pub(crate) is_shared: bool,
    /// Whether the whole message may be put into the ring without an announcement.
    pub(crate) is_eager: bool,
}

impl MessageKind {
    /// The kind of a message at this address, of which the receiver takes `length` bytes.
    pub(crate) fn new(length: u64, address: Option<(Space, u64)>, is_eager: bool) -> MessageKind {
        MessageKind { length, is_shared: matches!(address, Some((Space::Region, _))), is_eager }
    }

    /// Messages that may be put and messages that may not are in different classes, even if their
    /// lengths are similar.
    fn class(self) -> usize {
        (class_of(self.length) + usize::from(!self.is_eager)).min(CLASSES - 1)
    }

    /// The kind as a number that fits two bytes.
    pub(crate) fn word(self) -> u64 {
        self.class() as u64 | u64::from(self.is_shared) << 8
    }
}

/// The measured times of the ways, for one source.
#[derive(Debug, Default)]
pub(crate) struct Ways {
    /// For messages from memory of one process, and from memory that ranks share.
    classes: [[LengthClass; CLASSES]; 2],
    /// When the last message had arrived.
    last: Time,
}

/// The way that a rank tries or uses to receive, as it reports it to the other end.
///
/// In an exchange each end receives, and a way that needs the sender's help takes long while the
/// sender copies for itself. With both ends reading, an exchange of 2 x 64 KiB of fresh data took
/// 73 us, with both on the ring 22, and a try of the ring by one of them looked slower than either
/// (far cores of an EPYC). So a rank that tries a way says so in its announcements, and the other
/// end tries that way with it.
///
/// Nor may the ends use different ways: an end that reads while it serves the other's ring is
/// slower than either, takes that for the cost of reading, and goes back (2 x 64 KiB, untouched,
/// far: reading 13.2 us, the ring 15.8, one of each 18.6). So the end with the lower number reports
/// its way, and the other one uses the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trial {
    /// The way.
    pub(crate) way: Way,
    /// The number of the try among the rank's tries in this class; [`Trial::NONE`]: not a try, but
    /// the way in use. Each try is followed once: it may never end, if the rank receives no more.
    pub(crate) number: u8,
}

impl Trial {
    const NONE: u8 = 0;
}

/// The measurements of messages of similar length.
#[derive(Debug, Clone, Copy, Default)]
struct LengthClass {
    took: [Took; 4],
    /// The way in use while no other is tried.
    taken: Option<Way>,
    attempt: Option<Attempt>,
    /// How many tries this rank has begun, and the last try of the other end that it followed.
    trials: u8,
    followed: u8,
    /// How many more messages to the other end carry the way in use: the other end sends some, too.
    to_tell: u8,
    /// How many more messages to the other end are put into its ring, as it has asked.
    to_put: u8,
    /// How many of the messages that this end has asked for have not arrived.
    to_come: u8,
    /// The messages added up since the last whole block.
    block: WayBlock,
    /// Nanoseconds of all messages, and the part of them lost by tries.
    all: u64,
    tries: u64,
    /// The cost of the fastest way when the others were last tried because of a change, and how
    /// many consecutive blocks have differed from it.
    usual: u64,
    unusual: u32,
    /// How many consecutive changes have not led to another way, and whether the last one did.
    in_vain: u32,
    has_changed: bool,
}

/// A try in progress.
#[derive(Debug, Clone, Copy)]
struct Attempt {
    way: Way,
    /// Complete blocks carried by this way, and the number that ends the try.
    blocks: u32,
    tries: u32,
    /// Of the blocks that count: their total cost, and the least and the greatest cost of one.
    all: u64,
    least: u64,
    most: u64,
    /// Whether this rank has begun it, so that the other end follows.
    is_own: bool,
}

impl Attempt {
    fn new(way: Way, kind: MessageKind, is_own: bool) -> Attempt {
        let tries = if kind.length < VERY_LONG { TRIES } else { FEW_TRIES };
        Attempt { way, blocks: 0, tries, all: 0, least: u64::MAX, most: 0, is_own }
    }

    /// Adds a block's cost, and returns the mean cost of a block without the least and the
    /// greatest. So an interruption does not count, nor a block whose time was attributed to the
    /// one before it, as happens to every second block of a stream.
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

/// The measured cost of one way.
#[derive(Debug, Clone, Copy, Default)]
struct Took {
    /// Nanoseconds for 8 KiB, valid if `is_known`.
    estimate: u64,
    is_known: bool,
    /// `LengthClass::all` at the last use.
    at: u64,
}

/// Consecutive messages that one way has carried, and their time.
#[derive(Debug, Clone, Copy, Default)]
struct WayBlock {
    way: Option<Way>,
    messages: u32,
    nanoseconds: u64,
    bytes: u64,
}

impl Ways {
    /// The way for the next message of this kind, and the reason. `other`: the way that the sender
    /// tries or uses for messages from here. `yields`: this rank cancels its own try and uses the
    /// sender's way.
    pub(crate) fn choose(
        &mut self,
        kind: MessageKind,
        other: Option<Trial>,
        yields: bool,
    ) -> (Way, WayReason) {
        let other = other.filter(|it| it.way != Way::Put || kind.is_eager);
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
                class.attempt = Some(Attempt::new(way, kind, false));
            }
        }
        if class.attempt.is_none()
            && let Some(way) = class.next_trial(kind.is_eager)
        {
            // Not `Trial::NONE`.
            class.trials = class.trials % u8::MAX + 1;
            class.attempt = Some(Attempt::new(way, kind, true));
        }
        match class.attempt {
            Some(Attempt { way, .. }) => {
                if way != Way::Put {
                    // Announcements tell the other end of a try.
                    class.to_put = 0;
                }
                (way, WayReason::Tried)
            }
            None => (class.take(taken.filter(|_| yields)), WayReason::Fastest),
        }
    }

    /// The try, or the way in use, to report with a message of this kind to the other end.
    pub(crate) fn trial(&mut self, kind: MessageKind) -> Option<Trial> {
        let class = self.class(kind);
        if let Some(Attempt { way, is_own, .. }) = class.attempt {
            return is_own.then_some(Trial { way, number: class.trials });
        }
        class.to_tell = class.to_tell.checked_sub(1)?;
        class.taken.map(|way| Trial { way, number: Trial::NONE })
    }

    /// How many messages after this one are to be put: in a try as many as are left until another
    /// way may be chosen, so that the next one is announced.
    pub(crate) fn puts(&mut self, kind: MessageKind) -> u8 {
        let class = self.class(kind);
        let attempt = class.attempt.filter(|attempt| attempt.way == Way::Put);
        class.to_come = attempt.map_or(PUTS, |attempt| {
            let noted = attempt.blocks * BLOCK + class.block.messages;
            (attempt.tries * BLOCK).saturating_sub(noted + 1).max(1) as u8
        });
        class.to_come
    }

    /// The other end asks for its next messages of a kind ([`MessageKind::word`]) to be put.
    /// `false`: there is no such kind.
    pub(crate) fn put_next(&mut self, kind: u64, messages: u8) -> bool {
        let classes = usize::try_from(kind >> 8).ok().and_then(|at| self.classes.get_mut(at));
        let class = classes.and_then(|classes| classes.get_mut((kind & 0xff) as usize));
        class.map(|class| class.to_put = messages).is_some()
    }

    /// Whether the next message of this kind to the other end is put.
    pub(crate) fn is_put(&mut self, kind: MessageKind) -> bool {
        let to_put = &mut self.class(kind).to_put;
        let left = to_put.checked_sub(1);
        *to_put = left.unwrap_or(0);
        left.is_some()
    }

    /// A message of this kind that was put has arrived. Returns the reason, and whether to time it.
    pub(crate) fn begin_put(&mut self, kind: MessageKind) -> (WayReason, bool) {
        let class = self.class(kind);
        class.to_come = class.to_come.saturating_sub(1);
        let is_among_last = class.to_come <= TIMED;
        match (class.attempt, class.taken) {
            (Some(Attempt { way: Way::Put, .. }), _) => (WayReason::Tried, true),
            (None, Some(Way::Put)) => (WayReason::Fastest, is_among_last),
            _ => (WayReason::Late, is_among_last),
        }
    }

    /// Records a message that was carried from `began` to `now`.
    ///
    /// The cost of a way does not end with the arrival: the program finds its data in the caches of
    /// one core or the other, and the sender its buffer. So the time since the message before
    /// counts, up to four times that of the message. Between far cores 256 KiB arrived soonest by
    /// both ends, and a program that used them took 95 us a message, by the ring 35 (EPYC). This
    /// also keeps messages that travel together from counting their time twice.
    pub(crate) fn note(&mut self, kind: MessageKind, way: Way, began: Time, now: Time) {
        let length = kind.length;
        // The copy of a put message is one half: its sender has stored it before.
        let most = if way == Way::Put { 8 } else { 4 };
        let most = (now - began).nanoseconds().max(1).saturating_mul(most);
        let nanoseconds = (now - self.last).nanoseconds().clamp(1, most);
        self.last = now;
        let class = self.class(kind);
        // One in eight puts is timed, and stands for the others.
        let others = match class.attempt {
            None if way == Way::Put => u64::from(PUTS / TIMED),
            _ => 1,
        };
        class.all = class.all.saturating_add(nanoseconds.saturating_mul(others));
        class.took[way as usize].at = class.all;
        match class.attempt {
            Some(attempt) if attempt.way == way => class.count_try(nanoseconds, length),
            // This message was chosen before the trial began.
            Some(_) => return,
            // It was put because its receiver is late, or it follows others that were not timed.
            None if way == Way::Put
                && (class.taken != Some(Way::Put) || class.to_come == TIMED) =>
            {
                return;
            }
            None => {}
        }
        if let Some(cost) = class.block.add(way, nanoseconds, length) {
            class.learn(way, cost);
        }
    }

    /// When the last message had arrived.
    pub(crate) fn last(&self) -> Time {
        self.last
    }

    fn class(&mut self, kind: MessageKind) -> &mut LengthClass {
        &mut self.classes[usize::from(kind.is_shared)][kind.class()]
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
    /// The way to try now: one that was never measured, or, if its share of time allows, the one
    /// that was not used for longest.
    fn next_trial(&self, is_eager: bool) -> Option<Way> {
        let mut all = Way::TRIED.into_iter().filter(|way| is_eager || *way != Way::Put);
        let unknown = all.clone().find(|way| !self.took[*way as usize].is_known);
        if unknown.is_some() || self.tries.saturating_mul(TRIES_SHARE) >= self.all {
            return unknown;
        }
        let fastest = self.fastest();
        all.by_ref().filter(|way| *way != fastest).min_by_key(|way| self.took[*way as usize].at)
    }

    /// The way to use: that of the other end, or the one in use, unless another is better.
    fn take(&mut self, others: Option<Way>) -> Way {
        let (cost, fastest) = (|way: Way| self.took[way as usize].estimate, self.fastest());
        let is_better = |taken: &Way| cost(fastest) <= cost(*taken).saturating_mul(BETTER) / 16;
        let kept = |taken: &Way| others.is_some() || !is_better(taken);
        let taken = others.or(self.taken).filter(kept).unwrap_or(fastest);
        self.has_changed |= self.taken.replace(taken) != Some(taken);
        taken
    }

    /// Accounts for a message of a try: for the time beyond that of the fastest way. Something is
    /// always charged, or equal ways would be tried for ever.
    fn count_try(&mut self, nanoseconds: u64, length: u64) {
        let fastest = self.took[self.fastest() as usize].estimate;
        let expected = fastest.saturating_mul(length) >> 13;
        let lost = nanoseconds.saturating_sub(expected).max(nanoseconds / 8);
        self.tries = self.tries.saturating_add(lost);
    }

    /// Records the cost of a block of messages.
    fn learn(&mut self, way: Way, cost: u64) {
        let took = &mut self.took[way as usize];
        let Some(attempt) = &mut self.attempt else {
            // A new cost counts for a quarter, so that one block alone changes little.
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
        if attempt.blocks == attempt.tries {
            self.attempt = None;
        }
    }

    /// Starts new tries of all ways if the cost of the fastest has changed: another phase of the
    /// program, or another load on the machine. Not if tries have cost a tenth of the time already,
    /// and less often each time that they change nothing: the cost of a way may just fluctuate.
    /// (Then a fifth of the messages of a halo of 2 x 16 KiB were tries; EPYC, beside other work.)
    ///
    /// The first tries see a program whose pages and caches are cold: reading 1 MiB in both
    /// directions took 117 us where it takes 72 later, and the ring, at 104, was chosen (far cores
    /// of an EPYC). So the second tries come early, when the first have taken half of the time.
    fn look_for_news(&mut self, cost: u64) {
        let (less, more) = (self.usual - self.usual / 4, self.usual.saturating_add(self.usual / 4));
        self.unusual =
            if (less..=more).contains(&cost) { 0 } else { self.unusual.saturating_add(1) };
        let share = if self.usual == 0 { 2 } else { (10 << self.in_vain).min(TRIES_SHARE) };
        if self.unusual >= NEWS && self.tries.saturating_mul(share) < self.all {
            self.in_vain = if self.has_changed { 0 } else { (self.in_vain + 1).min(4) };
            (self.usual, self.unusual, self.has_changed) = (cost, 0, false);
            self.took.iter_mut().for_each(|took| took.is_known = false);
        }
    }

    fn fastest(&self) -> Way {
        // A class that cannot be put is never measured.
        let cost = |way: &Way| match self.took[*way as usize].estimate {
            0 if *way == Way::Put => u64::MAX,
            estimate => estimate,
        };
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

    /// Most messages here are of 1 MiB, which no ring takes unannounced.
    const KIND: MessageKind = MessageKind { length: 1 << 20, is_shared: false, is_eager: false };

    /// Messages until each way has been tried.
    const FIRST: u32 = BLOCK * TRIES * 3;

    fn micros(span: u64) -> Time {
        Time::from_nanoseconds(span * 1000)
    }

    fn next(ways: &mut Ways) -> Way {
        ways.choose(KIND, None, false).0
    }

    fn fastest(ways: &Ways) -> Way {
        ways.classes[0][KIND.class()].fastest()
    }

    /// Carries `messages` on a machine where the ways take `took` microseconds. Returns how often
    /// each was chosen, and the share of time lost by ways other than the fastest.
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
    fn few_very_long_messages_find_the_fastest_way() {
        let (mut ways, kind) = (Ways::default(), MessageKind { length: VERY_LONG, ..KIND });
        for message in 0..BLOCK * FEW_TRIES * 3 + 20 {
            let (way, why) = ways.choose(kind, None, false);
            let is_tried = message < BLOCK * FEW_TRIES * 3;
            assert_eq!(why == WayReason::Tried, is_tried, "{message}");
            assert!(is_tried || way == Way::Read, "{message}");
            let began = ways.last;
            ways.note(kind, way, began, began + micros([2400, 600, 1000][way as usize]));
        }
    }

    #[test]
    fn a_machine_that_changes_is_followed() {
        let mut ways = Ways::default();
        carry(&mut ways, 1000, [50, 100, 100]);
        // The way in use becomes slow: it changes at once. Another becomes faster: when it is
        // tried.
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
            // Now a joint copy would take 25, if it were tried; the ring takes less than before,
            // too.
            let (chosen, _) = carry(&mut ways, 100, [33, 100, 25]);
            assert!(chosen[Way::Both as usize] >= 50, "{chosen:?}");
        }
    }

    #[test]
    fn ways_that_take_now_more_now_less_are_tried_ever_less() {
        let mut ways = Ways::default();
        let unsteady = |ways: &mut Ways, turns: u32| {
            let each = |turn| carry(ways, 40, [[50, 100, 100], [80, 100, 100]][turn as usize % 2]);
            let tried = |(chosen, _): ([u32; 3], f64)| chosen[1] + chosen[2];
            (0..turns).map(each).map(tried).sum::<u32>()
        };
        unsteady(&mut ways, 200);
        let tried = unsteady(&mut ways, 1000);
        assert!((100..2000).contains(&tried), "of 40,000: {tried}");
        // As soon as another way is used, changes count as before.
        carry(&mut ways, 10_000, [100, 25, 100]);
        assert_eq!(ways.classes[0][KIND.class()].in_vain, 0);
    }

    #[test]
    fn first_tries_of_a_cold_program_are_soon_made_again() {
        let mut ways = Ways::default();
        carry(&mut ways, FIRST, [86, 117, 143]);
        assert_eq!(next(&mut ways), Way::Ring);
        carry(&mut ways, 2 * FIRST, [100, 70, 80]);
        let (chosen, _) = carry(&mut ways, FIRST, [100, 70, 80]);
        assert!(chosen[Way::Read as usize] >= FIRST / 2, "{chosen:?}");
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
            // Either takes 100 us, within 2.
            let (began, span) = (ways.last, 98 + message * 7919 % 5);
            ways.note(KIND, way, began, began + micros(span));
        }
        assert_eq!(changes, 0);
    }

    #[test]
    fn what_a_way_leaves_behind_counts() {
        // A joint copy delivers the message soonest, and then the program waits for its data.
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
        // Two at a time: by the ring they take 60 us each, and 60 in all.
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

    /// Two ranks exchange two messages each; `took` is the time for the ways that they choose.
    fn exchange(ends: &mut [Ways; 2], times: u32, took: impl Fn(Way, Way) -> u64) {
        for _ in 0..times {
            let told = [0, 1].map(|end: usize| ends[1 - end].trial(KIND));
            // Both messages of a rank are announced before it receives the other's.
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
        // As measured with fresh data: a ring whose sender reads meanwhile waits for it.
        let fresh = |one, other| match (one, other) {
            (Way::Ring, Way::Ring) => 22,
            (Way::Ring, _) | (_, Way::Ring) => 80,
            _ => 72,
        };
        let warm =
            |one: Way, other: Way| if (one, other) == (Way::Read, Way::Read) { 15 } else { 22 };
        let mut ends = <[Ways; 2]>::default();
        // One end has learned something before, so that the two do not begin alike.
        carry(&mut ends[0], 14, [50, 40, 60]);
        for took in [&warm as &dyn Fn(Way, Way) -> u64, &fresh, &warm, &fresh] {
            // Long enough for tries even if nothing shows that the times have changed.
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
        // The other end uses it, and continues to try ways; the rank with the lower number does
        // not.
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
        // If both try at once, one yields.
        let mut ways = Ways::default();
        let other = Some(Trial { way: Way::Read, number: 7 });
        assert_eq!(next(&mut ways), Way::Both);
        assert_eq!(ways.choose(KIND, other, false).0, Way::Both);
        assert_eq!(ways.choose(KIND, other, true).0, Way::Read);
    }

    /// The two ends of messages that may be put: the sender's knowledge, and the receiver's.
    #[derive(Default)]
    struct Putting {
        sender: Ways,
        receiver: Ways,
        now: Time,
        announced: u32,
        timed: u32,
    }

    impl Putting {
        const KIND: MessageKind = MessageKind { length: 64 << 10, is_eager: true, ..KIND };

        /// Carries `messages` where the ways take `took` microseconds, and an announced put two
        /// more. Returns how many were put.
        fn carry(&mut self, messages: u32, took: [u64; 4]) -> u32 {
            let before = self.announced;
            for _ in 0..messages {
                let is_put = self.sender.is_put(Self::KIND);
                let mut is_timed = true;
                let way = if is_put {
                    is_timed = self.receiver.begin_put(Self::KIND).1;
                    Way::Put
                } else {
                    self.announced += 1;
                    let (way, _) = self.receiver.choose(Self::KIND, None, false);
                    if way == Way::Put {
                        let puts = self.receiver.puts(Self::KIND);
                        assert!(self.sender.put_next(Self::KIND.word(), puts));
                    }
                    way
                };
                let span = took[way as usize] + if is_put || way != Way::Put { 0 } else { 2 };
                let began = self.now;
                self.now = began + micros(span);
                if is_timed {
                    self.timed += u32::from(is_put);
                    self.receiver.note(Self::KIND, way, began, self.now);
                }
            }
            messages - (self.announced - before)
        }
    }

    #[test]
    fn puts_are_asked_for_where_they_are_the_fastest() {
        let mut ends = Putting::default();
        let tried = ends.carry(BLOCK * TRIES * 4, [50, 60, 70, 40]);
        assert_eq!(tried, BLOCK * TRIES - 1, "all of a try but the one that is announced");
        let put = ends.carry(10_000, [50, 60, 70, 40]);
        assert!((9500..10_000).contains(&put), "{put}");
        assert!((put / 10..put / 5).contains(&ends.timed), "{}", ends.timed);
        // Puts become slow: the way changes at once.
        ends.carry(200, [50, 60, 70, 90]);
        assert_eq!(ends.carry(20, [50, 60, 70, 90]), 0);
        // And fast: they are used as soon as they are tried.
        ends.carry(10_000, [50, 60, 70, 30]);
        assert!(ends.carry(1000, [50, 60, 70, 30]) > 950);
    }

    #[test]
    fn what_lateness_puts_says_nothing_of_other_ways() {
        let mut ends = Putting::default();
        ends.carry(1000, [50, 60, 70, 80]);
        assert!(ends.sender.put_next(Putting::KIND.word(), PUTS));
        assert_eq!(ends.receiver.begin_put(Putting::KIND), (WayReason::Late, true));
        assert_eq!(ends.carry(u32::from(PUTS) + 10, [50, 60, 70, 1]), u32::from(PUTS));
        assert_eq!(ends.receiver.choose(Putting::KIND, None, false).0, Way::Ring);
        assert!(!ends.sender.put_next(2 << 8, PUTS) && !ends.sender.put_next(16, PUTS));
    }

    #[test]
    fn who_tries_another_way_announces_its_own_messages() {
        let mut ways = Ways::default();
        assert!(ways.put_next(Putting::KIND.word(), PUTS));
        assert!(ways.is_put(Putting::KIND));
        assert_eq!(ways.choose(Putting::KIND, None, false), (Way::Both, WayReason::Tried));
        assert!(!ways.is_put(Putting::KIND), "the other end has to be told");
        // A message that the ring cannot take is neither tried nor put.
        let told = |number| Some(Trial { way: Way::Put, number });
        for other in [told(1), told(Trial::NONE)] {
            assert_ne!(ways.choose(KIND, other, true).0, Way::Put);
        }
        carry(&mut ways, 10_000, [100, 50, 100]);
        assert_eq!(ways.classes[0][KIND.class()].took[Way::Put as usize].at, 0);
    }

    #[test]
    fn lengths_have_classes_and_any_length_one() {
        let mut ways = Ways::default();
        carry(&mut ways, 100, [100, 50, 100]);
        let more = |length| MessageKind { length, ..KIND };
        assert_eq!(ways.choose(more((2 << 20) - 1), None, false).0, Way::Read, "the same class");
        let (shared, eager) = ((true, false), (false, true));
        let differs = |(is_shared, is_eager)| MessageKind { is_shared, is_eager, ..KIND };
        for other in [more(2 << 20), differs(shared), differs(eager)] {
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
            "`kernel` is no way of long messages: give auto, ring, read, both or put"
        );
    }
}
