//! Sleeping and waking under every interleaving that loom can make of them.
//!
//! Run and bounded as `loom.rs` is, which says how. A rank that is left asleep is a deadlock,
//! which loom finds: sleeps have no limit here. The kernel's sleep on a word is modelled as Linux
//! does it: join the queue, then look whether the word is as seen; and for the waker, change the
//! word, then look who is queued.

#![cfg(loom)]
#![allow(clippy::unwrap_used)]

use hikyaku_nic::doorbell::Doorbell;
use hikyaku_nic::sync::{AtomicU64, Ordering, fence};
use loom::thread;
use std::sync::Arc;

/// Switches to another thread, in one execution, that the running thread did not ask for.
const PREEMPTIONS: usize = 3;

fn model(body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(PREEMPTIONS));
    builder.check(body);
}

/// A rank's doorbell, what it may wait for, and the kernel.
struct Rank {
    bell: Doorbell,
    /// Records in the rank's own segment.
    records: AtomicU64,
    /// A word in somebody else's segment.
    room: AtomicU64,
    /// Whether the rank is in the kernel's queue of `bell.wakes`.
    queued: AtomicU64,
    thread: thread::Thread,
}

impl Rank {
    /// The rank that this thread is.
    fn new() -> Arc<Rank> {
        Arc::new(Rank {
            bell: Doorbell::default(),
            records: AtomicU64::new(0),
            room: AtomicU64::new(0),
            queued: AtomicU64::new(0),
            thread: thread::current(),
        })
    }

    /// Waits until `done`, as `shm` waits: samples, looks, sleeps.
    fn wait(&self, done: impl Fn(&Rank) -> bool) {
        let mut seen = self.bell.seen();
        while !done(self) {
            if self.bell.seen() == seen {
                // The barrier on all processors, which loom has not: the sender makes its half.
                let barrier = || {
                    fence(Ordering::SeqCst);
                    true
                };
                let pending = || self.records.load(Ordering::Acquire) != 0 && done(self);
                self.bell.sleep(barrier, pending, |wakes, _| self.kernel_wait(wakes, seen));
            }
            seen = self.bell.seen();
        }
    }

    /// Joins the queue, and stays if the word is as seen.
    fn kernel_wait(&self, wakes: &AtomicU64, seen: u64) {
        self.queued.swap(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        while wakes.load(Ordering::Acquire) == seen && self.queued.load(Ordering::Acquire) != 0 {
            thread::park();
        }
        self.queued.swap(0, Ordering::SeqCst);
    }

    fn kernel_wake(&self) {
        fence(Ordering::SeqCst);
        if self.queued.swap(0, Ordering::SeqCst) != 0 {
            self.thread.unpark();
        }
    }

    /// Stores a record for the rank and wakes it if it sleeps.
    fn send(&self, wake: fn(&Rank)) {
        self.records.fetch_add(1, Ordering::Release);
        // The half of the sleeper's barrier that falls to this processor.
        fence(Ordering::SeqCst);
        if self.bell.sleeping.load(Ordering::Relaxed) != 0 {
            wake(self);
        }
    }

    /// Makes room for the rank in a segment that is not its own.
    fn make_room(&self, wake: fn(&Rank)) {
        self.room.fetch_add(1, Ordering::Release);
        wake(self);
    }
}

fn wake(rank: &Rank) {
    rank.bell.wake(|_| rank.kernel_wake());
}

/// Takes `sleeping` away as [`Doorbell::wake`] does, and does not count again.
fn wake_and_count_once(rank: &Rank) {
    rank.bell.wakes.fetch_add(1, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    if rank.bell.sleeping.swap(0, Ordering::SeqCst) != 0 {
        rank.kernel_wake();
    }
}

/// Counts only for who sleeps, as one might for a record.
fn wake_who_sleeps(rank: &Rank) {
    fence(Ordering::SeqCst);
    if rank.bell.sleeping.swap(0, Ordering::SeqCst) != 0 {
        rank.bell.wakes.fetch_add(1, Ordering::SeqCst);
        rank.kernel_wake();
    }
}

fn has_room(rank: &Rank) -> bool {
    rank.room.load(Ordering::Acquire) != 0
}

fn has_records(count: u64) -> impl Fn(&Rank) -> bool {
    move |rank| rank.records.load(Ordering::Acquire) == count
}

/// Room and then a record, of two wakers: the first may be late and meet the second sleep.
fn room_then_a_record(wake: fn(&Rank)) {
    let rank = Rank::new();
    let wakers = [
        thread::spawn({
            let rank = rank.clone();
            move || rank.make_room(wake)
        }),
        thread::spawn({
            let rank = rank.clone();
            move || rank.send(wake)
        }),
    ];
    rank.wait(has_room);
    rank.wait(has_records(1));
    for waker in wakers {
        waker.join().unwrap();
    }
}

/// Room, and nothing else that would end the wait.
fn room_alone(wake: fn(&Rank)) {
    let rank = Rank::new();
    let waker = thread::spawn({
        let rank = rank.clone();
        move || rank.make_room(wake)
    });
    rank.wait(has_room);
    waker.join().unwrap();
}

/// Two records of two senders.
fn two_records(wake: fn(&Rank)) {
    let rank = Rank::new();
    let senders = [(); 2].map(|()| {
        let rank = rank.clone();
        thread::spawn(move || rank.send(wake))
    });
    rank.wait(|rank| rank.records.load(Ordering::Acquire) != 0);
    rank.wait(has_records(2));
    for sender in senders {
        sender.join().unwrap();
    }
}

#[test]
fn a_late_waker_leaves_nobody_asleep() {
    model(|| room_then_a_record(wake));
}

#[test]
fn room_is_not_slept_through() {
    model(|| room_alone(wake));
}

#[test]
fn of_two_records_none_is_slept_through() {
    model(|| two_records(wake));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_late_waker_that_counts_once_is_noticed() {
    model(|| room_then_a_record(wake_and_count_once));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_waker_that_counts_only_for_who_sleeps_is_noticed() {
    model(|| room_alone(wake_who_sleeps));
}
