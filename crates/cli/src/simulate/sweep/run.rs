//! The runs of a sweep: small, many, each on a machine at rest.

use std::ops::ControlFlow;

use hikyaku::simulated::{CollectiveError, SimulatedRank, collective};
use hikyaku::{Choices, CollError, Operation, Time};
use hikyaku_sim::SimError;
use hikyaku_sim::engine::Simulation;
use hikyaku_sim::job::{Job, JobConfig, Payload};
use hikyaku_sim::machine::Machine;

use super::{Plan, Point, Timed};
use crate::simulate::watch::Watch;

/// Steps of a simulation between two looks at its limits and at the interrupt.
const STEPS: u64 = 1 << 12;

/// Algorithms that need more than messages; no carrier of a job offers it.
const NEED_FACILITIES: [&str; 4] = ["multicast", "atomic-add", "multicast-add", "sync"];

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Ran {
    /// To its end: virtual time and messages.
    Whole(Time, u64),
    /// It sent too many messages, or was too many events.
    TooMuch,
    /// The algorithm does not suit the number of ranks, or needs what is not there.
    Unsuitable,
    /// The user interrupted it.
    Interrupted,
}

/// All points of a plan, told one machine and operation at a time.
pub(super) fn points(plan: &Plan, watch: &Watch, tell: &mut dyn FnMut(String)) -> Vec<Point> {
    let mut points = Vec::new();
    for machine in &plan.machines {
        for operation in Operation::ALL {
            let done = points.len();
            for (ranks, grown) in grown(machine, &plan.ranks) {
                let Some(grown) = grown else {
                    tell(format!("{}: cannot have {ranks} nodes", machine.name));
                    continue;
                };
                sizes(plan, watch, (operation, ranks), &grown, &mut points);
                if watch.interrupted() {
                    return points;
                }
            }
            let found = points.len() - done;
            let (name, operation) = (&machine.name, operation.name());
            tell(format!("{name} {operation}: {found} points, {:.0} s", watch.seconds()));
        }
    }
    points
}

/// The machine with as many nodes as each number of ranks needs.
fn grown(machine: &Machine, ranks: &[u32]) -> Vec<(u32, Option<Machine>)> {
    ranks.iter().map(|&ranks| (ranks, machine.with_nodes(ranks).ok())).collect()
}

fn sizes(
    plan: &Plan,
    watch: &Watch,
    (operation, ranks): (Operation, u32),
    machine: &Machine,
    points: &mut Vec<Point>,
) {
    // A barrier has no size.
    let sizes = if operation == Operation::Barrier { &plan.sizes[..1] } else { &plan.sizes[..] };
    for &bytes in sizes {
        // What was too much with fewer ranks and bytes is so here.
        let given_up: Vec<&'static str> = points
            .iter()
            .filter(|point| point.machine == machine.name && point.operation == operation)
            .filter(|point| point.ranks <= ranks && point.bytes <= bytes)
            .flat_map(|point| point.given_up.iter().copied())
            .collect();
        match point(plan, watch, (operation, ranks, bytes), machine, &given_up) {
            Some(point) => points.push(point),
            None => return,
        }
    }
}

