//! The rank that this process is, and the one thread that may use it.
//!
//! All state of the rank is in a thread-local of the thread that joined the job. Python objects
//! name it by number; on any other thread the thread-local is empty, and the call is an error that
//! says so. If another thread collects an object, its number is recorded, and the rank's own thread
//! drops the state in its next call. So no other thread ever touches state of a rank, and this
//! needs no unsafe code.
//!
//! ```text
//!   Request(7) ──┐        thread-local of the rank's thread
//!   Window(8) ───┼──────► PythonRank { communicators, requests, windows, exchanges, variables,
//!                │                     showings }
//!   collected elsewhere: number ──► ORPHANS ──► dropped in the next call
//! ```

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use hikyaku::{Received, World};
use pyo3::prelude::*;

use crate::error::{Error, raise_init};
use crate::exchange::ArrayExchange;
use crate::gate::{GateGuard, Gated};
use crate::shared::{Showing, VariablePart};
use crate::wait::Habit;
use crate::window::AnyWindow;

/// An operation in flight. The result of a receive has the message's envelope.
pub(crate) type InFlight = Pin<Box<dyn Future<Output = Result<Option<Received>, hikyaku::Error>>>>;

/// The state of a request.
pub(crate) enum RequestStage {
    Open(Gated<InFlight>),
    /// Taken out of the table while it is polled: a signal handler may use the request meanwhile.
    Polled,
    Done(Result<Option<Received>, hikyaku::Error>),
}

/// A communicator.
pub(crate) struct PythonComm {
    world: Gated<World>,
    rank: u32,
    size: u32,
}

impl PythonComm {
    fn new(world: World, _: &GateGuard) -> Rc<PythonComm> {
        let (rank, size) = (world.rank(), world.size());
        Rc::new(PythonComm { world: Gated::new(world), rank, size })
    }

    /// The communicator itself.
    #[inline]
    pub(crate) fn at(&self, inside: &GateGuard) -> &World {
        self.world.get(inside)
    }

    /// This rank.
    #[inline]
    pub(crate) fn rank(&self) -> u32 {
        self.rank
    }

    /// How many ranks there are.
    #[inline]
    pub(crate) fn size(&self) -> u32 {
        self.size
    }
}

/// A request, and whether a Python object still names it.
struct RequestEntry {
    stage: RequestStage,
    is_named: bool,
}

/// This process's rank in its job.
pub(crate) struct PythonRank {
    /// The world and the communicators made from it, by number: even ones for arrays, and beside
    /// each an odd one for objects. Both are made together, so that ranks need not agree on the
    /// time.
    /// `None`: freed.
    communicators: RefCell<Vec<Option<Rc<PythonComm>>>>,
    requests: RefCell<BTreeMap<u64, RequestEntry>>,
    windows: RefCell<BTreeMap<u64, Rc<Gated<AnyWindow>>>>,
    exchanges: RefCell<BTreeMap<u64, Rc<RefCell<Gated<ArrayExchange>>>>>,
    variables: RefCell<BTreeMap<u64, Rc<VariablePart>>>,
    showings: RefCell<BTreeMap<u64, Rc<Showing>>>,
    /// The number of requests in [`RequestStage::Open`], which every wait checks.
    open: Cell<usize>,
    next: Cell<u64>,
    /// How recent waits for messages and for shared variables ended.
    pub(crate) messages: Habit,
    pub(crate) turns: Habit,
}

/// A thread's view of the rank.
enum ThreadRank {
    /// The rank is not this thread's, or not joined yet.
    Nothing,
    Rank(Rc<PythonRank>),
    Left,
}

thread_local! {
    static HERE: RefCell<ThreadRank> = const { RefCell::new(ThreadRank::Nothing) };
}

/// Whether a thread of this process has joined the job.
static JOINED: AtomicBool = AtomicBool::new(false);

/// Whether this process is a forked child of a rank.
static FORKED: AtomicBool = AtomicBool::new(false);

/// Objects that other threads have collected, and a flag for any, which every call checks.
static ORPHANS: Mutex<Vec<u64>> = Mutex::new(Vec::new());
static HAVE_ORPHANS: AtomicBool = AtomicBool::new(false);

