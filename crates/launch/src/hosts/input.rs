//! Standard input on its way to rank 0 of another host: read by the launcher, as far ahead of the
//! rank as [`WINDOW`], and written by that host's daemon.

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

/// Bytes that were read and not taken by the rank, at most.
const WINDOW: usize = 64 << 10;

/// What is read at once.
const PIECE: usize = 16 << 10;

/// The launcher's end.
pub(super) struct InputSource {
    /// Until its end, or until rank 0 takes no more.
    from: Option<OwnedFd>,
    pump: Option<Pump>,
    in_flight: usize,
    /// Whether the set of events has it.
    watched: bool,
    /// Whether it can always be read: a file, which the set refuses.
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

    /// Reads what there is and there is room for, and registers for what it waits for next.
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
            // Closes the pipe, so that its end comes after what is in it.
            self.pump = None;
        }
        while let Some(from) = &self.from
            && self.in_flight < WINDOW
            && is_readable(from)
        {
            let mut bytes = vec![0; PIECE];
            let count = match rustix::io::read(from, &mut bytes) {
                Err(Errno::AGAIN | Errno::INTR) => break,
                // A terminal that is gone, or an input that was closed, is at its end.
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

    /// The rank has taken so many bytes, or takes no more.
    pub(super) fn handle_taken(&mut self, events: &EventSet, count: Option<u32>) -> io::Result<()> {
        match count {
            Some(count) => {
                self.in_flight = self.in_flight.saturating_sub(count as usize);
                Ok(())
            }
            None => self.close(events),
        }
    }

    /// When `run` is due even if nothing is ready.
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
            // A file: what `run` leaves in it is read when the rank has taken something.
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
    /// Whether nothing more comes.
    ended: bool,
    watched: bool,
}

impl InputTarget {
    /// A pipe: what the rank gets, and this end of it.
    pub(super) fn new() -> io::Result<(Stdio, InputTarget)> {
        let (reader, to) = pipe_with(PipeFlags::CLOEXEC)?;
        fcntl_setfl(&to, fcntl_getfl(&to)? | OFlags::NONBLOCK)?;
        let target =
            InputTarget { to: Some(to), pending: VecDeque::new(), ended: false, watched: false };
        Ok((reader.into(), target))
    }

    /// Takes what has come for the rank.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.ended |= bytes.is_empty();
        self.pending.extend(bytes);
    }

    /// Writes what the rank takes, and registers if it takes no more for now. Says how many bytes
    /// that were, or that it takes none any more.
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
