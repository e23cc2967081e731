//! Which way long data go among ranks that share lines: by lines or another way, as measured.
//!
//! Lines copy twice, at both ends at the same time. A long message is copied in the way that its
//! two ranks have found to be the fastest, once if the kernel copies. What all combine they may
//! read where it is. Which is better depends on the distance of the processors, on their caches and
//! on who has written the data last. 256 KiB among two ranks, two processors of a Xeon: a broadcast
//! takes 23 us by lines and 12 by messages, of untouched data, and 23 and 23 if the root has just
//! received it; an allreduce 70 by lines and 55 by reading, of what was just combined 78 and 79. So
//! it is measured while a job runs.
//!
//! All ranks must go the same way. So one of them, the root or the first, measures, chooses, and
//! says so in a line before the data.

use hikyaku_nic::time::Time;

/// A way for long data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LongWay {
    /// Lines of all.
    Lines,
    /// Messages, by the algorithm of the table.
    Messages,
    /// Out of each other's memory.
    Read,
}

impl LongWay {
    /// All ways, each at its number.
    pub const ALL: [LongWay; 3] = [LongWay::Lines, LongWay::Messages, LongWay::Read];
}

/// The operations that have both ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LongOperation {
    /// A broadcast.
    Broadcast,
    /// An allreduce: of messages, other numbers of ranks than two would combine in another order.
    Allreduce,
    /// An allgather with or without a list of lengths.
    Allgather,
}

impl LongOperation {
    /// Whether ranks learn the way of so many bytes, or of such parts of each rank, from a line
    /// before the data. For less, that line costs more than the better way gains: the time from one
    /// core to another.
    pub(crate) const fn is_asked(self, bytes: usize) -> bool {
        bytes >= self.from()
    }

    const fn from(self) -> usize {
        match self {
            LongOperation::Broadcast | LongOperation::Allgather => 64 << 10,
            LongOperation::Allreduce => 128 << 10,
        }
    }

    /// The way that is not lines.
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
}

impl LongCall {
    /// The way that all take.
    pub(crate) fn way(&self) -> LongWay {
        self.way
    }
}

/// What became of a call that was made by lines.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ByLines {
    /// It is over.
    Done,
    /// It goes on by messages, at all ranks.
    Messages,
}

/// Why a call that was begun by lines goes on by messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OffLines {
    /// The lines are lost.
    Lost,
    /// Messages are measured to be faster.
    Slower,
}

/// Classes of lengths: powers of two from the shortest on. The last is of all longer ones.
const CLASSES: usize = 12;

/// Calls in a row that try a way. The last `COUNTED` of them count: the first find caches and pages
/// as the other way has left them.
const TRIED: u32 = 6;
const COUNTED: u32 = 4;

/// The same of the first try of messages. They have four ways of their own, and their ranks need
/// some forty of them to learn the fastest.
const FIRST_TRIED: u32 = 56;

/// Tries may lose one part in this many of a class's time.
const TRIES_SHARE: u64 = 100;

/// Another way is taken when it costs at most this many sixteenths of the one in use.
const BETTER: u64 = 15;

/// Calls in a row that take a quarter more or less than was known: then what is known of the other
/// way is old.
const NEWS: u32 = 4;

/// What a rank knows of the ways of one communicator.
#[derive(Debug, Default)]
pub struct LongCalls {
    classes: [[LengthClass; CLASSES]; 3],
    /// When the last call was over.
    last: Time,
}

#[derive(Debug, Clone, Copy, Default)]
struct LengthClass {
    /// Nanoseconds of a call by lines and in the other way; 0: not known.
    took: [u64; 2],
    taken: usize,
    /// The way that is tried, how many calls have gone by it, and what those that count took.
    attempt: Option<(usize, u32, u64)>,
    /// Calls in a row that have taken something else than is known.
    unusual: u32,
    /// Nanoseconds of all calls, and those that tries have lost.
    all: u64,
    lost: u64,
}

impl LongCalls {
    /// Chooses the way of a call of so many bytes.
    pub(crate) fn choose(&mut self, operation: LongOperation, bytes: usize, now: Time) -> LongCall {
        let class = (bytes / operation.from()).max(1).ilog2().min(CLASSES as u32 - 1) as usize;
        let way = match self.classes[operation as usize][class].next() {
            0 => LongWay::Lines,
            _ => operation.other(),
        };
        LongCall { operation, class, way, begun: now }
    }

    /// A call is over.
    ///
    /// What a way costs is not over with the call: the data are in the caches of one core or of
    /// another then, and a root goes on before the others have them. So what counts is the time
    /// since the call before, up to four times that of this one.
    pub(crate) fn note(&mut self, call: LongCall, now: Time) {
        let most = (now - call.begun).nanoseconds().max(1).saturating_mul(4);
        let took = (now - self.last).nanoseconds().clamp(1, most);
        self.last = now;
        self.classes[call.operation as usize][call.class].note(call.way, took);
    }
}

