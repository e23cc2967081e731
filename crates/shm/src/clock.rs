//! The clock: Linux's monotonic one, which all processes of a host share.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since a moment before the machine's start, the same for every process.
#[inline]
pub(crate) fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}
