//! The class `World`: this rank, and messages between two ranks.

use std::rc::Rc;

use hikyaku::shared::{Element, Parts, SharedOptions, UnknownProtocol};
use hikyaku::{ANY_SOURCE, ANY_TAG, Source, Tag};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::array::PythonArray;
use crate::collective::{self, Calling};
use crate::error::raise;
use crate::exchange::Exchange;
use crate::gate::GateGuard;
use crate::memory::Memory;
use crate::number;
use crate::rank::{self, InFlight, PythonComm, PythonRank};
use crate::request::Request;
use crate::shared::Shared;
use crate::wait::{self, WaitInfo};
use crate::window::Window;

/// All ranks of a job, and messages between them.
#[pyclass(module = "hikyaku", subclass, frozen)]
pub(crate) struct World {
    /// Its number in the rank's table.
    pub(crate) number: usize,
}

/// The end of work of another thread, for which the rank waits.
#[pyclass(module = "hikyaku._native", frozen)]
pub(crate) struct WorkEnd(hikyaku::WorkEnd);

#[pymethods]
impl WorkEnd {
    /// Report it. For the other thread.
    fn note(&self) {
        self.0.note();
    }
}

/// Name and shape of a shared variable, name and size of its elements as numpy has them, their
/// dtype, rows, tiles (at most one of the two), whether it is recoverable, and its protocol.
type SharedArguments = (
    String,
    Vec<u64>,
    (String, u32),
    Py<PyAny>,
    Option<u64>,
    Option<(u64, u64)>,
    bool,
    Option<String>,
);

/// The message that a receive or a probe found.
#[pyclass(module = "hikyaku", frozen, get_all, eq)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Received {
    /// The sender.
    source: u32,
    /// Its tag.
    tag: i32,
    /// Its length in bytes.
    nbytes: u64,
}

impl From<hikyaku::Received> for Received {
    fn from(received: hikyaku::Received) -> Received {
        let hikyaku::Received { source, tag, bytes } = received;
        Received { source, tag, nbytes: bytes }
    }
}

#[pymethods]
impl Received {
    fn __repr__(&self) -> String {
        let Received { source, tag, nbytes } = self;
        format!("Received(source={source}, tag={tag}, nbytes={nbytes})")
    }
}

impl World {
    /// The rank, and this communicator in its table.
    pub(crate) fn open(&self) -> PyResult<(Rc<PythonRank>, Rc<PythonComm>)> {
        let rank = rank::here()?;
        let world = rank.communicator(self.number)?;
        Ok((rank, world))
    }

    fn start(&self, operation: impl FnOnce(Rc<PythonComm>) -> InFlight) -> PyResult<Request> {
        let (rank, world) = self.open()?;
        Ok(Request::new(self.number, rank.start(operation(world))))
    }
}

#[pymethods]
impl World {
    /// The world of this process, which joins its job the first time; or the communicator of a
    /// number.
    #[new]
    #[pyo3(signature = (number=0))]
    fn new(number: usize) -> PyResult<World> {
        rank::join()?.communicator(number)?;
        Ok(World { number })
    }

    /// Another communicator of the same ranks, whose messages match none of this one's. Every rank
    /// calls it, in the same order.
    fn _duplicate(&self, py: Python<'_>) -> PyResult<usize> {
        let (rank, world) = self.open()?;
        let inside = GateGuard::enter();
        let (wait, world) = (WaitInfo::new(&rank, &world, &inside), world.at(&inside));
        let made = wait::complete(py, &wait, async {
            Ok([world.duplicate_async().await?, world.duplicate_async().await?])
        })?;
        Ok(rank.add_communicators(made, &inside))
    }

    /// The ranks of one color, numbered by key and by rank; None without a color. Every rank calls
    /// it.
    fn _split(
        &self,
        py: Python<'_>,
        color: &Bound<'_, PyAny>,
        key: &Bound<'_, PyAny>,
    ) -> PyResult<Option<usize>> {
        let calling = Calling::new(py, self)?;
        let (color, key) = (number::any_color(color)?, number::key(key)?);
        let (rank, world) = calling.begin();
        let inside = GateGuard::enter();
        let (wait, world) = (WaitInfo::new(rank, world, &inside), world.at(&inside));
        let made = wait::complete(py, &wait, async {
            let Some(made) = world.split_async(color, key).await? else { return Ok(None) };
            let beside = made.duplicate_async().await?;
            Ok(Some([made, beside]))
        })?;
        Ok(made.map(|pair| rank.add_communicators(pair, &inside)))
    }

