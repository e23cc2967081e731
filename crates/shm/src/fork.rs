//! Whether this process is a forked child of the process that joined the job.
//!
//! A forked child has a copy of all memory, so its calls would work, as the rank. A handler that
//! runs in every child counts forks, and a port remembers the process that made it. The check is a
//! load of a line that is rarely written, whereas `getpid` is a system call.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of forks between the first process that joined a job and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
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