/// The rank, if this is its thread and it is in the job.
pub(crate) fn here() -> PyResult<Rc<PythonRank>> {
    let found = HERE.with_borrow(|here| match here {
        ThreadRank::Rank(rank) => Some(Ok(Rc::clone(rank))),
        ThreadRank::Left => Some(Err("this process has left its job: there is no way back")),
        ThreadRank::Nothing => None,
    });
    let rank = match found {
        _ if FORKED.load(Ordering::Relaxed) => {
            Err("this process was forked from a rank and is not a rank itself: use \
             hikyaku.spawn, or multiprocessing with the start method 'spawn'")
        }
        Some(found) => found,
        None if JOINED.load(Ordering::Relaxed) => Err(
            "this is not the thread that called hikyaku.world() first, the only one that may use \
             it: hand the data to that thread, for example through a queue.Queue",
        ),
        None => Err("this process has not joined its job: call hikyaku.world() first"),
    };
    let rank = rank.map_err(Error::new_err)?;
    rank.bury();
    Ok(rank)
}

/// Joins the job, or returns the rank if it has joined before.
pub(crate) fn join() -> PyResult<Rc<PythonRank>> {
    let is_new = HERE.with_borrow(|here| matches!(here, ThreadRank::Nothing));
    if !is_new || FORKED.load(Ordering::Relaxed) || JOINED.swap(true, Ordering::Relaxed) {
        return here();
    }
    let world = World::join().map_err(|error| {
        JOINED.store(false, Ordering::Relaxed);
        raise_init(&error)
    })?;
    let inside = GateGuard::enter();
    let both = [world.beside(), world].map(|world| Some(PythonComm::new(world, &inside)));
    drop(inside);
    let rank = Rc::new(PythonRank {
        communicators: RefCell::new(both.into_iter().rev().collect()),
        requests: RefCell::default(),
        windows: RefCell::default(),
        exchanges: RefCell::default(),
        variables: RefCell::default(),
        showings: RefCell::default(),
        open: Cell::new(0),
        next: Cell::new(0),
        messages: Habit::default(),
        turns: Habit::default(),
    });
    HERE.set(ThreadRank::Rank(Rc::clone(&rank)));
    Ok(rank)
}

/// Leaves the job: operations that were not waited for are abandoned. Without `in_order` the rank
/// sends no notice, and its peers are told that it died when its process ends.
#[pyfunction]
#[pyo3(name = "_leave")]
pub(crate) fn leave(in_order: bool) {
    let is_here = HERE.with_borrow(|here| matches!(here, ThreadRank::Rank(_)));
    if !is_here {
        return;
    }
    if let ThreadRank::Rank(rank) = HERE.replace(ThreadRank::Left) {
        if in_order {
            rank.clear();
        } else {
            Box::leak(Box::new(rank));
        }
    }
}

/// Called in the child after a fork: the rank belongs to the parent.
#[pyfunction]
#[pyo3(name = "_forked")]
pub(crate) fn forked() {
    FORKED.store(true, Ordering::Relaxed);
    leave(false);
}

impl PythonRank {
    /// The communicator of a number.
    ///
    /// # Errors
    /// There is none of this number.
    pub(crate) fn communicator(&self, number: usize) -> PyResult<Rc<PythonComm>> {
        let found = self.communicators.borrow().get(number).cloned().flatten();
        found.ok_or_else(|| Error::new_err("this communicator has been freed, or never was"))
    }

    /// Records that a nonblocking call has found nothing.
    #[cold]
    pub(crate) fn found_nothing(&self) {
        if let Ok(world) = self.communicator(0) {
            world.at(&GateGuard::enter()).found_nothing();
        }
    }

    /// Adds a communicator and the one for objects beside it. Returns its number.
    pub(crate) fn add_communicators(&self, pair: [World; 2], inside: &GateGuard) -> usize {
        let mut all = self.communicators.borrow_mut();
        all.extend(pair.map(|world| Some(PythonComm::new(world, inside))));
        all.len() - 2
    }

    /// Frees a communicator and the one beside it. Operations that use it continue to their end.
    ///
    /// # Errors
    /// It is the world.
    pub(crate) fn free_communicator(&self, number: usize) -> PyResult<()> {
        let first = number & !1;
        if first == 0 {
            return Err(Error::new_err("the world is there as long as the rank: it is not freed"));
        }
        let freed = {
            let mut all = self.communicators.borrow_mut();
            [first, first + 1].map(|number| all.get_mut(number).and_then(Option::take))
        };
        drop(freed);
        Ok(())
    }

