//! Numpy arrays that show a shared variable, and the switch of each: whether it is writable.
//!
//! ```text
//!   pool of an access ──► array ──► memoryview ──► Memory (names the variable)
//!        |                  ▲
//!        |                  └── a program's name, or a view: then it is not handed out again
//!        └── switch: one bit of the array
//! ```
//!
//! An array is made once and handed out again if nothing else refers to it: code that kept an array
//! from an earlier block must not find it writable in a later one. The name of a `with` in a loop
//! keeps the last array, so two are used in turn. An array whose shape or dtype was changed in
//! place is not handed out again either.
//!
//! The switch is the bit that `flags.writeable` shows. numpy's own method for it asks the base of
//! the array for its memory each time, and takes longer than all the rest of a block together. The
//! beginning of an array, up to its flags, is part of numpy's binary interface: modules compiled
//! against any numpy since 1.7 write to it (`PyArray_ENABLEFLAGS` of `ndarraytypes.h` is inlined
//! into them). The first array checks with numpy that this layout holds; if it does not, numpy's
//! method is called instead, and each block gets a new array.

use std::ffi::{c_char, c_int};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTuple, PyType};

/// The beginning of an array: `PyArrayObject_fields` in numpy's `ndarraytypes.h`.
#[repr(C)]
struct Beginning {
    object: ffi::PyObject,
    data: *mut c_char,
    dimensions: c_int,
    shape: *mut isize,
    strides: *mut isize,
    base: *mut ffi::PyObject,
    element: *mut ffi::PyObject,
    flags: c_int,
}

/// `NPY_ARRAY_WRITEABLE`.
const WRITEABLE: c_int = 0x0400;

/// Whether arrays begin like [`Beginning`].
static IS_KNOWN: PyOnceLock<bool> = PyOnceLock::new();

/// An array that this module has made.
pub(crate) struct ShownArray {
    array: Py<PyAny>,
    /// Its form when it was made; `None`: the form cannot be read.
    made: Option<ArrayForm>,
}

/// The properties of an array that programs can change in place.
#[derive(PartialEq, Eq)]
struct ArrayForm {
    data: *mut c_char,
    element: *mut ffi::PyObject,
    /// Shape and stride of each dimension.
    extents: Box<[(isize, isize)]>,
}

// SAFETY: addresses that are only compared.
unsafe impl Send for ArrayForm {}

// SAFETY: as above.
unsafe impl Sync for ArrayForm {}

impl ShownArray {
    /// An array of a shape and a dtype that shows the memory of `contents`, and is writable if that
    /// memory is.
    ///
    /// # Errors
    /// numpy's.
    pub(crate) fn new(
        shape: &Bound<'_, PyTuple>,
        dtype: &Py<PyAny>,
        contents: Bound<'_, PyAny>,
    ) -> PyResult<ShownArray> {
        static NDARRAY: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        let py = shape.py();
        let ndarray = NDARRAY.import(py, "numpy", "ndarray")?;
        let array = ndarray.call1((shape, dtype, contents))?;
        let is_known = *IS_KNOWN.get_or_try_init(py, || is_known(ndarray))?;
        let made = is_known.then(|| {
            let begins = beginning(&array);
            let extents = (0..begins.dimensions as usize).map(|at| begins.extent(at));
            ArrayForm { data: begins.data, element: begins.element, extents: extents.collect() }
        });
        Ok(ShownArray { array: array.unbind(), made })
    }

    /// The array itself.
    #[inline]
    pub(crate) fn array(&self, py: Python<'_>) -> Py<PyAny> {
        self.array.clone_ref(py)
    }

    /// Sets whether it is writable; not for an array that shows read-only memory.
    ///
    /// # Errors
    /// None is expected.
    #[inline]
    pub(crate) fn switch(&self, py: Python<'_>, is_writable: bool) -> PyResult<()> {
        if self.made.is_none() {
            return self.array.call_method1(py, "setflags", (is_writable,)).map(drop);
        }
        let at = std::mem::offset_of!(Beginning, flags);
        let flags: *mut c_int = self.array.as_ptr().cast::<u8>().wrapping_add(at).cast();
        // SAFETY: the array begins like `Beginning` (`is_known`), and lives. Flags are read and
        // written only by the thread that holds the interpreter, as this one does.
        let now = unsafe { flags.read() };
        let now = if is_writable { now | WRITEABLE } else { now & !WRITEABLE };
        // SAFETY: as above.
        unsafe { flags.write(now) };
        Ok(())
    }

