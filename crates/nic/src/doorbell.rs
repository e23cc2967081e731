//! How a rank that is not looking is reached, and why no wake-up is lost.
//!
//! Two kinds of things end a rank's wait.
//!
//! *A record in its own segment.* The sender stores the record, then loads `sleeping`, with no
//! barrier between; the sleeper does the barrier for both:
//!
//! ```text
//!   sender                               sleeper
//!   P: record published (release)        S: sleeping = 1
//!   L: load sleeping                     B: barrier on every processor running a rank
//!                                        R: look for records once more
//!                                        F: sleep, if wakes == seen
//! ```
//!
//! B takes effect somewhere in the sender's program order. After P: then R sees the record and
//! there is no sleep. Before P, hence before L: then L sees S, and the sender wakes. A sender that
//! is not running has passed a full barrier in the context switch, which is a B before or after P.
//! (The compiler must leave L after P as well; none of today's reorders atomic accesses.)
//!
//! *A word in somebody else's segment*, such as room in a ring, or an end in the registry. Here
//! the waker always counts `wakes` up, whether or not the target sleeps. The sleeper sampled
//! `seen` before its caller looked: a count before the sample is followed by the look, and a
//! count after it is noticed at the start of the next wait, or by F. Waker: count, fence, load
//! `sleeping`; sleeper: store `sleeping`, fence, F; one of the two sees the other.
//!
//! *Whoever takes `sleeping` away counts once more*, and only then calls the kernel. It is taken
//! away so that a burst of messages costs one call; but who takes it may be late: its first count
//! belongs to news that the rank has seen long ago, and the rank is on its way into its next
//! sleep. Were that sleep to begin with the flag gone and the count as sampled, nobody who comes
//! later would know of it. The flag that was taken was set after the sample, so the second count
//! is news to F: either F finds it, or the rank is in the kernel's queue and the call does.
//!
//! Should a waker die between taking and calling, the sleeper finds out when its bounded sleep
//! ends, or when the death is announced, which wakes everybody without asking.
//!
//! `tests/loom_doorbell.rs` has all of this as a model, and the second count left out as a model
//! that fails.

use crate::sync::{AtomicU64, Line, Ordering, fence};

/// How a rank is reached when it is not looking.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Doorbell {
    /// Nonzero while the rank sleeps or is about to. Set by the rank, taken away by whoever wakes
    /// it.
    pub sleeping: Line<AtomicU64>,
    /// Counts wake-ups; the word a sleeping rank waits on. Written by whoever wakes it.
    pub wakes: Line<AtomicU64>,
    /// The latest arrival time given out; see `hosted::send`. Written by senders.
    pub arrivals: Line<AtomicU64>,
    /// Nonzero when a sender was held up for want of room. Set by senders, cleared by the rank.
    pub attention: Line<AtomicU64>,
}

impl Doorbell {
    /// The wake-ups so far: to be sampled before looking for what would make a sleep needless.
    #[inline]
    pub fn seen(&self) -> u64 {
        // Acquire: what was stored before the count is there to be looked at.
        self.wakes.load(Ordering::Acquire)
    }

    /// Sleeps: says so, makes the `barrier`, asks `pending` whether there is something after all,
    /// and if not calls `wait`, which is to sleep while the word is as `seen` and to be ended by
    /// what [`Doorbell::wake`] calls. `None` if there was something.
    pub fn sleep<T>(
        &self,
        barrier: impl FnOnce() -> bool,
        pending: impl FnOnce() -> bool,
        wait: impl FnOnce(&AtomicU64, bool) -> T,
    ) -> Option<T> {
        // A swap, though nobody asks what was there: it comes after the swap of a late waker for
        // all to see, also in loom's order of stores.
        self.sleeping.swap(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let sure = barrier();
        let ended = (!pending()).then(|| wait(&self.wakes, sure));
        self.sleeping.store(0, Ordering::Relaxed);
        ended
    }

    /// Wakes the rank if it sleeps; if it is only about to look, makes it look once more. `call`
    /// ends the sleeps on a word.
    pub fn wake(&self, call: impl FnOnce(&AtomicU64)) {
        self.wakes.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if self.sleeping.swap(0, Ordering::SeqCst) != 0 {
            self.wake_unasked(call);
        }
    }

    /// Wakes the rank whatever its doorbell says: for what happens once and must not be missed.
    pub fn wake_unasked(&self, call: impl FnOnce(&AtomicU64)) {
        self.wakes.fetch_add(1, Ordering::SeqCst);
        call(&self.wakes);
    }
}
