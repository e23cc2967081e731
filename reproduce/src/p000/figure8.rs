//! Figure 8: bandwidth of the ping-pong against message size, five conditions.

use hikyaku_report::{Axis, LineChart, Series, Unit};

use super::ping_pong::{CONDITIONS, costs, run};
use crate::{Check, ExperimentOutcome, Machines};

/// Message sizes, bytes: 8 B to 1 MiB. The paper prints no values on its axis and only states that
/// it goes beyond 64 KByte.
const SIZES: std::ops::RangeInclusive<u32> = 3..=20;
/// The size above which, by the paper, the read-out becomes slower.
const EDGE: usize = 64 << 10;
/// Round trips averaged at each point; polling phases matter little beyond the smallest.
const ROUNDS: u64 = 20;

const NAMES: [&str; 5] = [
    "(1) SO-DIMM, PUSH",
    "(2) SO-DIMM, IPUSH",
    "(3) read out, PUSH",
    "(4) read out, IPUSH",
    "(5) read out, IPUSH, uncached",
];

/// Sweeps the sizes under each condition.
pub fn run_item(machines: &Machines) -> ExperimentOutcome {
    let costs = costs(machines);
    let sizes: Vec<usize> = SIZES.map(|log| 1 << log).collect();
    let curve = |condition| -> Vec<f64> {
        let half =
            |&size: &usize| size as f64 / run(&costs, condition, size, ROUNDS).half_round_trip;
        sizes.iter().map(half).collect()
    };
    let curves: Vec<Vec<f64>> = CONDITIONS.iter().map(|&condition| curve(condition)).collect();
    let mut chart = LineChart::new(
        "Bandwidth of ping-pong communication",
        Axis::log2("message size", Unit::Bytes),
        Axis::linear("bandwidth", Unit::BytesPerSecond).from_zero(),
    );
    for (name, curve) in NAMES.iter().zip(&curves) {
        let points = sizes.iter().map(|&size| size as f64).zip(curve.iter().copied());
        chart = chart.with(Series::line(*name, points.collect()));
    }
    // The bandwidths of 8 B by half round trips, and the maxima at any size.
    let shortest = [1.74e-6, 1.78e-6, 3.84e-6, 3.89e-6].map(|half| (8.0, 8.0 / half));
    chart = chart.with(Series::printed("paper, 8 B", shortest.to_vec()));
    let ends = [sizes[0] as f64, sizes[sizes.len() - 1] as f64];
    for (what, most) in [("paper, most of (1)", 644e6), ("paper, most of (3)", 242e6)] {
        chart = chart.with(Series::reference(what, ends.map(|size| (size, most)).to_vec()));
    }
    ExperimentOutcome {
        statement: "At most about 644 (PUSH) and 643 MByte/s (IPUSH) between SO-DIMMs, 242 and \
                    241 with the host's read-out; (3) and (4) fall sharply above 64 KByte, where \
                    (4) and (5) meet."
            .into(),
        setup: format!("{ROUNDS} round trips a point; bandwidth is size over half a round trip."),
        checks: checks(&sizes, &curves),
        tables: Vec::new(),
        charts: vec![chart.into()],
        notes: vec![
            "Packet size and window size are not stated and assumed (see the machine file). The \
             fall comes from the cache: the prefetch instruction fills one way of it, 64 KiB, so \
             the first lines of a larger window are overwritten before they are read. That a \
             request can fetch more than that is an assumption made in view of this figure: with \
             a window of one packet nothing falls."
                .into(),
        ],
    }
}

