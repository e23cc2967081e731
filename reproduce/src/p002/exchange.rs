//! The halo exchange of the paper's benchmark: repeated iterations of 36 processes on a ring, each
//! with two neighbours.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use hikyaku_nic::time::Time;
use hikyaku_sim::SimError;
use hikyaku_sim::engine::{Sim, Simulation, TaskName};
use hikyaku_sim::machine::{Interface, Machine, NetworkShape};
use hikyaku_sim::model::tofu2::{Costs, DescriptorCommand, TofuQueueAddress, TofuSystem};
use hikyaku_sim::topology::Node;

use super::program::{self, MappingNumbers};
use crate::Machines;

/// The mapping of the neighbours to queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExchangeScheme {
    /// A queue for each neighbour, on an engine of its own.
    Fast(MappingNumbers),
    /// The same with messages to the right only.
    OneWay,
    /// One queue for both.
    Mrc(MappingNumbers),
    /// The five points of a plane of 4 by 3 nodes: each has four neighbours.
    Plane(PlaneMapping),
}

/// The mapping of four neighbours to queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlaneMapping {
    /// A queue for each, dealt over this number of engines.
    Fast { engines: u32 },
    /// One queue for all.
    Mrc,
}

/// The two schemes, as in the paper's evaluation.
pub(super) const FAST: ExchangeScheme = ExchangeScheme::Fast(MappingNumbers::FAST);
/// FAST with one direction only, for comparison with both.
pub(super) const ONE_WAY: ExchangeScheme = ExchangeScheme::OneWay;
pub(super) const MRC: ExchangeScheme = ExchangeScheme::Mrc(MappingNumbers::mrc(2));

/// The number of iterations that warm up. The next one is timed: all later ones take as long.
const WARM: usize = 3;

/// A rank: its queues, the commands it writes into them, and the number of events it waits for.
#[derive(Debug, Clone)]
struct RankQueues {
    queues: Vec<(TofuQueueAddress, Vec<DescriptorCommand>, u64)>,
}

/// The machine and its costs.
pub(super) fn costs(machines: &Machines) -> (Machine, Costs) {
    let machine = machines.get("fx100-tofu2").clone();
    let Interface::Tofu2(costs) = machine.interface.clone() else {
        unreachable!("the file says which interface it describes")
    };
    (machine, *costs)
}

/// The time of a start and a wait, seconds.
///
/// # Errors
/// The mapping deadlocks.
pub(super) fn run(
    machine: &Machine,
    costs: &Costs,
    scheme: ExchangeScheme,
    bytes: u64,
) -> Result<f64, SimError> {
    let times = iterations(machine, costs, scheme, bytes, (WARM + 1, Time::ZERO))?;
    Ok(times[WARM].seconds())
}

/// The times of all iterations, `count` of them, with a processor that computes for some time
/// between the start and the wait.
fn iterations(
    machine: &Machine,
    costs: &Costs,
    scheme: ExchangeScheme,
    bytes: u64,
    (count, computing): (usize, Time),
) -> Result<Vec<Time>, SimError> {
    let simulation = Simulation::new(0x70f2);
    let system = TofuSystem::new(&simulation, costs, machine.network(&simulation));
    let ends = Rc::new(RefCell::new(Vec::new()));
    for (index, process) in processes(machine, &system, scheme, bytes).into_iter().enumerate() {
        let (sim, system) = (simulation.clone(), system.clone());
        let ends = if index == 0 { Some(Rc::clone(&ends)) } else { None };
        let name = TaskName { kind: "process", index: index as u32 };
        simulation.spawn(name, async move {
            iterate(&sim, &system, process, (count, computing), ends).await;
        });
    }
    simulation.run()?;
    let ends = ends.borrow();
    Ok(ends.windows(2).map(|pair| pair[1] - pair[0]).collect())
}

