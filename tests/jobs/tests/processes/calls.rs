//! Every call of `World`, over 1 to 9 ranks (in the short form, at most four numbers of them) on
//! one node and on nodes of 1 to 4.
//!
//! Most of them have more ranks than CPUs, which shows missed wake-ups.

use std::process::Command;
use std::time::Duration;

use hikyaku::{LongMessages, Way, WayTally};
use hikyaku_jobs::at_length;
use hikyaku_launch::Launch;

use super::kill_one::kill_one;
use super::{RANK, job};

fn every_call(ranks_per_node: u32) {
    // In the short form, a job that fits on a node is not run again for nodes of another size.
    let several = |ranks: &u32| ranks_per_node == 0 || *ranks > ranks_per_node;
    let in_short = |ranks: &u32| [1, 2, 3, 5].contains(ranks) && several(ranks);
    for ranks in (1..=9).filter(|ranks| at_length() || in_short(ranks)) {
        let seed = (100 * ranks_per_node + ranks).to_string();
        let output = job(ranks, &["calls", &seed]).ranks_per_node(ranks_per_node).succeed();
        assert_eq!(output, "");
    }
}

#[test]
fn on_one_node() {
    every_call(0);
}

#[test]
fn on_nodes_of_one_rank() {
    every_call(1);
}

#[test]
fn on_nodes_of_two_ranks() {
    every_call(2);
}

#[test]
fn on_nodes_of_three_ranks() {
    every_call(3);
}

#[test]
fn on_nodes_of_four_ranks() {
    every_call(4);
}

/// Every call in two halves of a job at once.
#[test]
fn in_communicators_of_some_ranks() {
    let more = [(1, 0), (8, 0)].into_iter().filter(|_| at_length());
    for (ranks, ranks_per_node) in [(2, 0), (5, 0), (6, 1), (7, 2)].into_iter().chain(more) {
        let seed = (100 * ranks_per_node + ranks).to_string();
        let output = job(ranks, &["divided", &seed]).ranks_per_node(ranks_per_node).succeed();
        assert_eq!(output, "");
    }
}

/// The library's own calls use suitable algorithms; the program's calls use the chosen one, if
/// possible.
#[test]
fn what_is_chosen_holds_for_calls_of_the_program() {
    let own = ["windows: ", "shared: counts", "topologies: ", "neighbours: ", "persistent: rings"];
    // Three ranks cannot broadcast by a binary tree, nor gather parts of any lengths by the other.
    let gathers = ["collective: gather"];
    let exchanges =
        ["together: all to all", "together: in a scope", "together: persistent of every kind"];
    for (variable, algorithm, programs) in [
        ("HIKYAKU_COLL_BROADCAST", "binary-tree", &[][..]),
        ("HIKYAKU_COLL_GATHER", "binomial", &gathers),
        // A node of two ranks and one of one; blocking, started and persistent calls.
        ("HIKYAKU_COLL_ALLTOALL", "two-level", &exchanges),
    ] {
        for case in own.iter().chain(programs) {
            let cases = job(3, &["calls", "1", case]).ranks_per_node(2);
            assert_eq!(cases.variable(variable, algorithm).succeed(), "", "{variable} {case}");
        }
    }
}

/// Barriers by sync ids and counters, and broadcasts by multicast, of any communicator: blocking,
/// started and persistent ones, on one node and between nodes (CJ-14, CJ-15).
#[test]
fn cj_14_cj_15_every_call_by_the_group_of_its_communicator() {
    for (at, (ranks, ranks_per_node)) in
        [(1, 0), (2, 0), (5, 0), (8, 0), (4, 1), (7, 2)].into_iter().enumerate()
    {
        let by = |by: &str, words: &[&str]| {
            let job = job(ranks, words).ranks_per_node(ranks_per_node);
            let job = job.variable("HIKYAKU_COLL_BARRIER", by);
            assert_eq!(job.variable("HIKYAKU_COLL_BROADCAST", "multicast").succeed(), "", "{by}");
        };
        let names = ["sync", "atomic-add", "multicast-add"];
        let (most, rest) = (names[at % 3], [names[(at + 1) % 3], names[(at + 2) % 3]]);
        let cases: &[&str] = if at_length() { &[] } else { &["collective: "] };
        by(most, &[&["calls", "1"], cases].concat());
        by(most, &[&["divided", "1"], cases].concat());
        if at_length() {
            rest.iter().for_each(|name| by(name, &["calls", "2", "collective: "]));
        }
    }
}

