//! A process on a host without InfiniBand stops libfabric from looking for it, unless the user has
//! set the variable or another thread could read variables meanwhile.
//!
//! Runs without the usual harness, which has threads. libfabric need not be installed.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Barrier};
use std::{env, thread};

use hikyaku_ofi::Survey;

const VARIABLE: &str = "FI_PROVIDER";

/// Names the part that this process runs.
const PART: &str = "HIKYAKU_OFI_SEARCH";

fn main() {
    match env::var(PART).as_deref() {
        Ok("alone") => report(),
        Ok(_) => {
            let barrier = Arc::new(Barrier::new(2));
            let other = Arc::clone(&barrier);
            let thread = thread::spawn(move || other.wait());
            report();
            barrier.wait();
            thread.join().unwrap();
        }
        Err(_) => compare(),
    }
}

/// Opens the library, and prints the variable.
fn report() {
    // Whether it is installed does not matter.
    let _ = Survey::take();
    println!("{}", env::var(VARIABLE).unwrap_or_else(|_| "unset".to_owned()));
}

fn compare() {
    let limit = if Path::new("/sys/class/infiniband").exists() { "unset" } else { "^verbs" };
    for (part, set, expected) in [
        ("alone", None, limit),
        ("with a thread", None, "unset"),
        ("alone", Some("tcp"), "tcp"),
        ("alone", Some(""), ""),
    ] {
        let mut command = Command::new(env::current_exe().unwrap());
        command.env(PART, part).env_remove(VARIABLE);
        command.envs(set.map(|value| (VARIABLE, value)));
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(said.lines().last(), Some(expected), "{part}, set to {set:?}");
        println!("{part}, set to {set:?}: {expected:?}");
    }
}
