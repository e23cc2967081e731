//! Shared variables: arrays bound to a lock, whose contents are the newest for the lock's holder.
//!
//! ```text
//!                                            the rank's table:
//!   with x.write() as a:     Shared, Access ──► Showing { arrays } ──► VariablePart { guard }
//!       a[0] += 1                                   │                      ▲
//!                                                   └─ array ──► Memory ───┘ (keeps the entry)
//! ```
//!
//! The arrays of an access are made once and handed out again (`shown.rs`): they show this node's
//! copy, which has a fixed address. Outside the block the array of a write access is switched to
//! read-only, so that writing through it raises; entering the block costs no allocation.

use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hikyaku::shared::{self, ReadGuard, WriteGuard};
use pyo3::exceptions::{PyTimeoutError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::error::raise;
use crate::gate::{GateGuard, Gated};
use crate::memory::Memory;
use crate::number;
use crate::rank::{self, PythonComm, PythonRank, forget};
use crate::shown::{Pool, ShownArray};
use crate::wait::{self, WaitInfo};

/// A part of a shared variable in the rank's table.
pub(crate) struct VariablePart {
    variable: Gated<shared::Shared<u8>>,
    part: Gated<shared::Part<u8>>,
    held: RefCell<Option<Gated<Guard>>>,
    /// The number of Python objects that name it.
    pub(crate) names: Cell<usize>,
}

/// The guard of a held part.
enum Guard {
    Read(ReadGuard<u8>),
    Write(WriteGuard<u8>),
}

impl Guard {
    /// The address of the elements, and their length in bytes.
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

impl VariablePart {
    /// Acquires it at once, if the fast path can.
    #[inline]
    fn free(&self, writes: bool, inside: &GateGuard) -> PyResult<Option<Guard>> {
        let part = self.part.get(inside);
        Ok(match writes {
            true => part.write_free().map_err(raise)?.map(Guard::Write),
            false => part.read_free().map_err(raise)?.map(Guard::Read),
        })
    }
}

impl VariablePart {
    fn name(&self) -> String {
        self.variable.get(&GateGuard::enter()).name().to_owned()
    }

    fn shape(&self) -> Vec<u64> {
        self.part.get(&GateGuard::enter()).shape().to_vec()
    }
}

/// The arrays that show a part of a shared variable to programs, in the rank's table.
pub(crate) struct Showing {
    variable: Rc<VariablePart>,
    name: EntryName,
    dtype: Py<PyAny>,
    written: RefCell<Pool>,
    read: RefCell<Pool>,
}

impl Showing {
    fn pool(&self, writes: bool) -> &RefCell<Pool> {
        if writes { &self.written } else { &self.read }
    }

    /// An array to be handed out, writable if `writes`.
    fn array(&self, py: Python<'_>, writes: bool, guard: &mut Gated<Guard>) -> PyResult<Py<PyAny>> {
        let pool = self.pool(writes);
        let mut shown = pool.borrow_mut();
        if let Some(shown) = shown.find(py, writes) {
            if writes {
                shown.switch(py, true)?;
            }
            return Ok(shown.array(py));
        }
        // Making an array runs Python code, which may drop any other array.
        drop(shown);
        let place = guard.get_mut(&GateGuard::enter()).place();
        let shown = self.show(py, writes, place)?;
        let array = shown.array(py);
        let replaced = pool.borrow_mut().add(shown);
        drop(replaced);
        Ok(array)
    }

    /// Makes an array.
    fn show(
        &self,
        py: Python<'_>,
        writes: bool,
        (start, length): (NonNull<u8>, usize),
    ) -> PyResult<ShownArray> {
        // The name keeps the variable, and so the bytes in place.
        let keeper = Box::new(self.name.another(&self.variable));
        let contents = Bound::new(py, Memory::new(keeper, start, length, writes)?)?;
        let shape = PyTuple::new(py, self.variable.shape())?;
        ShownArray::new(&shape, &self.dtype, contents.into_any())
    }
}

/// A reference to an entry in the rank's table, which exists as long as it has one.
pub(crate) struct EntryName(u64);

impl EntryName {
    /// Another reference to the same variable.
    fn another(&self, variable: &VariablePart) -> EntryName {
        variable.names.set(variable.names.get() + 1);
        EntryName(self.0)
    }
}

impl Drop for EntryName {
    fn drop(&mut self) {
        forget(self.0);
    }
}

/// An array bound to a lock, made by World.shared. Or a part of one, with its own lock.
///
/// `with x.write() as a:` gives a numpy array that may be written, `with x.read() as a:` one that
/// may be read, beside other readers. Its contents are the newest when the block begins. After the
/// block, writing through `a` raises ValueError; arrays derived from it inside the block (slices,
/// reshapes, other views) stay writable, so do not keep them. The contents read outside a block
/// are unspecified.
#[pyclass(module = "hikyaku", frozen)]
pub(crate) struct Shared {
    /// The name of the arrays that show it.
    name: Arc<EntryName>,
    /// The type of its elements.
    #[pyo3(get)]
    dtype: Py<PyAny>,
    writer: Py<Access>,
    reader: Py<Access>,
}

impl Shared {
    /// A part of a variable.
    fn new(
        py: Python<'_>,
        rank: &PythonRank,
        variable: Gated<shared::Shared<u8>>,
        part: u64,
        dtype: Py<PyAny>,
    ) -> PyResult<Shared> {
        let part = variable.get(&GateGuard::enter()).part(part).map(Gated::new).map_err(raise)?;
        let variable =
            VariablePart { variable, part, held: RefCell::default(), names: Cell::new(1) };
        let variable = Rc::new(variable);
        let name = EntryName(rank.add_variable(Rc::clone(&variable)));
        let (written, read) = (RefCell::default(), RefCell::default());
        let showing = Showing { variable, name, dtype: dtype.clone_ref(py), written, read };
        let name = Arc::new(EntryName(rank.add_showing(showing)));
        let access = |writes| Access { name: Arc::clone(&name), writes, timeout: None };
        let (writer, reader) = (Py::new(py, access(true))?, Py::new(py, access(false))?);
        Ok(Shared { name, dtype, writer, reader })
    }

    /// Makes a variable. Every rank has arrived here.
    pub(crate) fn make(
        py: Python<'_>,
        rank: &PythonRank,
        world: &PythonComm,
        (name, shape): (&str, &[u64]),
        (element, dtype): (shared::Element, Py<PyAny>),
        options: shared::SharedOptions,
    ) -> PyResult<Shared> {
        let inside = GateGuard::enter();
        let made = world.at(&inside).shared_bytes(name, shape, element, options);
        let made = made.map(Gated::new).map_err(raise)?;
        drop(inside);
        Shared::new(py, rank, made, 0, dtype)
    }

    /// Finds a variable that this rank has made.
    pub(crate) fn named(
        rank: &PythonRank,
        world: &PythonComm,
        name: &str,
        dtype_of: &Bound<'_, PyAny>,
    ) -> PyResult<Shared> {
        let inside = GateGuard::enter();
        let found = world.at(&inside).shared_named_bytes(name).map(Gated::new).map_err(raise)?;
        let element = found.get(&inside).element().name.clone();
        drop(inside);
        let dtype = dtype_of.call1((element,))?.unbind();
        Shared::new(dtype_of.py(), rank, found, 0, dtype)
    }

    fn variable(&self) -> PyResult<Rc<VariablePart>> {
        Ok(Rc::clone(&rank::here()?.showing(self.name.0)?.variable))
    }

    fn within(&self, py: Python<'_>, writes: bool, seconds: f64) -> PyResult<Py<Access>> {
        let timeout = Duration::try_from_secs_f64(seconds).map_err(|_| {
            PyValueError::new_err("timeout: it must be a number of seconds, not negative")
        })?;
        Py::new(py, Access { name: Arc::clone(&self.name), writes, timeout: Some(timeout) })
    }
}

#[pymethods]
impl Shared {
    /// The array for writing, in a with-block: no other rank holds it meanwhile. Raises
    /// TimeoutError if it cannot be acquired within timeout seconds.
    #[pyo3(signature = (timeout=None))]
    fn write(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Py<Access>> {
        match timeout {
            None => Ok(self.writer.clone_ref(py)),
            Some(seconds) => self.within(py, true, seconds),
        }
    }

    /// The array for reading, in a with-block: others may read it meanwhile, none writes.
    #[pyo3(signature = (timeout=None))]
    fn read(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Py<Access>> {
        match timeout {
            None => Ok(self.reader.clone_ref(py)),
            Some(seconds) => self.within(py, false, seconds),
        }
    }

    /// Its name.
    #[getter]
    fn name(&self) -> PyResult<String> {
        Ok(self.variable()?.name())
    }

    /// The shape of the array in a block: of this part.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.variable()?.shape())
    }

    /// The first index of this part in the whole array.
    #[getter]
    fn origin<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let origin = self.variable()?.part.get(&GateGuard::enter()).origin().to_vec();
        PyTuple::new(py, origin)
    }

    /// The number of parts of the whole array, each with its own lock.
    #[getter]
    fn parts(&self) -> PyResult<u64> {
        Ok(self.variable()?.variable.get(&GateGuard::enter()).parts())
    }

    /// One of the parts. The whole variable is its part 0.
    fn part(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = number::part)] number: u64,
    ) -> PyResult<Shared> {
        let variable = Gated::new(self.variable()?.variable.get(&GateGuard::enter()).clone());
        Shared::new(py, &*rank::here()?, variable, number, self.dtype.clone_ref(py))
    }

    /// The rank that holds its queue in memory, or that owns it at first.
    #[getter]
    fn home(&self) -> PyResult<u32> {
        Ok(self.variable()?.part.get(&GateGuard::enter()).home())
    }

    /// The last known owner node. Sends no message.
    #[getter]
    fn owner(&self) -> PyResult<u32> {
        self.variable()?.part.get(&GateGuard::enter()).owner().map_err(raise)
    }

    /// The state of this node's copy: "wlock", "rlock", "clean" or "dirty". Sends no message.
    #[getter]
    fn state(&self) -> PyResult<String> {
        let state = self.variable()?.part.get(&GateGuard::enter()).state().map_err(raise)?;
        Ok(format!("{state:?}").to_lowercase())
    }

    /// The bytes that this rank has fetched for it from other nodes, and how often.
    #[getter]
    fn moved(&self) -> PyResult<(u64, u64)> {
        Ok(self.variable()?.variable.get(&GateGuard::enter()).moved())
    }

    /// Within a block of a recoverable variable: None, or the rank whose death damaged it, and
    /// whether its newest copy was lost too. The contents may then be in the middle of an update.
    #[getter]
    fn mark(&self) -> PyResult<Option<(u32, bool)>> {
        let variable = self.variable()?;
        let held = variable.held.borrow();
        let mark = held.as_ref().and_then(|guard| guard.get(&GateGuard::enter()).mark());
        Ok(mark.map(|mark| (mark.victim, mark.stale)))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (name, shape) = (self.name()?, self.shape(py)?);
        Ok(format!("<hikyaku.Shared '{name}': {shape} of {}>", self.dtype.bind(py)))
    }
}

