//! Standard input for rank 0 on another host. The launcher reads it, at most [`WINDOW`] bytes ahead
//! of the rank; that host's daemon writes it.

use std::{
    collections::VecDeque,
    io,
    os::fd::{AsFd, OwnedFd},
    process::Stdio,
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    io::Errno,
    pipe::{PipeFlags, pipe_with},
};

use super::frame::Frame;
use crate::events::EventSet;
use crate::stdin::{Pump, input_of_terminal};

/// Maximum bytes that the launcher has read and the rank has not taken.
const WINDOW: usize = 64 << 10;

/// Bytes per read.
const PIECE: usize = 16 << 10;

/// The launcher's end.
pub(super) struct InputSource {
    /// `None` after the end of input, or once rank 0 takes no more.
    from: Option<OwnedFd>,
    pump: Option<Pump>,
    in_flight: usize,
    /// Whether it is registered in the event set.
    watched: bool,
    /// Whether it is always readable: a file, which epoll refuses.
    is_file: bool,
}

impl InputSource {
    /// This process's standard input.
    pub(super) fn new() -> io::Result<InputSource> {
        let (from, pump) = match input_of_terminal()? {
            Some((reader, pump)) => (reader, Some(pump)),
            None => (io::stdin().as_fd().try_clone_to_owned()?, None),
        };
        Ok(InputSource { from: Some(from), pump, in_flight: 0, watched: false, is_file: false })
    }

    /// Reads the available input, up to the free window, and updates the event set.
    pub(super) fn run(
        &mut self,
        events: &EventSet,
        (own, terminal): (u64, u64),
        now: Duration,
        mut send: impl FnMut(Frame),
    ) -> io::Result<()> {
        if let Some(pump) = &mut self.pump
            && !pump.run(events, terminal, now)?
        {
            // Closes the pipe. Its reader sees the end after the data.
            self.pump = None;
        }
        while let Some(from) = &self.from
            && self.in_flight < WINDOW
            && is_readable(from)
        {
            let mut bytes = vec![0; PIECE];
            let count = match rustix::io::read(from, &mut bytes) {
                Err(Errno::AGAIN | Errno::INTR) => break,
                // A terminal that has gone, or a closed input, counts as the end of input.
                result => result.unwrap_or(0),
            };
            bytes.truncate(count);
            self.in_flight += count;
            send(Frame::Input(bytes));
            if count == 0 {
                self.close(events)?;
            }
        }
        let wanted = self.from.is_some() && self.in_flight < WINDOW && !self.is_file;
        self.watch(events, own, wanted)
    }

    /// Handles the rank's report: it has taken `count` bytes, or takes no more (`None`).
    pub(super) fn handle_taken(&mut self, events: &EventSet, count: Option<u32>) -> io::Result<()> {
        match count {
            Some(count) => {
                self.in_flight = self.in_flight.saturating_sub(count as usize);
                Ok(())
            }
            None => self.close(events),
        }
    }

    /// When `run` is due even if no descriptor is ready.
    pub(super) fn poll_deadline(&self) -> Option<Duration> {
        self.pump.as_ref().and_then(Pump::poll_deadline)
    }

    fn close(&mut self, events: &EventSet) -> io::Result<()> {
        if let Some(mut pump) = self.pump.take() {
            pump.stop(events)?;
        }
        self.watch(events, 0, false)?;
        self.from = None;
        Ok(())
    }

    fn watch(&mut self, events: &EventSet, token: u64, wanted: bool) -> io::Result<()> {
        let Some(from) = &self.from else { return Ok(()) };
        if wanted == self.watched {
            return Ok(());
        }
        self.watched = wanted;
        if !wanted {
            return Ok(events.remove(from)?);
        }
        match events.add(from, token) {
            // A file: after the window was full, `run` continues when the rank has taken something.
            Err(Errno::PERM) => {
                (self.is_file, self.watched) = (true, false);
                Ok(())
            }
            result => Ok(result?),
        }
    }
}

fn is_readable(from: &OwnedFd) -> bool {
    poll(&mut [PollFd::new(from, PollFlags::IN)], Some(&Timespec::default())).is_ok_and(|n| n > 0)
}

/// The daemon's end.
pub(super) struct InputTarget {
    to: Option<OwnedFd>,
    pending: VecDeque<u8>,
    /// Whether the end of input has arrived.
    ended: bool,
    watched: bool,
}

impl InputTarget {
    /// A pipe: the rank's end, and the daemon's end.
    pub(super) fn new() -> io::Result<(Stdio, InputTarget)> {
        let (reader, to) = pipe_with(PipeFlags::CLOEXEC)?;
        fcntl_setfl(&to, fcntl_getfl(&to)? | OFlags::NONBLOCK)?;
        let target =
            InputTarget { to: Some(to), pending: VecDeque::new(), ended: false, watched: false };
        Ok((reader.into(), target))
    }

    /// Queues received input. An empty piece is the end of input.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.ended |= bytes.is_empty();
        self.pending.extend(bytes);
    }

    /// Writes as much as the rank takes, and registers if some is left. Returns the number of bytes
    /// written, or `Some(None)` if the rank takes no more.
    pub(super) fn run(&mut self, events: &EventSet, token: u64) -> io::Result<Option<Option<u32>>> {
        let Some(to) = &self.to else { return Ok(None) };
        let mut taken = 0;
        let mut is_open = true;
        while is_open && !self.pending.is_empty() {
            match rustix::io::write(to, self.pending.make_contiguous()) {
                Ok(count) => {
                    self.pending.drain(..count);
                    taken += count;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => is_open = false,
            }
        }
        let wanted = is_open && !self.pending.is_empty();
        if wanted != self.watched {
            self.watched = wanted;
            match wanted {
                true => events.add_to_write(to, token)?,
                false => events.remove(to)?,
            }
        }
        if !is_open || self.ended && self.pending.is_empty() {
            self.to = None;
        }
        if !is_open {
            return Ok(Some(None));
        }
        Ok((taken > 0).then(|| Some(u32::try_from(taken).unwrap_or(u32::MAX))))
    }
}
