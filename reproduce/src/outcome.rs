//! What an experiment brings: statements of the paper, each with what the model gives and whether
//! that meets its criterion, and the figures and tables behind them.
//!
//! A statement is a printed number, an order ("C above B above A") or a shape ("flat"). A number
//! to which a constant was fitted is *calibration*: it is shown, and never counts as reproduced.

use hikyaku_report::{Chart, Table, Unit};

/// Printed numbers are met within this, percent, unless an experiment says otherwise.
pub const TOLERANCE: f64 = 5.0;

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The model gives what the paper states.
    Pass,
    /// It does not; the note of the check says why.
    Fail,
    /// The number was used to fit a constant.
    Calibration,
    /// Shown without judgement: the paper contradicts itself, or prints nothing to compare with.
    Reported,
}

impl Verdict {
    /// The word for it in tables.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Fail => "FAIL",
            Verdict::Calibration => "calibration",
            Verdict::Reported => "reported",
        }
    }
}

/// A value of the model beside a statement of the paper.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// What is compared.
    pub what: String,
    /// What the paper states, as text.
    pub stated: String,
    /// What the model gives, as text.
    pub model: String,
    /// How far the model is from a stated number, percent.
    pub deviation: Option<f64>,
    /// When the check passes.
    pub criterion: String,
    /// How it ended.
    pub verdict: Verdict,
}

impl Check {
    /// A printed number, met within [`TOLERANCE`].
    pub fn number(what: impl Into<String>, stated: f64, model: f64, unit: Unit) -> Check {
        Check::within(what, stated, model, unit, TOLERANCE)
    }

    /// A printed number, met within `percent`.
    pub fn within(
        what: impl Into<String>,
        stated: f64,
        model: f64,
        unit: Unit,
        percent: f64,
    ) -> Check {
        let deviation = 100.0 * (model / stated - 1.0);
        let passes = deviation.abs() <= percent;
        Check {
            what: what.into(),
            stated: unit.format(stated),
            model: unit.format(model),
            deviation: Some(deviation),
            criterion: if percent == 0.0 { "exact".into() } else { format!("within {percent} %") },
            verdict: if passes { Verdict::Pass } else { Verdict::Fail },
        }
    }

    /// A number from `low` to `high`, ends included.
    pub fn between(
        what: impl Into<String>,
        (low, high): (f64, f64),
        model: f64,
        unit: Unit,
    ) -> Check {
        let passes = (low..=high).contains(&model);
        Check {
            what: what.into(),
            stated: format!("{} to {}", unit.format(low), unit.format(high)),
            model: unit.format(model),
            deviation: None,
            criterion: "within the range".into(),
            verdict: if passes { Verdict::Pass } else { Verdict::Fail },
        }
    }

    /// The number that a constant was fitted to.
    pub fn calibration(what: impl Into<String>, stated: f64, model: f64, unit: Unit) -> Check {
        let check = Check::number(what, stated, model, unit);
        match check.verdict {
            Verdict::Pass => Check { verdict: Verdict::Calibration, ..check },
            _ => check,
        }
    }

    /// A number shown without judgement.
    pub fn reported(what: impl Into<String>, stated: f64, model: f64, unit: Unit) -> Check {
        let check = Check::number(what, stated, model, unit);
        Check { criterion: "none".into(), verdict: Verdict::Reported, ..check }
    }

    /// An order or a shape: `stated` in words, what the model shows, whether it holds.
    pub fn shape(
        what: impl Into<String>,
        stated: impl Into<String>,
        model: impl Into<String>,
        holds: bool,
    ) -> Check {
        Check {
            what: what.into(),
            stated: stated.into(),
            model: model.into(),
            deviation: None,
            criterion: "holds at every point".into(),
            verdict: if holds { Verdict::Pass } else { Verdict::Fail },
        }
    }
}

/// Everything an experiment has to say.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// What the paper states, in a sentence or two.
    pub statement: String,
    /// How the model was run.
    pub setup: String,
    /// The comparisons.
    pub checks: Vec<Check>,
    /// Data, in the paper's form.
    pub tables: Vec<Table>,
    /// Plots, in the paper's form.
    pub charts: Vec<Chart>,
    /// What a reader should know: deviations explained, ambiguities.
    pub notes: Vec<String>,
}

impl Outcome {
    /// Whether no check failed.
    pub fn passes(&self) -> bool {
        self.checks.iter().all(|check| check.verdict != Verdict::Fail)
    }

    /// How many checks ended in `verdict`.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.checks.iter().filter(|check| check.verdict == verdict).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_judged_by_their_tolerance() {
        let verdict = |check: Check| check.verdict;
        let us = Unit::Seconds;
        assert_eq!(verdict(Check::number("t", 1.0, 1.049, us)), Verdict::Pass);
        assert_eq!(verdict(Check::number("t", 1.0, 1.051, us)), Verdict::Fail);
        assert_eq!(verdict(Check::number("t", 1.0, f64::NAN, us)), Verdict::Fail);
        assert_eq!(verdict(Check::within("t", 24.0, 24.0, Unit::Number, 0.0)), Verdict::Pass);
        assert_eq!(verdict(Check::within("t", 24.0, 25.0, Unit::Number, 0.0)), Verdict::Fail);
        assert_eq!(verdict(Check::between("r", (1.2, 1.8), 1.2, Unit::Number)), Verdict::Pass);
        assert_eq!(verdict(Check::between("r", (1.2, 1.8), 1.81, Unit::Number)), Verdict::Fail);
    }

    #[test]
    fn a_calibration_that_misses_its_own_number_fails() {
        let check = Check::calibration("t", 1.0, 1.0, Unit::Seconds);
        assert_eq!(check.verdict, Verdict::Calibration);
        let check = Check::calibration("t", 1.0, 1.2, Unit::Seconds);
        assert_eq!(check.verdict, Verdict::Fail);
        let check = Check::reported("t", 1.0, 1.2, Unit::Seconds);
        assert_eq!(check.verdict, Verdict::Reported);
    }
}
