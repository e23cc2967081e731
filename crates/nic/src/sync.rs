//! The only source of atomics and threads: the standard library, or loom when a model is checked.
//!
//! Everything in this crate that accesses shared memory takes its atomics from here, so the rings
//! in production are, line for line, the rings that loom explores.

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(loom)]
pub use loom::{cell::UnsafeCell, thread::yield_now};
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence, fence};
#[cfg(not(loom))]
pub use std::thread::yield_now;

use std::ops::Deref;

/// A value alone in its cache lines: two, because the adjacent-line prefetcher moves pairs.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct Line<T>(pub T);

impl<T> Deref for Line<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// Prefetches the cache line of `place` for writing.
///
/// A sender that has published slot *i* will write slot *i + 1* next. An early prefetch takes the
/// ownership transfer (one cache-line transfer, 55 to 240 ns) off the next message.
#[inline]
pub fn prefetch_for_write<T>(place: *const T) {
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    // SAFETY: a prefetch has no effect on memory or registers, whatever the address; processors
    // without the instruction execute it as a no-op.
    unsafe {
        std::arch::asm!("prefetchw [{0}]", in(reg) place, options(nostack, preserves_flags));
    }
    #[cfg(not(all(target_arch = "x86_64", not(loom))))]
    let _ = place;
}

/// Prefetches the cache line of `place` for reading.
#[inline]
pub fn prefetch_for_read<T>(place: *const T) {
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    // SAFETY: a prefetch has no effect on memory or registers, whatever the address.
    unsafe {
        std::arch::asm!("prefetcht0 [{0}]", in(reg) place, options(nostack, preserves_flags));
    }
    #[cfg(not(all(target_arch = "x86_64", not(loom))))]
    let _ = place;
}
