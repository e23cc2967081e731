//! Threads of one rank under every interleaving that loom can make.
//!
//! Run and bounded as `loom.rs` describes. A thread left asleep is a deadlock, which loom detects:
//! sleeps have no timeout here. The kernel's sleep on a word is modelled as in `loom_doorbell.rs`.
//! The model of the rank has the essentials of a real one: messages land in words that any thread
//! under the gate can read, and a bell wakes the attendant, if a flag is set.

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

/// The state under the gate: the waiting threads, and the messages that were taken in.
struct Inside {
    crew: ThreadCrew<usize>,
    here: [bool; 2],
    waits: u64,
}

/// The amount by which a message increments the counting word.
const MESSAGE: u32 = 1 << 16;

/// The amount by which a ring of the bell increments it.
const RING: u32 = 1;

/// The spare thread awaits no message.
const NOTHING: usize = usize::MAX;

struct ModelRank {
    gate: Gate,
    kernel: Kernel,
    inside: UnsafeCell<Inside>,
    /// Counts landed messages, by [`MESSAGE`], and rings of the bell. It is also the doorbell.
    landed: AtomicU32,
    /// Whether a thread sleeps on the bell, or is about to.
    sleeping: AtomicU32,
    /// Whether a wait that ends hands over, and whether the hand-over wakes the chosen thread.
    hands_over: bool,
    wakes: bool,
    /// Whether a thread that slept on the bell under the gate calls the sleeper outside.
    calls_back: bool,
    /// A lock that detects more than one thread under the gate.
    entered: Plain<()>,
}

// SAFETY: `inside` is accessed between `enter` and `leave` only, and loom checks that.
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
            // SAFETY: the caller holds the gate.
            act(unsafe { &mut *inside })
        })
    }

    /// Lands a message, from outside the rank.
    fn land(&self) {
        self.landed.fetch_add(MESSAGE, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if self.sleeping.swap(0, Ordering::SeqCst) != 0 {
            // Counted once more, as a doorbell does: the flag may announce a later sleep.
            self.ring();
        }
    }

    /// Announces a sleep on the bell, under the gate.
    fn set_bell(&self) {
        self.sleeping.swap(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Ends such an announcement.
    fn clear_bell(&self) {
        self.sleeping.store(0, Ordering::Relaxed);
    }

    /// The attendant's announced sleep on the bell, outside the gate.
    fn sleep_on_bell(&self, wanted: usize, seen: u32) {
        self.set_bell();
        self.under_gate(|inside| inside.crew.sleep_on_bell(wanted));
        self.leave();
        self.kernel.sleep(&self.landed, seen);
        self.enter();
        self.under_gate(|inside| inside.crew.get_up_from_bell());
        self.clear_bell();
    }

    /// A call that sleeps on the bell under the gate. The sleep times out at once here.
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

    /// Rings the bell, whatever the flag's value.
    fn ring(&self) {
        self.landed.fetch_add(RING, Ordering::Release);
        self.kernel.wake();
    }

    /// Attends while no other thread does, until both messages have been taken in.
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
                // The real spare thread sleeps for a while.
                self.leave();
                thread::yield_now();
                self.enter();
            }
        }
        self.under_gate(|inside| inside.crew.end_spare());
        self.leave();
    }

    /// Takes in landed messages: message `n` is for thread `n`. Calls the threads that wait for
    /// them.
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
                // The spare thread is woken, and stops attending; meanwhile this one polls.
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

/// Two threads wait for a message each; the messages land in any order relative to their sleeps.
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

/// A thread waits for the first message. The second one lands during that wait, or when no thread
/// waits; then the spare thread takes it in.
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

/// A thread waits for a message, while another one's call sleeps on the same bell.
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

/// A gate that loses its third state: a thread that leaves wakes no other.
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
