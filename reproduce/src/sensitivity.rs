//! The outcome of an experiment when an assumed constant has half or twice its value.
//!
//! Where a paper is silent, a machine file assumes a value and gives the reason. Such a value
//! cannot be verified. But one can show what depends on it: which verdicts change, and how far the
//! curves move.

use hikyaku_report::{Chart, LineChart, Series};
use hikyaku_sim::machine::{MachineConstant, Origin};

use crate::{Check, ExperimentOutcome, Machines, PaperItem, Verdict};

/// The factors of an assumed value.
const FACTORS: [f64; 2] = [0.5, 2.0];

/// An assumed constant of an experiment's machine, and the outcomes with other values.
#[derive(Debug, Clone)]
pub struct Assumption {
    /// The machine's name.
    pub machine: &'static str,
    /// The constant, as in the file.
    pub constant: MachineConstant,
    /// Other values and their outcomes. Values with which the machine is invalid are left out.
    pub runs: Vec<(String, ExperimentOutcome)>,
}

/// One run of an experiment with another value for an assumption.
#[derive(Debug, Clone)]
pub struct Variant {
    machine: &'static str,
    constant: MachineConstant,
    value: String,
    machines: Machines,
}

/// The runs with other values for the assumptions of an experiment. They are independent, so a
/// caller can run them in parallel.
pub fn variants(item: &PaperItem) -> Vec<Variant> {
    let stored = Machines::stored();
    let mut all = Vec::new();
    for machine in item.machines.iter().copied() {
        let constants = stored.get(machine).constants.iter();
        for constant in constants.filter(|constant| constant.origin == Origin::Assumed) {
            for value in FACTORS.iter().filter_map(|&factor| constant.scaled(factor)) {
                if let Ok(machines) = stored.with(machine, &[(&constant.key, &value)]) {
                    all.push(Variant { machine, constant: constant.clone(), value, machines });
                }
            }
        }
    }
    all
}

impl Variant {
    /// Runs the experiment with this value.
    pub fn run(&self, item: &PaperItem) -> ExperimentOutcome {
        (item.run)(&self.machines)
    }
}

/// The assumptions of an experiment, from its variants and their outcomes in the same order.
pub fn assumptions(
    runs: impl IntoIterator<Item = (Variant, ExperimentOutcome)>,
) -> Vec<Assumption> {
    let mut all: Vec<Assumption> = Vec::new();
    for (Variant { machine, constant, value, .. }, outcome) in runs {
        match all.last_mut() {
            Some(last) if last.machine == machine && last.constant.key == constant.key => {
                last.runs.push((value, outcome));
            }
            _ => all.push(Assumption { machine, constant, runs: vec![(value, outcome)] }),
        }
    }
    all
}

impl Assumption {
    /// Machine and key.
    pub fn name(&self) -> String {
        format!("{} {}", self.machine, self.constant.key)
    }

    /// The checks that are met now and missed with another value, or the reverse: the check, the
    /// other value, and the verdict with it.
    pub fn turned<'a>(
        &'a self,
        outcome: &'a ExperimentOutcome,
    ) -> Vec<(&'a Check, &'a str, Verdict)> {
        let missed = |check: &Check| check.verdict == Verdict::Mismatch;
        let mut all = Vec::new();
        for (value, other) in &self.runs {
            for (check, then) in outcome.checks.iter().zip(&other.checks) {
                if missed(check) != missed(then) {
                    all.push((check, value.as_str(), then.verdict));
                }
            }
        }
        all
    }

    /// The largest relative change of a point of a curve; `None`: there is no curve.
    pub fn moved(&self, outcome: &ExperimentOutcome) -> Option<f64> {
        let mut most = None;
        for (_, other) in &self.runs {
            for (point, then) in lines(outcome).zip(lines(other)) {
                let by = (then.1 / point.1 - 1.0).abs();
                most = Some(by.max(most.unwrap_or(0.0)));
            }
        }
        most
    }
}

