//! The one door to atomics and threads: the standard library's, or loom's when a model is checked.
//!
//! Everything in this crate that touches shared memory takes its atomics from here, so that the
//! rings which run in production are, line for line, the ones loom explores.

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(loom)]
pub use loom::{cell::UnsafeCell, thread::yield_now};
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
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

/// A clock that all processes of the host read alike, for stamping arrivals; only its order
/// counts. With `after_loads`, it is read after every earlier load has its value, so that what a
/// rank sends after it received something is stamped later than that.
///
/// The processor's own counter, since it costs 7 to 10 ns and no cache line. Where there is none
/// that we know, `counter` is counted up, which costs a cache-line transfer.
#[inline]
pub fn arrival_time(after_loads: bool, counter: &AtomicU64) -> u64 {
    #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
    {
        let _ = counter;
        if after_loads {
            let mut processor = 0;
            // SAFETY: every x86-64 processor since 2006 has the instruction; it only writes
            // `processor`.
            return unsafe { std::arch::x86_64::__rdtscp(&raw mut processor) };
        }
        // SAFETY: every x86-64 processor has the instruction; it touches no memory.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(all(target_arch = "x86_64", not(loom), not(miri))))]
    {
        let _ = after_loads;
        counter.fetch_add(1, Ordering::AcqRel)
    }
}

/// Asks for the cache line of `place` in a state in which it can be written.
///
/// A sender that has published slot *i* knows that it will write slot *i + 1* next; asking early
/// takes the ownership transfer (one cache-line transfer, 55 to 240 ns) off the next message.
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
