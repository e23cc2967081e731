//! The clock, the event loop, and the handle that every part of a simulation holds.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::ops::{ControlFlow, Deref};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use hikyaku_nic::time::Time;

use super::queue::EventQueue;
use super::task::{TaskId, TaskName, TaskTable, Wakeup};
use super::trace::Trace;
use crate::error::{SimError, Stuck};
use crate::slab::Slab;
use hikyaku_nic::random::Random;

/// A state machine that receives events.
pub trait Component {
    /// Handles a due event that this component scheduled, with the word that it gave.
    fn handle(&self, sim: &Sim, word: u32);

    /// Prepares for events of this component that will soon be handled. The component may prefetch
    /// the memory that they need. This is called once for each stage, in order, so that a stage can
    /// follow the pointers that the previous stage has fetched. It must change nothing, and must
    /// not call code that does.
    fn prepare(&self, words: &[u32], stage: PrefetchStage) {
        let _ = (words, stage);
    }
}

/// The stage of preparing for events.
///
/// A simulation of many nodes in the same step handles many similar events at one time. Their
/// memory does not fit into the caches, but the next events are known. On a halo of 4,096 ranks a
/// message touches a dozen cache lines, each found through the previous one. Prefetches of several
/// messages overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrefetchStage {
    /// The memory that the event names.
    First,
    /// The memory that the first stage's memory names.
    Second,
    /// The next memory in that chain.
    Third,
    /// The last memory before the event is handled.
    Fourth,
}

/// The number of events that are prepared together.
pub(crate) const BATCH: usize = 4;

/// For each stage, the number of other events of the same time that are handled before those of a
/// batch.
const STAGES: [(usize, PrefetchStage); 4] = [
    (4 * BATCH, PrefetchStage::First),
    (3 * BATCH, PrefetchStage::Second),
    (2 * BATCH, PrefetchStage::Third),
    (BATCH, PrefetchStage::Fourth),
];

/// Preparing pays off from this many events of one time on. The memory of fewer events stays in the
/// cache from one time to the next.
const MANY: usize = 2_048;

/// The number of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ComponentId(u16);

/// The action of an event; 8 bytes, so that the queue moves 16.
#[derive(Debug, Clone, Copy)]
enum KernelEvent {
    Wake(TaskId),
    Component(ComponentId, u32),
    Call(u32),
}

type ScheduledCall = Box<dyn FnOnce(&Sim)>;

struct Kernel {
    now: Cell<Time>,
    queue: RefCell<EventQueue<KernelEvent>>,
    tasks: RefCell<TaskTable>,
    components: RefCell<Vec<Rc<dyn Component>>>,
    calls: RefCell<Slab<ScheduledCall>>,
    trace: RefCell<Trace>,
    events: Cell<u64>,
    stopped: Cell<bool>,
    seed: u64,
}

/// A simulation. It owns everything in it, and drops it at its end.
///
/// Every part inside holds a [`Sim`]. Tasks and components hold handles on the table that holds
/// them, so a separate owner drops them.
#[derive(Debug)]
pub struct Simulation {
    sim: Sim,
}

impl Simulation {
    /// An empty simulation at time zero. Every random number in it depends on `seed` only.
    pub fn new(seed: u64) -> Simulation {
        let kernel = Kernel {
            now: Cell::new(Time::ZERO),
            queue: RefCell::default(),
            tasks: RefCell::default(),
            components: RefCell::default(),
            calls: RefCell::default(),
            trace: RefCell::default(),
            events: Cell::new(0),
            stopped: Cell::new(false),
            seed,
        };
        Simulation { sim: Sim(Rc::new(kernel)) }
    }
}

impl Deref for Simulation {
    type Target = Sim;

    fn deref(&self) -> &Sim {
        &self.sim
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        // The contents are taken out before they are dropped: their destructors may still call the
        // simulation.
        let tasks = self.sim.0.tasks.take();
        let calls = self.sim.0.calls.take();
        let components = self.sim.0.components.take();
        drop((tasks, calls, components));
    }
}

/// The progress of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Virtual time.
    pub now: Time,
    /// Events handled since the start.
    pub events: u64,
    /// Events in the queue.
    pub pending: usize,
    /// Tasks that have not ended, except services.
    pub unfinished: usize,
}

/// A handle on a simulation, held by every part of it.
#[derive(Clone)]
pub struct Sim(Rc<Kernel>);

impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sim").field("now", &self.now()).field("events", &self.events()).finish()
    }
}

impl Sim {
    /// Virtual time.
    pub fn now(&self) -> Time {
        self.0.now.get()
    }

    /// Events handled since the start.
    pub fn events(&self) -> u64 {
        self.0.events.get()
    }

    /// The seed that the simulation was made with.
    pub fn seed(&self) -> u64 {
        self.0.seed
    }

