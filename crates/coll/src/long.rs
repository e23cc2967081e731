//! Selects the way of long data among ranks that share lines by measurement: lines or another way.
//!
//! Lines copy twice, at both ends at the same time. A long message is copied in the way that its
//! two ranks have found to be the fastest, once if the kernel copies. Data of a reduction may be
//! read where it lies. The best way depends on the distance of the processors, on their caches and
//! on the last writer of the data. 256 KiB among two ranks, two processors of a Xeon: a broadcast
//! takes 23 us by lines and 12 by messages for untouched data, and 23 and 23 if the root has just
//! received it; an allreduce 70 by lines and 55 by reading, for data that was just combined 78 and
//! 79. So the ways are measured while a job runs.
//!
//! All ranks must use the same way. So one of them measures, chooses and announces its choice. The
//! root of a broadcast does so in the word of its first part. Where roots take turns, they use the
//! way of the first of them, because each measures the calls of all: with ways of their own, what
//! one found out was the way of the others. Where all contribute, the first rank
//! announces in the word of its first contribution how many of the calls after this one use the
//! other way, without a word. Then a call by lines tells again:
//!
//! ```text
//!   calls of a class    lines       6 by messages    lines         100 by messages    lines
//!   the first rank      "6 more" ─► measures them    "100 more" ─►                    "none" ─►
//! ```
//!
//! A line before the data of each call would cost another exchange of lines, and a turn of all
//! ranks where they share processors.

use hikyaku_nic::time::Time;

/// A way for long data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LongWay {
    /// The lines of all ranks.
    Lines,
    /// Messages, by the algorithm of the table.
    Messages,
    /// Copies out of each other's memory.
    Read,
}

/// The operations that have a choice of ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LongOperation {
    /// A broadcast.
    Broadcast,
    /// An allreduce. Not by messages: more than two ranks would combine in another order.
    Allreduce,
    /// An allgather with or without a list of lengths.
    Allgather,
}

impl LongOperation {
    /// Whether ranks have a choice of ways for so many bytes, or for such parts of each rank.
    pub(crate) const fn is_asked(self, bytes: usize) -> bool {
        bytes >= self.from()
    }

    const fn from(self) -> usize {
        match self {
            LongOperation::Broadcast => 16 << 10,
            LongOperation::Allgather => 32 << 10,
            LongOperation::Allreduce => 128 << 10,
        }
    }

    /// The class of a length.
    fn class_of(self, bytes: usize) -> usize {
        (bytes / self.from()).max(1).ilog2().min(CLASSES as u32 - 1) as usize
    }

    /// The alternative to lines.
    const fn other(self) -> LongWay {
        match self {
            LongOperation::Broadcast | LongOperation::Allgather => LongWay::Messages,
            LongOperation::Allreduce => LongWay::Read,
        }
    }
}

/// A call whose way this rank has chosen.
#[derive(Debug, Clone, Copy)]
pub struct LongCall {
    operation: LongOperation,
    class: usize,
    way: LongWay,
    begun: Time,
    /// How many calls of its class after this one use the other way.
    ahead: u32,
    /// Whether the way is that of another root, which measures it.
    follows: bool,
}

impl LongCall {
    /// The way that all ranks use.
    pub(crate) fn way(&self) -> LongWay {
        self.way
    }

    /// How many calls of its class after this one use the alternative to lines.
    pub(crate) fn ahead(&self) -> u32 {
        self.ahead
    }
}

/// The outcome of a call by lines.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ByLines {
    /// It is complete.
    Done,
    /// It continues by messages, at all ranks.
    Messages,
}

/// Why a call that began by lines continues by messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OffLines {
    /// The lines are lost.
    Lost,
    /// Messages are measured to be faster.
    Slower,
}

/// Classes of lengths: powers of two from the shortest on. The last one has all longer lengths.
const CLASSES: usize = 12;

/// The number of consecutive calls that try a way. Only the last `COUNTED` of them count: the first
/// ones find caches and pages as the other way left them.
const TRIED: u32 = 6;
const COUNTED: u32 = 4;

