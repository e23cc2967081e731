//! Signals that people and systems send to the launcher, as a descriptor that can be waited for.
//!
//! Handlers and a pipe, not `signalfd`: a signal must be blocked to be read from a `signalfd`, and
//! blocked signals stay blocked in the processes one starts, whereas handlers are reset by `exec`.
//!
//! What the launcher was started to ignore stays ignored: SIGHUP under `nohup`, SIGINT for a
//! background job of a script.

use std::{
    fs, io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        raw::c_int,
    },
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::{
    pipe::{PipeFlags, pipe_with},
    process::Signal,
};
use signal_hook::{SigId, flag, low_level};

/// What is caught. The first three end the job.
const CAUGHT: [Signal; 6] =
    [Signal::INT, Signal::TERM, Signal::HUP, Signal::TSTP, Signal::CONT, Signal::CHILD];

/// Signals whose default action has to be there again when no job runs.
const ENDING: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::HUP];

/// Catches signals as long as it lives; afterwards they act as by default.
///
/// One at a time is meant to exist in a process, which must be there for the job alone.
pub(super) struct Interrupts {
    wake: OwnedFd,
    seen: Vec<(Signal, Arc<AtomicBool>)>,
    registered: Vec<SigId>,
}

impl Interrupts {
    /// Starts catching.
    pub(super) fn catch() -> io::Result<Interrupts> {
        let (wake, sender) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let ignored = ignored();
        let mut interrupts = Interrupts { wake, seen: Vec::new(), registered: Vec::new() };
        let idle = idle_flag(ignored)?;
        for signal in CAUGHT.into_iter().filter(|&signal| !is_in(signal, ignored)) {
            let seen = Arc::new(AtomicBool::new(false));
            let number = signal.as_raw();
            // In this order: the thread that wakes up must find the flag set.
            interrupts.registered.push(flag::register(number, Arc::clone(&seen))?);
            interrupts.registered.push(low_level::pipe::register(number, sender.try_clone()?)?);
            interrupts.seen.push((signal, seen));
        }
        idle.store(false, Ordering::SeqCst);
        Ok(interrupts)
    }

    /// Whether a signal that ends the job has come; it stays to be taken.
    pub(super) fn is_ending(&self) -> bool {
        self.seen
            .iter()
            .any(|(signal, seen)| ENDING.contains(signal) && seen.load(Ordering::SeqCst))
    }

    /// The signals that have come since this was last asked.
    pub(super) fn take(&self) -> Vec<Signal> {
        let mut bytes = [0; 64];
        while rustix::io::read(&self.wake, &mut bytes).is_ok_and(|count| count > 0) {}
        let came = |(_, seen): &&(Signal, Arc<AtomicBool>)| seen.swap(false, Ordering::SeqCst);
        self.seen.iter().filter(came).map(|&(signal, _)| signal).collect()
    }
}

impl AsFd for Interrupts {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        // Without this a launcher that has nothing left but to write its last line, to a reader
        // that does not read, could only be ended by SIGKILL.
        if let Some(Ok(idle)) = IDLE.get() {
            idle.store(true, Ordering::SeqCst);
        }
        for id in self.registered.drain(..) {
            low_level::unregister(id);
        }
    }
}

/// Set while no job runs: the ending signals then act by default. Registered once in a process, as
/// a handler cannot be taken back.
static IDLE: OnceLock<Result<Arc<AtomicBool>, io::ErrorKind>> = OnceLock::new();

fn idle_flag(ignored: u64) -> io::Result<Arc<AtomicBool>> {
    let register = || {
        let idle = Arc::new(AtomicBool::new(true));
        for signal in ENDING.into_iter().filter(|&signal| !is_in(signal, ignored)) {
            flag::register_conditional_default(signal.as_raw(), Arc::clone(&idle))
                .map_err(|error| error.kind())?;
        }
        Ok(idle)
    };
    IDLE.get_or_init(register).clone().map_err(io::Error::from)
}

fn is_in(signal: Signal, set: u64) -> bool {
    let number: c_int = signal.as_raw();
    set & (1 << (number - 1)) != 0
}

/// The set of signals this process ignores, a bit for each. Only `/proc` tells without unsafe code;
/// where it does not, nothing counts as ignored.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    parse_ignored(&status)
}

fn parse_ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ignored_set_is_read_from_the_status_text() {
        let set = parse_ignored("Name:\tx\nSigBlk:\tffff\nSigIgn:\t0000000000001003\nSigCgt:\t0\n");
        assert!(is_in(Signal::HUP, set) && is_in(Signal::INT, set) && is_in(Signal::PIPE, set));
        assert!(!is_in(Signal::TERM, set));
        assert_eq!(parse_ignored(""), 0);
        assert_eq!(parse_ignored("SigIgn:\tnonsense\n"), 0);
    }
}
