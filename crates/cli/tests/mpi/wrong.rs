//! Wrong arguments of every kind to every function: runs a program generated from the table, with
//! both binary interfaces.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use hikyaku_mpi_table::{table, wrong_calls};

use crate::support::{
    HIKYAKU, compile, compile_for_mpich, job_on_mpich, mpich, root, scratch, stderr, stdout,
};

/// The program's source, and the number of its trials.
fn source(folder: &Path) -> (PathBuf, usize) {
    let trials = wrong_calls(&table().unwrap());
    let shared = root().join("tests/mpi/wrong.h");
    let source = folder.join("wrong.c");
    fs::write(&source, format!("#include \"{}\"\n{trials}", shared.display())).unwrap();
    (source, trials.matches("\n    {\"MPI_").count())
}

/// The failed trials of a program on two of our ranks.
fn wrong_here(program: &Path, trials: usize) -> Vec<String> {
    wrong(trials, |from| {
        let mut launcher = Command::new(HIKYAKU);
        launcher.args(["run", "-n", "2", "--timeout", "300", "--"]).arg(program);
        launcher.args(["trials", from]).output().unwrap()
    })
}

/// The failed trials of calls that end their process.
fn wrong_ends(program: &Path, trials: usize) -> Vec<String> {
    let ends = |when| wrong(trials, |_| Command::new(program).arg(when).output().unwrap());
    ["before", "after", "fatal"].into_iter().flat_map(ends).collect()
}

/// The failed trials. If a crash ends the program, it is restarted after the crashed trial.
fn wrong(trials: usize, run: impl Fn(&str) -> Output) -> Vec<String> {
    let (mut wrong, mut from) = (Vec::new(), 0);
    loop {
        let output = run(&from.to_string());
        let said = stdout(&output);
        let mut lines: Vec<&str> = said.lines().collect();
        let next = lines.iter().filter_map(|line| line.strip_prefix("next ")?.parse().ok()).max();
        if next.is_none() {
            let end = format!("{trials} trials");
            assert_eq!(lines.pop(), Some(end.as_str()), "{:?}: {}", output.status, stderr(&output));
            assert!(output.status.success(), "{:?}: {}", output.status, stderr(&output));
        }
        lines.retain(|line| !line.starts_with("next "));
        wrong.extend(lines.into_iter().map(str::to_owned));
        let Some(next) = next else { return wrong };
        assert!(next > from, "{said}{}", stderr(&output));
        from = next;
    }
}

#[test]
fn a_wrong_argument_has_the_class_of_its_kind() {
    let folder = scratch("wrong");
    let (source, trials) = source(&folder);
    let program = compile(&source, &folder);
    assert_eq!(wrong_here(&program, trials), Vec::<String>::new());
    // The right calls are right for another library too.
    if let Some(prefix) = mpich() {
        let found = wrong(trials, |from| {
            job_on_mpich(&prefix, "300", 2, &program).args(["right", from]).output().unwrap()
        });
        assert_eq!(found, Vec::<String>::new());
        let other = compile_for_mpich(&source, &folder, &prefix);
        assert_eq!(wrong_here(&other, trials), Vec::<String>::new());
        assert_eq!(wrong_ends(&other, trials), Vec::<String>::new());
    }
    fs::remove_dir_all(folder).unwrap();
}

/// Before MPI_Init and after MPI_Finalize a call ends its process with one line that names it. So
/// does a wrong call under MPI_ERRORS_ARE_FATAL, whose line also names rank and argument.
#[test]
fn a_call_that_ends_the_process_says_why_in_a_line() {
    let folder = scratch("early");
    let (source, trials) = source(&folder);
    assert_eq!(wrong_ends(&compile(&source, &folder), trials), Vec::<String>::new());
    fs::remove_dir_all(folder).unwrap();
}