    /// The ranks of a list, in its order. They alone call it.
    fn _create_group(&self, py: Python<'_>, ranks: Vec<i64>) -> PyResult<usize> {
        let (rank, world) = self.open()?;
        let ranks: PyResult<Vec<u32>> = ranks.iter().map(|rank| existing(&world, *rank)).collect();
        let ranks = ranks?;
        let inside = GateGuard::enter();
        let (wait, world) = (WaitInfo::new(&rank, &world, &inside), world.at(&inside));
        let made = wait::complete(py, &wait, async {
            let made = world.create_group_async(&ranks).await?;
            let beside = made.duplicate_async().await?;
            Ok([made, beside])
        })?;
        Ok(rank.add_communicators(made, &inside))
    }

    /// The end of work of another thread, which reports it there; None in virtual time, where a
    /// rank is one thread at a time.
    fn _work_end(&self) -> PyResult<Option<WorkEnd>> {
        let (_, world) = self.open()?;
        let inside = GateGuard::enter();
        let world = world.at(&inside);
        let is_virtual = world.capabilities().virtual_time;
        Ok((!is_virtual).then(|| WorkEnd(world.work_end())))
    }

    /// Wait for that end, and make progress on everything meanwhile.
    fn _await_work(&self, py: Python<'_>, end: &WorkEnd) -> PyResult<()> {
        let (rank, world) = self.open()?;
        let inside = GateGuard::enter();
        let wait = WaitInfo::new(&rank, &world, &inside);
        wait::run(py, &wait, end.0.wait())
    }

    /// Free this communicator. Every later use of it is an error.
    fn free(&self) -> PyResult<()> {
        let (rank, _) = self.open()?;
        rank.free_communicator(self.number)
    }

    /// The communicator for objects that belongs to this one.
    #[getter]
    fn _beside(&self) -> usize {
        self.number ^ 1
    }

    /// This rank, 0 to size - 1.
    #[getter]
    fn rank(&self) -> PyResult<u32> {
        Ok(self.open()?.1.rank())
    }

    /// The number of ranks.
    #[getter]
    fn size(&self) -> PyResult<u32> {
        Ok(self.open()?.1.size())
    }

    /// The (virtual) node of this rank.
    #[getter]
    fn node(&self) -> PyResult<u32> {
        Ok(self.open()?.1.at(&GateGuard::enter()).node())
    }

    /// The number of (virtual) nodes.
    #[getter]
    fn nodes(&self) -> PyResult<u32> {
        Ok(self.open()?.1.at(&GateGuard::enter()).nodes())
    }

    fn __repr__(&self) -> String {
        match self.open() {
            Ok((_, world)) => format!("<hikyaku.World: rank {} of {}>", world.rank(), world.size()),
            Err(_) => "<hikyaku.World: not here>".to_owned(),
        }
    }

