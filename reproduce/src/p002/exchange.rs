//! The halo exchange of the paper's benchmark: 36 processes on a ring, each with two neighbours,
//! one iteration after the other.

use std::cell::RefCell;
use std::rc::Rc;

use hikyaku_sim::SimError;
use hikyaku_sim::engine::{Sim, Simulation, TaskName};
use hikyaku_sim::machine::{Interface, Machine, Shape};
use hikyaku_sim::model::tofu2::{Command, Costs, QueueAddress, System};

use super::program::{self, Mapping};
use super::ring::ring;
use crate::Machines;

/// How the neighbours are mapped to queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    /// A queue for each neighbour, on an engine of its own.
    Fast(Mapping),
    /// The same with messages to the right only.
    OneWay,
    /// One queue for both.
    Mrc(Mapping),
}

/// The two schemes as the paper evaluates them.
pub(super) const FAST: Scheme = Scheme::Fast(Mapping::FAST);
/// FAST with one direction alone, to compare both with.
pub(super) const ONE_WAY: Scheme = Scheme::OneWay;
pub(super) const MRC: Scheme = Scheme::Mrc(Mapping::mrc(2));

/// Iterations: the first ones warm up, the others are averaged.
const WARM: usize = 3;
const TIMED: usize = 10;

/// What a rank has: its queues, what it writes into them, and how many events it waits for.
#[derive(Debug, Clone)]
struct Process {
    queues: Vec<(QueueAddress, Vec<Command>, u64)>,
}

/// The machine and its costs.
pub(super) fn costs(machines: &Machines) -> (Machine, Costs) {
    let machine = machines.get("fx100-tofu2").clone();
    let Interface::Tofu2(costs) = machine.interface.clone() else {
        unreachable!("the file says which interface it describes")
    };
    (machine, *costs)
}

/// Mean time of a start and a wait, seconds.
///
/// # Errors
/// The mapping deadlocks.
pub(super) fn run(
    machine: &Machine,
    costs: &Costs,
    scheme: Scheme,
    bytes: u64,
) -> Result<f64, SimError> {
    let simulation = Simulation::new(0x70f2);
    let system = System::new(&simulation, costs, machine.network(&simulation));
    let ends = Rc::new(RefCell::new(Vec::new()));
    for (index, process) in processes(machine, &system, scheme, bytes).into_iter().enumerate() {
        let (sim, system) = (simulation.clone(), system.clone());
        let ends = if index == 0 { Some(Rc::clone(&ends)) } else { None };
        let name = TaskName { kind: "process", index: index as u32 };
        simulation.spawn(name, async move { iterate(&sim, &system, process, ends).await });
    }
    simulation.run()?;
    let ends = ends.borrow();
    Ok((ends[WARM + TIMED] - ends[WARM]) / TIMED as f64)
}

/// The program of one process; `ends` takes the time before each iteration and after the last.
async fn iterate(
    sim: &Sim,
    system: &System,
    process: Process,
    ends: Option<Rc<RefCell<Vec<f64>>>>,
) {
    let note = |sim: &Sim| {
        if let Some(ends) = &ends {
            ends.borrow_mut().push(sim.now().seconds());
        }
    };
    for iteration in 1..=(WARM + TIMED) as u64 {
        note(sim);
        system.software().await;
        for (queue, program, _) in &process.queues {
            system.start(*queue, program).await;
        }
        for (queue, program, events) in &process.queues {
            let completions = iteration * program.len() as u64;
            system.wait(*queue, completions, iteration * events).await;
        }
    }
    note(sim);
}

/// Opens the queues of all processes and writes their programs, in the order of the ring.
fn processes(machine: &Machine, system: &System, scheme: Scheme, bytes: u64) -> Vec<Process> {
    let Shape::Tofu(extent) = machine.shape else {
        unreachable!("the file says that its network is a Tofu")
    };
    let ring = ring(extent);
    let queue = |node, engine, slots, offset| {
        system.open(node, engine, slots, offset).expect("each engine has twelve queues")
    };
    let open = |node, engine, slots, offset| queue(node, engine, slots, Some(offset));
    let size = ring.len();
    let (left, right) = (|at: usize| (at + size - 1) % size, |at: usize| (at + 1) % size);
    match scheme {
        Scheme::Fast(mapping) => {
            // Engine 0 faces left, engine 1 right.
            let queues: Vec<[QueueAddress; 2]> =
                ring.iter().map(|&node| [0, 1].map(|e| open(node, e, 8, mapping.offset))).collect();
            let process = |at: usize| {
                let to = [queues[left(at)][1], queues[right(at)][0]];
                let side =
                    |side: usize| (queues[at][side], program::fast(mapping, to[side], bytes), 1);
                Process { queues: vec![side(0), side(1)] }
            };
            (0..size).map(process).collect()
        }
        Scheme::OneWay => {
            // Nothing gates the readiness for the left one; it releases the data of its queue.
            let queues: Vec<[QueueAddress; 2]> = ring
                .iter()
                .map(|&node| [queue(node, 0, 8, None), queue(node, 1, 8, Some(0))])
                .collect();
            let process = |at: usize| {
                let (from, to) = (queues[left(at)][1], queues[right(at)][0]);
                let readies = (queues[at][0], vec![program::ready(from, 1)], 1);
                Process {
                    queues: vec![readies, (queues[at][1], vec![program::data(to, bytes)], 0)],
                }
            };
            (0..size).map(process).collect()
        }
        Scheme::Mrc(mapping) => {
            let queues: Vec<QueueAddress> =
                ring.iter().map(|&node| open(node, 0, 16, mapping.offset)).collect();
            let process = |at: usize| {
                let neighbours = [queues[left(at)], queues[right(at)]];
                let program = program::mrc(mapping, queues[at], &neighbours, bytes);
                Process { queues: vec![(queues[at], program, 2)] }
            };
            (0..size).map(process).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(scheme: Scheme) -> Result<f64, SimError> {
        let (machine, costs) = costs(&Machines::stored());
        run(&machine, &costs, scheme, 1024)
    }

    #[test]
    fn tf_14_messages_of_no_bytes_complete() {
        let (machine, costs) = costs(&Machines::stored());
        for scheme in [FAST, MRC] {
            assert!(run(&machine, &costs, scheme, 0).is_ok_and(|time| time > 1e-6));
        }
    }

    #[test]
    fn tf_12_too_few_slots_released_is_a_deadlock() {
        let fast = Mapping::FAST;
        let mrc = Mapping::mrc(2);
        for wrong in [
            Scheme::Fast(Mapping { ready: 1, ..fast }),
            Scheme::Fast(Mapping { offset: 0, ..fast }),
            // Without the units for the next iteration's RTRs.
            Scheme::Mrc(Mapping { own: mrc.own - 2, ..mrc }),
        ] {
            let error = outcome(wrong);
            assert!(matches!(error, Err(SimError::Deadlock { .. })), "{wrong:?}: {error:?}");
        }
    }
}