/// The program of one process. `ends` records the time before each iteration and after the last.
async fn iterate(
    sim: &Sim,
    system: &TofuSystem,
    process: RankQueues,
    (count, computing): (usize, Time),
    ends: Option<Rc<RefCell<Vec<Time>>>>,
) {
    let note = |sim: &Sim| {
        if let Some(ends) = &ends {
            ends.borrow_mut().push(sim.now());
        }
    };
    for iteration in 1..=count as u64 {
        note(sim);
        system.software().await;
        for (queue, program, _) in &process.queues {
            system.start(*queue, program).await;
        }
        if computing > Time::ZERO {
            sim.delay(computing).await;
        }
        for (queue, program, events) in &process.queues {
            let completions = iteration * program.len() as u64;
            system.wait(*queue, completions, iteration * events).await;
        }
    }
    note(sim);
}

/// Opens the queues of all processes and writes their programs, in the order of the ring.
fn processes(
    machine: &Machine,
    system: &TofuSystem,
    scheme: ExchangeScheme,
    bytes: u64,
) -> Vec<RankQueues> {
    let (NetworkShape::Tofu(extent), Interface::Tofu2(costs)) =
        (&machine.shape, &machine.interface)
    else {
        unreachable!("the file says that its network is a Tofu")
    };
    let (ring, extent, engines) = (ring(*extent), *extent, costs.engines as u32);
    // On a node with fewer engines than sides, several sides share one.
    let queue = |node, engine: u32, slots, offset| {
        let opened = system.open(node, engine % engines, slots, offset);
        opened.expect("each engine has twelve queues")
    };
    let open = |node, engine, slots, offset| queue(node, engine, slots, Some(offset));
    let size = ring.len();
    let (left, right) = (|at: usize| (at + size - 1) % size, |at: usize| (at + 1) % size);
    match scheme {
        ExchangeScheme::Fast(mapping) => {
            // Engine 0 faces left, engine 1 right.
            let queues: Vec<[TofuQueueAddress; 2]> =
                ring.iter().map(|&node| [0, 1].map(|e| open(node, e, 8, mapping.offset))).collect();
            let process = |at: usize| {
                let to = [queues[left(at)][1], queues[right(at)][0]];
                let side =
                    |side: usize| (queues[at][side], program::fast(mapping, to[side], bytes), 1);
                RankQueues { queues: vec![side(0), side(1)] }
            };
            (0..size).map(process).collect()
        }
        ExchangeScheme::OneWay => {
            // The readiness for the left neighbour waits for nothing. It releases its queue's data.
            let queues: Vec<[TofuQueueAddress; 2]> = ring
                .iter()
                .map(|&node| [queue(node, 0, 8, None), queue(node, 1, 8, Some(0))])
                .collect();
            let process = |at: usize| {
                let (from, to) = (queues[left(at)][1], queues[right(at)][0]);
                let readies = (queues[at][0], vec![program::ready(from, 1)], 1);
                RankQueues {
                    queues: vec![readies, (queues[at][1], vec![program::data(to, bytes)], 0)],
                }
            };
            (0..size).map(process).collect()
        }
        ExchangeScheme::Mrc(mapping) => {
            let queues: Vec<TofuQueueAddress> =
                ring.iter().map(|&node| open(node, 0, 16, mapping.offset)).collect();
            let process = |at: usize| {
                let neighbours = [queues[left(at)], queues[right(at)]];
                let program = program::mrc(mapping, queues[at], &neighbours, bytes);
                RankQueues { queues: vec![(queues[at], program, 2)] }
            };
            (0..size).map(process).collect()
        }
        ExchangeScheme::Plane(scheme) => plane_processes(&plane(extent), scheme, open, bytes),
    }
}

