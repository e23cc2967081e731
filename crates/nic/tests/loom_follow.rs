//! A source that moves from a shared status ring to a private one and back, under every
//! interleaving that loom can make.
//!
//! Run with `make loom`. As in `loom.rs`, the code of the rings is the production code; the steps
//! are those of `hosted/follow.rs`. A model whose owner polls the private ring at once shows why
//! the last record is needed.

#![cfg(loom)]
#![allow(clippy::unwrap_used)]

use hikyaku_nic::ring::{Poster, Slot, StatusControl, StatusRing};
use hikyaku_nic::sync::{AtomicU64, Ordering};
use hikyaku_nic::wire::{Stamp, StatusKind};
use loom::sync::Arc;
use loom::thread;

use crate::loom::model;

/// A rank's memory that sources access: a shared status ring, a private one, and their entries.
struct TwoRings {
    shared: (StatusControl, Vec<Slot>),
    private: (StatusControl, Vec<Slot>),
    entries: [AtomicU64; 2],
}

/// A source's state: the ring to which it posts.
#[derive(Default)]
struct Source {
    is_private: bool,
    poster: Poster,
    time: u64,
}

impl TwoRings {
    fn new() -> Arc<TwoRings> {
        let ring =
            |slots| (StatusControl::default(), (0..slots).map(|_| Slot::default()).collect());
        Arc::new(TwoRings { shared: ring(8), private: ring(4), entries: Default::default() })
    }

    fn ring(&self, is_private: bool) -> StatusRing<'_> {
        let (control, slots) = if is_private { &self.private } else { &self.shared };
        StatusRing::new(control, slots, if is_private { 1 } else { 2 })
    }

    fn publish(&self, rank: u32, source: &mut Source, kind: StatusKind, number: u64) {
        let ring = self.ring(source.is_private);
        assert!(ring.has_room(&mut source.poster));
        let index = ring.reserve(&mut source.poster);
        source.time += 1;
        ring.publish(index, kind, 0, 0, rank, &[number, source.time]);
    }

    /// One post, to the ring that the table names.
    fn post(&self, rank: u32, source: &mut Source, number: u64) {
        let is_private = self.entries[rank as usize].load(Ordering::Acquire) != 0;
        if is_private != source.is_private {
            self.publish(rank, source, StatusKind::Moved, 0);
            let head = self.ring(is_private).head();
            (source.is_private, source.poster) = (is_private, Poster { posted: head, head });
        }
        self.publish(rank, source, StatusKind::Inline, number);
    }

    fn give(&self, rank: u32, head: u64) {
        self.ring(true).free(head);
        self.entries[rank as usize].store(1, Ordering::Release);
    }
}

/// The owner's side.
struct Owner<'m> {
    memory: &'m TwoRings,
    heads: [u64; 2],
    /// The source to which the private ring is assigned.
    owner: Option<u32>,
    is_open: bool,
    last: [u64; 2],
    got: u64,
}

impl<'m> Owner<'m> {
    fn new(memory: &'m TwoRings) -> Owner<'m> {
        memory.give(0, 0);
        Owner { memory, heads: [0; 2], owner: Some(0), is_open: false, last: [0; 2], got: 0 }
    }

    /// Takes the next record of the shared ring or, if `both`, the earlier one of the two rings'
    /// records. Each source's records come in order.
    fn take(&mut self, both: bool) -> bool {
        let time = |is_private: bool| {
            let (ring, head) = (self.memory.ring(is_private), self.heads[usize::from(is_private)]);
            ring.peek(head).map(|stamp| (ring.word(head, 2), is_private, stamp))
        };
        // In this order, so that records that precede one of the shared ring are seen.
        let shared = time(false);
        let private = if both { time(true) } else { None };
        let first = shared.into_iter().chain(private).min_by_key(|(time, _, _)| *time);
        let Some((_, is_private, stamp)) = first else { return false };
        let head = &mut self.heads[usize::from(is_private)];
        let number = self.memory.ring(is_private).word(*head, 1);
        *head += 1;
        self.note(stamp, number, is_private);
        true
    }

    fn note(&mut self, stamp: Stamp, number: u64, is_private: bool) {
        let source = stamp.source();
        if stamp.kind() == Some(StatusKind::Moved) {
            assert_eq!(self.owner, Some(source));
            self.is_open = !is_private;
            if is_private {
                self.owner = None;
            }
            return;
        }
        let last = &mut self.last[source as usize];
        assert_eq!(*last + 1, number, "of {source}");
        *last = number;
        self.got += 1;
    }

    /// Reads records until `count` messages have come. `at_once`: polls both rings, regardless of
    /// the records.
    fn take_all(&mut self, count: u64, at_once: bool) {
        while self.got < count {
            if !self.take(at_once || self.is_open) {
                thread::yield_now();
            }
        }
    }
}

/// Source 0 posts twice while it is assigned the private ring; source 1 posts once meanwhile.
fn follow_beside_another(at_once: bool) {
    model(move || {
        let memory = TwoRings::new();
        let sources: Vec<_> = [2, 1]
            .into_iter()
            .enumerate()
            .map(|(rank, count)| {
                let memory = Arc::clone(&memory);
                thread::spawn(move || {
                    let mut source = Source::default();
                    if rank == 0 {
                        // Its first record is in the shared ring, before or after the other's.
                        memory.publish(0, &mut source, StatusKind::Inline, 1);
                    }
                    (1 + u64::from(rank == 0)..=count)
                        .for_each(|number| memory.post(rank as u32, &mut source, number));
                })
            })
            .collect();
        Owner::new(&memory).take_all(3, at_once);
        sources.into_iter().for_each(|source| source.join().unwrap());
    });
}

#[test]
fn ip_13_a_source_that_moves_overtakes_nothing_of_its_own() {
    follow_beside_another(false);
}

#[test]
#[should_panic]
fn a_ring_that_is_read_too_early_is_detected() {
    follow_beside_another(true);
}

/// The private ring goes from source 0 to source 1 while both post.
#[test]
fn ip_13_a_status_ring_has_one_source_at_a_time() {
    model(|| {
        let memory = TwoRings::new();
        let mut owner = Owner::new(&memory);
        let mut first = Source::default();
        memory.post(0, &mut first, 1);
        owner.take_all(1, false);
        assert!(owner.is_open);
        let old = {
            let memory = Arc::clone(&memory);
            thread::spawn(move || memory.post(0, &mut first, 2))
        };
        let new = {
            let memory = Arc::clone(&memory);
            thread::spawn(move || {
                let mut second = Source::default();
                (1..=2).for_each(|number| memory.post(1, &mut second, number));
            })
        };
        memory.entries[0].store(0, Ordering::Release);
        while owner.got < 4 {
            let before = owner.got;
            owner.take_all(before + 1, false);
            if owner.owner.is_none() {
                owner.owner = Some(1);
                memory.give(1, owner.heads[1]);
            }
        }
        old.join().unwrap();
        new.join().unwrap();
    });
}
