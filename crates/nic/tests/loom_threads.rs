//! Threads of one rank under every interleaving that loom can make.
//!
//! Run and bounded as `loom.rs` describes. A thread left asleep is a deadlock, which loom finds:
//! sleeps have no timeout here. The kernel's sleep on a word is modelled as in `loom_doorbell.rs`.
//! The rank is modelled by what the real one has: messages land in words that any thread under the
//! gate can read, and a bell wakes who attends, if a flag says that somebody sleeps there.

#![cfg(loom)]
#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex as Plain};

use hikyaku_nic::sync::{AtomicU32, Ordering, fence};
use hikyaku_nic::threads::{Attendant, Berth, Gate, ThreadCrew};
use loom::cell::UnsafeCell;
use loom::sync::{Condvar, Mutex};
use loom::thread;

use crate::loom::bounded_model;

/// Limit of preemptive thread switches in one execution.
const PREEMPTIONS: usize = 2;

fn model(body: impl Fn() + Send + Sync + 'static) {
    bounded_model(PREEMPTIONS, body);
}

/// The kernel's sleeps on words: a lock, under which words are compared.
#[derive(Default)]
struct Kernel {
    lock: Mutex<()>,
    woken: Condvar,
}

impl Kernel {
    fn sleep(&self, word: &AtomicU32, value: u32) {
        let mut held = self.lock.lock().unwrap();
        while word.load(Ordering::Acquire) == value {
            held = self.woken.wait(held).unwrap();
        }
    }

    fn wake(&self) {
        drop(self.lock.lock().unwrap());
        self.woken.notify_all();
    }
}

/// What is under the gate: who waits, and the messages that were taken in.
struct Inside {
    crew: ThreadCrew<usize>,
    here: [bool; 2],
    waits: u64,
}

/// A message, in the word that counts them.
const MESSAGE: u32 = 1 << 16;

/// A ring of the bell, there.
const RING: u32 = 1;

/// What the spare thread wants.
const NOTHING: usize = usize::MAX;

struct ModelRank {
    gate: Gate,
    kernel: Kernel,
    inside: UnsafeCell<Inside>,
    /// Counts what has landed, by [`MESSAGE`], and rings of the bell: the doorbell, too.
    landed: AtomicU32,
    /// Somebody sleeps on the bell, or is about to.
    sleeping: AtomicU32,
    /// Whether a wait that ends hands over, and wakes to whom it does.
    hands_over: bool,
    wakes: bool,
    /// Whether who has slept on the bell inside of the gate calls who sleeps there outside.
    calls_back: bool,
    /// How often more than one was inside, to be sure.
    entered: Plain<()>,
}

// SAFETY: `inside` is touched between `enter` and `leave` only, and loom checks that.
unsafe impl Sync for ModelRank {}

// SAFETY: as above.
unsafe impl Send for ModelRank {}

impl ModelRank {
    fn new(hands_over: bool) -> Arc<ModelRank> {
        Arc::new(ModelRank {
            gate: Gate::default(),
            kernel: Kernel::default(),
            inside: UnsafeCell::new(Inside {
                crew: ThreadCrew::default(),
                here: [false; 2],
                waits: 0,
            }),
            landed: AtomicU32::new(0),
            sleeping: AtomicU32::new(0),
            hands_over,
            wakes: true,
            calls_back: true,
            entered: Plain::new(()),
        })
    }

    fn enter(&self) {
        self.gate.enter(|word, value| self.kernel.sleep(word, value));
    }

    fn leave(&self) {
        self.gate.leave(|_| self.kernel.wake());
    }

    fn under_gate<R>(&self, act: impl FnOnce(&mut Inside) -> R) -> R {
        let _one = self.entered.try_lock().expect("one is inside");
        self.inside.with_mut(|inside| {
            // SAFETY: the caller is inside.
            act(unsafe { &mut *inside })
        })
    }