/// The processes of a plane. The four sides are: backward and forward along the corners, backward
/// and forward along the lines.
fn plane_processes(
    plane: &[[Node; 3]; 4],
    scheme: PlaneMapping,
    open: impl Fn(Node, u32, u32, u32) -> TofuQueueAddress,
    bytes: u64,
) -> Vec<RankQueues> {
    let places = || (0..4usize).flat_map(|corner| (0..3usize).map(move |along| (corner, along)));
    let queues: BTreeMap<_, [TofuQueueAddress; 4]> = places()
        .map(|(corner, along)| {
            let node = plane[corner][along];
            let own = match scheme {
                PlaneMapping::Fast { engines } => [0, 1, 2, 3]
                    .map(|side| open(node, side % engines, 8, MappingNumbers::FAST.offset)),
                PlaneMapping::Mrc => [open(node, 0, 32, MappingNumbers::mrc(4).offset); 4],
            };
            ((corner, along), own)
        })
        .collect();
    let process = |(corner, along): (usize, usize)| {
        let others = [
            ((corner + 3) % 4, along),
            ((corner + 1) % 4, along),
            (corner, (along + 2) % 3),
            (corner, (along + 1) % 3),
        ];
        let own = queues[&(corner, along)];
        let to = [0, 1, 2, 3].map(|side| queues[&others[side]][side ^ 1]);
        let queues = match scheme {
            PlaneMapping::Fast { .. } => {
                let side =
                    |side| (own[side], program::fast(MappingNumbers::FAST, to[side], bytes), 1);
                (0..4).map(side).collect()
            }
            PlaneMapping::Mrc => {
                vec![(own[0], program::mrc(MappingNumbers::mrc(4), own[0], &to, bytes), 4)]
            }
        };
        RankQueues { queues }
    };
    places().map(process).collect()
}

/// Nodes in the order of the ring, for cells of X by Y by Z.
///
/// A ring through all nodes of a Tofu machine in which neighbours are adjacent (paper 002 §5).
///
/// ```text
///   up one column, down the next:      x2   2---3   8---9
///   an even number of columns          x1   1   4   7   10
///   leads back to the start            x0   0   5---6   11 ...and back to 0
/// ```
///
/// In Tofu's cells, A and C have two nodes each, and these four corners form a ring. The ring is
/// then extended as above along B, X, Y and Z.
pub(super) fn ring([x, y, z]: [u32; 3]) -> Vec<Node> {
    // Strides of X, Y, Z, A, B, C: the first varies fastest.
    let cells = x * y * z;
    let (a, b, c) = (cells, 2 * cells, 6 * cells);
    let corners = vec![0, a, a + c, c];
    let dimensions = [(3, b), (x, 1), (y, x), (z, x * y)];
    dimensions.into_iter().fold(corners, |ring, (size, stride)| draw_out(&ring, size, stride))
}

/// The nodes of one cell as a periodic plane: its four corners by its three nodes along B. The
/// neighbours of a node in the plane are adjacent in the network.
pub(super) fn plane([x, y, z]: [u32; 3]) -> [[Node; 3]; 4] {
    let cells = x * y * z;
    let (a, b, c) = (cells, 2 * cells, 6 * cells);
    [0, a, a + c, c].map(|corner| [corner, corner + b, corner + 2 * b])
}

