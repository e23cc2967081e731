//! The state of MPI in a process, and the boundary around each call of a library's function.
//!
//! ```text
//!   MPI_Send ──► call ──► Mpi::send ──► Ok ───────────────────────────► MPI_SUCCESS
//!                  │          │ Err, or a panic
//!                  │          └──► raise: the communicator's error handler ──► code, or the end
//!                  └ the one boundary that no panic crosses
//! ```
//!
//! A process has one such state, and one thread at a time uses it. With MPI_THREAD_MULTIPLE,
//! [`call`] holds one gate from its first line to its last, except during a wait
//! (`hikyaku_rank`). At lower levels the program must make its threads take turns; a call pays
//! one branch for the gate, and sets a flag that detects a violation. A function of the program
//! may call MPI again, so it runs outside the gate ([`outside`]) with nothing borrowed.

use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::ThreadId;

use hikyaku_rank::{Communicator, Gate, SpareThread};

use crate::abi::{Fortran, Told};
use crate::attributes::Keyval;
use crate::buffered::Outbox;
use crate::communicators::Comm;
use crate::dialect::{Dialect, Handle, Object};
use crate::errors::{Codes, Handler};
use crate::failure::{CalledFunction, Class, Failure};
use crate::groups::Group;
use crate::info::Info;
use crate::messages::Matched;
use crate::operations::Op;
use crate::requests::{Entry, Request};
use crate::sessions::Session;
use crate::slots::{Slots, object_of};
use crate::types::Type;

/// The phase of MPI in a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    /// MPI_Init has not been called.
    Before,
    /// Between MPI_Init and MPI_Finalize.
    Running,
    /// MPI_Finalize has been called.
    After,
}

/// The phase of a process, which any thread may query.
pub(crate) struct SharedPhase(AtomicU8);

impl SharedPhase {
    pub(crate) fn get(&self) -> Phase {
        let phase = self.0.load(Ordering::Acquire);
        let all = [Phase::Before, Phase::Running, Phase::After];
        all.into_iter().find(|it| *it as u8 == phase).unwrap_or(Phase::Before)
    }

    pub(crate) fn set(&self, phase: Phase) {
        self.0.store(phase as u8, Ordering::Release);
    }
}

/// The state of MPI in a process. Any thread may use a field with a lock, or an atomic one.
pub(crate) struct Runtime {
    pub(crate) phase: SharedPhase,
    /// The provided level of thread support.
    pub(crate) threads: AtomicI32,
    /// This rank of the job and the number of ranks, once it has joined.
    pub(crate) joined: OnceLock<(u32, u32)>,
    /// The communicator of the whole job, once MPI_Init or a session has joined it.
    pub(crate) job: RefCell<Option<Communicator>>,
    pub(crate) sessions: Mutex<Slots<Arc<Session>>>,
    pub(crate) world: RefCell<Option<Rc<Comm>>>,
    pub(crate) own: RefCell<Option<Rc<Comm>>>,
    /// The error handler of MPI_COMM_SELF, for calls that did not enter.
    pub(crate) own_handler: Mutex<Handler>,
    pub(crate) comms: Slots<Rc<Comm>>,
    pub(crate) groups: Slots<Rc<Group>>,
    pub(crate) types: Slots<Rc<Type>>,
    pub(crate) predefined: OnceCell<Vec<Option<Rc<Type>>>>,
    /// Predefined datatypes without names: Fortran's kinds of numbers that were asked for.
    pub(crate) unnamed: RefCell<Vec<Rc<Type>>>,
    pub(crate) ops: Slots<Rc<Op>>,
    pub(crate) requests: Slots<Entry>,
    /// The handle of the shared request of operations that complete at once.
    pub(crate) complete: Cell<Handle>,
    pub(crate) messages: Slots<Rc<Matched>>,
    pub(crate) infos: Mutex<Slots<Arc<Info>>>,
    pub(crate) handlers: Mutex<Slots<Handler>>,
    pub(crate) codes: Mutex<Codes>,
    /// The last error that the program received: its code, and our explanation.
    pub(crate) told: Mutex<Option<(i32, String)>>,
    pub(crate) keyvals: RefCell<Vec<Option<Rc<Keyval>>>>,
    /// The values of predefined attributes, which programs read by address.
    pub(crate) numbers: [Cell<i32>; 7],
    /// Requests whose handles were freed before they were complete.
    pub(crate) freed: RefCell<Vec<Rc<Request>>>,
    /// The process's buffer of buffered mode.
    pub(crate) buffered: Outbox,
    /// The settings for Fortran.
    pub(crate) fortran: Told,
    /// The memory of MPI_Alloc_mem, by address.
    pub(crate) memory: RefCell<BTreeMap<usize, Vec<u128>>>,
    /// The thread that called MPI_Init.
    pub(crate) thread: OnceLock<ThreadId>,
    /// Whether the program has ever created a reduction operation.
    pub(crate) has_own_ops: Cell<bool>,
}

