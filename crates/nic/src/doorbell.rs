//! How a sleeping rank is woken, and why no wake-up is lost.
//!
//! Two kinds of events end a rank's wait.
//!
//! *A record in its own segment.* The sender stores the record, then loads `sleeping`, without a
//! barrier in between. The sleeper executes the barrier for both sides:
//!
//! ```text
//!   sender                               sleeper
//!   P: record published (release)        S: sleeping = 1
//!   L: load sleeping                     B: barrier on every processor running a rank
//!                                        R: check for records once more
//!                                        F: sleep, if wakes == seen
//! ```
//!
//! B takes effect somewhere in the sender's program order. If it is after P, R sees the record and
//! the rank stays awake. If it is before P, hence before L, L sees S and the sender wakes the rank.
//! A sender that is not running has passed a full barrier in the context switch, which is a B
//! before or after P. (The compiler must leave L after P too; no current compiler reorders
//! atomics.)
//!
//! *A word in another rank's segment*, such as room in a ring, or an end in the registry. Here the
//! waker always increments `wakes`, whether or not the target sleeps. The sleeper sampled `seen`
//! before its caller polled. An increment before the sample is followed by that poll; one after it
//! is detected at the start of the next wait, or by F. Waker: increment, fence, load `sleeping`;
//! sleeper: store `sleeping`, fence, F; one sees the other.
//!
//! *A waker that clears `sleeping` increments `wakes` once more*, and only then calls the kernel.
//! It clears the flag so that a burst of messages costs one system call. But it may be late: its
//! first increment may belong to an event that the rank saw long ago, and the rank may be about to
//! sleep again. If that sleep began with the flag cleared and the count as sampled, no later waker
//! would detect it. The cleared flag was set after the sample, so the second increment is after it
//! too: either F detects it, or the rank is in the kernel's queue and the call wakes it.
//!
//! A waker may die between the clearing and the call. The sleeper then wakes when its bounded sleep
//! ends, or when the death is announced, which wakes every rank unconditionally.
//!
//! `tests/loom_doorbell.rs` models all of this, and shows that the model fails without the second
//! increment.

use crate::sync::{AtomicU64, Line, Ordering, fence};

/// Bit of the attention word: a sender found no room.
pub const HELD_UP: u64 = 1;

/// Bit of the attention word: a rank asks this one to post to the status ring that its table names.
pub const ASKED_TO_FOLLOW: u64 = 2;

/// The words by which a sleeping rank is woken.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Doorbell {
    /// Nonzero while the rank sleeps or is about to. Set by the rank, cleared by its waker.
    pub sleeping: Line<AtomicU64>,
    /// Counts wake-ups; the word that a sleeping rank waits on. Incremented by wakers.
    pub wakes: Line<AtomicU64>,
    /// The latest arrival time used; see `hosted::send`. Written by senders.
    pub arrivals: Line<AtomicU64>,
    /// Why the rank must act: [`HELD_UP`], [`ASKED_TO_FOLLOW`]. Set by others, cleared by the rank.
    pub attention: Line<AtomicU64>,
}

impl Doorbell {
    /// The number of wake-ups so far. Sample it before the last check that precedes a sleep.
    #[inline]
    pub fn seen(&self) -> u64 {
        // Acquire: stores before the increment are visible to that check.
        self.wakes.load(Ordering::Acquire)
    }

    /// Begins a sleep: sets the flag, executes the `barrier`, and calls `pending`. Returns `None`
    /// if that is true: then there is no sleep. Otherwise returns the result of `barrier`. The
    /// caller now sleeps while the word [`Doorbell::wakes`] equals the value that it has `seen`,
    /// until [`Doorbell::wake`]'s `call` ends that, and then calls [`Doorbell::end_sleep`]. Other
    /// threads of the rank may use its port meanwhile.
    pub fn begin_sleep(
        &self,
        barrier: impl FnOnce() -> bool,
        pending: impl FnOnce() -> bool,
    ) -> Option<bool> {
        // A swap, though the old value is unused: every thread sees it ordered after the swap of a
        // late waker, also in loom's order of stores.
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

    /// Wakes the rank if it sleeps; if it is about to sleep, makes it check once more. `call` ends
    /// the sleeps on a word.
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
