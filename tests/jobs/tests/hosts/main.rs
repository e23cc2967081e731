//! Jobs of several hosts, which are namespaces of this machine with a wire between them: results
//! are correct, and if something dies, freezes or is cut, waiting ranks get an error and nothing is
//! left on any host.
//!
//! Without root or libfabric these tests are skipped with a message. Part of `make test-all`.

#![allow(clippy::unwrap_used)]

mod cable;
mod faults;
mod frames;
mod hostile;
mod kills;
mod others;
mod right;
mod slurm;
mod started;

use std::sync::{Mutex, MutexGuard, PoisonError};

use hikyaku_jobs::net::Net;

/// One test at a time: there are few processors.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Hosts for one test at a time, or none and a line that says why.
fn hosts(count: u32) -> Option<(Net, MutexGuard<'static, ()>)> {
    hosts_by(|reach| Net::new(count, reach))
}

/// The same for hosts made by `make`, which gets the program that reaches them.
fn hosts_by(
    make: impl FnOnce(&str) -> Result<Net, String>,
) -> Option<(Net, MutexGuard<'static, ()>)> {
    let alone = alone();
    let net = match hikyaku_ofi::Survey::take() {
        Ok(_) => make(env!("CARGO_BIN_EXE_reach")),
        Err(error) => Err(error.to_string()),
    };
    net.map(|net| (net, alone)).inspect_err(|why| eprintln!("skipped: {why}")).ok()
}
