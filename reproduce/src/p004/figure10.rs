//! Figure 10: random transfers, throughput against generation rate. Also on a torus and a mesh with
//! the same links.

use std::cell::Cell;
use std::rc::Rc;

use hikyaku_nic::time::Time;
use hikyaku_report::{Axis, LineChart, Series, Unit};
use hikyaku_sim::model::cppacs::Tcw;
use hikyaku_sim::topology::{Grid, HyperCrossbar, Topology};

use super::partition::{ProgramRun, costs};
use crate::{Check, ExperimentOutcome, Machines};

const EXTENT: [u32; 3] = [4, 8, 8];
const NODES: u32 = 256;
/// Bytes of a message; the paper does not state them.
const BYTES: u64 = 16 << 10;
/// The number of messages that a node sends in a run.
const MESSAGES: u64 = 60;
/// The first part of a run, in which the network fills, is not counted.
const WARM: f64 = 0.3;

/// Mean throughput of a node, bytes a second, at a generation rate (1: the link's).
fn throughput(machines: &Machines, topology: Rc<dyn Topology>, rate: f64) -> f64 {
    let run = ProgramRun::on(machines, topology);
    let link = costs(machines).1.link.as_bytes_per_second();
    let interval = BYTES as f64 / (link * rate);
    let arrived = Rc::new(Cell::new(0_u64));
    let span = interval * MESSAGES as f64;
    for node in 0..NODES {
        let (system, sim) = (run.system(), run.sim());
        let mut random = sim.random(u64::from(node));
        run.node(node, async move {
            let mut due = 0.0;
            for _ in 0..MESSAGES {
                due += random.exponential(interval);
                sim.delay_until(seconds(due)).await;
                // Any node but itself.
                let to = (node + 1 + random.below(u64::from(NODES - 1)) as u32) % NODES;
                system.start(node, vec![Tcw { to, bytes: BYTES, area: 0 }]).await;
            }
        });
    }
    // Counted between two moments, while all nodes still generate. The rest shows nothing: what has
    // piled up in the network takes several times as long to arrive.
    let sim = run.sim();
    let system = run.system();
    let count = Rc::clone(&arrived);
    let (from, to) = (seconds(WARM * span), seconds(0.9 * span));
    sim.at(from, {
        let (system, count) = (system.clone(), Rc::clone(&count));
        move |_| count.set(system.network().counts().bytes)
    });
    sim.at(to, move |sim| {
        count.set(system.network().counts().bytes - count.get());
        sim.stop();
    });
    run.until_stopped();
    arrived.get() as f64 / (to - from).seconds() / f64::from(NODES)
}

fn seconds(seconds: f64) -> Time {
    Time::from_picoseconds((seconds * 1e12) as u64)
}

/// Sweeps the rates on three shapes.
pub fn run_item(machines: &Machines) -> ExperimentOutcome {
    let rates: Vec<f64> = (1..=10).map(|tenth| f64::from(tenth) / 10.0).collect();
    let sweep = |topology: &dyn Fn() -> Rc<dyn Topology>| -> Vec<f64> {
        rates.iter().map(|&rate| throughput(machines, topology(), rate)).collect()
    };
    let hxb = sweep(&|| Rc::new(HyperCrossbar::new(&EXTENT)));
    let torus = sweep(&|| Rc::new(Grid::torus(&EXTENT)));
    let mesh = sweep(&|| Rc::new(Grid::mesh(&EXTENT)));
    let mut chart = LineChart::new(
        "Effective throughput of random transfer, 256 nodes",
        Axis::linear("message generation rate", Unit::Fraction).from_zero(),
        Axis::linear("throughput of a node", Unit::BytesPerSecond).from_zero(),
    );
    for (name, curve) in [("hyper-crossbar", &hxb), ("torus", &torus), ("mesh", &mesh)] {
        chart = chart.with(Series::line(name, rates.iter().copied().zip(curve.clone()).collect()));
    }
    chart = chart.with(Series::printed("paper, a third of the peak", vec![(1.0, 100e6)]));
    let saturated = hxb[hxb.len() - 1];
    let flat = (hxb[9] / hxb[7] - 1.0).abs();
    let above = |curve: &[f64]| hxb[9] / curve[9];
    ExperimentOutcome {
        statement: "Throughput saturates at about a third of the peak (100 MB/s); simulation had \
                    given the hyper-crossbar much more than a mesh or torus."
            .into(),
        setup: format!(
            "Each node sends messages of {} to random others, exponentially spaced; counted while \
             all still send.",
            Unit::Bytes.format(BYTES as f64)
        ),
        checks: vec![
            Check::number("saturation", 100e6, saturated, Unit::BytesPerSecond),
            Check::shape(
                "high rates",
                "saturated: no growth",
                format!("{:.1} % from rate 0.8 to 1.0", 100.0 * (hxb[9] / hxb[7] - 1.0)),
                flat < 0.05,
            ),
            Check::shape(
                "torus and mesh",
                "hyper-crossbar much higher",
                format!("{:.1} times the torus, {:.1} times the mesh", above(&torus), above(&mesh)),
                above(&torus) > 1.2 && above(&mesh) > 1.2,
            ),
        ],
        tables: Vec::new(),
        charts: vec![chart.into()],
        notes: vec![
            "Message length, its distribution and the definition of the rate are not stated."
                .into(),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cp_13_what_is_offered_is_carried_when_that_is_little() {
        let machines = &Machines::stored();
        let carried = throughput(machines, Rc::new(HyperCrossbar::new(&EXTENT)), 0.1);
        assert!((carried / 30e6 - 1.0).abs() < 0.1, "{carried}");
    }
}
