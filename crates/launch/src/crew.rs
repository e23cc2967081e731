//! The ranks of a job as the engine sees them, wherever they run.
//!
//! This is the cut between what decides for a job and what holds its ranks:
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

/// What happens to ranks.
#[derive(Debug)]
pub(super) enum News<'a> {
    /// A rank's process has ended.
    Ended(RankExit),
    /// A rank has written this: whole lines, or a fragment.
    Output { source: OutputSource, piece: &'a [u8] },
    /// A host is gone, and with it these ranks, which ran.
    Lost { ranks: Vec<u32>, reason: String },
    /// These ranks could not be started.
    Refused { ranks: Vec<u32>, error: LaunchError },
    /// One line for a person.
    Said(String),
}

/// How a rank's process has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RankExit {
    pub(super) rank: u32,
    pub(super) pid: u32,
    pub(super) ending: Ending,
    /// Whether it had left the job in order.
    pub(super) left: bool,
    /// How the job ends, if a rank has said why.
    pub(super) end: Option<JobEnd>,
}

/// Where news goes.
pub(super) type Tell<'t> = dyn FnMut(News<'_>) + 't;

/// The ranks of a job. Its descriptor is readable when `handle_ready` has something to do. None of
/// these calls waits.
pub(super) trait Crew: AsFd {
    /// Takes in what has happened.
    fn handle_ready(&mut self, now: Duration, tell: &mut Tell<'_>) -> io::Result<()>;

    /// Does what is due.
    fn handle_time(&mut self, now: Duration, tell: &mut Tell<'_>) -> io::Result<()>;

    /// When `handle_time` has something to do next.
    fn poll_deadline(&self) -> Option<Duration>;

    /// Reads what ranks write to a stream, or leaves it where it is.
    fn set_reading(&mut self, stream: usize, wanted: bool) -> io::Result<()>;

    /// Makes further writes of ranks to a stream fail, since it has no reader any more.
    fn close(&mut self, stream: usize);

    /// Tells the others that this rank is gone.
    fn mark_dead(&mut self, rank: u32, cause: DeathCause);

    /// Sends a signal to every rank's process group.
    fn send(&mut self, signal: Signal);

    /// Asks for the call that every rank is waiting in.
    fn ask_waiting(&mut self);

    /// The answers, one line a rank.
    fn take_waiting(&mut self) -> Vec<String>;

    /// Ends what is left of the ranks' processes, once all ranks have ended.
    fn clear(&mut self);

    /// Whether nothing is left of them.
    fn is_clear(&self) -> bool;

    /// Reads what is left of their output, and ends what belongs to the crew beside the ranks.
    fn finish(&mut self, now: Duration, tell: &mut Tell<'_>) -> io::Result<()>;

    /// Whether this child of the launcher is one of the crew's own processes.
    fn contains(&self, pid: Pid) -> bool;

    /// How the job ends, if a rank has said why.
    fn end(&self) -> Option<JobEnd>;

    /// The host of a rank; `None`: there is only this one.
    fn host_of(&self, rank: u32) -> Option<&str>;
}
