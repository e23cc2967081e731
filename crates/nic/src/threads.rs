//! Threads of one rank: one holds the gate, one attends, the others sleep.
//!
//! Only one thread at a time may use a rank's state. [`Gate`] is the lock around it. A thread that
//! waits releases the lock, and then either attends or sleeps:
//!
//! ```text
//!   no thread attends   it attends: polls for the whole rank, and sleeps on the rank's doorbell
//!   one attends         it records what it awaits in the ThreadCrew and sleeps on its own word,
//!                       its Berth
//! ```
//!
//! A thread that finds, under the gate, what another one awaits, calls that thread. A thread that
//! ends a wait hands over: if none attends then, a sleeper is called, and attends.
//!
//! **No call is lost**: the word of a berth is cleared under the gate before the thread leaves the
//! gate, and set under the gate by its caller, so the kernel's comparison of the word detects it.
//! **No rank is unattended** while the gate is free: a thread attends, or no thread sleeps, or one
//! that slept has been called and is about to run. It attends, or ends its wait and hands over.
//!
//! A *spare* thread, which waits for nothing, attends while no other thread does:
//!
//! ```text
//!   spare attends ── a wait begins: claims ──► the spare is woken, and stops attending
//!        ▲                                             │
//!        '── none attends, none sleeps ◄── it sleeps until the last wait hands over
//! ```
//!
//! While the spare attends no other thread sleeps: a thread that waits then polls until the spare
//! has stopped. So a sleeper is called by a thread that knows what all others await.
//!
//! The attendant's sleep on the doorbell is announced there, for one thread. Another thread may
//! sleep on the same doorbell while it holds the gate, as in a call that waits for another host. It
//! removes that announcement when it wakes. So before it leaves the gate it calls the attendant,
//! which sleeps anew ([`ThreadCrew::call_from_bell`]).
//!
//! `tests/loom_threads.rs` models it, and shows that threads sleep for ever without the hand-off,
//! or without that call.

use std::sync::Arc;

use crate::sync::{AtomicU32, Ordering};

/// No thread holds the gate.
const FREE: u32 = 0;
/// A thread holds it.
const TAKEN: u32 = 1;
/// A thread holds it, and others may sleep until the word changes.
const WANTED: u32 = 2;

/// Polls of a taken gate before the sleep: calls are short.
#[cfg(not(loom))]
const LOOKS: u32 = 100;

/// The lock around a rank.
#[derive(Debug, Default)]
pub struct Gate(AtomicU32);

impl Gate {
    /// A free gate.
    #[cfg(not(loom))]
    pub const fn new() -> Gate {
        Gate(AtomicU32::new(FREE))
    }

    /// Takes the gate once it is free. `sleep` sleeps while a word has a value.
    #[inline]
    pub fn enter(&self, sleep: impl Fn(&AtomicU32, u32)) {
        let free = self.0.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed);
        if free.is_err() {
            self.enter_later(sleep);
        }
    }

    #[cold]
    fn enter_later(&self, sleep: impl Fn(&AtomicU32, u32)) {
        // A thread that has slept cannot know whether it was the only sleeper.
        while self.0.swap(WANTED, Ordering::Acquire) != FREE {
            if !self.is_free_soon() {
                sleep(&self.0, WANTED);
            }
        }
    }

    #[cfg(not(loom))]
    fn is_free_soon(&self) -> bool {
        (0..LOOKS).any(|_| {
            std::hint::spin_loop();
            self.0.load(Ordering::Relaxed) == FREE
        })
    }

    #[cfg(loom)]
    fn is_free_soon(&self) -> bool {
        false
    }

    /// Releases the gate. `wake` ends one sleep on a word.
    #[inline]
    pub fn leave(&self, wake: impl FnOnce(&AtomicU32)) {
        if self.0.swap(FREE, Ordering::Release) == WANTED {
            wake(&self.0);
        }
    }

    /// Whether other threads wait for the gate. For its holder.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed) == WANTED
    }
}

/// The word on which a thread sleeps until it is called.
#[derive(Debug, Default)]
pub struct Berth(AtomicU32);

impl Berth {
    /// Whether the thread has been called since its last [`Berth::make`].
    #[inline]
    pub fn is_called(&self) -> bool {
        self.0.load(Ordering::Acquire) != 0
    }

    /// Sleeps unless the thread has been called. `sleep` sleeps while a word has a value.
    pub fn sleep(&self, sleep: impl FnOnce(&AtomicU32, u32)) {
        if !self.is_called() {
            sleep(&self.0, 0);
        }
    }

    /// Ends the sleep.
    pub fn call(&self, wake: impl FnOnce(&AtomicU32)) {
        self.0.store(1, Ordering::Release);
        wake(&self.0);
    }

