//! Operations in flight that make progress only when they are polled.
//!
//! A collective that was started and not waited for is a future. Only its rank polls it: in every
//! call that waits, in every test, and when it starts another one. So such operations progress like
//! messages, during calls of this library.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use hikyaku_msg::MsgError;

use crate::error::Error;

/// An operation in flight.
pub type Task = Pin<Box<dyn Future<Output = Result<(), Error>>>>;

/// The number of oldest operations, and of others, that a call polls that does not wait. If it
/// polled all, starting thousands of operations would take quadratic time.
const SOME: usize = 16;

/// Identifies an operation; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskId(u64);

/// The operations in flight of a rank.
#[derive(Default)]
pub struct Tasks {
    /// Sorted by number, for lookup. Most operations end in that order too.
    entries: RefCell<VecDeque<TaskEntry>>,
    /// All with a lower number have a result.
    oldest: Cell<u64>,
    /// The number at which [`Tasks::poll_some`] continues.
    turn: Cell<u64>,
    /// The number without a result yet, plus one if other threads may call. Every blocking call
    /// checks it.
    running: Cell<usize>,
    started: Cell<u64>,
    /// How often some may have gone on unseen by other threads ([`Tasks::resume`]).
    resumed: Cell<u64>,
    /// Whether one of them waits for an event that wakes no thread, and whether that event has
    /// occurred.
    restless: Cell<bool>,
    stirred: Cell<bool>,
    /// The number of ended operations, and whether a missing result was asked for.
    ended: Cell<u64>,
    asked: Cell<bool>,
}

impl std::fmt::Debug for Tasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tasks").field("running", &self.running.get()).finish_non_exhaustive()
    }
}

struct TaskEntry {
    id: TaskId,
    state: TaskState,
}

enum TaskState {
    Waiting(Task),
    /// Taken by [`PolledTask`], which puts it back.
    Polled,
    Done(Result<(), Error>),
}

impl Tasks {
    /// Whether a call may wait inside the engine: nothing needs polling, and no other thread may
    /// need the gate.
    #[inline]
    pub fn are_over(&self) -> bool {
        self.running.get() == 0
    }

    /// Whether there is nothing to poll.
    pub(crate) fn are_none(&self) -> bool {
        self.entries.borrow().is_empty()
    }

    /// Whether no borrow of them is held.
    pub(crate) fn are_unborrowed(&self) -> bool {
        self.entries.try_borrow_mut().is_ok()
    }

    /// Records that other threads may call from now on.
    pub(crate) fn share(&self) {
        self.running.set(self.running.get() + 1);
    }

    /// The number of operations that have started or [resumed](Tasks::resume).
    pub(crate) fn begun(&self) -> u64 {
        self.started.get() + self.resumed.get()
    }

    /// Records that a function of the program has returned into the poll of an operation. Other
    /// threads have not polled that operation meanwhile, and do not know what it waits for next.
    pub(crate) fn resume(&self) {
        let is_polled = |entry: &TaskEntry| matches!(entry.state, TaskState::Polled);
        if self.entries.borrow().iter().any(is_polled) {
            self.resumed.set(self.resumed.get() + 1);
        }
    }

    /// The number of ended operations.
    pub(crate) fn ended(&self) -> u64 {
        self.ended.get()
    }

    /// Whether a missing result was asked for since the last call.
    pub(crate) fn have_been_asked(&self) -> bool {
        self.asked.take()
    }

    /// Sets whether one of them waits for an event that wakes no thread: then no sleep may be long.
    pub fn set_restless(&self, restless: bool) {
        self.restless.set(restless);
    }

    /// Whether no sleep may be long.
    pub fn are_restless(&self) -> bool {
        self.restless.get()
    }

    /// Records that such an event has occurred.
    pub fn stir(&self) {
        self.stirred.set(true);
    }

    /// Whether one has occurred since the last call.
    pub fn have_stirred(&self) -> bool {
        self.stirred.take()
    }

