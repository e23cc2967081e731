//! Buffers that peers access directly.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use hikyaku_nic::region::RegionBuffer;

use crate::scalar::Scalar;

/// A slice in memory that the other ranks of the node can copy from and to directly.
///
/// Made by [`crate::World::alloc`]; use it like any slice. Windows and exchanges with neighbours
/// copy from and to it once; so do messages from it if ranks share processors (otherwise two
/// copies are faster than one from memory that is then written again). Filled with zeros at first.
pub struct SharedBuffer<T: Scalar> {
    bytes: RegionBuffer,
    length: usize,
    element: PhantomData<T>,
}

impl<T: Scalar> SharedBuffer<T> {
    /// `length` zeros in `bytes`, which are aligned for `T` and long enough.
    pub(crate) fn new(mut bytes: RegionBuffer, length: usize) -> SharedBuffer<T> {
        bytes.fill(0);
        SharedBuffer { bytes, length, element: PhantomData }
    }

    /// Its offset in its rank's region, bytes.
    pub(crate) fn offset(&self) -> u64 {
        self.bytes.offset()
    }

    fn used(&self) -> usize {
        self.length * size_of::<T>()
    }
}

impl<T: Scalar> Deref for SharedBuffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        bytemuck::cast_slice(&self.bytes[..self.used()])
    }
}

impl<T: Scalar> DerefMut for SharedBuffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        let used = self.used();
        bytemuck::cast_slice_mut(&mut self.bytes[..used])
    }
}

impl<T: Scalar + fmt::Debug> fmt::Debug for SharedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
