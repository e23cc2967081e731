//! The same programs in virtual time, as processes, one of which runs at a time.

use hikyaku_jobs::{Job, at_length};

use super::calls::SESSIONS;
use super::{RANK, job};

fn simulated(ranks: u32, words: &[&str]) -> Job {
    Job::new(env!("CARGO_BIN_EXE_simulate"), RANK, ranks, words)
}

/// The launcher's report of a run that must succeed.
#[track_caller]
fn run(job: &Job) -> String {
    let output = job.succeed();
    let line = output.lines().last().unwrap().to_owned();
    assert!(line.starts_with("end "), "{output}");
    line
}

#[test]
fn ip_13_rings_change_hands_in_virtual_time() {
    for ranks_per_node in [1, 4] {
        let job = simulated(4, &["landing-moves", "7"]).ranks_per_node(ranks_per_node);
        let job = job.variable("HIKYAKU_JOBS_RINGS", "1");
        assert_eq!(run(&job), run(&job), "the same again");
    }
    run(&simulated(3, &["landing-past"]).variable("HIKYAKU_JOBS_RINGS", "1"));
}

#[test]
fn ip_14_senders_choose_rings_and_records_in_virtual_time() {
    for ranks_per_node in [1, 5] {
        let job = simulated(5, &["landing-chosen"]).ranks_per_node(ranks_per_node);
        run(&job.variable("HIKYAKU_JOBS_RINGS", "2"));
    }
}

#[test]
fn ip_13_frequent_senders_get_rings_by_themselves_in_virtual_time() {
    let job = simulated(6, &["landing-follows"]).ranks_per_node(3);
    let job = job.variable("HIKYAKU_JOBS_RINGS", "1");
    assert_eq!(run(&job), run(&job), "the same again");
    run(&job.variable("HIKYAKU_JOBS_KEEP_RINGS", "1"));
}

/// One thread lands all writes, and the tables hold each rank's permissions.
#[test]
fn cj_06_each_rank_may_do_what_the_owner_lets_it_in_virtual_time() {
    run(&simulated(4, &["protected", "1"]));
}

/// The chain is refused when it is posted, in flight, or not at all, by the time of the closing.
#[test]
fn cp_06_a_chain_into_a_window_that_is_closed_meanwhile_is_refused() {
    let refused = |computing: u64| {
        let job = simulated(3, &["closing", &computing.to_string()]).ranks_per_node(1);
        let output = job.succeed();
        let said = |word| output.lines().any(|line| line == word);
        assert_ne!(said("refused"), said("written"), "{output}");
        said("refused")
    };
    let answers: Vec<bool> = (0..12).map(|step| refused(400 * step)).collect();
    assert!(answers.is_sorted_by(|one, next| one >= next), "{answers:?}");
    assert_eq!((answers[0], answers[11]), (true, false), "{answers:?}");
}

fn every_call(ranks_per_node: u32) {
    let some = [2, 3, 5];
    for ranks in [1, 2, 3, 5, 8].into_iter().filter(|ranks| at_length() || some.contains(ranks)) {
        let seed = (100 * ranks_per_node + ranks).to_string();
        run(&simulated(ranks, &["calls", &seed, "in virtual time"]).ranks_per_node(ranks_per_node));
    }
}

#[test]
fn every_call_on_nodes_of_one_rank() {
    every_call(1);
}

#[test]
fn every_call_on_nodes_of_two_ranks() {
    every_call(2);
}

#[test]
fn every_call_on_one_node() {
    every_call(8);
}

/// Barriers and broadcasts by the group of a communicator, on nodes of one rank and on nodes of two
/// (CJ-14, CJ-15).
#[test]
fn cj_14_cj_15_calls_by_the_group_of_a_communicator() {
    for (by, ranks, per_node) in [("sync", 4, 1), ("atomic-add", 4, 2), ("multicast-add", 3, 1)] {
        for case in ["collective: barrier", "collective: broadcast", "collective: disagreement"] {
            let job = simulated(ranks, &["calls", "1", case]).ranks_per_node(per_node);
            let job = job.variable("HIKYAKU_COLL_BARRIER", by);
            run(&job.variable("HIKYAKU_COLL_BROADCAST", "multicast"));
        }
    }
}

fn by_sessions(job: Job) -> Job {
    SESSIONS.iter().fold(job, |job, name| job.variable(name, "session"))
}

