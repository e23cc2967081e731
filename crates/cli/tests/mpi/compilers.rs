//! Tests of `mpicc` and the other compilers, `pkg-config`, and CMake's FindMPI.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::{
    assert_success, compile, compile_for_mpich, compiler_for_mpich, folder, hikyaku, mpich, root,
    say, scratch, stderr, stdout, tool,
};

fn said(program: &Path, words: &[&str]) -> String {
    let output = Command::new(program).args(words).output().unwrap();
    assert_success(&output, program);
    stdout(&output).trim_end().to_owned()
}

#[test]
fn what_a_compiler_does_is_shown() {
    let (mpicc, mpicxx) = (tool("mpicc"), tool("mpicxx"));
    let top = folder().canonicalize().unwrap();
    let top = top.display();
    let compiling = format!("cc -I{top}/include");
    let linking = format!("-L{top} -Wl,-rpath,{top} -Wl,--enable-new-dtags -lmpi_abi");
    assert_eq!(said(&mpicc, &["-compile-info"]), compiling);
    assert_eq!(said(&mpicc, &["-link-info"]), format!("cc {linking}"));
    assert_eq!(said(&mpicc, &["-show"]), format!("{compiling} {linking}"));
    assert_eq!(said(&mpicc, &["-show", "-c", "a b.c"]), format!("{compiling} -c 'a b.c'"));
    assert_eq!(said(&mpicc, &["-showme:compile"]), format!("-I{top}/include"));
    assert_eq!(said(&mpicc, &["-showme:link"]), linking);
    assert!(said(&mpicxx, &["-show", "x.cc"]).starts_with("c++ "));
    assert!(said(&mpicc, &["-cc=gcc -m64", "-show"]).starts_with("gcc -m64 "));
}

#[test]
fn the_compiler_is_the_one_that_is_asked_for() {
    for (variables, expected) in [
        (&[("MPICH_CC", "clang-1")][..], "clang-1 "),
        (&[("MPICH_CC", "clang-1"), ("HIKYAKU_CC", "gcc-2")], "gcc-2 "),
        (&[("HIKYAKU_CXX", "g++-3")], "cc "),
    ] {
        let mut command = Command::new(tool("mpicc"));
        let output = command.arg("-show").envs(variables.iter().copied()).output().unwrap();
        assert!(stdout(&output).starts_with(expected), "{variables:?}: {}", stdout(&output));
    }
}

/// Runs a program on two ranks.
fn runs(program: &Path) {
    let output = hikyaku(&["run", "-n", "2"], program);
    assert_success(&output, program);
}

const PROGRAM: &str = "\
#include <mpi.h>
int main(int argc, char **argv) {
    int rank, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return sum != 1;
}
";

#[test]
fn the_folder_may_be_moved_and_its_name_have_blanks() {
    let scratch = scratch("moved mpi");
    let moved = scratch.join("a folder");
    let mut copy = Command::new("cp");
    assert_success(&copy.arg("-a").arg(folder()).arg(&moved).output().unwrap(), "cp");
    let (source, program) = (scratch.join("a b.c"), scratch.join("a b"));
    fs::write(&source, PROGRAM).unwrap();
    for name in ["mpicc", "mpicxx"] {
        let mut compiler = Command::new(moved.join("bin").join(name));
        assert_success(&compiler.arg(&source).arg("-o").arg(&program).output().unwrap(), name);
        runs(&program);
    }
    // Without a launcher it finds the library as compiled in, and is one rank.
    let alone = Command::new(&program).env_remove("LD_LIBRARY_PATH").status().unwrap();
    assert_eq!(alone.code(), Some(1), "the sum of one rank is 0");
    fs::remove_dir_all(scratch).unwrap();
}

