//! Processor time of this process and of this thread, as counted by the kernel.
//!
//! Reading it costs a system call, some 0.2 µs here, which is more than a small exchange takes. So
//! the cost of reading is measured beside every figure and subtracted.

use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Empty rounds that measure the cost of reading; a round in which another process took the core
/// does not count.
const EMPTY_ROUNDS: usize = 65;

/// Processor time of all threads of this process so far.
pub(crate) fn of_process() -> Duration {
    duration(clock_gettime(ClockId::ProcessCPUTime))
}

/// Processor time of the calling thread so far.
pub(crate) fn of_thread() -> Duration {
    duration(clock_gettime(ClockId::ThreadCPUTime))
}

/// The median of `round` without any work in it.
pub(crate) fn middle_of_empty(mut round: impl FnMut() -> Duration) -> Duration {
    let mut rounds: Vec<Duration> = (0..EMPTY_ROUNDS).map(|_| round()).collect();
    rounds.sort_unstable();
    rounds[EMPTY_ROUNDS / 2]
}

/// The clocks of processor time begin at zero.
fn duration(time: Timespec) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::thread;
    use std::time::Instant;

    use super::*;

    #[test]
    fn working_takes_processor_time_and_sleeping_none() {
        let (process, thread, start) = (of_process(), of_thread(), Instant::now());
        while of_thread() - thread < Duration::from_millis(5) {
            black_box(start);
        }
        let (worked, elapsed) = (of_thread() - thread, start.elapsed());
        assert!(worked <= elapsed + Duration::from_millis(1), "{worked:?} of {elapsed:?}");
        assert!(of_process() - process >= Duration::from_millis(4));
        let before = of_thread();
        thread::park_timeout(Duration::from_millis(20));
        assert!(of_thread() - before < Duration::from_millis(10));
    }

    #[test]
    fn the_middle_does_not_see_an_interruption() {
        let mut round = 0;
        let middle = middle_of_empty(|| {
            round += 1;
            Duration::from_nanos(if round % 7 == 0 { 1_000_000 } else { 100 + round % 3 })
        });
        assert_eq!(middle, Duration::from_nanos(101));
    }
}
