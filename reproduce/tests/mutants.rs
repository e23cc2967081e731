//! A criterion that no machine misses says nothing: each one of these experiments is missed by some
//! machine that differs from the paper's in a constant.

use std::collections::BTreeSet;

use hikyaku_reproduce::{Machines, PaperItem, Verdict, items};

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
];

fn mutated((_, machine, changes): &Mutant) -> Machines {
    let mutated = Machines::stored().with(machine, changes);
    mutated.unwrap_or_else(|error| panic!("{machine} {changes:?}: {error}"))
}

#[test]
fn every_criterion_is_missed_by_some_machine() {
    let has_mutants = |item: &&PaperItem| MUTANTS.iter().any(|mutant| mutant.0 == item.name);
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
