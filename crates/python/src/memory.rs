//! Shared memory of a job that numpy shows as an array, without a copy.
//!
//! ```text
//!   numpy array ──► memoryview ──► Memory ──► region of the rank
//! ```
//!
//! Each arrow keeps what it points to. So the memory is given back when the last array that shows
//! it has gone, and is there even after the rank has left its job.

use std::ffi::c_int;
use std::ptr::NonNull;

use hikyaku::SharedBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;

/// Memory that the other ranks of the node reach by one copy; what numpy makes an array of.
#[pyclass(module = "hikyaku._native", frozen)]
pub(crate) struct Memory {
    /// Never looked into from here: Python writes it.
    _buffer: SharedBuffer<u8>,
    start: NonNull<u8>,
    length: isize,
}

// SAFETY: the buffer is Send and Sync, and `start` is only handed to Python, whose buffers may be
// used on any thread.
unsafe impl Send for Memory {}

// SAFETY: as above; through a shared reference there is nothing but that.
unsafe impl Sync for Memory {}

impl Memory {
    /// # Errors
    /// It is longer than Python can count.
    pub(crate) fn new(mut buffer: SharedBuffer<u8>) -> PyResult<Memory> {
        let length = isize::try_from(buffer.len()).map_err(|_| {
            PyValueError::new_err("the array is longer than this machine can count")
        })?;
        let start = NonNull::from(&mut *buffer).cast();
        Ok(Memory { _buffer: buffer, start, length })
    }
}

#[pymethods]
impl Memory {
    /// Gives the memory as bytes that may be written.
    ///
    /// # Safety
    /// `view` is a buffer to be filled in, as Python passes.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let (start, length) = (slf.get().start, slf.get().length);
        // SAFETY: Python passes a view to be filled in. It gets a reference to this object, which
        // keeps the bytes where they are; nobody here has a reference to them.
        let answer = unsafe {
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start.as_ptr().cast(), length, 0, flags)
        };
        match answer {
            0 => Ok(()),
            _ => Err(PyErr::fetch(slf.py())),
        }
    }
}
