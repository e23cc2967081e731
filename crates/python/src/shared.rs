//! Shared variables: arrays bound to a lock, that are the newest for whoever has the lock.
//!
//! ```text
//!   with x.write() as a:          Shared ──► Access ──► the rank's table: Variable { part, guard }
//!       a[0] += 1                            │              ▲
//!                                            └─ array ──► Memory (keeps the entry)
//! ```
//!
//! The array of an access is made once and handed out again each time: it shows the copy of this
//! node, which lies in one place. Outside the block that of a write is switched to read-only, so
//! that writing through it raises; entering the block costs no allocation.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::ptr::NonNull;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use hikyaku::shared::{self, ReadGuard, WriteGuard};
use pyo3::exceptions::{PyTimeoutError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTuple, PyType};

use crate::error::raise;
use crate::memory::Memory;
use crate::rank::{self, Rank, forget};
use crate::wait::{self, Wait};

/// A part of a shared variable in the rank's table.
pub(crate) struct Variable {
    variable: shared::Shared<u8>,
    part: shared::Part<u8>,
    held: RefCell<Option<Guard>>,
    /// How many Python objects name it.
    pub(crate) names: Cell<usize>,
}

/// What holds a part.
enum Guard {
    Read(ReadGuard<u8>),
    Write(WriteGuard<u8>),
}

impl Guard {
    /// Where the elements are, in bytes, and how many.
    fn place(&mut self) -> (NonNull<u8>, usize) {
        match self {
            Guard::Read(guard) => (NonNull::from(&**guard).cast(), guard.len()),
            Guard::Write(guard) => (NonNull::from(&mut **guard).cast(), guard.len()),
        }
    }

    fn mark(&self) -> Option<shared::Mark> {
        match self {
            Guard::Read(guard) => guard.mark(),
            Guard::Write(guard) => guard.mark(),
        }
    }
}

impl Variable {
    async fn acquire(&self, writes: bool) -> Result<Guard, hikyaku::Error> {
        Ok(match writes {
            true => Guard::Write(self.part.write_async().await?),
            false => Guard::Read(self.part.read_async().await?),
        })
    }
}

/// The name of an entry in the rank's table, which is there as long as it has one.
pub(crate) struct Name(u64);

impl Name {
    /// Another name of the same.
    fn another(&self, rank: &Rank) -> PyResult<Name> {
        let variable = rank.variable(self.0)?;
        variable.names.set(variable.names.get() + 1);
        Ok(Name(self.0))
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        forget(self.0);
    }
}

/// An array bound to a lock: what World.shared gives. Or a part of one, with a lock of its own.
///
/// `with x.write() as a:` gives a numpy array that may be written, `with x.read() as a:` one that
/// may be read, beside other readers. Its contents are the newest when the block begins. After the
/// block, writing through `a` raises ValueError; what was derived from it inside the block (slices,
/// reshapes, other views) cannot be switched off, so do not keep it. What is read outside a block
/// is whatever is there.
#[pyclass(module = "hikyaku", frozen)]
pub(crate) struct Shared {
    name: Name,
    /// The type of its elements.
    #[pyo3(get)]
    dtype: Py<PyAny>,
    writer: PyOnceLock<Py<Access>>,
    reader: PyOnceLock<Py<Access>>,
}

impl Shared {
    /// A part of a variable.
    fn new(
        rank: &Rank,
        variable: shared::Shared<u8>,
        part: u64,
        dtype: Py<PyAny>,
    ) -> PyResult<Shared> {
        let part = variable.part(part).map_err(raise)?;
        let variable = Variable { variable, part, held: RefCell::default(), names: Cell::new(1) };
        let name = Name(rank.add_variable(variable));
        let (writer, reader) = (PyOnceLock::new(), PyOnceLock::new());
        Ok(Shared { name, dtype, writer, reader })
    }

