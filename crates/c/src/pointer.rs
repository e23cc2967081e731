//! Arguments that are pointers, as types: the only place that dereferences pointers from C.
//!
//! A value of these types comes only from C, through the signature of a function of the header. The
//! type states C's promise: NULL, or what the header requires of the pointer. A broken promise is
//! an error if it can be detected: NULL where a pointer is required, a misaligned address, more
//! elements than can be addressed.

use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;

use hikyaku::Scalar;

use crate::failure::CallFailure;

/// A string that ends with a zero byte, or NULL.
#[repr(transparent)]
pub(crate) struct TextPointer<'c>(*const c_char, PhantomData<&'c CStr>);

impl<'c> TextPointer<'c> {
    /// The string.
    pub(crate) fn read(self, what: &str) -> Result<&'c str, CallFailure> {
        not_null(self.0, what)?;
        // SAFETY: not NULL, so C has promised a string that stays until the call returns.
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str().map_err(|_| CallFailure::argument(format!("{what} is not UTF-8")))
    }
}

/// Elements to be read, or NULL if there are none.
#[repr(transparent)]
pub(crate) struct DataPointer<'c>(*const c_void, PhantomData<&'c [u8]>);

impl<'c> DataPointer<'c> {
    /// `count` elements.
    pub(crate) fn read<T: Scalar>(self, count: usize, what: &str) -> Result<&'c [T], CallFailure> {
        if count == 0 {
            return Ok(&[]);
        }
        check::<T>(self.0, count, what)?;
        // SAFETY: not NULL, aligned and countable by the check; C has promised `count` elements
        // that are not changed during the call. Any bytes are a Scalar.
        Ok(unsafe { std::slice::from_raw_parts(self.0.cast(), count) })
    }
}

/// Elements to be written, or NULL if there are none.
#[repr(transparent)]
pub(crate) struct Room<'c>(*mut c_void, PhantomData<&'c mut [u8]>);

impl<'c> Room<'c> {
    /// Whether it is not NULL.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.0.is_null()
    }

    /// `count` elements.
    pub(crate) fn open<T: Scalar>(
        self,
        count: usize,
        what: &str,
    ) -> Result<&'c mut [T], CallFailure> {
        if count == 0 {
            return Ok(&mut []);
        }
        check::<T>(self.0, count, what)?;
        // SAFETY: as for `DataPointer`; C has promised that no one else uses them during the call.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.0.cast(), count) })
    }
}

/// The place for one value, or NULL if it is not wanted.
#[repr(transparent)]
pub(crate) struct OutPointer<'c, T>(*mut T, PhantomData<&'c mut T>);

impl<T: Copy> OutPointer<'_, T> {
    /// The same, which must not be NULL.
    pub(crate) fn required(self, what: &str) -> Result<Self, CallFailure> {
        not_null(self.0, what)?;
        Ok(self)
    }

    /// Stores the value, if it is wanted.
    #[inline]
    pub(crate) fn put(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: not NULL, so C has promised room for one value. The old contents are not
            // read.
            unsafe { self.0.write(value) };
        }
    }
}

/// One value, or NULL if there is none.
#[repr(transparent)]
pub(crate) struct InPointer<'c, T>(*const T, PhantomData<&'c T>);

impl<T: Copy> InPointer<'_, T> {
    /// The value.
    pub(crate) fn get(self) -> Option<T> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: not NULL, so C has promised that there is one.
        Some(unsafe { self.0.read() })
    }
}

fn not_null<T>(pointer: *const T, what: &str) -> Result<(), CallFailure> {
    match pointer.is_null() {
        true => Err(CallFailure::argument(format!("{what} is NULL"))),
        false => Ok(()),
    }
}

fn check<T: Scalar>(pointer: *const c_void, count: usize, what: &str) -> Result<(), CallFailure> {
    not_null(pointer, what)?;
    if !pointer.cast::<T>().is_aligned() {
        let size = align_of::<T>();
        return Err(CallFailure::argument(format!("{what} is not aligned: no multiple of {size}")));
    }
    let bytes = count.checked_mul(size_of::<T>());
    match bytes.is_some_and(|bytes| isize::try_from(bytes).is_ok()) {
        true => Ok(()),
        false => Err(CallFailure::argument(format!("{what} cannot have {count} elements"))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn detectable_mistakes_are_errors() {
        let numbers = [1u64, 2];
        let data = |at: *const u64| DataPointer(at.cast(), PhantomData);
        assert_eq!(data(numbers.as_ptr()).read::<u64>(2, "data").unwrap(), numbers);
        assert!(data(std::ptr::null()).read::<u64>(0, "data").unwrap().is_empty());
        let text = |data: DataPointer<'_>, count| data.read::<u64>(count, "data").unwrap_err().text;
        assert_eq!(text(data(std::ptr::null()), 1), "data is NULL");
        let odd = DataPointer(numbers.as_ptr().cast::<u8>().wrapping_add(1).cast(), PhantomData);
        assert_eq!(text(odd, 1), "data is not aligned: no multiple of 8");
        let many = usize::MAX / 8;
        let expected = format!("data cannot have {many} elements");
        assert_eq!(text(data(numbers.as_ptr()), many), expected);
        assert_eq!(
            text(data(numbers.as_ptr()), usize::MAX),
            expected.replace(&many.to_string(), &usize::MAX.to_string())
        );
        let name = TextPointer(std::ptr::null(), PhantomData);
        assert_eq!(name.read("the name").unwrap_err().text, "the name is NULL");
        let name = TextPointer(c"\xff".as_ptr(), PhantomData);
        assert_eq!(name.read("the name").unwrap_err().text, "the name is not UTF-8");
    }
}
