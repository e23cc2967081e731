//! The registry: one line for each rank's state, in memory that all ranks and the launcher reach.
//!
//! ```text
//!   starting ──► running ──► left
//!       └───────────┴──────► failed (cause)
//! ```
//!
//! A rank moves itself to running and left; the process that watches it moves it to failed. The
//! count of ends changes with every departure, so that an idle rank watches one word. The lines
//! also store which rank each departure was, in order, so no rank has to check all others.

use std::ops::Range;

use crate::fabric::{
    Activity, DeathCause, DropCause, DroppedPackets, Name, PeerFailure, PeerState, Rank, Unmatched,
    Wait,
};
use crate::sync::{AtomicU64, Line, Ordering};
use crate::time::Time;

const STARTING: u64 = 0;
const RUNNING: u64 = 1;
const LEFT: u64 = 2;
const FAILED: u64 = 3;

const CAUSE_UNKNOWN: u64 = 0;
const CAUSE_SIGNAL: u64 = 1 << 32;
const CAUSE_EXIT: u64 = 2 << 32;

/// The first word of a wait's name, and the word with the time of a poll.
const NAME_AT: usize = 5;
const POLLED_AT: usize = NAME_AT + Name::BYTES / 8;

/// Bits of a tag and of the flag that there is one; the number of open operations is above them.
const TAG_BITS: u32 = 33;

/// One rank's line. All zero: starting.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct RankLine {
    state: AtomicU64,
    pid: AtomicU64,
    cause: AtomicU64,
    /// The rank of one departure, plus one. The number of the departure is the index of this line.
    ended: AtomicU64,
    /// Activity and peer; open operations and tag; since; unmatched messages and their bytes; name;
    /// the time of the last poll, plus one. Written by the rank, read by the launcher. A reader may
    /// see it half-written, which is good enough for a diagnosis.
    wait: [AtomicU64; POLLED_AT + 1],
    /// The number of dropped packets, without the job's key and with it; the source of the last one
    /// with it, plus one, and the cause. Read by the launcher, like the wait.
    dropped: [AtomicU64; 2],
}

/// A view of all ranks' lines.
#[derive(Debug, Clone, Copy)]
pub struct Registry<'m> {
    ends: &'m Line<AtomicU64>,
    ranks: &'m [RankLine],
}