/// The variables by which persistent collectives use session queues.
pub(super) const SESSIONS: [&str; 4] = [
    "HIKYAKU_COLL_BARRIER",
    "HIKYAKU_COLL_BROADCAST",
    "HIKYAKU_COLL_ALLGATHER",
    "HIKYAKU_COLL_ALLREDUCE",
];

/// Persistent collectives on session queues, also if more are made than there are queues, among
/// collectives of every form (TF-19).
#[test]
fn tf_19_collectives_with_persistent_ones_by_session_queues() {
    for (ranks, ranks_per_node) in [(1, 0), (2, 0), (5, 0), (8, 0), (4, 1), (7, 2)] {
        for what in ["calls", "divided"] {
            let job = job(ranks, &[what, "1", "together: "]).ranks_per_node(ranks_per_node);
            let job = SESSIONS.iter().fold(job, |job, name| job.variable(name, "session"));
            assert_eq!(job.succeed(), "", "{what} of {ranks} ranks");
        }
    }
}

/// Five neighbours on another node take five queues, one if they share it, and three at a rank that
/// represents its node: of 16 (TF-19).
#[test]
fn tf_19_combined_edges_need_few_queues() {
    for (scheme, left) in [("fast", "11\n"), ("mrc", "15\n"), ("combined", "13\n")] {
        let queues = |word| job(10, &["combined-queues", word]).ranks_per_node(5);
        assert_eq!(queues(scheme).succeed(), left, "{scheme}");
        let by_the_job = queues("none").variable("HIKYAKU_COLL_EXCHANGE", scheme);
        assert_eq!(by_the_job.succeed(), left, "{scheme}, as the job says");
        for buffers in ["shared", "staged"] {
            let job = super::job(8, &["combined", scheme, buffers, "20"]).ranks_per_node(4);
            assert_eq!(job.succeed(), "", "{scheme}, {buffers}");
        }
    }
}

#[test]
fn tf_19_where_a_rank_has_no_queue_all_go_by_messages() {
    assert_eq!(job(8, &["combined-scarce"]).ranks_per_node(4).succeed(), "");
}

/// Messages of every kind with each way of long ones.
#[test]
fn messages_by_each_way_of_long_ones() {
    for way in Way::ALL.map(|way| LongMessages::By(way).to_string()) {
        for (ranks, ranks_per_node) in if at_length() { &[(3, 0), (4, 2)][..] } else { &[(3, 0)] } {
            for group in ["matching", "requests", "futures", "errors"] {
                let job = job(*ranks, &["calls", "1", group]).ranks_per_node(*ranks_per_node);
                let job = job.variable(LongMessages::VARIABLE, &way);
                assert_eq!(job.succeed(), "", "{way}, {group}");
            }
        }
    }
}

/// Messages of 64 MiB with each way, to the own rank, cut short, cancelled and abandoned half way.
#[test]
fn huge_messages_by_each_way() {
    for way in Way::ALL.map(|way| LongMessages::By(way).to_string()) {
        for ranks_per_node in [0, 1] {
            let job = job(2, &["huge"]).ranks_per_node(ranks_per_node);
            assert_eq!(job.variable(LongMessages::VARIABLE, &way).succeed(), "", "{way}");
        }
    }
}

/// Either end of a message dies during it, or between two. No rank takes a part for a whole
/// message.
#[test]
fn a_death_in_the_middle_of_each_way() {
    let mut whole = 0;
    for (at, way) in Way::ALL.into_iter().enumerate() {
        let way = LongMessages::By(way).to_string();
        for victim in [0, 1] {
            for run in 0..if at_length() { 12 } else { 2 } {
                let delay = 40 + 7 * at as u64 + 11 * u64::from(victim) + 9 * run;
                let delay = Duration::from_millis(delay);
                let about = format!("{way}, rank {victim} after {delay:?}");
                let job = job(2, &["large-until-a-death"]).variable(LongMessages::VARIABLE, &way);
                let lines = kill_one(job, 2, victim, delay, &about).lines;
                let number = lines[0].1.strip_suffix(" told").map(str::parse::<u64>);
                let Some(Ok(number)) = number else { panic!("{about}: {lines:?}") };
                whole += number;
            }
        }
    }
    assert!(whole > 0, "no message came before a death");
}