/// The same for the first try of messages. These have four ways of their own, and their ranks need
/// some forty messages to learn the fastest.
const FIRST_TRIED: u32 = 56;

/// The number of calls that use the faster way before a call by lines tells whether others follow:
/// one call in a hundred may take longer.
const AHEAD: u32 = 100;

/// Tries may lose at most one part in this many of a class's time.
const TRIES_SHARE: u64 = 100;

/// Another way is chosen if it costs at most this many sixteenths of the current one.
const BETTER: u64 = 15;

/// The number of consecutive calls that take a quarter more or less than the known time; then the
/// known time of the other way is obsolete.
const NEWS: u32 = 4;

/// The number of calls for which a root uses the way of a lower rank after that was root.
const FOLLOWED: u8 = 8;

/// The measured ways of one communicator.
#[derive(Debug, Default)]
pub struct LongCalls {
    classes: [[LengthClass; CLASSES]; 3],
    /// When the last call ended.
    last: Time,
}

#[derive(Debug, Clone, Copy, Default)]
struct LengthClass {
    /// Nanoseconds of a call by lines and by the other way; 0: unknown.
    took: [u64; 2],
    /// Nanoseconds within the calls of each way, at this rank.
    within: [u64; 2],
    taken: usize,
    /// The way being tried, the number of its calls, and the total time of those that count.
    attempt: Option<(usize, u32, u64)>,
    /// Consecutive calls whose time differs from the known one.
    unusual: u32,
    /// Nanoseconds of all calls, and those lost in tries.
    all: u64,
    lost: u64,
    /// How many of the next calls use the other way, as the first rank has announced.
    ahead: u32,
    /// The way of the last broadcast whose root has a lower rank, and how many more of this rank's
    /// use it.
    heard: usize,
    to_follow: u8,
}

impl LongCalls {
    /// Chooses the way of a call of `bytes` bytes. Where all contribute, it is `known`, and that of
    /// the calls after it is chosen.
    pub(crate) fn choose(
        &mut self,
        operation: LongOperation,
        (bytes, known): (usize, Option<LongWay>),
        now: Time,
    ) -> LongCall {
        let class = operation.class_of(bytes);
        let state = &mut self.classes[operation as usize][class];
        let by = |way: usize| if way == 0 { LongWay::Lines } else { operation.other() };
        if let Some(left) = state.to_follow.checked_sub(1) {
            state.to_follow = left;
            let way = by(state.heard);
            return LongCall { operation, class, way, begun: now, ahead: 0, follows: true };
        }
        let next = by(state.next());
        let way = known.unwrap_or(next);
        let ahead = match state.attempt {
            _ if next == LongWay::Lines || way != LongWay::Lines => 0,
            Some(_) => state.tries(next),
            None => AHEAD,
        };
        LongCall { operation, class, way, begun: now, ahead, follows: false }
    }

    /// Records the way of a broadcast of `bytes` bytes whose root has a lower rank.
    pub(crate) fn hear(&mut self, bytes: usize, way: LongWay) {
        let operation = LongOperation::Broadcast;
        let class = &mut self.classes[operation as usize][operation.class_of(bytes)];
        (class.heard, class.to_follow) = (usize::from(way != LongWay::Lines), FOLLOWED);
    }

    /// The way of the next call of `bytes` bytes to which all contribute, as the first rank has
    /// announced it.
    pub(crate) fn announced(&self, operation: LongOperation, bytes: usize) -> LongWay {
        match self.classes[operation as usize][operation.class_of(bytes)].ahead {
            0 => LongWay::Lines,
            _ => operation.other(),
        }
    }

    /// Records what the first rank announces in a call by lines: this many calls after it use the
    /// other way.
    pub(crate) fn announce(&mut self, operation: LongOperation, bytes: usize, ahead: u32) {
        self.classes[operation as usize][operation.class_of(bytes)].ahead = ahead;
    }

