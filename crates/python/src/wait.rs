//! Waiting, from within an interpreter.
//!
//! A call that has to wait gives the interpreter to other threads and takes it back every now and
//! then to ask for signals: a handler that raises, as that of Ctrl-C does, ends the call. What it
//! was doing is abandoned in order, as when a future is dropped: a receive is withdrawn, the ranks
//! of a collective are told.
//!
//! Handlers run in the middle of a wait and may call anything, this library too: nothing of the
//! rank is borrowed while they do.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use hikyaku::MsgError;
use hikyaku::shared::Turn;
use pyo3::prelude::*;

use crate::error::raise;
use crate::gate::{self, GateGuard, Paused};
use crate::rank::{PythonComm, PythonRank};

/// How often a waiting call asks for signals.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// Looks of a wait before it looks at the clock, which costs as much as a message.
const UNTIMED: u32 = 64;

/// Looks of a short wait before it lets the interpreter go, some two microseconds: to let it go and
/// take it back costs a part of what a small message takes, and other threads are given it after
/// milliseconds only.
const ATTACHED: u32 = 16;

/// Most waits in a row that do without these looks, because they have been in vain.
const HASTY_MOST: u32 = 63;

/// Whether waits of a kind are worth looking again before the interpreter is let go: not if those
/// before were longer than that. Ranks that share a processor only keep each other from it: one
/// wait in 64 finds out whether that is still so.
#[derive(Debug, Default)]
pub(crate) struct Habit {
    /// So many waits to come let go at once.
    hasty: Cell<u32>,
    /// How many did at last.
    before: Cell<u32>,
}

impl Habit {
    /// Whether to look again this time.
    fn is_patient(&self) -> bool {
        let hasty = self.hasty.get();
        self.hasty.set(hasty.saturating_sub(1));
        hasty == 0
    }

    /// Something came of it, or nothing.
    fn learn(&self, came: bool) {
        let hasty = if came { 0 } else { HASTY_MOST.min(2 * self.before.get() + 1) };
        self.before.set(hasty);
        self.hasty.set(hasty);
    }
}

/// Looks of a wait that only this rank could end, with nothing in flight that would, before it is
/// abandoned.
const ALONE: u32 = 256;

/// From so many bytes on other threads may run even while something is copied without waiting.
pub(crate) const LARGE: usize = 64 << 10;

/// Runs an operation of `world` to its end, or until a signal's handler raises. What is short is
/// tried a few times before other threads get the interpreter.
///
/// # Errors
/// What the operation failed with, or what a handler raised.
pub(crate) fn complete<T>(
    py: Python<'_>,
    wait: &WaitInfo<'_>,
    operation: impl Future<Output = Result<T, hikyaku::Error>>,
) -> PyResult<T> {
    run(py, wait, operation)?.map_err(raise)
}

/// What is known of a wait, beside the operation itself.
pub(crate) struct WaitInfo<'r> {
    pub(crate) rank: &'r PythonRank,
    pub(crate) world: &'r PythonComm,
    /// The gate is given back while other threads have the interpreter and wait for it.
    pub(crate) inside: &'r GateGuard,
    /// How many bytes are copied at once.
    pub(crate) bytes: usize,
    /// Whether nobody but this rank can end the wait, unless more requests than these are open.
    pub(crate) alone: Option<usize>,
}

impl<'r> WaitInfo<'r> {
    /// For messages, short ones, from others.
    pub(crate) fn new(
        rank: &'r PythonRank,
        world: &'r PythonComm,
        inside: &'r GateGuard,
    ) -> WaitInfo<'r> {
        WaitInfo { rank, world, inside, bytes: 0, alone: None }
    }
}

