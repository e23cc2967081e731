//! Detecting the end of processes by pidfd: a descriptor that becomes readable when its process has
//! ended, and that never refers to a later process with the same id.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use hikyaku_nic::fabric::Rank;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use thiserror::Error;

/// Time between two polls by [`Watch::look`], nanoseconds.
const LOOK_EVERY: u64 = 100_000_000;

/// Why a process cannot be watched.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cannot watch rank {rank} (pid {pid}): {errno}")]
pub struct WatchError {
    /// The rank.
    pub rank: Rank,
    /// Its process.
    pub pid: u32,
    /// The system's error.
    pub errno: Errno,
}

/// Watches the processes of ranks.
#[derive(Debug, Default)]
pub struct Watch {
    alive: Vec<(Rank, OwnedFd)>,
    /// Ranks that ended before they could be watched.
    gone: Vec<Rank>,
    /// The time of the next poll by [`Watch::look`].
    look_at: u64,
}

impl Watch {
    /// Watches these ranks with their process ids.
    ///
    /// # Errors
    /// The system has no pidfds (Linux before 5.3) or no descriptors left.
    pub fn new(processes: &[(Rank, u32)]) -> Result<Watch, WatchError> {
        let mut watch = Watch::default();
        for &(rank, pid) in processes {
            match open(pid) {
                Ok(descriptor) => watch.alive.push((rank, descriptor)),
                Err(Errno::SRCH) => watch.gone.push(rank),
                Err(errno) => return Err(WatchError { rank, pid, errno }),
            }
        }
        Ok(watch)
    }

    /// The ranks that have ended since the last call, each returned once; waits for one until
    /// `timeout`, or for ever. Only the parent of a process can find out how it ended. Empty at the
    /// timeout, on a signal, and when no rank is left to watch.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Vec<Rank> {
        if !self.gone.is_empty() || self.alive.is_empty() {
            return std::mem::take(&mut self.gone);
        }
        let timeout = timeout.and_then(|time| Timespec::try_from(time).ok());
        let mut polled: Vec<PollFd<'_>> = self
            .alive
            .iter()
            .map(|(_, fd)| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN))
            .collect();
        // An error, such as a signal, counts as a wait without result.
        let _ = poll(&mut polled, timeout.as_ref());
        let ended: Vec<bool> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
        let mut ended = ended.into_iter();
        let (gone, alive) = std::mem::take(&mut self.alive)
            .into_iter()
            .partition(|_| ended.next().unwrap_or(false));
        self.alive = alive;
        let gone: Vec<(Rank, OwnedFd)> = gone;
        gone.into_iter().map(|(rank, _)| rank).collect()
    }

    /// As [`Watch::wait`], but without waiting, for callers that have other work. `now` is in
    /// nanoseconds. Most calls come too soon after the last poll and return at once.
    pub(crate) fn look(&mut self, now: u64) -> Vec<Rank> {
        if now < self.look_at || self.is_empty() {
            return Vec::new();
        }
        self.look_at = now + LOOK_EVERY;
        self.wait(Some(Duration::ZERO))
    }

    /// Whether no rank is left to watch.
    pub fn is_empty(&self) -> bool {
        self.alive.is_empty() && self.gone.is_empty()
    }
}

/// Waits until a process has ended, at most `most`. Returns at once if it cannot be watched.
pub(crate) fn await_end(pid: u32, most: Duration) {
    let Ok(process) = open(pid) else { return };
    let most = Timespec::try_from(most).ok();
    // A signal ends the wait early: nothing depends on its length.
    let _ = poll(&mut [PollFd::new(&process, PollFlags::IN)], most.as_ref());
}

fn open(pid: u32) -> Result<OwnedFd, Errno> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
    pidfd_open(pid, PidfdFlags::empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn an_end_is_returned_once() {
        // `cat` lives until its input ends.
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let mut watch = Watch::new(&[(0, std::process::id()), (3, child.id())]).unwrap();
        assert!(watch.wait(Some(Duration::ZERO)).is_empty());
        drop(child.stdin.take());
        assert_eq!(watch.wait(None), [3]);
        assert!(watch.wait(Some(Duration::ZERO)).is_empty());
        child.wait().unwrap();
        assert!(!watch.is_empty());
    }

    #[test]
    fn an_earlier_end_is_returned_at_once() {
        let mut watch = Watch::new(&[(7, u32::MAX >> 1), (8, 0)]).unwrap();
        assert_eq!(watch.wait(None), [7, 8]);
        assert!(watch.is_empty());
        assert!(watch.wait(None).is_empty());
    }
}