impl<'m> Registry<'m> {
    /// The registry stored in `ends` and `ranks`.
    #[inline]
    pub fn new(ends: &'m Line<AtomicU64>, ranks: &'m [RankLine]) -> Registry<'m> {
        Registry { ends, ranks }
    }

    /// The number of ranks that have left or died, each counted once.
    #[inline]
    pub fn ends(&self) -> u64 {
        self.ends.load(Ordering::Acquire)
    }

    /// The ranks of the departures with these numbers. `None`: a rank is unknown, or the count was
    /// overwritten, as there are more numbers than ranks.
    pub fn ended_in(&self, numbers: Range<u64>) -> Option<Vec<Rank>> {
        let count = numbers.end.wrapping_sub(numbers.start);
        let is_possible = count <= self.ranks.len() as u64;
        is_possible.then(|| numbers.map(|number| self.ended(number)).collect())?
    }

    /// The rank of the departure with this number, counted from 0. `None`: there was none, its rank
    /// is not stored yet, or the words were overwritten.
    fn ended(&self, number: u64) -> Option<Rank> {
        let line = self.ranks.get(usize::try_from(number).ok()?)?;
        let rank = line.ended.load(Ordering::Acquire).checked_sub(1)?;
        Rank::try_from(rank).ok().filter(|rank| (*rank as usize) < self.ranks.len())
    }

    /// Counts a rank that has left or died, and stores which rank it was.
    fn count_end(&self, rank: Rank) {
        let number = self.ends.fetch_add(1, Ordering::AcqRel);
        let line = usize::try_from(number).ok().and_then(|number| self.ranks.get(number));
        if let Some(line) = line {
            line.ended.store(u64::from(rank) + 1, Ordering::Release);
        }
    }

    /// Stores the process id of a rank. Called by the process that starts it.
    pub fn set_pid(&self, rank: Rank, pid: u32) {
        self.ranks[rank as usize].pid.store(u64::from(pid), Ordering::Release);
    }

    /// The process id of a rank; 0 if unknown.
    pub fn pid(&self, rank: Rank) -> u32 {
        self.ranks[rank as usize].pid.load(Ordering::Acquire) as u32
    }

    /// Claims the rank's place for this process: starting → running.
    ///
    /// # Errors
    /// The rank's state, if it is not starting.
    pub fn join(&self, rank: Rank, pid: u32) -> Result<(), PeerState> {
        let line = &self.ranks[rank as usize];
        line.state
            .compare_exchange(STARTING, RUNNING, Ordering::AcqRel, Ordering::Acquire)
            .map_err(|_| self.state(rank))?;
        line.pid.store(u64::from(pid), Ordering::Release);
        Ok(())
    }

    /// Marks the rank as having left in order. All its messages are already published.
    pub fn leave(&self, rank: Rank) {
        let line = &self.ranks[rank as usize];
        let left = line.state.compare_exchange(RUNNING, LEFT, Ordering::AcqRel, Ordering::Acquire);
        if left.is_ok() {
            self.count_end(rank);
        }
    }

    /// Marks a rank of another host as having left in order. All its messages are on their way
    /// here.
    pub fn leave_elsewhere(&self, rank: Rank) {
        let line = &self.ranks[rank as usize];
        let left = line.state.compare_exchange(STARTING, LEFT, Ordering::AcqRel, Ordering::Acquire);
        if left.is_ok() {
            self.count_end(rank);
        }
    }

    /// Marks the rank as dead. Returns whether that is new.
    pub fn fail(&self, rank: Rank, cause: DeathCause) -> bool {
        let line = &self.ranks[rank as usize];
        let is_over = |state| state == LEFT || state == FAILED;
        if is_over(line.state.load(Ordering::Acquire)) {
            return false;
        }
        let bits = match cause {
            DeathCause::Signal(number) => CAUSE_SIGNAL | u64::from(number as u32),
            DeathCause::Exit(code) => CAUSE_EXIT | u64::from(code as u32),
            // One rank's verdict on another is not an end that the launcher has seen.
            DeathCause::Unknown
            | DeathCause::Overwritten
            | DeathCause::Malformed
            | DeathCause::Dropped
            | DeathCause::Unreachable(_) => CAUSE_UNKNOWN,
        };
        line.cause.store(bits, Ordering::Release);
        let fail = |state| (!is_over(state)).then_some(FAILED);
        let failed = line.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, fail);
        if failed.is_ok() {
            self.count_end(rank);
        }
        failed.is_ok()
    }

    /// The state of a rank.
    pub fn state(&self, rank: Rank) -> PeerState {
        let line = &self.ranks[rank as usize];
        match line.state.load(Ordering::Acquire) {
            STARTING => PeerState::Starting,
            RUNNING => PeerState::Running,
            LEFT => PeerState::Left,
            _ => PeerState::Failed(PeerFailure {
                rank,
                pid: self.pid(rank),
                host: Name::NONE,
                cause: cause(line.cause.load(Ordering::Acquire)),
            }),
        }
    }

    /// Stores the reason why a rank is blocked.
    pub fn set_wait(&self, rank: Rank, wait: Option<Wait>) {
        let words = &self.ranks[rank as usize].wait;
        let Some(wait) = wait else {
            words[0].store(0, Ordering::Release);
            return;
        };
        let peer = wait.peer.map_or(0, |peer| u64::from(peer) + 1);
        let tag = wait.tag.map_or(0, |tag| u64::from(tag as u32) | 1 << 32);
        let Unmatched { messages, bytes } =
            wait.unmatched.unwrap_or(Unmatched { messages: 0, bytes: 0 });
        let calls = tag | u64::from(wait.open) << TAG_BITS;
        let polled = wait.polled.map_or(0, |polled| polled.picoseconds().saturating_add(1));
        let rest = [calls, wait.since.picoseconds(), messages, bytes].into_iter();
        let rest = rest.chain(wait.name.to_words()).chain([polled]);
        for (word, value) in words[1..].iter().zip(rest) {
            word.store(value, Ordering::Relaxed);
        }
        words[0].store((wait.activity as u64) << 32 | peer, Ordering::Release);
    }

    /// Stores which packets of other hosts a rank has dropped.
    pub fn set_dropped(&self, rank: Rank, dropped: &DroppedPackets) {
        let words = &self.ranks[rank as usize].dropped;
        let last = dropped
            .last
            .map_or(0, |(source, cause)| (u64::from(source) + 1) | (cause as u64) << 32);
        words[1].store(last, Ordering::Relaxed);
        let counts = u64::from(dropped.strange) | u64::from(dropped.wrong) << 32;
        words[0].store(counts, Ordering::Release);
    }

    /// The packets of other hosts that a rank has dropped.
    pub fn dropped(&self, rank: Rank) -> DroppedPackets {
        let words = &self.ranks[rank as usize].dropped;
        let counts = words[0].load(Ordering::Acquire);
        let last = words[1].load(Ordering::Relaxed);
        let cause = DropCause::ALL.into_iter().find(|cause| *cause as u64 == last >> 32);
        let last = (last as u32).checked_sub(1).zip(cause);
        DroppedPackets { strange: counts as u32, wrong: (counts >> 32) as u32, last }
    }

    /// The reason why a rank is blocked, if it has announced one.
    pub fn wait(&self, rank: Rank) -> Option<Wait> {
        let words = &self.ranks[rank as usize].wait;
        let head = words[0].load(Ordering::Acquire);
        let word = |at: usize| words[at].load(Ordering::Relaxed);
        let activity = Activity::ALL.into_iter().find(|activity| *activity as u64 == head >> 32)?;
        let (tag, messages, bytes) = (word(1), word(3), word(4));
        Some(Wait {
            activity,
            name: Name::from_words(std::array::from_fn(|at| word(NAME_AT + at))),
            peer: (head as u32).checked_sub(1),
            tag: (tag >> 32 & 1 != 0).then_some(tag as u32 as i32),
            context: None,
            open: (tag >> TAG_BITS) as u32,
            unmatched: (messages > 0).then_some(Unmatched { messages, bytes }),
            since: Time::from_picoseconds(word(2)),
            polled: word(POLLED_AT).checked_sub(1).map(Time::from_picoseconds),
        })
    }
}