    /// Send an array; returns when it may be changed again.
    #[pyo3(signature = (data, to, tag=0))]
    fn send(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = number::rank)] to: i64,
        #[pyo3(from_py_with = number::tag)] tag: i32,
    ) -> PyResult<()> {
        let (rank, world) = self.open()?;
        let data = PythonArray::to_read(data, "data")?;
        let to = existing(&world, to)?;
        let (bytes, alone) = (data.len(), own(&world, to));
        let inside = GateGuard::enter();
        let wait = WaitInfo { bytes, alone, ..WaitInfo::new(&rank, &world, &inside) };
        wait::complete(py, &wait, world.at(&inside).send_async(data.bytes(), to, tag))
    }

    /// Receive a message into the front of an array. Without a source or a tag, from any rank and
    /// of any tag.
    #[pyo3(signature = (into, source=None, tag=None))]
    fn recv(
        &self,
        py: Python<'_>,
        into: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = number::any_rank)] source: Option<i64>,
        #[pyo3(from_py_with = number::any_tag)] tag: Option<i32>,
    ) -> PyResult<Received> {
        let (rank, world) = self.open()?;
        let mut into = PythonArray::to_write(into, "into")?;
        let alone = source.map_or(world.size() == 1, |rank| rank == i64::from(world.rank()));
        let (source, tag) = (source_of(&world, source)?, tag_of(tag));
        let (bytes, element) = (into.len(), into.element_bytes());
        let (alone, inside) = (alone.then_some(0), GateGuard::enter());
        let wait = WaitInfo { bytes, alone, ..WaitInfo::new(&rank, &world, &inside) };
        let world = world.at(&inside);
        let operation = async {
            let received = world.recv_async(into.bytes_mut(), source, tag).await?;
            whole(received, element)
        };
        Ok(wait::complete(py, &wait, operation)?.into())
    }

    /// Send an array and receive into another one at the same time: ranks that call this do not
    /// deadlock in any order.
    #[pyo3(signature = (data, to, into, source, tag=0, recv_tag=None))]
    #[expect(clippy::too_many_arguments, reason = "as many as MPI_Sendrecv has, most by name")]
    fn sendrecv(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = number::rank)] to: i64,
        into: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = number::any_rank)] source: Option<i64>,
        #[pyo3(from_py_with = number::tag)] tag: i32,
        #[pyo3(from_py_with = number::any_tag)] recv_tag: Option<i32>,
    ) -> PyResult<Received> {
        let (rank, world) = self.open()?;
        let (data, mut into) =
            (PythonArray::to_read(data, "data")?, PythonArray::to_write(into, "into")?);
        let (to, source) = (existing(&world, to)?, source_of(&world, source)?);
        let (bytes, element) = (data.len() + into.len(), into.element_bytes());
        let receive_tag = recv_tag.unwrap_or(tag);
        let inside = GateGuard::enter();
        let wait = WaitInfo { bytes, ..WaitInfo::new(&rank, &world, &inside) };
        let world = world.at(&inside);
        let operation = async {
            let receive = Box::pin(world.recv_async(into.bytes_mut(), source, receive_tag));
            let send = Box::pin(world.send_async(data.bytes(), to, tag));
            let (received, sent) = hikyaku::join(receive, send).await;
            sent?;
            whole(received?, element)
        };
        Ok(wait::complete(py, &wait, operation)?.into())
    }

    /// Start to send an array; the request says when it may be changed again.
    #[pyo3(signature = (data, to, tag=0))]
    fn isend(
        &self,
        data: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = number::rank)] to: i64,
        #[pyo3(from_py_with = number::tag)] tag: i32,
    ) -> PyResult<Request> {
        let data = PythonArray::to_read(data, "data")?;
        let to = existing(&self.open()?.1, to)?;
        self.start(|world| {
            Box::pin(async move {
                // This is polled inside the gate.
                let world = world.at(&GateGuard::enter());
                world.send_async(data.bytes(), to, tag).await?;
                Ok(None)
            })
        })
    }

    /// Start to receive into an array; the request says when the message is there.
    #[pyo3(signature = (into, source=None, tag=None))]
    fn irecv(
        &self,
        into: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = number::any_rank)] source: Option<i64>,
        #[pyo3(from_py_with = number::any_tag)] tag: Option<i32>,
    ) -> PyResult<Request> {
        let mut into = PythonArray::to_write(into, "into")?;
        let (source, tag) = (source_of(&self.open()?.1, source)?, tag_of(tag));
        self.start(|world| {
            Box::pin(async move {
                let element = into.element_bytes();
                // This is polled inside the gate.
                let world = world.at(&GateGuard::enter());
                let received = world.recv_async(into.bytes_mut(), source, tag).await?;
                whole(received, element).map(Some)
            })
        })
    }

    /// Wait for a message and describe it, without receiving it.
    #[pyo3(signature = (source=None, tag=None))]
    fn probe(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = number::any_rank)] source: Option<i64>,
        #[pyo3(from_py_with = number::any_tag)] tag: Option<i32>,
    ) -> PyResult<Received> {
        let (rank, world) = self.open()?;
        let alone = source.map_or(world.size() == 1, |rank| rank == i64::from(world.rank()));
        let (source, tag) = (source_of(&world, source)?, tag_of(tag));
        let (alone, inside) = (alone.then_some(0), GateGuard::enter());
        let wait = WaitInfo { alone, ..WaitInfo::new(&rank, &world, &inside) };
        let world = world.at(&inside);
        let operation = std::future::poll_fn(|_| match world.iprobe(source, tag).transpose() {
            Some(found) => std::task::Poll::Ready(found),
            None => std::task::Poll::Pending,
        });
        Ok(wait::complete(py, &wait, operation)?.into())
    }

    /// Describe the message that could be received now, or None.
    #[pyo3(signature = (source=None, tag=None))]
    fn iprobe(
        &self,
        #[pyo3(from_py_with = number::any_rank)] source: Option<i64>,
        #[pyo3(from_py_with = number::any_tag)] tag: Option<i32>,
    ) -> PyResult<Option<Received>> {
        let (rank, world) = self.open()?;
        let (source, tag) = (source_of(&world, source)?, tag_of(tag));
        rank.poll_all();
        let found = world.at(&GateGuard::enter()).iprobe(source, tag).map_err(raise)?;
        Ok(found.map(Received::from))
    }

    /// Wait until every rank has called it.
    fn barrier(&self, py: Python<'_>) -> PyResult<()> {
        collective::barrier(py, self)
    }

    /// Give every rank the array of root, in place. Equal sizes everywhere.
    #[pyo3(signature = (array, root=0))]
    fn bcast(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = number::rank)] root: i64,
    ) -> PyResult<()> {
        collective::broadcast(py, self, array, root)
    }

    /// Combine the ranks' arrays element by element, in place at root; the others' stay.
    #[pyo3(signature = (array, op="sum", root=0))]
    fn reduce(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        op: &str,
        #[pyo3(from_py_with = number::rank)] root: i64,
    ) -> PyResult<()> {
        collective::reduce(py, self, array, op, root)
    }

    /// Combine the ranks' arrays element by element, in place at every rank.
    #[pyo3(signature = (array, op="sum"))]
    fn allreduce(&self, py: Python<'_>, array: &Bound<'_, PyAny>, op: &str) -> PyResult<()> {
        collective::allreduce(py, self, array, op)
    }

    /// Combine the arrays of rank 0 to this one, in place.
    #[pyo3(signature = (array, op="sum"))]
    fn scan(&self, py: Python<'_>, array: &Bound<'_, PyAny>, op: &str) -> PyResult<()> {
        collective::scan(py, self, array, op, false)
    }

    /// Combine the arrays of rank 0 to the one before this, in place; at rank 0 it stays.
    #[pyo3(signature = (array, op="sum"))]
    fn exscan(&self, py: Python<'_>, array: &Bound<'_, PyAny>, op: &str) -> PyResult<()> {
        collective::scan(py, self, array, op, true)
    }

    /// A collective has failed at this rank before it could begin: it fails at all ranks.
    fn _fail_collective(&self, py: Python<'_>) -> PyResult<()> {
        collective::fail(py, self)
    }

    /// The collectives below need an array for the result: the Python class makes one if none is
    /// given.
    #[pyo3(signature = (data, into, op))]
    fn _reduce_scatter(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        into: &Bound<'_, PyAny>,
        op: &str,
    ) -> PyResult<()> {
        collective::reduce_scatter(py, self, data, into, op)
    }

    #[pyo3(signature = (mine, into, root))]
    fn _gather(
        &self,
        py: Python<'_>,
        mine: &Bound<'_, PyAny>,
        into: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = number::rank)] root: i64,
    ) -> PyResult<()> {
        collective::gather(py, self, mine, into, root)
    }

    fn _gatherv(
        &self,
        py: Python<'_>,
        mine: &Bound<'_, PyAny>,
        into: Vec<Bound<'_, PyAny>>,
        #[pyo3(from_py_with = number::rank)] root: i64,
    ) -> PyResult<()> {
        collective::gatherv(py, self, mine, into, root)
    }

    fn _allgather(
        &self,
        py: Python<'_>,
        mine: &Bound<'_, PyAny>,
        into: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        collective::allgather(py, self, mine, into)
    }

    #[pyo3(signature = (data, into, root=0))]
    fn _scatter(
        &self,
        py: Python<'_>,
        data: Option<&Bound<'_, PyAny>>,
        into: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = number::rank)] root: i64,
    ) -> PyResult<()> {
        collective::scatter(py, self, data, into, root)
    }

    /// Memory that the other ranks of the node reach by one copy, filled with zeros.
    fn _alloc(&self, #[pyo3(from_py_with = number::count)] bytes: usize) -> PyResult<Memory> {
        let (_, world) = self.open()?;
        let buffer = world.at(&GateGuard::enter()).alloc(bytes).map_err(raise)?;
        Memory::of_buffer(buffer)
    }

    /// A window of elements like those of an array, with `count` of them at this rank.
    fn _window(
        &self,
        py: Python<'_>,
        count: &Bound<'_, PyAny>,
        sample: &Bound<'_, PyAny>,
    ) -> PyResult<Window> {
        let calling = Calling::new(py, self)?;
        let (count, sample) = (number::count(count)?, PythonArray::to_read(sample, "dtype")?);
        let (rank, world) = calling.meet()?;
        Window::open(rank, world, count, &sample)
    }

    /// A persistent exchange of contiguous arrays with neighbour ranks.
    fn _exchange(
        &self,
        py: Python<'_>,
        outs: &Bound<'_, PyAny>,
        ins: &Bound<'_, PyAny>,
        scheme: &Bound<'_, PyAny>,
    ) -> PyResult<Exchange> {
        let calling = Calling::new(py, self)?;
        Exchange::make(&calling, outs, ins, scheme)
    }

    /// A shared variable.
    fn _shared(&self, py: Python<'_>, arguments: &Bound<'_, PyAny>) -> PyResult<Shared> {
        let calling = Calling::new(py, self)?;
        let arguments: SharedArguments = arguments.extract()?;
        let (name, shape, element, dtype, rows, tiles, recoverable, protocol) = arguments;
        let parts = match (rows, tiles) {
            (None, None) => Parts::Whole,
            (Some(rows), None) => Parts::Rows(rows),
            (None, Some((rows, columns))) => Parts::Tiles(rows, columns),
            (Some(_), Some(_)) => {
                return Err(PyValueError::new_err("give rows or tiles, not both"));
            }
        };
        let protocol = protocol.as_deref().map(str::parse).transpose();
        let protocol =
            protocol.map_err(|error: UnknownProtocol| PyValueError::new_err(error.to_string()))?;
        let options = SharedOptions { parts, recoverable, protocol };
        let element = Element { name: element.0, bytes: element.1 };
        let (rank, world) = calling.meet()?;
        Shared::make(py, rank, world, (&name, &shape), (element, dtype), options)
    }

    /// The shared variable of a name; `dtype_of` makes a dtype from the name of its elements.
    fn _shared_named(&self, name: &str, dtype_of: &Bound<'_, PyAny>) -> PyResult<Shared> {
        let (rank, world) = self.open()?;
        Shared::named(&rank, &world, name, dtype_of)
    }

    fn _alltoall(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        into: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        collective::alltoall(py, self, data, into)
    }

    fn _alltoallw(
        &self,
        py: Python<'_>,
        parts: Vec<Bound<'_, PyAny>>,
        into: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        collective::alltoallw(py, self, parts, into)
    }
}