    /// Prepares the next sleep, for the next call. For the thread that sleeps here, under the gate.
    pub fn make(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// The thread that attends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attendant {
    /// The thread of the wait with this number.
    Wait(u64),
    /// The spare thread.
    Spare,
}

/// The waiting threads of a rank: use it only under the [`Gate`]. `W` is what a thread awaits.
#[derive(Debug)]
pub struct ThreadCrew<W> {
    asleep: Vec<(Arc<Berth>, W)>,
    attendant: Option<Attendant>,
    /// What the attendant awaits, if it sleeps on the doorbell and has not been called.
    on_bell: Option<W>,
    /// The wait that claims to attend in place of the spare thread.
    claim: Option<u64>,
    /// The berth where the spare thread sleeps until no thread attends.
    spare: Option<Arc<Berth>>,
}

impl<W> Default for ThreadCrew<W> {
    fn default() -> ThreadCrew<W> {
        let (asleep, attendant, on_bell) = (Vec::new(), None, None);
        ThreadCrew { asleep, attendant, on_bell, claim: None, spare: None }
    }
}

impl<W> ThreadCrew<W> {
    /// Whether the thread of wait `me` attends from now on: it did already, or no thread does.
    pub fn attend(&mut self, me: u64) -> bool {
        *self.attendant.get_or_insert(Attendant::Wait(me)) == Attendant::Wait(me)
    }

    /// The thread that attends.
    pub fn attendant(&self) -> Option<Attendant> {
        self.attendant
    }

    /// Claims, for wait `me`, to attend in place of the spare thread. `None`: the spare thread does
    /// not attend. Otherwise `me` must not sleep, and the first claimer must wake the spare thread.
    pub fn claim(&mut self, me: u64) -> Option<ClaimOrder> {
        let order = self.claim.map_or(ClaimOrder::First, |_| ClaimOrder::Later);
        (self.attendant == Some(Attendant::Spare)).then(|| {
            self.claim.get_or_insert(me);
            order
        })
    }

    /// Whether the spare thread attends from now on: no other thread attends or sleeps here. If it
    /// attended and a wait has claimed that, it stops.
    pub fn attend_as_spare(&mut self) -> bool {
        let is_free = matches!(self.attendant, None | Some(Attendant::Spare));
        let attends = is_free && self.claim.is_none() && self.asleep.is_empty();
        match attends {
            true => self.attendant = Some(Attendant::Spare),
            false => _ = self.attendant.take_if(|attendant| *attendant == Attendant::Spare),
        }
        attends
    }

    /// Records that the spare thread is about to sleep until no thread attends. It must not attend.
    pub fn lie_down_as_spare(&mut self, berth: &Arc<Berth>) {
        berth.make();
        self.spare = Some(Arc::clone(berth));
    }

    /// Records that the spare thread no longer sleeps, whether or not it was called.
    pub fn get_up_as_spare(&mut self) {
        self.spare = None;
    }

    /// Records that the spare thread has ended. No call is needed: none sleeps while it attends.
    pub fn end_spare(&mut self) {
        self.attendant.take_if(|attendant| *attendant == Attendant::Spare);
        self.spare = None;
    }

    /// Records that the attendant is about to sleep on the doorbell.
    pub fn sleep_on_bell(&mut self, wants: W) {
        self.on_bell = Some(wants);
    }

    /// Records that the attendant no longer sleeps there, whether or not it was called.
    pub fn get_up_from_bell(&mut self) {
        self.on_bell = None;
    }

    /// Whether the attendant sleeps on the doorbell and has not been called.
    #[inline]
    pub fn is_on_bell(&self) -> bool {
        self.on_bell.is_some()
    }

    /// Whether the attendant sleeps on the doorbell and `is_due` returns true for what it awaits.
    /// Then the caller must end that sleep, whatever the doorbell's words are.
    pub fn call_from_bell(&mut self, is_due: impl FnOnce(&W) -> bool) -> bool {
        self.on_bell.take_if(|wants| is_due(wants)).is_some()
    }

    /// What the threads that sleep in their berths await.
    pub fn wants(&self) -> impl Iterator<Item = &W> {
        self.asleep.iter().map(|(_, wants)| wants)
    }

    /// Records that a thread is about to sleep until it is called.
    pub fn lie_down(&mut self, berth: &Arc<Berth>, wants: W) {
        berth.make();
        self.asleep.push((Arc::clone(berth), wants));
    }

    /// Records that a thread no longer sleeps, whether or not it was called.
    pub fn get_up(&mut self, berth: &Arc<Berth>) {
        self.asleep.retain(|(other, _)| !Arc::ptr_eq(other, berth));
    }

    /// Calls the threads whose awaited event has arrived. `wake` ends the sleeps on a word.
    pub fn call(&mut self, is_met: impl Fn(&W) -> bool, wake: impl Fn(&AtomicU32)) {
        self.asleep.retain(|(berth, wants)| {
            let stays = !is_met(wants);
            if !stays {
                berth.call(&wake);
            }
            stays
        });
    }