    /// The stream of random numbers of `key`.
    pub fn random(&self, key: u64) -> Random {
        Random::stream(self.0.seed, key)
    }

    /// Starts a task, and polls it before the next event. The run ends when every task has ended.
    pub fn spawn(&self, name: TaskName, body: impl Future<Output = ()> + 'static) -> TaskId {
        self.0.tasks.borrow_mut().spawn(name, false, Box::pin(body))
    }

    /// Starts a task that may wait for ever, such as an interface unit without work.
    pub fn spawn_service(
        &self,
        name: TaskName,
        body: impl Future<Output = ()> + 'static,
    ) -> TaskId {
        self.0.tasks.borrow_mut().spawn(name, true, Box::pin(body))
    }

    /// Waits for `span` of virtual time. With a zero span, waits until the events due now have been
    /// handled.
    pub fn delay(&self, span: Time) -> Delay {
        self.delay_until(self.now() + span)
    }

    /// Waits until `time`. If `time` has passed, waits until the events due now have been handled.
    pub fn delay_until(&self, time: Time) -> Delay {
        Delay { sim: self.clone(), until: time, scheduled: false }
    }

    /// Registers a state machine, so that it can receive events.
    ///
    /// # Panics
    /// With more than 65,536 components. Register one for each kind of unit, not one for each unit.
    pub fn register(&self, component: Rc<dyn Component>) -> ComponentId {
        let mut components = self.0.components.borrow_mut();
        let id = u16::try_from(components.len()).expect("components are kinds of units, not units");
        components.push(component);
        ComponentId(id)
    }

    /// Schedules an event: the component handles `word` at `time`, or now if `time` has passed.
    pub fn schedule(&self, time: Time, component: ComponentId, word: u32) {
        self.push(time, KernelEvent::Component(component, word));
    }

    /// Calls a closure at `time`. If `time` has passed, calls it now, after the events already due.
    pub fn at(&self, time: Time, call: impl FnOnce(&Sim) + 'static) {
        let key = self.0.calls.borrow_mut().insert(Box::new(call));
        self.push(time, KernelEvent::Call(key));
    }

    /// Wakes a waiting task: it runs before the next event.
    pub fn wake(&self, wakeup: Wakeup) {
        match wakeup {
            Wakeup::Task(id) => self.0.tasks.borrow_mut().wake(id),
            Wakeup::Foreign(waker) => waker.wake(),
        }
    }

    /// Wakes a task at `time`.
    pub(crate) fn wake_at(&self, time: Time, wakeup: Wakeup) {
        match wakeup {
            Wakeup::Task(id) => self.push(time, KernelEvent::Wake(id)),
            Wakeup::Foreign(waker) => self.at(time, |_| waker.wake()),
        }
    }

    /// The wakeup for the future that is being polled with `context`. `what` completes "waits for
    /// ..." in deadlock reports.
    pub fn wakeup(&self, context: &Context<'_>, what: &'static str) -> Wakeup {
        self.0.tasks.borrow_mut().wakeup(context, what)
    }