/// The ranks' counts of their long messages outlive the ranks.
#[test]
fn the_launcher_has_the_counts_of_all_ranks() {
    for way in [Way::Ring, Way::Read, Way::Both] {
        let mut launch = Launch::new(3, RANK);
        launch.args = vec!["copies".into()];
        launch.set(LongMessages::VARIABLE, LongMessages::By(way));
        let outcome = launch.run().unwrap();
        assert_eq!(outcome.code, 0, "{outcome:?}");
        let said = WayTally::of_words(&outcome.counts).to_string();
        assert_eq!(said.lines().count(), 3, "a message each of three lengths: {said}");
        let went = ["through rings", "copied by the receiver", "copied by both ends"];
        for line in said.lines() {
            let is_asked = line.contains(&format!(": 3 {} (", went[way as usize]));
            // If the machine refuses copies, only the first way exists.
            let is_refused = line.ends_with(": 3 through rings; 3 for want of another way");
            assert!(is_asked && line.ends_with("; 3 as asked for") || is_refused, "{line}");
        }
    }
}

/// Communicators and persistent operations have lines as long as some are left, those of one rank
/// never. Operations that they cannot do on lines are left to the table; if no ranks share a node,
/// this is an error.
#[test]
fn lines_are_left_to_the_table_where_there_are_none() {
    for operation in ["barrier", "broadcast", "allreduce", "allgather"] {
        let variable = format!("HIKYAKU_COLL_{}", operation.to_ascii_uppercase());
        let late = ["bits", operation, "8", "blocking,late"];
        for words in [&late[..], &["divided", "1", "collective: "]] {
            job(4, words).variable(&variable, "lines").succeed();
        }
        let end = job(2, &late).ranks_per_node(1).variable(&variable, "lines").run();
        assert!(end.stderr.contains("by lines needs ranks of a node"), "{}", end.stderr);
    }
    for operation in ["BROADCAST", "ALLREDUCE", "ALLGATHER", "ALLTOALL", "REDUCE_SCATTER"] {
        let variable = format!("HIKYAKU_COLL_{operation}");
        job(4, &["divided", "1", "collective: "]).variable(&variable, "read").succeed();
    }
}

/// The cases of shared variables with the protocols that are not the default (that one is in the
/// tests above).
fn shared_by(protocol: &str, faults: Option<&str>) {
    for (ranks, ranks_per_node) in (1..=8).map(|ranks| (ranks, 1 + ranks % 2)) {
        shared_on(protocol, faults, (ranks, ranks_per_node));
    }
}

fn shared_on(protocol: &str, faults: Option<&str>, (ranks, ranks_per_node): (u32, u32)) {
    let cases = job(ranks, &["calls", "1", "shared: "]).ranks_per_node(ranks_per_node);
    let cases = cases.variable("HIKYAKU_SHARED", protocol);
    let cases =
        faults.iter().fold(cases, |cases, seed| cases.variable("HIKYAKU_SHARED_FAULTS", seed));
    assert_eq!(cases.succeed(), "");
}

/// The same with injected faults: on nodes of one rank and of two, and on one.
fn shared_with_faults(protocol: &str) {
    for (ranks, ranks_per_node) in [(1, 0), (2, 0), (2, 1), (3, 2), (4, 1), (5, 2), (5, 0)] {
        let seed = (100 * ranks + ranks_per_node).to_string();
        shared_on(protocol, Some(&seed), (ranks, ranks_per_node));
    }
}

#[test]
fn shared_variables_by_fagus() {
    shared_by("fagus", None);
}

#[test]
fn fg_15_shared_variables_by_udp() {
    shared_by("udp", None);
}

#[test]
fn fg_15_shared_variables_by_udp_with_datagrams_lost_doubled_and_overtaken() {
    shared_by("udp", Some("77"));
}

#[test]
fn shared_variables_by_direct_with_faults() {
    shared_with_faults("direct");
}

#[test]
fn shared_variables_by_fagus_with_faults() {
    shared_with_faults("fagus");
}

#[test]
fn a_variable_with_a_wrong_value_is_an_error_at_the_start() {
    for (name, value, why) in
        [("HIKYAKU_SHARED_FAULTS", "x", "is no seed"), ("HIKYAKU_SHARED", "tcp", "is no protocol")]
    {
        let end = job(2, &["calls", "1", "shared: "]).variable(name, value).run();
        assert_ne!(end.code, Some(0));
        assert!(end.stderr.contains(&format!("{name}: `{value}` {why}")), "{}", end.stderr);
    }
}

/// A program without a launcher is a world of one, with all features.
#[test]
fn without_a_launcher() {
    let mut command = Command::new(RANK);
    command.args(["calls", "7"]).env_remove("HIKYAKU_JOB").env_remove("HIKYAKU_RANK");
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), text.as_str()), (Some(0), ""));
}

/// The time that each rank measures after a barrier begins no earlier than the last arrival.
#[test]
fn cp_16_clocks_start_behind_a_barrier_when_the_last_has_come() {
    assert_eq!(job(4, &["apart", "clocks", "5"]).succeed(), "right\n");
}
