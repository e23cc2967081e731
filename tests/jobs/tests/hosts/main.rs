//! Jobs of several hosts, which are namespaces of this machine with a wire between them: what is
//! computed is right, and whatever dies, freezes or is cut, whoever waits gets an error and nothing
//! is left on any host.
//!
//! Without root or libfabric these tests are skipped and say so. Part of `make test-all`.

#![allow(clippy::unwrap_used)]

mod faults;
mod frames;
mod kills;
mod others;
mod right;
mod slurm;
mod started;

use std::sync::{Mutex, MutexGuard, PoisonError};

use hikyaku_jobs::net::Net;

/// Hosts for one test at a time, or none and a line that says why. The processors are few.
fn hosts(count: u32) -> Option<(Net, MutexGuard<'static, ()>)> {
    static ONE: Mutex<()> = Mutex::new(());
    let alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let net = match hikyaku_ofi::Survey::take() {
        Ok(_) => Net::new(count, env!("CARGO_BIN_EXE_reach")),
        Err(error) => Err(error.to_string()),
    };
    net.map(|net| (net, alone)).inspect_err(|why| eprintln!("skipped: {why}")).ok()
}