    /// Makes a variable. Every rank has come here.
    pub(crate) fn make(
        rank: &Rank,
        world: &hikyaku::World,
        (name, shape): (&str, &[u64]),
        (element, dtype): (shared::Element, Py<PyAny>),
        options: shared::SharedOptions,
    ) -> PyResult<Shared> {
        let made = world.shared_bytes(name, shape, element, options).map_err(raise)?;
        Shared::new(rank, made, 0, dtype)
    }

    /// Finds a variable that this rank has made.
    pub(crate) fn named(
        rank: &Rank,
        world: &hikyaku::World,
        name: &str,
        dtype_of: &Bound<'_, PyAny>,
    ) -> PyResult<Shared> {
        let found = world.shared_named_bytes(name).map_err(raise)?;
        let dtype = dtype_of.call1((&found.element().name,))?.unbind();
        Shared::new(rank, found, 0, dtype)
    }

    fn variable(&self) -> PyResult<Rc<Variable>> {
        rank::here()?.variable(self.name.0)
    }

    fn access(&self, py: Python<'_>, writes: bool, timeout: Option<f64>) -> PyResult<Py<Access>> {
        let timeout = match timeout {
            None => None,
            Some(seconds) => Some(Duration::try_from_secs_f64(seconds).map_err(|_| {
                PyValueError::new_err("timeout: it must be a number of seconds, not negative")
            })?),
        };
        let name = self.name.another(&*rank::here()?)?;
        let (dtype, shown) = (self.dtype.clone_ref(py), PyOnceLock::new());
        Py::new(py, Access { name, writes, timeout, dtype, shown })
    }
}

#[pymethods]
impl Shared {
    /// The array, to be written, in a with-block: nobody else has it meanwhile. With a timeout in
    /// seconds, TimeoutError if its turn does not come within that.
    #[pyo3(signature = (timeout=None))]
    fn write(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Py<Access>> {
        if timeout.is_some() {
            return self.access(py, true, timeout);
        }
        Ok(self.writer.get_or_try_init(py, || self.access(py, true, None))?.clone_ref(py))
    }

    /// The array, to be read, in a with-block: others may read it meanwhile, nobody writes.
    #[pyo3(signature = (timeout=None))]
    fn read(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Py<Access>> {
        if timeout.is_some() {
            return self.access(py, false, timeout);
        }
        Ok(self.reader.get_or_try_init(py, || self.access(py, false, None))?.clone_ref(py))
    }

    /// Its name.
    #[getter]
    fn name(&self) -> PyResult<String> {
        Ok(self.variable()?.variable.name().to_owned())
    }

    /// The shape of the array in a block: of this part.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.variable()?.part.shape())
    }

    /// Where this part begins in the whole array.
    #[getter]
    fn origin<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.variable()?.part.origin())
    }

    /// How many parts the whole array has, each with a lock of its own.
    #[getter]
    fn parts(&self) -> PyResult<u64> {
        Ok(self.variable()?.variable.parts())
    }

    /// One of the parts. The whole variable is its part 0.
    fn part(&self, py: Python<'_>, number: u64) -> PyResult<Shared> {
        let variable = self.variable()?.variable.clone();
        Shared::new(&*rank::here()?, variable, number, self.dtype.clone_ref(py))
    }

    /// The node that owns it, as far as this one was told. Asks nobody.
    #[getter]
    fn owner(&self) -> PyResult<u32> {
        self.variable()?.part.owner().map_err(raise)
    }

    /// What this node may do with its copy: "wlock", "rlock", "clean" or "dirty". Asks nobody.
    #[getter]
    fn state(&self) -> PyResult<String> {
        let state = self.variable()?.part.state().map_err(raise)?;
        Ok(format!("{state:?}").to_lowercase())
    }

    /// Bytes that this rank has fetched from other nodes for it, and how often.
    #[getter]
    fn moved(&self) -> PyResult<(u64, u64)> {
        Ok(self.variable()?.variable.moved())
    }

    /// Within a block of a recoverable variable: None, or the rank that died with it, and whether
    /// what was its newest copy died too. The contents may then be in the middle of an update.
    #[getter]
    fn mark(&self) -> PyResult<Option<(u32, bool)>> {
        let variable = self.variable()?;
        let held = variable.held.borrow();
        Ok(held.as_ref().and_then(Guard::mark).map(|mark| (mark.victim, mark.stale)))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (name, shape) = (self.name()?, self.shape(py)?);
        Ok(format!("<hikyaku.Shared '{name}': {shape} of {}>", self.dtype.bind(py)))
    }
}

