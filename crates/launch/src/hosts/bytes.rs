//! Encoding and decoding of the values that travel between hosts. Pure.
//!
//! Numbers are little-endian; a length precedes each list. Decoding checks every length against
//! the bytes that are left, so that a malformed frame cannot cause a large allocation.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use thiserror::Error;

/// The received bytes are not a valid frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("malformed: {0}")]
pub(super) struct Malformed(pub(super) &'static str);

/// A value that can be sent.
pub(super) trait Value: Sized {
    /// Appends the encoded value.
    fn put(&self, out: &mut Vec<u8>);

    /// Decodes a value and removes it from the front.
    fn take(from: &mut &[u8]) -> Result<Self, Malformed>;
}

/// Removes `count` bytes from the front.
pub(super) fn take_bytes<'b>(from: &mut &'b [u8], count: usize) -> Result<&'b [u8], Malformed> {
    let (head, rest) = from.split_at_checked(count).ok_or(Malformed("it ends early"))?;
    *from = rest;
    Ok(head)
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Value for $number {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
                let bytes = take_bytes(from, size_of::<$number>())?;
                Ok(<$number>::from_le_bytes(bytes.try_into().expect("so many were taken")))
            }
        }
    )*};
}

numbers!(u8, u32, i32, u64);

impl Value for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        match u8::take(from)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed("neither true nor false")),
        }
    }
}

impl<const COUNT: usize> Value for [u8; COUNT] {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        let bytes = take_bytes(from, COUNT)?;
        Ok(bytes.try_into().expect("so many were taken"))
    }
}

impl Value for OsString {
    fn put(&self, out: &mut Vec<u8>) {
        put_length(self.len(), out);
        out.extend_from_slice(self.as_bytes());
    }

    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        let length = u32::take(from)?;
        Ok(OsString::from_vec(take_bytes(from, length as usize)?.to_vec()))
    }
}

impl Value for String {
    fn put(&self, out: &mut Vec<u8>) {
        put_length(self.len(), out);
        out.extend_from_slice(self.as_bytes());
    }

    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        let text = OsString::take(from)?.into_string();
        text.map_err(|_| Malformed("a text that is not UTF-8"))
    }
}

impl<T: Value> Value for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        self.iter().for_each(|value| value.put(out));
    }

    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        bool::take(from)?.then(|| T::take(from)).transpose()
    }
}

impl<T: Value> Value for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        put_length(self.len(), out);
        self.iter().for_each(|value| value.put(out));
    }

    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        let length = u32::take(from)?;
        if length as usize > from.len() {
            return Err(Malformed("a list that is longer than its frame"));
        }
        (0..length).map(|_| T::take(from)).collect()
    }
}

impl<A: Value, B: Value> Value for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        Ok((A::take(from)?, B::take(from)?))
    }
}

impl<A: Value, B: Value, C: Value> Value for (A, B, C) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
        self.2.put(out);
    }

    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        Ok((A::take(from)?, B::take(from)?, C::take(from)?))
    }
}

fn put_length(length: usize, out: &mut Vec<u8>) {
    u32::try_from(length).expect("what travels is much shorter").put(out);
}
