//! Random sequences against oracles too simple to be wrong, and random memory against the parts
//! that must not trust it.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;

use hikyaku_nic::fabric::{
    Command, Event, FullCause, INLINE_BYTES, Inline, Landing, Port, PostError, Rank, RingId,
    RingPort, RingSlice,
};
use hikyaku_nic::loopback::{LoopbackConfig, LoopbackPort, open};
use hikyaku_nic::region::Arena;
use hikyaku_nic::ring::{
    CommandQueue, Descriptor, GRANULE, Ledger, Overlap, QueueFull, QueuePointers, span_of,
};
use hikyaku_nic::segment::SegmentLayout;
use hikyaku_nic::wire::{MAX_RANKS, Stamp, StatusKind};
use proptest::prelude::*;

const RANKS: u32 = 3;
const PACKET: usize = 128;
const RING: u64 = 1024;
const CREDIT: u64 = 3;

/// One step of a loopback job in which ranks 1 and 2 send to rank 0.
#[derive(Debug, Clone)]
enum JobStep {
    Send { source: Rank, length: usize, credited: bool },
    Poll,
    Release(prop::sample::Index),
    Route { source: Rank, ring: RingId },
    Status { source: Rank, gives: bool, looks: bool },
    Grant { source: Rank, messages: u64 },
}

fn steps(rings: u32) -> impl Strategy<Value = Vec<JobStep>> {
    let source = 1..RANKS;
    let step = prop_oneof![
        4 => (source.clone(), 0..600usize, any::<bool>())
            .prop_map(|(source, length, credited)| JobStep::Send { source, length, credited }),
        4 => Just(JobStep::Poll),
        3 => any::<prop::sample::Index>().prop_map(JobStep::Release),
        1 => (source.clone(), 0..rings).prop_map(|(source, ring)| JobStep::Route { source, ring }),
        2 => (source.clone(), any::<bool>(), any::<bool>())
            .prop_map(|(source, gives, looks)| JobStep::Status { source, gives, looks }),
        1 => (source, 0..30u64).prop_map(|(source, messages)| JobStep::Grant { source, messages }),
    ];
    prop::collection::vec(step, 1..120)
}

/// A record that must arrive.
#[derive(Debug, PartialEq)]
struct Expected {
    source: Rank,
    header: u64,
    offset: u64,
    total: u64,
    bytes: Vec<u8>,
    ring: Option<RingId>,
}

/// The job and its expected state.
struct Oracle {
    ports: Vec<LoopbackPort>,
    /// Records that have landed, in the order of arrival.
    landed: VecDeque<Expected>,
    held: Vec<(RingSlice, Vec<u8>)>,
    /// By source: its route, its granted credit, its records.
    routes: [RingId; RANKS as usize],
    granted: [u64; RANKS as usize],
    sent: [u64; RANKS as usize],
    number: u64,
}

impl Oracle {
    /// Sources start in the first of the rings.
    fn new(first: u32, rings: u32) -> Oracle {
        let layout = SegmentLayout {
            status_rings: rings,
            status_slots: 32,
            rings,
            first_rings: first,
            ring_bytes: RING as u32,
            packet_bytes: PACKET as u32,
            credit: CREDIT as u32,
            ..SegmentLayout::for_ranks(RANKS)
        };
        let ports = open(&LoopbackConfig { layout, ..LoopbackConfig::for_ranks(RANKS) }).unwrap();
        let routes = [0, 1 % first, 2 % first];
        let (landed, held) = (VecDeque::new(), Vec::new());
        let (granted, sent) = ([CREDIT; 3], [0; 3]);
        Oracle { ports, landed, held, routes, granted, sent, number: 0 }
    }

