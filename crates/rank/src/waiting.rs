//! The waits of a rank while operations are in flight that make progress only when they are polled.
//!
//! Without such operations every call waits in the engine itself, which is the fast path. With
//! them, each round of a wait polls them all too. All waits for futures are one loop,
//! [`hikyaku_msg::drive`]. A round without a result ends in [`Engine::pass`], with a [`Pace`]:
//!
//! ```text
//!   messages               Doorbell   sleeps until a rank wakes this one
//!   memory of others       MEMORY     sleeps for at most a millisecond, or until the wait's end
//!   words in virtual time  Doze       sleeps until a rank wakes this one, or until the wait's end
//! ```
//!
//! [`Communicator::rest`] is that function for waits outside the engine: of windows and of shared
//! variables. Two ends of a round are before it or in its place:
//!
//! ```text
//!   datagrams       PollingRest   yields for half a millisecond, because nothing wakes this rank
//!   among threads   ThreadWait    leaves the gate, attends or sleeps (`threads.rs`)
//! ```
//!
//! A call that waits for another host within an operation of the port (`far/memory.rs`) has only
//! the port: above it the engine is borrowed.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use hikyaku_coll::CollError;
use hikyaku_msg::{Blocked, Engine, MsgError, Pace, RequestId, Selector, block_on_for};
use hikyaku_nic::fabric::{Activity, CopyPort, PeerState, Port, Wait};
use hikyaku_nic::time::Time;
use hikyaku_shm::RankWaker;

use crate::communicator::Communicator;
use crate::error::Error;
use crate::tasks::{Task, TaskId, Tasks};

/// Runs a future to its end, and polls the operations in flight meanwhile. The wait is announced as
/// the operation that the future has polled without result, or else as `wait`.
fn drive<P: CopyPort, F: Future>(
    engine: &RefCell<Engine<P>>,
    tasks: &Tasks,
    wait: Wait,
    future: F,
) -> F::Output {
    if tasks.are_over() {
        return block_on_for(engine, wait, future);
    }
    let mut future = pin!(future);
    let all = poll_fn(|context| {
        let mut polled = future.as_mut().poll(context);
        // Polls some of many for as long as one poll of all would take: the next may continue when
        // the oldest has ended.
        for _ in 0..tasks.turns() {
            if polled.is_ready() {
                return polled;
            }
            // The future has reported what it waits for once.
            polled = unreported(engine, || {
                tasks.poll_some(None);
                engine.borrow_mut().progress();
                future.as_mut().poll(context)
            });
        }
        if polled.is_pending() {
            let ended = tasks.ended();
            unreported(engine, || tasks.poll_all());
            let is_virtual = || engine.borrow().port().capabilities().virtual_time;
            if ended != tasks.ended() && !is_virtual() {
                // The future may wait for that operation, and no event need follow. In virtual time
                // a poll may cost time.
                polled = unreported(engine, || future.as_mut().poll(context));
            }
        }
        polled
    });
    if !tasks.are_restless() {
        return block_on_for(engine, wait, all);
    }
    let mut rest = PollingRest::default();
    hikyaku_msg::drive(engine, wait, all, |blocked| {
        let any = engine.borrow_mut().progress() | tasks.have_stirred();
        rest.pass(engine, blocked, any);
    })
}

/// Polls something other than what the program waits for.
pub(crate) fn unreported<P: CopyPort, R>(
    engine: &RefCell<Engine<P>>,
    poll: impl FnOnce() -> R,
) -> R {
    let paused = engine.borrow_mut().pause_reports(true);
    let polled = poll();
    engine.borrow_mut().pause_reports(paused);
    polled
}

/// How long ranks wait at their end for others to compare the last calls. A rank may end early
/// while others still wait for it, for example by an exception: they must detect that it has left.
const COMPARED_WITHIN: Time = Time::from_nanoseconds(500_000_000);

/// Polls of memory before a wait for it makes progress on messages and yields.
const LOOKS: u32 = 8;

impl Communicator {
    /// The deadline of [`Communicator::compare_last_call`], if the comparison begins now.
    pub fn compared_until(&self) -> Time {
        self.now() + COMPARED_WITHIN
    }

