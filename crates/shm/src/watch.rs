//! Detecting the ends of other ranks, where no launcher of ours reports them.
//!
//! A process of this host is watched by a pidfd: a descriptor that becomes readable when its
//! process has ended, and that never refers to a later process with the same id. A process of
//! another host is watched by a TCP connection, which its kernel closes when the process ends,
//! however it ends. If that host is down or cut off, this kernel closes it: no answer comes to its
//! probes (keep-alive). A rank that leaves in order sends one byte before.
//!
//! A thread waits for all of these, since a rank may compute for long, or only poll. It records
//! each end in the job's memory, which wakes all ranks of this host.
//!
//! It also waits for the end of the launcher, or of the launcher's process on this host, and then
//! kills its own process: nobody else would. Our launcher's ranks end in the same way.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hikyaku_nic::fabric::{DeathCause, Rank};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, getppid, kill_process, pidfd_open};
use thiserror::Error;

use crate::fork::{ForkedProcess, KeptFromChildren};
use crate::mapping;
use crate::region::JobRegion;

/// The byte that a rank sends on its connections when it leaves in order.
const LEFT: u8 = b'L';

/// The maximum number of ranks on other hosts that a rank watches.
pub const MOST_CONNECTIONS: usize = crate::fork::MOST_KEPT;

/// Why other ranks cannot be watched.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WatchError {
    /// One process.
    #[error("cannot watch rank {rank} (pid {pid}): {errno}")]
    Process {
        /// The rank.
        rank: Rank,
        /// Its process.
        pid: u32,
        /// The system's error.
        errno: Errno,
    },
    /// Any.
    #[error("cannot watch the other ranks: {errno}")]
    System {
        /// The system's error.
        errno: Errno,
    },
}

/// The thread that watches other ranks. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    connections: Arc<[(Rank, KeptFromChildren)]>,
    ender: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    process: ForkedProcess,
}

impl Watch {
    /// Watches ranks of this host, with their process ids; ranks of other hosts, each by a
    /// connection that does not block; and the launcher's process.
    ///
    /// # Errors
    /// The system has no pidfds (Linux before 5.3), or no descriptors or threads left.
    pub(crate) fn start(
        region: &Arc<JobRegion>,
        processes: &[(Rank, u32)],
        connections: Vec<(Rank, OwnedFd)>,
        launcher: Option<u32>,
    ) -> Result<Watch, WatchError> {
        // One that is gone already, or is not visible here, is not watched.
        let launcher = launcher.and_then(|pid| open(pid).ok());
        let system = |errno| WatchError::System { errno };
        let mut pidfds = Vec::new();
        for &(rank, pid) in processes {
            match open(pid) {
                Ok(pidfd) => pidfds.push((rank, pidfd)),
                Err(Errno::SRCH) => _ = region.mapping.fail(rank, DeathCause::Unknown),
                Err(errno) => return Err(WatchError::Process { rank, pid, errno }),
            }
        }
        let kept = connections.into_iter().map(|(rank, fd)| (rank, KeptFromChildren::new(fd)));
        let connections: Arc<[(Rank, KeptFromChildren)]> = kept.collect();
        let ender = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).map_err(system)?);
        let (region, shared, end) =
            (Arc::clone(region), Arc::clone(&connections), Arc::clone(&ender));
        let run = move || watch(&region, pidfds, &shared, (&end, launcher.as_ref()));
        let thread = thread::Builder::new().name("hikyaku-watch".into()).spawn(run);
        let thread =
            thread.map_err(|error| system(Errno::from_io_error(&error).unwrap_or(Errno::AGAIN)))?;
        let process = ForkedProcess::this();
        Ok(Watch { connections, ender, thread: Some(thread), process })
    }

    /// Tells the ranks of other hosts that this rank leaves in order, before its process ends.
    pub(crate) fn say_left(&self) {
        for (_, connection) in self.connections.iter() {
            // A connection that nothing was sent on has room. A rank that is gone need not know.
            let _ = rustix::net::send(connection.fd(), &[LEFT], rustix::net::SendFlags::NOSIGNAL);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // A forked child has no such thread, and must not end the rank's.
        if !self.process.is_this() {
            return;
        }
        let woken = rustix::io::write(&*self.ender, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take().filter(|_| woken.is_ok()) {
            // It calls nothing that can panic.
            let _ = thread.join();
        }
    }
}

/// The body of the thread.
fn watch(
    region: &JobRegion,
    mut pidfds: Vec<(Rank, OwnedFd)>,
    connections: &[(Rank, KeptFromChildren)],
    (ender, launcher): (&OwnedFd, Option<&OwnedFd>),
) {
    let mut open: Vec<&(Rank, KeptFromChildren)> = connections.iter().collect();
    loop {
        let pids = pidfds.iter().map(|(_, pidfd)| pidfd);
        let others = pids.chain(open.iter().map(|(_, connection)| connection.fd()));
        let all = [ender].into_iter().chain(launcher).chain(others);
        let mut polled: Vec<PollFd<'_>> = all.map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        match poll(&mut polled, None) {
            Err(Errno::INTR) => continue,
            // No memory: this rank watches no more.
            Err(_) => return,
            Ok(_) => {}
        }
        let ready: Vec<bool> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
        let mut ready = ready.into_iter();
        let mut is_ready = || ready.next().unwrap_or(false);
        if is_ready() {
            return;
        }
        if launcher.is_some() && is_ready() {
            let _ = kill_process(getpid(), Signal::KILL);
        }
        pidfds.retain(|(rank, _)| {
            let has_ended = is_ready();
            if has_ended {
                // A rank that has left in order cannot die.
                region.mapping.fail(*rank, DeathCause::Unknown);
            }
            !has_ended
        });
        open.retain(|(rank, connection)| !is_ready() || !note_end(region, *rank, connection.fd()));
    }
}

/// Records the end of a rank whose connection has become readable. Returns whether it has ended.
fn note_end(region: &JobRegion, rank: Rank, connection: &OwnedFd) -> bool {
    match rustix::io::read(connection, &mut [0; 1]) {
        Err(Errno::AGAIN | Errno::INTR) => return false,
        Ok(1) => region.mapping.leave_elsewhere(rank),
        _ => _ = region.mapping.fail(rank, DeathCause::Unknown),
    }
    true
}

/// The process at the other end of a connection to a launcher that this process has inherited: the
/// one that made it. `None`: it is on another host or not visible here.
pub fn launcher_behind(socket: impl AsFd) -> Option<u32> {
    mapping::peer_process(socket).ok().filter(|pid| *pid > 0)
}

/// The parent of this process. `None`: it is not visible here, or is the first process, which
/// adopts those whose parent is gone.
pub fn parent() -> Option<u32> {
    let pid = getppid()?.as_raw_nonzero().get().unsigned_abs();
    (pid > 1).then_some(pid)
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
