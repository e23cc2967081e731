//! Arrays of numpy that show a shared variable, and the switch of each: whether it may be written.
//!
//! ```text
//!   pool of an access ──► array ──► memoryview ──► Memory (names the variable)
//!        |                  ▲
//!        |                  └── a program's name, or a view: then it is not handed out again
//!        └── switch: one bit of the array
//! ```
//!
//! An array is made once and handed out again if nobody else has it any more: whoever has kept one
//! from an earlier block does not find it writable in a later one. The name of a `with` in a loop
//! keeps the last one, so that two take turns. One that was given another shape or dtype in place
//! is not handed out again either.
//!
//! The switch is the bit that `flags.writeable` shows. numpy's own method for it asks the base of
//! the array for its memory each time, and takes longer than all the rest of a block together. The
//! beginning of an array, up to its flags, is a part of numpy's binary interface that modules
//! compiled against any numpy since 1.7 write to (`PyArray_ENABLEFLAGS` of `ndarraytypes.h` is
//! inlined into them). Whether it is so here is asked of numpy once, by the first array; were it
//! not, numpy's method would be called, and each block would have a new array.

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

/// Whether arrays begin as [`Beginning`] says.
static IS_KNOWN: PyOnceLock<bool> = PyOnceLock::new();

/// An array that this module has made.
pub(crate) struct ShownArray {
    array: Py<PyAny>,
    /// How it was made; `None`: that cannot be looked at.
    made: Option<ArrayForm>,
}

/// What programs can change of an array in place.
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
    /// An array of a shape and a dtype, which shows what `contents` gives; it may be written if
    /// that may.
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

    /// Says whether it may be written; not for one that shows what may not be.
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
        // SAFETY: the array begins as `Beginning` (`is_known`), and lives. Flags are read and
        // written by who has the interpreter, as this thread has.
        let now = unsafe { flags.read() };
        let now = if is_writable { now | WRITEABLE } else { now & !WRITEABLE };
        // SAFETY: as above.
        unsafe { flags.write(now) };
        Ok(())
    }

    /// Whether nobody else has it: no name of the program, and no view.
    #[inline]
    fn is_alone(&self, _py: Python<'_>) -> bool {
        // SAFETY: it lives, and whoever has the interpreter may count.
        let references = unsafe { ffi::Py_REFCNT(self.array.as_ptr()) };
        references == 1
    }

    /// Whether shape and dtype are those that it was made with.
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
    /// Shape and stride of a dimension that there is.
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

/// How an array of numpy's own type begins, which is as long as [`is_known`] found.
#[inline]
fn beginning(array: &Bound<'_, PyAny>) -> Beginning {
    // SAFETY: objects of that type are at least as long and live as long as they are had; words of
    // any value are addresses and numbers, which only who has the interpreter changes, as this
    // thread has.
    unsafe { array.as_ptr().cast::<Beginning>().read() }
}

/// Whether arrays of numpy's own type begin as [`Beginning`]: by one, and by what numpy says of it.
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

/// The arrays of one access, of which one is handed out at a time.
#[derive(Default)]
pub(crate) struct Pool {
    arrays: Vec<ShownArray>,
    /// Which was handed out last.
    last: usize,
}

/// So many take turns: one in a block, and one that a name still has from the block before.
const ARRAYS_MOST: usize = 2;

impl Pool {
    /// The array that was handed out last.
    pub(crate) fn last(&self) -> Option<&ShownArray> {
        self.arrays.get(self.last)
    }

    /// Finds an array that can be handed out: that nobody else has, unless it is only read.
    #[inline]
    pub(crate) fn find(&mut self, py: Python<'_>, writes: bool) -> Option<&ShownArray> {
        let fits = |shown: &ShownArray| (!writes || shown.is_alone(py)) && shown.is_as_made(py);
        self.last = self.arrays.iter().position(fits)?;
        self.arrays.get(self.last)
    }

    /// Takes a new array in, to be handed out. It takes the place of one that somebody has kept,
    /// if there are enough; that one is given back, to be dropped when nothing is borrowed.
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
