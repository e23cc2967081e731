//! Experiments give what lies in `reproduce/results/`, byte for byte, and the results of all are
//! there: a change of a model shows as a diff, or as a failure here. The quick ones run always, all
//! of them in `make test-all`, which sets `HIKYAKU_LONG`.

use std::fs;
use std::path::Path;

use hikyaku_reproduce::{Report, Result, items};

fn results() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/results"))
}

#[test]
fn experiments_give_the_results_in_the_tree() {
    let all = std::env::var_os("HIKYAKU_LONG").is_some();
    let chosen = items().iter().filter(|item| all || item.quick);
    let results_of = |item| Result { item, outcome: (item.run)() };
    let report = Report { results: chosen.map(results_of).collect() };
    assert!(report.results.len() >= 8);
    for (name, content) in report.files() {
        if name == "summary.csv" {
            continue;
        }
        let path = results().join(&name);
        let kept = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            kept == content,
            "{name} differs from the tree; if the change is meant, run `hikyaku reproduce` and \
             commit reproduce/results"
        );
    }
}

#[test]
fn every_experiment_has_its_results_in_the_tree_and_the_summary_names_it() {
    let summary = fs::read_to_string(results().join("summary.csv")).expect("it is in the tree");
    for item in items() {
        assert!(results().join(format!("{}.csv", item.name)).exists(), "{}", item.name);
        assert!(summary.contains(item.name), "{}", item.name);
    }
}
