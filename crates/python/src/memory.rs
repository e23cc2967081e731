//! Memory of a job that numpy exposes as an array, without a copy.
//!
//! ```text
//!   numpy array ──► memoryview ──► Memory ──► a buffer of World.alloc, or the name of a variable
//! ```
//!
//! Each arrow keeps its target alive. So a buffer is freed when the last array that uses it is
//! gone, and exists even after the rank has left its job; likewise a shared variable.

use std::any::Any;
use std::ffi::c_int;
use std::ptr::NonNull;

use hikyaku::SharedBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;

/// Bytes that an owner keeps in place; the base of a numpy array.
#[pyclass(module = "hikyaku._native", frozen)]
pub(crate) struct Memory {
    _keeper: Box<dyn Any + Send + Sync>,
    start: NonNull<u8>,
    length: isize,
    is_writable: bool,
}

// SAFETY: the keeper is Send and Sync, and `start` is only handed to Python, whose buffers may be
// used on any thread.
unsafe impl Send for Memory {}

// SAFETY: as above; a shared reference gives access to nothing else.
unsafe impl Sync for Memory {}

impl Memory {
    /// `length` bytes that are mapped from `start` on as long as `keeper` lives, and to which no
    /// Rust reference is made meanwhile.
    ///
    /// # Errors
    /// The length exceeds Python's limit.
    pub(crate) fn new(
        keeper: Box<dyn Any + Send + Sync>,
        start: NonNull<u8>,
        length: usize,
        is_writable: bool,
    ) -> PyResult<Memory> {
        let length = isize::try_from(length)
            .map_err(|_| PyValueError::new_err("the array is longer than can be counted"))?;
        Ok(Memory { _keeper: keeper, start, length, is_writable })
    }

    /// A buffer that the other ranks of the node access with one copy.
    pub(crate) fn of_buffer(mut buffer: SharedBuffer<u8>) -> PyResult<Memory> {
        let (start, length) = (NonNull::from(&mut *buffer).cast(), buffer.len());
        Memory::new(Box::new(buffer), start, length, true)
    }
}

#[pymethods]
impl Memory {
    /// Exports the memory as bytes.
    ///
    /// # Safety
    /// `view` is a buffer to be filled in, as Python passes it.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let Memory { start, length, is_writable, .. } = *slf.get();
        let (start, read_only) = (start.as_ptr().cast(), c_int::from(!is_writable));
        // SAFETY: Python passes a view to be filled in. It gets a reference to this object, whose
        // keeper keeps the bytes in place; this crate has no reference to them.
        let answer =
            unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, length, read_only, flags) };
        match answer {
            0 => Ok(()),
            _ => Err(PyErr::fetch(slf.py())),
        }
    }
}
