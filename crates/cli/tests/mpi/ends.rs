//! How a job ends: one line in all, and the code that was asked for.

use std::fs;
use std::process::{Command, Output};

use crate::support::{HIKYAKU, compile, root, scratch, stderr, stdout};

/// Runs `tests/mpi/ends.c` on 4 ranks.
fn run(case: &str) -> Output {
    let folder = scratch(&case.replace(' ', "-"));
    let program = compile(&root().join("tests/mpi/ends.c"), &folder);
    let words = ["run", "-n", "4", "--timeout", "60", "--"];
    let output = Command::new(HIKYAKU).args(words).arg(program).arg(case).output().unwrap();
    fs::remove_dir_all(folder).unwrap();
    output
}

/// The one line of a job, and its code.
fn end(case: &str) -> (String, Option<i32>) {
    let output = run(case);
    let said = stderr(&output);
    let lines: Vec<&str> = said.lines().collect();
    let [line] = lines[..] else { panic!("{case}: {said}") };
    assert_eq!(stdout(&output), "", "{case}");
    (line.to_owned(), output.status.code())
}

#[test]
fn a_fatal_error_is_one_line_in_all() {
    let (line, code) = end("one");
    let expected = "rank 1 of MPI_COMM_WORLD, MPI_Bcast: rank 77 cannot be the root: there are \
                    ranks 0 to 3 (the root is not valid)";
    assert_eq!((line.as_str(), code), (expected, Some(8)));
    let (line, code) = end("all");
    let expected =
        " of MPI_COMM_WORLD, MPI_Send: the count -1 is negative (the count is not valid)";
    assert!(line.starts_with("rank ") && line.ends_with(expected), "{line}");
    assert_eq!(code, Some(2));
}

#[test]
fn a_rank_that_is_killed_is_one_line_in_all() {
    let (line, code) = end("killed");
    assert!(line.contains("rank 1 (pid "), "{line}");
    assert!(line.contains("signal 9"), "{line}");
    assert_eq!(code, Some(137));
}

#[test]
fn ranks_that_ask_for_codes_are_told_of_a_death() {
    let output = run("told");
    assert_eq!(stdout(&output), "told\ntold\ntold\n", "{}", stderr(&output));
    assert_eq!(output.status.code(), Some(137));
}

/// The code is the one that the program has asked for, so that 0 is a success: all ranks end.
#[test]
fn abort_ends_all_ranks_with_its_code() {
    for (case, asked, code) in [("abort 0", 0, 0), ("abort 7", 7, 7), ("abort 256", 256, 1)] {
        let expected = format!(
            "rank 1 of MPI_COMM_WORLD, MPI_Abort: the program ends all ranks with code {asked}"
        );
        assert_eq!(end(case), (expected, Some(code)));
    }
}

#[test]
fn requests_that_are_open_at_the_end_are_dropped() {
    let output = run("open");
    assert!(output.status.success() && stderr(&output).is_empty(), "{}", stderr(&output));
}

#[test]
fn mpi_finds_the_rank_that_the_c_interface_has_joined() {
    let output = run("first");
    assert!(output.status.success() && stderr(&output).is_empty(), "{}", stderr(&output));
}
