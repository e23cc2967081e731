//! The [`JobMemory`] trait: the launcher's view of a job's shared memory.
//!
//! The trait allows tests of the launcher without shared memory. It also hides how ranks find each
//! other: the launcher passes on the environment and the file descriptor, marks ranks as started
//! or dead, and asks a few questions.

use std::os::fd::BorrowedFd;

use hikyaku_nic::fabric::DeathCause;
use hikyaku_shm::JobEnd;

/// The launcher's side of a job's shared memory.
pub trait JobMemory {
    /// Environment variables a rank needs to attach.
    fn environment(&self, rank: u32) -> Vec<(String, String)>;

    /// The memory's file. A rank inherits it under the same number.
    fn fd(&self) -> BorrowedFd<'_>;

    /// The rank runs as process `pid`.
    fn mark_started(&self, rank: u32, pid: u32);

    /// The rank has ended without leaving properly: peers that wait for it get an error.
    fn mark_dead(&self, rank: u32, cause: DeathCause);

    /// Whether the rank has left the job properly.
    fn has_left(&self, rank: u32) -> bool;

    /// The call in which the rank waits, in words ("receive from rank 2, tag 7, for 3.2 s"); `None`
    /// if it is not blocked in a call of hikyaku.
    fn waiting(&self, rank: u32) -> Option<String>;

    /// The packets of other hosts that the rank has dropped, in words ("2 packets without the job's
    /// key"); `None` if it has dropped none.
    fn dropped(&self, rank: u32) -> Option<String>;

    /// How the job ends, if a rank has reported it: the launcher need not report it again.
    fn end(&self) -> Option<JobEnd>;
}

impl JobMemory for hikyaku_shm::Job {
    fn environment(&self, rank: u32) -> Vec<(String, String)> {
        self.environment(rank)
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.fd()
    }

    fn mark_started(&self, rank: u32, pid: u32) {
        self.mark_started(rank, pid);
    }

    fn mark_dead(&self, rank: u32, cause: DeathCause) {
        self.mark_dead(rank, cause);
    }

    fn has_left(&self, rank: u32) -> bool {
        self.has_left(rank)
    }

    fn waiting(&self, rank: u32) -> Option<String> {
        self.waiting(rank).map(|waiting| waiting.to_string())
    }

    fn dropped(&self, rank: u32) -> Option<String> {
        self.dropped(rank)
    }

    fn end(&self) -> Option<JobEnd> {
        self.end()
    }
}
