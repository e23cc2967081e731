//! Threads of one rank: one is inside, one attends, the others sleep.
//!
//! A rank's state is for one thread at a time. [`Gate`] is the lock around it. A thread that waits
//! gives the lock up, and then either attends or sleeps:
//!
//! ```text
//!   nobody attends    it attends: polls for the whole rank, and sleeps on the rank's doorbell
//!   somebody does     it notes its want in the ThreadCrew and sleeps on its own word, its Berth
//! ```
//!
//! Who finds, under the gate, that what another wants has come calls it. Whoever ends a wait hands
//! over: if nobody attends then, one of those who sleep is called, and attends.
//!
//! **No call is lost**: the word of a berth is cleared under the gate before the thread leaves it,
//! and set under the gate by its caller, so the kernel's comparison of the word finds it. **No rank
//! is unattended** while the gate is free: somebody attends, nobody sleeps, or one that slept has
//! been called and is on its way. It attends, or ends its wait and so hands over in turn.
//!
//! A *spare* thread, which waits for nothing, attends while no other one does:
//!
//! ```text
//!   spare attends ── a wait begins: claims ──► the spare is woken, and steps down
//!        ▲                                             │
//!        '── nobody attends, nobody sleeps ◄── lies down until the last wait hands over
//! ```
//!
//! While it attends nobody else sleeps: a thread that waits then polls until it has stepped down.
//! So whoever sleeps is called by a thread that knows of all wants.
//!
//! The attendant's sleep on the doorbell is announced there, for one thread. A thread that sleeps
//! on the same doorbell *inside* of the gate, as a call does that waits for another host, takes
//! that announcement away when it gets up. Before it leaves it therefore calls the attendant, which
//! sleeps anew ([`ThreadCrew::call_from_bell`]).
//!
//! `tests/loom_threads.rs` models it, and shows that threads sleep for ever if the last step, the
//! hand-off, is left out, or that call.

use std::sync::Arc;

use crate::sync::{AtomicU32, Ordering};

/// Nobody is inside.
const FREE: u32 = 0;
/// Somebody is.
const TAKEN: u32 = 1;
/// Somebody is, and others may sleep until the word changes.
const WANTED: u32 = 2;

/// Looks at a gate that is taken before the sleep: calls are short.
#[cfg(not(loom))]
const LOOKS: u32 = 100;

/// The lock around a rank.
#[derive(Debug, Default)]
pub struct Gate(AtomicU32);

impl Gate {
    /// A gate with nobody inside.
    #[cfg(not(loom))]
    pub const fn new() -> Gate {
        Gate(AtomicU32::new(FREE))
    }

    /// Goes in, when nobody is. `sleep` sleeps while a word has a value.
    #[inline]
    pub fn enter(&self, sleep: impl Fn(&AtomicU32, u32)) {
        let free = self.0.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed);
        if free.is_err() {
            self.enter_later(sleep);
        }
    }

    #[cold]
    fn enter_later(&self, sleep: impl Fn(&AtomicU32, u32)) {
        // A thread that has slept cannot know whether it was the only one.
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

    /// Goes out. `wake` ends one sleep on a word.
    #[inline]
    pub fn leave(&self, wake: impl FnOnce(&AtomicU32)) {
        if self.0.swap(FREE, Ordering::Release) == WANTED {
            wake(&self.0);
        }
    }

    /// Whether others want to go in. For callers inside.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed) == WANTED
    }
}

/// Where a thread sleeps until it is called.
#[derive(Debug, Default)]
pub struct Berth(AtomicU32);

impl Berth {
    /// Whether the thread has been called since it lay down.
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