    /// The trace of this simulation. Switch it on before the run.
    pub fn trace(&self) -> std::cell::RefMut<'_, Trace> {
        self.0.trace.borrow_mut()
    }

    /// Ends the run after the current event, like an external interrupt.
    pub fn stop(&self) {
        self.0.stopped.set(true);
    }

    /// The progress of the run.
    pub fn progress(&self) -> Progress {
        Progress {
            now: self.now(),
            events: self.events(),
            pending: self.0.queue.borrow().len(),
            unfinished: self.0.tasks.borrow().unfinished,
        }
    }

    /// Runs until no event is left.
    ///
    /// # Errors
    /// [`SimError::Deadlock`] if tasks still wait then; [`SimError::Stopped`] after [`Sim::stop`];
    /// [`SimError::EndOfTime`] after 213 days of virtual time.
    pub fn run(&self) -> Result<(), SimError> {
        self.run_observed(u64::MAX, |_| ControlFlow::Continue(()))
    }

    /// Runs, and every `interval` steps (events and polls of tasks) asks `observe` whether to
    /// continue. It does so even if tasks wake each other for ever and time stands still.
    ///
    /// # Errors
    /// As [`Sim::run`]. [`SimError::Stopped`] also if `observe` stops the run.
    pub fn run_observed(
        &self,
        interval: u64,
        mut observe: impl FnMut(&Progress) -> ControlFlow<()>,
    ) -> Result<(), SimError> {
        self.0.stopped.set(false);
        let mut until_report = interval;
        loop {
            if !self.poll_next() {
                // Tasks woken by an event belong to it, so a stop takes effect between events.
                if self.0.stopped.get() {
                    return Err(SimError::Stopped { at: self.now() });
                }
                if !self.step()? {
                    return self.finish();
                }
            }
            until_report -= 1;
            if until_report == 0 {
                until_report = interval;
                if observe(&self.progress()).is_break() {
                    return Err(SimError::Stopped { at: self.now() });
                }
            }
        }
    }

    /// Handles the next event, if any.
    fn step(&self) -> Result<bool, SimError> {
        let next = self.0.queue.borrow_mut().pop();
        let Some((time, event)) = next else { return Ok(false) };
        self.prepare();
        if time.picoseconds() == u64::MAX {
            return Err(SimError::EndOfTime { at: self.now() });
        }
        self.0.now.set(time);
        self.0.events.set(self.0.events.get() + 1);
        match event {
            KernelEvent::Wake(id) => self.0.tasks.borrow_mut().wake(id),
            KernelEvent::Component(ComponentId(id), word) => {
                let component = Rc::clone(&self.0.components.borrow()[usize::from(id)]);
                component.handle(self, word);
            }
            KernelEvent::Call(key) => {
                let call = self.0.calls.borrow_mut().remove(key);
                if let Some(call) = call {
                    call(self);
                }
            }
        }
        Ok(true)
    }

    /// Prepares for the next due events, if there are many.
    fn prepare(&self) {
        let queue = self.0.queue.borrow();
        let (due, done) = queue.due();
        if done % BATCH != 0 || due.len() + done < MANY {
            return;
        }
        for (distance, stage) in STAGES {
            let batch = due.iter().skip(distance).take(BATCH);
            let mut words = [0; BATCH];
            let (mut count, mut component) = (0, None);
            for &(_, event) in batch {
                if let KernelEvent::Component(ComponentId(id), word) = event
                    && *component.get_or_insert(id) == id
                {
                    words[count] = word;
                    count += 1;
                }
            }
            if let Some(id) = component {
                self.0.components.borrow()[usize::from(id)].prepare(&words[..count], stage);
            }
        }
    }

    /// Prefetches the entry of a task that will be woken, and later its future.
    pub(crate) fn prepare_task(&self, id: TaskId, future: bool) {
        self.0.tasks.borrow().prepare(id, future);
    }

    /// Polls the task that has been ready longest, if any.
    fn poll_next(&self) -> bool {
        let next = self.0.tasks.borrow_mut().next_ready();
        let Some((id, mut body, waker)) = next else { return false };
        match body.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => self.0.tasks.borrow_mut().put_back(id, body, waker),
            Poll::Ready(()) => {
                // Dropped while the table is not borrowed: its destructor may wake other tasks.
                drop(body);
                self.0.tasks.borrow_mut().finish(id);
            }
        }
        true
    }

    fn finish(&self) -> Result<(), SimError> {
        let tasks = self.0.tasks.borrow();
        if tasks.unfinished == 0 {
            return Ok(());
        }
        let stuck = tasks.stuck().map(|(id, name, waits_for)| {
            let waits_for = waits_for.to_string();
            Stuck { id, name, waits_for }
        });
        Err(SimError::Deadlock { at: self.now(), stuck: stuck.collect() })
    }

    fn push(&self, time: Time, event: KernelEvent) {
        self.0.queue.borrow_mut().push(time.max(self.now()), event);
    }
}

/// Waits for a time: [`Sim::delay`].
#[derive(Debug)]
#[must_use = "time passes only when this is awaited"]
pub struct Delay {
    sim: Sim,
    until: Time,
    scheduled: bool,
}

