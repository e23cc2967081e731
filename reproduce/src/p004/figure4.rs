//! Figure 4: latency of a one-to-all broadcast by three algorithms.

use std::rc::Rc;

use hikyaku_nic::time::Time;
use hikyaku_report::{Axis, LineChart, Series, Unit};
use hikyaku_sim::engine::Signal;
use hikyaku_sim::model::cppacs::{NiaSystem, Tcw};
use hikyaku_sim::topology::{HyperCrossbar, Node, Topology};

use super::partition::{ProgramRun, lengths};
use crate::{Check, ExperimentOutcome, Machines};

/// The algorithms of §3.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BroadcastAlgorithm {
    /// ONE2ALL-SYS: along X, then Y, then Z; the operating system forwards it.
    System,
    /// ONE2ALL-PP: the root sends to each of the others.
    PointToPoint,
    /// ONE2ALL-BT: a binary tree, the sends of a node in one chain.
    Tree,
}

impl BroadcastAlgorithm {
    /// In the order of the figure's legend.
    pub(crate) const ALL: [BroadcastAlgorithm; 3] =
        [BroadcastAlgorithm::PointToPoint, BroadcastAlgorithm::System, BroadcastAlgorithm::Tree];

    /// The paper's name for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            BroadcastAlgorithm::System => "ONE2ALL-SYS",
            BroadcastAlgorithm::PointToPoint => "ONE2ALL-PP",
            BroadcastAlgorithm::Tree => "ONE2ALL-BT",
        }
    }
}

/// The number of nodes is not a power of two, as the binary tree requires.
#[derive(Debug, PartialEq, Eq)]
struct NoPowerOfTwo(u32);

const EXTENT: [u32; 3] = [4, 8, 8];
const NODES: u32 = 256;

/// Time until the program of every node has the message, seconds.
fn broadcast(machines: &Machines, algorithm: BroadcastAlgorithm, bytes: u64) -> f64 {
    broadcast_on(machines, Rc::new(HyperCrossbar::new(&EXTENT)), algorithm, bytes)
}

/// The same, with the machine's links and switches in another shape of 256 nodes.
pub(crate) fn broadcast_on(
    machines: &Machines,
    topology: Rc<dyn Topology>,
    algorithm: BroadcastAlgorithm,
    bytes: u64,
) -> f64 {
    beside(machines, topology, algorithm, bytes, Time::ZERO)
}

/// The same, with programs that compute for some time before they take part, except the root's.
fn beside(
    machines: &Machines,
    topology: Rc<dyn Topology>,
    algorithm: BroadcastAlgorithm,
    bytes: u64,
    computing: Time,
) -> f64 {
    let run = ProgramRun::on(machines, topology);
    for node in 0..NODES {
        let (system, sim) = (run.system(), run.sim());
        let computes = async move {
            if node > 0 && computing > Time::ZERO {
                sim.delay(computing).await;
            }
        };
        match algorithm {
            BroadcastAlgorithm::System => {
                // The system forwards by itself; the program only takes the message.
                let come = Signal::new(&run.sim(), "the system to have the message");
                run.node(node, pass_on(system, node, bytes, come.clone()));
                run.node(node, async move {
                    computes.await;
                    come.reaches(1).await;
                });
            }
            BroadcastAlgorithm::PointToPoint => run.node(node, async move {
                computes.await;
                point_to_point(system, node, bytes).await;
            }),
            BroadcastAlgorithm::Tree => {
                let to = children(node, NODES).expect("256 is a power of two");
                run.node(node, async move {
                    computes.await;
                    tree(system, node, to, bytes).await;
                });
            }
        }
    }
    run.time()
}

fn message(to: Node, bytes: u64) -> Tcw {
    Tcw { to, bytes, area: 0 }
}

/// The system of a node: except at the root it receives, handles the interrupt and notifies the
/// program. Then it sends along the remaining dimensions.
async fn pass_on(system: NiaSystem, node: Node, bytes: u64, come: Signal) {
    let shape = HyperCrossbar::new(&EXTENT);
    let at = shape.coordinates(node);
    // The last dimension along which the message reached this node; none for the root.
    let came = at.iter().rposition(|&coordinate| coordinate != 0);
    if came.is_some() {
        system.receive(node, 0, 1).await;
        system.interrupt().await;
    }
    come.raise();
    for dimension in came.map_or(0, |dimension| dimension + 1)..EXTENT.len() {
        let line = (1..EXTENT[dimension]).map(|coordinate| {
            let mut to = at.clone();
            to[dimension] = coordinate;
            message(shape.node_at(&to), bytes)
        });
        system.send(node, line.collect()).await;
    }
}

async fn point_to_point(system: NiaSystem, node: Node, bytes: u64) {
    if node > 0 {
        return system.receive(node, 0, 1).await;
    }
    for to in 1..NODES {
        system.send(0, vec![message(to, bytes)]).await;
    }
}

async fn tree(system: NiaSystem, node: Node, to: Vec<Node>, bytes: u64) {
    if node > 0 {
        system.receive(node, 0, 1).await;
    }
    if !to.is_empty() {
        system.send(node, to.into_iter().map(|to| message(to, bytes)).collect()).await;
    }
}

