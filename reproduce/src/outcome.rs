//! What an experiment brings: statements of the paper, each with what the model gives and what that
//! shows, and the figures and tables behind them.
//!
//! A statement is a printed number, an order ("C above B above A") or a shape ("flat"). What it
//! shows depends on what went into the model:
//!
//! ```text
//!   the model does not give it ─────────────────────────────► mismatch
//!   the model gives it, and
//!     a constant, or a choice, was made in view of it ──────► calibration
//!     it is arithmetic on numbers that the file states ─────► identity
//!     neither ──────────────────────────────────────────────► prediction
//! ```

use hikyaku_report::{Chart, Table, Unit};

/// Printed numbers are met within this, percent, unless an experiment says otherwise.
pub const TOLERANCE: f64 = 5.0;

/// What a check shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The model does not give what the paper states.
    Mismatch,
    /// It does, and no constant was chosen in view of it.
    Prediction,
    /// It does, and a constant or a choice was made so that it does.
    Calibration,
    /// It does, by arithmetic on numbers that the machine file states.
    Identity,
}

impl Verdict {
    /// All, worst first.
    pub const ALL: [Verdict; 4] =
        [Verdict::Mismatch, Verdict::Prediction, Verdict::Calibration, Verdict::Identity];

    /// The word for it in tables.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Mismatch => "mismatch",
            Verdict::Prediction => "prediction",
            Verdict::Calibration => "calibration",
            Verdict::Identity => "identity",
        }
    }

    /// The word for several of it.
    pub fn plural(self) -> &'static str {
        match self {
            Verdict::Mismatch => "mismatches",
            Verdict::Prediction => "predictions met",
            Verdict::Calibration => "calibrations",
            Verdict::Identity => "identities",
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
    /// When the model gives it.
    pub criterion: String,
    /// What it shows.
    pub verdict: Verdict,
    /// What makes it a calibration or an identity, or why it does not come out; empty for a
    /// prediction.
    pub why: String,
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

    /// A number from `low` to `high`, ends included.
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
            verdict: if holds { Verdict::Prediction } else { Verdict::Mismatch },
            why: String::new(),
        }
    }

    /// The check as a calibration: `why` names the constant or the choice that was made in view of
    /// it. A calibration that misses its own number is a mismatch.
    #[must_use]
    pub fn calibrated(self, why: &str) -> Check {
        self.made(Verdict::Calibration, why)
    }

    /// The check as an identity: `why` says which inputs it is computed from.
    #[must_use]
    pub fn identity(self, why: &str) -> Check {
        self.made(Verdict::Identity, why)
    }

    /// The check with the reason for a mismatch, as far as that is known.
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

/// Everything an experiment has to say.
#[derive(Debug, Clone)]
pub struct ExperimentOutcome {
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

impl ExperimentOutcome {
    /// Whether nothing is a mismatch.
    pub fn passes(&self) -> bool {
        self.count(Verdict::Mismatch) == 0
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
