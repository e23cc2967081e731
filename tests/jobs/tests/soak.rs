//! Mixed traffic of five ranks, checked byte for byte, for `HIKYAKU_SOAK_SECONDS`: by default 9
//! seconds, or a minute at length.
//!
//! `make soak` runs it for an hour. `HIKYAKU_SOAK_SEED` repeats a run.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use hikyaku_jobs::{Job, Random, at_length, number};

#[test]
fn mixed_traffic() {
    let seconds = number("HIKYAKU_SOAK_SECONDS");
    let seconds = seconds.unwrap_or(if at_length() { 60 } else { 9 });
    let seed = number("HIKYAKU_SOAK_SEED").unwrap_or_else(Random::fresh_seed);
    println!("soak: HIKYAKU_SOAK_SEED={seed}");
    // On one node, and with a part of the messages between nodes.
    for (ranks_per_node, share) in [(0, seconds - seconds / 3), (2, seconds / 3)] {
        let (launcher, program) = (env!("CARGO_BIN_EXE_launch"), env!("CARGO_BIN_EXE_rank"));
        let words = ["traffic", &share.to_string(), &seed.to_string()];
        let job = Job::new(launcher, program, 5, &words).ranks_per_node(ranks_per_node);
        let said = job.timeout(Duration::from_secs(share + 60)).succeed();
        print!("soak: {said}");
    }
}