impl Future for Delay {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.scheduled && self.sim.now() >= self.until {
            return Poll::Ready(());
        }
        if !self.scheduled {
            self.scheduled = true;
            let wakeup = self.sim.wakeup(context, "a point in time");
            self.sim.wake_at(self.until, wakeup);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: TaskName = TaskName { kind: "task", index: 0 };

    fn ns(nanoseconds: u64) -> Time {
        Time::from_nanoseconds(nanoseconds)
    }

    /// Events with their times.
    type Log = Rc<RefCell<Vec<(u64, &'static str)>>>;

    fn note(log: &Log, sim: &Sim, what: &'static str) {
        log.borrow_mut().push((sim.now().nanoseconds(), what));
    }

    #[test]
    fn tasks_components_and_calls_share_one_order() {
        struct Bell(Log);
        impl Component for Bell {
            fn handle(&self, sim: &Sim, word: u32) {
                note(&self.0, sim, if word == 7 { "bell 7" } else { "bell" });
            }
        }
        let simulation = Simulation::new(0);
        let log = Log::default();
        let bell = simulation.register(Rc::new(Bell(Rc::clone(&log))));
        simulation.schedule(ns(5), bell, 7);
        let (sim, inner) = (simulation.clone(), Rc::clone(&log));
        simulation.spawn(NAME, async move {
            sim.delay(ns(5)).await;
            note(&inner, &sim, "task");
            sim.delay(Time::ZERO).await;
            note(&inner, &sim, "task again");
        });
        let inner = Rc::clone(&log);
        simulation.at(ns(2), move |sim| note(&inner, sim, "call"));
        simulation.run().unwrap();
        let expected = [(2, "call"), (5, "bell 7"), (5, "task"), (5, "task again")];
        assert_eq!(*log.borrow(), expected);
        assert_eq!(simulation.events(), 4);
    }

    #[test]
    fn a_deadlock_lists_who_waits_but_no_service() {
        let simulation = Simulation::new(0);
        simulation.spawn(TaskName { kind: "rank", index: 3 }, std::future::pending());
        simulation.spawn_service(NAME, std::future::pending());
        let error = simulation.run().unwrap_err();
        let text = error.to_string();
        assert!(text.contains("rank 3 waits for something outside"), "{text}");
        assert!(!text.contains("task 0"), "{text}");
    }

    #[test]
    fn services_do_not_keep_a_run_alive() {
        let simulation = Simulation::new(0);
        simulation.spawn_service(NAME, std::future::pending());
        assert!(simulation.run().is_ok());
    }

    #[test]
    fn an_observer_or_a_stop_ends_a_run() {
        let endless = |simulation: &Simulation| {
            let sim = Sim::clone(simulation);
            simulation.spawn(NAME, async move {
                loop {
                    sim.delay(ns(1)).await;
                }
            });
        };
        let simulation = Simulation::new(0);
        endless(&simulation);
        let mut reports = 0;
        let ended = simulation.run_observed(100, |progress| {
            reports += 1;
            assert_eq!(progress.events, reports * 50, "an event and a poll each time");
            if reports == 6 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert!(matches!(ended, Err(SimError::Stopped { at }) if at == ns(300)));
        // The run can be continued.
        simulation.at(ns(400), Sim::stop);
        assert!(matches!(simulation.run(), Err(SimError::Stopped { at }) if at == ns(400)));
    }

    #[test]
    fn tasks_that_wake_each_other_for_ever_can_be_stopped() {
        let simulation = Simulation::new(0);
        simulation.spawn(
            NAME,
            std::future::poll_fn(|context| {
                context.waker().wake_by_ref();
                Poll::Pending
            }),
        );
        let ended = simulation.run_observed(1_000, |progress| {
            assert_eq!(progress.events, 0);
            ControlFlow::Break(())
        });
        assert_eq!(ended, Err(SimError::Stopped { at: Time::ZERO }));
    }

    #[test]
    fn time_ends_with_an_error() {
        let simulation = Simulation::new(0);
        let sim = Sim::clone(&simulation);
        simulation.spawn(NAME, async move {
            loop {
                sim.delay(Time::from_picoseconds(u64::MAX / 3)).await;
            }
        });
        let at = Time::from_picoseconds(u64::MAX / 3 * 2);
        assert_eq!(simulation.run(), Err(SimError::EndOfTime { at }));
    }

    #[test]
    fn a_simulation_drops_its_contents() {
        let alive = Rc::new(());
        let simulation = Simulation::new(0);
        let (sim, held) = (Sim::clone(&simulation), Rc::clone(&alive));
        simulation.spawn(NAME, async move {
            std::future::pending::<()>().await;
            drop((sim, held));
        });
        assert!(simulation.run().is_err());
        drop(simulation);
        assert_eq!(Rc::strong_count(&alive), 1);
    }

    #[test]
    fn foreign_wakers_wake_their_task() {
        /// Polls its future only after its own waker was called, as combinators of other crates do.
        struct Picky<F>(Pin<Box<F>>, std::sync::Arc<Flag>);
        struct Flag(std::sync::Mutex<Option<std::task::Waker>>, std::sync::atomic::AtomicBool);
        impl std::task::Wake for Flag {
            fn wake(self: std::sync::Arc<Self>) {
                self.1.store(true, std::sync::atomic::Ordering::Relaxed);
                self.0.lock().unwrap().take().unwrap().wake();
            }
        }
        impl<F: Future<Output = ()>> Future for Picky<F> {
            type Output = ();
            fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
                *self.1.0.lock().unwrap() = Some(context.waker().clone());
                if !self.1.1.swap(false, std::sync::atomic::Ordering::Relaxed) {
                    return Poll::Pending;
                }
                let own = std::task::Waker::from(std::sync::Arc::clone(&self.1));
                self.0.as_mut().poll(&mut Context::from_waker(&own))
            }
        }
        let simulation = Simulation::new(0);
        let sim = Sim::clone(&simulation);
        let flag = std::sync::Arc::new(Flag(std::sync::Mutex::default(), true.into()));
        simulation.spawn(NAME, async move {
            Picky(Box::pin(sim.delay(ns(9))), flag).await;
        });
        simulation.run().unwrap();
        assert_eq!(simulation.now(), ns(9));
    }
}
