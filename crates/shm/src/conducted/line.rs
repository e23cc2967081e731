//! One rank's control words in a job in virtual time.
//!
//! The turn decides which side may access the other words: the rank or the conductor. So those are
//! plain stores and loads, ordered by the accesses to the turn.

use std::mem::size_of;

use hikyaku_nic::fabric::{FullCause, Rank};
use hikyaku_nic::hosted::{ConductorAnswer, ConductorRequest};
use hikyaku_nic::sync::{AtomicU32, AtomicU64, Ordering};
use hikyaku_nic::time::Time;
use rustix::thread::futex::{self, Flags, Timespec};

/// The values of the turn. It is the rank's in a new line, and the conductor's if another process
/// has overwritten it with an invalid value: then neither side polls for ever.
pub(crate) const RANKS: u32 = 0;
const CONDUCTORS: u32 = 1;

/// Longest sleep of a rank before it polls for its turn: an overwritten word wakes no rank.
const LOOK_AGAIN: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Sizes at which costs are stored: zero, and powers of two from 8 B to 32 MiB.
const SIZES: usize = 24;

/// A cost by number of bytes: exact at zero and at powers of two from 8 B to 32 MiB, linear in
/// between and beyond.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CostBySize([Time; SIZES]);

impl CostBySize {
    /// The costs given by a function.
    pub fn of(cost: impl Fn(u64) -> Time) -> CostBySize {
        CostBySize(std::array::from_fn(|place| cost(size(place))))
    }

    /// The cost of `bytes` bytes.
    pub fn at(&self, bytes: u64) -> Time {
        let above = (1..SIZES).find(|place| size(*place) >= bytes).unwrap_or(SIZES - 1);
        let [from, to] = [above - 1, above].map(|place| i128::from(self.0[place].picoseconds()));
        let [low, high] = [above - 1, above].map(|place| i128::from(size(place)));
        let cost = from + (to - from) * (i128::from(bytes) - low) / (high - low);
        Time::from_picoseconds(u64::try_from(cost.max(0)).unwrap_or(u64::MAX))
    }
}

fn size(place: usize) -> u64 {
    if place == 0 { 0 } else { 4 << place }
}

/// The costs that a job in virtual time charges a rank, in the rank's own time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LineCosts {
    /// The cost of passing a message, or another command, for another node to the interface.
    pub send: CostBySize,
    /// The same for each command of a chain after the first.
    pub chained: CostBySize,
    /// The cost of taking a message of another node from the interface.
    pub receive: CostBySize,
    /// The cost of a poll.
    pub look: Time,
    /// The cost of copying 1 KiB.
    pub copy: Time,
    /// The cost of reading data that another rank of the same node has just written.
    pub near: Time,
    /// Factor for processor time between calls, in thousandths; 0: only the time that the program
    /// declares with [`hikyaku_nic::hosted::HostedPort::compute`] is charged.
    pub measured: u32,
    /// Whether to yield the turn after every deed, for ranks that one thread steps.
    pub at_once: bool,
    /// Whether the network copies a message to several nodes.
    pub copies: bool,
}

/// The time that a rank has spent so far, by kind, and its number of calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Computing, declared or measured.
    pub computing: Time,
    /// Waiting for others.
    pub waiting: Time,
    /// The number of calls that were served: commands, successful polls, waits.
    pub calls: u64,
    /// The rank's own time at its last call.
    pub now: Time,
}

/// The control words. All zero: the rank has not begun.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub(crate) struct TurnLine {
    turn: AtomicU32,
    /// The number of requests of all ranks, in the first rank's line: for a conductor that serves
    /// them in any order.
    bell: AtomicU32,
    begun: AtomicU32,
    request: AtomicU64,
    words: [AtomicU64; 3],
    time: AtomicU64,
    answer: AtomicU64,
    /// The number of bytes in the log.
    pub(crate) used: AtomicU64,
    /// Nonzero if a send was refused since the rank last parked.
    pub(crate) refused: AtomicU64,
    /// The number of bytes in the inbox.
    pub(crate) arrived: AtomicU64,
    send: [AtomicU64; SIZES],
    chained: [AtomicU64; SIZES],
    receive: [AtomicU64; SIZES],
    costs: [AtomicU64; 6],
    tally: [AtomicU64; 3],
}

