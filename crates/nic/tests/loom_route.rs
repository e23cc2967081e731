//! A private landing ring that is reassigned from one source to another, under every interleaving
//! that loom can make.
//!
//! Run with `make loom`. As in `loom.rs` the code is the production code and each payload byte is a
//! checked cell; the steps are those of `hosted/route.rs` and `hosted/send.rs`. A model without the
//! barrier shows why it is needed.

#![cfg(loom)]
#![allow(clippy::unwrap_used)]

use hikyaku_nic::fabric::FullPolicy;
use hikyaku_nic::ring::{Bytes, GRANULE, LandingRing, LongStores, RingControl};
use hikyaku_nic::sync::{AtomicU64, Ordering, UnsafeCell, fence};
use loom::sync::Arc;
use loom::thread;

use crate::loom::model;

/// The ring that is reassigned from source 0 to source 1, and another.
const GIVEN: u64 = 0;
const OTHER: u64 = 1;

/// One rank's private landing ring, and for two sources their entries in its table and their
/// epochs.
struct GivenRing {
    control: RingControl,
    cells: Vec<UnsafeCell<u8>>,
    entries: [AtomicU64; 2],
    epochs: [AtomicU64; 2],
    /// Whether source and owner execute their barrier.
    has_barrier: bool,
}

// SAFETY: loom checks the cells: a racing access fails the model.
unsafe impl Sync for GivenRing {}

// SAFETY: as for Sync.
unsafe impl Send for GivenRing {}

impl GivenRing {
    fn new(has_barrier: bool) -> Arc<GivenRing> {
        let control = RingControl::default();
        control.set_up(false, FullPolicy::Stall);
        Arc::new(GivenRing {
            control,
            cells: (0..4 * GRANULE).map(|_| UnsafeCell::new(0)).collect(),
            entries: [AtomicU64::new(GIVEN), AtomicU64::new(OTHER)],
            epochs: Default::default(),
            has_barrier,
        })
    }

    fn ring(&self) -> LandingRing<'_> {
        LandingRing::new(&self.control, Bytes::from_cells(&self.cells))
    }

    fn barrier(&self) {
        if self.has_barrier {
            fence(Ordering::SeqCst);
        }
    }

    /// Makes one post. Returns its position in the reassigned ring, if it has landed there.
    fn post(&self, source: usize, number: u64) -> Option<u64> {
        self.epochs[source].store(2 * number + 1, Ordering::Relaxed);
        self.barrier();
        let landed = (self.entries[source].load(Ordering::Acquire) == GIVEN).then(|| {
            let ring = self.ring();
            let claim = ring.claim(1, 1, &mut 0).expect("there is room for all");
            ring.store(claim, &[source as u8 + 1], LongStores::Cached);
            ring.commit(claim);
            claim.position
        });
        self.epochs[source].store(2 * number + 2, Ordering::Release);
        landed
    }

    /// Redirects source 0, and assigns its ring to source 1 once that has settled.
    fn give(&self) {
        self.entries[0].store(OTHER, Ordering::Release);
        self.barrier();
        let epoch = || self.epochs[0].load(Ordering::Acquire);
        let seen = epoch();
        while seen % 2 == 1 && epoch() == seen {
            thread::yield_now();
        }
        self.entries[1].store(GIVEN, Ordering::Release);
    }
}

/// The old source posts twice during the reassignment, and the new source once, into the ring.
fn give_while_both_post(has_barrier: bool) {
    model(move || {
        let memory = GivenRing::new(has_barrier);
        let old = {
            let memory = Arc::clone(&memory);
            thread::spawn(move || [memory.post(0, 0), memory.post(0, 1)])
        };
        let new = {
            let memory = Arc::clone(&memory);
            thread::spawn(move || memory.post(1, 0))
        };
        memory.give();
        let before = old.join().unwrap();
        let beside = new.join().unwrap();
        let after = memory.post(1, 1);
        assert!(after.is_some(), "the ring is the new source's");
        let mut places: Vec<u64> = before.into_iter().chain([beside, after]).flatten().collect();
        let tail = memory.ring().tail();
        assert_eq!(tail, places.len() as u64 * GRANULE, "nothing is claimed twice");
        places.dedup();
        assert_eq!(tail, places.len() as u64 * GRANULE, "nothing lies on another");
    });
}

#[test]
fn ip_13_a_private_ring_has_one_source_at_a_time() {
    give_while_both_post(true);
}

#[test]
#[should_panic]
fn giving_a_ring_without_the_barrier_is_detected() {
    give_while_both_post(false);
}
