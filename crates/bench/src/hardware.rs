//! The limits of the bare hardware: probes between two cores, without any message passing.
//!
//! Each probe starts two threads, pins them to the two cores the ranks run on, measures for a
//! millisecond or a few and ends; the caller places it directly before and after each sample.
//! Every probe's figure is the median of batches, so that a batch in which the kernel ran something
//! else does not count.
//!
//! The line probe is the lower bound of any message: one store of one core, seen by the other. The
//! copy probe reads a buffer that the other core has just written, as a receiver's one copy must
//! do; a warm buffer, which is in both caches, would give a too good figure. For messages of warm
//! data it copies warm data.

use std::cell::UnsafeCell;
use std::hint::{black_box, spin_loop};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Release};
use std::thread;
use std::time::Instant;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::control::DataReuse;
use super::{plan, processor};

/// Batches per probe.
const BATCHES: usize = 9;

/// Round trips of the line probe per batch: 60 to 250 µs.
const LINE_ROUNDS: u64 = 500;

/// Hand-offs within one core per batch; each costs a switch of threads.
const SWITCH_ROUNDS: u64 = 50;

/// The copy probe copies at least this many bytes per clock reading.
const COPY_BYTES: usize = 16 * 1024;

/// The turns probe copies about this many bytes per clock reading.
const TURN_BYTES: usize = 512 * 1024;

/// The size and alignment of a cache line.
const LINE_BYTES: usize = 64;

/// The clock of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProbeClock {
    /// Elapsed time.
    Wall,
    /// The processor time of the measuring thread.
    Processor,
}

impl ProbeClock {
    /// How long `work` takes, in nanoseconds.
    fn time(self, work: impl FnOnce()) -> f64 {
        match self {
            ProbeClock::Wall => {
                let start = Instant::now();
                work();
                start.elapsed().as_nanos() as f64
            }
            ProbeClock::Processor => {
                let start = processor::of_thread();
                work();
                (processor::of_thread() - start).as_nanos() as f64
            }
        }
    }

    /// The cost of reading the clock, within such a time, if it is not negligible.
    fn look(self) -> f64 {
        match self {
            ProbeClock::Wall => 0.0,
            ProbeClock::Processor => {
                let empty = || processor::of_thread().abs_diff(processor::of_thread());
                processor::middle_of_empty(empty).as_nanos() as f64
            }
        }
    }
}

/// The two cores of a measurement; equal if the process may use only one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cores {
    /// The core of rank 0.
    pub(crate) first: usize,
    /// The core of rank 1.
    pub(crate) second: usize,
}

impl Cores {
    /// The first two cores this process may use.
    pub(crate) fn available() -> Cores {
        let cpus = affinity();
        let first = cpus.first().copied().unwrap_or(0);
        Cores { first, second: cpus.get(1).copied().unwrap_or(first) }
    }

    /// The cores two ranks are bound to, if each has exactly one and they differ.
    pub(crate) fn of_ranks(first: &[usize], second: &[usize]) -> Option<Cores> {
        match (first, second) {
            (&[first], &[second]) if first != second => Some(Cores { first, second }),
            _ => None,
        }
    }

    fn shared(self) -> bool {
        self.first == self.second
    }
}

/// The CPUs this process may run on, ascending; empty if the kernel does not report them.
pub(crate) fn affinity() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

/// Pins the calling thread. If the kernel refuses (the core went offline), the thread stays where
/// it is: the spread of the blocks then shows the wrong distance.
fn pin(core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    let _ = sched_setaffinity(None, &set);
}

/// A cache line of its own, with the next line, which prefetchers fetch along with it.
#[repr(align(128))]
struct ProbeLine(AtomicU64);

impl ProbeLine {
    fn new() -> ProbeLine {
        ProbeLine(AtomicU64::new(0))
    }

    /// Waits until the line holds `value`; `yielding` if both threads share a core.
    fn wait_for(&self, value: u64, yielding: bool) {
        while self.0.load(Acquire) != value {
            if yielding { thread::yield_now() } else { spin_loop() }
        }
    }
}