    fn run(&mut self, step: JobStep) {
        match step {
            JobStep::Send { source, length, credited } => self.send(source, length, credited),
            JobStep::Poll => _ = self.poll(),
            JobStep::Release(index) => {
                if !self.held.is_empty() {
                    let (slice, bytes) = self.held.swap_remove(index.index(self.held.len()));
                    let mut into = vec![0; bytes.len()];
                    assert_eq!(self.ports[0].read_out(slice, &mut into), bytes.len());
                    assert_eq!(into, bytes, "held bytes stay as they were");
                }
            }
            JobStep::Route { source, ring } => {
                if self.ports[0].route(source, Some(ring)).is_ok() {
                    self.routes[source as usize] = ring;
                } else {
                    assert!(self.routes.contains(&ring), "a private ring of another source's");
                }
                assert_eq!(self.ports[0].route_of(source), Some(self.routes[source as usize]));
            }
            JobStep::Status { source, gives, looks } => {
                if !gives {
                    self.ports[0].take_status(source);
                } else if self.ports[0].shares_status(source) {
                    assert!(self.ports[0].give_status(source), "there is one for each");
                }
                if looks {
                    assert!(self.ports[source as usize].poll().is_none());
                }
            }
            JobStep::Grant { source, messages } => {
                self.ports[0].grant(source, messages);
                let granted = &mut self.granted[source as usize];
                *granted = (*granted).max(messages);
            }
        }
    }

