//! Runs experiments on all processors. Runs are independent of each other and deterministic.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::sensitivity::{Variant, assumptions, variants};
use crate::{ExperimentOutcome, Machines, PaperItem, Report, Result};

/// One run: an unchanged experiment, or one of its variants.
struct Task {
    item: usize,
    variant: Option<Variant>,
}

/// Runs the experiments, and with `ranges` each again for every other value of its assumptions.
/// `done` is called after the unchanged run of each experiment, in the order of completion.
///
/// # Panics
/// An experiment panics, which is a bug.
pub fn run(
    chosen: &[&'static PaperItem],
    ranges: bool,
    mut done: impl FnMut(&'static PaperItem, &ExperimentOutcome, Duration),
) -> Report {
    let mut tasks: Vec<Task> = (0..chosen.len()).map(|item| Task { item, variant: None }).collect();
    if ranges {
        for (item, experiment) in chosen.iter().enumerate() {
            let all = variants(experiment).into_iter().map(Some);
            tasks.extend(all.map(|variant| Task { item, variant }));
        }
    }
    let mut outcomes: Vec<Option<ExperimentOutcome>> = tasks.iter().map(|_| None).collect();
    let next = AtomicUsize::new(0);
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let (send, receive) = mpsc::sync_channel(workers);
    thread::scope(|scope| {
        for _ in 0..workers {
            let send = send.clone();
            scope.spawn(|| work(chosen, &tasks, &next, send));
        }
        drop(send);
        for (task, outcome, took) in receive {
            if tasks[task].variant.is_none() {
                done(chosen[tasks[task].item], &outcome, took);
            }
            outcomes[task] = Some(outcome);
        }
    });
    let mut rest = tasks.into_iter().zip(outcomes).map(|(task, outcome)| {
        (task.item, task.variant, outcome.expect("every task was taken, and no worker panicked"))
    });
    let base: Vec<ExperimentOutcome> =
        rest.by_ref().take(chosen.len()).map(|(_, _, outcome)| outcome).collect();
    let mut runs: Vec<Vec<(Variant, ExperimentOutcome)>> =
        chosen.iter().map(|_| Vec::new()).collect();
    for (item, variant, outcome) in rest {
        runs[item].extend(variant.map(|variant| (variant, outcome)));
    }
    let result = |((item, outcome), runs): ((&&'static PaperItem, ExperimentOutcome), Vec<_>)| {
        Result { item, outcome, assumptions: assumptions(runs) }
    };
    Report { results: chosen.iter().zip(base).zip(runs).map(result).collect() }
}

/// Takes tasks until none is left.
fn work(
    chosen: &[&'static PaperItem],
    tasks: &[Task],
    next: &AtomicUsize,
    done: mpsc::SyncSender<(usize, ExperimentOutcome, Duration)>,
) {
    let stored = Machines::stored();
    loop {
        let at = next.fetch_add(1, Ordering::Relaxed);
        let Some(task) = tasks.get(at) else { return };
        let (item, start) = (chosen[task.item], Instant::now());
        let outcome = match &task.variant {
            Some(variant) => variant.run(item),
            None => (item.run)(&stored),
        };
        if done.send((at, outcome, start.elapsed())).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Verdict, items};

    #[test]
    fn runs_side_by_side_end_in_the_order_asked() {
        let names = ["004-figure-3", "000-table-1", "003-figure-6"];
        let named = |name: &&str| items().iter().find(|item| item.name == *name);
        let chosen: Vec<&'static PaperItem> = names.iter().filter_map(named).collect();
        let mut told = 0;
        let report = run(&chosen, true, |_, _, _| told += 1);
        assert_eq!(told, 3);
        let order: Vec<&str> = report.results.iter().map(|result| result.item.name).collect();
        assert_eq!(order, names);
        let assumed = |at: usize| report.results[at].assumptions.len();
        assert!(assumed(0) == 5 && assumed(1) == 0 && assumed(2) == 11, "{order:?}");
        let alone = (chosen[2].run)(&Machines::stored());
        assert_eq!(report.results[2].outcome.checks, alone.checks);
        assert!(report.count(Verdict::Calibration) > 0);
    }
}
