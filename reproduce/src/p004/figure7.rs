//! Figures 6 and 7: all-to-all broadcast by butterfly collection.

use hikyaku_report::{Axis, LineChart, Series, Unit};
use hikyaku_sim::model::cppacs::Tcw;

use super::figure3::half_round_trip;
use super::partition::{ProgramRun, costs, lengths};
use crate::{Check, ExperimentOutcome, Machines};

/// Time until each of the first `nodes` nodes has all their messages, seconds. In step k a node
/// exchanges its 2^k messages with the node at distance 2^k.
fn collect(machines: &Machines, nodes: u32, bytes: u64) -> f64 {
    let run = ProgramRun::new(machines);
    for node in 0..nodes {
        let system = run.system();
        run.node(node, async move {
            for step in 0..nodes.trailing_zeros() {
                let to = node ^ (1 << step);
                system.start(node, vec![Tcw { to, bytes: bytes << step, area: step }]).await;
                system.receive(node, step, 1).await;
            }
        });
    }
    run.time()
}

/// The same without any contention: the sum of its steps, seconds.
fn alone(machines: &Machines, nodes: u32, bytes: u64) -> f64 {
    (0..nodes.trailing_zeros()).map(|step| half_round_trip(machines, bytes << step)).sum()
}

/// Sweeps the lengths for 8 and for 256 nodes.
pub fn run_item(machines: &Machines) -> ExperimentOutcome {
    let sizes = lengths(6, 14);
    let rate = |nodes: u32, bytes: u64| {
        f64::from(nodes - 1) * bytes as f64 / collect(machines, nodes, bytes)
    };
    let curve = |nodes| -> Vec<f64> { sizes.iter().map(|&bytes| rate(nodes, bytes)).collect() };
    let (eight, all) = (curve(8), curve(256));
    let ping: Vec<f64> =
        sizes.iter().map(|&bytes| bytes as f64 / half_round_trip(machines, bytes)).collect();
    let mut chart = LineChart::new(
        "Effective throughput of all-to-all broadcast",
        Axis::log2("message length", Unit::Bytes),
        Axis::linear("throughput", Unit::BytesPerSecond).from_zero(),
    );
    for (name, curve) in [("P = 256", &all), ("P = 8", &eight)] {
        let points = sizes.iter().map(|&bytes| bytes as f64).zip(curve.iter().copied());
        chart = chart.with(Series::line(name, points.collect()));
    }
    let points = sizes.iter().map(|&bytes| bytes as f64).zip(ping.iter().copied());
    chart = chart.with(Series::reference("ping-pong", points.collect()));
    let short = sizes.iter().take_while(|&&bytes| bytes <= 1024).count();
    let above = |curve: &[f64]| {
        let pairs = curve[..short].iter().zip(&ping[..short]);
        pairs.map(|(rate, ping)| rate / ping).fold(f64::INFINITY, f64::min)
    };
    let free =
        sizes.iter().map(|&bytes| collect(machines, 256, bytes) / alone(machines, 256, bytes));
    let free = free.fold(0.0, f64::max);
    ExperimentOutcome {
        statement: "log2 P sends instead of P - 1, without conflict on the hyper-crossbar; for \
                    short messages throughput exceeds the ping-pong's at the same length."
            .into(),
        setup: "Butterfly collection on the first 8 nodes and on all 256: the paper names both \
                numbers."
            .into(),
        checks: vec![
            Check::shape(
                "up to 1 KB, P = 8",
                "above ping-pong",
                format!("at least {:.2} times", above(&eight)),
                above(&eight) > 1.0,
            ),
            Check::shape(
                "up to 1 KB, P = 256",
                "above ping-pong",
                format!("at least {:.2} times", above(&all)),
                above(&all) > 1.0,
            ),
            Check::shape(
                "conflicts, P = 256",
                "none",
                format!("{free:.3} times the steps one by one"),
                // Later steps pass more switches than the ping-pong between neighbours.
                free < 1.05,
            ),
        ],
        tables: Vec::new(),
        charts: vec![chart.into()],
        notes: vec![format!(
            "Both curves tend to the link's {}: most bytes move in the last steps.",
            Unit::BytesPerSecond.format(costs(machines).1.link.as_bytes_per_second())
        )],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cp_10_butterfly_collection_meets_no_conflict() {
        let machines = &Machines::stored();
        for bytes in [64, 1 << 14] {
            let ratio = collect(machines, 64, bytes) / alone(machines, 64, bytes);
            assert!(ratio < 1.05, "{bytes}: {ratio}");
        }
    }
}