    fn clear(&self) {
        // Each is dropped while nothing is borrowed, because dropping may use the table.
        let requests = self.requests.take();
        drop(requests);
        let windows = self.windows.take();
        drop(windows);
        let exchanges = self.exchanges.take();
        drop(exchanges);
        self.clear_variables();
        let communicators = self.communicators.take();
        drop(communicators);
    }

    /// Adds an operation and polls it for the first time, which gives it its place among the
    /// messages. Returns its name.
    pub(crate) fn start(&self, operation: InFlight) -> u64 {
        let id = self.name();
        let entry =
            RequestEntry { stage: RequestStage::Open(Gated::new(operation)), is_named: true };
        self.requests.borrow_mut().insert(id, entry);
        self.open.set(self.open.get() + 1);
        self.poll(id);
        id
    }

    /// A name that was never used before.
    fn name(&self) -> u64 {
        let id = self.next.get();
        self.next.set(id + 1);
        id
    }

    /// Adds a window. Returns its name.
    pub(crate) fn add_window(&self, window: AnyWindow) -> u64 {
        let id = self.name();
        self.windows.borrow_mut().insert(id, Rc::new(Gated::new(window)));
        id
    }

    /// The window of a name.
    ///
    /// # Errors
    /// It has been closed.
    pub(crate) fn window(&self, id: u64) -> PyResult<Rc<Gated<AnyWindow>>> {
        let found = self.windows.borrow().get(&id).map(Rc::clone);
        found.ok_or_else(|| Error::new_err("this window has been closed"))
    }

    /// Drops a window, if it exists.
    pub(crate) fn remove_window(&self, id: u64) {
        let removed = self.windows.borrow_mut().remove(&id);
        drop(removed);
    }

    /// Adds an exchange. Returns its name.
    pub(crate) fn add_exchange(&self, exchange: Gated<ArrayExchange>) -> u64 {
        let id = self.name();
        self.exchanges.borrow_mut().insert(id, Rc::new(RefCell::new(exchange)));
        id
    }

    /// The exchange of a name.
    ///
    /// # Errors
    /// It has been closed.
    pub(crate) fn exchange(&self, id: u64) -> PyResult<Rc<RefCell<Gated<ArrayExchange>>>> {
        let found = self.exchanges.borrow().get(&id).map(Rc::clone);
        found.ok_or_else(|| Error::new_err("this exchange has been closed"))
    }

    /// Drops an exchange, if it exists.
    pub(crate) fn remove_exchange(&self, id: u64) {
        let removed = self.exchanges.borrow_mut().remove(&id);
        drop(removed);
    }

    /// Adds a part of a shared variable with one reference. Returns its name.
    pub(crate) fn add_variable(&self, variable: Rc<VariablePart>) -> u64 {
        let id = self.name();
        self.variables.borrow_mut().insert(id, variable);
        id
    }

    /// Adds the arrays that show a part of a shared variable. Returns their name.
    pub(crate) fn add_showing(&self, showing: Showing) -> u64 {
        let id = self.name();
        self.showings.borrow_mut().insert(id, Rc::new(showing));
        id
    }

    /// The arrays of a name that show a part of a shared variable.
    ///
    /// # Errors
    /// None is expected: the holder of a name keeps the entry.
    #[inline]
    pub(crate) fn showing(&self, id: u64) -> PyResult<Rc<Showing>> {
        let found = self.showings.borrow().get(&id).map(Rc::clone);
        found.ok_or_else(|| Error::new_err("this shared variable is no more"))
    }

    /// Drops the shared variables. Arrays that show one may outlive this: the memory stays mapped
    /// as long as any memory of the job is.
    fn clear_variables(&self) {
        let (showings, variables) = (self.showings.take(), self.variables.take());
        if variables.is_empty() {
            return;
        }
        let world = self.communicators.borrow().first().cloned().flatten();
        let inside = GateGuard::enter();
        let pin = world.and_then(|world| world.at(&inside).alloc::<u8>(1).ok());
        drop(inside);
        if let Some(pin) = pin {
            Box::leak(Box::new(pin));
        }
        drop(showings);
        drop(variables);
    }

    /// Removes one reference to a part of a shared variable; the last one drops it.
    fn unname_variable(&self, id: u64) {
        let mut variables = self.variables.borrow_mut();
        let Some(variable) = variables.get(&id) else { return };
        variable.names.set(variable.names.get() - 1);
        let removed = if variable.names.get() == 0 { variables.remove(&id) } else { None };
        drop(variables);
        drop(removed);
    }

    /// How many operations are in flight.
    pub(crate) fn open(&self) -> usize {
        self.open.get()
    }

