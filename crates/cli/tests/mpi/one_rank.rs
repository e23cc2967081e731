//! A process is one rank, even if two of its libraries each have a copy of hikyaku.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{HIKYAKU, assert_success, compile, folder, root, scratch, stderr, stdout};

/// `libhikyaku_c.so`, from the same build as the MPI libraries.
fn c_library() -> PathBuf {
    folder();
    let beside = Path::new(HIKYAKU).parent().unwrap();
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--locked", "-p", "hikyaku-c"]).current_dir(root());
    if beside.ends_with("release") {
        build.arg("--release");
    }
    build.env("CARGO_TARGET_DIR", beside.parent().unwrap());
    assert_success(&build.output().unwrap(), "cargo build");
    beside.join("libhikyaku_c.so")
}

#[test]
fn two_libraries_of_a_process_are_one_rank() {
    let folder = scratch("two-libraries");
    let program = compile(&root().join("tests/mpi/two_libraries.c"), &folder);
    let library = c_library();
    for first in ["mpi", "c"] {
        for level in ["single", "multiple"] {
            for ranks in ["1", "3"] {
                let mut job = Command::new(HIKYAKU);
                job.args(["run", "-n", ranks, "--timeout", "60", "--"]).arg(&program);
                let output = job.arg(&library).args([first, level]).output().unwrap();
                let said = stdout(&output) + &stderr(&output);
                let case = format!("{first} first, {level}, {ranks} ranks");
                assert!(output.status.success() && said.is_empty(), "{case}: {said}");
            }
        }
    }
    fs::remove_dir_all(folder).unwrap();
}
