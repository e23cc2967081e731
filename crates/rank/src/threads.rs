//! Several threads that use a rank at any time (MPI_THREAD_MULTIPLE).
//!
//! ```text
//!   call   Gate::enter ─► the rank, as if there were one thread ─► tell ─► Gate::leave
//!   wait   poll ─ nothing ─► tell ─► leave ─► attend or sleep ─► enter ─► poll ...
//! ```
//!
//! Only the thread inside the gate accesses a rank's state. A wait leaves the gate, so no borrow
//! may be held meanwhile: a wait is a loop over a future that holds no borrow between two polls,
//! and never a wait inside the engine. (Every wait of the engine checks [`Tasks::are_over`], which
//! is false from [`Communicator::share_among_threads`] on.) One of the waiting threads attends: it
//! polls the port and sleeps on the doorbell. The others sleep until the thread that completes
//! their operation calls them ([`hikyaku_nic::threads`] has that part, and its proof). While no
//! thread waits, a spare thread may attend (`spare.rs`).
//!
//! A window operation leaves the gate while it waits for an answer from another host. An operation
//! on a shared variable stays inside, since others' waits serve the same variable, and sleeps on
//! the doorbell itself (`far/memory.rs`). It may receive messages for the thread that attends
//! outside, so every thread that leaves the gate calls that one if there is something for it
//! (`tell`).

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use hikyaku_msg::{Blocked, Engine, Wanted};
use hikyaku_nic::fabric::{Wait, Wake};
use hikyaku_nic::hosted::{MissedStep, Rest, RestStart};
use hikyaku_nic::threads::{Berth, ThreadCrew};
use hikyaku_shm::{Nap, around_forks, longest_sleep, sleep_while, wake_one};

use crate::communicator::Communicator;
use crate::init::joined_here;
use crate::port::RankPort;
use crate::rank::Rank;
use crate::tasks::Tasks;
use crate::waiting::unreported;

/// How often such a thread yields before it sleeps, so that an early call finds it awake.
const GIVE_WAY: u32 = 32;

/// The lock around a rank.
#[derive(Debug, Default)]
pub struct Gate(hikyaku_nic::threads::Gate);

impl Gate {
    /// A gate with no thread inside.
    pub const fn new() -> Gate {
        Gate(hikyaku_nic::threads::Gate::new())
    }

    /// Enters, when no thread is inside.
    #[inline]
    pub fn enter(&self) {
        self.0.enter(|word, value| sleep_while(word, value, None));
    }

    /// Leaves.
    #[inline]
    pub fn leave(&self) {
        self.0.leave(wake_one);
    }

    /// Whether other threads wait for it.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.is_wanted()
    }
}

/// The gate of this process's rank, if threads share it.
static SHARED: OnceLock<&'static Gate> = OnceLock::new();

/// A call from another interface on a rank that threads share, inside the gate.
#[derive(Debug)]
pub struct Inside(&'static Gate);

impl Inside {
    /// Enters, if there is a gate.
    #[inline]
    pub fn enter() -> Option<Inside> {
        let gate = SHARED.get()?;
        gate.enter();
        Some(Inside(gate))
    }
}

/// The gate of this process's rank, if threads share it.
pub(crate) fn shared_gate() -> Option<&'static Gate> {
    SHARED.get().copied()
}

/// A thread that forks does so inside the gate. Otherwise another thread might hold it in the child
/// for ever, with the state behind it half changed. So a call of the child ends with an error.
extern "C" fn before_fork() {
    if let Some(gate) = shared_gate() {
        gate.enter();
    }
}

extern "C" fn after_fork() {
    if let Some(gate) = shared_gate() {
        gate.leave();
    }
}

/// Lets threads share the rank, inside a gate that may belong to another library.
pub(crate) fn adopt_gate(gate: &'static Gate) {
    SHARED.get_or_init(|| gate);
}

impl Drop for Inside {
    fn drop(&mut self) {
        if let Some(joined) = joined_here() {
            joined.tell_threads();
        }
        self.0.leave();
    }
}

/// The operations that a waiting thread has polled without result.
#[derive(Debug, Default)]
pub(crate) struct Wants {
    requests: Wanted,
    steps: Vec<MissedStep>,
    /// The counters at that poll.
    turns: u64,
    begun: u64,
    ended: u64,
    news: u64,
    stirs: u64,
}