#[test]
fn pkg_config_finds_it() {
    let mut asked = Command::new("pkg-config");
    asked.args(["--cflags", "--libs", "mpi"]);
    let Ok(output) = asked.env("PKG_CONFIG_PATH", folder().join("pkgconfig")).output() else {
        return say("skipped: there is no pkg-config to ask");
    };
    assert_success(&output, "pkg-config");
    let scratch = scratch("pkg-config");
    let (source, program) = (scratch.join("it.c"), scratch.join("it"));
    fs::write(&source, PROGRAM).unwrap();
    let mut compiler = Command::new("cc");
    compiler.arg(&source).arg("-o").arg(&program).args(stdout(&output).split_whitespace());
    assert_success(&compiler.output().unwrap(), "cc");
    runs(&program);
    fs::remove_dir_all(scratch).unwrap();
}

fn cmake(words: &[&str], folder: &Path) -> Output {
    let path = format!("{}:{}", tool("").display(), std::env::var("PATH").unwrap());
    Command::new("cmake").args(words).current_dir(folder).env("PATH", path).output().unwrap()
}

#[test]
fn cmake_finds_it() {
    let scratch = scratch("cmake");
    for name in ["one.c", "two.cc"] {
        fs::write(scratch.join(name), PROGRAM).unwrap();
    }
    let text = "\
cmake_minimum_required(VERSION 3.18)
project(it C CXX)
find_package(MPI 5.0 REQUIRED)
add_executable(one one.c)
target_link_libraries(one MPI::MPI_C)
add_executable(two two.cc)
target_link_libraries(two MPI::MPI_CXX)
enable_testing()
add_test(NAME one COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 2 $<TARGET_FILE:one>)
";
    fs::write(scratch.join("CMakeLists.txt"), text).unwrap();
    let found = cmake(&["-S", ".", "-B", "built"], &scratch);
    assert_success(&found, "cmake");
    let built = cmake(&["--build", "built"], &scratch);
    assert_success(&built, "cmake --build");
    runs(&scratch.join("built/one"));
    runs(&scratch.join("built/two"));
    let cache = fs::read_to_string(scratch.join("built/CMakeCache.txt")).unwrap();
    let mpiexec = tool("mpiexec");
    assert!(
        cache.contains(&format!("MPIEXEC_EXECUTABLE:FILEPATH={}", mpiexec.display())),
        "{cache}"
    );
    fs::remove_dir_all(scratch).unwrap();
}

/// A tool that replaces one function (MPI 5.0 §15.2) sees every call of it, and nothing else
/// changes, by both binary interfaces.
#[test]
fn a_preloaded_tool_sees_every_call_of_its_function() {
    let scratch = scratch("tool");
    let source = scratch.join("tool.c");
    let text = "\
#include <mpi.h>
#include <stdio.h>
static int calls;
int MPI_Send(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {
    calls++;
    return PMPI_Send(buf, count, datatype, dest, tag, comm);
}
__attribute__((destructor)) static void end(void) {
    if (calls) fprintf(stderr, \"%d sends\\n\", calls);
}
";
    fs::write(&source, text).unwrap();
    let program = root().join("tests/mpi/tool.c");
    let sees_all = |mut compiler: Command, program: &Path| {
        let library = program.with_extension("so");
        compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
        assert_success(&compiler.output().unwrap(), compiler.get_program());
        let mut run = Command::new(tool("mpiexec"));
        run.args(["-n", "3", "-env", "LD_PRELOAD"]).arg(&library).arg(program);
        let output = run.output().unwrap();
        assert_success(&output, "mpiexec");
        let lines: Vec<String> = stderr(&output).lines().map(str::to_owned).collect();
        assert_eq!(lines, ["17 sends"; 3], "no call of the library goes through MPI_Send");
        assert!(fs::metadata(program).unwrap().permissions().mode() & 0o111 != 0);
    };
    sees_all(Command::new(tool("mpicc")), &compile(&program, &scratch));
    if let Some(mpich) = mpich() {
        let other = compile_for_mpich(&program, &scratch, &mpich);
        sees_all(compiler_for_mpich(&mpich), &other);
    }
    fs::remove_dir_all(scratch).unwrap();
}
