//! The segment table: the bytes of a region to which a key grants access (paper 003 §4.7, CJ-06).
//!
//! An entry is in the target's segment of shared memory, because the process that plays the
//! target's interface checks it there. Only its rank writes it:
//!
//! ```text
//!   state    generation (32) | 0 (24) | rights (8)     rights 0: nothing is registered
//!   base     offset in the rank's region
//!   length   bytes
//! ```
//!
//! Two races must be excluded.
//!
//! *Words of two registrations.* A reader loads `state`, then `base` and `length`, then `state`
//! again, after an acquire fence. If it saw a word of a later registration, it would also see the
//! closed state that precedes it. So an unchanged state means words of one registration. Each
//! generation is used once (there are 2³²), so the same state is the same registration.
//!
//! *Deregistration during an access.* A rank announces each access by an odd epoch, and the owner
//! waits for the accesses that may not have seen the closed state:
//!
//! ```text
//!   accessor                          owner
//!   --------                          -----
//!   epoch = odd                       state = closed
//!   fence (sequentially consistent)   fence (sequentially consistent)
//!   state still open? ── no ─► refused
//!   copy                              epoch of each rank: odd? ─► wait until it has changed
//!   epoch = even (release)            (acquire) ─► the memory is the owner's alone
//! ```
//!
//! One of the two fences comes first: either the accessor sees the closed state or the owner sees
//! the odd epoch. This also holds for each access if an accessor makes several in one odd epoch, as
//! for a chain. `tests/loom_table.rs` explores it, and shows that without the fence it detects a
//! copy into memory that was deregistered.

use crate::fabric::{Fault, Key, Rank, Rights};
use crate::sync::{AtomicU64, Ordering, fence};

/// One entry of a segment table. All zero: nothing was ever registered.
#[derive(Debug, Default)]
#[repr(C, align(32))]
pub struct SegmentEntry {
    state: AtomicU64,
    base: AtomicU64,
    length: AtomicU64,
}

/// Bytes of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Offset of the first byte, in the region.
    pub base: u64,
    /// The number of bytes.
    pub length: u64,
}

impl Extent {
    /// The offset in the region of `length` bytes at `offset` of the extent; `None` unless all are
    /// inside.
    #[inline]
    pub fn locate(&self, offset: u64, length: u64) -> Option<u64> {
        let end = offset.checked_add(length)?;
        if end > self.length {
            return None;
        }
        // The extent comes from shared memory, so any of its words may be invalid.
        self.base.checked_add(offset).filter(|at| at.checked_add(length).is_some())
    }
}

impl SegmentEntry {
    /// Opens the entry. Owner only, and only while it is closed.
    pub fn publish(&self, extent: Extent, generation: u32, rights: Rights) {
        // A reader that sees the new words also sees that the last registration was closed.
        fence(Ordering::Release);
        self.base.store(extent.base, Ordering::Relaxed);
        self.length.store(extent.length, Ordering::Relaxed);
        // Release: a reader that finds the entry open sees its words.
        self.state.store(state(generation, rights.bits()), Ordering::Release);
    }

    /// Closes the entry. Owner only. Bars new accesses; see [`Leaving`] for the running ones.
    pub fn retract(&self, generation: u32) {
        self.state.store(state(generation, 0), Ordering::Release);
    }

    /// The bytes to which the key grants access, if this entry grants all of `wanted`.
    ///
    /// # Errors
    /// Nothing is registered here, another segment is, or it does not grant these rights.
    #[inline]
    pub fn check(&self, key: Key, wanted: Rights) -> Result<Extent, Fault> {
        let before = self.state.load(Ordering::Acquire);
        let granted = Rights::from_bits(before as u8);
        if (before >> 32) as u32 != key.generation {
            return Err(if before == 0 { Fault::NoSuchSegment(key) } else { Fault::Stale(key) });
        }
        if granted.bits() == 0 {
            return Err(Fault::NoSuchSegment(key));
        }
        if !granted.contains(wanted) {
            return Err(Fault::Rights { wanted, granted });
        }
        let base = self.base.load(Ordering::Relaxed);
        let length = self.length.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        if self.state.load(Ordering::Relaxed) != before {
            return Err(Fault::Stale(key));
        }
        Ok(Extent { base, length })
    }
}

fn state(generation: u32, rights: u8) -> u64 {
    u64::from(generation) << 32 | u64::from(rights)
}

