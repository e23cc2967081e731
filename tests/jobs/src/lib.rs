//! Helpers of the tests of whole jobs: they start jobs of real processes, and observe them from
//! outside.
//!
//! A test here starts the program `launch`, which does the same as `hikyaku run`, with the program
//! `rank` as its ranks; both are binaries of this package. Tests *within* the ranks are in
//! `src/bin/rank`, where a failed assertion ends the rank, hence the job, hence the test; tests
//! about them are in `tests/`.
//!
//! - [`Job`]: a job to be started, [`Running`]: a running one, [`End`]: how it ended.
//! - [`own`]: jobs of a package's own program, whose tests are their launcher.
//! - [`net`]: hosts on this machine, and faults of them.
//! - [`process`]: processes and their memory, from `/proc`.
//! - [`torture`]: the invariants of shared variables, checked inside every guard.
//! - [`bits`]: the same collective in every form and language, bit for bit.
//! - [`edges`]: persistent exchanges along the edges of a graph.
//! - [`generator`]: random programs that are correct by construction.
//! - [`waits`]: calls that never return, and their reports.
//! - [`machines`]: the files of the simulated machines.
//! - [`number`], [`when_full`]: the values of environment variables.
//! - [`at_length`]: whether there is time for longer tests.
//! - [`Random`]: seeded numbers; [`pattern`]: the contents of messages.

// A test that cannot continue should stop at once.
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

/// The number in an environment variable; `None`: it is not set.
///
/// # Panics
/// It is set to something else.
pub fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is {text:?}, expected a number")))
}

/// The policy of the job's full rings, from `HIKYAKU_JOBS_FULL`.
pub fn when_full() -> FullPolicy {
    match std::env::var("HIKYAKU_JOBS_FULL").as_deref() {
        Ok("refuse") => FullPolicy::Refuse,
        Ok(other) => panic!("HIKYAKU_JOBS_FULL is {other:?}, expected `refuse`"),
        Err(_) => FullPolicy::Stall,
    }
}

/// Whether tests with a choice run at length: `make test-all` sets `HIKYAKU_LONG`.
pub fn at_length() -> bool {
    std::env::var_os("HIKYAKU_LONG").is_some()
}
