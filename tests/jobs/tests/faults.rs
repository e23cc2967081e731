//! Whole jobs over ports that meet faults (`hikyaku run --faults`): commands that are refused
//! though there is room, messages that land late. What is `Full` or late in one call in a million
//! otherwise is so in one of twenty here.
//!
//! `HIKYAKU_PROGRAMS` (`make test-all`) says how much of it: a seed for each 100 programs. Seeds
//! are the same in each run; `HIKYAKU_PROGRAMS_SEED` chooses others (`make programs`).

#![allow(clippy::unwrap_used)]

use hikyaku_jobs::{Job, Random, number};

/// So many seeds, each printed.
fn seeds() -> impl Iterator<Item = String> {
    let programs = number("HIKYAKU_PROGRAMS").unwrap_or(40);
    let mut random = Random::new(number("HIKYAKU_PROGRAMS_SEED").unwrap_or(1));
    (0..programs.div_ceil(100)).map(move |_| {
        let seed = random.draw().to_string();
        println!("HIKYAKU_FAULTS={seed}");
        seed
    })
}

fn run(ranks: u32, ranks_per_node: u32, words: &[&str], variables: &[(&str, &str)]) {
    let job = Job::new(env!("CARGO_BIN_EXE_launch"), env!("CARGO_BIN_EXE_rank"), ranks, words);
    let job = job.ranks_per_node(ranks_per_node);
    let with = |job: Job, (name, value): &(&str, &str)| job.variable(name, value);
    variables.iter().fold(job, with).succeed();
}

#[test]
fn calls_of_every_kind() {
    let messages = ["matching", "modes", "requests", "futures", "collective", "together"];
    let others = ["topologies", "neighbours", "buffers", "errors"];
    for seed in seeds() {
        for group in messages.iter().chain(&others).chain(&["window", "shared", "persistent"]) {
            for ranks_per_node in [0, 1, 2] {
                run(3, ranks_per_node, &["calls", &seed, group], &[("HIKYAKU_FAULTS", &seed)]);
            }
        }
    }
}

#[test]
fn mixed_traffic() {
    for seed in seeds() {
        run(4, 2, &["traffic", "1", &seed], &[("HIKYAKU_FAULTS", &seed)]);
    }
}

#[test]
fn a_sender_that_is_faster_than_its_receiver() {
    // Links count their time in calls, so whoever waits for one gives the processor away instead of
    // sleeping: on a busy machine that is a time slice of somebody else's each, hence not more.
    for seed in seeds() {
        for ranks_per_node in [0, 1] {
            let words = ["flood", "10000", "8"];
            run(2, ranks_per_node, &words, &[("HIKYAKU_FAULTS", &seed)]);
        }
    }
}

#[test]
fn what_is_wanted_behind_any_number_of_others() {
    for seed in seeds() {
        run(2, 1, &["flood-before"], &[("HIKYAKU_FAULTS", &seed)]);
    }
}

#[test]
fn shared_variables_of_every_protocol() {
    for seed in seeds() {
        for protocol in ["direct", "fagus", "udp"] {
            let variables = [("HIKYAKU_FAULTS", seed.as_str()), ("HIKYAKU_SHARED", protocol)];
            run(4, 2, &["torture", &seed, "30"], &variables);
        }
    }
}

#[test]
fn a_seed_that_is_none_is_an_error_at_the_start() {
    let job = Job::new(env!("CARGO_BIN_EXE_launch"), env!("CARGO_BIN_EXE_rank"), 2, &["lone", "1"]);
    let end = job.variable("HIKYAKU_FAULTS", "often").run();
    assert_ne!(end.code, Some(0));
    assert!(end.stderr.contains("HIKYAKU_FAULTS: `often` is no seed"), "{}", end.stderr);
}
