//! Jobs that hang, and the report of each of their ranks.

use std::time::Duration;

use hikyaku_jobs::waits::CALLS;
use hikyaku_jobs::{End, Job};

use super::{RANK, job};

/// Every call's line begins as the table says.
#[track_caller]
fn check(end: &End, calls: &[(&str, &str)]) {
    let last = calls.len();
    let lines: Vec<&str> = end.stderr.lines().collect();
    let mut wrong = Vec::new();
    let all = calls.iter().copied().chain([("last", "receive from rank 0, tag 99")]);
    for (rank, (call, expected)) in all.enumerate() {
        let expected = expected.replace("LAST", &last.to_string());
        let expected = expected.replace("SELF", &rank.to_string());
        let line = lines.iter().find_map(|line| {
            let after = line.split_once(&format!(" rank {rank} "))?.1;
            let (before, after) = after.split_once("waits in ")?;
            (before.is_empty() || before.starts_with("(pid ")).then_some(after)
        });
        // The algorithm decides with which rank a collective waits. Calls that others could answer
        // use duplicates of the world, whose numbers do not matter.
        let is_right = line.is_some_and(|line| {
            let rest = line.strip_prefix(&expected);
            let goes_on = [", for ", ", since ", ", on communicator "].into_iter();
            let ways =
                goes_on.chain([" with rank "]).chain(expected.ends_with("rank").then_some(" "));
            rest.is_some_and(|rest| ways.into_iter().any(|way| rest.starts_with(way)))
        });
        if !is_right {
            wrong.push(format!("{call}: {expected:?} is said as {line:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}\nof\n{}", wrong.join("\n"), end.stderr);
}

#[test]
fn every_call_says_what_it_waits_for() {
    let ranks = CALLS.len() as u32 + 1;
    let waits = |per_node| {
        let job = job(ranks, &["waits"]).ranks_per_node(per_node);
        let end = job.timeout(Duration::from_secs(15)).run();
        assert_eq!(end.code, Some(124), "{}{}", end.stdout, end.stderr);
        check(&end, &CALLS);
    };
    // Both at once: they only wait.
    std::thread::scope(|scope| {
        scope.spawn(|| waits(1));
        waits(0);
    });
}

#[test]
fn every_call_says_the_same_in_virtual_time() {
    let calls = &CALLS[..CALLS.len() - 1];
    let ranks = CALLS.len() as u32;
    for per_node in [1, 64] {
        let job = Job::new(env!("CARGO_BIN_EXE_simulate"), RANK, ranks, &["waits"]);
        let end = job.ranks_per_node(per_node).run();
        assert_eq!(end.code, Some(3), "{}{}", end.stdout, end.stderr);
        check(&end, calls);
    }
}
