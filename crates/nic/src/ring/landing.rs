//! The landing ring: receiver-owned bytes that senders' interfaces fill (paper 000 §3).
//!
//! ```text
//!              head                 tail / reserved
//!   ......freed|####landed, unread###|.........free.........|
//!               ◄──────────── at most `size` ───────────────►
//! ```
//!
//! An AMT entry manages one such ring. A *private* ring accepts the messages of one source, which
//! reserves by a plain store; a *shared* ring accepts those of several, which reserve by
//! compare-and-swap. Either way the tail that the owner can read moves only after the payload is
//! written (IP-05). The paper's interface is one engine with one pointer; here several senders play
//! it at once, so "claimed up to" and "landed" are two words. While several land at once the tail
//! is a count of bytes landed; records carry their positions.
//!
//! A payload may wrap: it is stored in two pieces (IP-22).

use crate::fabric::FullPolicy;
use crate::ring::{Bytes, GRANULE, LongStores};
use crate::sync::{AtomicU64, Line, Ordering, prefetch_for_read};

/// The owner's settings of a ring, which senders may trust.
#[derive(Debug, Default)]
struct RingSetup {
    /// Bit 0: shared; set before the job starts. Bit 1: refuses when full.
    flags: AtomicU64,
}

/// The pointers of one landing ring in shared memory: the AMT entry. All zero is an empty, private,
/// stalling ring.
#[derive(Debug, Default)]
#[repr(C)]
pub struct RingControl {
    setup: Line<RingSetup>,
    sender: Line<SenderPointers>,
    head: Line<AtomicU64>,
    full: Line<FullCounters>,
}

/// Written by the interfaces that land messages.
#[derive(Debug, Default)]
struct SenderPointers {
    /// Bytes ever claimed.
    reserved: AtomicU64,
    /// Bytes ever landed.
    tail: AtomicU64,
}

/// Written by senders that found no room.
#[derive(Debug, Default)]
struct FullCounters {
    stalls: AtomicU64,
    refusals: AtomicU64,
}

/// Limit of attempts to claim in a shared ring. Each failure is another sender's success: this many
/// mean that a process overwrites the pointer all the time. Then the ring counts as full.
const TRIES: u32 = 1 << 16;

const SHARED: u64 = 1;
const REFUSES: u64 = 2;

impl RingControl {
    /// Sets the kind of the ring, before any sender can reach it.
    pub fn set_up(&self, shared: bool, policy: FullPolicy) {
        let refuses = if policy == FullPolicy::Refuse { REFUSES } else { 0 };
        let flags = refuses | if shared { SHARED } else { 0 };
        self.setup.flags.store(flags, Ordering::Release);
    }
}

/// A sender's reservation: bytes of a ring that only it may fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// Free-running position of the first byte.
    pub position: u64,
    /// Payload bytes to store there.
    pub length: u32,
}

impl Claim {
    /// The bytes that it occupies: the payload rounded up to whole granules.
    #[inline]
    pub fn span(&self) -> u64 {
        span_of(u64::from(self.length))
    }
}

/// The ring space for `length` payload bytes.
#[inline]
pub fn span_of(length: u64) -> u64 {
    length.next_multiple_of(GRANULE)
}

/// A landing ring over shared memory. A view: cheap to copy, owns nothing.
#[derive(Debug, Clone, Copy)]
pub struct LandingRing<'m> {
    control: &'m RingControl,
    bytes: Bytes<'m>,
}

