//! Python arrays as bytes: arrays that can be sent, and arrays that can be received into.
//!
//! Anything with a buffer is an array: numpy's, `array.array`, `bytes`, `memoryview`. It must be
//! contiguous in memory in C order (last index fastest). Another layout would need a copy that the
//! program has not asked for, and for a receive a second one back. Such an array is an error that
//! says what to write instead.
//!
//! A [`PythonArray`] holds the buffer: until it is dropped Python neither frees nor moves the
//! memory. It cannot be prevented that Python writes to the memory meanwhile, on another thread or
//! between the start and the end of a request. Then bytes are mixed, as with numpy's own functions,
//! which let other threads run too.

use std::ptr::NonNull;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::element::ElementKind;
use crate::gate;

/// Memory of a Python object.
#[derive(Debug)]
pub(crate) struct PythonArray {
    /// `Some` until this is dropped.
    buffer: Option<PyUntypedBuffer>,
    start: NonNull<u8>,
    length: usize,
    is_writable: bool,
}

// SAFETY: the memory is pinned by the buffer, which attaches itself to the interpreter to be
// dropped; no other part of it is tied to a thread.
unsafe impl Send for PythonArray {}

impl PythonArray {
    /// The memory of an object, for reading. `role` is the parameter's name, for errors.
    ///
    /// # Errors
    /// It has no buffer, holds references to objects, or is not contiguous.
    pub(crate) fn to_read(object: &Bound<'_, PyAny>, role: &str) -> PyResult<PythonArray> {
        let (buffer, is_constant) = match PyUntypedBuffer::get(object) {
            Ok(buffer) => (buffer, false),
            Err(error) => match without_dimensions(object) {
                Some(found) => found,
                None => return Err(refuse(object, role, &error)),
            },
        };
        if ElementKind::holds_references(buffer.format()) {
            return Err(PyTypeError::new_err(format!(
                "{role}: an array of Python objects holds addresses, which mean nothing to another \
                 process: use send_object, or another dtype"
            )));
        }
        if !buffer.is_c_contiguous() {
            let order = match buffer.is_fortran_contiguous() {
                true => "is in Fortran order",
                false => "is not contiguous",
            };
            return Err(PyValueError::new_err(format!(
                "{role}: the array {order}, and arrays are not copied behind your back: give \
                 numpy.ascontiguousarray(it)"
            )));
        }
        let length = buffer.len_bytes();
        let start = NonNull::new(buffer.buf_ptr().cast()).filter(|_| length > 0);
        let start = start.unwrap_or(NonNull::dangling());
        let is_writable = !buffer.readonly() && !is_constant;
        Ok(PythonArray { buffer: Some(buffer), start, length, is_writable })
    }

    /// The memory of an object, for writing.
    ///
    /// # Errors
    /// As [`PythonArray::to_read`], or it is read-only.
    pub(crate) fn to_write(object: &Bound<'_, PyAny>, role: &str) -> PyResult<PythonArray> {
        let array = PythonArray::to_read(object, role)?;
        if array.is_writable {
            return Ok(array);
        }
        Err(PyValueError::new_err(format!(
            "{role}: the array is read-only, and something is to be stored in it: give one that \
             can be written, such as numpy.empty_like(it)"
        )))
    }

    fn buffer(&self) -> &PyUntypedBuffer {
        self.buffer.as_ref().expect("it is there until it is dropped")
    }

    /// Whether it may be written.
    pub(crate) fn is_writable(&self) -> bool {
        self.is_writable
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `buffer` guarantees `length` initialised bytes at `start`, and pins them as long
        // as it lives; see above for who else may write them.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }

    /// Its bytes, for writing. It is writable, as every result of [`PythonArray::to_write`].
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        assert!(self.is_writable, "an array is written that was taken to be read");
        // SAFETY: as for `bytes`, and the buffer is writable.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }

    /// The length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// The number of rows: its first extent.
    pub(crate) fn rows(&self) -> usize {
        self.buffer().shape().first().copied().unwrap_or(1)
    }

    /// Size of an element, bytes.
    pub(crate) fn element_bytes(&self) -> usize {
        self.buffer().item_size().max(1)
    }

    /// The type of its elements, for code that computes with them.
    ///
    /// # Errors
    /// It is not a type that can be computed with.
    pub(crate) fn element(&self) -> PyResult<ElementKind> {
        ElementKind::of(self.buffer().format(), self.buffer().item_size())
    }
}

impl Drop for PythonArray {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            gate::later(buffer);
        }
    }
}

/// The memory of an array without dimensions, which PyO3 rejects, through a view with one
/// dimension; and whether writing is forbidden: the view of a numpy scalar is a copy.
fn without_dimensions(object: &Bound<'_, PyAny>) -> Option<(PyUntypedBuffer, bool)> {
    let dimensions: usize = object.getattr("ndim").ok()?.extract().ok()?;
    let view = object.call_method1("reshape", (1,)).ok().filter(|_| dimensions == 0)?;
    let is_writable = object.getattr("flags").ok()?.getattr("writeable").ok()?.is_truthy().ok()?;
    Some((PyUntypedBuffer::get(&view).ok()?, !is_writable))
}

/// Why an object's memory cannot be used.
fn refuse(object: &Bound<'_, PyAny>, role: &str, error: &PyErr) -> PyErr {
    let kind = object.get_type();
    let kind = kind.name().map(|name| name.to_string()).unwrap_or_default();
    if error.is_instance_of::<PyTypeError>(object.py()) {
        return PyTypeError::new_err(format!(
            "{role}: {kind} is not an array: give numpy.asarray(it), or use send_object for other \
             objects"
        ));
    }
    PyTypeError::new_err(format!(
        "{role}: {kind} does not give its memory ({}): give a view of plain numbers, such as \
         it.view('i8')",
        error.value(object.py())
    ))
}
