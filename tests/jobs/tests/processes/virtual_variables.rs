//! Shared variables in virtual time: the same contents as in real time, the costs of a hand-off and
//! the ranks that it delays, and the invariants on 64 nodes with random delays.

use std::path::Path;

use hikyaku_jobs::{End, Job};

use super::{RANK, job};

/// Most turns that a rank at a variable's home takes, without pause and in next to no time, while
/// another asks: twice as many as fit into 16 attempts from its node; from other nodes there are 2
/// attempts.
const OVERTAKEN_MOST: u64 = 200;

const PROTOCOLS: [&str; 3] = ["direct", "fagus", "udp"];

fn simulated(protocol: &str, ranks: u32, words: &[&str]) -> Job {
    let job = Job::new(env!("CARGO_BIN_EXE_simulate"), RANK, ranks, words);
    job.variable("HIKYAKU_SHARED", protocol)
}

/// The number after a word at the beginning of a line.
#[track_caller]
fn said(output: &str, what: &str) -> u64 {
    let line = output.lines().find_map(|line| line.strip_prefix(what));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or_else(|| panic!("{output}"))
}

#[test]
fn every_case_holds_by_each_protocol_within_a_node_and_between() {
    for protocol in PROTOCOLS {
        for (ranks, per_node) in [(1, 1), (2, 1), (3, 2), (5, 1), (6, 2), (4, 4)] {
            for case in CASES {
                simulated(protocol, ranks, &["calls", "1", &format!("shared: {case}")])
                    .ranks_per_node(per_node)
                    .succeed();
            }
        }
    }
}

/// All cases except the owner that the system stops: in virtual time no other rank's turn comes
/// then.
const CASES: [&str; 12] = [
    "counts",
    "rows",
    "messages",
    "a clean copy",
    "a bystander",
    "readers",
    "a reader keeps",
    "tried",
    "dropped",
    "mistakes",
    "side by side",
    "owners",
];

#[test]
fn a_queue_of_work_gives_in_virtual_time_what_it_gives_in_real_time() {
    for protocol in PROTOCOLS {
        let real = job(5, &["queue"]).variable("HIKYAKU_SHARED", protocol).ranks_per_node(2);
        let digest = said(&real.succeed(), "digest");
        let job = simulated(protocol, 5, &["queue"]).ranks_per_node(2);
        let first = job.succeed();
        assert_eq!(said(&first, "digest"), digest, "{protocol}");
        assert_eq!(first, job.succeed(), "the same run twice");
    }
}

/// The output of `hand-off` on a machine that comes with hikyaku.
fn hand_over(protocol: &str, machine: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines").join(machine);
    let file = format!("SIMULATE_MACHINE={}", file.display());
    simulated(protocol, 2, &["hand-off"]).within(&["env", &file]).succeed()
}

#[test]
fn fg_06_a_hand_over_by_direct_takes_its_steps_and_no_owner_that_computes_delays_it() {
    for machine in ["fat-tree-200g.toml", "dimmnet1.toml", "cp-pacs.toml"] {
        let output = hand_over("direct", machine);
        let [atomic, own, get] = ["atomic", "own", "get"].map(|what| said(&output, what));
        // At home (rank 0): head, readers, cell, claim, newest version. The own copy: its version,
        // and the release. The contents. The change of owner, reported to both nodes.
        let steps = (5 * atomic) + (2 * own) + get + (atomic + own);
        assert_eq!(said(&output, "idle"), steps, "{machine}: {output}");
        assert_eq!(said(&output, "busy"), steps, "{machine}: {output}");
        // The word of its own node, at the beginning and at the end.
        assert_eq!(said(&output, "kept"), 2 * own, "{machine}: {output}");
    }
}

/// All numbers after a word at the beginning of lines.
#[track_caller]
fn numbers(output: &str, what: &str) -> Vec<u64> {
    let lines = output.lines().filter_map(|line| line.strip_prefix(what));
    lines.map(|number| number.trim().parse().unwrap()).collect()
}

