//! Descendants of ranks that outlived their parents.
//!
//! A process that a rank started may create a session of its own (`setsid`, a shell with job
//! control). It is then in no rank's process group. A launcher process that exists for the job
//! alone is therefore the *subreaper* of its descendants: when their parents end they become its
//! children, and it can find and end them. It also reaps those that end during the job, so that a
//! long job that starts many daemons does not fill the process table with zombies.

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

/// How long the killed orphans of a generation may take to end. Only a process stuck in the kernel
/// takes longer, and nothing can end such a process.
const PATIENCE: Duration = Duration::from_millis(500);

/// How often it looks for more: the children of an orphan become this process's when it ends. Only
/// processes that start others faster than they are killed need more.
const MOST_GENERATIONS: u32 = 64;

/// Adopts, reaps and ends orphans.
pub(super) struct Orphans {
    /// Children that this process had before the job and must not touch (a shell that started a
    /// background process and then became the launcher by `exec`).
    strangers: Vec<Pid>,
}

impl Orphans {
    /// Makes orphaned descendants children of this process from now on.
    pub(super) fn adopt() -> io::Result<Orphans> {
        set_child_subreaper(Some(getpid()))?;
        Ok(Orphans { strangers: children() })
    }

    /// Reaps orphans that have ended; `is_rank` identifies the ranks, which are not orphans.
    pub(super) fn reap(&self, is_rank: impl Fn(Pid) -> bool) {
        for pid in children().into_iter().filter(|&pid| !is_rank(pid)) {
            if !self.strangers.contains(&pid) {
                // It may still run, or be gone already: both are fine.
                let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
            }
        }
    }

    /// Ends all orphans and their descendants, once the ranks are reaped.
    pub(super) fn end(&self) {
        self.end_but(|_| false);
    }

    /// [`Orphans::end`], except for the children that `is_own` identifies.
    pub(super) fn end_but(&self, is_own: impl Fn(Pid) -> bool) {
        for _ in 0..MOST_GENERATIONS {
            let mut pids = children();
            pids.retain(|pid| !self.strangers.contains(pid) && !is_own(*pid));
            // All at once, so that their ends take no longer than the slowest.
            for &pid in &pids {
                let _ = kill_process(pid, Signal::KILL);
            }
            let (start, mut has_ended) = (Instant::now(), false);
            for &pid in &pids {
                wait_briefly(pid, PATIENCE.saturating_sub(start.elapsed()));
                let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
                has_ended |= matches!(waitid(WaitId::Pid(pid), options), Ok(Some(_)));
            }
            if !has_ended {
                return;
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

/// The children of all threads of this process. Empty if `/proc` cannot be read: orphans then
/// continue to run, as they do without a launcher.
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
