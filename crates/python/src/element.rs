//! The element types of arrays, read from the format that a buffer states.
//!
//! Messages are bytes and need no type. Reductions and atomic operations do: they take integers of
//! 1 to 8 bytes, floats of 4 and 8, booleans where an operation is defined on them, and complex
//! numbers for sums, in the machine's byte order.

use std::ffi::CStr;

use pyo3::buffer::ElementType;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

/// An element type that can be computed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ElementKind {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
    C64,
    C128,
}

impl ElementKind {
    /// The element type of a buffer's format (Python's module `struct`, PEP 3118).
    ///
    /// # Errors
    /// It is another type.
    pub(crate) fn of(format: &CStr, bytes: usize) -> PyResult<ElementKind> {
        let text = format.to_bytes();
        let swapped = matches!(text.first(), Some(b'>' | b'!')) && bytes > 1;
        let known = match ElementType::from_format(format) {
            _ if swapped => None,
            ElementType::Bool => Some(ElementKind::Bool),
            ElementType::SignedInteger { bytes: 1 } => Some(ElementKind::I8),
            ElementType::SignedInteger { bytes: 2 } => Some(ElementKind::I16),
            ElementType::SignedInteger { bytes: 4 } => Some(ElementKind::I32),
            ElementType::SignedInteger { bytes: 8 } => Some(ElementKind::I64),
            ElementType::UnsignedInteger { bytes: 1 } => Some(ElementKind::U8),
            ElementType::UnsignedInteger { bytes: 2 } => Some(ElementKind::U16),
            ElementType::UnsignedInteger { bytes: 4 } => Some(ElementKind::U32),
            ElementType::UnsignedInteger { bytes: 8 } => Some(ElementKind::U64),
            ElementType::Float { bytes: 4 } => Some(ElementKind::F32),
            ElementType::Float { bytes: 8 } => Some(ElementKind::F64),
            _ if text == b"Zf" => Some(ElementKind::C64),
            _ if text == b"Zd" => Some(ElementKind::C128),
            _ => None,
        };
        known.ok_or_else(|| {
            let format = format.to_string_lossy();
            PyTypeError::new_err(format!(
                "elements of format '{format}' cannot be computed with: integers of 1 to 8 bytes, \
                 floats of 4 and 8, complex numbers and booleans can, in this machine's byte order"
            ))
        })
    }

    /// Whether elements of a format hold references to Python objects. Field names are between
    /// colons and do not count.
    pub(crate) fn holds_references(format: &CStr) -> bool {
        let mut parts = format.to_bytes().split(|byte| *byte == b':');
        let mut is_name = false;
        parts.any(|part| {
            let found = !is_name && part.contains(&b'O');
            is_name = !is_name;
            found
        })
    }
}