fn cause(bits: u64) -> DeathCause {
    let number = bits as u32 as i32;
    match bits & !0xffff_ffff {
        CAUSE_SIGNAL => DeathCause::Signal(number),
        CAUSE_EXIT => DeathCause::Exit(number),
        _ => DeathCause::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_joins_once_and_ends_once() {
        let ends = Line::default();
        let lines: Vec<RankLine> = (0..2).map(|_| RankLine::default()).collect();
        let registry = Registry::new(&ends, &lines);
        assert_eq!(registry.state(1), PeerState::Starting);
        registry.join(1, 42).unwrap();
        assert_eq!(registry.join(1, 43), Err(PeerState::Running));
        assert!(registry.fail(1, DeathCause::Signal(9)));
        assert!(!registry.fail(1, DeathCause::Exit(1)));
        registry.leave(1);
        let cause = DeathCause::Signal(9);
        let failure = PeerFailure { rank: 1, pid: 42, host: Name::NONE, cause };
        assert_eq!(registry.state(1), PeerState::Failed(failure));
        assert_eq!(registry.ends(), 1);
    }

    #[test]
    fn a_cause_reads_as_written() {
        for cause in [DeathCause::Signal(9), DeathCause::Exit(3), DeathCause::Unknown] {
            let (ends, lines) = (Line::default(), [RankLine::default()]);
            let registry = Registry::new(&ends, &lines);
            assert!(registry.fail(0, cause));
            let PeerState::Failed(failure) = registry.state(0) else { panic!("{cause:?}") };
            assert_eq!(failure.cause, cause);
        }
    }

    #[test]
    fn a_rank_that_left_cannot_fail() {
        let ends = Line::default();
        let lines = [RankLine::default()];
        let registry = Registry::new(&ends, &lines);
        registry.join(0, 1).unwrap();
        registry.leave(0);
        assert!(!registry.fail(0, DeathCause::Unknown));
        assert_eq!(registry.state(0), PeerState::Left);
    }

    #[test]
    fn ends_say_in_order_who_it_was() {
        let ends = Line::default();
        let lines: Vec<RankLine> = (0..4).map(|_| RankLine::default()).collect();
        let registry = Registry::new(&ends, &lines);
        registry.join(2, 1).unwrap();
        registry.leave(2);
        registry.leave_elsewhere(0);
        for _ in 0..2 {
            registry.fail(3, DeathCause::Unknown);
            registry.leave(2);
        }
        let ended: Vec<_> = (0..5).map(|number| registry.ended(number)).collect();
        assert_eq!(ended, [Some(2), Some(0), Some(3), None, None]);
        lines[1].ended.store(9, Ordering::Relaxed);
        assert_eq!((registry.ended(1), registry.ended(u64::MAX)), (None, None));
        assert_eq!(registry.ended_in(2..3), Some(vec![3]));
        assert_eq!(registry.ended_in(3..3), Some(Vec::new()));
        let backwards = Range { start: 3, end: 2 };
        for unknown in [0..3, 0..5, backwards] {
            assert_eq!(registry.ended_in(unknown), None);
        }
    }

    #[test]
    fn dropped_packets_read_as_written() {
        let (ends, lines) = (Line::default(), [RankLine::default()]);
        let registry = Registry::new(&ends, &lines);
        assert_eq!(registry.dropped(0), DroppedPackets::default());
        for cause in DropCause::ALL {
            let last = Some((u32::MAX - 1, cause));
            let dropped = DroppedPackets { strange: 7, wrong: u32::MAX, last };
            registry.set_dropped(0, &dropped);
            assert_eq!(registry.dropped(0), dropped);
        }
        // As another process may have overwritten it.
        lines[0].dropped[1].store(u64::MAX, Ordering::Relaxed);
        assert_eq!(registry.dropped(0).last, None);
    }

    #[test]
    fn a_wait_reads_as_written() {
        let ends = Line::default();
        let lines = [RankLine::default()];
        let registry = Registry::new(&ends, &lines);
        for activity in Activity::ALL {
            for (peer, tag) in [(None, None), (Some(0), Some(0)), (Some(9), Some(-1))] {
                let unmatched = tag.map(|_| Unmatched { messages: 5, bytes: 1 << 40 });
                let since = Time::from_nanoseconds(7);
                let name = Name::new("broadcast (root 4095)");
                let (open, polled) = (i32::MAX as u32, tag.map(|_| Time::ZERO));
                let wait = Wait { open, unmatched, since, polled, ..Wait::new(activity) };
                let wait = wait.with(peer, tag).named(name);
                registry.set_wait(0, Some(wait.on(8)));
                assert_eq!(registry.wait(0), Some(wait));
            }
        }
        registry.set_wait(0, None);
        assert_eq!(registry.wait(0), None);
    }
}
