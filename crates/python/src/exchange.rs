//! Persistent exchanges with neighbours, on the bytes of Python arrays.
//!
//! An exchange keeps its arrays until it ends, so that every round can use their memory. They are
//! read when a round starts and written when it is waited for.

use std::cell::RefCell;
use std::future::poll_fn;
use std::ops::Range;
use std::rc::Rc;
use std::task::Poll;

use hikyaku::persistent::{
    ExchangeSink, ExchangeSource, Neighbour, Neighbours, Scheme, StagedExchange, UnknownScheme,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::array::PythonArray;
use crate::collective::Calling;
use crate::error::raise;
use crate::gate::{GateGuard, Gated};
use crate::rank::{self, PythonRank, forget};
use crate::wait::{self, WaitInfo};

/// One edge, as passed by Python: the rank at the other end, and the array to send or to fill.
type PythonEdge<'py> = (i64, Bound<'py, PyAny>);

/// The arrays of one direction, addressed as if they were one buffer.
struct ArrayRow {
    arrays: Vec<PythonArray>,
    /// The offset of each.
    starts: Vec<usize>,
}

impl ArrayRow {
    /// The arrays of edges, and the edges as byte ranges of the row.
    fn new(
        edges: &Bound<'_, PyAny>,
        take: impl Fn(&Bound<'_, PyAny>) -> PyResult<PythonArray>,
    ) -> PyResult<(ArrayRow, Vec<Neighbour>)> {
        let mut row = ArrayRow { arrays: Vec::new(), starts: Vec::new() };
        let (mut neighbours, mut start) = (Vec::new(), 0);
        let edges: Vec<PythonEdge<'_>> = edges.extract()?;
        for (rank, array) in &edges {
            let array = take(array)?;
            // A rank that is too large for the job is an error at every rank, because all learn of
            // it.
            let rank = u32::try_from(*rank).map_err(|_| {
                PyValueError::new_err(format!("rank {rank} does not exist: ranks are 0 and more"))
            })?;
            let end = start + array.len();
            neighbours.push(Neighbour { rank, elements: start..end });
            row.starts.push(start);
            row.arrays.push(array);
            start = end;
        }
        Ok((row, neighbours))
    }

    /// The index of the array of a non-empty run: empty arrays start where the next one does.
    fn place(&self, run: &Range<usize>) -> usize {
        self.starts.partition_point(|start| *start <= run.start) - 1
    }

    fn bytes(&self) -> usize {
        self.arrays.iter().map(PythonArray::len).sum()
    }
}

impl ExchangeSource for ArrayRow {
    fn run(&self, run: &Range<usize>) -> &[u8] {
        if run.is_empty() { &[] } else { self.arrays[self.place(run)].bytes() }
    }
}

impl ExchangeSink for ArrayRow {
    fn run_mut(&mut self, run: &Range<usize>) -> &mut [u8] {
        if run.is_empty() {
            return &mut [];
        }
        let place = self.place(run);
        self.arrays[place].bytes_mut()
    }
}

/// An exchange of the rank's, with its arrays.
pub(crate) struct ArrayExchange {
    /// Declared first, so that it is dropped before the arrays.
    rounds: StagedExchange<u8>,
    outs: ArrayRow,
    ins: ArrayRow,
}

/// An exchange in the rank's table.
type SharedExchange = Rc<RefCell<Gated<ArrayExchange>>>;

/// A persistent exchange: the base of the Python class Exchange.
#[pyclass(module = "hikyaku._native", frozen)]
pub(crate) struct Exchange {
    id: u64,
}

impl Exchange {
    /// Makes an exchange of arrays. Every rank calls it.
    pub(crate) fn make(
        calling: &Calling<'_>,
        outs: &Bound<'_, PyAny>,
        ins: &Bound<'_, PyAny>,
        scheme: &Bound<'_, PyAny>,
    ) -> PyResult<Exchange> {
        let (outs, destinations) =
            ArrayRow::new(outs, |array| PythonArray::to_read(array, "outs"))?;
        let (ins, sources) = ArrayRow::new(ins, |array| PythonArray::to_write(array, "ins"))?;
        let scheme = scheme.extract::<Option<String>>()?;
        let scheme = scheme.as_deref().map(str::parse::<Scheme>).transpose();
        let scheme = scheme
            .map_err(|error: UnknownScheme| PyValueError::new_err(format!("scheme: {error}")))?;
        let (rank, comm) = calling.meet()?;
        let inside = GateGuard::enter();
        let neighbours = Neighbours { sources, destinations, scheme };
        let rounds = comm.at(&inside).staged_exchange_init(&neighbours).map_err(raise)?;
        let made = Gated::new(ArrayExchange { rounds, outs, ins });
        Ok(Exchange { id: rank.add_exchange(made) })
    }

    /// The rank, and this exchange in its table.
    fn open(&self) -> PyResult<(Rc<PythonRank>, SharedExchange)> {
        let rank = rank::here()?;
        let exchange = rank.exchange(self.id)?;
        Ok((rank, exchange))
    }
}

#[pymethods]
impl Exchange {
    /// Start a round with the present contents of the outgoing arrays.
    fn start(&self) -> PyResult<()> {
        let (_, exchange) = self.open()?;
        let inside = GateGuard::enter();
        let mut exchange = exchange.borrow_mut();
        let ArrayExchange { rounds, outs, .. } = exchange.get_mut(&inside);
        rounds.start_runs(outs).map_err(raise)
    }

    /// Wait for the round. Then the incoming arrays hold the received data.
    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        let (rank, exchange) = self.open()?;
        let world = rank.communicator(0)?;
        let inside = GateGuard::enter();
        let bytes = exchange.borrow().get(&inside).ins.bytes();
        let round = poll_fn(|_| {
            let mut exchange = exchange.borrow_mut();
            let ArrayExchange { rounds, ins, .. } = exchange.get_mut(&inside);
            match rounds.poll_runs(ins) {
                Ok(true) => Poll::Ready(Ok(())),
                Ok(false) => Poll::Pending,
                Err(error) => Poll::Ready(Err(error)),
            }
        });
        let wait = WaitInfo { bytes, ..WaitInfo::new(&rank, &world, &inside) };
        wait::complete(py, &wait, round)
    }

    /// Test without blocking if the round is complete. If true, the arrays are as after wait.
    fn test(&self) -> PyResult<bool> {
        let (rank, exchange) = self.open()?;
        rank.poll_all();
        let inside = GateGuard::enter();
        let mut exchange = exchange.borrow_mut();
        let ArrayExchange { rounds, ins, .. } = exchange.get_mut(&inside);
        let is_complete = rounds.poll_runs(ins).map_err(raise)?;
        if !is_complete {
            rank.found_nothing();
        }
        Ok(is_complete)
    }

    /// Whether rounds use messages, at every rank.
    #[getter]
    fn by_messages(&self) -> PyResult<bool> {
        let (_, exchange) = self.open()?;
        let inside = GateGuard::enter();
        let exchange = exchange.borrow();
        Ok(exchange.get(&inside).rounds.is_by_messages())
    }

    /// Release it and its arrays.
    fn close(&self) -> PyResult<()> {
        rank::here()?.remove_exchange(self.id);
        Ok(())
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        forget(self.id);
    }
}
