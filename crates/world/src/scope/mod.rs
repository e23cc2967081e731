//! Non-blocking operations on borrowed buffers.
//!
//! A forgotten request (`mem::forget`) must not leave the interface writing to memory that has
//! another owner by then. So requests live in a scope, as threads do in `std::thread::scope`: a
//! buffer is borrowed for the scope, and the scope does not end before every request in it has
//! completed or was cancelled.
//!
//! A collective in flight is a future that borrows its buffers for the scope. The rank keeps it
//! (`rank/src/tasks.rs`) until it is complete or cancelled.
//!
//! A [`StartedExchange`] is several requests that end together, with a final step: elements that
//! were received outside their buffer are copied into it.

mod core;
mod request;

use std::marker::PhantomData;
use std::mem::{self, size_of_val};
use std::pin::Pin;
use std::rc::Rc;

use hikyaku_msg::{Envelope, RecvBuffer, Selector, SendBuffer, SendMode};
use hikyaku_rank::{Task, TaskId};

use crate::error::Error;
use crate::exchange::{Open, StartedExchange};
use crate::scalar::Scalar;
use crate::topology::{ExchangeRoute, Leg};
use crate::world::{Received, Source, Tag, World};

use self::core::Next;

pub(crate) use self::core::Core;
pub use self::request::Request;

/// A scope for non-blocking operations; see [`World::scope`].
#[derive(Debug)]
pub struct Scope<'scope, 'env: 'scope> {
    pub(crate) core: Core<'env>,
    /// Invariant in both lifetimes, like `std::thread::Scope`.
    scope: PhantomData<&'scope mut &'scope ()>,
    environment: PhantomData<&'env mut &'env ()>,
}

impl World {
    /// Runs `body` with a scope for non-blocking operations. At its end it waits for all operations
    /// that `body` has not waited for.
    ///
    /// If `body` fails or panics, open requests are cancelled instead: receives, and sends that
    /// have not begun.
    ///
    /// # Errors
    /// The error of `body`, or the first error of the requests that it left open.
    pub fn scope<'env, R>(
        &'env self,
        body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let scope = Scope { core: Core::new(self), scope: PhantomData, environment: PhantomData };
        // Also on panic: the buffers are borrowed no longer than this function runs.
        let guard = Abandon { scope: &scope };
        let result = body(&scope)?;
        scope.wait_all()?;
        drop(guard);
        Ok(result)
    }
}

/// The elements that an exchange receives into.
#[derive(Debug)]
struct ReceiveMemory<T> {
    start: *mut T,
    length: usize,
}

impl<T> Clone for ReceiveMemory<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for ReceiveMemory<T> {}

/// Cancels all open operations when the scope ends in any way.
struct Abandon<'s, 'scope, 'env> {
    scope: &'s Scope<'scope, 'env>,
}

