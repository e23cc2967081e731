//! Windows: memory of every rank that all ranks put into, get from and change atomically.
//!
//! A window has words, half words or bytes. Integers and floats of 8 and 4 bytes are words and half
//! words, and have atomic operations: a sum of integers is one operation, a sum of floats is a
//! compare-and-swap that is repeated until no other change intervened. All other types are bytes.
//!
//! Indices count elements of the flat array, in C order; the Python class computes them from
//! tuples.

use std::rc::Rc;

use hikyaku::Scalar;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::array::PythonArray;
use crate::element::ElementKind;
use crate::error::raise;
use crate::gate::{GateGuard, Gated};
use crate::number::{self, fit};
use crate::rank::{self, PythonComm, forget};
use crate::world::existing;

/// A window with its world.
pub(crate) struct Owned<T: Scalar> {
    /// Declared first, so that it is dropped before its world.
    window: hikyaku::Window<'static, T>,
    _world: Rc<PythonComm>,
}

impl<T: Scalar> Owned<T> {
    fn new(
        world: &Rc<PythonComm>,
        length: usize,
        inside: &GateGuard,
    ) -> Result<Owned<T>, hikyaku::Error> {
        // SAFETY: the world is behind an Rc, so it does not move, and `_world` keeps it until the
        // window has been dropped, which no caller can take out of here.
        let lasting: &'static hikyaku::World = unsafe { &*std::ptr::from_ref(world.at(inside)) };
        Ok(Owned { window: lasting.window(length)?, _world: Rc::clone(world) })
    }
}

/// A window by the size of its elements.
pub(crate) enum AnyWindow {
    Words(Owned<u64>),
    Halves(Owned<u32>),
    Bytes(Owned<u8>),
}

/// An atomic operation on one element.
#[derive(Debug, Clone, Copy)]
enum AtomicAction {
    Load,
    Swap,
    CompareSwap { expected: u64 },
    Add,
    And,
    Or,
    Xor,
}

impl AtomicAction {
    /// The operation of a name, with the value that it compares with.
    fn of(name: &str, expected: u64) -> PyResult<AtomicAction> {
        Ok(match name {
            "load" => AtomicAction::Load,
            "swap" => AtomicAction::Swap,
            "compare_swap" => AtomicAction::CompareSwap { expected },
            "add" => AtomicAction::Add,
            "and" => AtomicAction::And,
            "or" => AtomicAction::Or,
            "xor" => AtomicAction::Xor,
            _ => return Err(PyValueError::new_err(format!("there is no operation '{name}'"))),
        })
    }
}

/// Calls the method of a window for an action.
macro_rules! act {
    ($window:expr, $rank:ident, $index:ident, $action:ident, $bits:ident as $word:ty) => {{
        let value = $bits as $word;
        let before = match $action {
            AtomicAction::Load => $window.load($rank, $index),
            AtomicAction::Swap => $window.swap($rank, $index, value),
            AtomicAction::CompareSwap { expected } => {
                $window.compare_swap($rank, $index, expected as $word, value)
            }
            AtomicAction::Add => $window.fetch_add($rank, $index, value),
            AtomicAction::And => $window.fetch_and($rank, $index, value),
            AtomicAction::Or => $window.fetch_or($rank, $index, value),
            AtomicAction::Xor => $window.fetch_xor($rank, $index, value),
        };
        before.map(u64::from)
    }};
}

impl AnyWindow {
    fn put(&self, rank: u32, index: usize, data: &[u8], element: usize) -> PyResult<()> {
        match self {
            AnyWindow::Words(owned) => owned.window.put(rank, index, aligned(data)?),
            AnyWindow::Halves(owned) => owned.window.put(rank, index, aligned(data)?),
            AnyWindow::Bytes(owned) => owned.window.put(rank, scaled(index, element)?, data),
        }
        .map_err(raise)
    }

    fn get(&self, rank: u32, index: usize, into: &mut [u8], element: usize) -> PyResult<()> {
        match self {
            AnyWindow::Words(owned) => owned.window.get(rank, index, aligned_mut(into)?),
            AnyWindow::Halves(owned) => owned.window.get(rank, index, aligned_mut(into)?),
            AnyWindow::Bytes(owned) => owned.window.get(rank, scaled(index, element)?, into),
        }
        .map_err(raise)
    }

    /// The length of a rank's part, in elements, or in bytes for a window of bytes.
    fn len_of(&self, rank: u32) -> Result<usize, hikyaku::Error> {
        match self {
            AnyWindow::Words(owned) => owned.window.len_of(rank),
            AnyWindow::Halves(owned) => owned.window.len_of(rank),
            AnyWindow::Bytes(owned) => owned.window.len_of(rank),
        }
    }

