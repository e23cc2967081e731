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
/// It keeps its array until it is complete. Until then, do not change an array that is being sent,
/// and do not read one that is being received into. Wait for each request: a dropped request still
/// completes, but its errors are lost.
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
    /// Wait until it is complete. Returns what was received for a receive, None for a send.
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

    /// Test without blocking whether it is complete. If it has failed, wait raises the error.
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

    /// Cancel it. A cancelled receive matches no message; a send that has not started is not sent.
    /// Has no effect on a complete request.
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
