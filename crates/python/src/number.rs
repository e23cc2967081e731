//! Integers from Python, which may be of any size. One that does not fit is a mistake of the
//! program like any other, and is reported as one.

use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;

/// The number of a rank, which need not exist.
pub(crate) fn rank(value: &Bound<'_, PyAny>) -> PyResult<i64> {
    fit(value, "rank", "there is none of that number")
}

/// The number of a rank, or None.
pub(crate) fn any_rank(value: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    if value.is_none() { Ok(None) } else { rank(value).map(Some) }
}

/// A tag.
pub(crate) fn tag(value: &Bound<'_, PyAny>) -> PyResult<i32> {
    fit(value, "tag", "tags are 0 to 2147483647")
}

/// A tag, or None.
pub(crate) fn any_tag(value: &Bound<'_, PyAny>) -> PyResult<Option<i32>> {
    if value.is_none() { Ok(None) } else { tag(value).map(Some) }
}

/// A color of a split, or None if the rank takes no part (a negative color in MPI programs).
pub(crate) fn any_color(value: &Bound<'_, PyAny>) -> PyResult<Option<u32>> {
    let hint = "colors are 0 to 4294967295, or None for a rank that takes no part";
    if value.is_none() { Ok(None) } else { fit(value, "color", hint).map(Some) }
}

/// A key of a split.
pub(crate) fn key(value: &Bound<'_, PyAny>) -> PyResult<i32> {
    fit(value, "key", "keys are -2147483648 to 2147483647")
}

/// A number of elements or bytes.
pub(crate) fn count(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    fit(value, "length", "it is at least 0, and memory has an end")
}

/// The index of an element.
pub(crate) fn index(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    fit(value, "index", "there is no such element")
}

/// The number of a part.
pub(crate) fn part(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    fit(value, "part", "there is none of that number")
}

/// The integer as a number of type `T`.
///
/// # Errors
/// ValueError: it does not fit.
pub(crate) fn fit<'py, T>(value: &Bound<'py, PyAny>, what: &str, hint: &str) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    value.extract().map_err(|error: PyErr| {
        if error.is_instance_of::<PyOverflowError>(value.py()) {
            return PyValueError::new_err(format!("{what} {value} is out of range: {hint}"));
        }
        error
    })
}