/// One way to have a shared variable: what a with-block enters and leaves.
#[pyclass(module = "hikyaku", frozen)]
pub(crate) struct Access {
    name: Name,
    writes: bool,
    timeout: Option<Duration>,
    dtype: Py<PyAny>,
    shown: PyOnceLock<Shown>,
}

/// The array of an access.
struct Shown {
    array: Py<PyAny>,
    /// Its method `setflags`, a third of the cost of setting `flags.writeable`.
    switch: Py<PyAny>,
}

impl Access {
    /// Waits for the variable.
    fn wait(&self, py: Python<'_>, rank: &Rank, variable: &Variable) -> PyResult<Guard> {
        let world = rank.communicator(0)?;
        let until = self.timeout.map(|timeout| Instant::now() + timeout);
        let mut acquired = pin!(variable.acquire(self.writes));
        let operation = poll_fn(|context| match acquired.as_mut().poll(context) {
            Poll::Ready(result) => Poll::Ready(result.map(Some)),
            Poll::Pending if until.is_some_and(|until| Instant::now() >= until) => {
                Poll::Ready(Ok(None))
            }
            Poll::Pending => Poll::Pending,
        });
        let wait = Wait { memory: true, ..Wait::new(rank, &world) };
        wait::complete(py, &wait, operation)?.ok_or_else(|| {
            let (name, seconds) = (variable.variable.name(), self.timeout.unwrap_or_default());
            PyTimeoutError::new_err(format!(
                "the shared variable `{name}` was not free within {} s",
                seconds.as_secs_f64()
            ))
        })
    }

    /// Makes the array.
    fn show(
        &self,
        py: Python<'_>,
        rank: &Rank,
        variable: &Variable,
        (start, length): (NonNull<u8>, usize),
    ) -> PyResult<Shown> {
        static NDARRAY: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        // The name keeps the variable, and so the bytes in their place.
        let keeper = Box::new(self.name.another(rank)?);
        let contents = Memory::new(keeper, start, length, self.writes)?;
        let shape = PyTuple::new(py, variable.part.shape())?;
        let ndarray = NDARRAY.import(py, "numpy", "ndarray")?;
        let array = ndarray.call1((shape, &self.dtype, Py::new(py, contents)?))?;
        let switch = array.getattr("setflags")?.unbind();
        Ok(Shown { array: array.unbind(), switch })
    }
}

#[pymethods]
impl Access {
    fn __enter__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let rank = rank::here()?;
        let variable = rank.variable(self.name.0)?;
        let mut guard = self.wait(py, &rank, &variable)?;
        let shown = match self.shown.get(py) {
            Some(shown) => {
                if self.writes {
                    shown.switch.call1(py, (true,))?;
                }
                shown
            }
            None => {
                let place = guard.place();
                self.shown.get_or_try_init(py, || self.show(py, &rank, &variable, place))?
            }
        };
        *variable.held.borrow_mut() = Some(guard);
        Ok(shown.array.clone_ref(py))
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, PyTuple>) -> PyResult<bool> {
        if let Some(shown) = self.shown.get(py).filter(|_| self.writes) {
            shown.switch.call1(py, (false,))?;
        }
        let held = rank::here()?.variable(self.name.0)?.held.take();
        drop(held);
        Ok(false)
    }
}
