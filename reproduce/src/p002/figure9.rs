//! Figure 9: time of a halo exchange against message length, FAST.

use hikyaku_report::{Axis, LineChart, Series, Unit};

use super::exchange::{FAST, costs, run};
use crate::{Check, Outcome};

/// Message lengths, bytes: 0 to 64,512 in steps of 1,024 (paper 002 §5).
pub(super) fn lengths() -> Vec<u64> {
    (0..64).map(|step| step * 1024).collect()
}

/// Sweeps the lengths.
pub fn run_item() -> Outcome {
    let (machine, costs) = costs();
    let time = |bytes| run(&machine, &costs, FAST, bytes).expect("FAST does not deadlock");
    let points: Vec<(f64, f64)> =
        lengths().iter().map(|&bytes| (bytes as f64, time(bytes))).collect();
    let chart = LineChart::new(
        "MPI_Start and MPI_Wait of a 1-D 3-point halo exchange, FAST",
        Axis::linear("message length", Unit::Bytes),
        Axis::linear("time", Unit::Seconds).from_zero(),
    )
    .with(Series::line("FAST", points.clone()));
    let (slope, worst) = line(&points);
    let at_16k = points[16].1;
    Outcome {
        statement:
            "Linear in length; the slope is about 10 GB/s, 16 KiB take about 5 µs: sending, \
                    receiving and both directions overlap almost wholly."
                .into(),
        setup: "36 processes on a ring of adjacent nodes, two session queues each on two engines; \
                mean of ten iterations after three."
            .into(),
        checks: vec![
            Check::calibration("slope", 10e9, 1.0 / slope, Unit::BytesPerSecond),
            Check::calibration("16 KiB", 5e-6, at_16k, Unit::Seconds),
            Check::shape(
                "linear",
                "a straight line",
                format!("at most {:.2} % off a line", 100.0 * worst),
                worst < 0.01,
            ),
            Check::shape(
                "both directions overlap",
                "slope of one direction alone",
                format!("{:.2} of the engine's rate", 1.0 / slope / RATE),
                1.0 / slope / RATE > 0.95,
            ),
        ],
        tables: Vec::new(),
        charts: vec![chart.into()],
        notes: vec![
            "The paper prints two numbers for this figure, and two constants of the machine file \
             are fitted to them; what remains to be predicted is figure 10, on the same \
             constants."
                .into(),
        ],
    }
}

/// The engine's rate in the machine file, bytes a second.
const RATE: f64 = 10e9;

/// The slope from the first to the last point, seconds a byte, and the largest deviation from that
/// line, relative.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let (first, last) = (points[0], points[points.len() - 1]);
    let slope = (last.1 - first.1) / (last.0 - first.0);
    let off = |&(x, y): &(f64, f64)| (y / (first.1 + slope * (x - first.0)) - 1.0).abs();
    (slope, points.iter().map(off).fold(0.0, f64::max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tf_16_fast_is_a_line_of_10_gb_a_second_through_5_us_at_16_kib() {
        let outcome = run_item();
        assert!(outcome.passes(), "{:?}", outcome.checks);
    }
}