/// As [`complete`]; the operation's own outcome is the inner one.
pub(crate) fn run<F: Future>(
    py: Python<'_>,
    wait: &WaitInfo<'_>,
    operation: F,
) -> PyResult<F::Output> {
    let WaitInfo { rank, inside, bytes, alone, .. } = *wait;
    let world = wait.world.at(inside);
    let mut operation = pin!(operation);
    if bytes < LARGE {
        let mut look = || operation.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(output) = look() {
            return Ok(output);
        }
        if rank.messages.is_patient() {
            for _ in 0..ATTACHED {
                rank.poll_all();
                std::hint::spin_loop();
                if let Poll::Ready(output) = look() {
                    rank.messages.learn(true);
                    return Ok(output);
                }
            }
            rank.messages.learn(false);
        }
    }
    let mut signals = Signals::default();
    let waiting = poll_fn(|context| {
        if let Poll::Ready(output) = operation.as_mut().poll(context) {
            return Poll::Ready(Ok(output));
        }
        world.unreported(|| rank.poll_all());
        if alone.is_some_and(|own| rank.open() <= own) && signals.looks > ALONE {
            let rank = world.rank();
            return Poll::Ready(Err(raise(MsgError::WaitsForItself { rank }.into())));
        }
        signals.ask(wait).map_or(Poll::Pending, |raised| Poll::Ready(Err(raised)))
    });
    let blocked = Detached(|| {
        let output = world.block_on(waiting);
        (output, Paused::new(inside))
    });
    let (output, paused) = py.detach(move || blocked.call()).0;
    drop(paused);
    output
}

/// Waits for a shared variable; `None`: not before `until`. The first microseconds of it keep the
/// interpreter, as in other short waits.
///
/// # Errors
/// The variable was lost, or what a handler raised. The request is abandoned.
pub(crate) fn turn<G>(
    py: Python<'_>,
    wait: &WaitInfo<'_>,
    mut turn: Turn<'_, G>,
    until: Option<Instant>,
) -> PyResult<Option<G>> {
    let WaitInfo { rank, inside, .. } = *wait;
    let is_late = || until.is_some_and(|until| Instant::now() >= until);
    if let Some(guard) = turn.look().map_err(raise)? {
        return Ok(Some(guard));
    }
    if is_late() {
        return Ok(None);
    }
    if rank.turns.is_patient() {
        while turn.glance() {
            if let Some(guard) = turn.look().map_err(raise)? {
                rank.turns.learn(true);
                return Ok(Some(guard));
            }
        }
        rank.turns.learn(false);
    }
    let mut signals = Signals::default();
    let mut rest = || {
        while !is_late() {
            rank.poll_all();
            turn.rest();
            if let Some(guard) = turn.look().map_err(raise)? {
                return Ok(Some(guard));
            }
            signals.ask(wait).map_or(Ok(()), Err)?;
        }
        Ok(None)
    };
    let blocked = Detached(|| (rest(), Paused::new(inside)));
    let (output, paused) = py.detach(move || blocked.call()).0;
    drop(paused);
    output
}

/// Something done while other threads have the interpreter, and then what came of it.
struct Detached<F>(F);

// SAFETY: `Python::detach` asks for `Send` lest anything tied to the interpreter be used while it
// is let go of; it runs its closure on this very thread, so nothing is sent anywhere. What is done
// here touches memory that Python has pinned for it, by address, and attaches again where it drops
// or asks for something of Python's.
unsafe impl<F> Send for Detached<F> {}

impl<R, F: FnOnce() -> R> Detached<F> {
    fn call(self) -> Detached<R> {
        Detached((self.0)())
    }
}

/// When a wait asked last.
#[derive(Default)]
struct Signals {
    looks: u32,
    last: Option<Instant>,
}

impl Signals {
    /// What a signal's handler raised, if it is time to ask.
    fn ask(&mut self, wait: &WaitInfo<'_>) -> Option<PyErr> {
        self.looks = self.looks.saturating_add(1);
        if self.looks < UNTIMED {
            return None;
        }
        let now = Instant::now();
        let last = *self.last.get_or_insert(now);
        if now - last < ASK_EVERY {
            return None;
        }
        self.last = Some(now);
        let check = || Python::attach(|py| py.check_signals()).err();
        gate::outside(wait.world.at(wait.inside), wait.inside, check)
    }
}
