//! Tests of the examples in `examples/mpi`, in real and in virtual time.

use std::fs;
use std::process::Command;

use crate::support::{
    HIKYAKU, assert_success, compile, compile_for_both, has_libfabric, hikyaku, on_hosts, root,
    scratch, stdout,
};

/// Every number of ranks, and a simulated machine, give the answer of one rank to the last bit.
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

/// There is one line for each operation and size, with a time.
#[test]
fn times_tells_the_median_of_each_operation() {
    let scratch = scratch("times");
    let program = compile(&root().join("examples/mpi/times.c"), &scratch);
    let jobs: [&[&str]; 2] = [&["run", "-n", "3"], &["simulate", "-m", "cenju4", "-n", "2"]];
    for words in jobs {
        let mut command = Command::new(HIKYAKU);
        let output =
            command.args(words).arg("--").arg(&program).args(["3", "0.1"]).output().unwrap();
        assert_success(&output, "times");
        let said = stdout(&output);
        assert_eq!(said.lines().count(), 1 + 23, "{said}");
        for line in said.lines().skip(1) {
            let time =
                line.strip_suffix(" us").and_then(|line| line.split_whitespace().next_back());
            assert!(time.is_some_and(|time| time.parse::<f64>().unwrap() > 0.0), "{line}");
        }
    }
    fs::remove_dir_all(scratch).unwrap();
}

/// A process is one rank, whether it uses MPI or hikyaku.h, by both binary interfaces.
#[test]
fn shared_variables_and_mpi_are_the_same_rank() {
    let scratch = scratch("shared");
    for program in compile_for_both(&root().join("examples/mpi/shared.c"), &scratch) {
        for (ranks, sum) in [("1", 0), ("2", 1), ("4", 6)] {
            let output = hikyaku(&["run", "-n", ranks, "--timeout", "60"], &program);
            assert_success(&output, &program);
            assert_eq!(stdout(&output), format!("{ranks} ranks, sum {sum}\n"));
        }
        if has_libfabric() {
            let output = hikyaku(&on_hosts("a:2,b:2"), &program);
            assert_success(&output, "shared on two hosts");
            assert_eq!(stdout(&output), "4 ranks, sum 6\n");
        }
    }
    fs::remove_dir_all(scratch).unwrap();
}