/// The ring with each of its nodes replaced by a line of `size`, walked up and down in turn.
fn draw_out(ring: &[Node], size: u32, stride: u32) -> Vec<Node> {
    let line = |(index, &node): (usize, &Node)| {
        let up = (0..size).map(move |step| node + step * stride);
        let walk: Vec<Node> = if index % 2 == 0 { up.collect() } else { up.rev().collect() };
        walk
    };
    ring.iter().enumerate().flat_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(scheme: ExchangeScheme) -> Result<f64, SimError> {
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
    fn all_iterations_after_the_first_three_take_as_long() {
        let (machine, costs) = costs(&Machines::stored());
        let planes = [PlaneMapping::Fast { engines: 1 }, PlaneMapping::Mrc];
        for scheme in [FAST, ONE_WAY, MRC].into_iter().chain(planes.map(ExchangeScheme::Plane)) {
            for bytes in [0, 5 << 10, 63 << 10] {
                let times = iterations(&machine, &costs, scheme, bytes, (WARM + 10, Time::ZERO));
                let times = times.expect("it does not deadlock").split_off(WARM);
                assert_eq!(times, [times[0]; 10], "{scheme:?}, {bytes} B");
            }
        }
    }

    /// The time in seconds that one more byte in each message of an exchange takes.
    fn a_byte(scheme: ExchangeScheme) -> f64 {
        let (machine, costs) = costs(&Machines::stored());
        let time = |bytes| run(&machine, &costs, scheme, bytes).expect("it does not deadlock");
        (time(48 << 10) - time(16 << 10)) / f64::from(32 << 10)
    }

    #[test]
    fn tf_18_fast_overlaps_both_directions_and_mrc_sends_one_after_the_other() {
        let one_way = a_byte(ONE_WAY);
        let (fast, mrc) = (a_byte(FAST) / one_way, a_byte(MRC) / one_way);
        assert!((fast - 1.0).abs() < 0.01, "FAST takes {fast} times as long a byte as one way");
        assert!((mrc - 2.0).abs() < 0.02, "MRC takes {mrc} times as long a byte as one way");
    }

    #[test]
    fn tf_20_four_neighbours_of_a_plane_take_four_engines() {
        let one_way = a_byte(ONE_WAY);
        for (engines, times) in [(4, 1.0), (2, 2.0), (1, 4.0)] {
            let found = a_byte(ExchangeScheme::Plane(PlaneMapping::Fast { engines })) / one_way;
            assert!((found / times - 1.0).abs() < 0.02, "{engines} engines: {found} times");
        }
        let found = a_byte(ExchangeScheme::Plane(PlaneMapping::Mrc)) / one_way;
        assert!((found / 4.0 - 1.0).abs() < 0.02, "one queue: {found} times");
    }

    #[test]
    fn tf_10_the_exchange_goes_on_while_the_processor_computes() {
        let (machine, costs) = costs(&Machines::stored());
        for scheme in [FAST, MRC] {
            let time = |computing| {
                let last = (WARM + 1, Time::from_nanoseconds(computing));
                let times = iterations(&machine, &costs, scheme, 16 << 10, last);
                times.expect("no deadlock")[WARM].seconds()
            };
            let (alone, busy) = (time(0), time(100_000));
            // Besides the 100 us there are only the writes of the commands and one poll.
            assert!(busy - 100e-6 < 0.6 * alone, "{scheme:?}: {busy} s, by itself {alone} s");
        }
    }

    #[test]
    fn tf_12_too_few_slots_released_is_a_deadlock() {
        let fast = MappingNumbers::FAST;
        let mrc = MappingNumbers::mrc(2);
        for wrong in [
            ExchangeScheme::Fast(MappingNumbers { ready: 1, ..fast }),
            ExchangeScheme::Fast(MappingNumbers { offset: 0, ..fast }),
            // Without the units for the next iteration's RTRs.
            ExchangeScheme::Mrc(MappingNumbers { own: mrc.own - 2, ..mrc }),
        ] {
            let error = outcome(wrong);
            assert!(matches!(error, Err(SimError::Deadlock { .. })), "{wrong:?}: {error:?}");
        }
    }

    use std::collections::BTreeSet;

    use hikyaku_sim::topology::{Grid, Topology};

    #[test]
    fn all_four_neighbours_on_the_plane_are_adjacent_nodes() {
        let (plane, grid) = (plane([3, 1, 1]), Grid::tofu(3, 1, 1));
        for corner in 0..4 {
            for along in 0..3 {
                let node = plane[corner][along];
                for next in [plane[(corner + 1) % 4][along], plane[corner][(along + 1) % 3]] {
                    assert_eq!((grid.distance(node, next), grid.distance(next, node)), (3, 3));
                }
            }
        }
    }

    #[test]
    fn neighbours_on_the_ring_are_adjacent_nodes_and_all_nodes_are_on_it() {
        for extent in [[3, 1, 1], [2, 1, 1], [2, 3, 2]] {
            let ring = ring(extent);
            let grid = Grid::tofu(extent[0], extent[1], extent[2]);
            assert_eq!(ring.iter().collect::<BTreeSet<_>>().len(), grid.nodes() as usize);
            assert_eq!(ring.len(), grid.nodes() as usize);
            for (at, &node) in ring.iter().enumerate() {
                let next = ring[(at + 1) % ring.len()];
                // Injection, one hop, ejection.
                assert_eq!(grid.distance(node, next), 3, "{node} -> {next}");
            }
        }
    }
}
