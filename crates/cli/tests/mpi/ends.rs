//! Tests of how a job ends: one line in all, and the requested code.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::support::{HIKYAKU, compile, compile_for_both, root, scratch, stderr, stdout};

/// Runs `tests/mpi/ends.c` on 4 ranks.
fn run(case: &str) -> Output {
    let folder = scratch(&case.replace(' ', "-"));
    let program = compile(&root().join("tests/mpi/ends.c"), &folder);
    let output = run_program(&program, "4", &[case]);
    fs::remove_dir_all(folder).unwrap();
    output
}

fn run_program(program: &Path, ranks: &str, words: &[&str]) -> Output {
    let mut command = Command::new(HIKYAKU);
    command.args(["run", "-n", ranks, "--timeout", "60", "--"]).arg(program).args(words);
    command.output().unwrap()
}

/// The one line of a job, and its code.
fn end(case: &str) -> (String, Option<i32>) {
    end_of(&run(case), case)
}

fn end_of(output: &Output, case: &str) -> (String, Option<i32>) {
    let said = stderr(output);
    let lines: Vec<&str> = said.lines().collect();
    let [line] = lines[..] else { panic!("{case}: {said}") };
    assert_eq!(stdout(output), "", "{case}");
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

/// The ranks continue before any of them can detect the mismatch, and end.
#[test]
fn ranks_that_name_other_roots_in_their_last_call_hear_it_at_the_end() {
    let calls = [
        ("reduce", "reduce by sum"),
        ("gather", "gather"),
        ("bcast", "broadcast"),
        ("scatter", "scatter"),
    ];
    let other = [("another", "broadcast")];
    for (case, call) in calls.into_iter().chain(other) {
        let (line, code) = end(case);
        let is_right = line.contains(", MPI_Finalize: rank ")
            && line.contains(" of MPI_COMM_WORLD, ") != (case == "another")
            && line.matches(&format!("called {call} with root ")).count() == 2;
        assert!(is_right && code != Some(0), "{line} {code:?}");
    }
}

#[test]
fn ranks_hear_of_one_that_ends_before_it_has_sent_what_they_wait_for() {
    let (line, code) = end("early");
    assert!(line.contains(", MPI_Recv: rank 1 has left the job"), "{line}");
    assert!(code != Some(0) && code != Some(124), "{code:?}");
}

/// The code is the one that the program asks for, so that 0 is a success. All ranks end.
#[test]
fn abort_ends_all_ranks_with_its_code() {
    for (case, asked, code) in [("abort 0", 0, 0), ("abort 7", 7, 7), ("abort 256", 256, 1)] {
        let expected = format!(
            "rank 1 of MPI_COMM_WORLD, MPI_Abort: the program ends all ranks with code {asked}"
        );
        assert_eq!(end(case), (expected, Some(code)));
    }
}

/// Other ranks may detect the failure first, and end the job before the failed rank does: then
/// there are two lines. On a busy machine the launcher may even end that rank before it reports
/// anything.
#[test]
fn a_rank_that_has_failed_says_why_whoever_is_first() {
    let said: Vec<String> = (0..10)
        .map(|_| {
            let output = run("uneven");
            assert!(!output.status.success());
            stderr(&output)
        })
        .collect();
    let why = "rank 2 of MPI_COMM_WORLD, MPI_Alltoallv: alltoall: a rank's part for itself";
    assert!(said.iter().any(|said| said.contains(why)), "{said:?}");
    assert!(said.iter().all(|said| (1..=2).contains(&said.lines().count())), "{said:?}");
}

/// Each rank is rank 0 of MPI_COMM_SELF, so the line also gives its rank in the job.
#[test]
fn a_rank_of_a_part_is_named_by_its_number_in_the_job() {
    let (line, code) = end("own");
    assert!(line.starts_with("rank 0 of MPI_COMM_SELF (rank 3 of the job), MPI_Send: "), "{line}");
    assert_eq!(code, Some(6));
}

/// As with `hikyaku run ... | head -1`: SIGPIPE ends a rank, and its peers' errors are not
/// reported.
#[test]
fn a_reader_that_has_seen_enough_hears_nothing_of_peers() {
    let folder = scratch("printing");
    let program = compile(&root().join("tests/mpi/ends.c"), &folder);
    let mut command = Command::new(HIKYAKU);
    command.args(["run", "-n", "4", "--timeout", "60", "--"]).arg(program).arg("printing");
    let mut job = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    job.stdout.take().unwrap().read_exact(&mut [0; 9]).unwrap();
    let output = job.wait_with_output().unwrap();
    assert_eq!((stderr(&output).as_str(), output.status.code()), ("", Some(128 + 13)));
    fs::remove_dir_all(folder).unwrap();
}

/// Receives that no rank serves, and more unreceived messages than there is room for.
#[test]
fn jobs_end_whatever_is_in_flight() {
    for case in ["open", "unreceived"] {
        let output = run(case);
        assert!(output.status.success(), "{case}: {}", stderr(&output));
        assert_eq!(stderr(&output), "", "{case}");
    }
}

#[test]
fn mpi_finds_the_rank_that_the_c_interface_has_joined() {
    let output = run("first");
    assert!(output.status.success() && stderr(&output).is_empty(), "{}", stderr(&output));
}

/// What needs no other class number and no other order of ranks is the same by both binary
/// interfaces. One of the cases needs the functions of hikyaku.h in the library of MPI.
#[test]
fn jobs_end_alike_by_both_binary_interfaces() {
    let folder = scratch("both");
    for program in compile_for_both(&root().join("tests/mpi/ends.c"), &folder) {
        let end = |case: &str| end_of(&run_program(&program, "4", &[case]), case);
        let abort = "rank 1 of MPI_COMM_WORLD, MPI_Abort: the program ends all ranks with code ";
        assert_eq!(end("abort 0"), (format!("{abort}0"), Some(0)));
        assert_eq!(end("abort 7"), (format!("{abort}7"), Some(7)));
        let (line, _) = end("one");
        assert!(line.starts_with("rank 1 of MPI_COMM_WORLD, MPI_Bcast: rank 77 cannot "), "{line}");
        let (line, code) = end("own");
        let place = "rank 0 of MPI_COMM_SELF (rank 3 of the job), MPI_Send: ";
        assert!(line.starts_with(place) && code == Some(6), "{line} {code:?}");
        let told = run_program(&program, "4", &["told"]);
        assert_eq!(stdout(&told), "told\ntold\ntold\n", "{program:?}: {}", stderr(&told));
        for case in ["first", "open", "unreceived"] {
            let output = run_program(&program, "4", &[case]);
            let said = stdout(&output) + &stderr(&output);
            assert!(output.status.success() && said.is_empty(), "{program:?} {case}: {said}");
        }
    }
    fs::remove_dir_all(folder).unwrap();
}

/// A line that cannot be written, because the disk is full or there is no output, changes no code.
/// Functions of the tools' interface end nothing, with a code.
#[test]
fn codes_stay_what_they_are_where_no_line_can_be_printed() {
    let folder = scratch("unprinted");
    let program = compile(&root().join("tests/mpi/refused.c"), &folder);
    for (case, code) in [("finalize before", 16), ("thread before", 13), ("tools before", 55)] {
        for output in ["2>/dev/full", "2>&-"] {
            let mut shell = Command::new("sh");
            let script = format!("exec \"$0\" \"$1\" {output}");
            let status = shell.args(["-c", &script]).arg(&program).arg(case).status().unwrap();
            assert_eq!(status.code(), Some(code), "{case} {output}: {status}");
        }
    }
    fs::remove_dir_all(folder).unwrap();
}

/// Wrong calls at the ends of a program, and calls of functions that are not built. With a handler
/// of the program the program goes on; without one the job ends.
#[test]
fn refused_calls_name_themselves() {
    let folder = scratch("refused");
    for program in compile_for_both(&root().join("tests/mpi/refused.c"), &folder) {
        for ranks in ["1", "2"] {
            let output = run_program(&program, ranks, &[]);
            let said = stdout(&output) + &stderr(&output);
            assert!(output.status.success() && said.is_empty(), "{program:?}: {said}");
        }
        let (own, world) = ("rank 0 of MPI_COMM_SELF, ", "rank 0 of MPI_COMM_WORLD, ");
        let (early, late) = ("MPI_Init has not been called", "MPI_Finalize has been called");
        for (case, place, call, why) in [
            ("init", own, "MPI_Init", "MPI_Init was called before"),
            ("thread", own, "MPI_Init_thread", "`provided`"),
            ("abort", own, "MPI_Abort", "`comm`"),
            ("window", world, "MPI_Win_create", "hikyaku does not have MPI_Win_create yet"),
            ("file", own, "MPI_File_open", "hikyaku does not have MPI_File_open yet"),
            ("port", own, "MPI_Close_port", "hikyaku does not have MPI_Close_port yet"),
            ("finalize before", "", "MPI_Finalize", early),
            ("abort before", "", "MPI_Abort", early),
            ("control before", "", "MPI_Pcontrol", early),
            ("thread before", "", "MPI_Init_thread", "`provided`"),
            ("finalize twice", "", "MPI_Finalize", late),
            ("init after", "", "MPI_Init", late),
            ("thread after", "", "MPI_Init_thread", late),
            ("abort after", "", "MPI_Abort", late),
            ("control after", "", "MPI_Pcontrol", late),
        ] {
            // The launcher would also report a process that ends before it joins the job.
            let output = match case.ends_with(" before") {
                true => Command::new(&program).arg(case).output().unwrap(),
                false => run_program(&program, "1", &[case]),
            };
            let (line, code) = end_of(&output, case);
            let is_clear = line.starts_with(&format!("{place}{call}: {why}"));
            assert!(is_clear && code != Some(0) && code != Some(124), "{case}: {line} {code:?}");
        }
    }
    fs::remove_dir_all(folder).unwrap();
}
