//! Whether this process is a forked child of the process that joined the job, and descriptors that
//! such a child does not keep open.
//!
//! A forked child has a copy of all memory, so its calls would work, as the rank. A handler that
//! runs in every child counts forks, and a port remembers the process that made it. The check is a
//! load of a line that is rarely written, whereas `getpid` is a system call.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// The number of forks between the first process that joined a job and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The maximum number of [`KeptFromChildren`].
pub(crate) const MOST_KEPT: usize = 512;

/// No descriptor.
const NONE: i32 = -1;

/// The descriptors of [`KeptFromChildren`].
static KEPT: [AtomicI32; MOST_KEPT] = [const { AtomicI32::new(NONE) }; MOST_KEPT];

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    for kept in &KEPT {
        let fd = kept.load(Ordering::Relaxed);
        if fd != NONE {
            // SAFETY: a descriptor that is kept from children is open; the child is not the rank
            // and reads none of them.
            unsafe { give_up(fd) };
        }
    }
}

/// Replaces a descriptor by one of nothing: the number stays in use, so a copy of its owner in this
/// process closes no other file.
///
/// # Safety
/// The number belongs to an open descriptor that this process does not use.
unsafe fn give_up(fd: i32) {
    // SAFETY: an event counter; the call takes two numbers, and a child of a program with threads
    // may make it.
    let nothing = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    // SAFETY: both are numbers of descriptors; the caller vouches for the second.
    let _ = unsafe { libc::dup3(nothing, fd, libc::O_CLOEXEC) };
    // SAFETY: the number of the new descriptor, or an invalid one, which has no effect.
    let _ = unsafe { libc::close(nothing) };
}

/// A connection whose other end must learn when this process ends: no forked child keeps it open.
/// Programs that a child executes do not get it anyway.
#[derive(Debug)]
pub(crate) struct KeptFromChildren {
    fd: OwnedFd,
    /// `None`: too many are kept. A child then keeps this one open as long as it runs.
    place: Option<usize>,
}

impl KeptFromChildren {
    pub(crate) fn new(fd: OwnedFd) -> KeptFromChildren {
        count_forks();
        let order = Ordering::Relaxed;
        let take =
            |kept: &AtomicI32| kept.compare_exchange(NONE, fd.as_raw_fd(), order, order).is_ok();
        let place = KEPT.iter().position(take);
        KeptFromChildren { fd, place }
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }
}

impl Drop for KeptFromChildren {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            KEPT[place].store(NONE, Ordering::Relaxed);
        }
    }
}

/// Registers functions for every fork from now on: `before` in the parent, `after` in both.
pub fn around_forks(before: extern "C" fn(), after: extern "C" fn()) {
    at_forks(before, after, after);
}

/// As [`around_forks`], with different functions after the fork in parent and child.
pub(crate) fn at_forks(
    before: extern "C" fn(),
    in_parent: extern "C" fn(),
    in_child: extern "C" fn(),
) {
    let [before, in_parent, in_child]: [unsafe extern "C" fn(); 3] = [before, in_parent, in_child];
    // SAFETY: functions of this object that are safe to call at any time. If there is no memory to
    // register them, they are not called.
    let _ = unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
}

/// Counts forks from now on.
fn count_forks() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler lives as long as the program and only changes an atomic word,
        // which a child of a program with threads may do. If there is no memory for it, forks
        // are not counted.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

/// A process: the first one or one of its forked descendants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForkedProcess(u32);

impl ForkedProcess {
    /// No process.
    pub const NONE: ForkedProcess = ForkedProcess(u32::MAX);

    /// The calling process. Its forks are counted from now on.
    pub fn this() -> ForkedProcess {
        count_forks();
        ForkedProcess(FORKS.load(Ordering::Relaxed))
    }

    /// Declares that `self`, as counted by another copy of this library in the process, is the
    /// calling process: this copy continues the count from there.
    pub fn adopt(self) {
        count_forks();
        FORKS.store(self.0, Ordering::Relaxed);
    }

    /// Whether it is the calling process.
    #[inline]
    pub fn is_this(self) -> bool {
        FORKS.load(Ordering::Relaxed) == self.0
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_forked_child_keeps_no_connection_open() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let kept = KeptFromChildren::new(ours.into());
        // SAFETY: the child makes one call, which a child of a program with threads may make.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "no process can be forked");
        if child == 0 {
            loop {
                // SAFETY: the call has no arguments.
                let _ = unsafe { libc::pause() };
            }
        }
        drop(kept);
        theirs.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let end = theirs.read(&mut [0]);
        // SAFETY: a child of this process, which nobody has waited for.
        let _ = unsafe { libc::kill(child, libc::SIGKILL) };
        // SAFETY: the same; its state is not asked for.
        let _ = unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        assert_eq!(end.unwrap(), 0, "the child is the last to have it");
    }
}