    /// Whether nothing else refers to it: no name of the program, and no view.
    #[inline]
    fn is_alone(&self, _py: Python<'_>) -> bool {
        // SAFETY: it lives, and the thread that holds the interpreter may read the count.
        let references = unsafe { ffi::Py_REFCNT(self.array.as_ptr()) };
        references == 1
    }

    /// Whether shape and dtype are unchanged since it was made.
    #[inline]
    fn is_as_made(&self, py: Python<'_>) -> bool {
        let Some(made) = &self.made else { return false };
        let begins = beginning(self.array.bind(py));
        let mut extents = made.extents.iter().enumerate();
        begins.data == made.data
            && begins.element == made.element
            && begins.dimensions as usize == made.extents.len()
            && extents.all(|(at, made)| begins.extent(at) == *made)
    }
}

impl Beginning {
    /// Shape and stride of an existing dimension.
    #[inline]
    fn extent(&self, at: usize) -> (isize, isize) {
        let (length, stride) = (self.shape.wrapping_add(at), self.strides.wrapping_add(at));
        // SAFETY: numpy keeps as many of these as there are dimensions, until the array is changed.
        let length = unsafe { length.read() };
        // SAFETY: as above.
        let stride = unsafe { stride.read() };
        (length, stride)
    }
}

/// The beginning of an array of numpy's own type, which is as long as [`is_known`] found.
#[inline]
fn beginning(array: &Bound<'_, PyAny>) -> Beginning {
    // SAFETY: objects of that type are at least that long and live as long as they are referenced;
    // words of any value are addresses and numbers, which only the thread that holds the
    // interpreter changes, as this one does.
    unsafe { array.as_ptr().cast::<Beginning>().read() }
}

/// Whether arrays of numpy's own type begin like [`Beginning`]: checks one against numpy's answers.
fn is_known(ndarray: &Bound<'_, PyType>) -> PyResult<bool> {
    let length: usize = ndarray.getattr("__basicsize__")?.extract()?;
    if length < size_of::<Beginning>() {
        return Ok(false);
    }
    let array = ndarray.call1(((2, 3), "i4"))?;
    let said = array.getattr("__array_interface__")?.get_item("data")?.get_item(0)?;
    let (data, element): (usize, _) = (said.extract()?, array.getattr("dtype")?);
    let begins = beginning(&array);
    let mut agrees = begins.data.addr() == data
        && begins.dimensions == 2
        && [begins.extent(0), begins.extent(1)] == [(2, 12), (3, 4)]
        && begins.element == element.as_ptr();
    for (is_writable, bit) in [(false, 0), (true, WRITEABLE)] {
        array.call_method1("setflags", (is_writable,))?;
        let said: c_int = array.getattr("flags")?.getattr("num")?.extract()?;
        let found = beginning(&array).flags;
        agrees &= found == said && found & WRITEABLE == bit;
    }
    Ok(agrees)
}

/// The arrays of one access. One at a time is handed out.
#[derive(Default)]
pub(crate) struct Pool {
    arrays: Vec<ShownArray>,
    /// The index of the array that was handed out last.
    last: usize,
}

/// The number of arrays used in turn: one in a block, and one that a name keeps from the last
/// block.
const ARRAYS_MOST: usize = 2;

impl Pool {
    /// The array that was handed out last.
    pub(crate) fn last(&self) -> Option<&ShownArray> {
        self.arrays.get(self.last)
    }

    /// Finds an array that can be handed out: nothing else refers to it, or it is only read.
    #[inline]
    pub(crate) fn find(&mut self, py: Python<'_>, writes: bool) -> Option<&ShownArray> {
        let fits = |shown: &ShownArray| (!writes || shown.is_alone(py)) && shown.is_as_made(py);
        self.last = self.arrays.iter().position(fits)?;
        self.arrays.get(self.last)
    }

    /// Adds a new array, to be handed out. If there are enough, it replaces one that the program
    /// has kept; that one is returned, for the caller to drop when nothing is borrowed.
    pub(crate) fn add(&mut self, shown: ShownArray) -> Option<ShownArray> {
        if self.arrays.len() < ARRAYS_MOST {
            self.last = self.arrays.len();
            self.arrays.push(shown);
            return None;
        }
        self.last = (self.last + 1) % ARRAYS_MOST;
        Some(std::mem::replace(&mut self.arrays[self.last], shown))
    }
}
