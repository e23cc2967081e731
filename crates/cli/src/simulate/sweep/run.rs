//! The runs of a sweep: many small ones, each on a machine at rest.

use std::io;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use crate::simulated::{
    CollectiveError, SimulatedRank, algorithms, chosen, collective, message_costs,
};
use hikyaku::{Choices, CollError, Operation, Time};
use hikyaku_coll::Costs;
use hikyaku_sim::SimError;
use hikyaku_sim::engine::Simulation;
use hikyaku_sim::job::{Job, JobConfig, Payload};
use hikyaku_sim::machine::Machine;
use hikyaku_sim::model::cenju4::Synchronisation;

use super::{SweepPlan, SweepPoint, Timed};
use crate::simulate::watch::RunWatch;

/// Steps of a simulation between two checks of its limits and of the interrupt.
const STEPS: u64 = 1 << 12;

/// A machine that is large enough for a number of ranks, and the costs of their messages on it.
#[derive(Debug)]
struct Grown {
    machine: Machine,
    costs: Option<Arc<Costs>>,
}

impl Grown {
    fn new(machine: Machine, ranks: u32) -> Grown {
        let costs = message_costs(&machine, ranks).map(Arc::new);
        Grown { machine, costs }
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Ran {
    /// It completed: virtual time and messages.
    Whole(Time, u64),
    /// It exceeded the limit on messages or on events.
    TooMuch,
    /// The algorithm does not suit the number of ranks, or needs a missing feature.
    Unsuitable,
    /// The user interrupted it.
    Interrupted,
}

/// All points of a plan. `tell` gets a line per machine and operation. As many of these run in
/// parallel as there are cores; the result is in the plan's order.
///
/// # Errors
/// No thread could be started.
pub(super) fn points(
    plan: &SweepPlan,
    watch: &RunWatch,
    tell: &mut dyn FnMut(String),
) -> io::Result<Vec<SweepPoint>> {
    let mut parts = Vec::new();
    for machine in &plan.machines {
        let mut grown = Vec::new();
        for &ranks in &plan.ranks {
            match machine.with_nodes(ranks) {
                Ok(machine) => grown.push((ranks, Grown::new(machine, ranks))),
                Err(_) => tell(format!("{}: cannot have {ranks} nodes", machine.name)),
            }
        }
        let grown = Arc::new(grown);
        parts.extend(Operation::ALL.map(|operation| (Arc::clone(&grown), operation)));
    }
    let mut found: Vec<Vec<SweepPoint>> = vec![Vec::new(); parts.len()];
    let (next, (sender, receiver)) = (AtomicUsize::new(0), mpsc::sync_channel(parts.len().max(1)));
    let workers = thread::available_parallelism().map_or(1, usize::from).min(parts.len());
    thread::scope(|scope| {
        for worker in 0..workers {
            let (sender, parts, next) = (sender.clone(), &parts, &next);
            let work = move || {
                while let Some((number, (grown, operation))) = take(parts, next)
                    && !watch.interrupted()
                {
                    // Cannot fail: the receiver lasts as long as the scope.
                    let _ = sender.send((number, part(plan, watch, grown, *operation)));
                }
            };
            match thread::Builder::new().spawn_scoped(scope, work) {
                Err(error) if worker == 0 => return Err(error),
                _ => {}
            }
        }
        drop(sender);
        for (number, points) in receiver {
            if let Some(point) = points.first() {
                let (count, operation) = (points.len(), point.operation.name());
                let seconds = watch.seconds();
                tell(format!("{} {operation}: {count} points, {seconds:.0} s", point.machine));
            }
            found[number] = points;
        }
        Ok(())
    })?;
    Ok(found.into_iter().flatten().collect())
}

/// The next part that no worker has taken, with its number.
fn take<'p, T>(parts: &'p [T], next: &AtomicUsize) -> Option<(usize, &'p T)> {
    let number = next.fetch_add(1, Ordering::Relaxed);
    parts.get(number).map(|part| (number, part))
}

/// The points of one operation on one machine, enlarged for each number of ranks. If the user
/// interrupts, the points so far.
fn part(
    plan: &SweepPlan,
    watch: &RunWatch,
    grown: &[(u32, Grown)],
    operation: Operation,
) -> Vec<SweepPoint> {
    let mut points: Vec<SweepPoint> = Vec::new();
    // A barrier has no size.
    let sizes = if operation == Operation::Barrier { &plan.sizes[..1] } else { &plan.sizes[..] };
    for &(ranks, ref machine) in grown {
        for &bytes in sizes {
            // An algorithm that exceeded a limit with fewer ranks and bytes does so here too.
            let abandoned: Vec<&'static str> = points
                .iter()
                .filter(|point| point.ranks <= ranks && point.bytes <= bytes)
                .flat_map(|point| point.abandoned.iter().copied())
                .collect();
            match point(plan, watch, (operation, ranks, bytes), machine, &abandoned) {
                Some(point) if !watch.interrupted() => points.push(point),
                _ => return points,
            }
        }
    }
    points
}

/// One point; `None` if the user interrupted it.
fn point(
    plan: &SweepPlan,
    watch: &RunWatch,
    (operation, ranks, bytes): (Operation, u32, u64),
    machine: &Grown,
    abandoned: &[&'static str],
) -> Option<SweepPoint> {
    let mut point = SweepPoint {
        machine: machine.machine.name.clone(),
        operation,
        ranks,
        bytes,
        times: Vec::new(),
        chosen: choice(plan, machine, (operation, ranks, bytes)),
        abandoned: Vec::new(),
    };
    // Those of the switches need more than messages, which most machines lack.
    for algorithm in algorithms(operation).filter(|by| !["multicast", "sync"].contains(by)) {
        if abandoned.contains(&algorithm) {
            point.abandoned.push(algorithm);
            continue;
        }
        let mut choices = Choices::default();
        // Succeeds: names of the list are known.
        let _ = choices.choose(operation, algorithm);
        match one(plan, watch, machine, (operation, ranks, bytes), choices) {
            Ran::Whole(end, messages) => {
                point.times.push(Timed { algorithm, seconds: end.seconds(), messages });
            }
            Ran::TooMuch => point.abandoned.push(algorithm),
            Ran::Unsuitable => {}
            Ran::Interrupted => return None,
        }
    }
    Some(point)
}

/// A job on a machine at rest, in a simulation of its own, and the barrier of the machine's
/// switches.
fn job(
    plan: &SweepPlan,
    Grown { machine, .. }: &Grown,
    ranks: u32,
) -> Option<(Simulation, Job, Option<Synchronisation>)> {
    let simulation = Simulation::new(plan.seed);
    let installed = machine.install(&simulation);
    let config = JobConfig { payload: Payload::LengthsOnly, ..JobConfig::new(ranks) };
    let job = Job::new(&simulation, config, installed.carrier).ok()?;
    let sync = machine.synchronisation(&simulation, ranks);
    Some((simulation, job, sync))
}

/// The algorithm that is chosen by default.
fn choice(
    plan: &SweepPlan,
    machine: &Grown,
    (operation, ranks, bytes): (Operation, u32, u64),
) -> Option<&'static str> {
    let (_simulation, job, sync) = job(plan, machine, ranks)?;
    let group = SimulatedRank::<()>::new(job.rank(0)).with_sync(sync);
    let group = group.with_costs(machine.costs.clone());
    Some(chosen(&group, operation, bytes as usize))
}

/// One run of one algorithm.
fn one(
    plan: &SweepPlan,
    watch: &RunWatch,
    machine: &Grown,
    (operation, ranks, bytes): (Operation, u32, u64),
    choices: Choices,
) -> Ran {
    let Some((simulation, job, sync)) = job(plan, machine, ranks) else { return Ran::Unsuitable };
    let results = job.launch(move |rank| {
        let group = SimulatedRank::<()>::new(rank).with_sync(sync.clone());
        let group = group.with_costs(machine.costs.clone());
        async move { collective(&group, operation, &choices, bytes as usize).await }
    });
    // The result does not depend on the time of the check: both counts only grow to a fixed end.
    let too_much =
        || job.totals().sent > plan.most_messages || simulation.events() > plan.most_events;
    let ran = simulation.run_observed(STEPS, |_| match too_much() || watch.interrupted() {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    let report = job.report(&results);
    let unsuitable = |result: &Result<(), CollectiveError>| match result {
        Err(CollectiveError::Call(error)) => !matches!(error, CollError::Message(_)),
        _ => false,
    };
    match ran {
        Err(SimError::Stopped { .. }) if watch.interrupted() => Ran::Interrupted,
        Err(SimError::Stopped { .. }) => Ran::TooMuch,
        _ if report.results.iter().any(unsuitable) => Ran::Unsuitable,
        Err(_) => Ran::Unsuitable,
        Ok(()) if too_much() => Ran::TooMuch,
        Ok(()) => Ran::Whole(report.end, report.totals.sent),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::path::Path;

    use super::*;
    use crate::machine::load;

    fn plan(ranks: u32, most_messages: u64) -> SweepPlan {
        let machines = vec![load(Path::new("cp-pacs")).unwrap()];
        let (ranks, sizes, most_events) = (vec![4, ranks], vec![8, 4096], 1_000_000);
        SweepPlan { machines, ranks, sizes, seed: 1, most_messages, most_events }
    }

    #[test]
    fn every_operation_has_its_points_with_a_best_and_a_choice() {
        let mut told = Vec::new();
        let points =
            points(&plan(12, 100_000), &RunWatch::start(), &mut |line| told.push(line)).unwrap();
        // Eleven operations of two sizes, and the barrier.
        assert_eq!((points.len(), told.len()), (2 * 23, 12));
        for point in &points {
            assert!(point.best().is_some() && point.chosen.is_some(), "{point:?}");
            assert!(point.loss().is_some_and(|loss| loss >= 1.0), "{point:?}");
        }
        // The algorithm stated as the table's choice is the one that the table chooses.
        for point in &points {
            let chosen = point.times.iter().find(|timed| Some(timed.algorithm) == point.chosen);
            let by_table = {
                let machine = load(Path::new("cp-pacs")).unwrap().with_nodes(point.ranks).unwrap();
                let machine = Grown::new(machine, point.ranks);
                let what = (point.operation, point.ranks, point.bytes);
                one(&plan(12, 100_000), &RunWatch::start(), &machine, what, Choices::default())
            };
            let Ran::Whole(end, messages) = by_table else { panic!("{point:?}: {by_table:?}") };
            let same = |timed: &Timed| timed.seconds == end.seconds() && timed.messages == messages;
            assert!(chosen.is_some_and(same), "{point:?}: {end} and {messages} messages");
        }
        // Twelve is not a power of two.
        let of = |ranks| points.iter().filter(move |point| point.ranks == ranks);
        let algorithms = |ranks| of(ranks).map(|point| point.times.len()).sum::<usize>();
        assert!(algorithms(12) < algorithms(4));
    }

    /// On each of these machines the table is sometimes 1.5 to 6.9 times as slow as the fastest.
    #[test]
    fn choices_by_costs_are_near_the_fastest_on_every_machine() {
        let sizes = vec![8, 1 << 10];
        let plan = SweepPlan { sizes, most_events: 4_000_000, ..plan(64, 100_000) };
        let (mut judged, mut passed_over, watch) = (0, Vec::new(), RunWatch::start());
        for (name, _) in hikyaku_reproduce::FILES {
            let machine = load(Path::new(name)).unwrap().with_nodes(64).unwrap();
            let grown = [(64, Grown::new(machine, 64))];
            // For these the table alone decides.
            let alone = |operation: &Operation| {
                matches!(operation, Operation::Alltoallw | Operation::Scan | Operation::Exscan)
            };
            for operation in Operation::ALL.into_iter().filter(|operation| !alone(operation)) {
                for point in part(&plan, &watch, &grown, operation) {
                    assert!(point.loss().is_none_or(|loss| loss < 1.2), "{point:?}");
                    match point.loss() {
                        Some(_) => judged += 1,
                        None => passed_over.push((name, operation.name(), point.bytes)),
                    }
                }
            }
        }
        // Skipped: too many events, or done by a machine's switches.
        assert_eq!((judged, passed_over.len()), (8 * 17 - 5, 5), "{passed_over:?}");
    }

    #[test]
    fn ranks_on_nodes_of_their_own_have_thresholds_of_their_own() {
        let chosen_for = |ranks: u32, per_node: u32| {
            let machine = load(Path::new("fat-tree-200g")).unwrap();
            let simulation = Simulation::new(1);
            let carrier = machine.install(&simulation).carrier;
            let config = JobConfig { ranks_per_node: per_node, ..JobConfig::new(ranks) };
            let job = Job::new(&simulation, config, carrier).unwrap();
            let group = SimulatedRank::<()>::new(job.rank(0));
            let parts = [
                (Operation::Barrier, 0),
                (Operation::Gather, 1 << 10),
                (Operation::Alltoall, 1 << 10),
                (Operation::ReduceScatter, 8),
                (Operation::ReduceScatter, 1 << 20),
            ];
            parts.map(|(operation, part)| chosen(&group, operation, part))
        };
        let alone = ["dissemination", "chained", "chained", "reduce-then-scatter", "ring"];
        assert_eq!(chosen_for(64, 1), alone);
        let together = ["wide-tree", "binomial", "pairwise", "pairwise", "pairwise"];
        assert_eq!([chosen_for(64, 64), chosen_for(64, 8)], [together; 2]);
        assert_eq!(chosen_for(8, 8), ["wide-tree", "chained", "chained", "pairwise", "pairwise"]);
        assert_eq!(chosen_for(1, 1), chosen_for(1, 2), "alone on a node, whatever it has room for");
    }

    #[test]
    fn what_sends_too_many_messages_is_abandoned_and_not_tried_again() {
        let points = points(&plan(12, 20), &RunWatch::start(), &mut |_| {}).unwrap();
        let alltoall = points.iter().filter(|point| point.operation == Operation::Alltoall);
        let abandoned: Vec<usize> = alltoall.map(|point| point.abandoned.len()).collect();
        assert_eq!(abandoned, [0, 0, 4, 4]);
    }

    #[test]
    fn what_is_too_many_events_is_abandoned_for_long_messages_only() {
        // A message of 1 MiB is 512 packets on CP-PACS.
        let limited = SweepPlan { sizes: vec![8, 1 << 20], most_events: 5_000, ..plan(4, 100_000) };
        let points = points(&limited, &RunWatch::start(), &mut |_| {}).unwrap();
        let alltoall = points.iter().filter(|point| point.operation == Operation::Alltoall);
        let of = |bytes| alltoall.clone().filter(move |point| point.bytes == bytes);
        assert!(of(8).all(|point| point.abandoned.is_empty() && point.loss().is_some()));
        assert!(of(1 << 20).all(|point| point.abandoned.len() == 4 && point.loss().is_none()));
    }
}