    /// Adds an operation and polls it for the first time, which sends what it can send at once.
    pub fn start(&self, task: Task) -> TaskId {
        let id = self.add(task);
        self.poll(id);
        id
    }

    /// Adds an operation. A caller that must remove it records its number before anything polls it:
    /// a poll of any operation may panic.
    pub fn add(&self, task: Task) -> TaskId {
        let id = TaskId(self.started.get());
        self.started.set(id.0 + 1);
        self.entries.borrow_mut().push_back(TaskEntry { id, state: TaskState::Waiting(task) });
        self.running.set(self.running.get() + 1);
        id
    }

    /// Polls all of them once, in the order of their starts.
    pub fn poll_all(&self) {
        self.poll_from(self.oldest(), usize::MAX);
    }

    /// Polls all if they are few. Of many it polls the oldest, for which others of their
    /// communicator may wait, the same number of others in turn, so that repeated calls poll all of
    /// them, and `asked`.
    pub fn poll_some(&self, asked: Option<TaskId>) {
        if self.turns() == 0 {
            return self.poll_all();
        }
        let others = self.poll_from(self.oldest(), SOME).unwrap_or(0).max(self.turn.get());
        self.turn.set(self.poll_from(others, SOME).unwrap_or(0));
        if let Some(id) = asked {
            self.poll(id);
        }
    }

    /// How many [`Tasks::poll_some`] poll as many as one [`Tasks::poll_all`]; 0 if they are few.
    pub(crate) fn turns(&self) -> usize {
        self.running.get().saturating_sub(1) / (2 * SOME)
    }

    /// Polls up to `most` waiting operations, from a number on. Returns the number to continue
    /// with, if not all were polled.
    fn poll_from(&self, from: u64, most: usize) -> Option<u64> {
        let mut from = from;
        for _ in 0..most {
            // One at a time: a reduction may start or end other operations.
            let next = {
                let entries = self.entries.borrow();
                let rest = entries.partition_point(|entry| entry.id.0 < from)..;
                let is_waiting = |entry: &&TaskEntry| matches!(entry.state, TaskState::Waiting(_));
                entries.range(rest).find(is_waiting).map(|entry| entry.id)
            };
            let id = next?;
            self.poll(id);
            from = id.0 + 1;
        }
        Some(from)
    }

    /// The number of the oldest operation without a result.
    fn oldest(&self) -> u64 {
        let entries = self.entries.borrow();
        let from = entries.partition_point(|entry| entry.id.0 < self.oldest.get());
        let mut rest = entries.range(from..);
        let first = rest.find(|entry| !matches!(entry.state, TaskState::Done(_)));
        let oldest = first.map_or(self.started.get(), |entry| entry.id.0);
        self.oldest.set(oldest);
        oldest
    }

    /// Takes the result of an operation and removes it. `None` if it has no result yet.
    pub fn take_result(&self, id: TaskId) -> Option<Result<(), Error>> {
        let mut entries = self.entries.borrow_mut();
        let Some(at) = place_of(&entries, id) else {
            return Some(Err(MsgError::NoSuchRequest.into()));
        };
        if !matches!(entries[at].state, TaskState::Done(_)) {
            self.asked.set(true);
            return None;
        }
        match entries.remove(at)?.state {
            TaskState::Done(result) => Some(result),
            TaskState::Waiting(_) | TaskState::Polled => None,
        }
    }

    /// Cancels an operation: its future is dropped.
    pub fn remove(&self, id: TaskId) {
        let removed = {
            let mut entries = self.entries.borrow_mut();
            place_of(&entries, id).and_then(|at| entries.remove(at))
        };
        // Dropped without any borrow: it notifies other ranks.
        if let Some(TaskEntry { state: TaskState::Waiting(task), .. }) = removed {
            self.running.set(self.running.get() - 1);
            drop(task);
        }
    }