impl Drop for Abandon<'_, '_, '_> {
    fn drop(&mut self) {
        let (world, open) = (self.scope.core.world, &self.scope.core.open);
        if open.borrow().is_empty() {
            return world.spare_list().set(open.take());
        }
        // What a reduction owns is dropped here. Its drop may start operations in this scope, or
        // panic: then this continues.
        let _rest = Abandon { scope: self.scope };
        let abandon = |id| world.engine().borrow_mut().abandon(id);
        let next = || open.borrow_mut().pop_front();
        while let Some(it) = next() {
            match it {
                Open::Request(id) => abandon(id),
                Open::Collective(id) => world.tasks().remove(id),
                // Its memory is freed after this, when nothing uses it any more.
                Open::Exchange(exchange) => exchange.open().for_each(abandon),
            }
        }
    }
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Starts to send `data` (MPI_Isend, MPI 5.0 §3.7.2).
    ///
    /// # Errors
    /// The rank or tag does not exist, or the receiver is gone.
    pub fn isend<T: Scalar>(
        &'scope self,
        data: &'scope [T],
        to: u32,
        tag: i32,
    ) -> Result<Request<'scope>, Error> {
        self.start_send(data, to, tag, SendMode::Standard)
    }

    /// Starts to send `data` in synchronous mode: complete when the receive has matched.
    ///
    /// # Errors
    /// As [`Scope::isend`].
    pub fn issend<T: Scalar>(
        &'scope self,
        data: &'scope [T],
        to: u32,
        tag: i32,
    ) -> Result<Request<'scope>, Error> {
        self.start_send(data, to, tag, SendMode::Synchronous)
    }

    // The fast path is inlined, and the rest is not: see `Request`.
    #[inline(always)]
    fn start_send<T: Scalar>(
        &'scope self,
        data: &'scope [T],
        to: u32,
        tag: i32,
        mode: SendMode,
    ) -> Result<Request<'scope>, Error> {
        let destination = self.core.world.communicator().in_job(to)?;
        let envelope = Envelope { destination, context: self.core.world.context(), tag };
        let bytes = bytemuck::cast_slice(data);
        if self.core.world.engine().borrow_mut().send_directly(bytes, &envelope, mode) {
            let (rank, bytes) = (self.core.world.rank(), bytes.len() as u64);
            return Ok(Request::ended(&self.core, rank, tag, bytes));
        }
        self.open_send(bytes, envelope, mode)
    }

    #[cold]
    fn open_send(
        &'scope self,
        bytes: &'scope [u8],
        envelope: Envelope,
        mode: SendMode,
    ) -> Result<Request<'scope>, Error> {
        // SAFETY: the data is borrowed for 'scope, which does not end before `World::scope` has
        // waited for this request or abandoned it: it is in `open` from here until then.
        let buffer = unsafe { SendBuffer::new(bytes.as_ptr(), bytes.len()) };
        let id = self.core.world.engine().borrow_mut().start_send(buffer, envelope, mode)?;
        Ok(Request::opened(&self.core, id))
    }

    /// Starts to receive into `into` (MPI_Irecv, MPI 5.0 §3.7.2).
    ///
    /// # Errors
    /// The rank or tag does not exist, or the sender is gone.
    pub fn irecv<T: Scalar>(
        &'scope self,
        into: &'scope mut [T],
        from: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Request<'scope>, Error> {
        let (from, tag) = (from.into().0, tag.into().0);
        let source = self.core.world.communicator().source_in_job(from)?;
        let into = bytemuck::cast_slice_mut(into);
        if let (Some(source), Some(from), Some(tag)) = (source, from, tag) {
            let context = self.core.world.context();
            let mut engine = self.core.world.engine().borrow_mut();
            let taken = engine.recv_if_there(into, source, context, tag);
            drop(engine);
            if let Some(bytes) = taken {
                return Ok(Request::ended(&self.core, from, tag, bytes));
            }
        }
        self.open_recv(into, source, tag)
    }

    // Source and tag separately, in registers: a selector would be stored in parts and loaded as
    // one.
    #[inline(never)]
    fn open_recv(
        &'scope self,
        into: &'scope mut [u8],
        source: Option<u32>,
        tag: Option<i32>,
    ) -> Result<Request<'scope>, Error> {
        let selector = Selector { source, tag, context: self.core.world.context() };
        // SAFETY: the memory is borrowed exclusively for 'scope, which does not end before
        // `World::scope` has waited for this request or abandoned it: it is in `open` until then.
        let buffer = unsafe { RecvBuffer::new(into.as_mut_ptr(), into.len()) };
        let id = self.core.world.engine().borrow_mut().start_recv(buffer, selector)?;
        Ok(Request::opened(&self.core, id))
    }

    /// Waits for all operations that were started here and not waited for (MPI_Waitall).
    ///
    /// # Errors
    /// The error of the operation that was started first, after all have ended.
    pub fn wait_all(&self) -> Result<(), Error> {
        let mut first = Ok(());
        loop {
            self.core.awaited.set(self.core.open.borrow().len().max(1) as u32);
            let next = self.core.open.borrow().front().map(|open| match open {
                Open::Request(id) => Next::Request(*id),
                Open::Collective(id) => Next::Collective(*id),
                Open::Exchange(exchange) => Next::Exchange(exchange.name()),
            });
            let Some(next) = next else { return first };
            let result = match next {
                Next::Request(id) => self.core.wait(id).map(drop),
                Next::Collective(id) => self.core.end_collective(id, true).unwrap_or(Ok(())),
                Next::Exchange(name) => self.core.end_exchange(name, true).unwrap_or(Ok(())),
            };
            first = first.and(result);
        }
    }

    /// Waits until one of `requests` has ended, removes it from the list and returns its former
    /// place and result (MPI_Waitany). `None` if the list is empty.
    ///
    /// # Errors
    /// The error of that operation.
    pub fn wait_any(
        &self,
        requests: &mut Vec<Request<'scope>>,
    ) -> Result<Option<(usize, Received)>, Error> {
        if requests.is_empty() {
            return Ok(None);
        }
        let mut ids = Vec::with_capacity(requests.len());
        for (at, request) in requests.iter().enumerate() {
            match request.name() {
                Ok(id) => ids.push(id),
                Err(received) => {
                    requests.swap_remove(at);
                    return Ok(Some((at, received)));
                }
            }
        }
        let (at, result) = self.core.world.communicator().wait_for_any(&ids);
        // It may be of an enclosing scope.
        let core = requests.swap_remove(at).core;
        core.close(ids[at]);
        Ok(Some((at, core.world.communicator().told(result)?.into())))
    }

    pub(crate) fn world(&self) -> &'env World {
        self.core.world
    }

    /// Starts a collective and returns its name.
    pub(crate) fn begin(
        &'scope self,
        operation: impl Future<Output = Result<(), hikyaku_rank::Error>> + 'scope,
    ) -> TaskId {
        let operation: Pin<Box<dyn Future<Output = _> + 'scope>> = Box::pin(operation);
        // SAFETY: the type is the same except for its lifetime. Its borrows live for 'scope, and it
        // lives no longer: `tasks` has it only until it is done or removed, and it is in `open`
        // before anything polls it (a poll may panic, also that of another operation), so that
        // `Abandon` removes it within 'scope. Its name gives no access to it.
        #[expect(clippy::disallowed_methods, reason = "no bytes are looked at, only a lifetime")]
        let operation: Task = unsafe { mem::transmute(operation) };
        let id = self.core.world.tasks().add(operation);
        self.core.open.borrow_mut().push_back(Open::Collective(id));
        self.core.world.communicator().begin_task(id);
        id
    }

    /// Starts all legs of a route, in a context of their own, and returns the name of the exchange.
    /// `explain` makes the error of an unexpected size: edge, bytes sent, bytes expected.
    ///
    /// A leg that cannot be started is an error when the exchange ends: the other edges continue.
    pub(crate) fn start_exchange<T: Scalar>(
        &'scope self,
        context: u32,
        route: ExchangeRoute,
        out: &'scope [T],
        into: &'scope mut [T],
        explain: impl Fn(usize, u64, u64) -> Error + 'static,
    ) -> Result<u64, Error> {
        let packed = route.packed(out)?;
        let mut staged = route.staging(into);
        let place = ReceiveMemory { start: into.as_mut_ptr(), length: into.len() };
        let beside = ReceiveMemory { start: staged.as_mut_ptr(), length: staged.len() };
        let kept = Rc::new((route, packed));
        let unpack = {
            let kept = Rc::clone(&kept);
            move || {
                // SAFETY: `into` is borrowed exclusively for 'scope, which has not ended: only
                // `end_exchange` calls this, when no request uses the memory any more.
                let into = unsafe { std::slice::from_raw_parts_mut(place.start, place.length) };
                kept.0.unpack(&staged, into)
            }
        };
        let name = self.core.exchanges.get();
        self.core.exchanges.set(name + 1);
        // From here on the scope waits for every started request, or abandons it.
        let exchange = StartedExchange::new(name, Box::new(explain), Box::new(unpack));
        self.core.open.borrow_mut().push_back(Open::Exchange(Box::new(exchange)));
        self.start_receives(name, context, &kept.0.receives, (place, beside));
        self.start_sends(name, context, &kept.0.sends, (out, &kept.1));
        Ok(name)
    }

    /// Starts the receives of an exchange, into its buffer or the staging memory.
    fn start_receives<T: Scalar>(
        &self,
        name: u64,
        context: u32,
        legs: &[Leg],
        (place, beside): (ReceiveMemory<T>, ReceiveMemory<T>),
    ) {
        let mut last = [0, 0];
        for Leg { edge, process, tag, range, aside } in legs {
            let memory = if *aside { beside } else { place };
            let last = &mut last[usize::from(*aside)];
            let apart = range.is_empty() || *last <= range.start;
            assert!(apart && range.end <= memory.length, "a route leads where it must not");
            *last = range.end.max(*last);
            // SAFETY: the range lies within the slice or vector that begins there.
            let start = unsafe { memory.start.add(range.start) };
            let bytes = range.len() * size_of::<T>();
            // SAFETY: the elements are this receive's alone, since those before end before they
            // begin. They are borrowed exclusively for 'scope, or the exchange owns them; it is in
            // `open` until the request has ended or is abandoned, which is within 'scope.
            let buffer = unsafe { RecvBuffer::new(start.cast(), bytes) };
            let world = self.core.world;
            let started = world.communicator().in_job(*process).and_then(|source| {
                let selector = Selector { source: Some(source), tag: Some(*tag), context };
                world.engine().borrow_mut().start_recv(buffer, selector)
            });
            let expected = Some((*edge, bytes as u64));
            self.core.exchange(name, |exchange| exchange.started(started, expected));
        }
    }

    /// Starts the sends of an exchange, out of its buffer or of packed data.
    fn start_sends<T: Scalar>(
        &self,
        name: u64,
        context: u32,
        legs: &[Leg],
        (out, packed): (&[T], &[T]),
    ) {
        for Leg { process, tag, range, aside, .. } in legs {
            let data = if *aside { &packed[range.clone()] } else { &out[range.clone()] };
            // SAFETY: the data is borrowed for 'scope, or the exchange owns it; it is in `open`
            // until the request has ended or is abandoned, which is within 'scope.
            let buffer = unsafe { SendBuffer::new(data.as_ptr().cast(), size_of_val(data)) };
            let (world, mode) = (self.core.world, SendMode::Standard);
            let started = world.communicator().in_job(*process).and_then(|destination| {
                let envelope = Envelope { destination, context, tag: *tag };
                world.engine().borrow_mut().start_send(buffer, envelope, mode)
            });
            self.core.exchange(name, |exchange| exchange.started(started, None));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::{pending, poll_fn};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::task::Poll;

    use hikyaku_msg::MsgError;

    use super::*;

    #[test]
    fn a_panic_leaves_no_operation_behind_that_borrows() {
        let world = World::init().unwrap();
        let (armed, borrowed) = (Rc::new(Cell::new(false)), Rc::new(()));
        let panics = Rc::clone(&armed);
        world.communicator().start_task(Box::pin(poll_fn(move |_| {
            assert!(!panics.get(), "a reduction of another scope panics");
            Poll::Pending
        })));
        armed.set(true);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            world.scope(|scope| {
                let held = Rc::clone(&borrowed);
                scope.begin(async move {
                    let _held = held;
                    pending().await
                });
                Ok(())
            })
        }));
        assert!(panicked.is_err());
        assert_eq!(Rc::strong_count(&borrowed), 1);
    }

    /// A value of a reduction whose drop starts a receive, and may panic.
    struct Late<'s, 'e> {
        scope: &'s Scope<'s, 'e>,
        into: Option<&'s mut [u8]>,
        panics: bool,
    }

    impl Drop for Late<'_, '_> {
        fn drop(&mut self) {
            let _ = self.scope.irecv(self.into.take().unwrap_or_default(), 0, 1);
            assert!(!self.panics, "a drop panics");
        }
    }

    #[test]
    fn what_a_drop_starts_is_abandoned_too() {
        let world = World::init().unwrap();
        for panics in [false, true] {
            let (mut late, mut open, mut heard) = ([0_u8; 2], [0_u8; 2], [0_u8; 2]);
            let abandoned = catch_unwind(AssertUnwindSafe(|| {
                world.scope(|scope| {
                    let late = Late { scope, into: Some(&mut late), panics };
                    scope.begin(async move {
                        let _late = late;
                        pending().await
                    });
                    scope.irecv(&mut open, 0, 2)?;
                    Err::<(), _>(Error::Message(MsgError::Cancelled))
                })
            }));
            assert_eq!(abandoned.is_err(), panics);
            // An abandoned receive takes no message.
            for tag in [1, 2] {
                world.send(&[7_u8; 2], 0, tag).unwrap();
                world.recv(&mut heard, 0, tag).unwrap();
            }
            assert_eq!([late, open, heard], [[0; 2], [0; 2], [7; 2]]);
        }
    }

    #[test]
    fn a_request_may_be_waited_for_in_an_inner_scope() {
        let world = World::init().unwrap();
        let mut into = [0_u8; 300];
        let heard = world.scope(|scope| {
            let request = scope.irecv(&mut into, 0, 1)?;
            world.send(&[7_u8; 300], 0, 1)?;
            world.scope(|inner| inner.wait_any(&mut vec![request]))
        });
        let (at, received) = heard.unwrap().unwrap();
        assert_eq!((at, received.bytes, into), (0, 300, [7; 300]));
    }
}