/// The threads of a rank.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    /// The lock. `None`: one thread at a time uses the rank, without a lock.
    gate: Cell<Option<&'static Gate>>,
    pub(crate) crew: RefCell<ThreadCrew<Wants>>,
    /// The number of waits so far, which numbers them.
    waits: Cell<u64>,
    /// The wait whose future is being polled.
    polling: Cell<Option<u64>>,
}

impl Threads {
    pub(crate) fn gate(&self) -> Option<&'static Gate> {
        self.gate.get()
    }

    /// The number of waits of threads so far.
    pub(crate) fn waits(&self) -> u64 {
        self.waits.get()
    }
}

/// A wait of a thread. Its end hands over the attendance.
struct ThreadWait<'r> {
    rank: &'r Rank,
    gate: &'static Gate,
    me: u64,
    berth: Option<Arc<Berth>>,
}

impl Drop for ThreadWait<'_> {
    fn drop(&mut self) {
        let threads = &self.rank.threads;
        threads.crew.borrow_mut().hand_over(self.me, wake_one);
    }
}

impl Rank {
    /// Whether no borrow of state that other threads use is held.
    fn is_unborrowed(&self) -> bool {
        self.engine.try_borrow_mut().is_ok()
            && self.threads.crew.try_borrow_mut().is_ok()
            && self.numbers.try_borrow_mut().is_ok()
            && self.retired.try_borrow_mut().is_ok()
            && self.tasks.are_unborrowed()
    }

    /// Runs a future to its end, and polls the operations in flight, while other threads may call.
    pub(crate) fn drive_among_threads<F: Future>(
        &self,
        gate: &'static Gate,
        wait: Wait,
        future: F,
    ) -> F::Output {
        let mut future = pin!(future);
        let (wants, me) = (RefCell::new(Wants::default()), Cell::new(None));
        let noting = poll_fn(|context| {
            let around = self.threads.polling.replace(me.get());
            let poll = || future.as_mut().poll(context);
            let polled = self.poll_noting(&mut wants.borrow_mut(), poll);
            self.threads.polling.set(around);
            polled
        });
        let mut turn = None;
        hikyaku_msg::drive(&self.engine, wait, noting, |blocked| {
            let turn = turn.get_or_insert_with(|| self.begin_turn(gate));
            me.set(Some(turn.me));
            let any = self.engine.borrow_mut().advance() | self.tasks.have_stirred();
            // What the end of this round has moved may be what its beginning waits for, and no
            // event need follow.
            if any || wants.borrow().may_be_met(&self.engine.borrow(), &self.tasks) {
                self.engine.borrow_mut().go_on(blocked);
                turn.let_in();
            } else if self.threads.crew.borrow_mut().attend(turn.me) {
                turn.attend(blocked, &mut wants.borrow_mut());
            } else if self.claim_attendance(turn.me) {
                self.engine.borrow_mut().go_on(blocked);
                self.let_others_in(gate);
            } else {
                turn.sleep(wants.take());
            }
        })
    }

