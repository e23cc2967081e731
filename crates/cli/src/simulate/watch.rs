//! Watches a long run: shows a line on its progress, and ends it properly after an interrupt.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hikyaku_report::Unit;
use hikyaku_sim::engine::Progress;
use indicatif::ProgressBar;
use signal_hook::consts::SIGINT;

/// Steps of the simulation between two polls of the clock and the interrupt: some milliseconds.
pub(crate) const STEPS: u64 = 1 << 14;

/// The interval at which the line is updated.
const PERIOD: Duration = Duration::from_millis(200);

/// Watches one run.
#[derive(Debug)]
pub(crate) struct RunWatch {
    interrupted: Arc<AtomicBool>,
    started: Instant,
    /// The time of the last update, and the number of events then.
    shown: (Instant, u64),
    /// Hidden if standard error is not a terminal.
    line: ProgressBar,
}

impl RunWatch {
    /// Starts to catch interrupts and to show the line.
    pub(crate) fn start() -> RunWatch {
        let interrupted = Arc::new(AtomicBool::new(false));
        // If the signal cannot be caught, it ends the process at once, as it would without this.
        let _ = signal_hook::flag::register(SIGINT, Arc::clone(&interrupted));
        let started = Instant::now();
        RunWatch { interrupted, started, shown: (started, 0), line: ProgressBar::new_spinner() }
    }

    /// The run's duration so far in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Whether the user interrupted it.
    pub(crate) fn interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Called every [`STEPS`] steps: updates the line when it is due. Returns whether to continue.
    pub(crate) fn observe(&mut self, progress: &Progress, in_flight: usize) -> ControlFlow<()> {
        if self.interrupted() {
            return ControlFlow::Break(());
        }
        let (since, events) = self.shown;
        let passed = since.elapsed();
        if passed >= PERIOD {
            let rate = (progress.events - events) as f64 / passed.as_secs_f64();
            self.line.set_message(line(progress, rate, in_flight));
            self.shown = (Instant::now(), progress.events);
        }
        ControlFlow::Continue(())
    }

    /// Removes the line.
    pub(crate) fn finish(&mut self) {
        self.line.finish_and_clear();
    }
}

/// The progress of a run in one line.
fn line(progress: &Progress, rate: f64, in_flight: usize) -> String {
    let time = Unit::Seconds.format(progress.now.seconds());
    let rate = Unit::PerSecond.format(rate);
    let unfinished = progress.unfinished;
    format!(
        "{time} of virtual time, {rate} events, {in_flight} messages in flight, \
         {unfinished} ranks to end"
    )
}

#[cfg(test)]
mod tests {
    use hikyaku::Time;

    use super::*;

    #[test]
    fn the_line_says_how_far_how_fast_and_how_much() {
        let now = Time::from_nanoseconds(1_500);
        let progress = Progress { now, events: 10, pending: 3, unfinished: 64 };
        let text = line(&progress, 2.5e6, 17);
        let expected =
            "1.50 µs of virtual time, 2.50 M/s events, 17 messages in flight, 64 ranks to end";
        assert_eq!(text, expected);
    }

    #[test]
    fn an_interrupt_ends_the_run_at_the_next_look() {
        let mut watch = RunWatch::start();
        let progress = Progress { now: Time::ZERO, events: 1, pending: 0, unfinished: 1 };
        assert!(watch.observe(&progress, 0).is_continue());
        watch.interrupted.store(true, Ordering::Relaxed);
        assert!(watch.observe(&progress, 0).is_break());
    }
}
