//! Figure 8: throughput of odd-word transfers, rearranged by the interface or copied by software.

use hikyaku_nic::time::Time;
use hikyaku_report::{Axis, LineChart, Series, Unit};
use hikyaku_sim::model::cenju4::Span;

use super::library::{MessageLibrary, costs, data, half_round_trip};
use crate::{Check, ExperimentOutcome, Machines};

/// Words in a line. A distance of d words one way is one of 32 - d words on the way back.
const LINE_WORDS: u64 = 32;

/// What rearranges the words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Hardware,
    Software,
}

/// The four groups of the figure.
const GROUPS: [(&str, By, bool); 4] = [
    ("A hardware, optimised", By::Hardware, true),
    ("B hardware", By::Hardware, false),
    ("C software copy, optimised", By::Software, true),
    ("D software copy", By::Software, false),
];

/// The throughput, in bytes per second, of an exchange whose source is `words` words off its
/// destination's alignment.
fn rate(machines: &Machines, by: By, optimise: bool, words: u64, bytes: u64) -> f64 {
    let parcel = |to, words: u64| {
        // The software copies to a double word, not to the destination's offset in its line.
        let source = if by == By::Hardware { 4 * words } else { 8 };
        data(to, Span { source, destination: 0, bytes }, optimise)
    };
    let copy = match by {
        By::Hardware => Time::ZERO,
        By::Software => costs(machines).1.host.copy.time(bytes),
    };
    let parcels = [parcel(1, words), parcel(0, LINE_WORDS - words)];
    bytes as f64 / half_round_trip(machines, MessageLibrary::Paralib, bytes, parcels, copy)
}

/// Sweeps the sizes for all groups, and all distances at the largest size.
pub fn run_item(machines: &Machines) -> ExperimentOutcome {
    let sizes: Vec<u64> = (9..=17).map(|log| 1 << log).collect();
    let mut chart = LineChart::new(
        "Odd word aligned data transfer throughput",
        Axis::log2("message length", Unit::Bytes),
        Axis::linear("throughput", Unit::BytesPerSecond).from_zero(),
    );
    for (name, by, optimise) in GROUPS {
        let points =
            sizes.iter().map(|&bytes| (bytes as f64, rate(machines, by, optimise, 9, bytes)));
        chart = chart.with(Series::line(name, points.collect()));
    }
    let points =
        sizes.iter().map(|&bytes| (bytes as f64, rate(machines, By::Hardware, true, 1, bytes)));
    chart = chart.with(Series::line("A, 1 and 31 words", points.collect()));
    let largest = sizes[sizes.len() - 1];
    let at = |by, optimise| -> Vec<f64> {
        let odd = (1..LINE_WORDS).step_by(2);
        odd.map(|words| rate(machines, by, optimise, words, largest)).collect()
    };
    let [a, b, c, d] = GROUPS.map(|(_, by, optimise)| at(by, optimise));
    let (mean_a, mean_b) = (mean(&a[1..15]), mean(&b));
    let between = [a[0], a[15]].map(|rate| (rate - mean_b) / (mean_a - mean_b));
    let twice = [mean_a / mean(&c), mean_b / mean(&d)];
    ExperimentOutcome {
        statement: "Rearranging in hardware gives about twice the throughput of copying in \
                    software; of group A, one curve lies between A and B, because at a distance of \
                    one word reads are not optimised and round trips pair 1 with 31 words."
            .into(),
        setup: "Distances 1, 3, ..., 31 words there, the complement back.".into(),
        checks: vec![
            Check::between("hardware over software, optimised", (1.6, 2.4), twice[0], Unit::Ratio),
            Check::between("hardware over software, not", (1.6, 2.4), twice[1], Unit::Ratio),
            Check::shape(
                "1 and 31 words",
                "between A and B",
                format!("at {:.2} and {:.2} of the way from B to A", between[0], between[1]),
                between.iter().all(|part| (0.2..0.8).contains(part)),
            ),
            Check::shape(
                "groups",
                "A > B > C, D; C > D",
                [mean_a, mean_b, mean(&c), mean(&d)]
                    .map(|rate| Unit::BytesPerSecond.format(rate))
                    .join(", "),
                mean_a > mean_b && mean_b > mean(&c) && mean(&c) > mean(&d),
            ),
        ],
        tables: Vec::new(),
        charts: vec![chart.into()],
        notes: vec!["\"About twice\" is judged as 1.6 to 2.4.".into()],
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cj_20_hardware_is_about_twice_as_fast_as_a_software_copy() {
        let machines = &Machines::stored();
        let ratio = rate(machines, By::Hardware, true, 9, 1 << 15)
            / rate(machines, By::Software, true, 9, 1 << 15);
        assert!((1.5..2.5).contains(&ratio), "{ratio}");
    }
}
