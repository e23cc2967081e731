//! The tables under every interleaving that loom can make: a segment deregistered, a registration
//! replaced, places reserved through an address register.
//!
//! Run with `make loom`. As in `loom.rs` the code is the production code, the memory of a segment
//! is a checked cell, and a model without the fences shows why they are needed.

#![cfg(loom)]
#![allow(clippy::unwrap_used)]

use hikyaku_nic::fabric::{Advance, ContextId, Fault, Key, Rank, RegisterValue, Rights};
use hikyaku_nic::sync::{AtomicU64, Ordering, UnsafeCell};
use hikyaku_nic::table::{
    ContextBook, ContextLine, Extent, Leaving, PutRefusal, SegmentEntry, SharedContexts, segment,
};
use loom::sync::Arc;
use loom::thread;

use crate::loom::model;

/// One rank's tables and one byte of its memory.
struct SharedTables {
    line: ContextLine,
    entries: [SegmentEntry; 2],
    epochs: [AtomicU64; 3],
    byte: UnsafeCell<u8>,
}

// SAFETY: loom checks the cell: a racing access fails the model.
unsafe impl Sync for SharedTables {}

// SAFETY: as for Sync.
unsafe impl Send for SharedTables {}

const CONTEXT: ContextId = ContextId(0);

impl SharedTables {
    fn new() -> Arc<SharedTables> {
        Arc::new(SharedTables {
            line: ContextLine::default(),
            entries: Default::default(),
            epochs: Default::default(),
            byte: UnsafeCell::new(0),
        })
    }

    /// Writes the byte as `rank`, `times` times, if the key still grants access. Returns how often.
    fn put(&self, rank: usize, key: Key, times: usize) -> usize {
        segment::enter([(&self.epochs[rank], 1)]);
        let opens = |_: &usize| self.entries[0].check(key, Rights::WRITE).is_ok();
        let written = (0..times).filter(opens).map(|_| self.write(rank as u8)).count();
        segment::leave(&self.epochs[rank], 2);
        written
    }

    fn write(&self, value: u8) {
        // SAFETY: loom hands out a valid pointer and fails the model on a racing access.
        self.byte.with_mut(|place| unsafe { *place = value });
    }

    /// Deregisters the segment as the owner does, and uses its memory.
    fn take_back(&self) {
        self.entries[0].retract(1);
        let mut leaving = Leaving::after_retract(self.ranks(), |rank| self.epoch(rank));
        while leaving.wait_for(|rank| self.epoch(rank), |_| false).is_some() {
            thread::yield_now();
        }
        self.write(0xff);
    }
}

impl SharedContexts for SharedTables {
    fn line(&self, _context: ContextId) -> &ContextLine {
        &self.line
    }

    fn entry(&self, _context: ContextId, index: u8) -> &SegmentEntry {
        &self.entries[usize::from(index)]
    }

    fn epoch(&self, rank: Rank) -> u64 {
        self.epochs[rank as usize].load(Ordering::Acquire)
    }

    fn ranks(&self) -> u32 {
        self.epochs.len() as u32
    }
}

fn key(generation: u32) -> Key {
    Key { context: CONTEXT, index: 0, generation }
}

const EXTENT: Extent = Extent { base: 0, length: 1 };