    /// Records that a call begins by the announced way, and returns it.
    pub(crate) fn begin(&mut self, operation: LongOperation, bytes: usize) -> LongWay {
        let way = self.announced(operation, bytes);
        let class = &mut self.classes[operation as usize][operation.class_of(bytes)];
        class.ahead = class.ahead.saturating_sub(1);
        way
    }

    /// Records the end of a call.
    ///
    /// The cost of a way does not end with the call: afterwards the data is in the caches of one
    /// core or another, and a root returns before the others have the data. So the measure is the
    /// time since the end of the previous call, up to four times the time within the longer way's
    /// calls: beyond, the program computes. (By lines a root's call of 16 KiB is so short that four
    /// times its own time would hide what it costs the others.)
    pub(crate) fn note(&mut self, call: LongCall, now: Time) {
        let class = &mut self.classes[call.operation as usize][call.class];
        let most = class.most(call.way, (now - call.begun).nanoseconds().max(1));
        let took = (now - self.last).nanoseconds().clamp(1, most);
        self.last = now;
        if !call.follows {
            class.note(call.way, took);
        }
    }
}

impl LengthClass {
    /// The most that a call may count which took this time within.
    fn most(&mut self, way: LongWay, within: u64) -> u64 {
        let known = &mut self.within[usize::from(way != LongWay::Lines)];
        // One interruption changes little.
        *known = match *known {
            0 => within,
            before => {
                before.saturating_mul(3).saturating_add(within.min(before.saturating_mul(2))) / 4
            }
        };
        self.within[0].max(self.within[1]).saturating_mul(4).max(1)
    }

    fn next(&mut self) -> usize {
        if self.attempt.is_none() {
            let other = 1 - self.taken;
            let unknown = (0..2).find(|way| self.took[*way] == 0);
            let has_time = self.lost.saturating_mul(TRIES_SHARE) < self.all;
            let has_news = self.unusual >= NEWS && self.lost.saturating_mul(10) < self.all;
            let tried =
                unknown.or((has_time || has_news || self.is_better(other)).then_some(other));
            if let Some(way) = tried {
                self.attempt = Some((way, 0, 0));
                self.unusual = 0;
            }
        }
        self.attempt.map_or(self.taken, |(way, ..)| way)
    }

    /// The number of calls of a try of this way.
    fn tries(&self, way: LongWay) -> u32 {
        if way == LongWay::Messages && self.took[1] == 0 { FIRST_TRIED } else { TRIED }
    }

    fn note(&mut self, way: LongWay, took: u64) {
        self.all = self.all.saturating_add(took);
        let usual = self.took[self.taken];
        if usize::from(way != LongWay::Lines) != self.attempt.map_or(self.taken, |(way, ..)| way) {
            // It was chosen before the try began, or tells which way others use.
            return;
        }
        let Some((tried, calls, sum)) = self.attempt else {
            let is_usual = (usual - usual / 4..=usual.saturating_add(usual / 4)).contains(&took);
            self.unusual = if is_usual { 0 } else { self.unusual.saturating_add(1) };
            // The new time has a weight of a quarter, and counts as at most a quarter above the
            // known one, so that one interruption changes little.
            let took = took.min(usual.saturating_add(usual / 4).saturating_add(4));
            self.took[self.taken] = (usual.saturating_mul(3).saturating_add(took) / 4).max(1);
            return;
        };
        // A try always counts as some loss; otherwise equal ways would be tried for ever. A first
        // try counts as no more than that.
        let lost = if self.took[tried] > 0 { took.saturating_sub(usual) } else { 0 };
        self.lost = self.lost.saturating_add(lost.max(took / 8));
        let last = self.tries(way);
        let sum = if calls + COUNTED < last { 0 } else { sum.saturating_add(took) };
        self.attempt = Some((tried, calls + 1, sum));
        if calls + 1 < last {
            return;
        }
        self.attempt = None;
        self.took[tried] = (sum / u64::from(COUNTED)).max(1);
        let other = 1 - self.taken;
        if self.is_better(other) || self.took[self.taken] == 0 {
            self.taken = other;
        }
    }