/// Runs `first` and `second` on two pinned threads and returns what `first` returns.
fn on_both<R: Send>(
    cores: Cores,
    first: impl FnOnce() -> R + Send,
    second: impl FnOnce() + Send,
) -> R {
    thread::scope(|scope| {
        scope.spawn(move || {
            pin(cores.second);
            second();
        });
        let timed = scope.spawn(move || {
            pin(cores.first);
            first()
        });
        timed.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The median of the batches' nanoseconds.
fn middle(batches: &[f64]) -> f64 {
    plan::median(batches).expect("a probe has a fixed number of batches, and times are finite")
}

/// One cache line handed from one core to the other, in nanoseconds one way.
pub(crate) fn line(cores: Cores) -> f64 {
    alternate(cores, if cores.shared() { SWITCH_ROUNDS } else { LINE_ROUNDS })
}

/// One hand-off between two threads of one core, both yielding, in nanoseconds.
pub(crate) fn switch(core: usize) -> f64 {
    alternate(Cores { first: core, second: core }, SWITCH_ROUNDS)
}

fn alternate(cores: Cores, rounds: u64) -> f64 {
    let line = ProbeLine::new();
    let yielding = cores.shared();
    let total = rounds * BATCHES as u64;
    let answer = || {
        for round in 0..total {
            line.wait_for(2 * round + 1, yielding);
            line.0.store(2 * round + 2, Release);
        }
    };
    let ask = || {
        let batch = |batch: u64| {
            let start = Instant::now();
            for round in batch * rounds..(batch + 1) * rounds {
                line.0.store(2 * round + 1, Release);
                line.wait_for(2 * round + 2, yielding);
            }
            start.elapsed().as_nanos() as f64 / (2 * rounds) as f64
        };
        (0..BATCHES as u64).map(batch).collect::<Vec<f64>>()
    };
    middle(&on_both(cores, ask, answer))
}

/// A stream of cache lines, `window` at a time and then one back: nanoseconds per line.
///
/// This is the least cost of a window of the smallest messages: one line each, moved in a pipeline,
/// and one acknowledgement.
pub(crate) fn stream(cores: Cores, window: u32) -> f64 {
    let lines: Vec<ProbeLine> = (0..window.max(1)).map(|_| ProbeLine::new()).collect();
    let acknowledgement = ProbeLine::new();
    let yielding = cores.shared();
    let rounds = (LINE_ROUNDS / 4).max(1);
    let total = rounds * BATCHES as u64;
    let receive = || {
        for round in 1..=total {
            lines.iter().for_each(|line| line.wait_for(round, yielding));
            acknowledgement.0.store(round, Release);
        }
    };
    let send = || {
        let batch = |batch: u64| {
            let start = Instant::now();
            for round in batch * rounds + 1..=(batch + 1) * rounds {
                lines.iter().for_each(|line| line.0.store(round, Release));
                acknowledgement.wait_for(round, yielding);
            }
            start.elapsed().as_nanos() as f64 / (rounds * lines.len() as u64) as f64
        };
        (0..BATCHES as u64).map(batch).collect::<Vec<f64>>()
    };
    middle(&on_both(cores, send, receive))
}

/// A place that two threads write alternately.
struct Turned {
    /// The number of the turn: the first thread's when even.
    turn: ProbeLine,
    bytes: UnsafeCell<Vec<u8>>,
}

// SAFETY: `bytes` are touched in `Turned::write` alone, by the thread whose turn it is: it has seen
// the other's release of `turn`, and releases it after its last access.
unsafe impl Sync for Turned {}

impl Turned {
    /// Waits for turn `turn`, copies `from` and passes the turn on.
    #[inline]
    fn write(&self, turn: u64, from: &[u8], yielding: bool) {
        self.turn.wait_for(turn, yielding);
        // SAFETY: the turn is this thread's, the threads alternate, and the other one does not
        // access the bytes before the turn is passed on below.
        let bytes = unsafe { &mut *self.bytes.get() };
        bytes.copy_from_slice(black_box(from));
        self.turn.0.store(turn + 1, Release);
    }
}

/// Two threads that copy `bytes` to one place alternately: nanoseconds a turn. A lock with a free
/// hand-over would take that time.
pub(crate) fn turns(cores: Cores, bytes: usize) -> f64 {
    let place = Turned { turn: ProbeLine::new(), bytes: UnsafeCell::new(vec![1; bytes]) };
    let yielding = cores.shared();
    let rounds = (TURN_BYTES / bytes.max(1)).clamp(4, LINE_ROUNDS as usize) as u64;
    let rounds = if yielding { rounds.min(SWITCH_ROUNDS) } else { rounds };
    let answer = || {
        let own = vec![2_u8; bytes];
        (0..rounds * BATCHES as u64).for_each(|round| place.write(2 * round + 1, &own, yielding));
    };
    let ask = || {
        let own = vec![3_u8; bytes];
        let batch = |batch: u64| {
            let start = Instant::now();
            for round in batch * rounds..(batch + 1) * rounds {
                place.write(2 * round, &own, yielding);
            }
            start.elapsed().as_nanos() as f64 / (2 * rounds) as f64
        };
        (0..BATCHES as u64).map(batch).collect::<Vec<f64>>()
    };
    middle(&on_both(cores, ask, answer))
}

/// One copy of `bytes` by one of two cores that alternate: nanoseconds by `clock`, the copy alone.
///
/// Fresh data has just been written by the other core. Warm data was written once; each of the two
/// copies it repeatedly to a place of its own, so that the caches of both hold it, or the part that
/// fits.
///
/// Source and destination both begin on a cache line, which is the best case of the hardware: a
/// destination 16 bytes off its source's alignment, as malloc often places it, was measured to take
/// up to twice as long.
///
/// Small buffers are copied several at a time, since a clock reading costs as much as a copy of 1
/// KiB: adjacent buffers of fresh data, the same buffer repeatedly of warm data.
pub(crate) fn copy(cores: Cores, bytes: usize, clock: ProbeClock, data: DataReuse) -> f64 {
    let bytes = bytes.max(1);
    let count = COPY_BYTES.div_ceil(bytes);
    let (blocks, step) = match data {
        DataReuse::Fresh => (count, bytes),
        DataReuse::Warm => (1, 0),
    };
    let shared = Mutex::new(vec![0_u8; bytes * blocks + LINE_BYTES]);
    let place = || vec![1_u8; bytes * blocks + LINE_BYTES];
    let copy_all = |to: &mut [u8], from: &[u8]| {
        for at in (0..count).map(|number| number * step) {
            black_box(&mut to[at..at + bytes]).copy_from_slice(black_box(&from[at..at + bytes]));
        }
    };
    let turn = ProbeLine::new();
    let yielding = cores.shared();
    let other_side = || {
        let mut own = place();
        let own = from_line(&mut own);
        for round in 0..BATCHES as u64 {
            turn.wait_for(2 * round, yielding);
            let mut shared = lock(&shared);
            match data {
                DataReuse::Warm if round > 0 => copy_all(own, from_line(&mut shared)),
                _ => shared.fill(round as u8),
            }
            drop(shared);
            turn.0.store(2 * round + 1, Release);
        }
    };
    let copy = || {
        let mut own = place();
        let own = from_line(&mut own);
        let mut times = Vec::with_capacity(BATCHES);
        let look = clock.look();
        for round in 0..BATCHES as u64 {
            turn.wait_for(2 * round + 1, yielding);
            let mut shared = lock(&shared);
            let source = from_line(&mut shared);
            let taken = clock.time(|| copy_all(own, source));
            times.push((taken - look).max(1.0) / count as f64);
            drop(shared);
            turn.0.store(2 * round + 2, Release);
        }
        times
    };
    // The measuring side is the second core: the first writes, as rank 0 sends.
    let turned = Cores { first: cores.second, second: cores.first };
    middle(&on_both(turned, copy, other_side))
}

/// The part of `buffer` behind its first line boundary.
fn from_line(buffer: &mut [u8]) -> &mut [u8] {
    let skip = buffer.as_ptr().align_offset(LINE_BYTES).min(buffer.len());
    &mut buffer[skip..]
}

/// Locks the mutex, which the threads hold alternately. A poisoned one means that the other thread
/// panicked, which the scope reports.
fn lock(shared: &Mutex<Vec<u8>>) -> std::sync::MutexGuard<'_, Vec<u8>> {
    shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_probe_gives_a_time_between_two_cores_and_on_one() {
        let here = Cores::available();
        for cores in [here, Cores { first: here.first, second: here.first }] {
            let figures = [
                line(cores),
                stream(cores, 64),
                copy(cores, 1, ProbeClock::Wall, DataReuse::Fresh),
                copy(cores, 1 << 16, ProbeClock::Wall, DataReuse::Fresh),
                copy(cores, 1 << 16, ProbeClock::Processor, DataReuse::Fresh),
                copy(cores, 1, ProbeClock::Wall, DataReuse::Warm),
                copy(cores, 1 << 16, ProbeClock::Wall, DataReuse::Warm),
                switch(cores.first),
                turns(cores, 8),
                turns(cores, 1 << 20),
            ];
            assert!(
                figures.iter().all(|figure| figure.is_finite() && *figure > 0.0),
                "{figures:?}"
            );
        }
    }

    #[test]
    fn a_core_that_does_not_exist_is_no_error() {
        assert!(line(Cores { first: CpuSet::MAX_CPU - 1, second: CpuSet::MAX_CPU - 2 }) > 0.0);
    }

    #[test]
    fn an_empty_window_counts_as_one_message() {
        assert!(stream(Cores::available(), 0) > 0.0);
        assert!(copy(Cores::available(), 0, ProbeClock::Wall, DataReuse::Fresh) > 0.0);
    }

    #[test]
    fn the_ranks_cores_count_only_if_each_has_its_own() {
        assert_eq!(Cores::of_ranks(&[0], &[1]), Some(Cores { first: 0, second: 1 }));
        assert_eq!(Cores::of_ranks(&[0], &[0]), None);
        assert_eq!(Cores::of_ranks(&[0, 1], &[0, 1]), None);
        assert_eq!(Cores::of_ranks(&[], &[1]), None);
    }

    #[test]
    fn the_affinity_mask_is_ascending_and_not_empty() {
        let cpus = affinity();
        assert!(!cpus.is_empty() && cpus.is_sorted());
    }
}
