//! Signals from users and systems to the launcher, as a descriptor to wait for.
//!
//! It uses handlers and a pipe, not `signalfd`. A signal must be blocked to be read from a
//! `signalfd`, and blocked signals stay blocked in child processes, whereas `exec` resets handlers.
//!
//! Signals that the launcher was started to ignore stay ignored: SIGHUP under `nohup`, SIGINT for a
//! background job of a script. The exception is SIGCHLD: a process that ignores it does not learn
//! how its children end.

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

/// The caught signals.
const CAUGHT: [Signal; 7] = [
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::HUP,
    Signal::TSTP,
    Signal::CONT,
    Signal::CHILD,
];

/// Those that end the job. They must have their default action again when no job runs.
const ENDING: [Signal; 4] = [Signal::INT, Signal::QUIT, Signal::TERM, Signal::HUP];

/// Catches signals during its lifetime. Afterwards they have their default action.
///
/// A process should have one at a time, and should exist for the job alone.
pub(super) struct Interrupts {
    wake: OwnedFd,
    seen: Vec<(Signal, Arc<AtomicBool>)>,
    registered: Vec<SigId>,
}

impl Interrupts {
    /// Starts catching.
    pub(super) fn catch() -> io::Result<Interrupts> {
        let (wake, sender) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let ignored = ignored() & !bit(Signal::CHILD);
        let mut interrupts = Interrupts { wake, seen: Vec::new(), registered: Vec::new() };
        let idle = idle_flag(ignored)?;
        for signal in CAUGHT.into_iter().filter(|&signal| !is_in(signal, ignored)) {
            let seen = Arc::new(AtomicBool::new(false));
            let number = signal.as_raw();
            // The flag first: a thread that the pipe wakes up must find it set.
            interrupts.registered.push(flag::register(number, Arc::clone(&seen))?);
            interrupts.registered.push(low_level::pipe::register(number, sender.try_clone()?)?);
            interrupts.seen.push((signal, seen));
        }
        // A write beyond the limit on file sizes then fails, and does not end the launcher.
        interrupts.registered.push(flag::register(Signal::XFSZ.as_raw(), Arc::default())?);
        idle.store(false, Ordering::SeqCst);
        Ok(interrupts)
    }

    /// Whether a signal that ends the job has arrived. The signal is not consumed.
    pub(super) fn is_ending(&self) -> bool {
        self.seen
            .iter()
            .any(|(signal, seen)| ENDING.contains(signal) && seen.load(Ordering::SeqCst))
    }

    /// Takes the signals that arrived since the last call.
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
        // Otherwise only SIGKILL could end a launcher that waits to write its last line to a
        // reader that does not read.
        if let Some(Ok(idle)) = IDLE.get() {
            idle.store(true, Ordering::SeqCst);
        }
        for id in self.registered.drain(..) {
            low_level::unregister(id);
        }
    }
}

/// Set while no job runs: the ending signals then have their default action. Registered once per
/// process, because such a handler cannot be removed.
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
    set & bit(signal) != 0
}

fn bit(signal: Signal) -> u64 {
    let number: c_int = signal.as_raw();
    1 << (number - 1)
}

/// The set of signals that this process ignores, one bit each. Without unsafe code only `/proc`
/// provides it. If `/proc` cannot be read, no signal counts as ignored.
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
