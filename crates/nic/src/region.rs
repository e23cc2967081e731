//! A rank's region: memory that its peers can name by offset and reach by one copy.
//!
//! It has two parts that every fabric with a region shares: the [`Arena`], which records the
//! allocated bytes of the region (offsets only, no memory), and the [`RegionBuffer`], an allocation
//! as its owner holds it.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use thiserror::Error;

/// Why an allocation in a region failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RegionError {
    /// The region has no run of free bytes that long.
    #[error("no room for {wanted} bytes in this rank's region of {size} bytes ({free} are free)")]
    Exhausted {
        /// Bytes asked for.
        wanted: u64,
        /// Bytes of the region.
        size: u64,
        /// Bytes free in it, not necessarily in one run.
        free: u64,
    },
    /// The machine has no memory left.
    #[error("the machine has no memory for {wanted} bytes of shared buffers (error {code})")]
    NoMemory {
        /// Bytes asked for.
        wanted: u64,
        /// The operating system's error number.
        code: i32,
    },
    /// The job runs in virtual time.
    #[error(
        "there are no mailboxes in virtual time, where letters would take none: use a command \
         queue or messages, or run the program with hikyaku run"
    )]
    NoMailboxes,
    /// The fabric has no regions.
    #[error("this fabric has no shared buffers")]
    Unsupported,
}

/// The free bytes of a region: runs of whole units, first fit, neighbours joined.
///
/// First fit over an ordered map. Programs allocate few, large buffers and keep them, so search
/// time does not matter and fragmentation hardly does.
#[derive(Debug)]
pub struct Arena {
    size: u64,
    unit: u64,
    /// Start of each free run → its length.
    free: BTreeMap<u64, u64>,
}

impl Arena {
    /// An arena for an empty region of `size` bytes, allocated in multiples of `unit`.
    pub fn new(size: u64, unit: u64) -> Arena {
        let size = size - size % unit;
        let free = if size > 0 { BTreeMap::from([(0, size)]) } else { BTreeMap::new() };
        Arena { size, unit, free }
    }

    /// Allocates `bytes`, rounded up to whole units. Returns the offset.
    ///
    /// # Errors
    /// [`RegionError::Exhausted`].
    pub fn take(&mut self, bytes: u64) -> Result<u64, RegionError> {
        let wanted = self.rounded(bytes);
        let found = self.free.iter().find(|(_, length)| **length >= wanted);
        let Some((&start, &length)) = found else {
            let free = self.free.values().sum();
            return Err(RegionError::Exhausted { wanted: bytes, size: self.size, free });
        };
        self.free.remove(&start);
        if length > wanted {
            self.free.insert(start + wanted, length - wanted);
        }
        Ok(start)
    }

    /// Frees an allocation of [`Arena::take`] for the same number of bytes.
    pub fn give(&mut self, start: u64, bytes: u64) {
        let mut run = (start, self.rounded(bytes));
        let before = self.free.range(..start).next_back().map(|(&s, &l)| (s, l));
        if let Some((s, l)) = before
            && s + l == start
        {
            self.free.remove(&s);
            run = (s, l + run.1);
        }
        if let Some(after) = self.free.remove(&(run.0 + run.1)) {
            run.1 += after;
        }
        self.free.insert(run.0, run.1);
    }

    /// `bytes` rounded up to whole units.
    pub fn rounded(&self, bytes: u64) -> u64 {
        bytes.max(1).next_multiple_of(self.unit)
    }
}

/// The owner that a dropped buffer returns to.
pub trait RegionOwner: Send + Sync {
    /// Takes back `bytes` at `offset` of the region.
    fn give_back(&self, offset: u64, bytes: u64);
}

/// Memory in this rank's region, freed when dropped.
///
/// Peers may read it, and write it where they know its address. While a put into it is in flight
/// its contents are unspecified, as with every remote write.
pub struct RegionBuffer {
    start: NonNull<u8>,
    length: usize,
    offset: u64,
    owner: Arc<dyn RegionOwner>,
}

impl RegionBuffer {
    /// A buffer of `length` bytes at `start`, which is `offset` in the owner's region.
    ///
    /// # Safety
    /// The bytes stay mapped, readable and writable as long as `owner` lives, are initialised, and
    /// are used by nothing else in this process until the owner takes them back.
    pub unsafe fn new(
        start: NonNull<u8>,
        length: usize,
        offset: u64,
        owner: Arc<dyn RegionOwner>,
    ) -> RegionBuffer {
        RegionBuffer { start, length, offset, owner }
    }

    /// The buffer's offset in its rank's region, bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }
}

// SAFETY: a buffer is the only handle to its plain memory; the owner is Send and Sync.
unsafe impl Send for RegionBuffer {}

// SAFETY: through a shared reference the bytes can only be read.
unsafe impl Sync for RegionBuffer {}

impl Deref for RegionBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the caller of `new` promised mapped, initialised bytes that are only ours.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for RegionBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`, and `&mut self` is the only handle.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl Drop for RegionBuffer {
    fn drop(&mut self) {
        self.owner.give_back(self.offset, self.length as u64);
    }
}

impl fmt::Debug for RegionBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegionBuffer")
            .field("offset", &self.offset)
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_runs_join_their_neighbours() {
        let mut arena = Arena::new(1 << 20, 4096);
        let taken: Vec<u64> = (0..256).map(|_| arena.take(4000).unwrap()).collect();
        assert!(arena.take(1).is_err());
        for start in taken.iter().step_by(2).chain(taken.iter().skip(1).step_by(2)) {
            arena.give(*start, 4000);
        }
        assert_eq!(arena.take(1 << 20), Ok(0));
    }

    #[test]
    fn exhaustion_says_how_much_is_free() {
        let mut arena = Arena::new(8192, 4096);
        arena.take(1).unwrap();
        let error = arena.take(5000).unwrap_err();
        assert_eq!(error, RegionError::Exhausted { wanted: 5000, size: 8192, free: 4096 });
    }
}