impl Runtime {
    const fn new() -> Runtime {
        Runtime {
            phase: SharedPhase(AtomicU8::new(Phase::Before as u8)),
            threads: AtomicI32::new(0),
            joined: OnceLock::new(),
            job: RefCell::new(None),
            sessions: Mutex::new(Slots::new(Object::Session)),
            world: RefCell::new(None),
            own: RefCell::new(None),
            own_handler: Mutex::new(Handler::Fatal),
            comms: Slots::new(Object::Comm),
            groups: Slots::new(Object::Group),
            types: Slots::new(Object::Type),
            predefined: OnceCell::new(),
            unnamed: RefCell::new(Vec::new()),
            ops: Slots::new(Object::Op),
            requests: Slots::new(Object::Request),
            complete: Cell::new(Handle::REQUEST_NULL),
            messages: Slots::new(Object::Message),
            infos: Mutex::new(Slots::new(Object::Info)),
            handlers: Mutex::new(Slots::new(Object::Errhandler)),
            codes: Mutex::new(Codes::new()),
            told: Mutex::new(None),
            keyvals: RefCell::new(Vec::new()),
            numbers: [const { Cell::new(0) }; 7],
            freed: RefCell::new(Vec::new()),
            buffered: Outbox::new(),
            fortran: Mutex::new(Fortran::new()),
            memory: RefCell::new(BTreeMap::new()),
            thread: OnceLock::new(),
            has_own_ops: Cell::new(false),
        }
    }
}

/// Locks a mutex. A poisoned one is usable: the few statements under the lock leave it consistent.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The state of the process and the gate in front of it.
struct Process {
    state: Runtime,
    gate: Gate,
    /// Whether calls go through the gate: at MPI_THREAD_MULTIPLE, and while MPI is not running,
    /// because any thread may then call certain functions.
    is_gated: AtomicBool,
    /// Whether a call that did not go through the gate is in progress.
    is_busy: AtomicBool,
    /// Whether the rank is in virtual time.
    is_virtual: AtomicBool,
    /// Number of calls in progress that went through the gate.
    calls: Cell<u32>,
}

// SAFETY: `state` and `calls` are used only in calls of MPI, by `call`, by `leave_at_exit`, and by
// `attend_as_spare`, which runs only while calls are gated. If `is_gated`, a thread enters the gate
// before it uses any of it, and leaves it after its last use: a call's values are dropped, and so
// are its counts of shared ones, before its `Inside` is. Where a call leaves the gate in between,
// it touches nothing until it has entered again: in a wait, as `hikyaku_rank::Gate` documents, and
// in `outside`. The gate orders the writes of one thread before the reads of the next. If not
// `is_gated`, the level that MPI_Init_thread provided is MPI_THREAD_SERIALIZED at most: the program
// makes one call at a time (MPI 5.0 §11.6.2), and orders the calls of its threads. A call that
// detects a violation ends the process. Other functions that any thread may call use only fields
// that are atomic or have a lock of their own.
unsafe impl Sync for Process {}

static PROCESS: Process = Process {
    state: Runtime::new(),
    gate: Gate::new(),
    is_gated: AtomicBool::new(true),
    is_busy: AtomicBool::new(false),
    is_virtual: AtomicBool::new(false),
    calls: Cell::new(0),
};

/// The gate of the process.
pub(crate) fn gate() -> &'static Gate {
    &PROCESS.gate
}

/// Sets whether calls go through the gate from now on. For a call that is inside the gate.
pub(crate) fn go_through_gate(is_gated: bool) {
    PROCESS.is_gated.store(is_gated, Ordering::Relaxed);
}

/// Whether calls go through the gate. Any thread may call this.
pub(crate) fn is_gated() -> bool {
    PROCESS.is_gated.load(Ordering::Relaxed)
}

/// Sets whether the rank has joined a job in virtual time.
pub(crate) fn go_by_virtual_time(is_virtual: bool) {
    PROCESS.is_virtual.store(is_virtual, Ordering::Relaxed);
}

/// Whether the rank has joined a job in virtual time. Any thread may call this.
pub(crate) fn is_in_virtual_time() -> bool {
    PROCESS.is_virtual.load(Ordering::Relaxed)
}

/// The datatypes that have handles. For calls, which are inside the gate.
pub(crate) fn types() -> &'static Slots<Rc<Type>> {
    &PROCESS.state.types
}

