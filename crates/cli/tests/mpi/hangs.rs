//! Reports of MPI jobs that hang, with a line on each rank.

use std::fs;

use crate::support::{compile, hikyaku, root, scratch, stderr};

#[test]
fn a_report_names_communicators_and_what_is_polled() {
    let folder = scratch("hangs");
    let program = compile(&root().join("tests/mpi/hangs.c"), &folder);
    let output = hikyaku(&["run", "-n", "9", "--timeout", "15"], &program);
    fs::remove_dir_all(folder).unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(124), "{said}");
    let calls = [
        "waits in receive from rank 2, tag 7, on communicator 'even', for ",
        "waits in probe for a message from rank 3, any tag, on communicator 1.2, for ",
        "waits in send to rank 1, tag 7, on communicator 0.3, for ",
        "waits in barrier with rank 4, on communicator 'a copy', for ",
        "waits in a loop of polls: receive from rank 8, tag 5, for ",
        "waits in a loop of polls: probe for a message from any rank, tag 3, on communicator \
         'a copy', for ",
        "waits in a loop of polls: wait for 2 operations, the first of them: receive from rank 8, \
         tag 5, for ",
        "waits in a loop of polls: barrier with rank 5, on communicator 'odd', for ",
        "is not waiting in a call of hikyaku",
    ];
    for (rank, call) in calls.into_iter().enumerate() {
        let start = format!("hikyaku:   rank {rank} (pid ");
        let line = said.lines().find(|line| line.starts_with(&start));
        assert!(line.is_some_and(|line| line.contains(call)), "{call}:\n{said}");
    }
}