    fn begin_turn(&self, gate: &'static Gate) -> ThreadWait<'_> {
        let me = self.threads.waits.get();
        self.threads.waits.set(me + 1);
        ThreadWait { rank: self, gate, me, berth: None }
    }

    /// Polls something, then the operations in flight. Records what was polled without result.
    fn poll_noting<R>(&self, wants: &mut Wants, poll: impl FnOnce() -> Poll<R>) -> Poll<R> {
        {
            let mut engine = self.engine.borrow_mut();
            engine.begin_to_want(std::mem::take(&mut wants.requests));
            (wants.turns, wants.news) = (engine.turns(), engine.news());
            wants.stirs = engine.port().stirs();
        }
        (wants.begun, wants.ended) = (self.tasks.begun(), self.tasks.ended());
        self.tasks.have_been_asked();
        let polled = poll();
        let mut engine = self.engine.borrow_mut();
        wants.requests = engine.end_to_want();
        wants.requests.more |= self.tasks.have_been_asked();
        wants.steps.clear();
        engine.port_mut().take_steps(&mut wants.steps);
        drop(engine);
        if polled.is_pending() && !self.tasks.are_none() {
            unreported(&self.engine, || self.tasks.poll_all());
        }
        polled
    }

    /// Calls the threads whose operations may have progressed.
    #[inline]
    pub(crate) fn tell(&self) {
        let crew = self.threads.crew.borrow();
        if crew.is_on_bell() || crew.wants().next().is_some() {
            drop(crew);
            self.tell_some();
        }
    }

    #[cold]
    fn tell_some(&self) {
        // In a panic it may be borrowed: then threads wake by themselves, and detect the same
        // panic.
        let Ok(mut engine) = self.engine.try_borrow_mut() else { return };
        let mut crew = self.threads.crew.borrow_mut();
        let is_bad = crew.is_on_bell() && engine.port_mut().is_badly_slept_on();
        let is_met = |wants: &Wants| wants.may_be_met(&engine, &self.tasks);
        crew.call(is_met, wake_one);
        // Operations that have begun or resumed since would not end that sleep.
        let has_begun = |wants: &Wants| wants.begun != self.tasks.begun();
        if crew.call_from_bell(|wants| is_bad || has_begun(wants) || is_met(wants)) {
            engine.port().host().call_sleepers();
        }
    }

    /// Ends the sleep of the thread on the doorbell.
    pub(crate) fn call_from_bell(&self) {
        if self.threads.crew.borrow_mut().call_from_bell(|_| true) {
            self.engine.borrow().port().host().call_sleepers();
        }
    }

    /// The attendant's sleep on the doorbell, which the port has announced.
    pub(crate) fn sleep_on_bell(&self, gate: &'static Gate, nap: &mut Nap, wants: Wants) {
        self.threads.crew.borrow_mut().sleep_on_bell(wants);
        let outside = Outside::new(self, gate);
        nap.sleep();
        drop(outside);
        self.threads.crew.borrow_mut().get_up_from_bell();
    }

    /// Lets other threads enter for a moment.
    pub(crate) fn let_others_in(&self, gate: &'static Gate) {
        self.tell();
        let _outside = Outside::new(self, gate);
        std::thread::yield_now();
    }

    /// Runs `act` without the gate, for example a function of the program, which may take any time
    /// and make any call.
    pub(crate) fn outside<R>(&self, gate: &'static Gate, act: impl FnOnce() -> R) -> R {
        // The attending thread is busy elsewhere meanwhile.
        let polling = self.threads.polling.take();
        if let Some(me) = polling {
            self.threads.crew.borrow_mut().hand_over(me, wake_one);
        }
        self.tell();
        let wanted = self.engine.borrow_mut().wait_for_nothing();
        let outside = Outside::new(self, gate);
        let result = act();
        drop(outside);
        self.tasks.resume();
        self.engine.borrow_mut().want_again(wanted);
        self.threads.polling.set(polling);
        result
    }
}

/// While this exists, its thread is outside the gate.
pub(crate) struct Outside(&'static Gate);

impl Outside {
    /// No state of the rank may be borrowed: other threads enter now.
    pub(crate) fn new(rank: &Rank, gate: &'static Gate) -> Outside {
        debug_assert!(rank.is_unborrowed(), "the gate is left while the rank is borrowed");
        gate.leave();
        Outside(gate)
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        self.0.enter();
    }
}

impl Wants {
    /// The value for a thread that waits for nothing itself.
    pub(crate) fn nothing(engine: &Engine<RankPort>, tasks: &Tasks) -> Wants {
        Wants { news: engine.news(), begun: tasks.begun(), ..Wants::default() }
    }

    fn may_be_met(&self, engine: &Engine<RankPort>, tasks: &Tasks) -> bool {
        let are_old =
            self.news != engine.news() || self.requests.more && self.ended != tasks.ended();
        are_old
            || engine.may_have_come(&self.requests, self.turns)
            // Only the thread with the memory of a message can post more of it.
            || self.requests.more && engine.waits_for_room() && self.stirs != engine.port().stirs()
            || engine.port().have_any(&self.steps)
    }
}

impl ThreadWait<'_> {
    /// Lets waiting threads enter.
    fn let_in(&self) {
        self.rank.tell();
        if self.gate.is_wanted() {
            let _outside = Outside::new(self.rank, self.gate);
            std::thread::yield_now();
        }
    }

    /// A rest of the attending thread.
    fn attend(&self, blocked: &mut Blocked, wants: &mut Wants) {
        self.let_in();
        let rank = self.rank;
        let mut engine = rank.engine.borrow_mut();
        engine.begin_rest(blocked);
        let rest = {
            let crew = rank.threads.crew.borrow();
            let all = crew.wants().flat_map(|wants| &wants.steps).chain(&wants.steps);
            engine.port_mut().begin_rest((None, RestStart::Awake), all.copied())
        };
        let wake = match rest {
            Rest::Over(wake) => wake,
            Rest::Yield => {
                drop(engine);
                let outside = Outside::new(rank, self.gate);
                std::thread::yield_now();
                drop(outside);
                engine = rank.engine.borrow_mut();
                Wake::Look
            }
            Rest::Sleep(mut nap) => {
                drop(engine);
                rank.sleep_on_bell(self.gate, &mut nap, std::mem::take(wants));
                engine = rank.engine.borrow_mut();
                engine.port_mut().end_rest(nap)
            }
        };
        engine.end_rest(blocked, wake);
    }

    /// A sleep of a thread that does not attend.
    fn sleep(&mut self, wants: Wants) {
        let rank = self.rank;
        rank.tell();
        let berth = Arc::clone(self.berth.get_or_insert_default());
        let has_steps = !wants.steps.is_empty();
        rank.threads.crew.borrow_mut().lie_down(&berth, wants);
        if has_steps {
            // The thread on the doorbell does not know of these steps: they ring its bell only if
            // it announces them.
            rank.call_from_bell();
        }
        let outside = Outside::new(rank, self.gate);
        for _ in 0..GIVE_WAY {
            if berth.is_called() {
                break;
            }
            std::thread::yield_now();
        }
        // As for sleeps on a doorbell: the limit is a safeguard against improbable faults.
        berth.sleep(|word, value| sleep_while(word, value, Some(longest_sleep())));
        drop(outside);
        rank.threads.crew.borrow_mut().get_up(&berth);
    }
}

impl Communicator {
    /// From now on several threads use this rank at any time, each inside `gate` during a call.
    /// Waits leave the gate.
    pub fn share_among_threads(&self, gate: &'static Gate) {
        if !self.is_shared() {
            self.rank.threads.gate.set(Some(gate));
            adopt_gate(gate);
            around_forks(before_fork, after_fork);
            crate::copies::share_elsewhere(gate);
            self.tasks().share();
        }
    }