/// The points of all curves, in order.
fn lines(outcome: &ExperimentOutcome) -> impl Iterator<Item = (f64, f64)> {
    let curves = outcome.charts.iter().filter_map(|chart| match chart {
        Chart::Line(chart) => Some(&chart.series),
        _ => None,
    });
    curves.flatten().flat_map(|series| series.points.iter().copied())
}

/// The chart in place `at` of an experiment, with the range of each curve over all assumptions.
pub(crate) fn with_ranges(chart: &Chart, at: usize, assumptions: &[Assumption]) -> Chart {
    let Chart::Line(chart) = chart else { return chart.clone() };
    let others: Vec<&LineChart> = assumptions
        .iter()
        .flat_map(|assumption| &assumption.runs)
        .filter_map(|(_, outcome)| match outcome.charts.get(at) {
            Some(Chart::Line(chart)) => Some(chart),
            _ => None,
        })
        .collect();
    let ranged = |(index, series): (usize, &Series)| {
        let same = |other: &&LineChart| other.series.get(index).map(|series| series.points.clone());
        let curves: Vec<Vec<(f64, f64)>> = others.iter().filter_map(same).collect();
        let range = |(place, point): (usize, &(f64, f64))| {
            let values = curves.iter().filter_map(|curve| curve.get(place).map(|point| point.1));
            values.fold((point.1, point.1), |(low, high), y| (low.min(y), high.max(y)))
        };
        let band = match curves.is_empty() {
            true => Vec::new(),
            false => series.points.iter().enumerate().map(range).collect(),
        };
        Series { band, ..series.clone() }
    };
    let series = chart.series.iter().enumerate().map(ranged).collect();
    LineChart { series, ..chart.clone() }.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::select;

    #[test]
    fn an_assumption_that_decides_a_verdict_is_named_with_its_value() {
        let words = ["004-figure-3".to_owned()];
        let item = select(&words).expect("the item exists")[0];
        let stored = (item.run)(&Machines::stored());
        let runs = variants(item).into_iter().map(|variant| {
            let outcome = variant.run(item);
            (variant, outcome)
        });
        let all = assumptions(runs);
        let names: Vec<String> = all.iter().map(Assumption::name).collect();
        assert!(names.contains(&"cp-pacs host.detect".to_owned()), "{names:?}");
        assert!(all.iter().all(|assumption| assumption.runs.len() == 2), "{names:?}");
        let find = |key: &str| all.iter().find(|assumption| assumption.constant.key == key);
        // Interrupts have no part in a ping-pong; half the link's hop has.
        let interrupt = find("host.interrupt").expect("it is assumed");
        assert_eq!(interrupt.moved(&stored), Some(0.0));
        assert!(interrupt.turned(&stored).is_empty());
        let detect = find("host.detect").expect("it is assumed");
        assert!(detect.moved(&stored).is_some_and(|by| by > 0.01));
        let chart = with_ranges(&stored.charts[0], 0, &all);
        let Chart::Line(chart) = chart else { panic!("a line chart stays one") };
        let (series, point) = (&chart.series[0], chart.series[0].points[0].1);
        assert!(series.band[0].0 < point && point < series.band[0].1);
    }

    #[test]
    fn a_wrong_constant_turns_a_prediction_into_a_mismatch() {
        let item = select(&["003-figure-8".to_owned()]).expect("the item exists")[0];
        let stored = Machines::stored();
        let slow = stored.with("cenju4", &[("host.copy", "65 MB/s")]).expect("it has one");
        let verdict = |machines: &Machines| {
            let outcome = (item.run)(machines);
            let named = |check: &&Check| check.what == "hardware over software, optimised";
            outcome.checks.iter().find(named).expect("it is compared").verdict
        };
        assert_eq!(verdict(&stored), Verdict::Prediction);
        assert_eq!(verdict(&slow), Verdict::Mismatch);
    }
}