    /// Compares, at the end of a program, the last calls of ranks on this communicator, if that was
    /// a collective in which ranks return before any rank has compared the calls, for example two
    /// ranks that both reduce to the other. Does not wait for ranks that have not ended by `until`.
    /// Ranks of several communicators compare them in one order. In virtual time it does nothing,
    /// so that the end time is unchanged.
    ///
    /// # Errors
    /// The calls differ. Other errors are not reported.
    pub fn compare_last_call(&self, until: Time) -> Result<(), Error> {
        let group = self.group();
        let is_virtual = self.engine().borrow().port().capabilities().virtual_time;
        if is_virtual || !group.has_run_ahead() {
            return Ok(());
        }
        let mut barrier = pin!(hikyaku_coll::barrier(&group, None));
        let met = self.block_on_memory(poll_fn(|context| match barrier.as_mut().poll(context) {
            Poll::Pending if self.now() > until => Poll::Ready(Ok(())),
            polled => polled,
        }));
        match met {
            Err(error @ CollError::Differ { .. }) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// [`Communicator::drive`] for a future that waits for memory of windows and shared variables
    /// that others change. Such a change may wake no thread, so no sleep is longer than a
    /// millisecond, and most polls check that memory alone.
    pub fn block_on_memory<F: Future>(&self, future: F) -> F::Output {
        self.block_on_memory_for(Wait::new(Activity::Future), future)
    }

    /// The same, announced as `wait` unless the future polls operations without result.
    pub fn block_on_memory_for<F: Future>(&self, wait: Wait, future: F) -> F::Output {
        let mut future = pin!(future);
        let watched = poll_fn(|context| {
            for _ in 0..LOOKS {
                let polled = future.as_mut().poll(context);
                if polled.is_ready() || self.engine().borrow().port().is_crowded() {
                    return polled;
                }
                std::hint::spin_loop();
            }
            Poll::Pending
        });
        let mut is_first = true;
        hikyaku_msg::drive(self.engine(), wait, watched, |blocked| {
            if std::mem::take(&mut is_first) {
                self.engine().borrow_mut().port_mut().begin_wait();
            }
            self.rest(blocked, Pace::MEMORY);
        })
    }

    /// Ends a round of a wait whose event has not occurred: polls the operations in flight, makes
    /// progress on messages, and sleeps a little if there was none.
    pub fn rest(&self, blocked: &mut Blocked, pace: Pace) {
        self.attend();
        if self.is_shared() {
            // Another thread may end the wait.
            self.engine().borrow_mut().progress();
            return self.give_way(blocked);
        }
        self.engine().borrow_mut().pass(blocked, pace);
    }

    /// Ends such a round by yielding, for a wait that sleeps later or elsewhere.
    pub fn give_way(&self, blocked: &mut Blocked) {
        self.engine().borrow_mut().go_on(blocked);
        match self.rank.threads.gate() {
            Some(gate) => self.rank.let_others_in(gate),
            None => std::thread::yield_now(),
        }
    }

    /// Checks that a rank of the job has neither left nor died. Its memory may still exist
    /// afterwards, without an owner.
    ///
    /// # Errors
    /// It has left, or died.
    #[cold]
    pub fn check_there(&self, rank: u32) -> Result<(), MsgError> {
        let engine = self.engine().borrow();
        match engine.port().peer(rank) {
            PeerState::Starting | PeerState::Running => Ok(()),
            PeerState::Left => Err(MsgError::left(rank, engine.port())),
            PeerState::Failed(failure) => Err(MsgError::PeerFailed(failure)),
        }
    }

    /// Runs a future to its end, and polls the operations in flight meanwhile.
    pub fn drive<F: Future>(&self, future: F) -> F::Output {
        self.drive_for(Wait::new(Activity::Future), future)
    }

    /// The same, announced as `wait` unless the future polls operations without result.
    pub(crate) fn drive_for<F: Future>(&self, wait: Wait, future: F) -> F::Output {
        match self.rank.threads.gate() {
            None => drive(self.engine(), self.tasks(), wait, future),
            Some(gate) => self.rank.drive_among_threads(gate, wait, future),
        }
    }

    /// Runs `work` on another thread, and drives all operations of this rank meanwhile. In virtual
    /// time, where a rank is one thread at a time, it runs on this one.
    pub fn overlap<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        if self.engine().borrow().port().capabilities().virtual_time {
            return work();
        }
        let end = self.work_end();
        let worked = std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let _end = EndNote(&end);
                work()
            });
            self.drive(end.wait());
            worker.join()
        });
        worked.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// For work of another thread, which reports its end there.
    #[doc(hidden)]
    pub fn work_end(&self) -> WorkEnd {
        let waker = self.engine().borrow().port().host().waker();
        WorkEnd { is_over: AtomicBool::new(false), waker }
    }

    /// Polls something other than what the program waits for.
    #[doc(hidden)]
    pub fn unreported<R>(&self, poll: impl FnOnce() -> R) -> R {
        unreported(self.engine(), poll)
    }

    /// After a call that does not wait and has no result: yields the processor if others need it. A
    /// program that repeats the call would keep the processor for its time slice, which is
    /// milliseconds, without a new result; and the gate, if other threads want it.
    #[cold]
    pub fn found_nothing(&self) {
        let yields = self.engine().borrow_mut().found_nothing();
        match self.rank.threads.gate() {
            Some(gate) if yields || gate.is_wanted() => self.rank.let_others_in(gate),
            None if yields => std::thread::yield_now(),
            _ => {}
        }
    }

    /// Polls the operations in flight, or some of them, once; for calls that do not wait.
    #[inline]
    pub fn attend(&self) {
        if !self.tasks().are_over() {
            self.unreported(|| self.tasks().poll_some(None));
        }
    }

    /// Waits for a request, the first of `open` operations that the program waits for.
    // The common case is inlined, and the rest is not: to build a result in memory and move it
    // costs as much as to find it.
    #[inline(always)]
    pub fn wait_for(&self, id: RequestId, open: u32) -> Result<hikyaku_msg::Received, MsgError> {
        if self.tasks().are_over() {
            let taken = self.engine().borrow_mut().wait_for_next(id);
            if let Some(received) = taken {
                return Ok(received);
            }
        }
        self.wait_for_long(id, open)
    }

    /// The result of a request that has succeeded or succeeds within a few polls, with the numbers
    /// of this communicator. `None`: [`Communicator::wait_for`] must be called.
    #[inline(always)]
    pub fn wait_for_next(&self, id: RequestId) -> Option<hikyaku_msg::Received> {
        if !self.tasks().are_over() {
            return None;
        }
        let received = self.engine().borrow_mut().wait_for_next(id)?;
        Some(self.told_at_once(received))
    }

    #[inline(never)]
    fn wait_for_long(&self, id: RequestId, open: u32) -> Result<hikyaku_msg::Received, MsgError> {
        if self.tasks().are_over() {
            return self.engine().borrow_mut().wait_for_first(id, open);
        }
        self.wait_for_one_of(&[id], open).1
    }

    /// Waits until a matching message arrives.
    pub fn wait_for_probe(&self, selector: Selector) -> Result<hikyaku_msg::Received, MsgError> {
        if self.tasks().are_over() {
            return self.engine().borrow_mut().wait_probe(selector);
        }
        let found = || self.engine().borrow_mut().probe(selector).transpose();
        self.drive(poll_fn(|_| found().map_or(Poll::Pending, Poll::Ready)))
    }

    /// Starts an operation and leaves it in flight.
    pub fn start_task(&self, task: Task) -> TaskId {
        let id = self.tasks().add(task);
        self.begin_task(id);
        id
    }

    /// Polls an operation for the first time after [`Tasks::add`].
    pub fn begin_task(&self, id: TaskId) {
        self.tasks().poll(id);
        // Earlier operations progress too, as in any call.
        self.tasks().poll_some(None);
    }

    /// Waits for an operation in flight.
    pub fn wait_for_task(&self, id: TaskId, open: u32) -> Result<(), Error> {
        let look = poll_fn(|_| match self.tasks().take_result(id) {
            Some(result) => Poll::Ready(result),
            None => {
                self.report_task(id);
                Poll::Pending
            }
        });
        self.drive_for(Wait { open, ..Wait::new(Activity::Collective) }, look)
    }

    /// Lets an operation in flight report what it waits for, if a report is being made.
    fn report_task(&self, id: TaskId) {
        let are_taken = self.engine().borrow().reported_waits().is_some();
        if are_taken {
            self.tasks().poll(id);
        }
    }

    /// Polls whether an operation in flight has ended.
    pub fn test_task(&self, id: TaskId) -> Option<Result<(), Error>> {
        if !self.tasks().are_over() {
            self.engine().borrow_mut().progress();
            self.report_task(id);
            self.unreported(|| self.tasks().poll_some(Some(id)));
        }
        self.tasks().take_result(id)
    }

    /// Polls whether a request has ended.
    pub fn test(&self, id: RequestId) -> Option<Result<hikyaku_msg::Received, MsgError>> {
        self.attend();
        self.engine().borrow_mut().test(id)
    }

    /// Polls whether one of several requests has ended; returns the first one.
    pub fn test_any(
        &self,
        ids: &[RequestId],
    ) -> Option<(usize, Result<hikyaku_msg::Received, MsgError>)> {
        self.attend();
        self.engine().borrow_mut().test_any(ids)
    }

    /// Waits for one of several requests, and returns its index.
    pub fn wait_for_any(
        &self,
        ids: &[RequestId],
    ) -> (usize, Result<hikyaku_msg::Received, MsgError>) {
        self.wait_for_one_of(ids, ids.len() as u32)
    }

    fn wait_for_one_of(
        &self,
        ids: &[RequestId],
        open: u32,
    ) -> (usize, Result<hikyaku_msg::Received, MsgError>) {
        let look = poll_fn(|_| {
            if self.tasks().are_over() {
                return Poll::Ready(None);
            }
            let mut engine = self.engine().borrow_mut();
            let mut tests = ids.iter().enumerate();
            match tests.find_map(|(at, id)| Some((at, engine.test(*id)?))) {
                Some(found) => Poll::Ready(Some(found)),
                None => Poll::Pending,
            }
        });
        let wait = Wait { open, ..Wait::new(Activity::Future) };
        let found = self.drive_for(wait, look);
        // With nothing else in flight the engine can detect whether any rank can end the wait.
        found.unwrap_or_else(|| self.engine().borrow_mut().wait_any(ids))
    }
}