    /// Polls an operation once, if it is waiting.
    pub fn poll(&self, id: TaskId) {
        let Some(task) = self.take_waiting(id) else { return };
        let mut turn = PolledTask { tasks: self, id, task: Some(task) };
        let mut context = Context::from_waker(Waker::noop());
        let result = turn.task.as_mut().map(|task| task.as_mut().poll(&mut context));
        if let Some(Poll::Ready(result)) = result {
            turn.task = None;
            turn.end(Some(TaskState::Done(result)));
        }
    }

    /// Takes an operation without a result. A result stays where it is.
    fn take_waiting(&self, id: TaskId) -> Option<Task> {
        let mut entries = self.entries.borrow_mut();
        let at = place_of(&entries, id)?;
        let entry = &mut entries[at];
        match std::mem::replace(&mut entry.state, TaskState::Polled) {
            TaskState::Waiting(task) => Some(task),
            other => {
                entry.state = other;
                None
            }
        }
    }

    /// Replaces the state of an operation, and returns the previous one.
    fn exchange(&self, id: TaskId, state: TaskState) -> Option<TaskState> {
        let mut entries = self.entries.borrow_mut();
        let at = place_of(&entries, id)?;
        let entry = &mut entries[at];
        Some(std::mem::replace(&mut entry.state, state))
    }
}

/// The index of an operation among those in flight. There may be thousands, all polled in each
/// wait.
fn place_of(entries: &VecDeque<TaskEntry>, id: TaskId) -> Option<usize> {
    entries.binary_search_by_key(&id.0, |entry| entry.id.0).ok()
}

/// An operation while it is polled. Dropping this puts it back, unless its reduction panicked: then
/// the operation is dropped, and so has failed.
struct PolledTask<'t> {
    tasks: &'t Tasks,
    id: TaskId,
    task: Option<Task>,
}

impl PolledTask<'_> {
    fn end(&self, state: Option<TaskState>) {
        let running = matches!(state, Some(TaskState::Waiting(_)));
        if !running {
            self.tasks.running.set(self.tasks.running.get() - 1);
            self.tasks.ended.set(self.tasks.ended.get() + 1);
        }
        let state = state.unwrap_or(TaskState::Done(Err(MsgError::NoSuchRequest.into())));
        // An operation that was removed while it was polled is dropped here.
        let removed = self.tasks.exchange(self.id, state).is_none();
        if removed && running {
            self.tasks.running.set(self.tasks.running.get() - 1);
        }
    }
}

