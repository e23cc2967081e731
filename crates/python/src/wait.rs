//! Waiting within an interpreter.
//!
//! A call that has to wait gives the interpreter to other threads and takes it back periodically to
//! check for signals: a handler that raises, like that of Ctrl-C, ends the call. Its operation is
//! then abandoned in order, as when a future is dropped: a receive is withdrawn, the ranks of a
//! collective are told.
//!
//! Handlers run in the middle of a wait and may call anything, including this library: no state of
//! the rank is borrowed while they run.

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

/// How often a waiting call checks for signals.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// Polls of a wait before each reads the clock, which costs as much as a message.
const UNTIMED: u32 = 64;

/// Polls of a short wait before it releases the interpreter, some two microseconds. Releasing it
/// and taking it back costs a part of a small message's time, and other threads get it only after
/// milliseconds.
const ATTACHED: u32 = 16;

/// Most consecutive waits that skip these polls because they were unsuccessful.
const HASTY_MOST: u32 = 63;

/// Whether waits of a kind should poll before they release the interpreter: not if the last ones
/// took longer than these polls. Ranks that share a processor only delay each other by polling. One
/// wait in 64 tests whether that is still so.
#[derive(Debug, Default)]
pub(crate) struct Habit {
    /// The number of next waits that release it at once.
    hasty: Cell<u32>,
    /// The last such number.
    before: Cell<u32>,
}

impl Habit {
    /// Whether to poll this time.
    fn is_patient(&self) -> bool {
        let hasty = self.hasty.get();
        self.hasty.set(hasty.saturating_sub(1));
        hasty == 0
    }

    /// Records whether the polls were successful.
    fn learn(&self, came: bool) {
        let hasty = if came { 0 } else { HASTY_MOST.min(2 * self.before.get() + 1) };
        self.before.set(hasty);
        self.hasty.set(hasty);
    }
}

/// Polls of a wait that only this rank could end, without an operation in flight that would, before
/// the wait is abandoned.
const ALONE: u32 = 256;

/// From this many bytes on, other threads may run even during a copy that does not wait.
pub(crate) const LARGE: usize = 64 << 10;

/// Runs an operation of `world` to its end, or until a signal's handler raises. It polls a few
/// times before other threads get the interpreter, for short operations.
///
/// # Errors
/// The error of the operation, or the exception of a handler.
pub(crate) fn complete<T>(
    py: Python<'_>,
    wait: &WaitInfo<'_>,
    operation: impl Future<Output = Result<T, hikyaku::Error>>,
) -> PyResult<T> {
    run(py, wait, operation)?.map_err(raise)
}

/// The properties of a wait besides the operation itself.
pub(crate) struct WaitInfo<'r> {
    pub(crate) rank: &'r PythonRank,
    pub(crate) world: &'r PythonComm,
    /// The gate is left while other threads have the interpreter and wait for it.
    pub(crate) inside: &'r GateGuard,
    /// The number of bytes that are copied at once.
    pub(crate) bytes: usize,
    /// `Some` if only this rank can end the wait, unless more requests than these are open.
    pub(crate) alone: Option<usize>,
}

impl<'r> WaitInfo<'r> {
    /// A wait for short messages from other ranks.
    pub(crate) fn new(
        rank: &'r PythonRank,
        world: &'r PythonComm,
        inside: &'r GateGuard,
    ) -> WaitInfo<'r> {
        WaitInfo { rank, world, inside, bytes: 0, alone: None }
    }
}

/// As [`complete`]; the operation's own result is the inner one.
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

/// Waits for a shared variable; `None`: not before `until`. Its first microseconds keep the
/// interpreter, as in other short waits.
///
/// # Errors
/// The variable was lost, or a handler raised. The request is abandoned.
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

/// An action without the interpreter, or its result.
struct Detached<F>(F);

// SAFETY: `Python::detach` asks for `Send` to keep anything tied to the interpreter from being used
// while it is released. It runs its closure on this very thread, so nothing is sent anywhere. The
// closures here touch memory that Python has pinned for them, by address, and attach again before
// they drop or use anything of Python.
unsafe impl<F> Send for Detached<F> {}

impl<R, F: FnOnce() -> R> Detached<F> {
    fn call(self) -> Detached<R> {
        Detached((self.0)())
    }
}

/// The time of the last check of a wait.
#[derive(Default)]
struct Signals {
    looks: u32,
    last: Option<Instant>,
}

impl Signals {
    /// The exception of a signal's handler, if it is time to check.
    fn ask(&mut self, wait: &WaitInfo<'_>) -> Option<PyErr> {
        self.looks = self.looks.saturating_add(1);
        // Where ranks share processors, each of the first polls may sleep a tenth of a second.
        let is_timed = self.looks >= UNTIMED || self.looks > 1 && self.looks.is_power_of_two();
        if !is_timed {
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
