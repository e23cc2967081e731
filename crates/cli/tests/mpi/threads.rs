//! Threads that wait when MPI or a rank ends: the line, and what they are told.

use std::fs;
use std::process::Command;

use crate::support::{HIKYAKU, compile, root, scratch, stderr, stdout};

/// Runs `tests/mpi/threads.c`; what it says on either way.
fn run(case: &str, ranks: &str) -> (String, String) {
    let folder = scratch(case);
    let program = compile(&root().join("tests/mpi/threads.c"), &folder);
    let words = ["run", "-n", ranks, "--timeout", "60", "--grace", "20", "--"];
    let output = Command::new(HIKYAKU).args(words).arg(program).arg(case).output().unwrap();
    fs::remove_dir_all(folder).unwrap();
    assert!(!output.status.success());
    (stdout(&output), stderr(&output))
}

#[test]
fn finalize_while_another_thread_waits_is_one_line() {
    let (out, err) = run("finalize", "1");
    let lines: Vec<&str> = err.lines().filter(|line| !line.starts_with("hikyaku: ")).collect();
    assert_eq!(out, "");
    assert_eq!(lines.len(), 1, "{err}");
    assert!(lines[0].contains("MPI_Finalize: another thread is still in a call of MPI"), "{err}");
}

#[test]
fn all_threads_that_wait_are_told_of_a_death() {
    let (out, err) = run("killed", "2");
    assert_eq!(out, "both told\n", "{err}");
}