    /// The next sleep is for the next call. For the thread that sleeps here, under the gate.
    pub fn make(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Who attends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attendant {
    /// The wait of this number.
    Wait(u64),
    /// The spare thread.
    Spare,
}

/// The threads of a rank that wait: to be used under the [`Gate`] alone. `W` is what they want.
#[derive(Debug)]
pub struct ThreadCrew<W> {
    asleep: Vec<(Arc<Berth>, W)>,
    attendant: Option<Attendant>,
    /// The attendant sleeps on the doorbell, and has not been called: what it wants.
    on_bell: Option<W>,
    /// The wait that wants to attend in place of the spare thread.
    claim: Option<u64>,
    /// Where the spare thread sleeps until nobody attends.
    spare: Option<Arc<Berth>>,
}

impl<W> Default for ThreadCrew<W> {
    fn default() -> ThreadCrew<W> {
        let (asleep, attendant, on_bell) = (Vec::new(), None, None);
        ThreadCrew { asleep, attendant, on_bell, claim: None, spare: None }
    }
}

impl<W> ThreadCrew<W> {
    /// Whether wait number `me` attends from here on: it did, or nobody does.
    pub fn attend(&mut self, me: u64) -> bool {
        *self.attendant.get_or_insert(Attendant::Wait(me)) == Attendant::Wait(me)
    }

    /// Who attends.
    pub fn attendant(&self) -> Option<Attendant> {
        self.attendant
    }

    /// Wait number `me` wants to attend in place of the spare thread, if that does. Whether it
    /// does: then it is to be woken, if this is the `first` such claim, and `me` is not to sleep.
    pub fn claim(&mut self, me: u64) -> Option<ClaimOrder> {
        let order = self.claim.map_or(ClaimOrder::First, |_| ClaimOrder::Later);
        (self.attendant == Some(Attendant::Spare)).then(|| {
            self.claim.get_or_insert(me);
            order
        })
    }

    /// Whether the spare thread attends from here on: nobody else waits, as far as is known here.
    /// If it did, and a wait has claimed that, it does no more.
    pub fn attend_as_spare(&mut self) -> bool {
        let is_free = matches!(self.attendant, None | Some(Attendant::Spare));
        let attends = is_free && self.claim.is_none() && self.asleep.is_empty();
        match attends {
            true => self.attendant = Some(Attendant::Spare),
            false => _ = self.attendant.take_if(|attendant| *attendant == Attendant::Spare),
        }
        attends
    }

    /// The spare thread, which does not attend, is about to sleep until nobody else does.
    pub fn lie_down_as_spare(&mut self, berth: &Arc<Berth>) {
        berth.make();
        self.spare = Some(Arc::clone(berth));
    }

    /// It sleeps no more, whether or not it was called.
    pub fn get_up_as_spare(&mut self) {
        self.spare = None;
    }

    /// There is no spare thread any more. Nobody need be called: while it attends nobody sleeps.
    pub fn end_spare(&mut self) {
        self.attendant.take_if(|attendant| *attendant == Attendant::Spare);
        self.spare = None;
    }

    /// The attendant is about to sleep on the doorbell.
    pub fn sleep_on_bell(&mut self, wants: W) {
        self.on_bell = Some(wants);
    }

    /// It sleeps there no more, whether or not it was called.
    pub fn get_up_from_bell(&mut self) {
        self.on_bell = None;
    }

    /// Whether the attendant sleeps on the doorbell and has not been called.
    #[inline]
    pub fn is_on_bell(&self) -> bool {
        self.on_bell.is_some()
    }

    /// Whether the attendant sleeps on the doorbell and `is_due`, given what it wants. Then the
    /// caller is to end that sleep, whatever the doorbell says of it.
    pub fn call_from_bell(&mut self, is_due: impl FnOnce(&W) -> bool) -> bool {
        self.on_bell.take_if(|wants| is_due(wants)).is_some()
    }

    /// What those who sleep in their berths want.
    pub fn wants(&self) -> impl Iterator<Item = &W> {
        self.asleep.iter().map(|(_, wants)| wants)
    }

    /// A thread is about to sleep until it is called.
    pub fn lie_down(&mut self, berth: &Arc<Berth>, wants: W) {
        berth.make();
        self.asleep.push((Arc::clone(berth), wants));
    }

    /// A thread sleeps no more, whether or not it was called.
    pub fn get_up(&mut self, berth: &Arc<Berth>) {
        self.asleep.retain(|(other, _)| !Arc::ptr_eq(other, berth));
    }

    /// Calls those whose wants are met. `wake` ends the sleeps on a word.
    pub fn call(&mut self, is_met: impl Fn(&W) -> bool, wake: impl Fn(&AtomicU32)) {
        self.asleep.retain(|(berth, wants)| {
            let stays = !is_met(wants);
            if !stays {
                berth.call(&wake);
            }
            stays
        });
    }

    /// Wait number `me` is over: if nobody attends now, one of those who sleep is called to, or
    /// else the spare thread.
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

/// Whether somebody has claimed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimOrder {
    /// Nobody has.
    First,
    /// Somebody has.
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
        // The other claim is over before the spare thread comes: it steps down all the same.
        crew.hand_over(2, |_| panic!("the spare thread attends"));
        assert!(!crew.attend_as_spare());
        assert_eq!((crew.attendant(), crew.claim(1)), (None, None));
        assert!(crew.attend(1));
        crew.lie_down_as_spare(&berth);
        assert!(!crew.attend_as_spare());
        crew.hand_over(1, |_| {});
        assert!(berth.is_called() && crew.attend_as_spare());
        crew.get_up_as_spare();
        // A claim that is over before the spare thread comes is none.
        assert_eq!(crew.claim(3), Some(ClaimOrder::First));
        crew.hand_over(3, |_| {});
        assert!(crew.attend_as_spare());
        // Of two waits that sleep the last one calls it.
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
