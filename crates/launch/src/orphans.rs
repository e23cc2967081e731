//! Descendants of ranks that outlived their parents.
//!
//! A process that a rank started and that made itself a session of its own (`setsid`, a shell with
//! job control) is in no rank's process group. Where the launcher's process exists for the job
//! alone it is therefore the *subreaper* of its descendants: when their parents end they become
//! its children, and can be found and ended. What has ended meanwhile is reaped, so that a long
//! job that starts many daemons does not fill the process table with zombies.

use std::{
    fs, io,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{
        Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpid, kill_process, pidfd_open,
        set_child_subreaper, waitid,
    },
};

/// How long killed orphans may take to end. Only a process stuck in the kernel takes longer, and
/// nothing can end that.
const PATIENCE: Duration = Duration::from_millis(500);

/// Adopts, reaps and ends orphans.
pub(super) struct Orphans {
    /// Children this process had before the job, none of its business (a shell that has started
    /// something in the background and then became the launcher by `exec`).
    strangers: Vec<Pid>,
}

impl Orphans {
    /// From now on orphaned descendants become children of this process.
    pub(super) fn adopt() -> io::Result<Orphans> {
        set_child_subreaper(Some(getpid()))?;
        Ok(Orphans { strangers: children() })
    }

    /// Reaps orphans that have ended; `is_rank` identifies the ranks, which are not orphans.
    pub(super) fn reap(&self, is_rank: impl Fn(Pid) -> bool) {
        for pid in children().into_iter().filter(|&pid| !is_rank(pid)) {
            if !self.strangers.contains(&pid) {
                // Still running, or gone already: both are fine.
                let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
            }
        }
    }

    /// Ends all orphans, and theirs, once the ranks are reaped.
    pub(super) fn end(&self) {
        self.end_but(|_| false);
    }

    /// The same for a process that has other children, of which `is_own` tells.
    pub(super) fn end_but(&self, is_own: impl Fn(Pid) -> bool) {
        let start = Instant::now();
        loop {
            let mut pids = children();
            pids.retain(|pid| !self.strangers.contains(pid) && !is_own(*pid));
            let left = PATIENCE.saturating_sub(start.elapsed());
            if pids.is_empty() || left.is_zero() {
                return;
            }
            for &pid in &pids {
                let _ = kill_process(pid, Signal::KILL);
                wait_briefly(pid, left);
                let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
            }
        }
    }
}

/// Waits for a child to end, at most `limit`.
fn wait_briefly(pid: Pid, limit: Duration) {
    let Ok(fd) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    let Ok(limit) = Timespec::try_from(limit) else { return };
    let _ = poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&limit));
}

/// The children of this process, of all its threads. Empty if `/proc` cannot be read: orphans then
/// run on, as they do without a launcher.
fn children() -> Vec<Pid> {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return Vec::new() };
    tasks
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|list| {
            list.split_ascii_whitespace()
                .filter_map(|pid| pid.parse().ok().and_then(Pid::from_raw))
                .collect::<Vec<Pid>>()
        })
        .collect()
}
