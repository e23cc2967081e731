//! Reads one stream (standard output or error) of all ranks.
//!
//! The pipes are in an epoll set of their own, and that set is one entry in the supervising
//! thread's set. When the output is full, removing that one entry stops all reading; the pipes of
//! ten thousand ranks need not be touched.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use rustix::{
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    io::Errno,
};

use super::events::EventSet;
use super::lines::{Assembler, OutputSource};

/// How long an unfinished line may wait for its end before a terminal shows it: prompts and
/// progress bars have no end of line. Files and pipes always get whole lines.
const SHOW_AFTER: Duration = Duration::from_millis(100);

/// The most a pipe can hold on Linux (`/proc/sys/fs/pipe-max-size` for an unprivileged user). It
/// limits what is read at the end of a job from a pipe that some process keeps filling.
const DRAIN_BYTES: usize = 1024 * 1024;

/// One stream of every rank.
pub(super) struct Intake {
    stream: usize,
    /// The rank of the first pipe.
    first: u32,
    /// Whether unfinished lines are shown after a while.
    interactive: bool,
    ready: EventSet,
    pipes: Vec<Option<Pipe>>,
    buffer: Vec<u8>,
}

struct Pipe {
    fd: OwnedFd,
    assembler: Assembler,
    /// The time since which an unfinished line has been waiting.
    held_since: Option<Duration>,
}

/// The result of one read.
#[derive(PartialEq, Eq)]
enum Read {
    Bytes(usize),
    Nothing,
    End,
}

impl Intake {
    pub(super) fn new(stream: usize, first: u32, interactive: bool) -> io::Result<Intake> {
        let ready = EventSet::new()?;
        let (pipes, buffer) = (Vec::new(), vec![0; 64 * 1024]);
        Ok(Intake { stream, first, interactive, ready, pipes, buffer })
    }

    /// Adds the next rank's pipe.
    pub(super) fn add(&mut self, fd: OwnedFd) -> io::Result<()> {
        fcntl_setfl(&fd, fcntl_getfl(&fd)? | OFlags::NONBLOCK)?;
        self.ready.add(&fd, self.pipes.len() as u64)?;
        let assembler = Assembler::default();
        self.pipes.push(Some(Pipe { fd, assembler, held_since: None }));
        Ok(())
    }

    /// Reads once from every ready pipe, and passes on complete lines.
    pub(super) fn read_ready(
        &mut self,
        now: Duration,
        mut pass: impl FnMut(OutputSource, &[u8]),
    ) -> io::Result<()> {
        for token in self.ready.ready()? {
            let index = usize::try_from(token).expect("it was made from an index");
            self.read(index, now, &mut pass);
        }
        Ok(())
    }

    /// Reads the rest of every pipe and closes it. Unfinished lines are passed on as they are.
    pub(super) fn finish(&mut self, now: Duration, mut pass: impl FnMut(OutputSource, &[u8])) {
        for index in 0..self.pipes.len() {
            let mut drained = 0;
            while let Read::Bytes(count) = self.read(index, now, &mut pass) {
                drained += count;
                if drained >= DRAIN_BYTES {
                    break;
                }
            }
            self.end(index, &mut pass);
        }
    }

    /// Closes every pipe: further writes of the ranks fail (EPIPE).
    pub(super) fn close(&mut self) {
        self.pipes.iter_mut().for_each(|pipe| *pipe = None);
    }

    /// The next deadline at which `show_held` has work to do.
    pub(super) fn poll_deadline(&self) -> Option<Duration> {
        if !self.interactive {
            return None;
        }
        let held = self.pipes.iter().flatten().filter_map(|pipe| pipe.held_since).min()?;
        Some(held + SHOW_AFTER)
    }

    /// Passes on unfinished lines that have waited long enough.
    pub(super) fn show_held(&mut self, now: Duration, mut pass: impl FnMut(OutputSource, &[u8])) {
        if !self.interactive {
            return;
        }
        for index in 0..self.pipes.len() {
            let source = self.source(index);
            let Some(pipe) = &mut self.pipes[index] else { continue };
            if pipe.held_since.is_some_and(|since| now >= since + SHOW_AFTER) {
                pipe.assembler.flush(|piece| pass(source, piece));
                pipe.held_since = None;
            }
        }
    }

    fn read(
        &mut self,
        index: usize,
        now: Duration,
        pass: &mut impl FnMut(OutputSource, &[u8]),
    ) -> Read {
        let source = self.source(index);
        let Some(pipe) = &mut self.pipes[index] else { return Read::End };
        match rustix::io::read(&pipe.fd, &mut self.buffer) {
            Err(Errno::AGAIN | Errno::INTR) => Read::Nothing,
            Ok(0) | Err(_) => {
                self.end(index, pass);
                Read::End
            }
            Ok(count) => {
                pipe.assembler.feed(&self.buffer[..count], |piece| pass(source, piece));
                pipe.held_since = match pipe.assembler.is_holding() {
                    true => Some(pipe.held_since.unwrap_or(now)),
                    false => None,
                };
                Read::Bytes(count)
            }
        }
    }

    fn end(&mut self, index: usize, pass: &mut impl FnMut(OutputSource, &[u8])) {
        let source = self.source(index);
        if let Some(mut pipe) = self.pipes[index].take() {
            pipe.assembler.flush(|piece| pass(source, piece));
        }
    }

    fn source(&self, index: usize) -> OutputSource {
        let index = u32::try_from(index).expect("there are at most MAX_RANKS");
        OutputSource { rank: self.first + index, stream: self.stream }
    }
}

/// Readable when one of the pipes is.
impl AsFd for Intake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }
}