    /// Whether several threads use this rank at any time.
    pub fn is_shared(&self) -> bool {
        self.rank.threads.gate().is_some()
    }

    /// Calls the threads whose operations may have progressed. For a thread that leaves the gate.
    #[inline]
    pub fn tell_threads(&self) {
        self.rank.tell();
    }

    /// Runs `act`, a function of the program, without the gate, if there is one.
    pub fn outside<R>(&self, act: impl FnOnce() -> R) -> R {
        match self.rank.threads.gate() {
            Some(gate) => self.rank.outside(gate, act),
            None => act(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::iter::empty;
    use std::mem::ManuallyDrop;
    use std::rc::Rc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::sync_channel;
    use std::thread::{scope, spawn, yield_now};
    use std::time::{Duration, Instant};

    use hikyaku_coll::{Choices, Group as _};
    use hikyaku_msg::{Envelope, SendMode};
    use hikyaku_nic::fabric::{
        Atomic, AtomicOp, DeathCause, Integer, MailboxPort, MemoryPort, Port, QueueCommand,
        QueueMode, QueuePort, RemoteAddress, Space,
    };
    use hikyaku_ofi::Error;
    use hikyaku_shm::{Job, JobConfig, exchange_cards, open_all, open_hosts};

    use super::*;

    /// The first half of a thread's sleep on the doorbell. It is called without cause.
    fn fall_asleep(rank: &Rank) -> Nap {
        let nap = loop {
            let limits = (None, RestStart::Asleep);
            let rest = rank.engine.borrow_mut().port_mut().begin_rest(limits, empty());
            if let Rest::Sleep(nap) = rest {
                break nap;
            }
        };
        let wants = Wants::nothing(&rank.engine.borrow(), &rank.tasks);
        rank.threads.crew.borrow_mut().sleep_on_bell(wants);
        rank.tell();
        assert!(rank.threads.crew.borrow().is_on_bell());
        nap
    }

    /// Two threads of a rank are on the doorbell: one sleeps there outside the gate; the other is
    /// in a call that waits for another host, inside. After that call the doorbell indicates no
    /// sleeper.
    #[test]
    fn a_call_that_waits_for_another_host_leaves_no_thread_deaf() {
        let (jobs, ports) = open_hosts(&JobConfig::new(2, 2), &[0, 1], [7; 16]).unwrap();
        let opened: Result<Vec<RankPort>, Error> = ports.into_iter().map(RankPort::open).collect();
        let mut ports = match opened {
            Err(error @ Error::NotInstalled { .. }) => return eprintln!("skipped: {error}"),
            opened => opened.unwrap(),
        };
        exchange_cards(&jobs);
        let (mut other, own) = (ports.pop().unwrap(), ports.pop().unwrap());
        let alone = Communicator::over(own, Choices::default());
        let (rank, engine) = (&alone.rank, alone.engine());
        let mut nap = fall_asleep(rank);

        let is_over = AtomicBool::new(false);
        scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Acquire) {
                    // Such a wait is announced long after its first sleep, or soon.
                    match jobs[0].waiting(0) {
                        Some(_) => _ = other.poll(),
                        None => yield_now(),
                    }
                }
            });
            let target = RemoteAddress { rank: 1, space: Space::Region, offset: 0 };
            let (integer, operation) = (Integer::U64, AtomicOp::Load);
            let load = Atomic { target, integer, operation, operand: 0, result: None };
            // On a busy machine a call may get its answer before it sleeps.
            while engine.borrow().port().host().is_bell_set() {
                engine.borrow_mut().port_mut().fetch(&load).unwrap();
            }
            is_over.store(true, Ordering::Release);
        });

