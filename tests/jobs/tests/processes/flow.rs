//! Large amounts, and many at once: senders faster than receivers, and messages beyond 2 GiB.

use std::time::Duration;

use hikyaku::{RingMoves, WayTally};
use hikyaku_jobs::process::available_memory;
use hikyaku_launch::Launch;

use super::{RANK, job};

#[test]
fn two_million_small_messages_leave_memory_flat() {
    job(2, &["flood", "2000000", "8"]).succeed();
}

#[test]
fn twenty_thousand_messages_of_8_kib_leave_memory_flat() {
    job(2, &["flood", "20000", "8192"]).succeed();
    job(2, &["flood", "20000", "8192"]).ranks_per_node(1).succeed();
}

#[test]
fn ip_11_a_flood_is_refused_and_sent_again() {
    for ranks_per_node in [0, 1] {
        let job = job(2, &["flood", "20000", "8192"]).ranks_per_node(ranks_per_node);
        job.variable("HIKYAKU_JOBS_FULL", "refuse").succeed();
    }
}

#[test]
fn ip_13_rings_change_hands_while_processes_send() {
    for (ranks, rings, ranks_per_node) in [(4, "1", 0), (6, "2", 0), (4, "1", 1)] {
        let job = job(ranks, &["landing-moves", "7"]).ranks_per_node(ranks_per_node);
        job.variable("HIKYAKU_JOBS_RINGS", rings).succeed();
    }
    // Beyond 16 ranks rings are shared by default.
    job(20, &["landing-moves", "8"]).succeed();
}

#[test]
fn ip_13_frequent_senders_get_rings_by_themselves() {
    let few = || job(6, &["landing-follows"]).variable("HIKYAKU_JOBS_RINGS", "1");
    few().succeed();
    few().variable("HIKYAKU_JOBS_KEEP_RINGS", "1").succeed();
    job(20, &["landing-follows"]).ranks_per_node(10).succeed();
    // The launcher has the counts of all ranks.
    let launch =
        Launch { args: vec!["landing-follows".into()], rings: Some(1), ..Launch::new(6, RANK) };
    let outcome = launch.run().unwrap();
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let moves = RingMoves::of_words(&outcome.counts[WayTally::WORDS..]);
    assert_eq!(moves, RingMoves::of_words(&[2, 0]));
}

#[test]
fn ip_14_senders_choose_rings_and_records() {
    for ranks_per_node in [0, 1] {
        let job = job(5, &["landing-chosen"]).ranks_per_node(ranks_per_node);
        job.variable("HIKYAKU_JOBS_RINGS", "2").succeed();
    }
}

#[test]
fn ip_13_a_message_gets_past_a_flood_in_a_ring_of_its_own() {
    job(3, &["landing-past"]).variable("HIKYAKU_JOBS_RINGS", "1").succeed();
}

#[test]
fn cj_09_a_quarter_of_a_ring_is_seen_before_it_runs_over() {
    job(2, &["landing-quarters"]).succeed();
}

/// A rank that sends and receives without waiting needs no system call.
#[test]
fn cj_19_8_bytes_go_and_come_without_a_system_call() {
    let end = job(2, &["strict"]).run();
    let (said, why): (Vec<_>, Vec<_>) = end.stdout.lines().partition(|line| *line == "all right");
    assert_eq!((end.code, said), (Some(3), vec!["all right"]), "{why:?}: {}", end.stderr);
    if !why.is_empty() {
        println!("skipped: system calls are {why:?} here");
    }
}

#[test]
fn a_flood_that_is_not_wanted_yet_is_held_back() {
    job(3, &["flood-beside"]).succeed();
}

#[test]
fn what_is_wanted_is_reached_behind_any_number_of_others() {
    job(2, &["flood-before"]).succeed();
    job(2, &["flood-before"]).ranks_per_node(1).succeed();
}

#[test]
fn what_needs_no_room_goes_past_messages_that_found_none() {
    job(2, &["flood-past"]).ranks_per_node(1).succeed();
    job(2, &["flood-past"]).succeed();
}

/// Lengths are 64 bits everywhere: copied by the kernel on one node, streamed between nodes.
#[test]
fn a_message_beyond_2_gib() {
    const NEEDED: u64 = 7 << 30;
    let available = available_memory();
    if available < NEEDED {
        println!("skipped: {available} bytes of memory are available, {NEEDED} are needed");
        return;
    }
    let length = ((2u64 << 30) + 3).to_string();
    for ranks_per_node in [0, 1] {
        let job = job(2, &["large", &length]).ranks_per_node(ranks_per_node);
        job.timeout(Duration::from_secs(300)).succeed();
    }
}
