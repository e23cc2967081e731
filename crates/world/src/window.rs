//! Windows: memory of every rank that all ranks read, write and change without its owner's help.
//!
//! ```text
//!   world.window::<u64>(4)        every rank, together (MPI_Win_allocate)
//!
//!   rank 0   | 0 | 1 | 2 | 3 |  ◄── put, get, swap, fetch_add, ... by rank and index
//!   rank 1   | 0 | 1 | 2 | 3 |      from any rank, on any node
//! ```
//!
//! This file has the types; [`hikyaku_rank::ByteWindow`] is the window, in bytes.
//!
//! **Ordering.** A call has had its effect when it returns. So a rank that learns of it (by a
//! message, a barrier, an atomic operation, or the word of [`Window::put_signal`]) sees it. Copies
//! to one place at the same time leave any mixture of their bytes; atomic operations on one element
//! do not mix with each other.

use std::fmt;
use std::marker::PhantomData;
use std::mem::size_of;

use hikyaku_nic::fabric::{Advance, AtomicOp, Integer};
use hikyaku_rank::Access;

use crate::error::Error;
use crate::scalar::Scalar;
use crate::world::World;

/// Memory of `T` at every rank; see [`World::window`].
///
/// Dropping it waits for calls on this rank's part that are in progress, and makes later ones
/// errors. Dropping is not collective: use a barrier first if others may still use the window.
pub struct Window<'w, T: Scalar> {
    bytes: hikyaku_rank::ByteWindow,
    world: &'w World,
    element: PhantomData<T>,
}

/// An integer with atomic operations: `i32`, `u32`, `i64`, `u64`.
pub trait AtomicScalar: Scalar + sealed::Sealed {
    #[doc(hidden)]
    const INTEGER: Integer;
    #[doc(hidden)]
    fn to_bits(self) -> u64;
    #[doc(hidden)]
    fn from_bits(bits: u64) -> Self;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! atomic_scalars {
    ($($number:ty: $integer:ident,)*) => {$(
        impl sealed::Sealed for $number {}

        impl AtomicScalar for $number {
            const INTEGER: Integer = Integer::$integer;

            fn to_bits(self) -> u64 {
                self as u64
            }

            fn from_bits(bits: u64) -> Self {
                bits as $number
            }
        }
    )*};
}

atomic_scalars!(i32: I32, u32: U32, i64: I64, u64: U64,);

impl World {
    /// Makes a window of `length` zeros at this rank; other ranks may ask for other lengths
    /// (MPI_Win_allocate, MPI 5.0 §12.2.2). Every rank calls it, in the same order as other
    /// collective operations.
    ///
    /// # Errors
    /// There is no memory for it, or there are as many windows as contexts; the other ranks then
    /// get [`WindowError::Refused`](crate::WindowError::Refused). Or a rank is gone.
    pub fn window<T: Scalar>(&self, length: usize) -> Result<Window<'_, T>, Error> {
        let bytes = self.communicator().window(length, size_of::<T>())?;
        Ok(Window { bytes, world: self, element: PhantomData })
    }
}

impl World {
    /// [`World::window`] in which each part is accessible only to permitted ranks: `access` says
    /// what each other rank may do with this one's part. A rank may do anything with its own.
    ///
    /// Within a host each part is separate memory, which other ranks have mapped for reading, for
    /// reading and writing, or not at all. So a rank that bypasses the library and writes without
    /// permission is killed by a signal and harms no other rank. The job's memory for messages
    /// remains common to all ranks (`docs/api.md` lists it).
    ///
    /// ```
    /// # let world = hikyaku::World::init()?;
    /// use hikyaku::Access;
    /// // The first rank writes everybody's part, and the others may look.
    /// let access = |rank| if rank == 0 { Access::Write } else { Access::Read };
    /// let plan = world.protected_window::<f64>(8, access)?;
    /// plan.put(0, 3, &[1.5])?;
    /// # assert_eq!(plan.local()?[3], 1.5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`World::window`], or [`WindowError::NotHanded`](crate::WindowError::NotHanded).
    pub fn protected_window<T: Scalar>(
        &self,
        length: usize,
        access: impl Fn(u32) -> Access,
    ) -> Result<Window<'_, T>, Error> {
        let bytes = self.communicator().protected_window(length, size_of::<T>(), access)?;
        Ok(Window { bytes, world: self, element: PhantomData })
    }
}