        rank.tell();
        let timeouts = || engine.borrow().port().host().sleeps().1;
        let before = timeouts();
        nap.sleep();
        engine.borrow_mut().port_mut().end_rest(nap);
        assert_eq!(timeouts(), before, "the other thread slept on");
        rank.threads.crew.borrow_mut().get_up_from_bell();
    }

    /// The results of one rank's operations on a window at a rank on another host, which serves
    /// none before another thread of the first rank has been inside the gate, and calls `end` then.
    fn window_operations(end: impl Fn(&[Job]) + Send) -> Option<Vec<Result<(), crate::Error>>> {
        static GATE: Gate = Gate::new();
        const PATIENCE: Duration = Duration::from_secs(30);
        let (jobs, ports) = open_hosts(&JobConfig::new(2, 2), &[0, 1], [7; 16]).unwrap();
        let opened: Result<Vec<RankPort>, Error> = ports.into_iter().map(RankPort::open).collect();
        let mut ports = match opened {
            Err(error @ Error::NotInstalled { .. }) => {
                eprintln!("skipped: {error}");
                return None;
            }
            opened => opened.unwrap(),
        };
        exchange_cards(&jobs);
        let (other, own) = (ports.pop().unwrap(), ports.pop().unwrap());
        let (made, is_made) = sync_channel(1);
        let (entered, has_entered) = sync_channel(1);
        let (is_waiting, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
        scope(|scope| {
            let (is_waiting, is_over, jobs) = (&is_waiting, &is_over, &jobs[..]);
            scope.spawn(move || {
                let other = Communicator::over(other, Choices::default());
                let window = other.window(70_000, 8).unwrap();
                made.send(()).unwrap();
                // It computes until a thread of the first rank has been inside.
                let came: Result<(), _> = has_entered.recv_timeout(PATIENCE);
                end(jobs);
                while !is_over.load(Ordering::Acquire) {
                    other.engine().borrow_mut().progress();
                    yield_now();
                }
                let _never_leaves = ManuallyDrop::new((window, other));
                came.expect("another thread gets into the gate");
            });
            scope.spawn(move || {
                while !is_waiting.load(Ordering::Acquire) {
                    yield_now();
                }
                GATE.enter();
                GATE.leave();
                entered.send(()).unwrap();
            });
            let own = Communicator::over(own, Choices::default());
            let window = own.window(1, 8).unwrap();
            is_made.recv().unwrap();
            own.rank.threads.gate.set(Some(&GATE));
            GATE.enter();
            is_waiting.store(true, Ordering::Release);
            // More than fits in one packet, and more than one call reads.
            let (sent, mut back) = (vec![5; 560_000], vec![0; 560_000]);
            let add = (Integer::U64, AtomicOp::Add);
            let signal = (&window, 1);
            let done = vec![
                window.put(1, 0, &sent),
                window.get(1, 0, &mut back),
                window.put_signal(1, 2, &sent[..8], signal, 9),
                window.put_chain(&[(1, 3, &[1; 8]), (1, 4, &[2; 8])], Some((&window, 5, 4))),
                window.fetch(1, 1, add, 1).map(|old| assert_eq!(old, 9)),
                window.fetch(1, 5, add, 1).map(|old| assert_eq!(old, 4)),
            ];
            GATE.leave();
            if done.iter().all(Result::is_ok) {
                assert_eq!(back, sent);
            }
            own.rank.threads.gate.set(None);
            is_over.store(true, Ordering::Release);
            let _never_leaves = ManuallyDrop::new((window, own));
            Some(done)
        })
    }

    #[test]
    fn other_threads_go_on_while_a_window_waits_for_another_host() {
        let Some(done) = window_operations(|_| {}) else { return };
        assert!(done.iter().all(Result::is_ok), "{done:?}");
    }

    #[test]
    fn a_window_operation_among_threads_ends_with_its_target() {
        let dies = |jobs: &[Job]| {
            jobs.iter().for_each(|job| assert!(job.mark_dead(1, DeathCause::Signal(9))));
        };
        let Some(done) = window_operations(dies) else { return };
        for error in done.into_iter().map(Result::unwrap_err) {
            assert!(error.to_string().contains("rank 1"), "{error}");
        }
    }

    /// Otherwise an operation that one thread begins would wait until the other happens to wake.
    #[test]
    fn who_sleeps_on_the_doorbell_is_called_to_what_has_begun_since() {
        let port = hikyaku_shm::single().unwrap();
        let alone = Communicator::over(port, Choices::default());
        let rank = &alone.rank;
        let nap = fall_asleep(rank);
        alone.start_task(Box::pin(std::future::pending()));
        rank.tell();
        assert!(!rank.threads.crew.borrow().is_on_bell());
        alone.engine().borrow_mut().port_mut().end_rest(nap);
    }

    /// Otherwise the thread on the doorbell would sleep through the operation's next step, which it
    /// could not poll for while the function of the program ran.
    #[test]
    fn who_sleeps_on_the_doorbell_is_called_to_what_goes_on_after_a_function() {
        static GATE: Gate = Gate::new();
        let port = hikyaku_shm::single().unwrap();
        let alone = Communicator::over(port, Choices::default());
        let (inner, nap) = (alone.clone(), Rc::new(RefCell::new(None)));
        let asleep = Rc::clone(&nap);
        let reduces = poll_fn(move |_| {
            if asleep.borrow().is_none() {
                // Another thread enters while the function runs.
                inner.rank.outside(&GATE, || {
                    GATE.enter();
                    asleep.replace(Some(fall_asleep(&inner.rank)));
                    GATE.leave();
                });
            }
            Poll::Pending
        });
        GATE.enter();
        let id = alone.start_task(Box::pin(reduces));
        assert!(alone.rank.threads.crew.borrow().is_on_bell());
        alone.rank.tell();
        assert!(!alone.rank.threads.crew.borrow().is_on_bell());
        let nap = nap.take().unwrap();
        alone.engine().borrow_mut().port_mut().end_rest(nap);
        alone.tasks().remove(id);
        GATE.leave();
    }

    /// Otherwise the thread would sleep until another event happens to call it.
    #[test]
    fn a_round_in_which_something_moved_ends_without_a_sleep() {
        static GATE: Gate = Gate::new();
        const ROUNDS: u32 = 40;
        let port = hikyaku_shm::single().unwrap();
        let alone = Communicator::over(port, Choices::default());
        alone.rank.threads.gate.set(Some(&GATE));
        GATE.enter();
        // Another thread attends, and does not run.
        assert!(alone.rank.threads.crew.borrow_mut().attend(u64::MAX));
        let began = Instant::now();
        for round in 0..ROUNDS {
            let mut polls = 0;
            alone.drive(poll_fn(|_| {
                polls += 1;
                if polls > 1 {
                    return Poll::Ready(());
                }
                let mut engine = alone.engine().borrow_mut();
                let envelope = Envelope { destination: 0, context: 0, tag: round as i32 };
                engine.send(&[1], envelope, SendMode::Standard).unwrap();
                assert!(engine.progress());
                Poll::Pending
            }));
        }
        GATE.leave();
        assert!(began.elapsed() < ROUNDS * longest_sleep() / 2);
        alone.rank.threads.gate.set(None);
    }

    /// It would stop the other threads.
    #[test]
    fn a_collective_of_threads_keeps_the_port_for_no_rest() {
        static GATE: Gate = Gate::new();
        let crowd = std::thread::available_parallelism().unwrap().get() as u32 + 1;
        let port = open_all(&JobConfig::new(crowd, crowd)).unwrap().remove(0);
        let one = Communicator::over(port, Choices::default());
        while !one.engine().borrow().port().is_crowded() {}
        assert!(one.waiting_group().make_way());
        one.rank.threads.gate.set(Some(&GATE));
        assert!(!one.waiting_group().make_way() && !one.group().waiting().make_way());
        one.rank.threads.gate.set(None);
        let _never_leaves = ManuallyDrop::new(one);
    }

    /// Letters and queues bring no events.
    #[test]
    fn a_thread_is_called_to_a_letter_and_to_what_its_queue_does() {
        let port = hikyaku_shm::single().unwrap();
        let alone = Communicator::over(port, Choices::default());
        let (rank, berth) = (&alone.rank, Arc::new(Berth::default()));
        let ends_by = |poll: &dyn Fn(), act: &dyn Fn()| {
            let mut wants = Wants::default();
            let polled = rank.poll_noting(&mut wants, || {
                poll();
                Poll::<()>::Pending
            });
            assert!(polled.is_pending());
            rank.threads.crew.borrow_mut().lie_down(&berth, wants);
            let is_called = |act: &dyn Fn()| {
                act();
                rank.tell();
                berth.is_called()
            };
            assert_eq!([is_called(&|| {}), is_called(act)], [false, true]);
        };
        let port = |act: &mut dyn FnMut(&mut RankPort)| act(alone.engine().borrow_mut().port_mut());
        let (mailbox, address) = alone.engine().borrow_mut().port_mut().open_mailbox(0, 8).unwrap();
        let has_mail = || port(&mut |port| assert!(!port.has_mail(mailbox, 1)));
        ends_by(&has_mail, &|| port(&mut |port| port.post_mail(address, 1).unwrap()));

        let queue = alone.engine().borrow_mut().port_mut().create_queue(QueueMode::Normal, 2);
        let queue = queue.unwrap();
        let look = || port(&mut |port| assert_eq!(port.queue_state(queue).unwrap().executed, 0));
        let nop = [QueueCommand::Nop];
        ends_by(&look, &|| port(&mut |port| port.post_queue(queue.queue, &nop).unwrap()));
    }

    /// Room brings no event, and only the thread that sends has the message.
    #[test]
    fn a_thread_is_called_to_send_more_once_there_may_be_room() {
        let port = hikyaku_shm::single().unwrap();
        let alone = Communicator::over(port, Choices::default());
        let (rank, berth) = (&alone.rank, Arc::new(Berth::default()));
        let waker = alone.engine().borrow().port().host().waker();
        let is_called_by_a_wake_up = || {
            let mut wants = Wants::default();
            assert!(rank.poll_noting(&mut wants, || Poll::<()>::Pending).is_pending());
            rank.threads.crew.borrow_mut().lie_down(&berth, wants);
            rank.tell();
            assert!(!berth.is_called());
            waker.wake();
            rank.tell();
            rank.threads.crew.borrow_mut().get_up(&berth);
            berth.is_called()
        };
        assert!(!is_called_by_a_wake_up(), "nothing waits for room");
        let envelope = Envelope { destination: 0, context: 0, tag: 0 };
        while !alone.engine().borrow().waits_for_room() {
            let mut engine = alone.engine().borrow_mut();
            engine.start_send_detached(&[1], envelope, SendMode::Standard, false).unwrap();
        }
        assert!(is_called_by_a_wake_up());
    }

    /// As by a call of `hikyaku.h` or of Python's package in an MPI program.
    #[test]
    fn a_call_of_another_interface_calls_the_threads_for_which_something_came() {
        static GATE: Gate = Gate::new();
        let rank = spawn(|| {
            let alone = Communicator::join().unwrap();
            alone.share_among_threads(&GATE);
            let berth = Arc::new(Berth::default());
            let has_come = |turns| {
                let requests = Wanted { more: true, ..Wanted::default() };
                let news = alone.engine().borrow().news();
                let wants = Wants { requests, turns, news, ..Wants::default() };
                alone.rank.threads.crew.borrow_mut().lie_down(&berth, wants);
                drop(Inside::enter().expect("threads share this rank"));
                alone.rank.threads.crew.borrow_mut().get_up(&berth);
                berth.is_called()
            };
            let turns = alone.engine().borrow().turns();
            assert_eq!([turns, turns + 1].map(has_come), [false, true]);
        });
        rank.join().unwrap();
    }
}