/// The progress of a rank's sends to another, stored after the line: how many have landed or
/// failed, and why the next one cannot land.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct SendProgress {
    pub(crate) landed: AtomicU32,
    blocked: AtomicU32,
}

/// Bytes of a rank's line, its send progress, its log and an equally large inbox; `None` on
/// overflow.
pub(crate) fn line_bytes(ranks: u32, log_bytes: u32) -> Option<usize> {
    if log_bytes == 0 {
        return Some(0);
    }
    let ways = (ranks as usize).checked_mul(size_of::<SendProgress>())?;
    let bytes = size_of::<TurnLine>().checked_add(ways)?.checked_next_multiple_of(128)?;
    bytes.checked_add((log_bytes as usize).checked_mul(2)?)?.checked_next_multiple_of(128)
}

/// The start of a rank's log, from the start of its line.
pub(crate) fn log_at(ranks: u32) -> usize {
    (size_of::<TurnLine>() + ranks as usize * size_of::<SendProgress>()).next_multiple_of(128)
}

const CAUSES: [FullCause; 7] = [
    FullCause::RingStalled,
    FullCause::RingRefused,
    FullCause::StatusStalled,
    FullCause::StatusRefused,
    FullCause::Credit,
    FullCause::Outstanding,
    FullCause::Register,
];

impl SendProgress {
    pub(crate) fn blocked(&self) -> Option<FullCause> {
        let number = self.blocked.load(Ordering::Relaxed) as usize;
        CAUSES.get(number.checked_sub(1)?).copied()
    }

    pub(crate) fn set_blocked(&self, cause: Option<FullCause>) {
        let place = cause.and_then(|cause| CAUSES.iter().position(|known| *known == cause));
        self.blocked.store(place.map_or(0, |place| place as u32 + 1), Ordering::Relaxed);
    }
}

impl TurnLine {
    /// The rank's side: makes a request and yields the turn.
    pub(crate) fn ask(&self, request: ConductorRequest, now: Time, first: &TurnLine) {
        let (kind, words) = encode(request);
        self.begun.store(1, Ordering::Release);
        self.request.store(kind, Ordering::Relaxed);
        for (word, value) in self.words.iter().zip(words) {
            word.store(value, Ordering::Relaxed);
        }
        self.time.store(now.picoseconds(), Ordering::Relaxed);
        self.turn.store(CONDUCTORS, Ordering::Release);
        wake(&self.turn);
        if self.costs[AT_ONCE].load(Ordering::Relaxed) != 0 {
            first.bell.fetch_add(1, Ordering::AcqRel);
            wake(&first.bell);
        }
    }