#[test]
fn fg_04_a_far_rank_beside_one_without_pause_has_its_turn() {
    for (ranks, per_node) in [(2, 1), (5, 1), (6, 3), (3, 3)] {
        let output = simulated("direct", ranks, &["hurry"]).ranks_per_node(per_node).succeed();
        let overtaken = numbers(&output, "overtaken");
        println!("{ranks} ranks, {per_node} a node: {overtaken:?}");
        assert_eq!(overtaken.len(), ranks as usize - 1, "{output}");
        assert!(overtaken.iter().all(|times| *times <= OVERTAKEN_MOST), "{overtaken:?}");
    }
}

#[test]
fn fg_04_whoever_waits_behind_cancelled_requests_is_woken() {
    for (ranks, per_node) in [(3, 1), (5, 1), (5, 5), (4, 2)] {
        let output = simulated("direct", ranks, &["abandoned"]).ranks_per_node(per_node).succeed();
        let after = numbers(&output, "after");
        println!("{ranks} ranks, {per_node} a node: {after:?} ps");
        assert_eq!(after.len(), 4, "{output}");
        // A few round trips; not a poll of its own, the first of which came after 1 ms.
        assert!(after.iter().all(|time| *time < 100_000_000), "{after:?} ps");
    }
}

#[test]
fn by_fagus_an_owner_that_computes_delays_whoever_asks_it() {
    let output = hand_over("fagus", "fat-tree-200g.toml");
    let [atomic, get] = ["atomic", "get"].map(|what| said(&output, what));
    let [idle, busy] = ["idle", "busy"].map(|what| said(&output, what));
    // Three stores and the change of owner, which rank 0 waits for, and two messages. It computes
    // for 950 µs after it was asked.
    assert!(idle > 3 * atomic + get && idle < 10 * atomic + 2 * get, "{output}");
    let late = busy - idle;
    assert!((940_000_000..=960_000_000).contains(&late), "{late} ps: {output}");
}

#[test]
fn fg_15_by_udp_a_hand_over_takes_its_datagrams_on_both_processors_and_wires() {
    let output = hand_over("udp", "ethernet-100.toml");
    let [idle, busy] = ["idle", "busy"].map(|what| said(&output, what));
    // Picoseconds: a system call, a wake-up, a switch; 100 Mb/s.
    let (send, receive, switch, byte) = (20_000_000, 35_000_000, 5_000_000, 80_000);
    let small = send + receive + switch;
    // There and back with 4 KiB in three frames, of which the switch stores one.
    let least = 2 * small + byte * (4096 + 1480);
    // No more than four more datagrams and as many acknowledgements, one frame each.
    let most = least + 8 * (small + 2 * byte * 300);
    assert!((least..most).contains(&idle), "{least}..{most} ps: {output}");
    // The owner computes for 950 us after it was asked.
    let late = busy - idle;
    assert!((850_000_000..=960_000_000).contains(&late), "{late} ps: {output}");
    // An owner asks no rank: it polls.
    assert!(said(&output, "kept") < 1_000_000, "{output}");
}

#[test]
fn ranks_that_have_what_the_other_wants_are_found_out() {
    for protocol in PROTOCOLS {
        let End { code, stdout, stderr } = simulated(protocol, 2, &["crossed"]).run();
        assert_eq!(code, Some(3), "{protocol}: {stdout}{stderr}");
        let told = "simulate:   rank 1 waits in acquisition of shared variable ";
        assert!(stderr.contains("2 ranks wait for ever"), "{protocol}: {stderr}");
        assert!(stderr.contains(told), "{protocol}: {stderr}");
    }
}

#[test]
fn fg_01_fg_09_fg_10_fg_11_fg_14_what_always_holds_does_on_64_nodes() {
    for (protocol, seed) in
        [("direct", "1"), ("direct", "2"), ("fagus", "3"), ("fagus", "4"), ("udp", "6")]
    {
        let output = simulated(protocol, 64, &["random-variables", seed]).succeed();
        assert!(output.contains(&format!("every property held of seed {seed}\n")), "{output}");
    }
    let near = simulated("direct", 12, &["random-variables", "5"]).ranks_per_node(3);
    assert!(near.succeed().contains("every property held of seed 5\n"));
}