/// One point; `None` if the user interrupted it.
fn point(
    plan: &Plan,
    watch: &Watch,
    (operation, ranks, bytes): (Operation, u32, u64),
    machine: &Machine,
    given_up: &[&'static str],
) -> Option<Point> {
    let name = machine.name.clone();
    let mut point = Point {
        machine: name,
        operation,
        ranks,
        bytes,
        times: Vec::new(),
        chosen: None,
        given_up: Vec::new(),
    };
    let one = |choices: Choices| one(plan, watch, machine, (operation, ranks, bytes), choices);
    for &algorithm in operation.algorithms() {
        if NEED_FACILITIES.contains(&algorithm) {
            continue;
        }
        if given_up.contains(&algorithm) {
            point.given_up.push(algorithm);
            continue;
        }
        let mut choices = Choices::default();
        // Names of the list are known.
        let _ = choices.choose(operation, algorithm);
        match one(choices) {
            Ran::Whole(end, messages) => {
                point.times.push(Timed { algorithm, seconds: end.seconds(), messages });
            }
            Ran::TooMuch => point.given_up.push(algorithm),
            Ran::Unsuitable => {}
            Ran::Interrupted => return None,
        }
    }
    // What the table chooses is known by what it does: the same messages in the same time.
    match one(Choices::default()) {
        Ran::Whole(end, messages) => {
            let same =
                |timed: &&Timed| timed.seconds == end.seconds() && timed.messages == messages;
            point.chosen = point.times.iter().find(same).map(|timed| timed.algorithm);
        }
        Ran::Interrupted => return None,
        Ran::TooMuch | Ran::Unsuitable => {}
    }
    Some(point)
}

/// One run of one algorithm.
fn one(
    plan: &Plan,
    watch: &Watch,
    machine: &Machine,
    (operation, ranks, bytes): (Operation, u32, u64),
    choices: Choices,
) -> Ran {
    let simulation = Simulation::new(plan.seed);
    let installed = machine.install(&simulation);
    let config = JobConfig { payload: Payload::LengthsOnly, ..JobConfig::new(ranks) };
    let Ok(job) = Job::new(&simulation, config, installed.carrier) else { return Ran::Unsuitable };
    let results = job.launch(move |rank| async move {
        let group = SimulatedRank::<()>::new(rank);
        collective(&group, operation, &choices, bytes as usize).await
    });
    // Neither depends on when the look is: both only grow, and are what they are in the end.
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

    fn plan(ranks: u32, most_messages: u64) -> Plan {
        let machines = vec![load(Path::new("cp-pacs")).unwrap()];
        let (ranks, sizes, most_events) = (vec![4, ranks], vec![8, 4096], 1_000_000);
        Plan { machines, ranks, sizes, seed: 1, most_messages, most_events }
    }

    #[test]
    fn every_operation_has_its_points_with_a_best_and_a_choice() {
        let mut told = Vec::new();
        let points = points(&plan(12, 100_000), &Watch::start(), &mut |line| told.push(line));
        // Eleven operations of two sizes, and the barrier.
        assert_eq!((points.len(), told.len()), (2 * 23, 12));
        for point in &points {
            assert!(point.best().is_some() && point.chosen.is_some(), "{point:?}");
            assert!(point.loss().is_some_and(|loss| loss >= 1.0), "{point:?}");
        }
        // Twelve is no power of two.
        let of = |ranks| points.iter().filter(move |point| point.ranks == ranks);
        let algorithms = |ranks| of(ranks).map(|point| point.times.len()).sum::<usize>();
        assert!(algorithms(12) < algorithms(4));
    }

    #[test]
    fn what_sends_too_many_messages_is_given_up_and_not_tried_again() {
        let points = points(&plan(12, 20), &Watch::start(), &mut |_| {});
        let alltoall = points.iter().filter(|point| point.operation == Operation::Alltoall);
        let given_up: Vec<usize> = alltoall.map(|point| point.given_up.len()).collect();
        assert_eq!(given_up, [0, 0, 3, 3]);
    }

    #[test]
    fn what_is_too_many_events_is_given_up_for_long_messages_only() {
        // A message of 1 MiB is 512 packets on CP-PACS.
        let limited = Plan { sizes: vec![8, 1 << 20], most_events: 5_000, ..plan(4, 100_000) };
        let points = points(&limited, &Watch::start(), &mut |_| {});
        let alltoall = points.iter().filter(|point| point.operation == Operation::Alltoall);
        let of = |bytes| alltoall.clone().filter(move |point| point.bytes == bytes);
        assert!(of(8).all(|point| point.given_up.is_empty() && point.chosen.is_some()));
        assert!(of(1 << 20).all(|point| point.given_up.len() == 3 && point.chosen.is_none()));
    }
}
