//! Requests: operations that were started and continue while the program does other work.

use std::future::poll_fn;
use std::task::Poll;

use pyo3::prelude::*;

use crate::error::raise;
use crate::gate::GateGuard;
use crate::rank::{self, forget};
use crate::wait::{self, WaitInfo};
use crate::world::Received;

/// An operation in flight: the result of isend and irecv.
///
/// Its array is kept until it is done; before that, do not change an array that is being sent, or
/// read one that is being received into. Wait for each request: a dropped one continues all the
/// same, but its errors are not reported.
#[pyclass(module = "hikyaku", frozen)]
pub(crate) struct Request {
    id: u64,
    number: usize,
}

impl Request {
    pub(crate) fn new(number: usize, id: u64) -> Request {
        Request { id, number }
    }
}

#[pymethods]
impl Request {
    /// Wait until it is done. Returns what was received for a receive, None for a send.
    fn wait(&self, py: Python<'_>) -> PyResult<Option<Received>> {
        let rank = rank::here()?;
        let world = rank.communicator(self.number)?;
        let done = poll_fn(|_| match rank.is_done(self.id) {
            true => Poll::Ready(()),
            false => {
                rank.poll(self.id);
                if rank.is_done(self.id) { Poll::Ready(()) } else { Poll::Pending }
            }
        });
        let alone = (world.size() == 1).then_some(1);
        let inside = GateGuard::enter();
        wait::run(py, &WaitInfo { alone, ..WaitInfo::new(&rank, &world, &inside) }, done)?;
        drop(inside);
        let result = rank.result(self.id).unwrap_or(Ok(None));
        Ok(result.map_err(raise)?.map(Received::from))
    }

    /// Whether it is done; never waits. If it has failed, wait raises the error.
    fn test(&self) -> PyResult<bool> {
        let rank = rank::here()?;
        if !rank.is_done(self.id) {
            rank.poll_all();
        }
        let is_done = rank.is_done(self.id);
        if !is_done {
            rank.found_nothing();
        }
        Ok(is_done)
    }

    /// Cancel it: a receive takes no message any more, a send that has not begun is not sent.
    /// Without effect once it is done.
    fn cancel(&self) -> PyResult<()> {
        rank::here()?.cancel(self.id);
        Ok(())
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        forget(self.id);
    }
}
