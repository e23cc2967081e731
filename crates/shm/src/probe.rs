//! Measures which way of storing long messages is faster on this machine, for each new job.
//!
//! No table of processors has the answer: it depends on the distance between two cores' caches, on
//! the number of lines that a core fetches at once for its stores, and on the distance of the
//! memory. So two threads on two processors pass a block to and fro in the new job's own memory,
//! stored each way in turn. The faster way is taken. That takes a millisecond or two, once a job.

use std::hint;
use std::thread;
use std::time::{Duration, Instant};

use hikyaku_nic::ring::LongStores;
use hikyaku_nic::sync::{AtomicU64, Line, Ordering};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::cgroup::Cgroup;
use crate::cpus::Mask;
use crate::mapping::Mapping;

/// Bytes of a block: those of an eager message. The ways differ most clearly there: on an EPYC by
/// 1.3 (near cores) to 5 (far ones), on a Xeon by 1.3 the other way.
const BLOCK: usize = 64 << 10;

/// Bytes stored and loaded at a time: a packet of the default layout.
const PACKET: usize = 8 << 10;

/// Blocks passed in each turn of a way. The first is not measured, since the other way has left the
/// lines in another state.
const BLOCKS: u64 = 4;

/// Turns of each way.
const TURNS: usize = 5;

/// Timeout of the measurement: something else occupies one of the processors.
const PATIENCE: Duration = Duration::from_millis(20);

/// The faster way for ranks of a job with this memory, which is still unused. Cached stores where
/// ranks have one processor, or after the timeout.
pub(crate) fn long_stores(mapping: &Mapping) -> LongStores {
    let cpus = Mask::of_this_thread().first_two();
    let alone = mapping.plan().config.ranks < 2 || mapping.is_conducted();
    match cpus {
        Some(cpus) if !alone && two_run_at_once(Cgroup::of_this_process().cpus()) => {
            faster(measure(mapping, cpus, Instant::now() + PATIENCE))
        }
        _ => LongStores::Cached,
    }
}

/// Whether two threads run at a time where so many processors are allowed.
fn two_run_at_once(quota: Option<u32>) -> bool {
    quota.is_none_or(|cpus| cpus >= 2)
}

/// The way that took less time.
fn faster(times: Option<[Duration; 2]>) -> LongStores {
    match times {
        Some([cached, past]) if past < cached => LongStores::PastCaches,
        _ => LongStores::Cached,
    }
}

/// The time of cached stores and of those past the caches, between these processors.
fn measure(
    mapping: &Mapping,
    [first, second]: [usize; 2],
    until: Instant,
) -> Option<[Duration; 2]> {
    // Blocks stored plus blocks loaded: even is the storing thread's turn, odd the loading one's.
    let turn = Line(AtomicU64::new(0));
    let ways = [LongStores::Cached, LongStores::PastCaches];
    thread::scope(|scope| {
        let loads = || load_blocks(mapping, &turn, second, until);
        // Without a second thread nothing can be measured; the job will fail the same way.
        thread::Builder::new().spawn_scoped(scope, loads).ok()?;
        let stores = || store_blocks(mapping, &turn, first, until, ways);
        thread::Builder::new().spawn_scoped(scope, stores).ok()?.join().ok()?
    })
}

/// Stores blocks, each when the one before has been loaded. Returns the median time of a turn for
/// each way.
fn store_blocks(
    mapping: &Mapping,
    turn: &AtomicU64,
    cpu: usize,
    until: Instant,
    ways: [LongStores; 2],
) -> Option<[Duration; 2]> {
    stay_on(cpu);
    let block = vec![1; block_of(mapping)];
    let area = mapping.first_segment().area(0);
    let mut times = [[Duration::ZERO; TURNS]; 2];
    let mut at = 0;
    for round in 0..TURNS {
        for (way, times) in ways.into_iter().zip(&mut times) {
            let mut began = Instant::now();
            for index in 0..BLOCKS {
                if index == 1 {
                    began = Instant::now();
                }
                for (piece, from) in block.chunks(PACKET).enumerate() {
                    area.store_as(way, piece * PACKET, from);
                }
                turn.store(at + 1, Ordering::Release);
                at += 2;
                wait_for(turn, at, until)?;
            }
            times[round] = began.elapsed();
        }
    }
    Some(times.map(|mut times| {
        times.sort_unstable();
        times[TURNS / 2]
    }))
}

/// Loads each stored block.
fn load_blocks(mapping: &Mapping, turn: &AtomicU64, cpu: usize, until: Instant) {
    stay_on(cpu);
    let mut block = vec![0; block_of(mapping)];
    let area = mapping.first_segment().area(0);
    for index in 0..BLOCKS * 2 * TURNS as u64 {
        if wait_for(turn, 2 * index + 1, until).is_none() {
            return;
        }
        for (piece, into) in block.chunks_mut(PACKET).enumerate() {
            area.load(piece * PACKET, into);
        }
        turn.store(2 * index + 2, Ordering::Release);
    }
}

/// Bytes of a block: fewer if the job's area is smaller.
fn block_of(mapping: &Mapping) -> usize {
    BLOCK.min(mapping.first_segment().area(0).size())
}

/// Waits for this thread's turn; `None` after the timeout.
fn wait_for(turn: &AtomicU64, at: u64, until: Instant) -> Option<()> {
    loop {
        for _ in 0..1000 {
            if turn.load(Ordering::Acquire) == at {
                return Some(());
            }
            hint::spin_loop();
        }
        if Instant::now() > until {
            return None;
        }
        thread::yield_now();
    }
}

/// Binds this thread to a processor. If that is refused, measures without.
fn stay_on(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    let _ = sched_setaffinity(None, &set);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::plan::{JobConfig, MemoryPlan};
    use crate::{Job, attach, memory};

    fn job(ranks: u32, long_stores: Option<LongStores>) -> Job {
        Job::create(&JobConfig { long_stores, ..JobConfig::new(ranks, ranks) }).unwrap()
    }

    #[test]
    fn a_configured_way_of_storing_is_kept() {
        assert!(job(2, None).long_stores().is_some());
        for way in [LongStores::Cached, LongStores::PastCaches] {
            assert_eq!(job(2, Some(way)).long_stores(), Some(way));
        }
        assert_eq!(job(1, None).long_stores(), Some(LongStores::Cached), "one rank");
    }

    #[test]
    fn both_ways_are_measured_and_the_faster_is_taken() {
        let plan = MemoryPlan::new(&JobConfig::new(2, 2)).unwrap();
        let mapping = attach::map(&memory::create(&plan).unwrap(), plan).unwrap();
        let times = measure(&mapping, [0, 0], Instant::now() + Duration::from_secs(20));
        assert!(times.unwrap().iter().all(|time| *time > Duration::ZERO));
        let [short, long] = [1, 2].map(Duration::from_micros);
        assert_eq!(faster(Some([long, short])), LongStores::PastCaches);
        assert_eq!(faster(Some([short, long])), LongStores::Cached);
        assert_eq!(faster(Some([short, short])), LongStores::Cached, "neither is faster");
        assert_eq!(faster(None), LongStores::Cached, "nothing was measured");
    }

    #[test]
    fn where_one_processor_is_allowed_nothing_is_measured() {
        assert_eq!(
            [None, Some(1), Some(2), Some(3)].map(two_run_at_once),
            [true, false, true, true]
        );
    }

    #[test]
    fn a_timeout_selects_cached_stores() {
        let turn = AtomicU64::new(0);
        assert_eq!(wait_for(&turn, 1, Instant::now()), None);
        assert_eq!(wait_for(&turn, 0, Instant::now()), Some(()));
    }
}
