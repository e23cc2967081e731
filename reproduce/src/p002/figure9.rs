//! Figure 9: time of a halo exchange against message length, FAST.

use hikyaku_report::{Axis, Cell, LineChart, Series, Table, Unit};
use hikyaku_sim::machine::Machine;
use hikyaku_sim::model::tofu2::Costs;

use super::exchange::{ExchangeScheme, FAST, ONE_WAY, PlaneMapping, costs, run};
use crate::{Check, ExperimentOutcome, Machines};

/// Message lengths, bytes: 0 to 64,512 in steps of 1,024 (paper 002 §5).
pub(super) fn lengths() -> Vec<u64> {
    (0..64).map(|step| step * 1024).collect()
}

/// Sweeps the lengths.
pub fn run_item(machines: &Machines) -> ExperimentOutcome {
    let (machine, costs) = costs(machines);
    let time = |bytes| run(&machine, &costs, FAST, bytes).expect("FAST does not deadlock");
    let points: Vec<(f64, f64)> =
        lengths().iter().map(|&bytes| (bytes as f64, time(bytes))).collect();
    let chart = LineChart::new(
        "MPI_Start and MPI_Wait of a 1-D 3-point halo exchange, FAST",
        Axis::linear("message length", Unit::Bytes),
        Axis::linear("time", Unit::Seconds).from_zero(),
    )
    .with(Series::line("FAST", points.clone()))
    .with(Series::printed("paper, 16 KiB", vec![(PRINTED.0, PRINTED.1)]))
    .with(Series::reference("paper, 10 GB/s through it", slope_of_print()));
    let (slope, worst) = line(&points);
    let one = |bytes| run(&machine, &costs, ONE_WAY, bytes).expect("FAST does not deadlock");
    // The slope of a line takes two points.
    let ends = [points[0].0, points[points.len() - 1].0];
    let (alone, _) = line(&ends.map(|bytes| (bytes, one(bytes as u64))));
    let at_16k = points[16].1;
    ExperimentOutcome {
        statement:
            "Linear in length; the slope is about 10 GB/s, 16 KiB take about 5 µs: sending, \
                    receiving and both directions overlap almost wholly."
                .into(),
        setup: "36 processes on a ring of adjacent nodes, two session queues each on two engines; \
                the fourth iteration, since all later ones take as long."
            .into(),
        checks: vec![
            Check::number("slope", 10e9, 1.0 / slope, Unit::BytesPerSecond)
                .calibrated("interface.rate"),
            Check::number("16 KiB", 5e-6, at_16k, Unit::Seconds).calibrated("host.software"),
            Check::shape(
                "linear",
                "a straight line",
                format!("at most {:.2} % off a line", 100.0 * worst),
                worst < 0.01,
            ),
            Check::shape(
                "both directions overlap",
                "as one direction alone",
                format!("a byte takes {:.3} times as long", slope / alone),
                slope / alone < 1.05,
            ),
        ],
        tables: vec![plane_table(&machine, &costs)],
        charts: vec![chart.into()],
        notes: vec![
            "The paper prints two numbers for this figure, and two constants of the machine file \
             are fitted to them; what remains to be predicted is figure 10, on the same \
             constants."
                .into(),
            "The paper recommends FAST where engines are free and measures two neighbours. The \
             table has the four of a five-point halo, which no figure shows: a queue for each on \
             four, two and one engines, and MRC's one queue."
                .into(),
        ],
    }
}

/// The five-point halo on a plane with several numbers of engines, and with MRC, at some lengths.
fn plane_table(machine: &Machine, costs: &Costs) -> Table {
    let fast = |engines| ExchangeScheme::Plane(PlaneMapping::Fast { engines });
    let schemes = [
        ("FAST, 4 engines", fast(4)),
        ("FAST, 2 engines", fast(2)),
        ("FAST, 1 engine", fast(1)),
        ("MRC", ExchangeScheme::Plane(PlaneMapping::Mrc)),
    ];
    let head = ["bytes"].into_iter().chain(schemes.map(|(name, _)| name));
    let mut table = Table::new("2-D 5-point halo exchange on 4 by 3 nodes", head);
    for bytes in [0, 1024, 16384, 65536] {
        let time = |(_, scheme)| {
            let time = run(machine, costs, scheme, bytes).expect("no mapping here deadlocks");
            Cell::number(time, Unit::Seconds)
        };
        let length = Cell::number(bytes as f64, Unit::Bytes);
        table.push([length].into_iter().chain(schemes.map(time)));
    }
    table
}

/// The point that the paper prints: length and time.
const PRINTED: (f64, f64) = (16384.0, 5e-6);

/// The line of the printed slope through the printed point.
fn slope_of_print() -> Vec<(f64, f64)> {
    let at = |bytes: u64| (bytes as f64, PRINTED.1 + (bytes as f64 - PRINTED.0) / 10e9);
    lengths().into_iter().map(at).collect()
}

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
        let outcome = run_item(&Machines::stored());
        assert!(outcome.passes(), "{:?}", outcome.checks);
    }
}