/// A read or write access to a shared variable, which a with-block enters and leaves.
#[pyclass(module = "hikyaku", frozen)]
pub(crate) struct Access {
    /// The name of the arrays that show it.
    name: Arc<EntryName>,
    writes: bool,
    timeout: Option<Duration>,
}

impl Access {
    /// Waits for the variable.
    #[inline(never)]
    fn wait(
        &self,
        py: Python<'_>,
        rank: &PythonRank,
        variable: &VariablePart,
        inside: &GateGuard,
    ) -> PyResult<Guard> {
        // A time beyond what the clock can count is none.
        let until = self.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let world = rank.communicator(0)?;
        let wait = WaitInfo::new(rank, &world, inside);
        let part = variable.part.get(inside);
        let acquired = match self.writes {
            true => {
                let turn = part.ask_write().map_err(raise)?;
                wait::turn(py, &wait, turn, until)?.map(Guard::Write)
            }
            false => {
                let turn = part.ask_read().map_err(raise)?;
                wait::turn(py, &wait, turn, until)?.map(Guard::Read)
            }
        };
        acquired.ok_or_else(|| {
            let (name, seconds) = (variable.name(), self.timeout.unwrap_or_default());
            PyTimeoutError::new_err(format!(
                "the shared variable `{name}` was not free within {} s",
                seconds.as_secs_f64()
            ))
        })
    }
}

#[pymethods]
impl Access {
    fn __enter__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let rank = rank::here()?;
        let showing = rank.showing(self.name.0)?;
        let variable = &*showing.variable;
        let inside = GateGuard::enter();
        let guard = match variable.free(self.writes, &inside)? {
            Some(guard) => guard,
            None => self.wait(py, &rank, variable, &inside)?,
        };
        let mut guard = Gated::new(guard);
        drop(inside);
        let array = showing.array(py, self.writes, &mut guard)?;
        *variable.held.borrow_mut() = Some(guard);
        Ok(array)
    }

    /// Ignores the raised exception. Its parts are separate parameters, because a tuple of them
    /// would be made each time.
    #[pyo3(signature = (_kind=None, _raised=None, _traceback=None, /))]
    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: Option<&Bound<'_, PyAny>>,
        _raised: Option<&Bound<'_, PyAny>>,
        _traceback: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let showing = rank::here()?.showing(self.name.0)?;
        if self.writes {
            let written = showing.written.borrow();
            written.last().map_or(Ok(()), |shown| shown.switch(py, false))?;
        }
        let held = showing.variable.held.take();
        drop(held);
        Ok(false)
    }
}
