//! Threads that wait when MPI or a rank ends: the reported line, and the error that they get; and a
//! process that forks while threads are in MPI.

use std::fs;
use std::process::Command;

use crate::support::{HIKYAKU, compile, root, scratch, stderr, stdout};

/// Runs `tests/mpi/threads.c`. Returns whether it succeeds, and its output and errors.
fn run(case: &str, ranks: &str) -> (bool, String, String) {
    run_of("threads.c", case, ranks)
}

/// [`run`] for another source of `tests/mpi`.
fn run_of(source: &str, case: &str, ranks: &str) -> (bool, String, String) {
    let folder = scratch(case);
    let program = compile(&root().join("tests/mpi").join(source), &folder);
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

#[test]
fn other_threads_go_on_while_one_waits_for_a_shared_variable() {
    for protocol in ["direct", "fagus", "udp"] {
        let folder = scratch(protocol);
        let program = compile(&root().join("tests/mpi/threads.c"), &folder);
        let mut job = Command::new(HIKYAKU);
        job.args(["run", "-n", "2", "--timeout", "60", "--shared", protocol, "--"]);
        let output = job.arg(program).arg("variable").output().unwrap();
        let said = stdout(&output) + &stderr(&output);
        assert!(output.status.success() && said.is_empty(), "{protocol}: {said}");
        fs::remove_dir_all(folder).unwrap();
    }
}

/// OpenMP programs do this, whatever level of thread support they have asked for.
#[test]
fn threads_may_ask_for_the_time_while_another_one_is_in_mpi() {
    let (is_well, out, err) = run_of("asides.c", "time", "2");
    assert!(is_well && out.is_empty() && err.is_empty(), "{out}{err}");
}

/// The standard allows this at any level of thread support (MPI 5.0 chapters 9 to 11).
#[test]
fn threads_may_use_what_is_no_message_while_another_one_is_in_mpi() {
    let (is_well, out, err) = run_of("asides.c", "objects", "2");
    assert!(is_well && out.is_empty() && err.is_empty(), "{out}{err}");
}

#[test]
fn threads_that_do_not_take_turns_are_one_line() {
    let (is_well, out, err) = run_of("asides.c", "messages", "2");
    assert_eq!((is_well, out.as_str()), (false, ""), "{err}");
    let why = "MPI_Sendrecv: another thread is in a call of MPI, and MPI_THREAD_FUNNELED was asked \
               for: ask MPI_Init_thread for MPI_THREAD_MULTIPLE, or have threads take turns";
    // Several ranks may detect it at the same time.
    let is_right = |line: &str| line.contains(why) || line.contains("rank 0 (pid ");
    assert!(!err.is_empty() && err.lines().all(is_right), "{err}");
}
