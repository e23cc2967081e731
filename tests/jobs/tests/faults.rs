//! Whole jobs over ports with injected faults (`--faults` of `hikyaku run` and `simulate`):
//! commands that are refused although there is room, messages that land late. Otherwise one call in
//! a million is `Full` or late; here one in twenty.
//!
//! `HIKYAKU_PROGRAMS` (`make test-all`) sets the amount: a seed for each 100 programs. Seeds are
//! the same in each run; `HIKYAKU_PROGRAMS_SEED` chooses others (`make programs`).

#![allow(clippy::unwrap_used)]

use hikyaku_jobs::{Job, Random, number};

/// The seeds, each printed.
fn seeds() -> impl Iterator<Item = String> {
    let programs = number("HIKYAKU_PROGRAMS").unwrap_or(40);
    let mut random = Random::new(number("HIKYAKU_PROGRAMS_SEED").unwrap_or(1));
    (0..programs.div_ceil(100)).map(move |_| {
        let seed = random.draw().to_string();
        println!("HIKYAKU_FAULTS={seed}");
        seed
    })
}

const LAUNCH: &str = env!("CARGO_BIN_EXE_launch");
const SIMULATE: &str = env!("CARGO_BIN_EXE_simulate");

fn job(launcher: &str, (ranks, ranks_per_node): (u32, u32), words: &[&str]) -> Job {
    Job::new(launcher, env!("CARGO_BIN_EXE_rank"), ranks, words).ranks_per_node(ranks_per_node)
}

fn run(ranks: u32, ranks_per_node: u32, words: &[&str], variables: &[(&str, &str)]) {
    let with = |job: Job, (name, value): &(&str, &str)| job.variable(name, value);
    variables.iter().fold(job(LAUNCH, (ranks, ranks_per_node), words), with).succeed();
}

/// Runs a program in virtual time, with faults by a seed if there is one; returns its end time and
/// the actions of the interfaces.
fn simulate(shape: (u32, u32), words: &[&str], seed: Option<&str>, protocol: &str) -> String {
    let job = job(SIMULATE, shape, words).variable("HIKYAKU_SHARED", protocol);
    let job = seed.iter().fold(job, |job, seed| job.variable("HIKYAKU_FAULTS", seed));
    let output = job.succeed();
    let line = output.lines().last().unwrap_or_default();
    assert!(line.starts_with("end "), "{output}");
    line.to_owned()
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

/// Rings that change hands, remote memory, and a chain into a window that its owner closes.
#[test]
fn landing_rings_and_memory_of_others() {
    let rings = [("HIKYAKU_JOBS_RINGS", "1")];
    for seed in seeds() {
        for (ranks, words, rings) in [
            (4, &["landing-moves", "7"][..], &rings[..]),
            (6, &["landing-follows"], &rings),
            (5, &["landing-chosen"], &[("HIKYAKU_JOBS_RINGS", "2")]),
            (4, &["protected", "1"], &[]),
            (3, &["closing", "2000"], &[]),
        ] {
            let variables = [rings, &[("HIKYAKU_FAULTS", &seed)]].concat();
            for ranks_per_node in [0, 1] {
                run(ranks, ranks_per_node, words, &variables);
            }
            let job = job(SIMULATE, (ranks, 1), words);
            variables.iter().fold(job, |job, (name, value)| job.variable(name, value)).succeed();
        }
    }
}

/// Collectives by the hardware of papers 002 and 003.
#[test]
fn collectives_by_sessions_and_by_groups() {
    let sessions = ["BARRIER", "BROADCAST", "ALLGATHER", "ALLREDUCE"].map(|it| (it, "session"));
    let by_group = |barrier| [("BARRIER", barrier), ("BROADCAST", "multicast")];
    let groups = ["sync", "atomic-add", "multicast-add"].map(by_group);
    for seed in seeds() {
        for chosen in groups.iter().map(|group| &group[..]).chain([&sessions[..]]) {
            let names = chosen.iter().map(|(call, by)| (format!("HIKYAKU_COLL_{call}"), *by));
            let names = Vec::from_iter(names);
            let mut variables = Vec::from_iter(names.iter().map(|(name, by)| (&**name, *by)));
            variables.push(("HIKYAKU_FAULTS", &seed));
            for (ranks, ranks_per_node) in [(5, 0), (4, 1), (7, 2)] {
                let group = if chosen.len() > 2 { "together" } else { "collective" };
                run(ranks, ranks_per_node, &["calls", &seed, group], &variables);
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
    // Links count their time in calls, so a rank that waits for one yields the processor instead of
    // sleeping: on a busy machine each yield costs another program's time slice, hence no more
    // calls.
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

/// Faults are counted in calls, so in virtual time they too are the same in each run.
#[test]
fn a_seed_says_what_happens_in_virtual_time() {
    for seed in seeds() {
        for ranks_per_node in [1, 2] {
            let shape = (4, ranks_per_node);
            let mixed = |seed| simulate(shape, &["mixed", "1", "20", "4"], seed, "direct");
            let (with, without) = (mixed(Some(&seed)), mixed(None));
            assert_eq!(with, mixed(Some(&seed)), "the same run twice");
            assert_ne!(with, without, "there were no faults");
        }
    }
}

#[test]
fn calls_of_every_kind_in_virtual_time() {
    for seed in seeds() {
        for (ranks_per_node, protocol) in [(1, "direct"), (2, "fagus"), (3, "direct")] {
            let words = ["calls", &seed, "in virtual time"];
            simulate((3, ranks_per_node), &words, Some(&seed), protocol);
        }
    }
}

#[test]
fn what_finds_no_room_in_virtual_time() {
    for seed in seeds() {
        for ranks_per_node in [1, 2] {
            for flood in ["flood-past", "flood-ahead", "flood-before"] {
                simulate((2, ranks_per_node), &[flood], Some(&seed), "direct");
            }
            simulate((8, 4 * ranks_per_node), &["to-one"], Some(&seed), "direct");
            simulate((4, ranks_per_node), &["staged", "4096"], Some(&seed), "direct");
        }
    }
}

#[test]
fn a_seed_that_is_none_is_an_error_at_the_start() {
    let job = job(LAUNCH, (2, 0), &["lone", "1"]);
    let end = job.variable("HIKYAKU_FAULTS", "often").run();
    assert_ne!(end.code, Some(0));
    assert!(end.stderr.contains("HIKYAKU_FAULTS: `often` is no seed"), "{}", end.stderr);
}
