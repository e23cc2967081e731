//! Tests of the launcher's part in `hikyaku run --trace`, `hikyaku plan` and `hikyaku run --plan`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::support::{HIKYAKU, run, stderr, stdout};

/// A file of one test, with this content.
fn file(name: &str, content: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, content).unwrap();
    path
}

/// Runs `hikyaku plan` with these arguments. Returns exit code, output and errors.
fn plan(words: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(HIKYAKU).arg("plan").args(words).output().unwrap();
    (output.status.code(), stdout(&output), stderr(&output))
}

/// A trace in which each of 16 ranks gets 100 packets from the next one, and ten from three others.
fn ring_and_some() -> String {
    let mut text = "hikyaku trace 1\nranks 16\n".to_owned();
    for rank in 0..16 {
        text += &format!("{} {rank} p 100 102400 100 102400 0\n", (rank + 1) % 16);
        for other in [2, 3, 4] {
            text += &format!("{} {rank} c 10 10240 10 10240 1\n", (rank + other) % 16);
        }
        text += &format!("end {rank}\n");
    }
    text
}

#[test]
fn a_trace_is_begun_anew_by_every_run() {
    let trace = file("begun.trace", "old\n");
    let path = trace.to_str().unwrap();
    let output = run(&["-n", "3", "--trace", path, "--", "sh", "-c", "echo $HIKYAKU_TRACE"]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    let named = fs::canonicalize(&trace).unwrap();
    assert_eq!(stdout(&output), format!("{}\n", named.display()).repeat(3));
    assert_eq!(fs::read_to_string(&trace).unwrap(), "hikyaku trace 1\nranks 3\n");
    // These ranks have not joined the job.
    let (code, said, _) = plan(&[path]);
    assert_eq!(code, Some(0));
    assert!(said.contains("rows of 3 ranks are missing, the first is rank 0"), "{said}");
}

#[test]
fn a_plan_is_printed_and_written() {
    let trace = file("ring.trace", &ring_and_some());
    let (trace, planned) = (trace.to_str().unwrap(), file("ring.plan", ""));
    let to = planned.to_str().unwrap();
    let (code, said, complaints) = plan(&[trace, "--ring", "16K", "--output", to]);
    assert_eq!((code, complaints.as_str()), (Some(0), ""));
    for line in [
        "16 ranks, 2,080 messages of 2.03 MiB, 48 of which found no room at once",
        "partners by messages of the program itself: 1 to 1 a rank",
        "as many at any size: traces of other sizes would tell",
    ] {
        assert!(said.contains(line), "no `{line}` in {said}");
    }
    let row = |name: &str| {
        let row = said.lines().find(|line| line.starts_with(name)).unwrap();
        row.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row("one a pair"), "one a pair 16 256 KiB 4 MiB 100 % 0 %");
    assert_eq!(row("planned"), "planned 5 80 KiB 1.25 MiB 31.2 % 0 %");
    let written = fs::read_to_string(&planned).unwrap();
    assert!(written.starts_with("hikyaku plan 1\nranks 16\nring-bytes 16384\n0: 1 2 3 4\n"));
    let output = run(&["-n", "16", "--plan", to, "true"]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    let output = run(&["-n", "4", "--plan", to, "true"]);
    let refused = "hikyaku: the plan is for 16 ranks and the job has 4: plan from a trace of as \
                   many\n";
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(2), refused));
}

#[test]
fn a_budget_leaves_the_busiest_their_rings() {
    let trace = file("budget.trace", &ring_and_some());
    let trace = trace.to_str().unwrap();
    for (budget, rings, waits) in [
        (["--memory", "32K"], "planned 2 32 KiB", "23.1 %"),
        (["--shared", "25"], "planned 2 32 KiB", "23.1 %"),
        (["--shared", "16"], "planned 3 48 KiB", "15.4 %"),
        (["--memory", "16K"], "planned 1 16 KiB", "100 %"),
    ] {
        let (_, said, _) = plan(&[&[trace, "--ring", "16K"], &budget[..]].concat());
        let row = said.lines().find(|line| line.starts_with("planned")).unwrap();
        let row = row.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(row.starts_with(rings) && row.ends_with(waits), "{budget:?}: {row}");
    }
}

#[test]
fn what_is_no_trace_or_plan_is_refused_in_one_line() {
    let wrong = file("wrong.trace", "hikyaku trace 1\nranks 2\n0 7 p 1 1 1 1 1\n");
    let wrong = wrong.to_str().unwrap();
    let trace = file("right.trace", &ring_and_some());
    let trace = trace.to_str().unwrap();
    for (words, code, part) in [
        (&[wrong][..], 2, "line 3: `7` is none of the 2 ranks"),
        (&["/no/such/file"], 1, "cannot read /no/such/file"),
        (&[trace, "--ring", "1000"], 2, "a power of two from 16 KiB to 1 GiB"),
        (&[trace, "--memory", "1K"], 2, "1024 bytes a rank hold no ring of 65536"),
        (&[trace, "--shared", "101"], 2, "from 0 to 100"),
        (&[trace, "--output", "/no/such/folder/plan"], 1, "cannot write the plan"),
    ] {
        let (got, _, complaint) = plan(words);
        assert_eq!(got, Some(code), "{words:?}: {complaint}");
        assert!(complaint.lines().count() == 1 && complaint.contains(part), "{complaint}");
    }
    for (option, name, part) in [
        ("--plan", wrong, "line 1: expected `hikyaku plan 1`"),
        ("--plan", "/no/such/file", "cannot read"),
        ("--trace", "/no/such/folder/trace", "cannot write the trace"),
    ] {
        let output = run(&["-n", "2", option, name, "true"]);
        assert_eq!(output.status.code(), Some(2), "{option} {name}");
        assert!(stderr(&output).contains(part), "{}", stderr(&output));
    }
}

#[test]
fn ranks_start_in_one_ring_to_as_many_as_they_are() {
    for rings in ["1", "3", "4"] {
        let output = run(&["-n", "4", "--rings", rings, "true"]);
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{rings}");
    }
    let plan = file("rings.plan", "hikyaku plan 1\nranks 4\nring-bytes 16384\n");
    for (words, part) in [
        (&["--rings", "5"][..], "ranks of a job of 4 cannot start in 5 landing rings: 1 to 4\n"),
        (&["--rings", "0"], "--rings"),
        (&["--rings", "2", "--plan", plan.to_str().unwrap()], "cannot be used with"),
    ] {
        let output = run(&[&["-n", "4"], words, &["true"]].concat());
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(stderr(&output).contains(part), "{}", stderr(&output));
    }
}
