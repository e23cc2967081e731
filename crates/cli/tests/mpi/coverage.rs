//! Tests of `hikyaku mpi-coverage`, and of the documents that quote it.

use std::fs;
use std::process::Command;

use crate::support::{HIKYAKU, root, stdout};

fn coverage(words: &[&str]) -> String {
    let output = Command::new(HIKYAKU).arg("mpi-coverage").args(words).output().unwrap();
    assert!(output.status.success());
    stdout(&output)
}

#[test]
fn documents_say_what_is_built() {
    let table = coverage(&[]);
    let manual = fs::read_to_string(root().join("docs/mpi.md")).unwrap();
    assert!(
        manual.contains(&table),
        "docs/mpi.md has another table than `hikyaku mpi-coverage`; put this there:\n{table}"
    );
    let all = table.lines().last().unwrap().replace(['|', ' '], " ");
    let words: Vec<&str> = all.split_whitespace().collect();
    let ["all", built, of] = words[..] else { panic!("{all}") };
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let sentence = format!("{built} of {of} functions");
    assert!(readme.contains(&sentence), "README.md does not say `{sentence}`");
}

#[test]
fn what_is_missing_is_named() {
    let missing = coverage(&["--missing"]);
    assert!(missing.lines().any(|line| line.starts_with("one_sided: ") && line.contains("Put")));
    assert!(!missing.contains(" Send,"));
}
