//! Experiments give what lies in `reproduce/results/`, byte for byte: a change of a model shows as
//! a diff, or as a failure here. Which verdicts the assumptions decide takes many runs of every
//! experiment; `make test-all`, which sets `HIKYAKU_LONG`, compares that too.

use std::fs;
use std::path::Path;

use hikyaku_reproduce::Verdict;

use super::report;

#[test]
fn experiments_give_the_results_in_the_tree() {
    let results = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/results"));
    let report = report();
    let files = report.files();
    for (name, content) in &files {
        let kept = fs::read_to_string(results.join(name)).unwrap_or_default();
        assert!(
            kept == *content,
            "{name} differs from the tree; if the change is meant, run `hikyaku reproduce \
             --ranges` and commit reproduce/results"
        );
    }
    let [mismatches, predictions, calibrations, identities] =
        Verdict::ALL.map(|verdict| report.count(verdict));
    let sentence = format!(
        "Of the criteria {predictions} are predictions, {calibrations} calibrations, {identities} \
         identities, and {mismatches} are mismatches."
    );
    let manual = include_str!("../../docs/reproduce.md");
    assert!(manual.contains(&sentence), "docs/reproduce.md counts otherwise; write: {sentence}");
    for kept in fs::read_dir(results).expect("it is in the tree") {
        let name = kept.expect("it can be listed").file_name().to_string_lossy().into_owned();
        let made = files.iter().any(|(file, _)| *file == name);
        assert!(made || name == "sensitivity.csv", "{name} is in the tree and no experiment's");
    }
}