impl LengthClass {
    fn next(&mut self) -> usize {
        if self.attempt.is_none() {
            let other = 1 - self.taken;
            let unknown = (0..2).find(|way| self.took[*way] == 0);
            let has_time = self.lost.saturating_mul(TRIES_SHARE) < self.all;
            let has_news = self.unusual >= NEWS && self.lost.saturating_mul(10) < self.all;
            let tried = unknown.or((has_time || has_news).then_some(other));
            if let Some(way) = tried {
                self.attempt = Some((way, 0, 0));
                self.unusual = 0;
            }
        }
        self.attempt.map_or(self.taken, |(way, ..)| way)
    }

    fn note(&mut self, way: LongWay, took: u64) {
        self.all = self.all.saturating_add(took);
        let usual = self.took[self.taken];
        let Some((tried, calls, sum)) = self.attempt else {
            let is_usual = (usual - usual / 4..=usual.saturating_add(usual / 4)).contains(&took);
            self.unusual = if is_usual { 0 } else { self.unusual.saturating_add(1) };
            // The new time counts a quarter, and at most a quarter above what is known: so one
            // interruption changes little.
            let took = took.min(usual.saturating_add(usual / 4).saturating_add(4));
            self.took[self.taken] = (usual.saturating_mul(3).saturating_add(took) / 4).max(1);
            return;
        };
        if usize::from(way != LongWay::Lines) != tried {
            // It was chosen before the try began.
            return;
        }
        // A try counts as some loss in any case, or equal ways would be tried for ever. A first try
        // counts as no more than that.
        let lost = if self.took[tried] > 0 { took.saturating_sub(usual) } else { 0 };
        self.lost = self.lost.saturating_add(lost.max(took / 8));
        let is_first = self.took[tried] == 0 && way == LongWay::Messages;
        let last = if is_first { FIRST_TRIED } else { TRIED };
        let sum = if calls + COUNTED < last { 0 } else { sum.saturating_add(took) };
        self.attempt = Some((tried, calls + 1, sum));
        if calls + 1 < last {
            return;
        }
        self.attempt = None;
        self.took[tried] = (sum / u64::from(COUNTED)).max(1);
        let (other, kept) = (1 - self.taken, self.took[self.taken]);
        let is_better =
            self.took[other] > 0 && self.took[other] <= kept.saturating_mul(BETTER) / 16;
        if is_better || kept == 0 {
            self.taken = other;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls in which both ways are learned.
    const LEARN: u32 = TRIED + FIRST_TRIED;

    /// Makes so many calls that take what `costs` says; how many went by each way.
    fn calls(long: &mut LongCalls, now: &mut Time, count: u32, costs: [u64; 2]) -> [u32; 2] {
        let mut gone = [0; 2];
        for _ in 0..count {
            let call = long.choose(LongOperation::Broadcast, 1 << 20, *now);
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
        // Cores move apart: what is known of the way in use is old at once.
        let gone = calls(&mut long, &mut now, 100, [40_000, 20_000]);
        assert!(gone[1] > 80, "{gone:?}");
        // The other one gets better, which only a try finds.
        let gone = calls(&mut long, &mut now, 4000, [5_000, 20_000]);
        assert!(gone[0] > 2000, "{gone:?}");
    }

    #[test]
    fn equal_ways_are_not_taken_by_turns() {
        let (mut long, mut now) = (LongCalls::default(), Time::default());
        calls(&mut long, &mut now, LEARN, [10_000, 9_900]);
        let gone = calls(&mut long, &mut now, 1000, [10_000, 9_900]);
        assert!(gone[0].min(gone[1]) <= 90, "{gone:?}");
    }

    #[test]
    fn lengths_and_operations_are_learned_apart() {
        let (mut long, mut now) = (LongCalls::default(), Time::default());
        calls(&mut long, &mut now, LEARN, [20_000, 10_000]);
        let taken = |long: &mut LongCalls, operation, bytes| long.choose(operation, bytes, now).way;
        assert_eq!(taken(&mut long, LongOperation::Broadcast, 1 << 20), LongWay::Messages);
        assert_eq!(taken(&mut long, LongOperation::Broadcast, 2 << 20), LongWay::Lines);
        assert_eq!(taken(&mut long, LongOperation::Allgather, 1 << 20), LongWay::Lines);
        assert_eq!(taken(&mut long, LongOperation::Broadcast, usize::MAX), LongWay::Lines);
        let mut later = now;
        for _ in 0..2 * TRIED {
            let call = long.choose(LongOperation::Allreduce, 1 << 20, later);
            let took = if call.way() == LongWay::Read { 10_000 } else { 20_000 };
            later = later + Time::from_nanoseconds(took);
            long.note(call, later);
        }
        assert_eq!(taken(&mut long, LongOperation::Allreduce, 1 << 20), LongWay::Read);
    }
}
