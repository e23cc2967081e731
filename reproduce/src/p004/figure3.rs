//! Figure 3: effective throughput of a ping-pong.

use hikyaku_report::{Axis, LineChart, Series, Unit};
use hikyaku_sim::model::cppacs::Tcw;

use super::partition::{ProgramRun, lengths};
use crate::{Check, ExperimentOutcome, Machines};

/// Round trips per point; each takes the same time.
const ROUNDS: u64 = 4;

/// Half a round trip between two neighbours, seconds.
pub(super) fn half_round_trip(machines: &Machines, bytes: u64) -> f64 {
    let run = ProgramRun::new(machines);
    for node in [0, 1] {
        let system = run.system();
        run.node(node, async move {
            for round in 1..=ROUNDS {
                let message = vec![Tcw { to: 1 - node, bytes, area: 0 }];
                if node == 0 {
                    system.start(0, message).await;
                    system.receive(0, 0, round).await;
                } else {
                    system.receive(1, 0, round).await;
                    system.start(1, message).await;
                }
            }
        });
    }
    run.time() / (2 * ROUNDS) as f64
}

/// Sweeps the lengths.
pub fn run_item(machines: &Machines) -> ExperimentOutcome {
    let points: Vec<(f64, f64)> = lengths(3, 20)
        .into_iter()
        .map(|bytes| (bytes as f64, bytes as f64 / half_round_trip(machines, bytes)))
        .collect();
    let most = points.iter().map(|point| point.1).fold(0.0, f64::max);
    let ends = [points[0].0, points[points.len() - 1].0];
    let overhead = half_round_trip(machines, 8);
    let chart = LineChart::new(
        "Effective throughput of ping-pong transfer",
        Axis::log2("message length", Unit::Bytes),
        Axis::linear("throughput", Unit::BytesPerSecond).from_zero(),
    )
    .with(Series::line("ping-pong", points))
    .with(Series::printed("paper", vec![(8.0, 8.0 / 3.5e-6), (1024.0, 150e6)]))
    .with(Series::reference("paper, most", ends.map(|bytes| (bytes, 270e6)).to_vec()));
    ExperimentOutcome {
        statement: "At most about 270 MB/s, 90 % of the peak; overhead about 3.5 µs; half of the \
                    network's peak at about 1 KB."
            .into(),
        setup: "Two neighbours along X; the paper does not say how far apart its nodes are.".into(),
        checks: vec![
            Check::number("maximum", 270e6, most, Unit::BytesPerSecond)
                .calibrated("interface.packet_gap"),
            Check::number("overhead (8 B)", 3.5e-6, overhead, Unit::Seconds)
                .calibrated("host.start"),
            Check::number("half of the peak (150 MB/s)", 1024.0, half_peak(machines), Unit::Bytes)
                .calibrated("interface.packet"),
        ],
        tables: Vec::new(),
        charts: vec![chart.into()],
        notes: vec![
            "All three printed numbers are calibration: the packet's length is not stated, and was \
             chosen such that half of the peak is reached within one packet. The other figures of \
             this paper are predictions on the same constants."
                .into(),
        ],
    }
}

/// The message length that reaches half of 300 MB/s, accurate to eight bytes.
fn half_peak(machines: &Machines) -> f64 {
    let reaches = |words: u64| (8 * words) as f64 / half_round_trip(machines, 8 * words) >= 150e6;
    let (mut below, mut above) = (1, 1 << 10);
    while above - below > 1 {
        let middle = u64::midpoint(below, above);
        if reaches(middle) {
            above = middle;
        } else {
            below = middle;
        }
    }
    (8 * above) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cp_07_ping_pong_reaches_270_mb_a_second_and_half_the_peak_at_1_kb() {
        let outcome = run_item(&Machines::stored());
        assert!(outcome.passes(), "{:?}", outcome.checks);
    }
}
