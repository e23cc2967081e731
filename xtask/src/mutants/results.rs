//! What became of each mutant, kept from run to run.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Mutant, MutantsError, TestStage, make_folder, read, write};

/// What the tests made of a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum MutantVerdict {
    /// A test failed.
    Caught,
    /// All passed.
    Missed,
    /// Some did not end, and none had failed.
    TimedOut,
    /// It does not compile.
    Unviable,
}

/// A verdict and who gave it.
#[derive(Debug, Serialize, Deserialize)]
struct Judged {
    stage: TestStage,
    verdict: MutantVerdict,
    /// The mutant's name, with the place where it was then.
    name: String,
}

/// The verdicts on the mutants of a crate by their keys, which do not depend on places.
///
/// A verdict is of the code and the tests of its run. Whoever wants all of them anew deletes the
/// file.
pub(super) struct MutantResults {
    path: PathBuf,
    judged: BTreeMap<String, Judged>,
}

impl MutantResults {
    /// Reads the file; none yet is an empty one.
    pub(super) fn load(path: &Path) -> Result<MutantResults, MutantsError> {
        let judged = match path.exists() {
            true => serde_json::from_str(&read(path)?)?,
            false => BTreeMap::new(),
        };
        Ok(MutantResults { path: path.to_path_buf(), judged })
    }

    /// Writes the file.
    pub(super) fn save(&self) -> Result<(), MutantsError> {
        make_folder(self.path.parent().unwrap_or(Path::new(".")))?;
        write(&self.path, &serde_json::to_vec_pretty(&self.judged)?)
    }

    /// Notes a verdict; it replaces an earlier one.
    pub(super) fn note(&mut self, key: &str, name: &str, stage: TestStage, verdict: MutantVerdict) {
        let judged = Judged { stage, verdict, name: name.to_string() };
        self.judged.insert(key.to_string(), judged);
    }

    /// Forgets the mutants that no test has failed for: they are due once more.
    pub(super) fn forget_survivors(&mut self) {
        self.judged.retain(|_, judged| {
            matches!(judged.verdict, MutantVerdict::Caught | MutantVerdict::Unviable)
        });
    }

    /// Whether a mutant has to meet the tests of `stage`.
    pub(super) fn is_due(&self, key: &str, stage: TestStage) -> bool {
        let missed_by = |stage| {
            self.judged.get(key).is_some_and(|judged| {
                judged.stage == stage && judged.verdict == MutantVerdict::Missed
            })
        };
        match stage {
            TestStage::Quick => !self.judged.contains_key(key),
            TestStage::All => missed_by(TestStage::Quick),
        }
    }

    /// The score of the mutants with these keys that have met a test.
    pub(super) fn score<'a>(&self, keys: impl Iterator<Item = &'a str>) -> Score {
        let mut score = Score::default();
        for judged in keys.filter_map(|key| self.judged.get(key)) {
            let list = match (judged.verdict, judged.stage) {
                (MutantVerdict::Caught, _) => &mut score.caught,
                (MutantVerdict::Missed, TestStage::Quick) => &mut score.due,
                (MutantVerdict::Missed, TestStage::All) => &mut score.missed,
                (MutantVerdict::TimedOut, _) => &mut score.timed_out,
                (MutantVerdict::Unviable, _) => &mut score.unviable,
            };
            list.push(judged.name.clone());
        }
        score
    }
}

/// The outcomes that cargo-mutants has written, `outcomes.json`: a mutant's name and its verdict.
pub(super) fn outcomes(text: &str) -> Result<Vec<(String, MutantVerdict)>, MutantsError> {
    let read: Outcomes = serde_json::from_str(text)?;
    let mut verdicts = Vec::new();
    for outcome in read.outcomes {
        let Scenario::Mutant(Mutant { name, .. }) = outcome.scenario else { continue };
        let verdict = match outcome.summary {
            Summary::CaughtMutant => MutantVerdict::Caught,
            Summary::MissedMutant => MutantVerdict::Missed,
            Summary::Timeout => MutantVerdict::TimedOut,
            Summary::Unviable => MutantVerdict::Unviable,
            Summary::Other => continue,
        };
        verdicts.push((name, verdict));
    }
    Ok(verdicts)
}

/// `outcomes.json` of cargo-mutants.
#[derive(Deserialize)]
struct Outcomes {
    outcomes: Vec<MutantOutcome>,
}

#[derive(Deserialize)]
struct MutantOutcome {
    scenario: Scenario,
    summary: Summary,
}

#[derive(Deserialize)]
enum Scenario {
    Baseline,
    Mutant(Mutant),
}

#[derive(Deserialize)]
enum Summary {
    CaughtMutant,
    MissedMutant,
    Timeout,
    Unviable,
    /// Of the baseline.
    #[serde(other)]
    Other,
}

/// How many mutants became what: their names.
#[derive(Debug, Default)]
pub(super) struct Score {
    caught: Vec<String>,
    missed: Vec<String>,
    timed_out: Vec<String>,
    unviable: Vec<String>,
    /// Missed by the unit tests; the others have not met them.
    due: Vec<String>,
}