    /// Whether the rank has made a request yet.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire) != 0
    }

    /// The rank's side: sleeps until its turn. Returns the time and the answer to its request.
    pub(crate) fn await_turn(&self) -> (Time, ConductorAnswer) {
        loop {
            match self.turn.load(Ordering::Acquire) {
                RANKS => break,
                conductors => wait(&self.turn, conductors, Some(&LOOK_AGAIN)),
            }
        }
        let answer = match self.answer.load(Ordering::Relaxed) {
            0 => ConductorAnswer::GoOn,
            1 => ConductorAnswer::LookAround,
            number => ConductorAnswer::Refused((number - 2) as u32),
        };
        (Time::from_picoseconds(self.time.load(Ordering::Relaxed)), answer)
    }

    /// The conductor's side: gives the turn to the rank.
    pub(crate) fn give(&self, now: Time, answer: ConductorAnswer) {
        let number = match answer {
            ConductorAnswer::GoOn => 0,
            ConductorAnswer::LookAround => 1,
            ConductorAnswer::Refused(number) => u64::from(number) + 2,
        };
        self.answer.store(number, Ordering::Relaxed);
        self.time.store(now.picoseconds(), Ordering::Relaxed);
        self.turn.store(RANKS, Ordering::Release);
        wake(&self.turn);
    }

    /// The conductor's side: the rank's request, if it has yielded its turn.
    pub(crate) fn asked(&self) -> Option<(Time, ConductorRequest)> {
        if self.turn.load(Ordering::Acquire) == RANKS {
            return None;
        }
        let words = [0, 1, 2].map(|at| self.words[at].load(Ordering::Relaxed));
        let request = decode(self.request.load(Ordering::Relaxed), words);
        Some((Time::from_picoseconds(self.time.load(Ordering::Relaxed)), request))
    }

    /// The conductor's side: sleeps for at most `limit`, until the rank has yielded its turn.
    pub(crate) fn await_request(&self, limit: Timespec) {
        wait(&self.turn, RANKS, Some(&limit));
    }

    /// The number of requests of all ranks. For the first rank's line.
    pub(crate) fn bell(&self) -> u32 {
        self.bell.load(Ordering::Acquire)
    }

    /// Sleeps for at most `limit`, until there are more requests.
    pub(crate) fn await_bell(&self, seen: u32, limit: Timespec) {
        wait(&self.bell, seen, Some(&limit));
    }

    pub(crate) fn costs(&self) -> LineCosts {
        let word = |at: usize| self.costs[at].load(Ordering::Relaxed);
        let time = |at| Time::from_picoseconds(word(at));
        let by_size = |words: &[AtomicU64; SIZES]| {
            let word = |place: usize| words[place].load(Ordering::Relaxed);
            CostBySize(std::array::from_fn(|place| Time::from_picoseconds(word(place))))
        };
        let [send, chained, receive] = [&self.send, &self.chained, &self.receive].map(by_size);
        let [look, copy, near] = [0, 1, 2].map(time);
        let (measured, at_once, copies) = (word(3) as u32, word(AT_ONCE) != 0, word(5) != 0);
        LineCosts { send, chained, receive, look, copy, near, measured, at_once, copies }
    }

    pub(crate) fn set_costs(&self, costs: &LineCosts) {
        let LineCosts { send, chained, receive, look, copy, near, measured, at_once, copies } =
            *costs;
        let by_size = [(&self.send, send), (&self.chained, chained), (&self.receive, receive)];
        for (words, times) in by_size {
            let pairs = words.iter().zip(times.0);
            pairs.for_each(|(word, time)| word.store(time.picoseconds(), Ordering::Relaxed));
        }
        let times = [look, copy, near].map(Time::picoseconds);
        let flags = [u64::from(measured), u64::from(at_once), u64::from(copies)];
        let words = times.into_iter().chain(flags);
        self.costs.iter().zip(words).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
    }

    pub(crate) fn tally(&self) -> Tally {
        let word = |at: usize| self.tally[at].load(Ordering::Relaxed);
        let time = |at| Time::from_picoseconds(word(at));
        let now = Time::from_picoseconds(self.time.load(Ordering::Relaxed));
        Tally { computing: time(0), waiting: time(1), calls: word(2), now }
    }

    pub(crate) fn set_tally(&self, tally: &Tally) {
        let words = [tally.computing.picoseconds(), tally.waiting.picoseconds(), tally.calls];
        self.tally.iter().zip(words).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
    }
}

/// The index of `at_once` among the costs.
const AT_ONCE: usize = 4;

const NEVER: u64 = u64::MAX;

fn encode(request: ConductorRequest) -> (u64, [u64; 3]) {
    match request {
        ConductorRequest::Start => (0, [0; 3]),
        ConductorRequest::CatchUp => (1, [0; 3]),
        ConductorRequest::Park(until) => (2, [until.map_or(NEVER, Time::picoseconds), 0, 0]),
        ConductorRequest::Travel { from, to, bytes } => {
            (3, [u64::from(from), u64::from(to), bytes])
        }
        ConductorRequest::Leave => (4, [0; 3]),
        ConductorRequest::Answers(puts) => (5, [u64::from(puts), 0, 0]),
    }
}

fn decode(kind: u64, words: [u64; 3]) -> ConductorRequest {
    let [first, second, third] = words;
    match kind {
        0 => ConductorRequest::Start,
        1 => ConductorRequest::CatchUp,
        2 => ConductorRequest::Park((first != NEVER).then_some(Time::from_picoseconds(first))),
        3 => ConductorRequest::Travel { from: first as Rank, to: second as Rank, bytes: third },
        5 => ConductorRequest::Answers(first as u32),
        _ => ConductorRequest::Leave,
    }
}

fn wake(word: &AtomicU32) {
    // It can fail only for an invalid address.
    let _ = futex::wake(word, Flags::empty(), 1);
}