/// Persistent collectives on session queues, among all others.
#[test]
fn tf_11_collectives_with_persistent_ones_by_session_queues() {
    for (ranks, per_node) in [(2, 1), (5, 5), (4, 2)] {
        let job = simulated(ranks, &["calls", "1", "together: "]).ranks_per_node(per_node);
        run(&by_sessions(job));
    }
}

/// When ranks have computed for long since they started, nothing of a persistent collective is left
/// for their waits; with the usual algorithms all of it is (TF-10). So no program between the root
/// of a broadcast and the others takes part in it (CP-08).
#[test]
fn tf_10_cp_08_dense_collectives_go_on_while_the_processors_compute() {
    let machine = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/fx100-tofu2.toml");
    for ranks in [2, 5, 8] {
        let job = simulated(ranks, &["offloaded"]).ranks_per_node(1);
        let job = job.variable("SIMULATE_MACHINE", machine);
        run(&by_sessions(job.clone()).variable("OFFLOADED", "1"));
        // With two ranks, each sends one message, which it has sent when it computes.
        if ranks > 2 {
            run(&job);
        }
    }
}

/// Two nodes of four ranks that all exchange with all of the other node: the puts between them that
/// the machine carries in a round. With FAST and MRC a READY-TO-RECV and the data of each edge;
/// combined, one of both each way. The program names the scheme, for the exchange or for a
/// communicator, or the job does; the program's wish has priority.
#[test]
fn tf_11_combined_edges_are_one_put_a_round_between_two_nodes() {
    let crossed = |(scheme, of_job): (&str, &str), buffers: &str, rounds: u64| {
        let words = ["combined", scheme, buffers, &rounds.to_string()];
        let job = simulated(8, &words).ranks_per_node(4).variable("HIKYAKU_COLL_EXCHANGE", of_job);
        let output = job.succeed();
        let line = output.lines().find_map(|line| line.strip_prefix("between nodes "));
        line.unwrap().parse::<u64>().unwrap()
    };
    for (schemes, expected) in [
        (("fast", ""), 64),
        (("mrc", ""), 64),
        (("combined", ""), 4),
        (("none", "mrc"), 64),
        (("none", "combined"), 4),
        (("mrc", "combined"), 64),
        (("world-combined", "mrc"), 4),
    ] {
        for buffers in ["shared", "staged"] {
            // Both numbers include the cost of making an exchange.
            let rounds = crossed(schemes, buffers, 12) - crossed(schemes, buffers, 2);
            assert_eq!(rounds, 10 * expected, "{schemes:?}, {buffers}");
        }
    }
}

/// A barrier by the network costs its ranks less time than messages do (CJ-15).
#[test]
fn cj_15_a_barrier_by_the_network_is_faster_than_messages() {
    let end = |by: &str| {
        let job = simulated(8, &["calls", "1", "collective: barrier"]).ranks_per_node(1);
        let line = run(&job.variable("HIKYAKU_COLL_BARRIER", by));
        line.split(' ').nth(1).unwrap().parse::<u64>().unwrap()
    };
    let [sync, add, messages] = ["sync", "multicast-add", "dissemination"].map(end);
    assert!(sync < messages && add < messages, "{sync}, {add} and {messages}");
}

#[test]
fn cp_06_a_chain_of_a_rank_costs_one_start_where_there_are_chains() {
    let end = |by: &str, machine: &str| {
        let job = simulated(8, &["calls", "1", "together: movements"]).ranks_per_node(1);
        let file = format!("{}/../../machines/{machine}.toml", env!("CARGO_MANIFEST_DIR"));
        let job = job.variable("HIKYAKU_COLL_SCATTER", by).variable("SIMULATE_MACHINE", &file);
        run(&job).split(' ').nth(1).unwrap().parse::<u64>().unwrap()
    };
    // A start takes 2.67 us there and 50 ns elsewhere. The other difference is that a chain does
    // not wait between its messages.
    let saved = |machine| end("linear", machine).saturating_sub(end("chained", machine));
    let (chains, none) = (saved("cp-pacs"), saved("fat-tree-200g"));
    assert!(chains > 150_000_000 && none < 50_000_000, "{chains} and {none} ps");
}

