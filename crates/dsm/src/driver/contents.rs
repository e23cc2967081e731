//! The contents as slices. Only here do the protocol's guarantees become references to memory.
//!
//! Copies lie in memory that other processes have mapped. A rank creates a reference to a copy only
//! after it has acquired the variable: for writing, when no other rank of the node holds it; for
//! reading, when no rank writes. The protocol guarantees that, and the safety of guards depends on
//! it. (Its explorer in `crates/dsm/tests` checks every interleaving.) A process that writes the
//! memory by other means can corrupt the bytes, but every value of the bytes is a valid element.

use std::ptr::NonNull;

use bytemuck::Pod;
use hikyaku_nic::ring::copy_apart;
use hikyaku_rank::View;

/// Elements of a copy.
#[derive(Debug, Clone, Copy)]
pub struct CopyContents<T> {
    start: NonNull<T>,
    length: usize,
}

/// The bytes of a view from `at` on: start and length.
#[inline]
pub(super) fn tail(view: &View, at: usize) -> (NonNull<u8>, usize) {
    assert!(at <= view.len(), "a copy begins within its block");
    // SAFETY: inside the view, which is mapped.
    let start = unsafe { view.start().add(at) };
    (start, view.len() - at)
}

/// Copies bytes out of a view that no rank writes.
pub(super) fn read(view: &View, at: usize, into: &mut [u8]) {
    let (start, length) = tail(view, at);
    assert!(into.len() <= length, "what is read lies within the block");
    // SAFETY: inside the view by the check above; it may not overlap, being another node's.
    unsafe { copy_apart(start.as_ptr(), into.as_mut_ptr(), into.len()) };
}

impl<T: Pod> CopyContents<T> {
    /// `length` elements from byte `at` on of a copy of `bytes` bytes at `start`.
    #[inline]
    pub(super) fn new((start, bytes): (NonNull<u8>, usize), at: usize, length: usize) -> Self {
        let end = length.checked_mul(size_of::<T>()).and_then(|size| size.checked_add(at));
        assert!(end.is_some_and(|end| end <= bytes), "a part lies within its copy");
        // SAFETY: inside the copy by the check above.
        let start = unsafe { start.add(at) }.cast::<T>();
        assert!(start.is_aligned(), "copies begin at pages, parts at whole elements");
        CopyContents { start, length }
    }

    /// The elements.
    ///
    /// # Safety
    /// The copy stays mapped and no rank writes it as long as the slice lives.
    #[inline]
    pub unsafe fn as_slice<'s>(self) -> &'s [T] {
        // SAFETY: `new` checked bounds and alignment, any bytes are a `T`, and the caller
        // promises the rest.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }

    /// The elements, for writing.
    ///
    /// # Safety
    /// The copy stays mapped and no other rank reads or writes it as long as the slice lives.
    #[inline]
    pub unsafe fn as_slice_mut<'s>(self) -> &'s mut [T] {
        // SAFETY: as for `as_slice`.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }

    /// The address of the first element.
    pub fn start(self) -> NonNull<T> {
        self.start
    }
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::variable::Variable;
    use crate::AccessKind;

    /// Acquires a variable of words for writing, calls `act` with them, and releases the variable.
    pub(in super::super) fn change<R>(variable: &Variable, act: impl FnOnce(&mut [u64]) -> R) -> R {
        variable.enter(0, AccessKind::Write).unwrap();
        // SAFETY: it is held by this rank for writing, until it is released below.
        let words = unsafe { variable.contents(0).as_slice_mut() };
        let result = act(words);
        variable.release(0);
        result
    }
}