    /// A message lands, from outside of the rank.
    fn land(&self) {
        self.landed.fetch_add(MESSAGE, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if self.sleeping.swap(0, Ordering::SeqCst) != 0 {
            // Counted once more, as a doorbell does: it may be the announcement of a later sleep.
            self.ring();
        }
    }

    /// Announces a sleep on the bell, inside of the gate.
    fn set_bell(&self) {
        self.sleeping.swap(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// The end of such a sleep.
    fn clear_bell(&self) {
        self.sleeping.store(0, Ordering::Relaxed);
    }

    /// The attendant's sleep on the bell, which it has announced, outside of the gate.
    fn sleep_on_bell(&self, wanted: usize, seen: u32) {
        self.set_bell();
        self.under_gate(|inside| inside.crew.sleep_on_bell(wanted));
        self.leave();
        self.kernel.sleep(&self.landed, seen);
        self.enter();
        self.under_gate(|inside| inside.crew.get_up_from_bell());
        self.clear_bell();
    }

    /// A call that sleeps on the bell inside of the gate. That sleep has a limit, here at once.
    fn call_that_waits_inside(&self) {
        self.enter();
        self.set_bell();
        self.clear_bell();
        let is_set = || self.sleeping.load(Ordering::Relaxed) != 0;
        let calls = |inside: &mut Inside| inside.crew.call_from_bell(|_| !is_set());
        if self.calls_back && self.under_gate(calls) {
            self.ring();
        }
        self.leave();
    }

    /// The bell alone, whatever the flag says.
    fn ring(&self) {
        self.landed.fetch_add(RING, Ordering::Release);
        self.kernel.wake();
    }

    /// Attends while nobody waits, until both messages are there: nobody else takes them in then.
    fn attend_as_spare(&self) {
        let berth = Arc::new(Berth::default());
        self.enter();
        loop {
            let attends = self.under_gate(|inside| inside.crew.attend_as_spare());
            if attends {
                let seen = self.progress();
                if self.under_gate(|inside| inside.here == [true; 2]) {
                    break;
                }
                self.sleep_on_bell(NOTHING, seen);
            } else if self.under_gate(|inside| {
                let is_wait = matches!(inside.crew.attendant(), Some(Attendant::Wait(_)));
                if is_wait {
                    inside.crew.lie_down_as_spare(&berth);
                }
                is_wait
            }) {
                self.leave();
                berth.sleep(|word, value| self.kernel.sleep(word, value));
                self.enter();
                self.under_gate(|inside| inside.crew.get_up_as_spare());
            } else {
                // The real one naps for a while.
                self.leave();
                thread::yield_now();
                self.enter();
            }
        }
        self.under_gate(|inside| inside.crew.end_spare());
        self.leave();
    }

    /// Takes in what has landed: message `n` is for thread `n`. Calls those who wait for it.
    fn progress(&self) -> u32 {
        let landed = self.landed.load(Ordering::Acquire);
        self.under_gate(|inside| {
            (0..(landed / MESSAGE) as usize).for_each(|at| inside.here[at] = true);
            let here = inside.here;
            inside.crew.call(|wanted| here[*wanted], |_| self.kernel.wake());
        });
        landed
    }

    /// Waits for message `n`, as a call of a thread does.
    fn wait(&self, wanted: usize) {
        self.enter();
        let me = self.under_gate(|inside| {
            inside.waits += 1;
            inside.waits
        });
        let berth = Arc::new(Berth::default());
        loop {
            let seen = self.progress();
            if self.under_gate(|inside| inside.here[wanted]) {
                break;
            }
            if self.under_gate(|inside| inside.crew.attend(me)) {
                self.sleep_on_bell(wanted, seen);
            } else if self.under_gate(|inside| inside.crew.claim(me)).is_some() {
                // The spare thread is woken, and steps down; meanwhile this one polls.
                self.ring();
                self.leave();
                thread::yield_now();
                self.enter();
            } else {
                self.under_gate(|inside| inside.crew.lie_down(&berth, wanted));
                self.leave();
                berth.sleep(|word, value| self.kernel.sleep(word, value));
                self.enter();
                self.under_gate(|inside| inside.crew.get_up(&berth));
            }
        }
        if self.hands_over {
            let wake = || {
                if self.wakes {
                    self.kernel.wake()
                }
            };
            self.under_gate(|inside| inside.crew.hand_over(me, |_| wake()));
        }
        self.leave();
    }
}

/// Two threads wait for a message each, which land in any order relative to their sleeps.
fn two_waits(hands_over: bool) {
    let rank = ModelRank::new(hands_over);
    let waits = [0, 1].map(|wanted| {
        let rank = rank.clone();
        thread::spawn(move || rank.wait(wanted))
    });
    rank.land();
    rank.land();
    for wait in waits {
        wait.join().unwrap();
    }
}

#[test]
fn no_thread_is_left_asleep() {
    model(|| two_waits(true));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_missing_hand_over_is_detected() {
    model(|| two_waits(false));
}

/// A thread waits for the first message, and the second one comes when nobody waits, or while it
/// does: the spare thread takes it in.
fn a_wait_and_a_spare(wakes: bool) {
    let mut rank = ModelRank::new(true);
    Arc::get_mut(&mut rank).unwrap().wakes = wakes;
    let spare = {
        let rank = rank.clone();
        thread::spawn(move || rank.attend_as_spare())
    };
    let wait = {
        let rank = rank.clone();
        thread::spawn(move || rank.wait(0))
    };
    rank.land();
    rank.land();
    wait.join().unwrap();
    spare.join().unwrap();
}

#[test]
fn the_spare_thread_attends_when_no_other_does() {
    model(|| a_wait_and_a_spare(true));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_spare_thread_that_is_not_called_is_detected() {
    model(|| a_wait_and_a_spare(false));
}

/// A thread waits for a message, and another one's call sleeps on the same bell meanwhile.
fn a_wait_and_a_call_that_waits_inside(calls_back: bool) {
    let mut rank = ModelRank::new(true);
    Arc::get_mut(&mut rank).unwrap().calls_back = calls_back;
    let wait = {
        let rank = rank.clone();
        thread::spawn(move || rank.wait(0))
    };
    rank.call_that_waits_inside();
    rank.land();
    wait.join().unwrap();
}

#[test]
fn a_call_that_waits_inside_leaves_nobody_deaf() {
    model(|| a_wait_and_a_call_that_waits_inside(true));
}

#[test]
#[should_panic(expected = "deadlock")]
fn an_attendant_that_is_not_called_back_is_detected() {
    model(|| a_wait_and_a_call_that_waits_inside(false));
}

/// A gate whose third state is lost: who leaves wakes nobody.
#[test]
#[should_panic(expected = "deadlock")]
fn a_gate_that_wakes_nobody_is_detected() {
    model(|| {
        let rank = ModelRank::new(true);
        let other = {
            let rank = rank.clone();
            thread::spawn(move || {
                rank.enter();
                rank.gate.leave(|_| {});
            })
        };
        rank.enter();
        rank.gate.leave(|_| {});
        other.join().unwrap();
    });
}
