//! Figure 10: latency of a barrier by five algorithms.

use hikyaku_nic::time::Time;
use hikyaku_report::{Axis, LineChart, Series, Unit};
use hikyaku_sim::model::cenju4::{CenjuParcel, ParcelProtocol, Synchronisation, To};
use hikyaku_sim::topology::Node;

use super::library::{MachineRun, NodeProgram, costs, flag};
use crate::{Check, ExperimentOutcome, Machines};

/// The algorithms of §6.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BarrierAlgorithm {
    /// Every node sends a packet to every node.
    AllToAll,
    /// Requests gather along a binary tree; completion goes back along it.
    Tree,
    /// Every node sends an atomic add to every node.
    AtomicAdd,
    /// Every node multicasts an atomic add.
    Multicast,
    /// Every node sends a synchronisation packet.
    Synchronise,
}

const NAMES: [(&str, BarrierAlgorithm); 5] = [
    ("A singlecast", BarrierAlgorithm::AllToAll),
    ("B tree", BarrierAlgorithm::Tree),
    ("C singlecast atomic add", BarrierAlgorithm::AtomicAdd),
    ("D multicast atomic add", BarrierAlgorithm::Multicast),
    ("E synchronisation", BarrierAlgorithm::Synchronise),
];

/// The time of a barrier of the first `nodes` nodes, seconds.
fn barrier(machines: &Machines, algorithm: BarrierAlgorithm, nodes: u32) -> f64 {
    let run = MachineRun::new(machines);
    let (machine, costs) = costs(machines);
    let group: Vec<Node> = (0..nodes).collect();
    let sync = Synchronisation::new(run.sim(), &costs, machine.nodes, &group)
        .expect("the machine has 32 nodes, the group is among them");
    for node in 0..nodes {
        let (program, sync) = (run.node(node), sync.clone());
        let paralib = costs.host.paralib;
        run.start(node, async move {
            match algorithm {
                BarrierAlgorithm::AllToAll | BarrierAlgorithm::AtomicAdd => {
                    let protocol = match algorithm {
                        BarrierAlgorithm::AllToAll => ParcelProtocol::Inline,
                        _ => ParcelProtocol::AtomicAdd,
                    };
                    for to in 0..nodes {
                        program.send(CenjuParcel { protocol, ..flag(To::One(to), 0) }).await;
                    }
                    program.receive(0, u64::from(nodes)).await;
                }
                BarrierAlgorithm::Tree => tree(&program, node, nodes).await,
                BarrierAlgorithm::Multicast => {
                    let all = To::All((0..nodes).collect());
                    let protocol = ParcelProtocol::AtomicAdd;
                    program.send(CenjuParcel { protocol, ..flag(all, 0) }).await;
                    program.receive(0, u64::from(nodes)).await;
                }
                BarrierAlgorithm::Synchronise => {
                    program.work(half(paralib)).await;
                    sync.synchronise(node).await.expect("every node is a member");
                    program.work(half(paralib)).await;
                }
            }
        });
    }
    run.time()
}

/// Requests gather at node 0 along the bits of the node's number; completion goes back.
async fn tree(program: &NodeProgram, node: Node, nodes: u32) {
    let bits = nodes.trailing_zeros();
    let level = if node == 0 { bits } else { node.trailing_zeros() };
    for bit in 0..level {
        program.receive(bit, 1).await;
    }
    if node != 0 {
        program.send(flag(To::One(node & (node - 1)), level)).await;
        program.receive(TOLD, 1).await;
    }
    for bit in (0..level).rev() {
        program.send(flag(To::One(node | 1 << bit), TOLD)).await;
    }
}

/// The area of the tree's completion.
const TOLD: u32 = 100;

fn half(time: Time) -> Time {
    Time::from_picoseconds(time.picoseconds() / 2)
}

/// Sweeps the number of nodes.
pub fn run_item(machines: &Machines) -> ExperimentOutcome {
    let counts: Vec<u32> = (0..=5).map(|log| 1 << log).collect();
    let mut chart = LineChart::new(
        "Barrier synchronization latency",
        Axis::linear("nodes", Unit::Number),
        Axis::linear("latency", Unit::Seconds).from_zero(),
    );
    let mut curves = Vec::new();
    for (name, algorithm) in NAMES {
        let curve: Vec<f64> =
            counts.iter().map(|&nodes| barrier(machines, algorithm, nodes)).collect();
        let points = counts.iter().map(|&nodes| f64::from(nodes)).zip(curve.iter().copied());
        chart = chart.with(Series::line(name, points.collect()));
        curves.push(curve);
    }
    chart = chart.with(Series::printed("paper, E", vec![(32.0, 5e-6)]));
    let growth = |algorithm: usize| curves[algorithm][5] - curves[algorithm][1];
    let e = &curves[4];
    let spread = e.iter().copied().fold(0.0, f64::max) / e.iter().copied().fold(1.0, f64::min);
    let least = [0, 1, 2].map(growth).into_iter().fold(f64::INFINITY, f64::min);
    let seconds = Unit::Seconds;
    ExperimentOutcome {
        statement: "With synchronisation packets about 5 µs whatever the number of nodes; \
                    multicast and atomic add (D) grows little."
            .into(),
        setup: "1 to 32 nodes enter at the same time; latency until the last one goes on.".into(),
        checks: vec![
            Check::number("E, 32 nodes", 5e-6, e[5], seconds),
            Check::shape(
                "E",
                "independent of N",
                format!("largest {:.1} % above smallest", 100.0 * (spread - 1.0)),
                spread < 1.1,
            ),
            Check::shape(
                "D from 2 to 32 nodes",
                "grows little: less than A, B, C",
                format!(
                    "by {}, others at least {}",
                    seconds.format(growth(3)),
                    seconds.format(least)
                ),
                growth(3) < 0.5 * least,
            ),
            Check::shape(
                "32 nodes",
                "E fastest, then D",
                NAMES
                    .iter()
                    .zip(&curves)
                    .map(|((name, _), curve)| {
                        format!("{} {}", &name[..1], seconds.format(curve[5]))
                    })
                    .collect::<Vec<_>>()
                    .join(", "),
                e[5] < curves[3][5] && (0..3).all(|other| curves[3][5] < curves[other][5]),
            ),
        ],
        tables: Vec::new(),
        charts: vec![chart.into()],
        notes: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cj_22_synchronisation_packets_take_5_us_for_2_nodes_and_for_32() {
        for nodes in [2, 32] {
            let time = barrier(&Machines::stored(), BarrierAlgorithm::Synchronise, nodes);
            assert!((time / 5e-6 - 1.0).abs() < 0.05, "{nodes}: {time}");
        }
    }
}