/// Checks that a rank exists.
pub(crate) fn existing(world: &PythonComm, rank: i64) -> PyResult<u32> {
    let size = world.size();
    u32::try_from(rank).ok().filter(|rank| *rank < size).ok_or_else(|| {
        PyValueError::new_err(format!(
            "rank {rank} does not exist: there are ranks 0 to {}",
            size.saturating_sub(1)
        ))
    })
}

/// The limit of open requests for a wait that only this rank itself could end.
fn own(world: &PythonComm, peer: u32) -> Option<usize> {
    (peer == world.rank()).then_some(0)
}

fn source_of(world: &PythonComm, source: Option<i64>) -> PyResult<Source> {
    source.map_or(Ok(ANY_SOURCE), |rank| existing(world, rank).map(Source::from))
}

fn tag_of(tag: Option<i32>) -> Tag {
    tag.map_or(ANY_TAG, Tag::from)
}

/// Checks that a message is a whole number of elements.
fn whole(received: hikyaku::Received, element: usize) -> Result<hikyaku::Received, hikyaku::Error> {
    let hikyaku::Received { source, bytes, .. } = received;
    if bytes.is_multiple_of(element as u64) {
        return Ok(received);
    }
    Err(hikyaku::Error::PartialElement { bytes, element, source_rank: source })
}