fn checks(sizes: &[usize], curves: &[Vec<f64>]) -> Vec<Check> {
    let rate = Unit::BytesPerSecond;
    let most = |curve: usize| curves[curve].iter().copied().fold(0.0, f64::max);
    let at = |curve: usize, size: usize| {
        sizes.iter().position(|&s| s == size).map_or(f64::NAN, |index| curves[curve][index])
    };
    let apart = |one: usize, other: usize| {
        let ratio = |(a, b): (&f64, &f64)| (a / b - 1.0).abs();
        100.0 * curves[one].iter().zip(&curves[other]).map(ratio).fold(0.0, f64::max)
    };
    let last = sizes[sizes.len() - 1];
    let fall = at(3, EDGE) / at(3, 4 * EDGE);
    let meet = at(3, last) / at(4, last);
    let short = || sizes.iter().filter(|&&size| size <= EDGE);
    let ratio = |size: usize| at(3, size) / at(4, size);
    let worse = short().fold(f64::INFINITY, |least, &size| least.min(ratio(size)));
    let first = short().find(|&&size| ratio(size) > 1.0).map_or(f64::NAN, |&size| size as f64);
    let first = Unit::Bytes.format(first);
    vec![
        Check::number("maximum (1)", 644e6, most(0), rate).calibrated("interface.packet_gap"),
        Check::number("maximum (2)", 643e6, most(1), rate).identity(
            "(1), which is fitted: the four more clocks of table 3 are a hundredth of a packet",
        ),
        Check::number("maximum (3)", 242e6, most(2), rate).calibrated("host.copy_line"),
        Check::number("maximum (4)", 241e6, most(3), rate).identity(
            "(3), which is fitted: rows D and I of table 7 differ by less than the criterion",
        ),
        Check::shape(
            "(1) and (2) at the maximum",
            "IPUSH within 0.5 % of PUSH",
            format!("{:.2} % apart", 100.0 * (1.0 - most(1) / most(0))),
            (1.0 - most(1) / most(0)).abs() < 0.005,
        ),
        Check::shape(
            "(1) beside (2), (3) beside (4)",
            "nearly the same at every size",
            format!("at most {:.1} % and {:.1} % apart", apart(0, 1), apart(2, 3)),
            apart(0, 1) < 3.0 && apart(2, 3) < 3.0,
        ),
        Check::shape(
            "where (3) and (4) have their maximum",
            "64 KByte; falling sharply above",
            format!("64 KiB; {fall:.1} times less at 256 KiB"),
            at(3, EDGE) == most(3) && at(2, EDGE) == most(2) && fall > 2.0,
        )
        .calibrated(
            "interface.window: with a window of one packet nothing falls, and more than 64 KiB in \
             one request was assumed in view of this figure",
        ),
        Check::shape(
            "(4) beside (5), largest message",
            "almost the same",
            format!("(4) is {meet:.2} times (5) at {}", Unit::Bytes.format(last as f64)),
            meet < 1.1,
        )
        .calibrated("interface.window, as the fall"),
        Check::shape(
            "(4) beside (5), up to 64 KiB",
            "(4) better",
            format!("from {worse:.2} times on, first better at {first}"),
            worse > 1.0,
        )
        .because(
            "a line that is flushed, prefetched and copied (rows K and L, measured for condition \
             4) costs more than the one or two uncached loads that 8 or 16 bytes need; the paper \
             prints no such row for condition 5",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bandwidth(condition: usize, bytes: usize) -> f64 {
        let costs = costs(&Machines::stored());
        bytes as f64 / run(&costs, CONDITIONS[condition], bytes, 2).half_round_trip
    }

    #[test]
    fn ip_18_large_messages_reach_the_printed_rates_with_and_without_read_out() {
        for (condition, bytes, printed) in
            [(0, 1 << 20, 644e6), (1, 1 << 20, 643e6), (2, EDGE, 242e6), (3, EDGE, 241e6)]
        {
            let found = bandwidth(condition, bytes);
            assert!((found / printed - 1.0).abs() < 0.05, "{}: {found} B/s", NAMES[condition]);
        }
    }

    #[test]
    fn ip_19_the_read_out_falls_above_64_kib_and_meets_the_uncached_one() {
        for condition in [2, 3] {
            let (edge, beyond) = (bandwidth(condition, EDGE), bandwidth(condition, 4 * EDGE));
            assert!(edge > 2.0 * beyond, "{}: {edge} and {beyond} B/s", NAMES[condition]);
        }
        let meets = bandwidth(3, 1 << 20) / bandwidth(4, 1 << 20);
        assert!((meets - 1.0).abs() < 0.1, "{meets}");
    }

    /// The size from which on (4) is better than (5), by the size of an uncached load.
    #[test]
    fn the_width_of_a_load_decides_short_messages() {
        for (load, from) in [("8 B", 32), ("4 B", 16), ("2 B", 8)] {
            let machines = Machines::stored().with("dimmnet2", &[("host.load", load)]).unwrap();
            let costs = costs(&machines);
            let half = |at: usize, bytes| run(&costs, CONDITIONS[at], bytes, 20).half_round_trip;
            let better =
                [8, 16, 32, 64].into_iter().find(|bytes| half(3, *bytes) < half(4, *bytes));
            assert_eq!(better, Some(from), "{load}");
        }
    }
}
