//! How a rank waits while operations are in flight that move only when they are polled.
//!
//! Without such operations every call waits in the engine itself, which is the short way. With
//! them, each round of waiting polls them all too.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use hikyaku_msg::{Engine, MsgError, RequestId, Selector, block_on};
use hikyaku_nic::fabric::{Activity, Port, Wait};
use hikyaku_nic::time::Time;

use crate::error::Error;
use crate::shared::Rest;
use crate::tasks::{Task, TaskId, Tasks};
use crate::world::World;

/// Runs a future to its end, and what is in flight meanwhile.
pub(crate) fn drive<P: Port, F: Future>(
    engine: &RefCell<Engine<P>>,
    tasks: &Tasks,
    activity: Activity,
    future: F,
) -> F::Output {
    if tasks.are_over() {
        return block_on(engine, activity, future);
    }
    if tasks.are_restless() {
        return drive_restlessly(engine, tasks, activity, future);
    }
    let mut future = pin!(future);
    let all = poll_fn(|context| {
        let polled = future.as_mut().poll(context);
        if polled.is_pending() {
            tasks.poll_all();
        }
        polled
    });
    block_on(engine, activity, all)
}

/// The same where something in flight comes by a way that wakes nobody: datagrams.
fn drive_restlessly<P: Port, F: Future>(
    engine: &RefCell<Engine<P>>,
    tasks: &Tasks,
    activity: Activity,
    future: F,
) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    let mut rest = Rest::default();
    let since = engine.borrow().port().now();
    let mut announced = false;
    loop {
        let polled = future.as_mut().poll(&mut context);
        if polled.is_pending() {
            tasks.poll_all();
        }
        let mut held = engine.borrow_mut();
        if let Poll::Ready(output) = polled {
            if announced {
                held.port().announce_wait(None);
            }
            return output;
        }
        let any = held.progress() | tasks.have_stirred();
        let now = held.port().now();
        if rest.is_long(now, any) {
            if !announced {
                let wait = Wait { activity, peer: None, tag: None, since };
                held.port().announce_wait(Some(wait));
                announced = true;
            }
            held.port_mut().park(Some(now + LOOK_AGAIN));
        } else {
            drop(held);
            std::thread::yield_now();
        }
    }
}

/// Longest sleep of a wait for memory to change.
const LOOK_AGAIN: Time = Time::from_nanoseconds(1_000_000);

/// Looks of such a wait before it makes progress on messages and gives way.
const LOOKS: u32 = 8;

impl World {
    /// [`World::block_on`] for a future that waits for memory that others change, of windows and
    /// shared variables: such a change wakes nobody for sure, so no sleep is longer than a
    /// millisecond, and most looks are at that memory alone.
    pub fn block_on_memory<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        let mut is_first = true;
        loop {
            for _ in 0..LOOKS {
                if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                    return output;
                }
                std::hint::spin_loop();
            }
            self.attend();
            let mut engine = self.engine().borrow_mut();
            if std::mem::take(&mut is_first) {
                engine.port_mut().begin_wait();
            }
            if !engine.progress() {
                let port = engine.port_mut();
                let soon = port.now() + LOOK_AGAIN;
                port.park(Some(soon));
            }
        }
    }

    /// Runs a future to its end, and what is in flight meanwhile.
    pub(crate) fn drive<F: Future>(&self, activity: Activity, future: F) -> F::Output {
        drive(self.engine(), self.tasks(), activity, future)
    }

    /// Polls what is in flight, once; for calls that do not wait.
    #[inline]
    pub(crate) fn attend(&self) {
        if !self.tasks().are_over() {
            self.tasks().poll_all();
        }
    }

    /// Waits for a request.
    pub(crate) fn wait_for(&self, id: RequestId) -> Result<hikyaku_msg::Received, MsgError> {
        if self.tasks().are_over() {
            return self.engine().borrow_mut().wait(id);
        }
        self.wait_for_any(&[id]).1
    }

    /// Waits for a message to be there.
    pub(crate) fn wait_for_probe(
        &self,
        selector: Selector,
    ) -> Result<hikyaku_msg::Received, MsgError> {
        if self.tasks().are_over() {
            return self.engine().borrow_mut().wait_probe(selector);
        }
        let found = || self.engine().borrow_mut().probe(selector).transpose();
        self.drive(Activity::Probe, poll_fn(|_| found().map_or(Poll::Pending, Poll::Ready)))
    }

    /// Leaves an operation in flight.
    pub(crate) fn start_task(&self, task: Task) -> TaskId {
        let id = self.tasks().start(task);
        // What was there before moves too, as in any call.
        self.tasks().poll_all();
        id
    }

    /// Waits for an operation in flight.
    pub(crate) fn wait_for_task(&self, activity: Activity, id: TaskId) -> Result<(), Error> {
        let result = || self.tasks().take_result(id);
        self.drive(activity, poll_fn(|_| result().map_or(Poll::Pending, Poll::Ready)))
    }

    /// Looks whether an operation in flight has ended.
    pub(crate) fn test_task(&self, id: TaskId) -> Option<Result<(), Error>> {
        if !self.tasks().are_over() {
            self.engine().borrow_mut().progress();
            self.tasks().poll_all();
        }
        self.tasks().take_result(id)
    }

    /// Looks whether a request has ended.
    pub(crate) fn test(&self, id: RequestId) -> Option<Result<hikyaku_msg::Received, MsgError>> {
        self.attend();
        self.engine().borrow_mut().test(id)
    }

    /// Waits for one of several requests; says which.
    pub(crate) fn wait_for_any(
        &self,
        ids: &[RequestId],
    ) -> (usize, Result<hikyaku_msg::Received, MsgError>) {
        let found = self.drive(
            Activity::Requests,
            poll_fn(|_| {
                if self.tasks().are_over() {
                    return Poll::Ready(None);
                }
                let mut engine = self.engine().borrow_mut();
                let mut tests = ids.iter().enumerate();
                match tests.find_map(|(at, id)| Some((at, engine.test(*id)?))) {
                    Some(found) => Poll::Ready(Some(found)),
                    None => Poll::Pending,
                }
            }),
        );
        // With nothing else in flight the engine can tell whether anybody can end the wait.
        found.unwrap_or_else(|| self.engine().borrow_mut().wait_any(ids))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_for_memory_polls_until_it_is_ready_and_lets_messages_through() {
        let world = World::init().unwrap();
        let (mut polls, mut heard) = (0, [0]);
        let mut receive = Box::pin(world.recv_async(&mut heard, 0, 1));
        let both = poll_fn(|context| {
            polls += 1;
            if polls == 3 * LOOKS {
                world.send(&[7], 0, 1).unwrap();
            }
            receive.as_mut().poll(context)
        });
        assert_eq!(world.block_on_memory(both).unwrap().bytes, 4);
        drop(receive);
        assert!(polls >= 3 * LOOKS && heard == [7]);
    }
}