/// The end of work that another thread does while its rank waits.
#[derive(Debug)]
pub struct WorkEnd {
    is_over: AtomicBool,
    waker: RankWaker,
}

impl WorkEnd {
    /// Reports it, and wakes the rank. For the other thread.
    pub fn note(&self) {
        self.is_over.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Is ready when the work is over. For the rank, which is woken then.
    pub fn wait(&self) -> impl Future<Output = ()> {
        let is_over = || self.is_over.load(Ordering::Acquire);
        poll_fn(move |_| if is_over() { Poll::Ready(()) } else { Poll::Pending })
    }
}

/// Reports the end of work, also if that panics.
struct EndNote<'e>(&'e WorkEnd);

impl Drop for EndNote<'_> {
    fn drop(&mut self) {
        self.0.note();
    }
}

/// How long a wait yields before it sleeps, in nanoseconds.
const GIVE_WAY: u64 = 500_000;

/// The rests of a wait for an event that wakes no thread.
#[derive(Debug, Default)]
pub struct PollingRest {
    since: Option<Time>,
}

impl PollingRest {
    /// Whether the wait has been so long without progress that it is time to sleep. `any`: there
    /// was progress.
    pub fn is_long(&mut self, now: Time, any: bool) -> bool {
        if any {
            self.since = None;
        }
        let since = *self.since.get_or_insert(now);
        now.nanoseconds() - since.nanoseconds() > GIVE_WAY
    }