/// Whether other calls than the current one are in progress.
pub(crate) fn has_other_calls() -> bool {
    is_gated() && PROCESS.calls.get() > 1
}

/// Runs a function of the program, which may take any time, wait for another thread, and call MPI.
/// For calls, which are inside the gate.
pub(crate) fn outside<R>(act: impl FnOnce() -> R) -> R {
    if !is_gated() {
        let is_busy = PROCESS.is_busy.load(Ordering::Relaxed);
        PROCESS.is_busy.store(false, Ordering::Relaxed);
        let result = act();
        PROCESS.is_busy.store(is_busy, Ordering::Relaxed);
        return result;
    }
    let job = PROCESS.state.job.borrow().clone();
    match job {
        Some(job) if job.is_shared() => job.outside(act),
        _ => {
            PROCESS.gate.leave();
            let result = act();
            PROCESS.gate.enter();
            result
        }
    }
}

/// A call in progress, and how it entered.
enum Inside {
    /// It went through the gate.
    Gated,
    /// It did not, because the program makes its threads take turns.
    Alone,
    /// It did not, and another call may be in progress.
    Beside,
    /// It did not, and another call is in progress, against the rules.
    Second,
}

impl Inside {
    /// Below MPI_THREAD_MULTIPLE, detection costs a call two stores, and no atomic
    /// read-modify-write operation: if two calls enter at the same moment, both may go undetected.
    #[inline(always)]
    fn enter(may_be_second: bool) -> Inside {
        if is_gated() {
            PROCESS.gate.enter();
            // The wait may have been for an MPI_Init of a lower level, which has switched the gate
            // off.
            if is_gated() {
                PROCESS.calls.set(PROCESS.calls.get() + 1);
                return Inside::Gated;
            }
            PROCESS.gate.leave();
        }
        if may_be_second {
            return Inside::Beside;
        }
        if PROCESS.is_busy.load(Ordering::Relaxed) {
            return Inside::Second;
        }
        PROCESS.is_busy.store(true, Ordering::Relaxed);
        Inside::Alone
    }
}

impl Drop for Inside {
    #[inline(always)]
    fn drop(&mut self) {
        match self {
            Inside::Gated => leave(),
            Inside::Alone => PROCESS.is_busy.store(false, Ordering::Relaxed),
            Inside::Beside | Inside::Second => {}
        }
    }
}

/// Ends a call: wakes other threads for which it has found something.
fn leave() {
    let job = PROCESS.state.job.borrow();
    job.iter().for_each(Communicator::tell_threads);
    drop(job);
    PROCESS.calls.set(PROCESS.calls.get() - 1);
    PROCESS.gate.leave();
}

/// The body of the progress thread, which runs until [`crate::progress::end`].
pub(crate) fn attend_as_spare(spare: &SpareThread) {
    PROCESS.gate.enter();
    let job = PROCESS.state.job.borrow().clone();
    // Functions of the program may run here only if it expects threads of the library.
    let polls = || {
        let state = &PROCESS.state;
        state.threads.load(Ordering::Relaxed) == crate::environment::THREAD_MULTIPLE
            || !state.has_own_ops.get()
    };
    // After a panic the program continues without the thread.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        job.iter().for_each(|job| job.attend_as_spare(spare, polls));
    }));
    drop(job);
    PROCESS.gate.leave();
}

unsafe extern "C" {
    safe fn atexit(function: extern "C" fn()) -> i32;
}

/// Makes this rank leave its job properly when the process ends. A process that ends while MPI is
/// in use has not left properly.
pub(crate) fn leave_at_exit() {
    extern "C" fn leave() {
        let _inside = Inside::enter(true);
        let state = &PROCESS.state;
        // The thread must not be in a provider whose library is about to be unloaded.
        crate::progress::end(state.job.borrow().clone());
        if state.is_idle() {
            state.comms.clear();
            drop(state.job.take());
        }
    }
    // If no function can be registered, the launcher detects the end of the process.
    let _ = atexit(leave);
}

/// MPI for a program of one binary interface.
pub struct Mpi<D> {
    pub(crate) state: &'static Runtime,
    /// Whether the function's name ends in `_c`.
    pub(crate) is_large: bool,
    /// Whether the call returns only when its operation is complete.
    pub(crate) is_waiting: bool,
    /// Whether the call did not enter, so that another call may be in progress.
    pub(crate) is_beside: bool,
    dialect: PhantomData<D>,
}

impl<D> Clone for Mpi<D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D> Copy for Mpi<D> {}

impl<D> std::fmt::Debug for Mpi<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mpi").field("phase", &self.state.phase.get()).finish_non_exhaustive()
    }
}

