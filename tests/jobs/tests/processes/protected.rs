//! Protected windows: the permissions of each rank, and ranks that bypass the library.

use super::job;

/// Every call on every part is done or refused, and no descriptor and no mapping is left.
#[test]
fn cj_06_each_rank_may_do_what_the_owner_lets_it() {
    job(1, &["protected", "1"]).succeed();
    job(3, &["protected", "2"]).succeed();
    job(4, &["protected", "1"]).ranks_per_node(2).succeed();
}

/// A rank with read permission that writes past the library is killed by a signal. The owner's part
/// is unchanged, and the others are told of a rank that died.
#[test]
fn cj_06_a_reader_that_writes_ends_by_itself_and_harms_nobody() {
    let end = job(3, &["protected", "read-only"]).run();
    assert_eq!((end.code, end.stdout.as_str()), (Some(139), "unharmed\n"), "{}", end.stderr);
    let verdict = end.stderr.lines().find_map(|line| line.strip_prefix("launch: rank 1 (pid "));
    let (pid, said) = verdict.unwrap().split_once(") ").unwrap();
    assert_eq!(said, "was killed by signal 11 (SIGSEGV)");
    let told = format!("rank 0: rank 1 (pid {pid}) died: killed by signal 11");
    assert!(end.stderr.lines().any(|line| line == told), "{}", end.stderr);
}

/// A rank that overwrites everything that it shares with others destroys the job, but no part of a
/// protected window: it has no mapping of those that it may not use.
#[test]
fn cj_05_a_rank_that_overwrites_all_it_can_does_not_reach_a_part() {
    let end = job(3, &["protected", "scribble"]).run();
    assert_eq!((end.code, end.stdout.as_str()), (Some(139), "unharmed\n"), "{}", end.stderr);
    assert!(end.stderr.contains("was killed by signal 11 (SIGSEGV)"), "{}", end.stderr);
}
