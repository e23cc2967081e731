//! A criterion that no machine misses says nothing: each one of these experiments is missed by some
//! machine that differs from the paper's in a constant.

use std::collections::BTreeSet;

use hikyaku_reproduce::{Item, Machines, Verdict, items};

/// An experiment, a machine, and what is changed in its file.
type Mutant = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const MUTANTS: &[Mutant] = &[
    ("000-tables-2-3", "dimmnet2", &[("interface.receive.parse", "2")]),
    ("000-table-7", "dimmnet2", &[("network.cable", "0.5 us")]),
    ("000-table-7", "dimmnet2", &[("interface.receive.judge", "5")]),
    ("000-table-7", "dimmnet2", &[("interface.head_update", "0.1 us")]),
    ("000-table-7", "dimmnet2", &[("host.access", "0.9 us")]),
    ("000-figure-8", "dimmnet2", &[("interface.packet_gap", "0.3 us")]),
    ("000-figure-8", "dimmnet2", &[("host.copy_line", "160 ns")]),
    ("000-figure-8", "dimmnet2", &[("interface.receive.judge", "500")]),
    ("000-figure-8", "dimmnet2", &[("interface.window", "2048 B")]),
    ("001-figures-9-12", "dimmnet1", &[("interface.atomic", "200 us")]),
    ("001-figures-9-12", "dimmnet1", &[("interface.block_rate", "5 MB/s")]),
    ("002-figure-9", "fx100-tofu2", &[("interface.rate", "5 GB/s")]),
    ("002-figure-9", "fx100-tofu2", &[("interface.packet", "8 KiB"), ("interface.engines", "1")]),
    ("002-figure-9", "fx100-tofu2", &[("interface.engines", "1")]),
    ("002-figure-10", "fx100-tofu2", &[("interface.nop", "3 us")]),
    ("002-figure-10", "fx100-tofu2", &[("host.software", "20 us")]),
    (
        "002-figure-10",
        "fx100-tofu2",
        &[("interface.rate", "1 GB/s"), ("network.link_rate", "1 GB/s")],
    ),
    ("003-figure-6", "cenju4", &[("interface.inline", "32 B")]),
    ("003-figure-6", "cenju4", &[("host.paralib", "9 us")]),
    ("003-figure-6", "cenju4", &[("host.system_call", "5 us")]),
    ("003-figure-7", "cenju4", &[("interface.memory.plain", "0 ns")]),
    ("003-figure-7", "cenju4", &[("host.copy", "20 MB/s"), ("host.mpi", "400 us")]),
    ("003-figure-7", "cenju4", &[("interface.memory.plain", "800 ns")]),
    ("003-figure-7", "cenju4", &[("interface.memory.dirty", "2 us")]),
    ("003-figure-8", "cenju4", &[("network.multicast_hop", "20 us")]),
    ("003-figure-8", "cenju4", &[("host.paralib", "100 us")]),
    ("003-figure-8", "cenju4", &[("interface.memory.query", "5 us")]),
    ("003-figure-8", "cenju4", &[("interface.memory.line", "64 B")]),
    ("003-figure-9", "cenju4", &[("interface.memory.plain", "800 ns")]),
    ("003-figure-9", "cenju4", &[("network.multicast_hop", "20 us")]),
    ("003-figure-9", "cenju4", &[("host.copy", "2 GB/s"), ("interface.memory.plain", "800 ns")]),
    ("003-figure-10", "cenju4", &[("network.synchronise_hop", "20 us")]),
    ("003-figure-10", "cenju4", &[("host.register", "10 us")]),
    ("003-figure-10", "cenju4", &[("host.paralib", "0.1 us")]),
    ("004-figure-3", "cp-pacs", &[("interface.packet_gap", "3 us")]),
    ("004-figure-3", "cp-pacs", &[("host.start", "10 us")]),
    ("004-figure-4", "cp-pacs", &[("host.start", "400 us")]),
    ("004-figures-8-9", "cp-pacs", &[("host.start", "0.1 us"), ("interface.message", "20 us")]),
    ("004-figure-10", "cp-pacs", &[("network.buffer", "64 KiB")]),
    ("004-figure-10", "cp-pacs", &[("network.link_rate", "50 MB/s")]),
];

fn mutated((_, machine, changes): &Mutant) -> Machines {
    let mutated = Machines::stored().with(machine, changes);
    mutated.unwrap_or_else(|error| panic!("{machine} {changes:?}: {error}"))
}

#[test]
fn every_criterion_is_missed_by_some_machine() {
    let has_mutants = |item: &&Item| MUTANTS.iter().any(|mutant| mutant.0 == item.name);
    for item in items().iter().filter(has_mutants) {
        let stored = (item.run)(&Machines::stored());
        let met = stored.checks.iter().filter(|check| check.verdict != Verdict::Mismatch);
        let mut met: BTreeSet<&str> = met.map(|check| check.what.as_str()).collect();
        for mutant in MUTANTS.iter().filter(|mutant| mutant.0 == item.name) {
            for check in (item.run)(&mutated(mutant)).checks {
                if check.verdict == Verdict::Mismatch {
                    met.remove(check.what.as_str());
                }
            }
        }
        assert!(met.is_empty(), "{}: no machine here misses {met:?}", item.name);
    }
}