/// The object whose error handler gets a failure.
pub type Scope<D> = Option<(Object, <D as Dialect>::Handle)>;

/// Runs the body of a function. Returns its error code.
#[inline(always)]
pub fn call<D: Dialect>(
    call: &'static CalledFunction,
    scope: Scope<D>,
    body: impl FnOnce(&Mpi<D>) -> Result<(), Failure>,
) -> i32 {
    let inside = Inside::enter(call.is_for_any_thread);
    let is_beside = matches!(inside, Inside::Beside);
    let (state, is_large, is_waiting) = (&PROCESS.state, false, false);
    let mpi = Mpi { state, is_large, is_waiting, is_beside, dialect: PhantomData };
    if matches!(inside, Inside::Second) {
        mpi.end_as_second(call);
    }
    match catch_unwind(AssertUnwindSafe(|| body(&mpi))) {
        Ok(Ok(())) => 0,
        Ok(Err(failure)) => mpi.raise(call, scope, &failure),
        Err(panic) => mpi.raise(call, scope, &of_panic(&*panic)),
    }
}

/// The error code of a function that is not implemented.
#[cold]
pub fn unsupported<D: Dialect>(of: &'static CalledFunction, scope: Scope<D>) -> i32 {
    let text = format!("hikyaku does not have {} yet", of.name);
    call::<D>(of, scope, |_| Err(Failure::new(Class::UnsupportedOperation, text)))
}

/// A handle from a Fortran handle (MPI 5.0 §20.4): the same number.
pub fn from_int<D, H>(object: Object, number: i32) -> H
where
    D: FromInt<H>,
{
    D::from_int(object, number)
}

/// The Fortran handle of a handle.
pub fn to_int<D, H>(handle: H) -> i32
where
    D: FromInt<H>,
{
    D::to_int(handle)
}

/// The conversion between a dialect's handles and numbers.
pub trait FromInt<H>: Dialect {
    /// The handle.
    fn from_int(object: Object, number: i32) -> H;
    /// The number.
    fn to_int(handle: H) -> i32;
}

#[cold]
fn of_panic(panic: &(dyn Any + Send)) -> Failure {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given");
    Failure::new(Class::Intern, format!("an error of hikyaku itself: {text}"))
}

impl<D: Dialect> Mpi<D> {
    /// The state for a function whose name ends in `_c`.
    pub fn with_large_counts(self) -> Mpi<D> {
        Mpi { is_large: true, ..self }
    }

    /// The state for a function that waits until its operation is complete.
    pub fn waiting(self) -> Mpi<D> {
        Mpi { is_waiting: true, ..self }
    }

    /// The rank's communicator of all ranks, while MPI is in use.
    pub(crate) fn rank(&self) -> Result<Communicator, Failure> {
        let job = self.state.job.borrow().clone();
        job.filter(|_| !self.state.is_idle()).ok_or_else(|| self.not_running())
    }

    /// Checks that MPI is in use, for functions whose arguments do not imply it.
    ///
    /// # Errors
    /// MPI_Init has not been called, or MPI_Finalize has been, and there is no session.
    #[inline]
    pub fn needs_mpi(&self) -> Result<(), Failure> {
        if self.state.phase.get() == Phase::Running || !self.state.is_idle() {
            return Ok(());
        }
        Err(self.not_running())
    }

    /// MPI_COMM_WORLD.
    #[inline(always)]
    pub(crate) fn world(&self) -> Result<Rc<Comm>, Failure> {
        self.state.world.borrow().clone().ok_or_else(|| self.not_running())
    }

    /// The failure for a call that needs MPI to be running.
    #[cold]
    pub(crate) fn not_running(&self) -> Failure {
        Failure::new(
            Class::Other,
            match self.state.phase.get() {
                Phase::After => "MPI_Finalize has been called: nothing but queries may follow",
                _ => "MPI_Init has not been called",
            },
        )
        .of_call()
    }

    /// The failure for a handle that names no object of its kind.
    #[cold]
    pub(crate) fn no_such(&self, object: Object, handle: Handle) -> Failure {
        if self.state.phase.get() != Phase::Running && object == Object::Comm {
            return self.not_running();
        }
        let name = object.name();
        let text = match object_of(handle) {
            _ if handle == Handle::null(object) => format!("the {name} is the null handle"),
            Some(other) if other != object => {
                format!("the handle of a {} was given where a {name} is needed", other.name())
            }
            Some(_) => format!("the {name} was freed, or never made"),
            None => format!("{:#x} is not the handle of a {name}", handle.0),
        };
        Failure::new(object.class(), text)
    }
}
