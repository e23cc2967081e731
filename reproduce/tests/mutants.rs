//! A criterion that no machine misses says nothing: each one that an experiment meets is missed by
//! some machine that differs from the paper's in one word of its file, and the table says which
//! criteria miss it with it. Those of 000-table-1 and 004-table-1 need no machine; tests beside
//! them change what they count.
//!
//! Experiments that take seconds are in the long tests (`HIKYAKU_LONG`).

use std::collections::BTreeSet;

use hikyaku_reproduce::{ExperimentOutcome, Machines, PaperItem, Verdict};

use super::{is_long, report};

/// An experiment, the key of one word of its machine's file, another value of it, and all the
/// criteria that are met by the machine as it is and missed by this one.
type Mutant = (&'static str, &'static str, &'static str, &'static [&'static str]);

const MUTANTS: &[Mutant] = &[
    (
        "000-tables-2-3",
        "interface.receive.parse",
        "2",
        &["total, PUSH (table 2)", "total, IPUSH (table 3)"],
    ),
    ("000-tables-2-3", "interface.receive.judge", "5", &["total, IPUSH (table 3)"]),
    (
        "000-table-7",
        "network.cable",
        "0.5 us",
        &[
            "RTT/2 (1), PUSH",
            "RTT/2 (2), IPUSH",
            "RTT/2 (3), PUSH, read out",
            "RTT/2 (4), IPUSH, read out",
        ],
    ),
    (
        "000-table-7",
        "interface.receive.judge",
        "5",
        &["RTT/2 (2), IPUSH", "RTT/2 (4), IPUSH, read out", "D, IPUSH less PUSH"],
    ),
    (
        "000-table-7",
        "interface.head_update",
        "0.1 us",
        &["RTT/2 (4), IPUSH, read out", "I, IPUSH less PUSH"],
    ),
    (
        "000-table-7",
        "host.access",
        "0.9 us",
        &[
            "RTT/2 (1), PUSH",
            "RTT/2 (2), IPUSH",
            "RTT/2 (3), PUSH, read out",
            "RTT/2 (4), IPUSH, read out",
            "F detection by polling, mean",
            "J detect read-out completion, mean",
        ],
    ),
    ("000-figure-8", "interface.packet_gap", "0.3 us", &["maximum (1)", "maximum (2)"]),
    ("000-figure-8", "host.copy_line", "160 ns", &["maximum (3)", "maximum (4)"]),
    (
        "000-figure-8",
        "interface.receive.judge",
        "500",
        &[
            "maximum (2)",
            "maximum (4)",
            "(1) and (2) at the maximum",
            "(1) beside (2), (3) beside (4)",
        ],
    ),
    (
        "000-figure-8",
        "interface.window",
        "2048 B",
        &[
            "maximum (3)",
            "maximum (4)",
            "where (3) and (4) have their maximum",
            "(4) beside (5), largest message",
        ],
    ),
    (
        "001-figures-9-12",
        "interface.atomic",
        "2 ms",
        &[
            "all 16 cells, copies and free links: DIMMnet beside UDP",
            "all 16 cells, copies and links: DIMMnet beside UDP",
        ],
    ),
    (
        "001-figures-9-12",
        "interface.block_rate",
        "5 MB/s",
        &["all 16 cells, copies and links: DIMMnet beside UDP"],
    ),
    ("002-figure-9", "interface.rate", "9 GB/s", &["slope"]),
    ("002-figure-9", "host.software", "2 us", &["16 KiB"]),
    (
        "002-figure-9",
        "interface.engines",
        "1",
        &["slope", "16 KiB", "linear", "both directions overlap"],
    ),
    ("002-figure-10", "interface.rate", "6 GB/s", &["ratio at 16 KiB"]),
    ("002-figure-10", "interface.nop", "200 ns", &["smallest ratio"]),
    ("002-figure-10", "host.doorbell", "300 ns", &["largest ratio"]),
    (
        "002-figure-10",
        "interface.nop",
        "10 us",
        &["ratio at 16 KiB", "smallest ratio", "largest ratio", "ratio"],
    ),
    ("003-figure-6", "host.paralib", "3.6 us", &["Paralib/CJ4, 8 B", "MPI, 8 B"]),
    ("003-figure-6", "host.mpi", "5 us", &["MPI, 8 B"]),
    ("003-figure-6", "host.system_call", "20 us", &["system call and flush, 8 B"]),
    ("003-figure-6", "network.body_hop", "50 ns", &["saved by inline mode (16 B less 8 B)"]),
    (
        "003-figure-6",
        "interface.inline",
        "64 B",
        &["Paralib/CJ4, 8 B", "saved by inline mode (16 B less 8 B)", "shape"],
    ),
    ("003-figure-7", "interface.memory.plain", "300 ns", &["C less B"]),
    ("003-figure-7", "host.mpi", "200 us", &["MPI and Paralib, largest size"]),
    ("003-figure-7", "network.link_rate", "160000000 B/s", &["A and C, largest size", "C less B"]),
    (
        "003-figure-8",
        "host.copy",
        "65 MB/s",
        &["hardware over software, optimised", "hardware over software, not"],
    ),
    ("003-figure-8", "host.copy", "260 MB/s", &["hardware over software, not"]),
    (
        "003-figure-8",
        "interface.memory.dirty",
        "100 ns",
        &[
            "hardware over software, optimised",
            "hardware over software, not",
            "1 and 31 words",
            "groups",
        ],
    ),
    ("003-figure-9", "network.buffer", "272 B", &["C and 1 to 1"]),
    ("003-figure-10", "host.paralib", "6 us", &["E, 32 nodes"]),
    ("003-figure-10", "network.synchronise_table", "200 ns", &["E, 32 nodes", "E"]),
    ("003-figure-10", "network.synchronise_hop", "4 us", &["E, 32 nodes", "32 nodes"]),
    (
        "003-figure-10",
        "interface.accept",
        "400",
        &["E, 32 nodes", "D from 2 to 32 nodes", "32 nodes"],
    ),
    ("004-figure-3", "interface.packet_gap", "1.5 us", &["maximum"]),
    ("004-figure-3", "host.start", "3 us", &["overhead (8 B)", "half of the peak (150 MB/s)"]),
    ("004-figure-4", "host.start", "100 us", &["BT and SYS"]),
    ("004-figure-4", "host.detect", "1 ms", &["BT and SYS", "BT and PP"]),
    (
        "004-figures-6-7",
        "interface.packet_gap",
        "30 us",
        &["up to 1 KB, P = 8", "up to 1 KB, P = 256"],
    ),
    ("004-figures-6-7", "topology.shape", "torus", &["conflicts, P = 256"]),
    ("004-figures-8-9", "host.start", "0.2 us", &["chain over basic", "chain over basic, blocks"]),
    ("004-figure-10", "network.link_rate", "150 MB/s", &["saturation"]),
    ("004-figure-10", "interface.packet_gap", "50 us", &["saturation", "torus and mesh"]),
    ("004-figure-10", "host.start", "1 ms", &["saturation", "high rates", "torus and mesh"]),
];

/// Experiments of which one run takes seconds.
const LONG: [&str; 5] =
    ["002-figure-9", "002-figure-10", "003-figure-9", "004-figures-8-9", "004-figure-10"];

fn of_verdict(outcome: &ExperimentOutcome, is_missed: bool) -> BTreeSet<&str> {
    let checks = outcome.checks.iter();
    let wanted = checks.filter(|check| (check.verdict == Verdict::Mismatch) == is_missed);
    wanted.map(|check| check.what.as_str()).collect()
}

fn judge(item: &PaperItem, outcome: &ExperimentOutcome) {
    let stored = Machines::stored();
    let met = of_verdict(outcome, false);
    let mut unmissed = met.clone();
    for (_, key, value, misses) in MUTANTS.iter().filter(|mutant| mutant.0 == item.name) {
        let mutated = stored.with(item.machines[0], &[(key, value)]);
        let mutated = mutated.unwrap_or_else(|error| panic!("{key} {value}: {error}"));
        let outcome = (item.run)(&mutated);
        let missed: BTreeSet<&str> =
            of_verdict(&outcome, true).intersection(&met).copied().collect();
        assert_eq!(missed, misses.iter().copied().collect(), "{}: {key} {value}", item.name);
        misses.iter().for_each(|what| _ = unmissed.remove(what));
    }
    assert!(unmissed.is_empty(), "{}: no machine here misses {unmissed:?}", item.name);
}

/// Those of a paper, which run beside those of the others.
fn judge_paper(paper: &str) {
    let is_judged = |item: &PaperItem| is_long() || !LONG.contains(&item.name);
    for result in report().results.iter().filter(|result| result.item.name.starts_with(paper)) {
        if !result.item.machines.is_empty() && is_judged(result.item) {
            judge(result.item, &result.outcome);
        }
    }
}

#[test]
fn paper_000_every_criterion_is_missed_by_some_machine() {
    judge_paper("000");
}

#[test]
fn paper_001_every_criterion_is_missed_by_some_machine() {
    judge_paper("001");
}

#[test]
fn paper_002_every_criterion_is_missed_by_some_machine() {
    judge_paper("002");
}

#[test]
fn paper_003_every_criterion_is_missed_by_some_machine() {
    judge_paper("003");
}

#[test]
fn paper_004_every_criterion_is_missed_by_some_machine() {
    judge_paper("004");
}