    fn send(&mut self, source: Rank, length: usize, credited: bool) {
        let at = source as usize;
        let header = self.number;
        self.number += 1;
        let payload: Vec<u8> = (0..length).map(|n| (n as u64 * 31 + header) as u8).collect();
        let command = Command { credited, ..Command::send(0, 0, header, &payload) };
        let broke = credited && self.sent[at] >= self.granted[at];
        match self.ports[at].post(&command) {
            Ok(taken) => {
                assert!(!broke, "credit is never exceeded");
                self.sent[at] += u64::from(credited);
                self.expect(source, header, &payload, taken);
            }
            Err(PostError::Full { cause, .. }) => {
                assert_eq!(cause == FullCause::Credit, broke, "credit is told apart from room");
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Records the expected records of a post of which `taken` bytes were taken.
    fn expect(&mut self, source: Rank, header: u64, payload: &[u8], taken: usize) {
        let total = payload.len() as u64;
        let mut enter = |offset: usize, end: usize, ring| {
            let bytes = payload[offset..end].to_vec();
            let offset = offset as u64;
            self.landed.push_back(Expected { source, header, offset, total, bytes, ring });
        };
        if payload.len() <= INLINE_BYTES {
            assert_eq!(taken, payload.len(), "inline is all or nothing");
            return enter(0, taken, None);
        }
        let ring = Some(self.routes[source as usize]);
        for offset in (0..taken).step_by(PACKET) {
            enter(offset, taken.min(offset + PACKET), ring);
        }
        assert!(taken > 0 && (taken == payload.len() || taken.is_multiple_of(PACKET)));
    }

    /// Takes one event. Returns whether there was one.
    fn poll(&mut self) -> bool {
        let event = self.ports[0].poll();
        let landed = match event {
            None => {
                assert!(self.landed.is_empty(), "what has landed is there to be polled");
                return false;
            }
            Some(Event::RingFull(_) | Event::StatusFull) => return true,
            Some(Event::Landed(landed)) => landed,
            Some(other) => panic!("{other:?}"),
        };
        let (source, header, offset, total) =
            (landed.source, landed.header, landed.offset, landed.total);
        let mut bytes = vec![0; landed.len()];
        let ring = match landed.data {
            Landing::Ring(slice) => {
                self.ports[0].copy_out(&slice, 0, &mut bytes);
                let ring = slice.ring();
                self.held.push((slice, bytes.clone()));
                Some(ring)
            }
            in_records => {
                in_records.read_out(&mut self.ports[0], &mut bytes);
                None
            }
        };
        let record = Expected { source, header, offset, total, bytes, ring };
        assert_eq!(Some(record), self.landed.pop_front(), "in the order of arrival");
        true
    }

    /// Checks that claimed and unreleased bytes fit each ring, by the port's own count and by ours.
    fn check(&self, rings: u32) {
        for id in 0..rings {
            let state = self.ports[0].ring(id).unwrap();
            assert!(state.tail - state.head <= RING, "{state:?}");
            let held = self.held.iter().filter(|(slice, _)| slice.ring() == id);
            let held: u64 = held.map(|(slice, _)| span_of(slice.len() as u64)).sum();
            let queued = self.landed.iter().filter(|record| record.ring == Some(id));
            let queued: u64 = queued.map(|record| span_of(record.bytes.len() as u64)).sum();
            assert!(held + queued <= state.tail - state.head, "{held} + {queued}, {state:?}");
        }
    }

    /// Checks that after all is read and released, every source can fill its ring again.
    fn finish(&mut self, rings: u32) {
        while self.poll() {}
        self.held.drain(..).for_each(|(slice, _)| self.ports[0].release(slice));
        for source in 1..RANKS {
            for _ in 0..2 {
                self.send(source, PACKET, false);
                while self.poll() {}
                self.held.drain(..).for_each(|(slice, _)| self.ports[0].release(slice));
            }
        }
        self.check(rings);
        let sent = self.number;
        self.send(1, PACKET, false);
        assert_eq!(self.landed.back().map(|r| r.header), Some(sent), "there is room again");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn loopback_does_what_queues_would(
        (first, rings, steps) in (1..=RANKS, 0..3u32).prop_flat_map(|(first, more)| {
            let rings = if first < RANKS { first + more } else { first };
            (Just(first), Just(rings), steps(rings))
        })
    ) {
        let mut oracle = Oracle::new(first, rings);
        for step in steps {
            oracle.run(step);
            oracle.check(rings);
        }
        oracle.finish(rings);
    }
}

/// The ledger's rules over a list of intervals, in numbers that do not wrap.
#[derive(Debug, Default)]
struct Intervals {
    head: u64,
    abandoned: u64,
    /// Start, end, released.
    entries: Vec<(u64, u64, bool)>,
}

impl Intervals {
    fn announce(&mut self, start: u64, span: u64, size: u64) -> Result<(), Overlap> {
        let end = start + span;
        let inside = span > 0 && start >= self.head && end <= self.head + size;
        if !inside || self.entries.iter().any(|(s, e, _)| *s < end && start < *e) {
            return Err(Overlap);
        }
        self.entries.push((start, end, false));
        self.entries.sort_unstable();
        Ok(())
    }

    fn advance(&mut self) {
        while let Some(&(start, end, released)) = self.entries.first() {
            if start == self.head && released {
                self.head = end;
                self.entries.remove(0);
            } else if start > self.head && start <= self.abandoned {
                self.head = start;
            } else {
                return;
            }
        }
        self.head = self.head.max(self.abandoned);
    }
}

#[derive(Debug, Clone)]
enum LedgerStep {
    Announce { ahead: u64, span: u64 },
    Release(prop::sample::Index),
    Abandon { ahead: u64 },
}

fn entries() -> impl Strategy<Value = Vec<LedgerStep>> {
    // In granules; a ring has 16, and some of the requests are beyond it.
    let entry = prop_oneof![
        5 => (0..18u64, 0..6u64).prop_map(|(ahead, span)| LedgerStep::Announce { ahead, span }),
        4 => any::<prop::sample::Index>().prop_map(LedgerStep::Release),
        1 => (0..17u64).prop_map(|ahead| LedgerStep::Abandon { ahead }),
    ];
    prop::collection::vec(entry, 0..80)
}

proptest! {
    #[test]
    fn a_ledger_is_a_list_of_intervals(entries in entries(), lines in 0..40u64) {
        const SIZE: u64 = 16 * GRANULE;
        // The real ledger starts before the end of 64 bits, the naive one at zero.
        let base = (lines * GRANULE).wrapping_neg();
        let mut ledger = Ledger::new(SIZE, base);
        let mut naive = Intervals::default();
        for entry in entries {
            let before = naive.head;
            match entry {
                LedgerStep::Announce { ahead, span } => {
                    let (start, span) = (naive.head + ahead * GRANULE, span * GRANULE);
                    let answer = ledger.announce(base.wrapping_add(start), span);
                    prop_assert_eq!(answer, naive.announce(start, span, SIZE));
                }
                LedgerStep::Release(index) => {
                    let open: Vec<_> = naive.entries.iter().filter(|e| !e.2).map(|e| e.0).collect();
                    if open.is_empty() {
                        continue;
                    }
                    let start = open[index.index(open.len())];
                    let moved = ledger.release(base.wrapping_add(start));
                    naive.entries.iter_mut().filter(|e| e.0 == start).for_each(|e| e.2 = true);
                    if naive.entries[0].0 == start {
                        naive.advance();
                    }
                    prop_assert_eq!(moved, naive.head != before);
                }
                LedgerStep::Abandon { ahead } => {
                    let position = naive.head + ahead * GRANULE;
                    let moved = ledger.abandon(base.wrapping_add(position));
                    if position <= naive.head + SIZE {
                        naive.abandoned = position;
                    }
                    naive.advance();
                    prop_assert_eq!(moved, naive.head != before);
                }
            }
            prop_assert_eq!(ledger.head().wrapping_sub(base), naive.head);
        }
    }

    #[test]
    fn an_arena_is_a_bitmap(steps in prop::collection::vec((any::<bool>(), 1..700u64), 0..80)) {
        const UNITS: usize = 40;
        let mut arena = Arena::new(UNITS as u64 * 64, 64);
        let mut taken = [false; UNITS];
        let mut held: Vec<(u64, u64)> = Vec::new();
        for (take, bytes) in steps {
            let units = bytes.div_ceil(64) as usize;
            if take {
                let free = |at: &usize| taken[*at..at + units].iter().all(|unit| !unit);
                let first = (0..=UNITS - units).find(free);
                let answer = arena.take(bytes).ok();
                prop_assert_eq!(answer, first.map(|at| at as u64 * 64), "the first that fits");
                if let Some(at) = first {
                    taken[at..at + units].fill(true);
                    held.push((at as u64 * 64, bytes));
                }
            } else if !held.is_empty() {
                let (start, bytes) = held.swap_remove(bytes as usize % held.len());
                let (at, units) = ((start / 64) as usize, bytes.div_ceil(64) as usize);
                taken[at..at + units].fill(false);
                arena.give(start, bytes);
            }
        }
    }

    #[test]
    fn a_stamp_reads_as_written(
        lap in any::<u16>(),
        kind in 0..5usize,
        protocol in any::<u8>(),
        length in any::<u8>(),
        source in 0..MAX_RANKS,
    ) {
        let some = [StatusKind::Inline, StatusKind::Ring, StatusKind::Put];
        let kind = *some.get(kind).unwrap_or(&[StatusKind::Void, StatusKind::Moved][kind % 2]);
        let stamp = Stamp::new(lap, kind, protocol, length, source);
        prop_assert_eq!((stamp.lap(), stamp.kind()), (lap, Some(kind)));
        prop_assert_eq!((stamp.protocol(), stamp.length()), (protocol, length));
        prop_assert_eq!(stamp.source(), source);
    }

    #[test]
    fn an_inline_payload_gives_back_what_went_in(
        bytes in prop::collection::vec(any::<u8>(), 0..2 * INLINE_BYTES),
        room in 0..2 * INLINE_BYTES,
    ) {
        let Some(inline) = Inline::new(&bytes) else {
            prop_assert!(bytes.len() > INLINE_BYTES);
            return Ok(());
        };
        prop_assert_eq!(inline.len(), bytes.len());
        let mut into = vec![0xcc; room];
        let copied = inline.copy_to(&mut into);
        prop_assert_eq!(copied, room.min(bytes.len()));
        prop_assert_eq!(&into[..copied], &bytes[..copied]);
        prop_assert!(into[copied..].iter().all(|byte| *byte == 0xcc));
    }

    #[test]
    fn a_command_queue_is_a_queue(
        session in any::<bool>(),
        steps in prop::collection::vec((0..3u8, 0..6usize), 0..100),
    ) {
        const SLOTS: usize = 4;
        let pointers = QueuePointers::default();
        let slots: Vec<_> = (0..SLOTS).map(|_| Default::default()).collect();
        let queue = CommandQueue::new(&pointers, &slots, session);
        let mut naive: VecDeque<Descriptor> = VecDeque::new();
        let (mut number, mut runs, mut released) = (0, 0, 0);
        for (step, count) in steps {
            match step {
                0 => {
                    let command = |n| Descriptor([number + n; 8]);
                    let chain: Vec<_> = (0..count as u64).map(command).collect();
                    let free = SLOTS - naive.len();
                    let full = QueueFull { free: free as u64, wanted: count as u64 };
                    let expected = if count > free { Err(full) } else { Ok(()) };
                    prop_assert_eq!(queue.write(&chain), expected);
                    if expected.is_ok() {
                        naive.extend(chain);
                        number += count as u64;
                    }
                }
                // No further ahead than a host can be: the pointer may lead the write pointer.
                1 => {
                    queue.release(count as u32).unwrap();
                    released += count as u64;
                }
                _ => {
                    let may = !session || runs < released;
                    let expected = naive.front().copied().filter(|_| may);
                    prop_assert_eq!(queue.next(), expected);
                    if expected.is_some() {
                        naive.pop_front();
                        queue.complete();
                        runs += 1;
                    }
                }
            }
        }
    }
}
