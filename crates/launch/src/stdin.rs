//! Standard input of the ranks: rank 0 gets the launcher's, the others read the end of file.
//!
//! Rank 0 inherits a file or pipe: nothing is copied, only rank 0 reads from it, and the writer of
//! a pipe gets SIGPIPE once rank 0 has closed it. Rank 0 cannot inherit a terminal: ranks are in
//! process groups of their own, and the kernel stops a background group that reads from its
//! terminal. So the launcher reads the terminal, while it is itself in the foreground, and passes
//! the lines on.

use std::{
    fs::File,
    io::{self, IsTerminal},
    os::fd::{AsFd, OwnedFd},
    process::Stdio,
    time::Duration,
};

use rustix::{
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    io::Errno,
    pipe::{PipeFlags, pipe_with},
    process::getpgrp,
    termios::tcgetpgrp,
};

use super::{LaunchError, events::EventSet};

/// The interval at which a launcher in the background polls whether it is in the foreground: the
/// kernel does not report that.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// Standard input for rank 0, and the pump to it if one is needed.
pub(super) fn of_rank_0() -> io::Result<(Stdio, Option<Pump>)> {
    Ok(match input_of_terminal()? {
        Some((reader, pump)) => (reader.into(), Some(pump)),
        None => (Stdio::inherit(), None),
    })
}

/// If standard input is a terminal: a pipe with the typed input, and the pump into it.
pub(super) fn input_of_terminal() -> io::Result<Option<(OwnedFd, Pump)>> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return Ok(None);
    }
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    fcntl_setfl(&writer, fcntl_getfl(&writer)? | OFlags::NONBLOCK)?;
    let terminal = stdin.as_fd().try_clone_to_owned()?;
    let pump = Pump { terminal, pipe: writer, pending: Vec::new(), watched: None, look_at: None };
    Ok(Some((reader, pump)))
}

/// Standard input for the other ranks.
pub(super) fn empty() -> Result<File, LaunchError> {
    let what = "open /dev/null, which is the standard input of all ranks but the first";
    File::open("/dev/null").map_err(|source| LaunchError::System { what, source })
}

/// Copies bytes from the terminal to rank 0. Holds at most one read's worth.
pub(super) struct Pump {
    terminal: OwnedFd,
    pipe: OwnedFd,
    pending: Vec<u8>,
    /// The end that is in the epoll set.
    watched: Option<InputEnd>,
    /// When to poll again whether this process is in the foreground.
    look_at: Option<Duration>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum InputEnd {
    Terminal,
    Pipe,
}

impl Pump {
    /// Moves as many bytes as possible, and registers the end to wait for next. Returns `false` if
    /// the terminal or rank 0 has closed its end: drop the pump then.
    pub(super) fn run(&mut self, events: &EventSet, token: u64, now: Duration) -> io::Result<bool> {
        let goes_on = match self.watched {
            Some(InputEnd::Terminal) => !self.in_foreground() || self.read(),
            Some(InputEnd::Pipe) => self.write(),
            None => true,
        };
        if !goes_on {
            self.stop(events)?;
            return Ok(false);
        }
        let next = match (self.pending.is_empty(), self.in_foreground()) {
            (false, _) => Some(InputEnd::Pipe),
            (true, true) => Some(InputEnd::Terminal),
            (true, false) => None,
        };
        self.look_at = next.is_none().then_some(now + LOOK_EVERY);
        self.watch(events, token, next)?;
        Ok(true)
    }

    /// Stops waiting for either end.
    ///
    /// Closing the descriptors is not enough: epoll drops a terminal only when no process has it
    /// open any more.
    pub(super) fn stop(&mut self, events: &EventSet) -> io::Result<()> {
        self.watch(events, 0, None)
    }

    /// When `run` is due even if nothing is ready.
    pub(super) fn poll_deadline(&self) -> Option<Duration> {
        self.look_at
    }

    fn in_foreground(&self) -> bool {
        tcgetpgrp(&self.terminal).is_ok_and(|group| group == getpgrp())
    }

    fn read(&mut self) -> bool {
        self.pending.resize(4096, 0);
        let result = rustix::io::read(&self.terminal, &mut self.pending);
        self.pending.truncate(result.unwrap_or(0));
        match result {
            Ok(count) => count > 0 && self.write(),
            Err(Errno::AGAIN | Errno::INTR) => true,
            Err(_) => false,
        }
    }

    fn write(&mut self) -> bool {
        match rustix::io::write(&self.pipe, &self.pending) {
            Ok(count) => {
                self.pending.drain(..count);
                true
            }
            Err(Errno::AGAIN | Errno::INTR) => true,
            Err(_) => false,
        }
    }

    fn watch(&mut self, events: &EventSet, token: u64, next: Option<InputEnd>) -> io::Result<()> {
        if next == self.watched {
            return Ok(());
        }
        match self.watched.take() {
            Some(InputEnd::Terminal) => events.remove(&self.terminal)?,
            Some(InputEnd::Pipe) => events.remove(&self.pipe)?,
            None => {}
        }
        match next {
            Some(InputEnd::Terminal) => events.add(&self.terminal, token)?,
            Some(InputEnd::Pipe) => events.add_to_write(&self.pipe, token)?,
            None => {}
        }
        self.watched = next;
        Ok(())
    }
}
