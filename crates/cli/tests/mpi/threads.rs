//! Threads that wait when MPI or a rank ends: the line, and what they are told; and a process that
//! forks while they are in MPI.

use std::fs;
use std::process::Command;

use crate::support::{HIKYAKU, compile, root, scratch, stderr, stdout};

/// Runs `tests/mpi/threads.c`; whether it succeeds, and what it says on either way.
fn run(case: &str, ranks: &str) -> (bool, String, String) {
    let folder = scratch(case);
    let program = compile(&root().join("tests/mpi/threads.c"), &folder);
    let words = ["run", "-n", ranks, "--timeout", "60", "--grace", "20", "--"];
    let output = Command::new(HIKYAKU).args(words).arg(program).arg(case).output().unwrap();
    fs::remove_dir_all(folder).unwrap();
    (output.status.success(), stdout(&output), stderr(&output))
}

#[test]
fn finalize_while_another_thread_waits_is_one_line() {
    let (is_well, out, err) = run("finalize", "1");
    let lines: Vec<&str> = err.lines().filter(|line| !line.starts_with("hikyaku: ")).collect();
    assert_eq!((is_well, out.as_str()), (false, ""));
    assert_eq!(lines.len(), 1, "{err}");
    assert!(lines[0].contains("MPI_Finalize: another thread is still in a call of MPI"), "{err}");
}

#[test]
fn all_threads_that_wait_are_told_of_a_death() {
    let (is_well, out, err) = run("killed", "2");
    assert_eq!((is_well, out.as_str()), (false, "both told\n"), "{err}");
}

#[test]
fn a_child_that_is_forked_while_threads_are_in_mpi_gets_an_error() {
    let (is_well, out, err) = run("fork", "1");
    assert!(is_well && out.is_empty() && err.is_empty(), "{out}{err}");
}