impl<T: Scalar> Window<'_, T> {
    /// The number of elements in this rank's part.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether this rank's part is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of elements in the part of a rank.
    ///
    /// # Errors
    /// There is no such rank.
    pub fn len_of(&self, rank: u32) -> Result<usize, Error> {
        Ok(self.bytes.len_of(rank)?)
    }

    /// Copies `data` into the part of `rank` from `index` on (MPI_Put and MPI_Win_flush).
    ///
    /// # Errors
    /// There is no such rank or place, or the rank has dropped its window or died.
    pub fn put(&self, rank: u32, index: usize, data: &[T]) -> Result<(), Error> {
        Ok(self.bytes.put(rank, index, bytemuck::cast_slice(data))?)
    }

    /// Copies out of the part of `rank` from `index` on (MPI_Get and MPI_Win_flush).
    ///
    /// # Errors
    /// As [`Window::put`].
    pub fn get(&self, rank: u32, index: usize, into: &mut [T]) -> Result<(), Error> {
        Ok(self.bytes.get(rank, index, bytemuck::cast_slice_mut(into))?)
    }

    /// A copy of this rank's own part, as it is now.
    ///
    /// # Errors
    /// None is expected: the part exists as long as the window.
    pub fn local(&self) -> Result<Vec<T>, Error> {
        let mut copy = vec![T::zeroed(); self.len()];
        self.get(self.world.rank(), 0, &mut copy)?;
        Ok(copy)
    }

    /// [`Window::put`], followed by `value` in element `at` of `rank`'s part of another window
    /// (paper 003: remote DMA with a notification word). A rank that loads the value there sees the
    /// data; [`Window::wait`] waits for it.
    ///
    /// # Errors
    /// As [`Window::put`], for both places; then neither was written.
    pub fn put_signal(
        &self,
        rank: u32,
        index: usize,
        data: &[T],
        signal: &Window<'_, u64>,
        at: usize,
        value: u64,
    ) -> Result<(), Error> {
        let data = bytemuck::cast_slice(data);
        Ok(self.bytes.put_signal(rank, index, data, (&signal.bytes, at), value)?)
    }

    /// Points an address register of this rank's part (paper 003: registers 0, 1 and 2) at an
    /// element, or at none. Puts by [`Window::put_through`] land there: so the *receiver* chooses
    /// their place, and may change it at any time: later puts land at the new place. With
    /// [`Advance::ByLength`] the register moves on by each put, so that data of several ranks lies
    /// side by side, in the order in which it arrives.
    ///
    /// ```
    /// # let world = hikyaku::World::init()?;
    /// use hikyaku::Advance;
    /// let found = world.window::<f64>(100)?;
    /// found.set_address_register(0, Some((0, Advance::ByLength)))?;
    /// world.barrier()?;
    /// found.put_through(0, 0, &[0.5, 1.5])?; // behind what others have put there
    /// world.barrier()?;
    /// let count = found.address_register(0)?.unwrap_or(0);
    /// # assert_eq!((count, &found.local()?[..2]), (2, &[0.5, 1.5][..]));
    /// # world.barrier()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// There is no such register or element, or the window is protected.
    pub fn set_address_register(
        &self,
        register: u8,
        value: Option<(usize, Advance)>,
    ) -> Result<(), Error> {
        Ok(self.bytes.set_address_register(register, value)?)
    }

    /// The element at which an address register of this rank's part points now. If it advances, the
    /// data before it is on its way or has arrived: a barrier or a message says which.
    ///
    /// # Errors
    /// There is no such register.
    pub fn address_register(&self, register: u8) -> Result<Option<usize>, Error> {
        Ok(self.bytes.address_register(register)?)
    }

    /// Copies `data` to where an address register of `rank` points (paper 003: remote DMA with
    /// address register). It is complete on return, as [`Window::put`].
    ///
    /// # Errors
    /// As [`Window::put`]; or the register is not set, or `data` does not fit behind its place. It
    /// has not moved then.
    pub fn put_through(&self, rank: u32, register: u8, data: &[T]) -> Result<(), Error> {
        Ok(self.bytes.put_through(rank, register, bytemuck::cast_slice(data))?)
    }

    /// Several puts behind one doorbell, in order (paper 004's TCW chain): each copies its data
    /// into the part of its rank from its index on. On one machine they share one fence, and their
    /// cache lines arrive together. In virtual time they cost the processor one start if the
    /// machine has chains, and overlap on every machine. With `signal` (a window, a place and a
    /// value), each of these ranks finds the value in that place of its part after all its data, as
    /// by [`Window::put_signal`].
    ///
    /// ```
    /// # let world = hikyaku::World::init()?;
    /// let (numbers, arrived) = (world.window::<f64>(8)?, world.window::<u64>(1)?);
    /// let puts = [(0, 0, &[1.0, 2.0][..]), (0, 6, &[3.0])];
    /// numbers.put_chain(&puts, Some((&arrived, 0, 1)))?;
    /// arrived.wait(0, 0, |value| value == 1)?;
    /// assert_eq!(numbers.local()?, [1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 3.0, 0.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Window::put_signal`], of the first put that fails; those before it were written.
    /// Those after it may have been, at other ranks: never at the same rank, and without its
    /// signal.
    pub fn put_chain(
        &self,
        puts: &[(u32, usize, &[T])],
        signal: Option<(&Window<'_, u64>, usize, u64)>,
    ) -> Result<(), Error> {
        let puts: Vec<(u32, usize, &[u8])> = puts
            .iter()
            .map(|&(rank, index, data)| (rank, index, bytemuck::cast_slice(data)))
            .collect();
        let signal = signal.map(|(words, at, value)| (&words.bytes, at, value));
        Ok(self.bytes.put_chain(&puts, signal)?)
    }
}