    /// Ends a round of such a wait: yields, or sleeps a little.
    pub fn pass<P: CopyPort>(
        &mut self,
        engine: &RefCell<Engine<P>>,
        blocked: &mut Blocked,
        any: bool,
    ) {
        let mut held = engine.borrow_mut();
        let now = held.port().now();
        if self.is_long(now, any) {
            return held.pass(blocked, Pace::MEMORY);
        }
        held.go_on(blocked);
        drop(held);
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use hikyaku_coll::Choices;

    use super::*;

    /// For example because it has sent all.
    #[test]
    fn a_wait_sleeps_no_more_after_its_operation_has_ended() {
        let port = hikyaku_shm::single().unwrap();
        let alone = Communicator::over(port, Choices::default());
        let sleeps = |of: &Communicator| of.engine().borrow().port().host().sleeps().0;
        let inner = alone.clone();
        let id = alone.start_task(Box::pin(poll_fn(move |_| match sleeps(&inner) {
            0 => Poll::Pending,
            _ => Poll::Ready(Ok(())),
        })));
        alone.wait_for_task(id, 1).unwrap();
        assert_eq!(sleeps(&alone), 1);
    }

    #[test]
    fn a_wait_for_memory_polls_until_it_is_ready_and_lets_messages_through() {
        let port = hikyaku_shm::single().unwrap();
        let alone = Communicator::over(port, Choices::default());
        let messages = alone.messages();
        let (mut polls, mut heard) = (0, [0]);
        let mut receive = messages.recv(&mut heard, Some(0), Some(1));
        let both = poll_fn(|context| {
            polls += 1;
            if polls == 3 * LOOKS {
                alone.drive(messages.send(&[7], 0, 1)).unwrap();
            }
            Pin::new(&mut receive).poll(context)
        });
        assert_eq!(alone.block_on_memory(both).unwrap().bytes, 1);
        drop(receive);
        assert!(polls >= 3 * LOOKS && heard == [7]);
    }
}
