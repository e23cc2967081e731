//! The examples of `examples/mpi`, for real and in virtual time.

use std::fs;

use crate::support::{
    assert_success, compile, has_libfabric, hikyaku, on_hosts, root, scratch, stdout,
};

/// Every number of ranks gives the answer of one rank to the last bit; so does a simulated machine.
#[test]
fn heat_is_the_serial_answer_bit_by_bit() {
    let scratch = scratch("heat");
    let program = compile(&root().join("examples/mpi/heat.c"), &scratch);
    let mut real: Vec<_> =
        ["1", "3", "4"].iter().map(|ranks| hikyaku(&["run", "-n", ranks], &program)).collect();
    real.extend(has_libfabric().then(|| hikyaku(&on_hosts("a:2,b:2"), &program)));
    let simulated = hikyaku(&["simulate", "--machine", "cenju4", "--ranks", "4"], &program);
    for output in real.iter().chain([&simulated]) {
        assert_success(output, "heat");
        let said = stdout(output);
        let line = said.lines().next().unwrap();
        assert!(line.ends_with("after 200 steps, the serial answer bit by bit"), "{line}");
        assert_eq!(line, stdout(&real[0]).lines().next().unwrap());
    }
    fs::remove_dir_all(scratch).unwrap();
}

/// One process is one rank, whichever of MPI and hikyaku.h it uses.
#[test]
fn shared_variables_and_mpi_are_the_same_rank() {
    let scratch = scratch("shared");
    let program = compile(&root().join("examples/mpi/shared.c"), &scratch);
    for (ranks, sum) in [("1", 0), ("2", 1), ("4", 6)] {
        let output = hikyaku(&["run", "-n", ranks, "--timeout", "60"], &program);
        assert_success(&output, "shared");
        assert_eq!(stdout(&output), format!("{ranks} ranks, sum {sum}\n"));
    }
    if has_libfabric() {
        let output = hikyaku(&on_hosts("a:2,b:2"), &program);
        assert_success(&output, "shared on two hosts");
        assert_eq!(stdout(&output), "4 ranks, sum 6\n");
    }
    fs::remove_dir_all(scratch).unwrap();
}
