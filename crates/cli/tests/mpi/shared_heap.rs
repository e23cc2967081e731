//! Tests of `hikyaku run --shared-heap` with programs in C and in Fortran.

use std::fs;
use std::process::Command;

use crate::support::{
    HIKYAKU, assert_success, compile, folder, hikyaku, root, say, scratch, stderr, stdout, tool,
};

#[test]
fn large_allocations_of_a_program_are_shared() {
    let folder = scratch("shared-heap");
    let program = compile(&root().join("tests/mpi/shared_heap.c"), &folder);
    for ways in ["auto", "ring", "read", "both"] {
        let words =
            ["run", "-n", "2", "--timeout", "120", "--long-messages", ways, "--shared-heap"];
        let output = hikyaku(&words, &program);
        let said = stdout(&output) + &stderr(&output);
        assert!(output.status.success() && said.is_empty(), "{ways}: {said}");
    }
    let mut job = Command::new(HIKYAKU);
    job.args(["run", "-n", "1", "--shared-heap", "--"]).arg(&program).arg("twice");
    let output = job.output().unwrap();
    let said = stderr(&output);
    assert!(said.contains("freed twice?") && !output.status.success(), "{said}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn arrays_of_a_fortran_program_are_shared() {
    if Command::new("gfortran").arg("--version").output().is_err() {
        return say("skipped: no gfortran");
    }
    let folder = scratch("fortran-heap");
    let program = folder.join("shared_heap");
    let mut compiler = Command::new(tool("mpicc"));
    compiler.env("HIKYAKU_CC", "gfortran").args(["-O1", "-Wall", "-Werror", "-o"]).arg(&program);
    compiler.arg(root().join("tests/mpi/shared_heap.f90"));
    assert_success(&compiler.output().unwrap(), "gfortran");
    let output = hikyaku(&["run", "-n", "2", "--timeout", "120", "--shared-heap"], &program);
    let said = stdout(&output) + &stderr(&output);
    assert!(output.status.success() && said.is_empty(), "{said}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_program_without_a_linker_cannot_have_it() {
    folder();
    let scratch = scratch("static");
    let source = scratch.join("static.c");
    fs::write(&source, "int main(void) { return 0; }").unwrap();
    let program = scratch.join("static");
    let mut compiler = Command::new("gcc");
    let built = compiler.arg("-static").arg("-o").arg(&program).arg(&source).output().unwrap();
    assert!(built.status.success(), "{}", stderr(&built));
    let output = hikyaku(&["run", "-n", "2", "--shared-heap"], &program);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("linked statically") && said.lines().count() == 1, "{said}");
    fs::remove_dir_all(scratch).unwrap();
}
