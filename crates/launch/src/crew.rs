//! The [`Crew`] trait: the ranks of a job as the engine sees them, on one host or several.
//!
//! The trait separates the code that decides for a job from the code that holds its ranks:
//!
//! ```text
//!   engine: supervisor, outputs, signals, time       decides for the job, once
//!      │  Crew                          ▲  News
//!      ▼                                │
//!   local: processes of this machine    ├── hosts: daemons, each with a local crew of its own
//! ```

use std::{io, os::fd::AsFd, time::Duration};

use hikyaku_nic::fabric::DeathCause;
use hikyaku_shm::JobEnd;
use rustix::process::{Pid, Signal};

use super::{LaunchError, ending::Ending, lines::OutputSource};

/// An event about ranks.
#[derive(Debug)]
pub(super) enum News<'a> {
    /// A rank's process has ended.
    Ended(RankExit),
    /// A rank has written these bytes: whole lines, or a fragment of one.
    Output { source: OutputSource, piece: &'a [u8] },
    /// A host is lost, with the ranks that ran on it.
    Lost { ranks: Vec<u32>, reason: String },
    /// These ranks could not be started.
    Refused { ranks: Vec<u32>, error: LaunchError },
    /// One line of text for the user.
    Said(String),
}

/// How a rank's process has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RankExit {
    pub(super) rank: u32,
    pub(super) pid: u32,
    pub(super) ending: Ending,
    /// Whether the rank had left the job properly.
    pub(super) left: bool,
    /// How the job ends, if a rank has reported a reason.
    pub(super) end: Option<JobEnd>,
}

/// The callback that receives news.
pub(super) type Tell<'t> = dyn FnMut(News<'_>) + 't;

/// The ranks of a job. Its descriptor becomes readable when `handle_ready` has work to do. None of
/// these calls blocks.
pub(super) trait Crew: AsFd {
    /// Handles the events that are ready.
    fn handle_ready(&mut self, now: Duration, tell: &mut Tell<'_>) -> io::Result<()>;

    /// Handles the deadlines that have passed.
    fn handle_time(&mut self, now: Duration, tell: &mut Tell<'_>) -> io::Result<()>;

    /// The next deadline at which `handle_time` has work to do.
    fn poll_deadline(&self) -> Option<Duration>;

    /// Starts or stops reading a stream of the ranks.
    fn set_reading(&mut self, stream: usize, wanted: bool) -> io::Result<()>;

    /// Makes the ranks' further writes to a stream fail, because the stream has no reader any more.
    fn close(&mut self, stream: usize);

    /// Reports this rank's death to the other ranks.
    fn mark_dead(&mut self, rank: u32, cause: DeathCause);

    /// Sends a signal to every rank's process group.
    fn send(&mut self, signal: Signal);

    /// Asks every rank for the call in which it waits.
    fn ask_waiting(&mut self);

    /// Takes the answers, one line per rank.
    fn take_waiting(&mut self) -> Vec<String>;

    /// Ends the remaining processes of the ranks, once all ranks have ended.
    fn clear(&mut self);

    /// Whether no such process remains.
    fn is_clear(&self) -> bool;

    /// Reads the ranks' remaining output, and ends the crew's own helper processes.
    fn finish(&mut self, now: Duration, tell: &mut Tell<'_>) -> io::Result<()>;

    /// Whether this child of the launcher is one of the crew's own processes.
    fn contains(&self, pid: Pid) -> bool;

    /// How the job ends, if a rank has reported a reason.
    fn end(&self) -> Option<JobEnd>;

    /// The host of a rank; `None` if there is only this host.
    fn host_of(&self, rank: u32) -> Option<&str>;
}
