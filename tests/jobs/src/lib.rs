//! What tests of whole jobs have in common: starting jobs of real processes, and looking at them
//! from outside.
//!
//! A test here starts the program `launch`, which does what `hikyaku run` does, with the program
//! `rank` as its ranks; both are binaries of this package. What is tested *within* the ranks is in
//! `src/bin/rank`, where a failed assertion ends the rank, hence the job, hence the test; what is
//! tested about them is in `tests/`.
//!
//! - [`Job`]: a job to be, [`Running`]: one that runs, [`End`]: how it ended.
//! - [`own`]: jobs of a package's own program, whose tests are their launcher.
//! - [`net`]: hosts on this machine, and what can happen to them.
//! - [`process`]: what `/proc` says about processes and their memory.
//! - [`torture`]: what has to hold of shared variables, looked at inside every guard.
//! - [`bits`]: the same collective in every form and language, bit for bit.
//! - [`edges`]: persistent exchanges along the edges of a graph.
//! - [`generator`]: random programs that are right by construction.
//! - [`waits`]: calls that never return, and what is said of them.
//! - [`machines`]: the files of the simulated machines.
//! - [`number`], [`when_full`]: what a variable of the environment says.
//! - [`at_length`]: whether there is time for more of the same.
//! - [`Random`]: seeded numbers; [`pattern`]: what messages hold.

// A test that cannot go on should stop where it stands.
#![allow(clippy::unwrap_used)]

pub mod bits;
pub mod edges;
pub mod generator;
mod job;
pub mod net;
pub mod own;
pub mod pattern;
pub mod process;
mod random;
pub mod torture;
pub mod waits;

use std::path::{Path, PathBuf};

use hikyaku_nic::fabric::FullPolicy;

pub use job::{End, Job, Running};
pub use random::Random;

/// The files of the simulated machines, in the order of their names.
pub fn machines() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<PathBuf> =
        files.filter(|file| file.extension().is_some_and(|end| end == "toml")).collect();
    files.sort();
    assert_eq!(files.len(), 8, "{files:?}");
    files
}

/// The number in a variable of the environment; `None`: it is not set.
///
/// # Panics
/// It is set to something else.
pub fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is {text:?}, expected a number")))
}

/// What full rings of the job are to do, by `HIKYAKU_JOBS_FULL`.
pub fn when_full() -> FullPolicy {
    match std::env::var("HIKYAKU_JOBS_FULL").as_deref() {
        Ok("refuse") => FullPolicy::Refuse,
        Ok(other) => panic!("HIKYAKU_JOBS_FULL is {other:?}, expected `refuse`"),
        Err(_) => FullPolicy::Stall,
    }
}

/// Whether tests with a choice are to run at length: `make test-all` sets `HIKYAKU_LONG`.
pub fn at_length() -> bool {
    std::env::var_os("HIKYAKU_LONG").is_some()
}