impl Score {
    /// How many have met a test.
    pub(super) fn all(&self) -> usize {
        let Score { caught, missed, timed_out, unviable, due } = self;
        [caught, missed, timed_out, unviable, due].map(Vec::len).iter().sum()
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [caught, missed, timed_out, due] =
            [&self.caught, &self.missed, &self.timed_out, &self.due].map(Vec::len);
        write!(f, "{caught} caught, {missed} missed, {timed_out} timed out, ")?;
        write!(f, "{} unviable", self.unviable.len())?;
        if due > 0 {
            write!(f, ", {due} missed by unit tests alone")?;
        }
        // What does not compile says nothing of the tests.
        if let Some(share) = (100 * caught).checked_div(caught + missed + timed_out + due) {
            write!(f, "; {share} % caught")?;
        }
        self.missed.iter().try_for_each(|name| write!(f, "\n  missed: {name}"))?;
        self.timed_out.iter().try_for_each(|name| write!(f, "\n  timed out: {name}"))?;
        self.due.iter().try_for_each(|name| write!(f, "\n  missed by unit tests: {name}"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    #[test]
    fn each_outcome_of_a_mutant_is_a_verdict() {
        let outcome = |name: &str, summary: &str| {
            let mutant = json!({ "name": name, "file": "a.rs" });
            json!({ "scenario": { "Mutant": mutant }, "summary": summary })
        };
        let written = json!({ "outcomes": [
            json!({ "scenario": "Baseline", "summary": "Success" }),
            outcome("1", "CaughtMutant"), outcome("2", "MissedMutant"),
            outcome("3", "Timeout"), outcome("4", "Unviable"),
        ] });
        let expected = [
            ("1", MutantVerdict::Caught),
            ("2", MutantVerdict::Missed),
            ("3", MutantVerdict::TimedOut),
            ("4", MutantVerdict::Unviable),
        ];
        let expected = expected.map(|(name, verdict)| (name.to_string(), verdict));
        assert_eq!(outcomes(&written.to_string()).unwrap(), expected);
    }

    #[test]
    fn only_misses_of_unit_tests_meet_all_tests() {
        let mut results = MutantResults { path: PathBuf::new(), judged: BTreeMap::new() };
        assert!(results.is_due("a", TestStage::Quick));
        assert!(!results.is_due("a", TestStage::All));
        for (verdict, due) in [
            (MutantVerdict::Caught, false),
            (MutantVerdict::Missed, true),
            (MutantVerdict::TimedOut, false),
            (MutantVerdict::Unviable, false),
        ] {
            results.note("a", "a.rs:1", TestStage::Quick, verdict);
            assert!(!results.is_due("a", TestStage::Quick), "{verdict:?}");
            assert_eq!(results.is_due("a", TestStage::All), due, "{verdict:?}");
        }
        results.note("a", "a.rs:1", TestStage::All, MutantVerdict::Missed);
        assert!(!results.is_due("a", TestStage::All));
        results.forget_survivors();
        assert!(results.is_due("a", TestStage::Quick));
    }

    #[test]
    fn a_score_tells_who_has_missed_a_mutant() {
        let mut results = MutantResults { path: PathBuf::new(), judged: BTreeMap::new() };
        assert_eq!(
            results.score(["1"].into_iter()).to_string(),
            "0 caught, 0 missed, 0 timed out, 0 unviable"
        );
        for (name, stage, verdict) in [
            ("1", TestStage::Quick, MutantVerdict::Caught),
            ("2", TestStage::All, MutantVerdict::Caught),
            ("3", TestStage::All, MutantVerdict::Caught),
            ("4", TestStage::All, MutantVerdict::Missed),
            ("5", TestStage::Quick, MutantVerdict::TimedOut),
            ("6", TestStage::Quick, MutantVerdict::Unviable),
            ("7", TestStage::Quick, MutantVerdict::Missed),
            ("8", TestStage::All, MutantVerdict::Missed),
        ] {
            results.note(name, name, stage, verdict);
        }
        let score = results.score(["1", "2", "3", "4", "5", "6", "7"].into_iter());
        assert_eq!(score.all(), 7);
        assert_eq!(
            score.to_string(),
            "3 caught, 1 missed, 1 timed out, 1 unviable, 1 missed by unit tests alone; 50 % caught\
             \n  missed: 4\n  timed out: 5\n  missed by unit tests: 7"
        );
    }

    #[test]
    fn results_outlive_a_run() {
        let folder = std::env::temp_dir().join(format!("xtask-results-{}", std::process::id()));
        let path = folder.join("results.json");
        let mut results = MutantResults::load(&path).unwrap();
        results.note("a", "a.rs:1", TestStage::Quick, MutantVerdict::Caught);
        results.save().unwrap();
        assert!(!MutantResults::load(&path).unwrap().is_due("a", TestStage::Quick));
        std::fs::write(&path, "{").unwrap();
        assert!(matches!(MutantResults::load(&path), Err(MutantsError::Form(_))));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