    /// Polls all operations in flight once, in the order in which they were started.
    pub(crate) fn poll_all(&self) {
        let mut from = 0;
        while self.open() > 0 {
            let next = self.requests.borrow().range(from..).next().map(|(id, _)| *id);
            let Some(id) = next else { return };
            self.poll(id);
            from = id + 1;
        }
    }

    /// Polls an operation once, if it is in flight.
    pub(crate) fn poll(&self, id: u64) {
        let taken = self.requests.borrow_mut().get_mut(&id).and_then(|entry| {
            let is_open = matches!(entry.stage, RequestStage::Open(_));
            is_open.then(|| std::mem::replace(&mut entry.stage, RequestStage::Polled))
        });
        let Some(RequestStage::Open(mut operation)) = taken else { return };
        let inside = GateGuard::enter();
        let in_place = operation.get_mut(&inside).as_mut();
        let polled = in_place.poll(&mut Context::from_waker(Waker::noop()));
        drop(inside);
        let stage = match polled {
            Poll::Pending => RequestStage::Open(operation),
            Poll::Ready(result) => {
                self.open.set(self.open.get() - 1);
                drop(operation);
                RequestStage::Done(result)
            }
        };
        let mut requests = self.requests.borrow_mut();
        let is_over = matches!(stage, RequestStage::Done(_));
        match requests.get_mut(&id) {
            Some(entry) if entry.is_named || !is_over => entry.stage = stage,
            _ => _ = requests.remove(&id),
        }
    }

    /// Whether a request is done. A request that no longer exists counts as done.
    pub(crate) fn is_done(&self, id: u64) -> bool {
        let requests = self.requests.borrow();
        requests.get(&id).is_none_or(|entry| matches!(entry.stage, RequestStage::Done(_)))
    }

    /// The result of a request that is done. It stays in the table for later calls.
    pub(crate) fn result(&self, id: u64) -> Option<Result<Option<Received>, hikyaku::Error>> {
        let requests = self.requests.borrow();
        match requests.get(&id)?.stage {
            RequestStage::Done(ref result) => Some(result.clone()),
            _ => None,
        }
    }

    /// Cancels an operation: a receive is withdrawn, and so is a send that has not begun.
    pub(crate) fn cancel(&self, id: u64) {
        let before = self.requests.borrow_mut().get_mut(&id).and_then(|entry| {
            let is_open = matches!(entry.stage, RequestStage::Open(_));
            let cancelled = RequestStage::Done(Err(hikyaku::MsgError::Cancelled.into()));
            is_open.then(|| std::mem::replace(&mut entry.stage, cancelled))
        });
        if before.is_some() {
            self.open.set(self.open.get() - 1);
        }
    }

    /// No Python object names this any more. A window or an exchange is dropped at once; a request
    /// when it is done, since its buffer is needed until then.
    fn unname(&self, id: u64) {
        self.remove_window(id);
        self.remove_exchange(id);
        self.unname_variable(id);
        let showing = self.showings.borrow_mut().remove(&id);
        drop(showing);
        let mut requests = self.requests.borrow_mut();
        let Some(entry) = requests.get_mut(&id) else { return };
        entry.is_named = false;
        let removed =
            if matches!(entry.stage, RequestStage::Done(_)) { requests.remove(&id) } else { None };
        drop(requests);
        drop(removed);
    }

    #[inline]
    fn bury(&self) {
        if HAVE_ORPHANS.load(Ordering::Relaxed) {
            self.bury_all();
        }
    }

    #[cold]
    fn bury_all(&self) {
        let Ok(mut orphans) = ORPHANS.try_lock() else { return };
        HAVE_ORPHANS.store(false, Ordering::Relaxed);
        let all = std::mem::take(&mut *orphans);
        drop(orphans);
        all.into_iter().for_each(|id| self.unname(id));
    }
}

/// A Python object that named something here was dropped, on any thread.
pub(crate) fn forget(id: u64) {
    let rank = HERE.try_with(|here| {
        let here = here.borrow();
        match &*here {
            ThreadRank::Rank(rank) => Some(Rc::clone(rank)),
            _ => None,
        }
    });
    match rank {
        Ok(Some(rank)) => rank.unname(id),
        _ => {
            let mut orphans = ORPHANS.lock().unwrap_or_else(PoisonError::into_inner);
            orphans.push(id);
            HAVE_ORPHANS.store(true, Ordering::Relaxed);
        }
    }
}