    /// Changes the bits of one element atomically. Returns its bits before.
    fn fetch(&self, rank: u32, index: usize, action: AtomicAction, bits: u64) -> PyResult<u64> {
        match self {
            AnyWindow::Words(owned) => act!(owned.window, rank, index, action, bits as u64),
            AnyWindow::Halves(owned) => act!(owned.window, rank, index, action, bits as u32),
            AnyWindow::Bytes(_) => return Err(no_atomics()),
        }
        .map_err(raise)
    }

    /// Adds to a float, repeating until no other change intervened. Returns its bits before.
    fn add(&self, rank: u32, index: usize, sum: impl Fn(u64) -> u64) -> PyResult<u64> {
        let mut expected = self.fetch(rank, index, AtomicAction::Load, 0)?;
        loop {
            let swap = AtomicAction::CompareSwap { expected };
            let found = self.fetch(rank, index, swap, sum(expected))?;
            if found == expected {
                return Ok(found);
            }
            expected = found;
        }
    }
}

fn scaled(index: usize, element: usize) -> PyResult<usize> {
    let answer = index.checked_mul(element);
    answer.ok_or_else(|| PyValueError::new_err(format!("there is no element {index}")))
}

fn aligned<T: Scalar>(bytes: &[u8]) -> PyResult<&[T]> {
    bytemuck::try_cast_slice(bytes).map_err(|_| not_aligned())
}

fn aligned_mut<T: Scalar>(bytes: &mut [u8]) -> PyResult<&mut [T]> {
    bytemuck::try_cast_slice_mut(bytes).map_err(|_| not_aligned())
}

fn not_aligned() -> PyErr {
    PyValueError::new_err("the array is not aligned to its elements, or not whole ones")
}

fn no_atomics() -> PyErr {
    PyTypeError::new_err(
        "only integers and floats of 4 and 8 bytes can be changed atomically: give the window \
         such a dtype",
    )
}

/// Memory of every rank: the base of the Python class Window.
#[pyclass(module = "hikyaku._native", frozen, subclass)]
pub(crate) struct Window {
    id: u64,
    /// The type of its elements, if they have atomic operations.
    element: Option<ElementKind>,
    element_bytes: usize,
}

impl Window {
    /// Makes a window of `count` elements like those of `sample`. Every rank has arrived here.
    pub(crate) fn open(
        rank: &rank::PythonRank,
        world: &Rc<PythonComm>,
        count: usize,
        sample: &PythonArray,
    ) -> PyResult<Window> {
        let element_bytes = sample.element_bytes();
        let element = sample.element().ok().filter(|element| element.is_atomic());
        let inside = GateGuard::enter();
        let window = match (element, element_bytes) {
            (Some(_), 8) => Owned::new(world, count, &inside).map(AnyWindow::Words),
            (Some(_), _) => Owned::new(world, count, &inside).map(AnyWindow::Halves),
            (None, _) => {
                let bytes = count.saturating_mul(element_bytes);
                Owned::new(world, bytes, &inside).map(AnyWindow::Bytes)
            }
        };
        let id = rank.add_window(window.map_err(raise)?);
        Ok(Window { id, element, element_bytes })
    }

    fn window(&self, target: i64) -> PyResult<(Rc<Gated<AnyWindow>>, u32)> {
        let rank = rank::here()?;
        let target = existing(&*rank.communicator(0)?, target)?;
        Ok((rank.window(self.id)?, target))
    }

    fn element(&self) -> PyResult<ElementKind> {
        self.element.ok_or_else(no_atomics)
    }
}