fn wait(word: &AtomicU32, while_it_is: u32, limit: Option<&Timespec>) {
    // A wake-up, an earlier change, a signal, or the limit: the caller polls in every case.
    let _ = futex::wait(word, Flags::empty(), while_it_is, limit);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::{Arc, mpsc};
    use std::time::Duration;
    use std::{fs, thread};

    use rustix::thread::gettid;

    use super::*;

    #[test]
    fn requests_round_trip() {
        let soon = Time::from_nanoseconds(7);
        for request in [
            ConductorRequest::Start,
            ConductorRequest::CatchUp,
            ConductorRequest::Park(None),
            ConductorRequest::Park(Some(soon)),
            ConductorRequest::Travel { from: 1, to: 2, bytes: 1 << 40 },
            ConductorRequest::Answers(u32::MAX),
            ConductorRequest::Leave,
        ] {
            let line = TurnLine::default();
            assert_eq!(line.asked(), None, "it is the rank's turn");
            line.ask(request, soon, &line);
            assert_eq!(line.asked(), Some((soon, request)));
        }
    }

    #[test]
    fn an_answer_comes_with_the_turn() {
        let refused = [0, 1, u32::MAX].map(ConductorAnswer::Refused);
        for answer in
            [ConductorAnswer::GoOn, ConductorAnswer::LookAround].into_iter().chain(refused)
        {
            let line = TurnLine::default();
            line.ask(ConductorRequest::CatchUp, Time::ZERO, &line);
            line.give(Time::from_nanoseconds(3), answer);
            assert_eq!(line.await_turn(), (Time::from_nanoseconds(3), answer));
        }
    }

    #[test]
    fn an_overwritten_turn_is_somebodys() {
        let line = Arc::new(TurnLine::default());
        line.ask(ConductorRequest::CatchUp, Time::ZERO, &line);
        line.turn.store(77, Ordering::Relaxed);
        assert_eq!(line.asked(), Some((Time::ZERO, ConductorRequest::CatchUp)));
        line.turn.store(CONDUCTORS, Ordering::Relaxed);
        let (tell, told) = mpsc::sync_channel(2);
        let rank = Arc::clone(&line);
        thread::spawn(move || {
            tell.send(Some(gettid())).unwrap();
            rank.await_turn();
            tell.send(None).unwrap();
        });
        let thread = told.recv().unwrap().unwrap().as_raw_nonzero();
        let status = || fs::read_to_string(format!("/proc/self/task/{thread}/status")).unwrap();
        while !status().contains("State:\tS") {
            thread::yield_now();
        }
        // No process wakes it.
        line.turn.store(RANKS, Ordering::Relaxed);
        told.recv_timeout(Duration::from_secs(60)).expect("the rank sleeps for ever");
    }

    #[test]
    fn costs_are_exact_at_powers_of_two() {
        let steps = CostBySize::of(|bytes| Time::from_picoseconds(10 + bytes.div_ceil(64) * 100));
        let at = |bytes| steps.at(bytes).picoseconds();
        assert_eq!([0, 8, 64, 128, 65536].map(at), [10, 110, 110, 210, 102_410]);
        assert_eq!([4, 96, 192].map(at), [60, 160, 310]);
        assert_eq!(at(64 << 20), 10 + 100 * (1 << 20), "beyond the last size");
        let falling = CostBySize::of(|bytes| Time::from_picoseconds((40 << 20) - bytes));
        assert_eq!(falling.at(8 << 20).picoseconds(), 32 << 20);
        assert_eq!(falling.at(u64::MAX), Time::ZERO, "no cost is below nothing");
    }

    #[test]
    fn causes_and_costs_round_trip() {
        let way = SendProgress::default();
        assert_eq!(way.blocked(), None);
        for cause in CAUSES {
            way.set_blocked(Some(cause));
            assert_eq!(way.blocked(), Some(cause));
        }
        way.set_blocked(None);
        assert_eq!(way.blocked(), None);
        let ns = Time::from_nanoseconds;
        let [send, chained, receive] =
            [1, 2, 3].map(|factor| CostBySize::of(|bytes| ns(7 + factor * bytes)));
        let [look, copy, near] = [ns(2), ns(3), ns(4)];
        for (at_once, copies) in [(true, false), (false, true)] {
            let measured = 2500;
            let costs =
                LineCosts { send, chained, receive, look, copy, near, measured, at_once, copies };
            let line = TurnLine::default();
            line.set_costs(&costs);
            assert_eq!(line.costs(), costs);
        }
    }
}
