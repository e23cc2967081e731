//! Shared variables with injected faults: ranks rest between any two steps of a protocol, commands
//! are refused, contents arrive in pieces, letters and datagrams late; and all invariants hold.
//!
//! `crates/world/src/shared/wrong.rs` shows that faulty protocols are detected in this way.

use hikyaku_jobs::{Random, at_length};

use super::job;

/// Four ranks on one node, on two, and a node each. Prints how often they wrote, read, were
/// refused, and dropped a future, to check the counts. `many` turns a rank at length, `few` in the
/// short form.
fn torture(protocol: &str, [many, few]: [&str; 2]) {
    let turns = if at_length() { many } else { few };
    let mut all = [0u64; 4];
    for ranks_per_node in [0, 2, 1] {
        // Printed, to repeat a run: the result also depends on the machine.
        let seed = Random::fresh_seed().to_string();
        println!("{protocol}, {ranks_per_node} ranks a node (0: all), seed {seed}");
        let job = job(4, &["torture", &seed, turns]).ranks_per_node(ranks_per_node);
        let job = job.variable("HIKYAKU_SHARED", protocol).variable("HIKYAKU_SHARED_FAULTS", &seed);
        for line in job.succeed().lines() {
            let counts = line.split(' ').map(|count| count.parse::<u64>().unwrap());
            all.iter_mut().zip(counts).for_each(|(all, count)| *all += count);
        }
    }
    println!("{protocol}: writes, reads, refusals, futures dropped: {all:?}");
    assert!(all.iter().all(|count| *count > 0), "{all:?}");
}

#[test]
fn fg_01_fg_10_fg_14_everything_holds_by_direct_with_faults() {
    torture("direct", ["600", "150"]);
}

#[test]
fn fg_01_fg_10_fg_14_everything_holds_by_fagus_with_faults() {
    torture("fagus", ["300", "80"]);
}

#[test]
fn fg_01_fg_10_fg_14_everything_holds_by_udp_with_faults() {
    torture("udp", ["100", "40"]);
}
