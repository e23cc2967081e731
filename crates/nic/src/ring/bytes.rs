//! Raw bytes that several processes reach: the payload area of a landing ring.
//!
//! Copies go through raw pointers, never through references: another process may write at any
//! time, and only the ring's protocol (a claim before the store, a published record before the
//! load) makes that a non-event. Under loom each byte is a checked cell, so that a breach of the
//! protocol is a failed model and not a torn message.

#[cfg(not(loom))]
use std::{marker::PhantomData, ptr::NonNull};

/// A bounded area of shared bytes, valid for `'m`.
#[derive(Debug, Clone, Copy)]
pub struct Bytes<'m> {
    #[cfg(not(loom))]
    start: NonNull<u8>,
    #[cfg(not(loom))]
    length: usize,
    #[cfg(not(loom))]
    memory: PhantomData<&'m ()>,
    #[cfg(loom)]
    cells: &'m [crate::sync::UnsafeCell<u8>],
}

#[cfg(not(loom))]
impl<'m> Bytes<'m> {
    /// The `length` bytes from `start`.
    ///
    /// # Safety
    /// They stay mapped, readable and writable for `'m`.
    pub unsafe fn new(start: NonNull<u8>, length: usize) -> Bytes<'m> {
        Bytes { start, length, memory: PhantomData }
    }

    /// Bytes in the area.
    #[inline]
    pub fn size(&self) -> usize {
        self.length
    }

    /// Copies `from` into the area at byte `at`.
    #[inline]
    pub fn store(&self, at: usize, from: &[u8]) {
        assert!(at <= self.length && from.len() <= self.length - at);
        // SAFETY: `at` is within the area, by the assertion.
        let target = unsafe { self.start.add(at) };
        // SAFETY: the range ends within the area, by the assertion; the area is writable for 'm;
        // `from` is ordinary memory, which the area is not part of (a landing ring is handed out
        // by copy only).
        unsafe { target.as_ptr().copy_from_nonoverlapping(from.as_ptr(), from.len()) };
    }

    /// Copies bytes from `at` on into `into`.
    #[inline]
    pub fn load(&self, at: usize, into: &mut [u8]) {
        assert!(at <= self.length && into.len() <= self.length - at);
        // SAFETY: `at` is within the area, by the assertion.
        let origin = unsafe { self.start.add(at) };
        // SAFETY: the range ends within the area, by the assertion; the area is readable for 'm;
        // `into` is ordinary memory, which the area is not part of.
        unsafe { origin.as_ptr().copy_to_nonoverlapping(into.as_mut_ptr(), into.len()) };
    }

    /// The address of byte `at`, for prefetching only.
    #[inline]
    pub fn address(&self, at: usize) -> *const u8 {
        self.start.as_ptr().wrapping_add(at)
    }
}

#[cfg(loom)]
impl<'m> Bytes<'m> {
    /// An area of loom's checked cells.
    pub fn from_cells(cells: &'m [crate::sync::UnsafeCell<u8>]) -> Bytes<'m> {
        Bytes { cells }
    }

    /// Bytes in the area.
    pub fn size(&self) -> usize {
        self.cells.len()
    }

    /// Copies `from` into the area at byte `at`.
    pub fn store(&self, at: usize, from: &[u8]) {
        for (cell, byte) in self.cells[at..at + from.len()].iter().zip(from) {
            // SAFETY: loom hands out a valid pointer and fails the model on a racing access.
            cell.with_mut(|place| unsafe { *place = *byte });
        }
    }

    /// Copies bytes from `at` on into `into`.
    pub fn load(&self, at: usize, into: &mut [u8]) {
        let length = into.len();
        for (cell, byte) in self.cells[at..at + length].iter().zip(into) {
            // SAFETY: loom hands out a valid pointer and fails the model on a racing access.
            *byte = cell.with(|place| unsafe { *place });
        }
    }

    /// Nothing to prefetch under loom.
    pub fn address(&self, _at: usize) -> *const u8 {
        std::ptr::null()
    }
}
