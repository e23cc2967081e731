//! Shared control lines and multicast areas under every interleaving that loom can make.
//!
//! Run and bounded as `loom.rs` describes. The payload is in an area of checked cells, so reusing a
//! line or a slot too early fails the model.

#![cfg(loom)]
#![allow(clippy::unwrap_used)]

use hikyaku_nic::ring::{Bytes, ControlLines, LongStores, PayloadPlace, SlotStamp};
use hikyaku_nic::sync::{AtomicU64, UnsafeCell};
use loom::sync::Arc;
use loom::thread;

use crate::loom::model;

/// The control lines and multicast areas of two members; each area has a place for each parity.
struct Pair {
    lines: [ControlLines; 2],
    areas: [Vec<UnsafeCell<u8>>; 2],
}

// SAFETY: loom checks the cells: a racing access fails the model.
unsafe impl Sync for Pair {}

// SAFETY: as for Sync.
unsafe impl Send for Pair {}

impl Pair {
    fn new() -> Arc<Pair> {
        let area = || (0..2).map(|_| UnsafeCell::new(0)).collect();
        let lines = [ControlLines::default(), ControlLines::default()];
        Arc::new(Pair { lines, areas: [area(), area()] })
    }

    /// Contributes a byte in the member's area.
    fn contribute(&self, member: usize, round: u64, byte: u8) {
        let at = round & 1;
        Bytes::from_cells(&self.areas[member]).store(at as usize, &[byte], LongStores::Cached);
        self.lines[member].enter_area(round, u64::from(byte), at, 1, 0);
    }

    /// The contribution of a member to a round, once it has arrived.
    fn wait(&self, member: usize, round: u64) -> u8 {
        loop {
            if let Some(said) = self.lines[member].look(round) {
                let PayloadPlace::Area { at, .. } = said.place else { panic!("it is in the area") };
                let mut byte = [0];
                Bytes::from_cells(&self.areas[member]).load(at as usize, &mut byte);
                assert_eq!((said.length, said.word), (1, u64::from(byte[0])));
                return byte[0];
            }
            thread::yield_now();
        }
    }

    fn await_finished(&self, member: usize, round: u64) {
        while !self.lines[member].has_finished(round) {
            thread::yield_now();
        }
    }
}

/// Both contribute to and read each round: two lines are enough, and `finished` stays unused.
#[test]
fn barrier_rounds_need_two_lines_only() {
    model(|| {
        let pair = Pair::new();
        let rounds = |pair: &Pair, own: usize| {
            for round in 1..=3 {
                pair.contribute(own, round, 10 * round as u8 + own as u8);
                assert_eq!(pair.wait(1 - own, round), 10 * round as u8 + 1 - own as u8);
            }
        };
        let other = {
            let pair = Arc::clone(&pair);
            thread::spawn(move || rounds(&pair, 1))
        };
        rounds(&pair, 0);
        other.join().unwrap();
    });
}

/// Rounds in which one member writes, and the other reads and publishes that it has.
#[test]
fn a_writer_waits_for_unfinished_readers() {
    model(|| {
        let pair = Pair::new();
        let reader = {
            let pair = Arc::clone(&pair);
            thread::spawn(move || {
                for round in 1..=3 {
                    assert_eq!(pair.wait(0, round), round as u8);
                    pair.lines[1].finish(round);
                }
            })
        };
        for round in 1..=3 {
            if round > 2 {
                pair.await_finished(1, round - 2);
            }
            pair.contribute(0, round, round as u8);
        }
        reader.join().unwrap();
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_writer_that_overtakes_its_readers_is_detected() {
    model(|| {
        let pair = Pair::new();
        let reader = {
            let pair = Arc::clone(&pair);
            // A single poll: the round may have been overwritten before.
            thread::spawn(move || {
                if pair.lines[0].is_entered(1) {
                    Bytes::from_cells(&pair.areas[0]).load(1, &mut [0]);
                }
            })
        };
        for round in 1..=3 {
            pair.contribute(0, round, round as u8);
        }
        reader.join().unwrap();
    });
}

/// A reader that then writes has finished the round before, without publishing that.
#[test]
fn entering_a_round_finishes_the_one_before() {
    model(|| {
        let pair = Pair::new();
        let other = {
            let pair = Arc::clone(&pair);
            thread::spawn(move || {
                assert_eq!(pair.wait(0, 1), 1);
                pair.contribute(1, 2, 2);
                assert_eq!(pair.wait(0, 3), 3);
            })
        };
        pair.contribute(0, 1, 1);
        // Round 2 is the other member's; this one does not read it.
        pair.await_finished(1, 1);
        pair.contribute(0, 3, 3);
        other.join().unwrap();
    });
}

/// Two mailboxes, each with a letter of one byte in each of its slots.
struct Mail {
    stamps: [[AtomicU64; 2]; 2],
    letters: [Vec<UnsafeCell<u8>>; 2],
}

// SAFETY: loom checks the cells: a racing access fails the model.
unsafe impl Sync for Mail {}

// SAFETY: as for Sync.
unsafe impl Send for Mail {}

/// Two ranks that write to each other for three rounds, in each round to the slot `slot(round)`.
fn correspond(slot: fn(u64) -> usize) {
    model(move || {
        let stamps = || [AtomicU64::new(0), AtomicU64::new(0)];
        let letters = || (0..2).map(|_| UnsafeCell::new(0)).collect();
        let stamps = [stamps(), stamps()];
        let mail = Arc::new(Mail { stamps, letters: [letters(), letters()] });
        let rounds = move |mail: &Mail, own: usize| {
            for round in 1..=3 {
                let (at, byte) = (slot(round), 10 * round as u8);
                Bytes::from_cells(&mail.letters[1 - own]).store(
                    at,
                    &[byte + own as u8],
                    LongStores::Cached,
                );
                SlotStamp(&mail.stamps[1 - own][at]).post(round);
                while !SlotStamp(&mail.stamps[own][at]).has(round) {
                    thread::yield_now();
                }
                let mut letter = [0];
                Bytes::from_cells(&mail.letters[own]).load(at, &mut letter);
                assert_eq!(letter[0], byte + 1 - own as u8);
            }
        };
        let other = {
            let mail = Arc::clone(&mail);
            thread::spawn(move || rounds(&mail, 1))
        };
        rounds(&mail, 0);
        other.join().unwrap();
    });
}

/// A rank that has the other's letter of a round may write its next letter, without other signals.
#[test]
fn two_slots_are_enough_for_an_exchange() {
    correspond(|round| (round & 1) as usize);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_single_slot_is_detected() {
    correspond(|_| 0);
}
