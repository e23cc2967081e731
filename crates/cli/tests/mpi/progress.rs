//! A rank with a progress thread makes progress while its program computes, and one without does
//! not. The thread uses no time while no messages arrive, and never keeps a process from ending.

use std::fs;
use std::process::{Command, Output, Stdio};

use crate::support::{
    HIKYAKU, compile, has_libfabric, on_hosts, on_wire, root, scratch, stderr, stdout,
};

/// The command that starts the ranks.
const HERE: [&str; 4] = [HIKYAKU, "run", "-n", "2"];

fn on_two_hosts() -> Vec<&'static str> {
    [&[HIKYAKU][..], &on_hosts("a:1,b:1")].concat()
}

/// A provider that makes progress only in calls, in both releases that were tried. So a rank's
/// sends and completions depend on its own calls alone.
const BY_CALLS: &str = "tcp;ofi_rxm";

/// Runs `tests/mpi/progress.c`.
fn run(start: &[&str], case: &str, has_thread: bool, limit: &str) -> Output {
    let folder = scratch(&format!("progress-{case}-{has_thread}-{}", start.len()));
    let program = compile(&root().join("tests/mpi/progress.c"), &folder);
    let mut command = Command::new(start[0]);
    command.args(&start[1..]).args(["--timeout", "100"]);
    if has_thread {
        command.arg("--progress-thread");
    }
    command.arg("--").arg(program).arg(case).arg(folder.join("told")).arg(limit);
    command.env("HIKYAKU_FABRIC", BY_CALLS).stdin(Stdio::null());
    let output = command.output().unwrap();
    fs::remove_dir_all(folder).unwrap();
    output
}

/// Checks the output of the rank that computes. With the thread, the other rank continues long
/// before the limit; without it, it never would.
fn check(start: &[&str], case: &str) {
    for (has_thread, limit, said) in [(true, "60", "in time\n"), (false, "0.7", "late\n")] {
        let output = run(start, case, has_thread, limit);
        let told = (output.status.code(), stdout(&output));
        assert_eq!(told, (Some(0), said.to_owned()), "{case} {start:?}: {}", stderr(&output));
    }
}

#[test]
fn a_send_to_another_host_goes_on_while_its_rank_computes() {
    if has_libfabric() {
        check(&on_two_hosts(), "send");
    }
}

#[test]
fn a_receive_from_another_host_goes_on_while_its_rank_computes() {
    if has_libfabric() {
        check(&on_two_hosts(), "receive");
    }
}

/// Each host has a network of its own, and messages between them cross a wire.
#[test]
fn messages_over_a_wire_go_on_while_a_rank_computes() {
    let Some(start) = on_wire() else { return };
    let start: Vec<&str> = start.iter().map(String::as_str).collect();
    for case in ["send", "receive", "sum"] {
        check(&start, case);
    }
}

#[test]
fn a_receive_of_the_own_host_goes_on_while_its_rank_computes() {
    check(&HERE, "receive");
}

/// On one host the partner might put all of it into this rank's ring, and need no answer.
#[test]
fn a_reduction_goes_on_while_a_rank_computes() {
    if has_libfabric() {
        check(&on_two_hosts(), "sum");
    }
}

/// At this program's level of thread support, it does not expect its functions in another thread.
#[test]
fn a_function_of_the_program_runs_in_its_own_thread() {
    let output = run(&HERE, "own", true, "0.7");
    let told = (output.status.code(), stdout(&output));
    assert_eq!(told, (Some(0), "late\n".to_owned()), "{}", stderr(&output));
}

#[test]
fn a_rank_with_a_thread_is_as_any_other() {
    let mut starts = vec![&HERE[..]];
    let hosts = on_two_hosts();
    if has_libfabric() {
        starts.push(&hosts);
    }
    for start in starts {
        for case in ["talk", "idle", "fork", "exit"] {
            let output = run(start, case, true, "1");
            assert_eq!(output.status.code(), Some(0), "{case} {start:?}: {}", stderr(&output));
        }
        let output = run(start, "abort", true, "1");
        assert_eq!(output.status.code(), Some(3), "{start:?}: {}", stderr(&output));
    }
}

#[test]
fn a_thread_that_cannot_be_is_refused_in_one_line() {
    let folder = scratch("progress-refused");
    let program = compile(&root().join("tests/mpi/progress.c"), &folder);
    let machine = [HIKYAKU, "simulate", "--machine", "cenju4", "-n", "2", "--"];
    for (words, value, why) in [
        (&HERE[..], "yes", "`yes` is neither 1 nor 0"),
        (&machine[..], "1", "in virtual time a rank is one thread at a time"),
    ] {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(&program).args(["talk", "-", "1"]);
        let output = command.env("HIKYAKU_PROGRESS_THREAD", value).output().unwrap();
        let said = stderr(&output);
        assert!(!output.status.success(), "{said}");
        let lines: Vec<&str> = said.lines().filter(|line| line.contains(why)).collect();
        assert!(!lines.is_empty() && lines.len() <= 2, "{said}");
        assert!(lines[0].contains("HIKYAKU_PROGRESS_THREAD: "), "{said}");
    }
    fs::remove_dir_all(folder).unwrap();
}