    /// Ends wait `me`: if no thread attends then, calls one of the sleepers, or else the spare
    /// thread.
    pub fn hand_over(&mut self, me: u64, wake: impl FnOnce(&AtomicU32)) {
        self.claim.take_if(|claim| *claim == me);
        self.attendant.take_if(|attendant| *attendant == Attendant::Wait(me));
        if self.attendant.is_some() {
            return;
        }
        if !self.asleep.is_empty() {
            let (berth, _) = self.asleep.remove(0);
            berth.call(wake);
        } else if let Some(berth) = self.spare.take() {
            berth.call(wake);
        }
    }
}

/// Whether another wait has claimed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimOrder {
    /// None has.
    First,
    /// Another one has.
    Later,
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_attends_and_the_next_is_called_when_it_ends() {
        let mut crew = ThreadCrew::default();
        let berths = [(); 3].map(|()| Arc::new(Berth::default()));
        assert!(crew.attend(1) && crew.attend(1) && !crew.attend(2));
        (0..).zip(&berths).for_each(|(number, berth)| crew.lie_down(berth, number));
        crew.call(|wants| *wants == 1, |_| {});
        assert_eq!(berths.each_ref().map(|berth| berth.is_called()), [false, true, false]);
        crew.hand_over(2, |_| panic!("wait 1 attends"));
        crew.hand_over(1, |_| {});
        assert_eq!(berths.each_ref().map(|berth| berth.is_called()), [true, true, false]);
        assert!(crew.attend(3), "who was called need not be the first");
        crew.get_up(&berths[2]);
        crew.hand_over(3, |_| panic!("nobody sleeps"));
        assert_eq!(crew.wants().count(), 0);
    }

    #[test]
    fn a_thread_goes_in_when_the_other_is_out() {
        static GATE: Gate = Gate::new();
        let mut inside = 0;
        let shared = std::sync::Mutex::new(&mut inside);
        let sleep = |_: &AtomicU32, _: u32| std::thread::yield_now();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        GATE.enter(sleep);
                        **shared.try_lock().expect("one is inside") += 1;
                        GATE.leave(|_| {});
                    }
                });
            }
        });
        assert!(!GATE.is_wanted());
        assert_eq!(inside, 4000);
    }

    #[test]
    fn a_thread_sleeps_while_the_gate_is_taken() {
        let gate = Gate::new();
        assert!(gate.is_free_soon());
        gate.enter(|_, _| panic!("nobody is inside"));
        assert!(!gate.is_free_soon());
        let sleeps = std::cell::Cell::new(0);
        gate.enter(|word, value| {
            assert_eq!(word.load(Ordering::Relaxed), value);
            sleeps.set(sleeps.get() + 1);
            gate.leave(|_| {});
        });
        assert_eq!(sleeps.get(), 1);
    }

    #[test]
    fn the_spare_thread_attends_while_nobody_else_waits() {
        let mut crew = ThreadCrew::<()>::default();
        let berth = Arc::new(Berth::default());
        assert!(crew.attend_as_spare() && !crew.attend(1));
        assert_eq!(
            [crew.claim(1), crew.claim(2)],
            [Some(ClaimOrder::First), Some(ClaimOrder::Later)]
        );
        // The other claim ends before the spare thread runs: it stops attending all the same.
        crew.hand_over(2, |_| panic!("the spare thread attends"));
        assert!(!crew.attend_as_spare());
        assert_eq!((crew.attendant(), crew.claim(1)), (None, None));
        assert!(crew.attend(1));
        crew.lie_down_as_spare(&berth);
        assert!(!crew.attend_as_spare());
        crew.hand_over(1, |_| {});
        assert!(berth.is_called() && crew.attend_as_spare());
        crew.get_up_as_spare();
        // A claim that ends before the spare thread runs has no effect.
        assert_eq!(crew.claim(3), Some(ClaimOrder::First));
        crew.hand_over(3, |_| {});
        assert!(crew.attend_as_spare());
        // Of two sleeping waits, the last one calls the spare thread.
        assert!(crew.claim(4).is_some() && !crew.attend_as_spare() && crew.attend(4));
        let other = Arc::new(Berth::default());
        crew.lie_down(&other, ());
        crew.lie_down_as_spare(&berth);
        crew.hand_over(4, |_| {});
        assert!(other.is_called() && !berth.is_called());
        crew.hand_over(5, |_| {});
        assert!(berth.is_called());
    }

    #[test]
    fn a_berth_sleeps_until_it_is_called() {
        let (mut crew, berth) = (ThreadCrew::default(), Arc::new(Berth::default()));
        crew.lie_down(&berth, ());
        let mut slept = false;
        berth.sleep(|word, value| slept = word.load(Ordering::Relaxed) == value);
        assert!(slept);
        crew.call(|()| true, |_| {});
        berth.sleep(|_, _| panic!("it has been called"));
    }
}
