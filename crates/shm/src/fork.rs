//! Whether this process is a child of the one that has joined the job.
//!
//! A child of a fork has a copy of everything, so its calls would work, as the rank. A handler that
//! runs in every child counts; a port knows the process that made it. To ask is a load of a
//! line that nobody writes, where `getpid` is a system call.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// Forks on the way from the first process that has joined a job to this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// A process, among those that came of the first by forks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process(u32);

impl Process {
    /// None: no process is this one.
    pub const NONE: Process = Process(u32::MAX);

    /// The one that calls; from here on its forks are counted.
    pub fn this() -> Process {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            // SAFETY: the handler lives as long as the program and only changes an atomic word,
            // which a child of a program with threads may do. Where there is no memory for it
            // nothing is counted.
            let _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        });
        Process(FORKS.load(Ordering::Relaxed))
    }

    /// Whether it is the one that calls.
    #[inline]
    pub fn is_this(self) -> bool {
        FORKS.load(Ordering::Relaxed) == self.0
    }
}