#[pymethods]
impl Window {
    fn _put(
        &self,
        #[pyo3(from_py_with = number::rank)] rank: i64,
        data: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = number::index)] index: usize,
    ) -> PyResult<()> {
        let (window, rank) = self.window(rank)?;
        let (data, inside) = (PythonArray::to_read(data, "data")?, GateGuard::enter());
        window.get(&inside).put(rank, index, data.bytes(), self.element_bytes)
    }

    fn _get(
        &self,
        #[pyo3(from_py_with = number::rank)] rank: i64,
        into: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = number::index)] index: usize,
    ) -> PyResult<()> {
        let (window, rank) = self.window(rank)?;
        let mut into = PythonArray::to_write(into, "into")?;
        let inside = GateGuard::enter();
        window.get(&inside).get(rank, index, into.bytes_mut(), self.element_bytes)
    }

    /// The number of elements of a rank's part.
    fn _size_of(&self, #[pyo3(from_py_with = number::rank)] rank: i64) -> PyResult<usize> {
        let (window, rank) = self.window(rank)?;
        let inside = GateGuard::enter();
        let window = window.get(&inside);
        let length = window.len_of(rank).map_err(raise)?;
        let is_bytes = matches!(window, AnyWindow::Bytes(_));
        Ok(if is_bytes { length / self.element_bytes } else { length })
    }

    /// An atomic operation on one element, by name. Returns the old value.
    #[pyo3(signature = (name, rank, index, value, expected=None))]
    fn _fetch<'py>(
        &self,
        name: &str,
        #[pyo3(from_py_with = number::rank)] rank: i64,
        #[pyo3(from_py_with = number::index)] index: usize,
        value: &Bound<'py, PyAny>,
        expected: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let element = self.element()?;
        let bits = element.bits_of(value)?;
        let expected = expected.map_or(Ok(0), |expected| element.bits_of(expected))?;
        let action = AtomicAction::of(name, expected)?;
        let (window, rank) = self.window(rank)?;
        let inside = GateGuard::enter();
        let window = window.get(&inside);
        let before = match (action, element) {
            (AtomicAction::Add, ElementKind::F32 | ElementKind::F64) => {
                window.add(rank, index, |old| element.sum(old, bits))?
            }
            (
                AtomicAction::And | AtomicAction::Or | AtomicAction::Xor,
                ElementKind::F32 | ElementKind::F64,
            ) => {
                return Err(PyTypeError::new_err(format!("'{name}' is not defined for floats")));
            }
            _ => window.fetch(rank, index, action, bits)?,
        };
        drop(inside);
        element.value_of(before, value.py())
    }

    /// Adds the elements of an array to those from an index on, each atomically.
    fn _add(
        &self,
        #[pyo3(from_py_with = number::rank)] rank: i64,
        data: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = number::index)] index: usize,
    ) -> PyResult<()> {
        let element = self.element()?;
        let (window, rank) = self.window(rank)?;
        let data = PythonArray::to_read(data, "data")?;
        let inside = GateGuard::enter();
        let window = window.get(&inside);
        // If any element is out of bounds, none is changed: check the last one first.
        let count = data.len() / self.element_bytes;
        if count > 0 {
            let last = index.saturating_add(count - 1);
            window.fetch(rank, last, AtomicAction::Load, 0)?;
        }
        for (at, bytes) in (index..).zip(data.bytes().chunks_exact(self.element_bytes)) {
            let bits = match self.element_bytes {
                8 => bytemuck::pod_read_unaligned(bytes),
                _ => u64::from(bytemuck::pod_read_unaligned::<u32>(bytes)),
            };
            match element {
                ElementKind::F32 | ElementKind::F64 => {
                    window.add(rank, at, |old| element.sum(old, bits))?;
                }
                _ => _ = window.fetch(rank, at, AtomicAction::Add, bits)?,
            }
        }
        Ok(())
    }

    /// Release this rank's part: from now on the others' calls on it are errors. Not a collective:
    /// use a barrier first if others may still use the window.
    fn close(&self) -> PyResult<()> {
        rank::here()?.remove_window(self.id);
        Ok(())
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        forget(self.id);
    }
}

impl ElementKind {
    /// Whether elements can be changed atomically.
    fn is_atomic(self) -> bool {
        use ElementKind::{F32, F64, I32, I64, U32, U64};
        matches!(self, I32 | U32 | F32 | I64 | U64 | F64)
    }

    /// The bits of a Python number as an element.
    ///
    /// # Errors
    /// It is not a number, or not in the element's range.
    fn bits_of(self, value: &Bound<'_, PyAny>) -> PyResult<u64> {
        Ok(match self {
            ElementKind::I32 => u64::from(fit::<i32>(value, "value", "elements are i4")? as u32),
            ElementKind::U32 => u64::from(fit::<u32>(value, "value", "elements are u4")?),
            ElementKind::F32 => u64::from((value.extract::<f64>()? as f32).to_bits()),
            ElementKind::I64 => fit::<i64>(value, "value", "elements are i8")? as u64,
            ElementKind::U64 => fit(value, "value", "elements are u8")?,
            ElementKind::F64 => value.extract::<f64>()?.to_bits(),
            _ => return Err(no_atomics()),
        })
    }

    /// The Python number of an element's bits.
    fn value_of(self, bits: u64, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let half = bits as u32;
        match self {
            ElementKind::I32 => (half as i32).into_bound_py_any(py),
            ElementKind::U32 => half.into_bound_py_any(py),
            ElementKind::F32 => f64::from(f32::from_bits(half)).into_bound_py_any(py),
            ElementKind::I64 => (bits as i64).into_bound_py_any(py),
            ElementKind::U64 => bits.into_bound_py_any(py),
            ElementKind::F64 => f64::from_bits(bits).into_bound_py_any(py),
            _ => Err(no_atomics()),
        }
    }

    /// The bits of the sum of two floats.
    fn sum(self, left: u64, right: u64) -> u64 {
        match self {
            ElementKind::F32 => {
                let sum = f32::from_bits(left as u32) + f32::from_bits(right as u32);
                u64::from(sum.to_bits())
            }
            _ => (f64::from_bits(left) + f64::from_bits(right)).to_bits(),
        }
    }
}