/// The nodes to which a node forwards the message, farthest first: the root of a subtree of 2^k
/// nodes sends to the roots of its halves.
fn children(node: Node, nodes: u32) -> Result<Vec<Node>, NoPowerOfTwo> {
    if !nodes.is_power_of_two() {
        return Err(NoPowerOfTwo(nodes));
    }
    let first = if node == 0 { nodes.trailing_zeros() } else { node.trailing_zeros() };
    Ok((0..first).rev().map(|log| node + (1 << log)).collect())
}

/// Sweeps the lengths with each algorithm.
pub fn run_item(machines: &Machines) -> ExperimentOutcome {
    let sizes = lengths(6, 16);
    let curves = BroadcastAlgorithm::ALL.map(|algorithm| -> Vec<f64> {
        sizes.iter().map(|&bytes| broadcast(machines, algorithm, bytes)).collect()
    });
    let mut chart = LineChart::new(
        "Latency of one-to-all broadcast, 256 nodes",
        Axis::log2("message length", Unit::Bytes),
        Axis::log10("time", Unit::Seconds),
    );
    for (algorithm, curve) in BroadcastAlgorithm::ALL.iter().zip(&curves) {
        let points = sizes.iter().map(|&bytes| bytes as f64).zip(curve.iter().copied());
        chart = chart.with(Series::line(algorithm.name(), points.collect()));
    }
    let [pp, sys, bt] = &curves;
    let least = |above: &[f64], below: &[f64]| {
        above.iter().zip(below).map(|(a, b)| a / b).fold(f64::INFINITY, f64::min)
    };
    let (sys, pp) = (least(sys, bt), least(pp, bt));
    ExperimentOutcome {
        statement: "The binary tree is fastest at every length; the system function is slower, \
                    because the operating system's interrupt handling comes in."
            .into(),
        setup: "Root 0; time until the last node's program has the message.".into(),
        checks: vec![
            Check::shape(
                "BT and SYS",
                "BT shortest at every length",
                format!("SYS takes at least {sys:.2} times as long"),
                sys > 1.0,
            ),
            Check::shape(
                "BT and PP",
                "BT shortest at every length",
                format!("PP takes at least {pp:.1} times as long"),
                pp > 1.0,
            ),
        ],
        tables: Vec::new(),
        charts: vec![chart.into()],
        notes: vec![
            "What an interrupt costs is not stated; BT also wins with none, since SYS sends a \
             message 17 times in a row where BT sends 8."
                .into(),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cp_08_the_tree_refuses_what_is_no_power_of_two_and_reaches_everyone_else_once() {
        assert_eq!(children(0, 6), Err(NoPowerOfTwo(6)));
        let mut reached: Vec<Node> =
            (0..16).flat_map(|node| children(node, 16).expect("a power of two")).collect();
        reached.sort_unstable();
        assert_eq!(reached, (1..16).collect::<Vec<_>>());
    }

    /// The time from the start of the last node until the tree has reached all, seconds. The nodes
    /// start at different times, with or without a barrier before the broadcast.
    fn skewed(machines: &Machines, behind_barrier: bool) -> f64 {
        let begins = |node| Time::from_nanoseconds(u64::from(node) * 7919 % 50_000);
        let run = ProgramRun::new(machines);
        let all = Signal::new(&run.sim(), "the barrier");
        for node in 0..NODES {
            let (sim, all) = (run.sim(), all.clone());
            let to = children(node, NODES).expect("256 is a power of two");
            let program = tree(run.system(), node, to, 1024);
            run.node(node, async move {
                sim.delay(begins(node)).await;
                all.raise();
                if behind_barrier {
                    all.reaches(u64::from(NODES)).await;
                }
                program.await;
            });
        }
        let last = (0..NODES).map(begins).max().expect("there are nodes");
        run.time() - last.seconds()
    }

    #[test]
    fn cp_16_behind_a_barrier_it_does_not_matter_when_nodes_began() {
        let machines = &Machines::stored();
        let together = broadcast(machines, BroadcastAlgorithm::Tree, 1024);
        let found = skewed(machines, true);
        assert!((found / together - 1.0).abs() < 1e-9, "{found} and {together} s");
        // Without a barrier, a part of the broadcast is complete when the last node starts.
        assert!(skewed(machines, false) < 0.9 * together);
    }

    #[test]
    fn cp_08_by_the_system_no_program_of_a_node_between_takes_part() {
        let machines = &Machines::stored();
        let time = |algorithm, computing| {
            let topology = Rc::new(HyperCrossbar::new(&EXTENT));
            beside(machines, topology, algorithm, 1024, computing)
        };
        let [system, tree] = [BroadcastAlgorithm::System, BroadcastAlgorithm::Tree];
        // Longer than either takes by itself.
        let computing = Time::from_nanoseconds(200_000);
        let (alone, long) = (time(tree, Time::ZERO), computing.seconds());
        assert!(time(system, Time::ZERO) < long);
        // With the system, all have the message when they have computed. With the tree, all levels
        // but the first are then left.
        assert_eq!(time(system, computing), long);
        assert!(time(tree, computing) > long + 0.7 * alone);
    }

    #[test]
    fn cp_08_the_tree_is_fastest_for_a_short_and_a_long_message() {
        let machines = &Machines::stored();
        for bytes in [64, 1 << 15] {
            let [bt, sys] = [BroadcastAlgorithm::Tree, BroadcastAlgorithm::System]
                .map(|a| broadcast(machines, a, bytes));
            assert!(bt < sys, "{bytes}: {bt} {sys}");
        }
    }
}
