//! How a sleeping rank is woken, and why no wake-up is lost.
//!
//! Two kinds of events end a rank's wait.
//!
//! *A record in its own segment.* The sender stores the record, then loads `sleeping`, without a
//! barrier in between. The sleeper makes the barrier for both:
//!
//! ```text
//!   sender                               sleeper
//!   P: record published (release)        S: sleeping = 1
//!   L: load sleeping                     B: barrier on every processor running a rank
//!                                        R: check for records once more
//!                                        F: sleep, if wakes == seen
//! ```
//!
//! B takes effect somewhere in the sender's program order. After P: R sees the record and the rank
//! stays awake. Before P, hence before L: L sees S and the sender wakes it. A sender that is not
//! running has passed a full barrier in the context switch, which is a B before or after P. (The
//! compiler must leave L after P as well; none of today's reorders atomic accesses.)
//!
//! *A word in another rank's segment*, such as room in a ring, or an end in the registry. Here the
//! waker always increments `wakes`, whether or not the target sleeps. The sleeper sampled `seen`
//! before its caller polled. An increment before the sample is followed by that poll; one after it
//! is detected at the start of the next wait, or by F. Waker: increment, fence, load `sleeping`;
//! sleeper: store `sleeping`, fence, F; one of the two sees the other.
//!
//! *A waker that clears `sleeping` increments `wakes` once more*, and only then calls the kernel.
//! It clears the flag so that a burst of messages costs one call. But it may be late: its first
//! increment belongs to an event that the rank has seen long ago, and the rank is about to sleep
//! again. If that sleep began with the flag cleared and the count as sampled, no later waker would
//! know of it. The flag that was cleared was set after the sample, and so is the second increment:
//! either F finds it, or the rank is in the kernel's queue and the call wakes it.
//!
//! A waker may die between clearing and calling. The sleeper then wakes when its bounded sleep
//! ends, or when the death is announced, which wakes every rank unconditionally.
//!
//! `tests/loom_doorbell.rs` models all of this, and shows that the model fails without the second
//! increment.

use crate::sync::{AtomicU64, Line, Ordering, fence};

/// In the word of attention: a sender found no room.
pub const HELD_UP: u64 = 1;

/// In the word of attention: a rank wants this one to post to the status ring that its table says.
pub const ASKED_TO_FOLLOW: u64 = 2;

/// How a sleeping rank is woken.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Doorbell {
    /// Nonzero while the rank sleeps or is about to. Set by the rank, cleared by its waker.
    pub sleeping: Line<AtomicU64>,
    /// Counts wake-ups; the word that a sleeping rank waits on. Incremented by wakers.
    pub wakes: Line<AtomicU64>,
    /// The latest arrival time used; see `hosted::send`. Written by senders.
    pub arrivals: Line<AtomicU64>,
    /// What the rank shall look at: [`HELD_UP`], [`ASKED_TO_FOLLOW`]. Set by others, cleared by it.
    pub attention: Line<AtomicU64>,
}

impl Doorbell {
    /// The wake-ups so far: to be sampled before the last check that precedes a sleep.
    #[inline]
    pub fn seen(&self) -> u64 {
        // Acquire: what was stored before the increment is visible to that check.
        self.wakes.load(Ordering::Acquire)
    }

    /// Begins a sleep: sets the flag, makes the `barrier`, and calls `pending`. `None` if that is
    /// true: there is no sleep. Else what `barrier` said. The caller now sleeps while the word
    /// [`Doorbell::wakes`] equals what it has `seen`, until [`Doorbell::wake`]'s `call` ends that,
    /// and then calls [`Doorbell::end_sleep`]. Other threads of the rank may use its port
    /// meanwhile.
    pub fn begin_sleep(
        &self,
        barrier: impl FnOnce() -> bool,
        pending: impl FnOnce() -> bool,
    ) -> Option<bool> {
        // A swap, though the old value is unused: it is ordered after the swap of a late waker for
        // all to see, in loom's order of stores too.
        self.sleeping.swap(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let sure = barrier();
        if pending() {
            self.end_sleep();
            return None;
        }
        Some(sure)
    }

    /// Ends a sleep that has begun.
    pub fn end_sleep(&self) {
        self.sleeping.store(0, Ordering::Relaxed);
    }

    /// Wakes the rank if it sleeps; if it is about to, makes it check once more. `call` ends the
    /// sleeps on a word.
    pub fn wake(&self, call: impl FnOnce(&AtomicU64)) {
        self.wakes.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if self.sleeping.swap(0, Ordering::SeqCst) != 0 {
            self.wake_unasked(call);
        }
    }

    /// Wakes the rank unconditionally: for events that happen once and must not be missed.
    pub fn wake_unasked(&self, call: impl FnOnce(&AtomicU64)) {
        self.wakes.fetch_add(1, Ordering::SeqCst);
        call(&self.wakes);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_a_rank_that_sleeps_is_called() {
        for (pending, ends, calls) in [(true, false, 0), (false, true, 0), (false, false, 1)] {
            let bell = Doorbell::default();
            assert_eq!(bell.begin_sleep(|| true, || pending).is_none(), pending);
            if ends {
                bell.end_sleep();
            }
            let mut called = 0;
            bell.wake(|_| called += 1);
            bell.wake(|_| called += 1);
            assert_eq!(called, calls, "pending {pending}, ended {ends}");
        }
    }
}
