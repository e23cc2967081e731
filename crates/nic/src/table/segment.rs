//! The segment table: which bytes of a rank's region are open to whom has their key (paper 003
//! §4.7, CJ-06).
//!
//! An entry lies in the target's segment of shared memory, since whoever plays the target's
//! interface has to check it there. Its rank alone writes it:
//!
//! ```text
//!   state    generation (32) | 0 (24) | rights (8)     rights 0: nothing is registered
//!   base     offset in the rank's region
//!   length   bytes
//! ```
//!
//! Two races have to be ruled out.
//!
//! *Half of one, half of another.* A reader takes `state`, then `base` and `length`, then `state`
//! again, with an acquire fence before: had it seen a word of a later registration, it would also
//! see the state that came before it, so an unchanged state means words of one registration. A
//! generation is used once (2³² of them), so the same state is the same registration.
//!
//! *Taken back while somebody is in the middle.* An access is a section that its rank announces
//! by an odd epoch, and the owner waits for those it may have missed:
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
//! Of the two fences one comes first: either the accessor sees the closed state or the owner sees
//! the odd epoch. `tests/loom_table.rs` walks through it, and shows that without the fence a copy
//! into memory that was taken back is found.

use crate::fabric::{Fault, Key, Rank, Rights};
use crate::sync::{AtomicU64, Ordering, fence};

/// One entry of a segment table. All zero is an entry in which nothing was ever registered.
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
    /// Offset of the first, in the region.
    pub base: u64,
    /// How many.
    pub length: u64,
}

impl Extent {
    /// Where `length` bytes at `offset` of the extent are in the region; `None` if they are not
    /// all inside.
    #[inline]
    pub fn locate(&self, offset: u64, length: u64) -> Option<u64> {
        let end = offset.checked_add(length)?;
        if end > self.length {
            return None;
        }
        // The extent comes out of shared memory: it may be nonsense as a whole.
        self.base.checked_add(offset).filter(|at| at.checked_add(length).is_some())
    }
}

impl SegmentEntry {
    /// Opens the entry. Owner only, and only while it is closed.
    pub fn publish(&self, extent: Extent, generation: u32, rights: Rights) {
        // Who sees the new words also sees that the last registration was closed.
        fence(Ordering::Release);
        self.base.store(extent.base, Ordering::Relaxed);
        self.length.store(extent.length, Ordering::Relaxed);
        // Release: whoever finds the entry open finds its words.
        self.state.store(state(generation, rights.bits()), Ordering::Release);
    }

    /// Closes the entry. Owner only. From here on nobody new gets in; see [`Leaving`] for those
    /// who are.
    pub fn retract(&self, generation: u32) {
        self.state.store(state(generation, 0), Ordering::Release);
    }

    /// What the key opens, if it opens this entry for all of `wanted`.
    ///
    /// # Errors
    /// Nothing is registered here, something else is, or it does not allow that.
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

/// Announces that this rank is about to use another's memory: `epoch` is its own word there, and
/// `odd` its next value. What the target's table says counts from here on.
#[inline]
pub fn enter(epoch: &AtomicU64, odd: u64) {
    epoch.store(odd, Ordering::Relaxed);
    // The store above before the loads of the table: see the head of the file.
    fence(Ordering::SeqCst);
}

/// Says that it has done so.
#[inline]
pub fn leave(epoch: &AtomicU64, even: u64) {
    // Release: the copy is over before.
    epoch.store(even, Ordering::Release);
}

/// Peers that may still be in a segment that was closed.
#[derive(Debug, Default)]
pub struct Leaving {
    inside: Vec<(Rank, u64)>,
}

impl Leaving {
    /// Notes who is in the middle of an access to this rank's memory, just after an entry was
    /// closed. `epoch` answers the epoch that a rank shows here.
    pub fn after_retract(ranks: u32, epoch: impl Fn(Rank) -> u64) -> Leaving {
        // The closed state before the loads of the epochs: see the head of the file.
        fence(Ordering::SeqCst);
        let epochs = (0..ranks).map(|rank| (rank, epoch(rank)));
        Leaving { inside: epochs.filter(|(_, epoch)| epoch % 2 == 1).collect() }
    }

    /// Forgets whoever has moved on or is dead; answers one that has not. `epoch` loads with
    /// acquire order.
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
    fn cj_06_a_key_opens_its_registration_and_no_other() {
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
    fn cj_06_bytes_are_inside_the_extent_or_nowhere() {
        assert_eq!(EXTENT.locate(0, 100), Some(4096));
        assert_eq!(EXTENT.locate(100, 0), Some(4196));
        for (offset, length) in [(0, 101), (100, 1), (101, 0), (u64::MAX, 1), (1, u64::MAX)] {
            assert_eq!(EXTENT.locate(offset, length), None);
        }
        let nonsense = Extent { base: u64::MAX - 10, length: u64::MAX };
        assert_eq!(nonsense.locate(0, 11), None);
        assert_eq!(nonsense.locate(11, 0), None);
    }

    #[test]
    fn only_those_inside_are_waited_for_and_not_the_dead() {
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
