//! Ranks that end while others still need them: the errors of the others.

use std::time::Duration;

use hikyaku_jobs::End;

use super::job;

/// Far longer than a job here takes; a hanging one is ended then.
const IN_TIME: Duration = Duration::from_secs(60);

const LEFT: &str = "rank 1 has left the job: nothing further comes from it or is taken by it";

/// The line of the launcher that is not rank 1's.
fn verdict(end: &End) -> &str {
    end.stderr.lines().find_map(|line| line.strip_prefix("launch: ")).unwrap()
}

/// Asserts that ranks 0 and 2 have printed this, each once.
#[track_caller]
fn check_told(end: &End, told: &str) {
    for rank in [0, 2] {
        let line = format!("rank {rank}: {told}");
        let count = end.stderr.lines().filter(|said| *said == line).count();
        assert_eq!(count, 1, "{line:?} is not said once:\n{}", end.stderr);
    }
}

/// A rank whose process ends with its world still open has died: all are told how, by rank,
/// process and cause, and the launcher reports it too.
#[test]
fn a_rank_that_does_not_leave_has_died() {
    for (way, code, ended, cause) in [
        ("exit-with-code", 7, "exited with code 7", "exited with code 7 before it left the job"),
        ("abort", 3, "exited with code 3", "exited with code 3 before it left the job"),
        ("panic", 101, "exited with code 101", "exited with code 101 before it left the job"),
        ("abort-signal", 134, "was killed by signal 6 (SIGABRT)", "killed by signal 6"),
    ] {
        let mut job = job(3, &["end", way]).start();
        let end = job.end();
        assert_eq!(end.code, Some(code), "{way}: {}", end.stderr);
        let pid = verdict(&end).strip_prefix("rank 1 (pid ").unwrap();
        let (pid, said) = pid.split_once(") ").unwrap();
        assert_eq!(said, ended, "{way}");
        check_told(&end, &format!("rank 1 (pid {pid}) died: {cause}"));
        assert!(job.processes().is_empty());
    }
}

/// An exit with code 0 is no failure by itself; ranks that wait for the rank are told all the same,
/// and that is a failure.
#[test]
fn a_rank_that_exits_with_success_is_missed() {
    let end = job(3, &["end", "exit"]).run();
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert!(verdict(&end).ends_with("exited with code 1"), "{}", end.stderr);
    let line = end.stderr.lines().find(|line| line.starts_with("rank 0: ")).unwrap();
    let pid = line.split(['(', ')']).nth(1).unwrap();
    check_told(&end, &format!("rank 1 ({pid}) died: exited with code 0 before it left the job"));
}

/// A rank that ends its world first has left, however its process ends then. The others are told
/// at once, so that one of them may be the first process to fail.
#[test]
fn a_rank_that_leaves_is_told_to_have_left() {
    for (way, code) in [("return", 0), ("fail", 9), ("error", 1)] {
        let mut job = job(3, &["end", way]).start();
        let end = job.end();
        check_told(&end, LEFT);
        let (about, said) = verdict(&end).split_once(") exited with code ").unwrap();
        let first: i32 = said.parse().unwrap();
        assert_eq!(end.code, Some(first), "{way}: {}", end.stderr);
        let expected = if about.starts_with("rank 1 ") { code } else { 1 };
        assert_eq!(first, expected, "{way}: {}", end.stderr);
        assert_ne!(first, 0, "{way}: success is no failure: {}", end.stderr);
        assert!(job.processes().is_empty());
    }
}

#[test]
fn a_death_in_one_half_is_nothing_to_the_other() {
    for (ranks, ranks_per_node) in [(5, 0), (7, 2)] {
        let halves = job(ranks, &["halves"]).ranks_per_node(ranks_per_node);
        let end = halves.variable("HIKYAKU_JOBS_GRACE", "200").run();
        assert_eq!(end.code, Some(137), "{}", end.stderr);
        let mut lines: Vec<&str> = end.stdout.lines().collect();
        lines.sort_unstable();
        let told = |line: &str, rank: u32| line.starts_with(&format!("{rank} told: "));
        assert_eq!(lines.len(), ranks as usize - 1, "{lines:?}");
        for (rank, line) in (0..ranks).filter(|rank| *rank != 1).zip(lines) {
            let whole = line == format!("{rank} whole");
            assert!(if rank % 2 == 0 { whole } else { told(line, rank) }, "{line}");
        }
    }
}

#[test]
fn an_error_of_the_program_names_its_rank() {
    let end = job(2, &["end", "error"]).run();
    let expected = "rank 1: rank 99 does not exist: there are ranks 0 to 1";
    assert!(end.stderr.lines().any(|line| line == expected), "{}", end.stderr);
}

#[test]
fn a_child_that_a_rank_forks_is_no_rank() {
    for ranks_per_node in [0, 1] {
        for protocol in ["direct", "fagus", "udp"] {
            let job = job(2, &["forked"]).ranks_per_node(ranks_per_node).timeout(IN_TIME);
            job.variable("HIKYAKU_SHARED", protocol).succeed();
        }
    }
}

/// Calls of this interface use no lock: a thread of the library could not share the rank.
#[test]
fn a_progress_thread_is_said_to_be_none_in_one_line() {
    let end = job(3, &["end", "exit"]).variable("HIKYAKU_PROGRESS_THREAD", "1").run();
    let lines = end.stderr.lines().filter(|line| line.contains("is for MPI programs"));
    assert_eq!(lines.count(), 1, "{}", end.stderr);
}