/// Announces that this rank is about to access the memory of others: stores in its word at each of
/// them the next odd value. The state of their tables counts from here on.
#[inline]
pub fn enter<'m>(epochs: impl IntoIterator<Item = (&'m AtomicU64, u64)>) {
    let mut are_none = true;
    for (epoch, odd) in epochs {
        epoch.store(odd, Ordering::Relaxed);
        are_none = false;
    }
    if !are_none {
        // Orders the stores above before the loads of the tables: see the head of the file.
        fence(Ordering::SeqCst);
    }
}

/// Announces the end of the access.
#[inline]
pub fn leave(epoch: &AtomicU64, even: u64) {
    // Release: the copy comes before.
    epoch.store(even, Ordering::Release);
}

/// Peers whose accesses to a closed segment may still be running.
#[derive(Debug, Default)]
pub struct Leaving {
    inside: Vec<(Rank, u64)>,
}

impl Leaving {
    /// Lists the ranks that are within an access to this rank's memory, just after an entry was
    /// closed. `epoch` returns the epoch that a rank publishes here.
    pub fn after_retract(ranks: u32, epoch: impl Fn(Rank) -> u64) -> Leaving {
        // Orders the closed state before the loads of the epochs: see the head of the file.
        fence(Ordering::SeqCst);
        let epochs = (0..ranks).map(|rank| (rank, epoch(rank)));
        Leaving { inside: epochs.filter(|(_, epoch)| epoch % 2 == 1).collect() }
    }

    /// Removes the ranks that have finished that access or are dead. Returns one that has not.
    /// `epoch` loads with acquire order.
    pub fn wait_for(
        &mut self,
        epoch: impl Fn(Rank) -> u64,
        dead: impl Fn(Rank) -> bool,
    ) -> Option<Rank> {
        self.inside.retain(|(rank, then)| epoch(*rank) == *then && !dead(*rank));
        self.inside.first().map(|(rank, _)| *rank)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::fabric::ContextId;

    const KEY: Key = Key { context: ContextId(0), index: 0, generation: 7 };
    const EXTENT: Extent = Extent { base: 4096, length: 100 };

    #[test]
    fn cj_06_a_key_opens_only_its_registration() {
        let entry = SegmentEntry::default();
        assert_eq!(entry.check(KEY, Rights::READ), Err(Fault::NoSuchSegment(KEY)));
        entry.publish(EXTENT, 7, Rights::READ | Rights::ATOMIC);
        assert_eq!(entry.check(KEY, Rights::READ), Ok(EXTENT));
        let granted = Rights::READ | Rights::ATOMIC;
        let error = Fault::Rights { wanted: Rights::WRITE, granted };
        assert_eq!(entry.check(KEY, Rights::WRITE), Err(error));
        for generation in [0, 6, 8, u32::MAX] {
            let other = Key { generation, ..KEY };
            assert_eq!(entry.check(other, Rights::READ), Err(Fault::Stale(other)));
        }
        entry.retract(7);
        assert_eq!(entry.check(KEY, Rights::READ), Err(Fault::NoSuchSegment(KEY)));
        entry.publish(EXTENT, 8, Rights::ALL);
        assert_eq!(entry.check(KEY, Rights::READ), Err(Fault::Stale(KEY)));
    }

    #[test]
    fn cj_06_bytes_outside_the_extent_are_refused() {
        assert_eq!(EXTENT.locate(0, 100), Some(4096));
        assert_eq!(EXTENT.locate(100, 0), Some(4196));
        for (offset, length) in [(0, 101), (100, 1), (101, 0), (u64::MAX, 1), (1, u64::MAX)] {
            assert_eq!(EXTENT.locate(offset, length), None);
        }
        let invalid = Extent { base: u64::MAX - 10, length: u64::MAX };
        assert_eq!(invalid.locate(0, 11), None);
        assert_eq!(invalid.locate(11, 0), None);
    }

    #[test]
    fn only_live_ranks_inside_are_waited_for() {
        let epochs = [0, 1, 4, 7].map(AtomicU64::new);
        let epoch = |rank: Rank| epochs[rank as usize].load(Ordering::Acquire);
        let mut leaving = Leaving::after_retract(4, epoch);
        assert_eq!(leaving.wait_for(epoch, |_| false), Some(1));
        epochs[2].store(5, Ordering::Release);
        assert_eq!(leaving.wait_for(epoch, |_| false), Some(1), "who came later is refused anyway");
        epochs[1].store(3, Ordering::Release);
        assert_eq!(leaving.wait_for(epoch, |_| false), Some(3), "in another access by now");
        assert_eq!(leaving.wait_for(epoch, |rank| rank == 3), None);
    }
}