impl Drop for PolledTask<'_> {
    fn drop(&mut self) {
        let Some(task) = self.task.take() else { return };
        if std::thread::panicking() {
            drop(task);
            self.end(None);
        } else {
            self.end(Some(TaskState::Waiting(task)));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::future::{pending, poll_fn, ready};
    use std::rc::Rc;

    use super::*;

    #[test]
    fn a_result_outlives_further_polls() {
        let tasks = Tasks::default();
        let id = tasks.start(Box::pin(ready(Ok(()))));
        tasks.poll(id);
        tasks.poll_all();
        assert_eq!(tasks.take_result(id), Some(Ok(())));
        assert!(tasks.are_over());
    }

    #[test]
    fn an_operation_that_is_done_at_once_needs_no_polling() {
        let tasks = Tasks::default();
        let id = tasks.start(Box::pin(ready(Ok(()))));
        assert!(tasks.are_over());
        assert_eq!(tasks.take_result(id), Some(Ok(())));
        assert_eq!(tasks.take_result(id), Some(Err(MsgError::NoSuchRequest.into())));
    }

    #[test]
    fn all_are_polled_in_the_order_of_their_starts() {
        let tasks = Tasks::default();
        let order = Rc::new(RefCell::new(Vec::new()));
        let ids: Vec<TaskId> = (0..3)
            .map(|number| {
                let (order, mut polls) = (Rc::clone(&order), 0);
                tasks.start(Box::pin(poll_fn(move |_| {
                    order.borrow_mut().push(number);
                    polls += 1;
                    if polls > 2 - number { Poll::Ready(Ok(())) } else { Poll::Pending }
                })))
            })
            .collect();
        assert_eq!(tasks.take_result(ids[0]), None);
        tasks.poll_all();
        tasks.poll_all();
        assert_eq!(*order.borrow(), [0, 1, 2, 0, 1, 0]);
        assert!(tasks.are_over());
        assert!(ids.into_iter().rev().all(|id| tasks.take_result(id) == Some(Ok(()))));
    }

    #[test]
    fn of_many_some_are_polled_at_a_time_and_all_in_turn() {
        let (tasks, many) = (Tasks::default(), 50 * SOME);
        let polls = Rc::new(RefCell::new(vec![0; many]));
        let end = Rc::new(Cell::new(0));
        for number in 0..many {
            let (polls, end) = (Rc::clone(&polls), Rc::clone(&end));
            tasks.start(Box::pin(poll_fn(move |_| {
                polls.borrow_mut()[number] += 1;
                if number < end.get() { Poll::Ready(Ok(())) } else { Poll::Pending }
            })));
        }
        (0..50).for_each(|_| tasks.poll_some(None));
        // Its first poll is the one at its start.
        let counted = |polls: &[usize]| polls.iter().map(|count| count - 1).sum::<usize>();
        assert!(counted(&polls.borrow()) <= 50 * 2 * SOME);
        assert!(polls.borrow()[..SOME].iter().all(|count| *count == 51));
        assert!(polls.borrow().iter().all(|count| *count > 1));
        let last = tasks.started.get() - 1;
        let before = polls.borrow()[last as usize];
        tasks.poll_some(Some(TaskId(last)));
        assert_eq!(polls.borrow()[last as usize], before + 1, "its turn is not now");
        // The oldest ones without a result are polled: all end in that many calls, and none is
        // polled later.
        end.set(many);
        (0..50).for_each(|_| tasks.poll_some(None));
        assert!(tasks.are_over());
        let before = polls.borrow().clone();
        tasks.poll_some(None);
        assert_eq!(*polls.borrow(), before);
        assert!((0..many as u64).all(|id| tasks.take_result(TaskId(id)) == Some(Ok(()))));
    }

    #[test]
    fn one_that_is_removed_is_dropped_even_while_it_is_polled() {
        let tasks = Rc::new(Tasks::default());
        let dropped = Rc::new(());
        let held = Rc::clone(&dropped);
        let id = tasks.start(Box::pin(async move {
            let _held = held;
            pending().await
        }));
        assert_eq!(Rc::strong_count(&dropped), 2);
        tasks.remove(id);
        assert!(tasks.are_over() && Rc::strong_count(&dropped) == 1);
        let (inside, held, mut polls) = (Rc::clone(&tasks), Rc::clone(&dropped), 0);
        tasks.start(Box::pin(poll_fn(move |_| {
            polls += usize::from(Rc::strong_count(&held) > 1);
            if polls == 2 {
                inside.remove(TaskId(1));
            }
            Poll::Pending
        })));
        tasks.poll_all();
        assert!(tasks.are_over() && Rc::strong_count(&dropped) == 1);
    }

    #[test]
    fn one_that_panics_has_failed_and_the_others_go_on() {
        let tasks = Tasks::default();
        let mut polls = 0;
        let id = tasks.start(Box::pin(poll_fn(move |_| {
            polls += 1;
            assert!(polls < 2, "a reduction panics");
            Poll::Pending
        })));
        let other = tasks.start(Box::pin(poll_fn({
            let mut polls = 0;
            move |_| {
                polls += 1;
                if polls < 2 { Poll::Pending } else { Poll::Ready(Ok(())) }
            }
        })));
        let polled = std::panic::AssertUnwindSafe(|| tasks.poll_all());
        assert!(std::panic::catch_unwind(polled).is_err());
        tasks.poll_all();
        assert!(tasks.are_over());
        assert_eq!(tasks.take_result(id), Some(Err(MsgError::NoSuchRequest.into())));
        assert_eq!(tasks.take_result(other), Some(Ok(())));
    }
}
