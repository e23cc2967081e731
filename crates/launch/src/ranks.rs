//! The processes of a job: starts are recorded, endings observed, and none is left behind.
//!
//! An ended rank is observed without being reaped (`WNOWAIT`) and stays a zombie until the job is
//! over. A zombie costs nothing and keeps its process id in use, so that a signal to its process
//! group can only reach its own children, never a stranger with a reused id.
//!
//! Dropping [`RankProcesses`] kills every group and reaps every rank. So no way out of a launch
//! leaves a process behind.

use std::{collections::HashSet, io, os::fd::OwnedFd};

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid,
};

use super::ending::Ending;

/// One rank's process.
struct RankProcess {
    pid: Pid,
    ended: bool,
}

/// All processes started so far, by rank.
#[derive(Default)]
pub(super) struct RankProcesses {
    all: Vec<RankProcess>,
    pids: HashSet<Pid>,
}

impl RankProcesses {
    /// Takes over the next rank's process and returns a descriptor that becomes readable when the
    /// process ends.
    ///
    /// # Errors
    /// No descriptor could be created. The process is taken over all the same.
    pub(super) fn add(&mut self, pid: Pid) -> io::Result<OwnedFd> {
        self.all.push(RankProcess { pid, ended: false });
        self.pids.insert(pid);
        Ok(pidfd_open(pid, PidfdFlags::empty())?)
    }

    /// The number of processes that have been started.
    pub(super) fn started(&self) -> u32 {
        u32::try_from(self.all.len()).expect("there are at most MAX_RANKS")
    }

    /// The process of a rank.
    pub(super) fn pid(&self, rank: u32) -> Pid {
        self.all[rank as usize].pid
    }

    /// Whether the rank's end has been observed.
    pub(super) fn has_ended(&self, rank: u32) -> bool {
        self.all[rank as usize].ended
    }

    /// Whether this process is a rank.
    pub(super) fn contains(&self, pid: Pid) -> bool {
        self.pids.contains(&pid)
    }

    /// How the rank ended. Returned once; `None` before its end and afterwards.
    ///
    /// # Errors
    /// The kernel does not know the process: other code has reaped it.
    pub(super) fn take_ending(&mut self, rank: u32) -> io::Result<Option<Ending>> {
        let rank = &mut self.all[rank as usize];
        if rank.ended {
            return Ok(None);
        }
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let Some(status) = waitid(WaitId::Pid(rank.pid), options)? else { return Ok(None) };
        rank.ended = true;
        let signal = status.terminating_signal().map(Ending::Signal);
        Ok(signal.or_else(|| status.exit_status().map(Ending::Code)))
    }

    /// Sends a signal to every rank's group. Ended ranks are included: their children may live.
    pub(super) fn send(&self, signal: Signal) {
        for rank in &self.all {
            // ESRCH: the group is empty. EPERM: it became another user's program, which only that
            // user or root can end.
            let _ = kill_process_group(rank.pid, signal);
        }
    }

    /// Sends a signal to the group of one rank.
    pub(super) fn send_to(&self, index: usize, signal: Signal) {
        let _ = kill_process_group(self.all[index].pid, signal);
    }

    /// Kills the rest of every group and reaps the ranks.
    pub(super) fn clear(&mut self) {
        self.send(Signal::KILL);
        for rank in self.all.drain(..) {
            while waitid(WaitId::Pid(rank.pid), WaitIdOptions::EXITED)
                .is_err_and(|error| error == rustix::io::Errno::INTR)
            {}
        }
    }
}

impl Drop for RankProcesses {
    fn drop(&mut self) {
        self.clear();
    }
}
