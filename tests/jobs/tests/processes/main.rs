//! Jobs of real processes, started as `hikyaku run` starts them.

#![allow(clippy::unwrap_used)]

mod bits;
mod calls;
mod crowded;
mod ends;
mod flow;
mod heap;
mod keepers;
mod kill;
mod kill_one;
mod protected;
mod restricted;
mod scribble;
mod survivors;
mod torture;
mod virtual_costs;
mod virtual_time;
mod virtual_variables;
mod waits;

use hikyaku_jobs::Job;

/// The program whose subcommands are the rank programs.
const RANK: &str = env!("CARGO_BIN_EXE_rank");

/// A job of `ranks` ranks that run these words of `rank`.
fn job(ranks: u32, words: &[&str]) -> Job {
    Job::new(env!("CARGO_BIN_EXE_launch"), RANK, ranks, words)
}
