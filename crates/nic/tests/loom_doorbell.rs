//! Sleeping and waking under every interleaving that loom can make.
//!
//! Run and bounded as `loom.rs` describes. A rank left asleep is a deadlock, which loom detects:
//! sleeps have no timeout here. The kernel's sleep on a word is modelled after Linux: the sleeper
//! joins the queue, then compares the word; the waker changes the word, then checks the queue.

#![cfg(loom)]
#![allow(clippy::unwrap_used)]

use hikyaku_nic::doorbell::Doorbell;
use hikyaku_nic::sync::{AtomicU64, Ordering, fence};
use loom::thread;
use std::sync::Arc;

use crate::loom::model;

/// A rank's doorbell, the words it may wait for, and the kernel.
struct ModelRank {
    bell: Doorbell,
    /// Records in the rank's own segment.
    records: AtomicU64,
    /// A word in another rank's segment.
    room: AtomicU64,
    /// Whether the rank is in the kernel's queue of `bell.wakes`.
    queued: AtomicU64,
    thread: thread::Thread,
}

impl ModelRank {
    /// The rank of this thread.
    fn new() -> Arc<ModelRank> {
        Arc::new(ModelRank {
            bell: Doorbell::default(),
            records: AtomicU64::new(0),
            room: AtomicU64::new(0),
            queued: AtomicU64::new(0),
            thread: thread::current(),
        })
    }

    /// Waits until `done`, as `shm` waits: samples, polls, sleeps.
    fn wait(&self, done: impl Fn(&ModelRank) -> bool) {
        let mut seen = self.bell.seen();
        while !done(self) {
            if self.bell.seen() == seen {
                // Loom has no barrier on all processors: the sender executes its half.
                let barrier = || {
                    fence(Ordering::SeqCst);
                    true
                };
                let pending = || self.records.load(Ordering::Acquire) != 0 && done(self);
                if self.bell.begin_sleep(barrier, pending).is_some() {
                    self.kernel_wait(&self.bell.wakes, seen);
                    self.bell.end_sleep();
                }
            }
            seen = self.bell.seen();
        }
    }

    /// Joins the queue, and stays if the word equals `seen`.
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
    fn send(&self, wake: fn(&ModelRank)) {
        self.records.fetch_add(1, Ordering::Release);
        // This processor's half of the sleeper's barrier.
        fence(Ordering::SeqCst);
        if self.bell.sleeping.load(Ordering::Relaxed) != 0 {
            wake(self);
        }
    }

    /// Makes room for the rank in another segment.
    fn make_room(&self, wake: fn(&ModelRank)) {
        self.room.fetch_add(1, Ordering::Release);
        wake(self);
    }
}

fn wake(rank: &ModelRank) {
    rank.bell.wake(|_| rank.kernel_wake());
}

/// Clears `sleeping` as [`Doorbell::wake`] does, but without the second increment.
fn wake_with_one_increment(rank: &ModelRank) {
    rank.bell.wakes.fetch_add(1, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    if rank.bell.sleeping.swap(0, Ordering::SeqCst) != 0 {
        rank.kernel_wake();
    }
}

/// Increments only if the rank sleeps, which would be enough for a record.
fn wake_only_if_asleep(rank: &ModelRank) {
    fence(Ordering::SeqCst);
    if rank.bell.sleeping.swap(0, Ordering::SeqCst) != 0 {
        rank.bell.wakes.fetch_add(1, Ordering::SeqCst);
        rank.kernel_wake();
    }
}

fn has_room(rank: &ModelRank) -> bool {
    rank.room.load(Ordering::Acquire) != 0
}

fn has_records(count: u64) -> impl Fn(&ModelRank) -> bool {
    move |rank| rank.records.load(Ordering::Acquire) == count
}

/// Room and then a record, by two wakers: the first may be late, in the rank's second sleep.
fn room_then_a_record(wake: fn(&ModelRank)) {
    let rank = ModelRank::new();
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

/// Room, and nothing else that could end the wait.
fn room_alone(wake: fn(&ModelRank)) {
    let rank = ModelRank::new();
    let waker = thread::spawn({
        let rank = rank.clone();
        move || rank.make_room(wake)
    });
    rank.wait(has_room);
    waker.join().unwrap();
}

/// Two records by two senders.
fn two_records(wake: fn(&ModelRank)) {
    let rank = ModelRank::new();
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
fn a_late_waker_leaves_no_rank_asleep() {
    model(|| room_then_a_record(wake));
}

#[test]
fn room_wakes_a_sleeper() {
    model(|| room_alone(wake));
}

#[test]
fn each_of_two_records_wakes_a_sleeper() {
    model(|| two_records(wake));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_missing_second_increment_is_detected() {
    model(|| room_then_a_record(wake_with_one_increment));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_conditional_increment_is_detected() {
    model(|| room_alone(wake_only_if_asleep));
}