impl<'m> LandingRing<'m> {
    /// A ring over `bytes` (a power of two, at least one granule).
    #[inline]
    pub fn new(control: &'m RingControl, bytes: Bytes<'m>) -> LandingRing<'m> {
        debug_assert!(bytes.size().is_power_of_two() && bytes.size() as u64 >= GRANULE);
        LandingRing { control, bytes }
    }

    /// Capacity, bytes.
    #[inline]
    pub fn size(&self) -> u64 {
        self.bytes.size() as u64
    }

    /// Whether several sources may land here.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.control.setup.flags.load(Ordering::Relaxed) & SHARED != 0
    }

    /// The policy when the ring is full.
    pub fn policy(&self) -> FullPolicy {
        match self.control.setup.flags.load(Ordering::Relaxed) & REFUSES {
            0 => FullPolicy::Stall,
            _ => FullPolicy::Refuse,
        }
    }

    /// Sets the policy when the ring is full. For its owner, once the job has started.
    pub fn set_policy(&self, policy: FullPolicy) {
        self.control.set_up(self.is_shared(), policy);
    }

    /// Claims room for `least` to `most` payload bytes, as many as fit. `cached_head` is the
    /// caller's last view of the head. `None`: not even `least` bytes fit now.
    #[inline]
    pub fn claim(&self, least: u32, most: u32, cached_head: &mut u64) -> Option<Claim> {
        let pointers = &self.control.sender;
        let mut reserved = pointers.reserved.load(Ordering::Relaxed);
        for _ in 0..TRIES {
            let mut room = self.room(reserved, *cached_head);
            if room < span_of(u64::from(most)) {
                // Acquire: the receiver's reads of freed bytes come before our stores.
                *cached_head = self.control.head.load(Ordering::Acquire);
                room = self.room(reserved, *cached_head);
            }
            if room < span_of(u64::from(least)) {
                // The head may be ahead of claims not seen yet. Compared with the newest claims,
                // the ring may have room after all.
                let now = pointers.reserved.load(Ordering::Relaxed);
                if now == reserved {
                    return None;
                }
                reserved = now;
                continue;
            }
            let length = u64::from(most).min(room) as u32;
            let claim = Claim { position: reserved, length };
            let end = reserved.wrapping_add(claim.span());
            if !self.is_shared() {
                // The source of a private ring is its only writer. Release: as below.
                pointers.reserved.store(end, Ordering::Release);
                return Some(claim);
            }
            // Release: the source's epoch (see `segment::SenderLine`) is odd before the claim is
            // visible, so a repair never takes a live source's claim for a dead one's.
            match pointers.reserved.compare_exchange_weak(
                reserved,
                end,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(claim),
                Err(now) => reserved = now,
            }
        }
        None
    }

    /// Stores the payload of a claim, in two pieces where the ring ends.
    #[inline]
    pub fn store(&self, claim: Claim, payload: &[u8], way: LongStores) {
        debug_assert_eq!(payload.len(), claim.length as usize);
        let at = self.index(claim.position);
        let (first, second) = payload.split_at(payload.len().min(self.bytes.size() - at));
        self.bytes.store(at, first, way);
        if !second.is_empty() {
            self.bytes.store(0, second, way);
        }
    }

    /// Advances the tail past a claim whose payload is stored.
    #[inline]
    pub fn commit(&self, claim: Claim) {
        let tail = &self.control.sender.tail;
        // Release: a host that reads the tail sees the payload before it (IP-05).
        if self.is_shared() {
            tail.fetch_add(claim.span(), Ordering::Release);
        } else {
            tail.store(claim.position.wrapping_add(claim.span()), Ordering::Release);
        }
    }

    /// Prefetches `lines` lines from `position` on, for reading.
    #[inline]
    pub fn prefetch(&self, position: u64, lines: u64) {
        for line in 0..lines {
            let at = self.index(position.wrapping_add(line * GRANULE));
            prefetch_for_read(self.bytes.address(at));
        }
    }

    /// Copies landed bytes from `position` on to `into`.
    #[inline]
    pub fn load(&self, position: u64, into: &mut [u8]) {
        debug_assert!(into.len() as u64 <= self.size());
        let at = self.index(position);
        let split = into.len().min(self.bytes.size() - at);
        let (first, second) = into.split_at_mut(split);
        self.bytes.load(at, first);
        if !second.is_empty() {
            self.bytes.load(0, second);
        }
    }

    /// Publishes to the senders that everything before `head` has been read.
    #[inline]
    pub fn free(&self, head: u64) {
        self.control.head.store(head, Ordering::Release);
    }

    /// Bytes ever freed.
    pub fn head(&self) -> u64 {
        self.control.head.load(Ordering::Acquire)
    }

    /// Bytes ever landed.
    pub fn tail(&self) -> u64 {
        self.control.sender.tail.load(Ordering::Acquire)
    }

    /// Bytes ever claimed.
    pub fn reserved(&self) -> u64 {
        self.control.sender.reserved.load(Ordering::Acquire)
    }

    /// Counts a post that found no room.
    pub fn count_full(&self, policy: FullPolicy) {
        let counters = &self.control.full;
        match policy {
            FullPolicy::Stall => counters.stalls.fetch_add(1, Ordering::Relaxed),
            FullPolicy::Refuse => counters.refusals.fetch_add(1, Ordering::Relaxed),
        };
    }

    /// The numbers of posts that waited and of posts that were refused, so far.
    pub fn full(&self) -> (u64, u64) {
        let counters = &self.control.full;
        (counters.stalls.load(Ordering::Relaxed), counters.refusals.load(Ordering::Relaxed))
    }

    #[inline]
    fn room(&self, reserved: u64, head: u64) -> u64 {
        // A head ahead of the claims, or further behind than the ring's length, was written by a
        // broken peer: then there is no room.
        self.size().saturating_sub(reserved.wrapping_sub(head))
    }

    #[inline]
    fn index(&self, position: u64) -> usize {
        (position & (self.size() - 1)) as usize
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::ptr::NonNull;

    use super::*;

    /// A ring of `size` bytes over memory of its own, for one test.
    fn ring(control: &RingControl, size: usize) -> LandingRing<'_> {
        let memory: &'static mut [u8] = Box::leak(vec![0; size].into_boxed_slice());
        // SAFETY: the bytes were leaked: they stay mapped and writable, and are used here only.
        let bytes = unsafe { Bytes::new(NonNull::from(memory).cast(), size) };
        LandingRing::new(control, bytes)
    }

    #[test]
    fn a_claim_is_whole_granules_within_bounds() {
        for shared in [false, true] {
            let control = RingControl::default();
            control.set_up(shared, FullPolicy::Stall);
            let ring = ring(&control, 512);
            let mut head = 0;
            assert_eq!(ring.claim(1, 100, &mut head), Some(Claim { position: 0, length: 100 }));
            assert_eq!(ring.claim(1, 1, &mut head), Some(Claim { position: 128, length: 1 }));
            assert_eq!(ring.claim(1, 900, &mut head), Some(Claim { position: 192, length: 320 }));
            assert_eq!(ring.claim(1, 1, &mut head), None, "full");
            assert_eq!(ring.reserved(), 512);
            ring.free(128);
            assert_eq!(ring.claim(129, 900, &mut head), None, "less room than the least");
            assert_eq!(ring.claim(128, 900, &mut head), Some(Claim { position: 512, length: 128 }));
            assert_eq!(head, 128);
        }
    }

    #[test]
    fn ip_05_the_tail_moves_at_the_commit() {
        let control = RingControl::default();
        let ring = ring(&control, 256);
        let claim = ring.claim(65, 65, &mut 0).unwrap();
        assert_eq!((ring.reserved(), ring.tail()), (128, 0));
        ring.store(claim, &[7; 65], LongStores::Cached);
        assert_eq!(ring.tail(), 0);
        ring.commit(claim);
        assert_eq!(ring.tail(), 128);
    }

    #[test]
    fn ip_22_a_payload_wraps_in_two_pieces() {
        for start in (0..512).step_by(64) {
            let control = RingControl::default();
            let ring = ring(&control, 512);
            let mut head = 0;
            if start > 0 {
                ring.claim(start, start, &mut head).unwrap();
                ring.free(u64::from(start));
            }
            let payload: Vec<u8> = (0..512).map(|n| (n % 251) as u8).collect();
            let claim = ring.claim(512, 512, &mut head).unwrap();
            ring.store(claim, &payload, LongStores::Cached);
            let mut whole = vec![0; 512];
            ring.load(claim.position, &mut whole);
            assert_eq!(whole, payload);
            let mut middle = [0; 300];
            ring.load(claim.position + 101, &mut middle);
            assert_eq!(middle, payload[101..401]);
        }
    }

    #[test]
    fn an_invalid_head_leaves_no_room() {
        let control = RingControl::default();
        let ring = ring(&control, 256);
        ring.claim(256, 256, &mut 0).unwrap();
        for head in [u64::MAX, 257, 1 << 63, 256_u64.wrapping_neg()] {
            ring.free(head);
            assert_eq!(ring.claim(1, 1, &mut 0), None, "head {head}");
        }
        ring.free(256);
        assert!(ring.claim(256, 256, &mut 0).is_some());
    }

    #[test]
    fn full_posts_are_counted_by_policy() {
        for (policy, expected) in [(FullPolicy::Stall, (2, 0)), (FullPolicy::Refuse, (0, 2))] {
            let control = RingControl::default();
            control.set_up(true, policy);
            let ring = ring(&control, 64);
            assert_eq!((ring.policy(), ring.is_shared()), (policy, true));
            ring.count_full(policy);
            ring.count_full(policy);
            assert_eq!(ring.full(), expected);
        }
    }
}