#[test]
fn a_segment_taken_back_is_the_owners_alone() {
    // A put, and a chain of two.
    for times in [1, 2] {
        model(move || {
            let memory = SharedTables::new();
            memory.entries[0].publish(EXTENT, 1, Rights::ALL);
            let peer = {
                let memory = Arc::clone(&memory);
                thread::spawn(move || memory.put(1, key(1), times))
            };
            memory.take_back();
            peer.join().unwrap();
            assert_eq!(memory.put(2, key(1), 1), 0, "nobody gets in afterwards");
        });
    }
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_put_without_its_fence_is_detected() {
    model(|| {
        let memory = SharedTables::new();
        memory.entries[0].publish(EXTENT, 1, Rights::ALL);
        let peer = {
            let memory = Arc::clone(&memory);
            thread::spawn(move || {
                // `enter` without its fence.
                memory.epochs[1].store(1, Ordering::Relaxed);
                if memory.entries[0].check(key(1), Rights::WRITE).is_ok() {
                    memory.write(1);
                }
                segment::leave(&memory.epochs[1], 2);
            })
        };
        memory.take_back();
        peer.join().unwrap();
    });
}

#[test]
fn a_registration_is_seen_whole_or_not() {
    model(|| {
        let memory = SharedTables::new();
        let extent = |generation| Extent { base: generation, length: 10 * generation };
        memory.entries[0].publish(extent(1), 1, Rights::ALL);
        let peer = {
            let memory = Arc::clone(&memory);
            thread::spawn(move || {
                for generation in [1, 2] {
                    match memory.entries[0].check(key(generation), Rights::READ) {
                        Ok(found) => assert_eq!(found, extent(u64::from(generation))),
                        Err(Fault::NoSuchSegment(_) | Fault::Stale(_)) => {}
                        Err(other) => panic!("{other}"),
                    }
                }
            })
        };
        memory.entries[0].retract(1);
        memory.entries[0].publish(extent(2), 2, Rights::ALL);
        peer.join().unwrap();
    });
}

/// An open context with two segments of two bytes; a register points to the first and advances.
fn registers(memory: &SharedTables) -> (ContextBook, [Key; 2], Key) {
    let mut book = ContextBook::new(1, 2);
    assert_eq!(book.open(memory), Ok(CONTEXT));
    let mut segment = |base| {
        let extent = Extent { base, length: 2 };
        book.register(CONTEXT, extent, Rights::WRITE, memory).unwrap()
    };
    let segments = [segment(0), segment(100)];
    book.set_register(CONTEXT, 0, Some(advancing(segments[0])), memory).unwrap();
    let register = book.register_key(CONTEXT, 0).unwrap();
    (book, segments, register)
}

fn advancing(segment: Key) -> RegisterValue {
    RegisterValue { segment, offset: 0, advance: Advance::ByLength }
}

/// Reserves the places of two puts of one byte, one after the other.
fn reserve_two(memory: &SharedTables, register: Key) -> [Result<u64, PutRefusal>; 2] {
    let entry = |index| memory.entries.get(usize::from(index));
    let claimed = [0, 1].map(|_| memory.line.claim(register, 0, 1, entry));
    claimed.map(|place| place.map(|place| place.in_region))
}

#[test]
fn cj_03_two_senders_reserve_different_places() {
    model(|| {
        let memory = SharedTables::new();
        let (_, _, register) = registers(&memory);
        let other = {
            let memory = Arc::clone(&memory);
            thread::spawn(move || reserve_two(&memory, register))
        };
        let mut taken = reserve_two(&memory, register).to_vec();
        taken.extend(other.join().unwrap());
        let mut places: Vec<u64> = taken.iter().filter_map(|place| place.ok()).collect();
        places.sort_unstable();
        assert_eq!(places, [0, 1], "each place once");
        let full = |place: &&Result<u64, PutRefusal>| **place == Err(PutRefusal::OutOfBounds(2));
        assert_eq!(taken.iter().filter(full).count(), 2, "and then it is full");
    });
}

// Only one sender: two senders that retry while the owner is in the middle of a setting form an
// endless schedule that only a fair scheduler excludes.
#[test]
fn cj_03_a_place_belongs_to_one_setting() {
    model(|| {
        let memory = SharedTables::new();
        let (mut book, [_, new], register) = registers(&memory);
        let sender = {
            let memory = Arc::clone(&memory);
            thread::spawn(move || reserve_two(&memory, register))
        };
        book.set_register(CONTEXT, 0, Some(advancing(new)), &*memory).unwrap();
        let places = sender.join().unwrap().map(|place| place.unwrap());
        assert!(matches!(places, [0, 1] | [0, 100] | [100, 101]), "{places:?}");
        let taken = places.iter().filter(|place| **place >= 100).count() as u64;
        let now = memory.line.get(CONTEXT, 0).unwrap();
        assert_eq!((now.segment, now.offset), (new, taken), "the new setting counts its own");
    });
}
