//! Non-blocking operations on borrowed buffers.
//!
//! A request that is forgotten (`mem::forget`) must not leave the interface writing to memory that
//! has been given to somebody else. So requests live in a scope, as threads do in
//! `std::thread::scope`: a buffer is borrowed for the scope, and the scope does not end before
//! every request in it has, one way or the other.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::mem::size_of_val;

use hikyaku_msg::{
    CancelOutcome, Envelope, MsgError, RecvBuffer, RequestId, Selector, SendBuffer, SendMode,
};

use crate::error::Error;
use crate::scalar::Scalar;
use crate::select::{Source, Tag};
use crate::world::{Received, World};

/// Where non-blocking operations are started; see [`World::scope`].
#[derive(Debug)]
pub struct Scope<'scope, 'env: 'scope> {
    world: &'env World,
    /// Requests that nobody has waited for yet.
    open: RefCell<VecDeque<RequestId>>,
    /// Invariant in both lifetimes, like `std::thread::Scope`.
    scope: PhantomData<&'scope mut &'scope ()>,
    environment: PhantomData<&'env mut &'env ()>,
}

/// An operation that was started and has not been waited for.
///
/// Dropping it does not undo the operation: the scope waits for it at its end.
#[derive(Debug)]
pub struct Request<'scope> {
    scope: &'scope dyn Requests,
    id: RequestId,
}

/// What a request needs of its scope, whatever the scope's other lifetime.
trait Requests {
    fn world(&self) -> &World;
    fn close(&self, id: RequestId);
}

impl std::fmt::Debug for dyn Requests + '_ {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scope")
    }
}

impl Requests for Scope<'_, '_> {
    fn world(&self) -> &World {
        self.world
    }

    fn close(&self, id: RequestId) {
        let mut open = self.open.borrow_mut();
        // From the front: requests mostly end in the order in which they were started.
        if let Some(at) = open.iter().position(|other| *other == id) {
            open.remove(at);
        }
    }
}

impl World {
    /// Runs `body` with a scope for non-blocking operations, and waits at its end for all that it
    /// has not waited for itself.
    ///
    /// If `body` fails or panics, what is still open is given up instead: receives are withdrawn,
    /// sends that have not begun as well.
    ///
    /// # Errors
    /// What `body` answers, or the first failure of a request that it left open.
    pub fn scope<'env, R>(
        &'env self,
        body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let scope = Scope {
            world: self,
            open: RefCell::default(),
            scope: PhantomData,
            environment: PhantomData,
        };
        // Also on panic: the buffers are borrowed no longer than this function runs.
        let guard = GiveUp { scope: &scope };
        let result = body(&scope)?;
        scope.wait_all()?;
        drop(guard);
        Ok(result)
    }
}

/// Gives up what is open when the scope ends in whatever way.
struct GiveUp<'s, 'scope, 'env> {
    scope: &'s Scope<'scope, 'env>,
}

impl Drop for GiveUp<'_, '_, '_> {
    fn drop(&mut self) {
        let mut engine = self.scope.world.engine().borrow_mut();
        for id in self.scope.open.take() {
            engine.abandon(id);
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

    fn start_send<T: Scalar>(
        &'scope self,
        data: &'scope [T],
        to: u32,
        tag: i32,
        mode: SendMode,
    ) -> Result<Request<'scope>, Error> {
        let envelope = Envelope { destination: to, context: self.world.context(), tag };
        // SAFETY: the data is borrowed for 'scope, which does not end before `World::scope` has
        // waited for this request or given it up: it is in `open` from here until then.
        let buffer = unsafe { SendBuffer::new(data.as_ptr().cast(), size_of_val(data)) };
        let id = self.world.engine().borrow_mut().start_send(buffer, envelope, mode)?;
        Ok(self.opened(id))
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
        let selector =
            Selector { source: from.into().0, tag: tag.into().0, context: self.world.context() };
        // SAFETY: the memory is borrowed exclusively for 'scope, which does not end before
        // `World::scope` has waited for this request or given it up: it is in `open` until then.
        let buffer = unsafe { RecvBuffer::new(into.as_mut_ptr().cast(), size_of_val(into)) };
        let id = self.world.engine().borrow_mut().start_recv(buffer, selector)?;
        Ok(self.opened(id))
    }

    /// Waits for everything that was started here and not waited for (MPI_Waitall).
    ///
    /// # Errors
    /// The failure of the one that was started first, after all have ended.
    pub fn wait_all(&self) -> Result<(), Error> {
        let mut first = Ok(());
        loop {
            let Some(id) = self.open.borrow().front().copied() else { return first };
            let result = self.world.engine().borrow_mut().wait(id);
            self.close(id);
            if let Err(error) = result {
                first = first.and(Err(error.into()));
            }
        }
    }

    /// Waits until one of `requests` has ended, takes it out of the list and gives its former
    /// place and result (MPI_Waitany). `None` if the list is empty.
    ///
    /// # Errors
    /// What that operation failed with.
    pub fn wait_any(
        &self,
        requests: &mut Vec<Request<'scope>>,
    ) -> Result<Option<(usize, Received)>, Error> {
        if requests.is_empty() {
            return Ok(None);
        }
        let ids: Vec<RequestId> = requests.iter().map(|request| request.id).collect();
        let (at, result) = self.world.engine().borrow_mut().wait_any(&ids);
        self.close(requests.swap_remove(at).id);
        Ok(Some((at, result?.into())))
    }

    fn opened(&'scope self, id: RequestId) -> Request<'scope> {
        self.open.borrow_mut().push_back(id);
        Request { scope: self, id }
    }
}

impl Request<'_> {
    /// Waits for the operation.
    ///
    /// # Errors
    /// What it failed with.
    pub fn wait(self) -> Result<Received, Error> {
        let result = self.scope.world().engine().borrow_mut().wait(self.id);
        self.scope.close(self.id);
        Ok(result?.into())
    }

    /// Its result if it has ended, or the request again.
    ///
    /// # Errors
    /// What it failed with.
    pub fn test(self) -> Result<Result<Received, Self>, Error> {
        let result = self.scope.world().engine().borrow_mut().test(self.id);
        match result {
            None => Ok(Err(self)),
            Some(result) => {
                self.scope.close(self.id);
                Ok(Ok(result?.into()))
            }
        }
    }

    /// Tries to undo the operation (MPI 5.0 §3.8.4) and waits until that is decided: `None` if it
    /// was undone, its result if it was too late.
    ///
    /// # Errors
    /// What the operation failed with, if it was too late.
    pub fn cancel(self) -> Result<Option<Received>, Error> {
        let outcome = self.scope.world().engine().borrow_mut().cancel(self.id);
        if outcome == CancelOutcome::Cancelled {
            self.scope.close(self.id);
            return Ok(None);
        }
        match self.wait() {
            Err(Error::Message(MsgError::Cancelled)) => Ok(None),
            result => result.map(Some),
        }
    }
}
