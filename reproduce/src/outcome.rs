//! The outcome of an experiment: statements of the paper, each with the model's value and a
//! verdict, and the figures and tables they are based on.
//!
//! A statement is a printed number, an order ("C above B above A") or a shape ("flat"). The verdict
//! depends on the model's inputs:
//!
//! ```text
//!   the model does not reproduce it ────────────────────────► mismatch
//!   the model reproduces it, and
//!     a constant or a choice was fitted to it ──────────────► calibration
//!     it is arithmetic on numbers that the file states ─────► identity
//!     neither ──────────────────────────────────────────────► prediction
//! ```

use hikyaku_report::{Chart, Table, Unit};

/// The default tolerance for printed numbers, in percent.
pub const TOLERANCE: f64 = 5.0;

/// The verdict of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The model does not reproduce the paper's statement.
    Mismatch,
    /// It does, and no constant was fitted to the statement.
    Prediction,
    /// It does, because a constant or a choice was fitted to the statement.
    Calibration,
    /// It does, by arithmetic on numbers of the machine file.
    Identity,
}

impl Verdict {
    /// All verdicts, worst first.
    pub const ALL: [Verdict; 4] =
        [Verdict::Mismatch, Verdict::Prediction, Verdict::Calibration, Verdict::Identity];

    /// Its name in tables.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Mismatch => "mismatch",
            Verdict::Prediction => "prediction",
            Verdict::Calibration => "calibration",
            Verdict::Identity => "identity",
        }
    }

    /// Its plural.
    pub fn plural(self) -> &'static str {
        match self {
            Verdict::Mismatch => "mismatches",
            Verdict::Prediction => "predictions met",
            Verdict::Calibration => "calibrations",
            Verdict::Identity => "identities",
        }
    }
}

/// The comparison of a value of the model with a statement of the paper.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// The compared quantity.
    pub what: String,
    /// The paper's statement, as text.
    pub stated: String,
    /// The model's value, as text.
    pub model: String,
    /// The difference of the model from a stated number, percent.
    pub deviation: Option<f64>,
    /// The condition for agreement.
    pub criterion: String,
    /// The verdict.
    pub verdict: Verdict,
    /// The reason why it is a calibration, an identity or a mismatch; empty for a prediction.
    pub why: String,
}

impl Check {
    /// A printed number that the model must reach within [`TOLERANCE`].
    pub fn number(what: impl Into<String>, stated: f64, model: f64, unit: Unit) -> Check {
        Check::within(what, stated, model, unit, TOLERANCE)
    }

    /// A printed number that the model must reach within `percent`.
    pub fn within(
        what: impl Into<String>,
        stated: f64,
        model: f64,
        unit: Unit,
        percent: f64,
    ) -> Check {
        let deviation = 100.0 * (model / stated - 1.0);
        Check {
            deviation: Some(deviation),
            criterion: if percent == 0.0 { "exact".into() } else { format!("within {percent} %") },
            ..Check::shape(
                what,
                unit.format(stated),
                unit.format(model),
                deviation.abs() <= percent,
            )
        }
    }

    /// A number from `low` to `high`, both included.
    pub fn between(
        what: impl Into<String>,
        (low, high): (f64, f64),
        model: f64,
        unit: Unit,
    ) -> Check {
        let range = format!("{} to {}", unit.format(low), unit.format(high));
        Check {
            criterion: "within the range".into(),
            ..Check::shape(what, range, unit.format(model), (low..=high).contains(&model))
        }
    }

    /// An order or a shape: the statement and the model's result in words, and whether it holds.
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
            verdict: if holds { Verdict::Prediction } else { Verdict::Mismatch },
            why: String::new(),
        }
    }

    /// The check as a calibration: `why` names the constant or the choice that was fitted to it. A
    /// calibration that misses its own number is a mismatch.
    #[must_use]
    pub fn calibrated(self, why: &str) -> Check {
        self.made(Verdict::Calibration, why)
    }

    /// The check as an identity: `why` names the inputs it is computed from.
    #[must_use]
    pub fn identity(self, why: &str) -> Check {
        self.made(Verdict::Identity, why)
    }

    /// The check with the known or supposed reason for its mismatch.
    #[must_use]
    pub fn because(self, why: impl Into<String>) -> Check {
        match self.verdict {
            Verdict::Mismatch => Check { why: why.into(), ..self },
            _ => self,
        }
    }

    fn made(self, verdict: Verdict, why: &str) -> Check {
        match self.verdict {
            Verdict::Mismatch => Check { why: format!("{why}; it is missed"), ..self },
            _ => Check { verdict, why: why.to_owned(), ..self },
        }
    }
}

/// The outcome of an experiment.
#[derive(Debug, Clone)]
pub struct ExperimentOutcome {
    /// The paper's statement, in a sentence or two.
    pub statement: String,
    /// How the model was run.
    pub setup: String,
    /// The comparisons.
    pub checks: Vec<Check>,
    /// Data, in the paper's form.
    pub tables: Vec<Table>,
    /// Plots, in the paper's form.
    pub charts: Vec<Chart>,
    /// Notes for readers: reasons for deviations, ambiguities.
    pub notes: Vec<String>,
}

impl ExperimentOutcome {
    /// Whether there is no mismatch.
    pub fn passes(&self) -> bool {
        self.count(Verdict::Mismatch) == 0
    }

    /// The number of checks with this verdict.
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
        assert_eq!(verdict(Check::number("t", 1.0, 1.049, us)), Verdict::Prediction);
        assert_eq!(verdict(Check::number("t", 1.0, 1.051, us)), Verdict::Mismatch);
        assert_eq!(verdict(Check::number("t", 1.0, f64::NAN, us)), Verdict::Mismatch);
        let exact = |model| Check::within("t", 24.0, model, Unit::Number, 0.0);
        assert_eq!(verdict(exact(24.0)), Verdict::Prediction);
        assert_eq!(verdict(exact(25.0)), Verdict::Mismatch);
        let range = |model| Check::between("r", (1.2, 1.8), model, Unit::Number);
        assert_eq!(verdict(range(1.2)), Verdict::Prediction);
        assert_eq!(verdict(range(1.81)), Verdict::Mismatch);
    }

    #[test]
    fn what_went_in_is_no_prediction_and_a_miss_stays_a_mismatch() {
        let check = |model| Check::number("t", 1.0, model, Unit::Seconds);
        assert_eq!(check(1.0).calibrated("host.poll").verdict, Verdict::Calibration);
        assert_eq!(check(1.0).identity("host.poll").verdict, Verdict::Identity);
        let missed = check(1.2).calibrated("host.poll");
        assert_eq!((missed.verdict, &*missed.why), (Verdict::Mismatch, "host.poll; it is missed"));
        assert_eq!(check(1.2).because("it rains").why, "it rains");
        assert_eq!(check(1.0).because("it rains").why, "");
    }
}
