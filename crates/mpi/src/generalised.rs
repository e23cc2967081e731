//! Generalised requests: operations that the program defines and completes itself (MPI 5.0
//! §13.2).

use std::cell::Cell;
use std::future::poll_fn;
use std::task::Poll;

use hikyaku_rank::Communicator;

use crate::attributes::refused;
use crate::callbacks;
use crate::dialect::{Dialect, Handle, Object, Status};
use crate::failure::{Class, Failure};
use crate::raw::HandleAt;
use crate::requests::{Outcome, Request};
use crate::runtime::Mpi;

/// The program's functions for a generalised request, and its state.
pub(crate) struct Generalised {
    is_complete: Cell<bool>,
    /// Whether the program has freed its handle before completing it.
    is_freed: Cell<bool>,
    query: Box<dyn Fn() -> Outcome>,
    free: Box<dyn Fn() -> Result<(), Failure>>,
    cancel: Box<dyn Fn(bool) -> Result<(), Failure>>,
    /// The rank that makes progress during a wait.
    rank: Communicator,
}

impl Generalised {
    /// The status as reported by the program; `None` if the request is not complete.
    pub(crate) fn status(&self) -> Option<Outcome> {
        self.is_complete.get().then(|| (self.query)())
    }

    /// Waits until another thread of the program has completed the request.
    pub(crate) fn wait(&self) {
        self.rank.block_on_memory(poll_fn(|_| match self.is_complete.get() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }));
    }

    /// Calls the program's function that frees the request.
    pub(crate) fn free(&self) -> Result<(), Failure> {
        (self.free)()
    }

    /// Marks the request to be freed when it completes. Returns whether it is complete already.
    pub(crate) fn free_when_complete(&self) -> bool {
        self.is_freed.set(true);
        self.is_complete.get()
    }

    /// Calls the program's function that cancels the request.
    pub(crate) fn cancel(&self) -> Result<(), Failure> {
        (self.cancel)(self.is_complete.get())
    }
}

impl<D: Dialect> Mpi<D> {
    /// MPI_Grequest_start.
    pub fn grequest_start(
        &self,
        query: usize,
        free: usize,
        cancel: usize,
        state: usize,
        request: HandleAt<D>,
    ) -> Result<(), Failure> {
        let query = callbacks::function(query, "query_fn")?;
        let free = callbacks::function(free, "free_fn")?;
        let cancel = callbacks::function(cancel, "cancel_fn")?;
        let own = Generalised {
            is_complete: Cell::new(false),
            is_freed: Cell::new(false),
            query: Box::new(move || {
                let (code, status) = callbacks::query::<D>(query, state);
                refused::<D>("to query a generalised request", code)?;
                Ok(Status { error: None, ..status })
            }),
            free: Box::new(move || {
                refused::<D>("to free a generalised request", callbacks::free(free, state))
            }),
            cancel: Box::new(move |is_complete| {
                let code = callbacks::cancel(cancel, state, is_complete);
                refused::<D>("to cancel a generalised request", code)
            }),
            rank: self.rank()?,
        };
        self.add_request(Request::generalised(own), &request)
    }

    /// MPI_Grequest_complete.
    pub fn grequest_complete(&self, number: Handle) -> Result<(), Failure> {
        let request = self.request_of(number)?;
        let request = request.ok_or_else(|| self.no_such(Object::Request, number))?;
        let own = request.own.as_ref().ok_or_else(|| {
            Failure::new(Class::Request, "the request is not generalised: it completes by itself")
        })?;
        own.is_complete.set(true);
        if own.is_freed.get() {
            self.state.requests.remove(number);
            return own.free();
        }
        Ok(())
    }
}
