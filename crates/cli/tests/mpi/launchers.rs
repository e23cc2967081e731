//! Tests of `mpiexec`, of several programs in one job, and of other launchers.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use crate::support::{assert_success, compile, mpich, root, scratch, stderr, stdout, tool};

fn mpiexec(words: &[&str]) -> Output {
    let mut command = Command::new(tool("mpiexec"));
    command.args(words).env("SEEN", "yes").stdin(Stdio::null()).output().unwrap()
}

fn lines(output: &Output) -> Vec<String> {
    assert_success(output, "mpiexec");
    let mut lines: Vec<String> = stdout(output).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn programs_have_their_own_ranks_variables_and_folders() {
    let say = "echo $HIKYAKU_RANK of $HIKYAKU_SIZE: $0 $A $B ${SEEN-no} $HIKYAKU_APPNUM $(pwd)";
    let words =
        ["-genv", "A", "1", "-n", "2", "-env", "B", "2", "-wdir", "/", "sh", "-c", say, "one"];
    let more = [":", "-n", "1", "-envnone", "-wdir", "/usr", "sh", "-c", say, "two"];
    let output = mpiexec(&[&words[..], &more].concat());
    let expected =
        ["0 of 3: one 1 2 yes 0 /", "1 of 3: one 1 2 yes 0 /", "2 of 3: two 1 no 1 /usr"];
    assert_eq!(lines(&output), expected);
    // The same under the other name, with other options.
    let mut other = Command::new(tool("mpirun"));
    other.args(["--allow-run-as-root", "--oversubscribe", "-np", "2", "--bind-to", "none"]);
    other.args(["-x", "C=3", "-l", "sh", "-c", "echo $C"]);
    assert_eq!(lines(&other.output().unwrap()), ["[0] 3", "[1] 3"]);
}

#[test]
fn it_ends_as_the_programs_do() {
    let output = mpiexec(&["-n", "1", "true", ":", "-n", "2", "sh", "-c", "exit 7"]);
    assert_eq!(output.status.code(), Some(7));
    for (words, part) in [
        (&["-hosts", "a:1,b:1", "-n", "3", "true"][..], "3 ranks do not fit on hosts"),
        (&["-n", "0", "true"], "at least one rank"),
        (&["-n", "1", "true", ":", "-n", "0", "true"], "at least one rank"),
        (&["-n", "2"], "no program"),
        (&["-n", "2", "no-such-program-anywhere"], "no such program"),
        (&["-n", "1", "true", ":", "/no/such"], "/no/such"),
    ] {
        let output = mpiexec(words);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.lines().count() == 1 && said.contains(part), "{words:?}: {said}");
    }
}

/// Programs have their own hosts. The agent runs the daemons on this machine.
#[test]
fn hosts_run_their_programs() {
    let agent = ["-launcher-exec", "sh -c 'exec sh -c \"$1\"'"];
    let say = "echo $HIKYAKU_RANK of $HIKYAKU_SIZE: $0 $A $HIKYAKU_APPNUM $(pwd)";
    let one = ["-genv", "A", "1", "-l", "-host", "a", "-n", "2", "-wdir", "/", "sh", "-c", say];
    let two = ["one", ":", "-host", "b", "-n", "1", "-wdir", "/usr", "sh", "-c", say, "two"];
    let output = mpiexec(&[&agent[..], &one, &two].concat());
    let expected = ["[0] 0 of 3: one 1 0 /", "[1] 1 of 3: one 1 0 /", "[2] 2 of 3: two 1 1 /usr"];
    assert_eq!(lines(&output), expected);
    let fail = "test $HIKYAKU_RANK = 2 && exit 7; exec sleep 1000";
    let words = ["-hosts", "a,b", "-ppn", "2", "-n", "4", "sh", "-c", fail];
    let output = mpiexec(&[&agent[..], &words].concat());
    let said = stderr(&output);
    assert!(said.ends_with(", host b) exited with code 7\n"), "{said}");
    assert_eq!(output.status.code(), Some(7));
}

fn compiled(name: &str) -> (PathBuf, PathBuf) {
    let scratch = scratch(name);
    (compile(&root().join("tests/mpi/programs.c"), &scratch), scratch)
}

/// MPI_APPNUM is the number of a rank's program, and all programs share one world.
#[test]
fn programs_of_mpi_know_their_number() {
    let (program, scratch) = compiled("appnum");
    let program = program.to_str().unwrap();
    let output = mpiexec(&["-n", "2", program, "0", ":", "-n", "1", program, "1"]);
    assert_eq!(lines(&output), ["3 ranks"]);
    fs::remove_dir_all(scratch).unwrap();
}

/// MPICH's own launcher starts programs of hikyaku's MPI as one job, and gives them their numbers.
#[test]
fn the_launcher_of_mpich_starts_programs() {
    let Some(prefix) = mpich() else { return };
    let (program, scratch) = compiled("by-mpich");
    let program = program.to_str().unwrap();
    let mut command = Command::new(prefix.join("bin/mpiexec.hydra"));
    command.args(["-n", "2", program, "0", ":", "-n", "1", program, "1"]).stdin(Stdio::null());
    assert_eq!(lines(&command.output().unwrap()), ["3 ranks"]);
    fs::remove_dir_all(scratch).unwrap();
}

/// A program that another launcher has started as one of several, in a way that does not let it
/// reach the others, reports that and ends with code 2.
#[test]
fn a_foreign_launcher_does_not_make_worlds_of_one() {
    let (program, scratch) = compiled("foreign");
    for variables in [
        &[("PMI_RANK", "1"), ("PMI_SIZE", "4")][..],
        &[("PMIX_RANK", "0"), ("PMIX_NAMESPACE", "it")],
        &[("OMPI_COMM_WORLD_SIZE", "2"), ("OMPI_COMM_WORLD_RANK", "0")],
        &[("SLURM_PROCID", "3"), ("SLURM_NTASKS", "8"), ("SLURM_STEP_ID", "0")],
    ] {
        let mut command = Command::new(&program);
        let output = command.arg("0").envs(variables.iter().copied()).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{variables:?}: {said}");
        assert_eq!((said.lines().count(), stdout(&output).as_str()), (1, ""), "{said}");
        assert!(said.contains("hikyaku run -n"), "{said}");
        // Our launcher among them makes each a job of its own.
        let mut alone = Command::new(tool("mpiexec"));
        alone.args(["-n", "1"]).arg(&program).arg("0").envs(variables.iter().copied());
        assert_eq!(lines(&alone.output().unwrap()), ["1 ranks"]);
    }
    let alone = Command::new(&program).arg("0").env("PMI_SIZE", "1").output().unwrap();
    assert_eq!(lines(&alone), ["1 ranks"]);
    fs::remove_dir_all(scratch).unwrap();
}