#[test]
fn the_same_run_twice_is_the_same() {
    for per_node in if at_length() { &[1, 2][..] } else { &[2] } {
        let job = simulated(6, &["calls", "17", "in virtual time"]).ranks_per_node(*per_node);
        let first = run(&job);
        assert_eq!(first, run(&job));
        assert!(!first.contains("end 0 ") && !first.contains("records 0 "), "{first}");
    }
}

#[test]
fn large_messages_get_through() {
    run(&simulated(2, &["large", "3000000"]));
}

#[test]
fn what_needs_no_room_goes_past_messages_that_found_none() {
    for per_node in [1, 2] {
        run(&simulated(2, &["flood-past"]).ranks_per_node(per_node));
    }
}

#[test]
fn what_is_wanted_comes_although_messages_without_credit_are_before_it() {
    for per_node in [1, 2] {
        run(&simulated(2, &["flood-ahead"]).ranks_per_node(per_node));
        run(&simulated(2, &["flood-before"]).ranks_per_node(per_node));
    }
}

#[test]
fn a_rank_in_a_persistent_exchange_goes_on_with_its_collectives() {
    for per_node in [1, 4] {
        run(&simulated(4, &["staged-beside"]).ranks_per_node(per_node));
        job(4, &["staged-beside"]).ranks_per_node(per_node).succeed();
    }
}

/// Its parts travel in packets of the machine, and no rank asks again for room in between: that
/// took millions of records.
#[test]
fn a_long_exchange_takes_no_more_records_than_packets() {
    let machine = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/dimmnet1.toml");
    let job = simulated(6, &["staged", "65536"]).ranks_per_node(3);
    let end = run(&job.variable("SIMULATE_MACHINE", machine));
    let words: Vec<&str> = end.split(' ').collect();
    let at = words.iter().position(|word| *word == "records").unwrap();
    let records: u64 = words[at + 1].parse().unwrap();
    assert!((1..2_000).contains(&records), "{end}");
}

#[test]
fn everything_in_flight_at_once_ends_with_the_right_values() {
    for ranks in [2, 4] {
        for seed in ["1", "2", "3"] {
            println!("{ranks} ranks, seed {seed}");
            for protocol in ["direct", "fagus"] {
                let job = simulated(ranks, &["mixed", seed, "20", "4"]);
                run(&job.variable("HIKYAKU_SHARED", protocol));
            }
        }
    }
}

#[test]
fn long_messages_of_many_ranks_to_one_get_through() {
    for per_node in [1, 4] {
        run(&simulated(16, &["to-one"]).ranks_per_node(per_node));
    }
}

#[test]
fn who_waits_for_a_rank_that_has_left_is_told() {
    for (way, code) in [("return", 1), ("exit", 1), ("fail", 9), ("exit-with-code", 7)] {
        let end = simulated(3, &["end", way]).run();
        assert_eq!(end.code, Some(code), "{way}: {}{}", end.stdout, end.stderr);
    }
}

#[test]
fn ranks_that_wait_for_each_other_are_named_with_what_they_wait_in() {
    let end = simulated(2, &["deadlock"]).run();
    assert_eq!(end.code, Some(3), "{}{}", end.stdout, end.stderr);
    let told = "simulate:   rank 1 waits in receive from rank 0, tag 7";
    assert!(end.stderr.contains("2 ranks wait for ever"), "{}", end.stderr);
    assert!(end.stderr.contains(told), "{}", end.stderr);
}

#[test]
fn looking_for_ever_is_waiting_for_ever() {
    let end = simulated(2, &["spin"]).run();
    assert_eq!(end.code, Some(3), "{}{}", end.stdout, end.stderr);
}

#[test]
fn who_waits_for_a_rank_that_polls_for_ever_says_so() {
    for per_node in [1, 3] {
        let end = simulated(3, &["spin-beside"]).ranks_per_node(per_node).run();
        assert_eq!(end.code, Some(3), "{}{}", end.stdout, end.stderr);
        for rank in [1, 2] {
            let told = format!("rank {rank} waits in receive from rank 0, tag 7");
            assert!(end.stderr.contains(&told), "{}", end.stderr);
        }
    }
}

#[test]
fn a_program_that_knows_nothing_of_hikyaku_only_runs() {
    let output = Job::new(env!("CARGO_BIN_EXE_simulate"), "true", 3, &[]).succeed();
    assert!(output.ends_with("joined 0\n"), "{output}");
}

#[test]
fn many_processes_take_turns() {
    run(&simulated(256, &["ring", "20"]));
}
