//! Memory of any rank's region, as mapped by this process: ranks of a node share it in place.
//!
//! A view keeps the job's memory mapped, but does not control which rank may access the bytes when:
//! its users arrange that, by the words in it. The bytes stay in place when their rank dies.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use hikyaku_nic::fabric::Rank;
use hikyaku_nic::sync::AtomicU64;

use crate::host::ShmHost;
use crate::region::JobRegion;

/// Bytes of a rank's region.
pub struct View {
    _region: Arc<JobRegion>,
    start: NonNull<u8>,
    rank: Rank,
    offset: u64,
    length: usize,
}

impl ShmHost {
    /// A view of `length` bytes at `offset` of a rank's region; `None` unless all are inside, and
    /// the rank is on this host.
    pub fn view(&self, rank: Rank, offset: u64, length: usize) -> Option<View> {
        if !self.mapping().plan().config.is_here(rank) {
            return None;
        }
        let start = self.mapping().place(rank, offset, length)?;
        Some(View { _region: Arc::clone(self.region()), start, rank, offset, length })
    }
}

impl View {
    /// The address of the bytes in this process, valid as long as the view.
    #[inline]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether the view is empty.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The aligned word at byte `at` of the view; `None` if it is not inside.
    #[inline]
    pub fn word(&self, at: u64) -> Option<&AtomicU64> {
        let inside = at.checked_add(8).is_some_and(|end| end <= self.length as u64);
        if !inside {
            return None;
        }
        // SAFETY: within the view by the check, and so within the mapping.
        let word = unsafe { self.start.add(at as usize) }.cast::<u64>();
        if !word.is_aligned() {
            return None;
        }
        // SAFETY: eight aligned bytes that are mapped as long as the region, which this keeps. All
        // others access them atomically, or hold what the words guard.
        Some(unsafe { AtomicU64::from_ptr(word.as_ptr()) })
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View")
            .field("rank", &self.rank)
            .field("offset", &self.offset)
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use crate::job::open_all;
    use crate::plan::JobConfig;
    use hikyaku_nic::fabric::MemoryPort;
    use hikyaku_nic::sync::Ordering;

    #[test]
    fn ranks_see_the_same_bytes_and_none_outside() {
        let mut ports = open_all(&JobConfig::new(2, 1)).unwrap();
        let mut buffer = ports[1].allocate(64).unwrap();
        buffer.fill(0);
        let view = ports[0].host().view(1, buffer.offset(), 64).unwrap();
        view.word(8).unwrap().store(7, Ordering::Relaxed);
        assert_eq!(buffer[8..16], 7u64.to_ne_bytes());
        assert!(view.word(57).is_none() && view.word(4).is_none() && view.word(u64::MAX).is_none());
        assert!(ports[0].host().view(1, u64::MAX, 1).is_none());
        drop(ports);
        assert_eq!(view.word(8).unwrap().load(Ordering::Relaxed), 7, "it keeps the memory");
        drop(buffer);
    }
}