impl<T: AtomicScalar> Window<'_, T> {
    /// Loads the element atomically (MPI_Fetch_and_op with MPI_NO_OP).
    ///
    /// # Errors
    /// As [`Window::put`].
    pub fn load(&self, rank: u32, index: usize) -> Result<T, Error> {
        self.fetch(rank, index, AtomicOp::Load, T::zeroed())
    }

    /// Stores a value and returns the old one (MPI_REPLACE; paper 003: swap).
    ///
    /// # Errors
    /// As [`Window::put`].
    pub fn swap(&self, rank: u32, index: usize, value: T) -> Result<T, Error> {
        self.fetch(rank, index, AtomicOp::Swap, value)
    }

    /// Stores `new` if the element is `expected`, and returns the old value (MPI_Compare_and_swap).
    ///
    /// # Errors
    /// As [`Window::put`].
    pub fn compare_swap(&self, rank: u32, index: usize, expected: T, new: T) -> Result<T, Error> {
        let expected = expected.to_bits();
        self.fetch(rank, index, AtomicOp::CompareSwap { expected }, new)
    }

    /// Adds a value, wrapping around, and returns the old one (MPI_SUM).
    ///
    /// # Errors
    /// As [`Window::put`].
    pub fn fetch_add(&self, rank: u32, index: usize, value: T) -> Result<T, Error> {
        self.fetch(rank, index, AtomicOp::Add, value)
    }

    /// Combines the element with `value` by bitwise and; returns the old one (MPI_BAND).
    ///
    /// # Errors
    /// As [`Window::put`].
    pub fn fetch_and(&self, rank: u32, index: usize, value: T) -> Result<T, Error> {
        self.fetch(rank, index, AtomicOp::And, value)
    }

    /// Combines the element with `value` by bitwise or; returns the old one (MPI_BOR).
    ///
    /// # Errors
    /// As [`Window::put`].
    pub fn fetch_or(&self, rank: u32, index: usize, value: T) -> Result<T, Error> {
        self.fetch(rank, index, AtomicOp::Or, value)
    }

    /// Combines the element with `value` by exclusive or; returns the old one (MPI_BXOR).
    ///
    /// # Errors
    /// As [`Window::put`].
    pub fn fetch_xor(&self, rank: u32, index: usize, value: T) -> Result<T, Error> {
        self.fetch(rank, index, AtomicOp::Xor, value)
    }

    /// Keeps the smaller of the element and `value`; returns the old one (MPI_MIN).
    ///
    /// # Errors
    /// As [`Window::put`].
    pub fn fetch_min(&self, rank: u32, index: usize, value: T) -> Result<T, Error> {
        self.fetch(rank, index, AtomicOp::Min, value)
    }

    /// Keeps the larger of the element and `value`; returns the old one (MPI_MAX).
    ///
    /// # Errors
    /// As [`Window::put`].
    pub fn fetch_max(&self, rank: u32, index: usize, value: T) -> Result<T, Error> {
        self.fetch(rank, index, AtomicOp::Max, value)
    }

    /// Waits until `wanted` accepts an element of this rank's own part, which rank `from` changes,
    /// and returns the element. Messages make progress meanwhile.
    ///
    /// # Errors
    /// There is no such element, or `from` died or left before `wanted` accepted it.
    pub fn wait(&self, index: usize, from: u32, wanted: impl Fn(T) -> bool) -> Result<T, Error> {
        let wanted = |bits| wanted(T::from_bits(bits));
        Ok(T::from_bits(self.bytes.wait(index, from, T::INTEGER, wanted)?))
    }

    fn fetch(&self, rank: u32, index: usize, operation: AtomicOp, value: T) -> Result<T, Error> {
        let operation = (T::INTEGER, operation);
        Ok(T::from_bits(self.bytes.fetch(rank, index, operation, value.to_bits())?))
    }
}

impl<T: Scalar> fmt::Debug for Window<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Window").field(&self.bytes).finish()
    }
}

#[cfg(test)]
mod tests {
    use hikyaku_nic::fabric::ContextError;

    use super::*;

    #[test]
    fn a_world_of_one_has_windows_until_there_is_no_context() {
        let world = World::init().unwrap();
        let mut windows = Vec::new();
        let error = loop {
            match world.window::<i32>(3) {
                Ok(window) => windows.push(window),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::Context(ContextError::NoContextFree { .. })), "{error}");
        for (number, window) in (1..).zip(&windows) {
            window.put(0, 0, &[number; 3]).unwrap();
            assert_eq!(window.fetch_add(0, 1, -2 * number), Ok(number));
        }
        for (number, window) in (1..).zip(&windows) {
            assert_eq!(window.local(), Ok(vec![number, -number, number]));
        }
        windows.pop();
        assert_eq!(world.window::<i32>(1).unwrap().local(), Ok(vec![0]), "zeros, in its place");
    }
}
