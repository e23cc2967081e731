//! The verdict on each mutant, kept from run to run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use serde::{Deserialize, Serialize};

use super::{MutantsError, at, make_folder, read, write};

/// The verdict of the tests on a mutant.
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

/// A verdict, and the tests that gave it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Judgement {
    pub(super) verdict: MutantVerdict,
    /// The test that failed, or those that timed out.
    pub(super) by: Vec<String>,
    /// How many tests it has met.
    pub(super) met: usize,
}

#[derive(Debug, Serialize, Deserialize)]
struct Judged {
    /// The mutant's name, with its place at that time.
    name: String,
    #[serde(flatten)]
    judgement: Judgement,
}

/// The verdicts on mutants by their keys, which do not depend on places.
///
/// A verdict belongs to the code and the tests of its run. To get all of them anew, delete the
/// file.
pub(super) struct MutantResults {
    path: PathBuf,
    judged: BTreeMap<String, Judged>,
}

impl MutantResults {
    /// Reads the file; a missing one counts as empty.
    pub(super) fn load(path: &Path) -> Result<MutantResults, MutantsError> {
        let judged = match path.exists() {
            true => serde_json::from_str(&read(path)?)?,
            false => BTreeMap::new(),
        };
        Ok(MutantResults { path: path.to_path_buf(), judged })
    }

    /// Records a judgement, which replaces an earlier one, and writes the file. A run that is ended
    /// meanwhile leaves the file as it was.
    pub(super) fn note(
        &mut self,
        key: &str,
        name: &str,
        judgement: Judgement,
    ) -> Result<(), MutantsError> {
        let judged = Judged { name: name.to_string(), judgement };
        self.judged.insert(key.to_string(), judged);
        make_folder(self.path.parent().unwrap_or(Path::new(".")))?;
        let new = self.path.with_extension("new");
        write(&new, &serde_json::to_vec_pretty(&self.judged)?)?;
        fs::rename(&new, &self.path).map_err(at(&self.path))
    }

    /// Whether a mutant has to be judged. `again`: also one that no test has failed for.
    pub(super) fn is_due(&self, key: &str, again: bool) -> bool {
        self.judged.get(key).is_none_or(|judged| {
            again
                && matches!(
                    judged.judgement.verdict,
                    MutantVerdict::Missed | MutantVerdict::TimedOut
                )
        })
    }

    /// The score of those mutants with these keys that have been judged.
    pub(super) fn score<'a>(&self, keys: impl Iterator<Item = &'a str>) -> Score {
        let mut score = Score::default();
        for Judged { name, judgement } in keys.filter_map(|key| self.judged.get(key)) {
            let line = match judgement.met {
                0 => format!("{name}; no test reaches it"),
                _ if judgement.by.is_empty() => format!("{name}; {} tests pass", judgement.met),
                _ => format!("{name}; {}", judgement.by.join(", ")),
            };
            match judgement.verdict {
                MutantVerdict::Caught => score.caught += 1,
                MutantVerdict::Unviable => score.unviable += 1,
                MutantVerdict::Missed => score.missed.push(line),
                MutantVerdict::TimedOut => score.timed_out.push(line),
            }
        }
        score
    }
}

/// The number of mutants by verdict, and the survivors.
#[derive(Debug, Default)]
pub(super) struct Score {
    caught: usize,
    unviable: usize,
    missed: Vec<String>,
    timed_out: Vec<String>,
}

impl Score {
    /// How many have been judged.
    pub(super) fn all(&self) -> usize {
        self.caught + self.unviable + self.missed.len() + self.timed_out.len()
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Score { caught, unviable, missed, timed_out } = self;
        let (missed_count, timed_out_count) = (missed.len(), timed_out.len());
        write!(f, "{caught} caught, {missed_count} missed, {timed_out_count} timed out, ")?;
        write!(f, "{unviable} unviable")?;
        // A mutant that does not compile says nothing about the tests.
        if let Some(share) = (100 * caught).checked_div(self.all() - unviable) {
            write!(f, "; {share} % caught")?;
        }
        missed.iter().try_for_each(|line| write!(f, "\n  missed: {line}"))?;
        timed_out.iter().try_for_each(|line| write!(f, "\n  timed out: {line}"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// MutantResults in a folder of this name, which has no file yet.
    fn results(name: &str) -> (PathBuf, MutantResults) {
        let name = format!("xtask-results-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let results = MutantResults::load(&folder.join("verdicts.json")).unwrap();
        (folder, results)
    }

    fn judgement(verdict: MutantVerdict, by: &[&str], met: usize) -> Judgement {
        Judgement { verdict, by: by.iter().map(ToString::to_string).collect(), met }
    }

    #[test]
    fn survivors_alone_are_due_again() {
        let (folder, mut results) = results("due");
        assert!(results.is_due("a", false));
        for (verdict, due_again) in [
            (MutantVerdict::Caught, false),
            (MutantVerdict::Missed, true),
            (MutantVerdict::TimedOut, true),
            (MutantVerdict::Unviable, false),
        ] {
            results.note("a", "a.rs:1", judgement(verdict, &[], 1)).unwrap();
            assert!(!results.is_due("a", false), "{verdict:?}");
            assert_eq!(results.is_due("a", true), due_again, "{verdict:?}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_score_names_survivors() {
        let (folder, mut results) = results("score");
        let none = "0 caught, 0 missed, 0 timed out, 0 unviable";
        assert_eq!(results.score(["1"].into_iter()).to_string(), none);
        for (name, judgement) in [
            ("1", judgement(MutantVerdict::Caught, &["lib a"], 1)),
            ("2", judgement(MutantVerdict::Caught, &["lib a"], 1)),
            ("3", judgement(MutantVerdict::Missed, &[], 0)),
            ("4", judgement(MutantVerdict::Missed, &[], 9)),
            ("5", judgement(MutantVerdict::TimedOut, &["lib b", "lib c"], 5)),
            ("6", judgement(MutantVerdict::Unviable, &[], 0)),
            ("7", judgement(MutantVerdict::Missed, &[], 3)),
        ] {
            results.note(name, name, judgement).unwrap();
        }
        let score = results.score(["1", "2", "3", "4", "5", "6"].into_iter());
        assert_eq!(score.all(), 6);
        assert_eq!(
            score.to_string(),
            "2 caught, 2 missed, 1 timed out, 1 unviable; 40 % caught\
             \n  missed: 3; no test reaches it\n  missed: 4; 9 tests pass\
             \n  timed out: 5; lib b, lib c"
        );
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn results_outlive_a_run() {
        let (folder, mut results) = results("run");
        results.note("a", "a.rs:1", judgement(MutantVerdict::Caught, &["lib b"], 2)).unwrap();
        let path = folder.join("verdicts.json");
        assert!(!MutantResults::load(&path).unwrap().is_due("a", true));
        fs::write(&path, "{").unwrap();
        assert!(matches!(MutantResults::load(&path), Err(MutantsError::Form(_))));
        fs::remove_dir_all(&folder).unwrap();
    }
}