    /// Whether this way, by what is known, is better than the one in use.
    fn is_better(&self, way: usize) -> bool {
        let (took, kept) = (self.took[way], self.took[self.taken]);
        took > 0 && took <= kept.saturating_mul(BETTER) / 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of calls in which both ways are learned.
    const LEARN: u32 = TRIED + FIRST_TRIED;

    /// Makes `count` calls that take the time in `costs`. Returns how many used each way.
    fn calls(long: &mut LongCalls, now: &mut Time, count: u32, costs: [u64; 2]) -> [u32; 2] {
        let mut gone = [0; 2];
        for _ in 0..count {
            let call = long.choose(LongOperation::Broadcast, (1 << 20, None), *now);
            gone[call.way as usize] += 1;
            *now = *now + Time::from_nanoseconds(costs[call.way as usize]);
            long.note(call, *now);
        }
        gone
    }

    #[test]
    fn the_faster_way_is_taken_and_the_other_tried_now_and_then() {
        for costs in [[10_000, 20_000], [20_000, 10_000]] {
            let (mut long, mut now) = (LongCalls::default(), Time::default());
            calls(&mut long, &mut now, LEARN, costs);
            let gone = calls(&mut long, &mut now, 10_000, costs);
            let [best, other] = if costs[0] < costs[1] { gone } else { [gone[1], gone[0]] };
            assert!((TRIED..=110).contains(&other), "{best} and {other} of {costs:?}");
        }
    }

    #[test]
    fn the_choice_follows_when_the_machine_changes() {
        let (mut long, mut now) = (LongCalls::default(), Time::default());
        calls(&mut long, &mut now, 1000, [10_000, 20_000]);
        // Cores move apart: the known time of the current way is obsolete at once.
        let gone = calls(&mut long, &mut now, 100, [40_000, 20_000]);
        assert!(gone[1] > 80, "{gone:?}");
        // The other way improves, which only a try detects.
        let gone = calls(&mut long, &mut now, 4000, [5_000, 20_000]);
        assert!(gone[0] > 2000, "{gone:?}");
    }

    #[test]
    fn what_a_short_call_costs_others_counts() {
        // The root is the other rank in every other call. By lines its own call is short.
        let (mut long, mut now) = (LongCalls::default(), Time::default());
        let mut gone = [0; 2];
        for _ in 0..1000 {
            let call = long.choose(LongOperation::Broadcast, (16 << 10, None), now);
            gone[call.way as usize] += 1;
            let (own, of_others) = [(700, 4500), (1800, 1900)][call.way as usize];
            long.note(call, now + Time::from_nanoseconds(own));
            now = now + Time::from_nanoseconds(own + of_others);
        }
        assert!(gone[1] > 850, "{gone:?}");
    }

    #[test]
    fn roots_that_take_turns_use_the_way_of_the_first() {
        let mut ranks = [LongCalls::default(), LongCalls::default()];
        let (mut now, bytes) = (Time::default(), 1 << 20);
        let mut last = LongWay::Lines;
        for call in 0..1000 {
            let root = call % 2;
            let call = ranks[root].choose(LongOperation::Broadcast, (bytes, None), now);
            if root == 0 {
                ranks[1].hear(bytes, call.way);
                last = call.way;
            }
            assert_eq!(call.way, last);
            now = now + Time::from_nanoseconds([20_000, 10_000][call.way as usize]);
            ranks[root].note(call, now);
        }
        assert_eq!(last, LongWay::Messages);
        assert!(ranks[1].classes[0].iter().all(|class| class.took == [0; 2]));
        // Without the first one the other follows a little, then measures.
        let followed = u32::from(FOLLOWED) - 1;
        let gone = calls(&mut ranks[1], &mut now, followed + LEARN, [10_000, 20_000]);
        assert_eq!(gone, [TRIED, FIRST_TRIED + followed]);
    }

    #[test]
    fn equal_ways_are_not_taken_by_turns() {
        let (mut long, mut now) = (LongCalls::default(), Time::default());
        calls(&mut long, &mut now, LEARN, [10_000, 9_900]);
        let gone = calls(&mut long, &mut now, 1000, [10_000, 9_900]);
        assert!(gone[0].min(gone[1]) <= 90, "{gone:?}");
    }

    /// The first rank and another one make `count` calls to which both contribute. Returns how many
    /// used each way.
    fn shared_calls(ranks: &mut [LongCalls; 2], count: u32, costs: [u64; 2]) -> [u32; 2] {
        let (operation, bytes) = (LongOperation::Allgather, 1 << 20);
        let (mut gone, mut now) = ([0; 2], ranks[0].last);
        for _ in 0..count {
            let way = ranks[0].begin(operation, bytes);
            assert_eq!(ranks[1].begin(operation, bytes), way);
            let call = ranks[0].choose(operation, (bytes, Some(way)), now);
            assert!(call.way == way && (way == LongWay::Lines || call.ahead == 0), "{call:?}");
            if call.ahead > 0 {
                ranks.iter_mut().for_each(|rank| rank.announce(operation, bytes, call.ahead));
            }
            gone[usize::from(way != LongWay::Lines)] += 1;
            now = now + Time::from_nanoseconds(costs[usize::from(way != LongWay::Lines)]);
            ranks[0].note(call, now);
        }
        gone
    }

    #[test]
    fn calls_to_which_all_contribute_follow_what_the_first_rank_announces() {
        let mut ranks = [LongCalls::default(), LongCalls::default()];
        shared_calls(&mut ranks, LEARN + 10, [20_000, 10_000]);
        let gone = shared_calls(&mut ranks, 10_000, [20_000, 10_000]);
        assert!((50..300).contains(&gone[0]), "{gone:?}");
        // Lines become faster, then slower again.
        shared_calls(&mut ranks, 4000, [5_000, 10_000]);
        let gone = shared_calls(&mut ranks, 10_000, [5_000, 10_000]);
        assert!(gone[1] < 300, "{gone:?}");
        shared_calls(&mut ranks, 1000, [20_000, 10_000]);
        let gone = shared_calls(&mut ranks, 10_000, [20_000, 10_000]);
        assert!(gone[0] < 300, "{gone:?}");
        // Other lengths and operations have no announcement.
        ranks[1].announce(LongOperation::Allgather, 1 << 20, 5);
        assert_eq!(ranks[1].announced(LongOperation::Allgather, 1 << 20), LongWay::Messages);
        assert_eq!(ranks[1].announced(LongOperation::Allgather, 2 << 20), LongWay::Lines);
        assert_eq!(ranks[1].announced(LongOperation::Allreduce, 1 << 20), LongWay::Lines);
    }

    #[test]
    fn lengths_and_operations_are_learned_apart() {
        let (mut long, mut now) = (LongCalls::default(), Time::default());
        calls(&mut long, &mut now, LEARN, [20_000, 10_000]);
        let taken =
            |long: &mut LongCalls, operation, bytes| long.choose(operation, (bytes, None), now).way;
        assert_eq!(taken(&mut long, LongOperation::Broadcast, 1 << 20), LongWay::Messages);
        assert_eq!(taken(&mut long, LongOperation::Broadcast, 2 << 20), LongWay::Lines);
        assert_eq!(taken(&mut long, LongOperation::Allgather, 1 << 20), LongWay::Lines);
        assert_eq!(taken(&mut long, LongOperation::Broadcast, usize::MAX), LongWay::Lines);
        let mut later = now;
        for _ in 0..2 * TRIED {
            let call = long.choose(LongOperation::Allreduce, (1 << 20, None), later);
            let took = if call.way() == LongWay::Read { 10_000 } else { 20_000 };
            later = later + Time::from_nanoseconds(took);
            long.note(call, later);
        }
        assert_eq!(taken(&mut long, LongOperation::Allreduce, 1 << 20), LongWay::Read);
    }
}
