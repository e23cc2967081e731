//! The rings under every interleaving that loom can make.
//!
//! `make loom` runs it. The code is, line for line, the production code. `sync` exchanges the
//! atomics, and `Bytes` makes each payload byte a checked cell. So a read of a byte that does not
//! yet, or no longer, belong to the reader fails the model instead of tearing a message. Models
//! that break the protocol show that loom detects it.
//!
//! Rings have two to four places, so that they wrap and fill within a few messages. Interleavings
//! are limited to a few preemptions (`PREEMPTIONS`), which are enough for nearly all faults of such
//! code; without a limit, the models with three threads would run for days.

#![cfg(loom)]
#![allow(clippy::unwrap_used)]

use hikyaku_nic::fabric::FullPolicy;
use hikyaku_nic::ring::{
    Bytes, Claim, GRANULE, LandingRing, Ledger, LongStores, Poster, RingControl, Slot,
    StatusControl, StatusRing, span_of,
};
use hikyaku_nic::sync::UnsafeCell;
use hikyaku_nic::wire::StatusKind;
use loom::sync::Arc;
use loom::thread;

/// Limit of preemptive thread switches in one execution.
const PREEMPTIONS: usize = 3;

/// Payload bytes of a message: the first byte of a granule is enough.
const LENGTH: u32 = 1;

/// Checks a model in every execution of at most [`PREEMPTIONS`] preemptive switches.
pub(crate) fn model(body: impl Fn() + Send + Sync + 'static) {
    bounded_model(PREEMPTIONS, body);
}

/// As [`model`], with a limit of the model's own; loom's environment variable overrides both.
pub(crate) fn bounded_model(preemptions: usize, body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.check(body);
}

/// One rank's landing ring and status ring, in memory that all threads can access.
struct SharedRings {
    control: RingControl,
    cells: Vec<UnsafeCell<u8>>,
    status: StatusControl,
    slots: Vec<Slot>,
    senders: u32,
}

// SAFETY: loom checks the cells: a racing access fails the model.
unsafe impl Sync for SharedRings {}

// SAFETY: as for Sync.
unsafe impl Send for SharedRings {}

impl SharedRings {
    /// Rings for `senders` that hold `places` messages and `slots` records.
    fn new(senders: u32, places: u64, slots: usize, policy: FullPolicy) -> Arc<SharedRings> {
        let control = RingControl::default();
        control.set_up(senders > 1, policy);
        Arc::new(SharedRings {
            control,
            cells: (0..places * GRANULE).map(|_| UnsafeCell::new(0)).collect(),
            status: StatusControl::default(),
            slots: (0..slots).map(|_| Slot::default()).collect(),
            senders,
        })
    }

    fn landing(&self) -> LandingRing<'_> {
        LandingRing::new(&self.control, Bytes::from_cells(&self.cells))
    }

    fn status(&self) -> StatusRing<'_> {
        StatusRing::new(&self.status, &self.slots, self.senders)
    }

    /// Posts a message as `hosted::send` does. Returns whether there was room.
    fn post(&self, source: u32, message: u8, heads: &mut Heads) -> bool {
        let (ring, status) = (self.landing(), self.status());
        if !status.has_room(&mut heads.poster) {
            status.count_full();
            return false;
        }
        let Some(claim) = ring.claim(LENGTH, LENGTH, &mut heads.ring) else {
            ring.count_full(ring.policy());
            return false;
        };
        ring.store(claim, &[message], LongStores::Cached);
        ring.commit(claim);
        self.announce(source, claim, &mut heads.poster);
        true
    }

    fn announce(&self, source: u32, claim: Claim, poster: &mut Poster) {
        let status = self.status();
        let index = status.reserve(poster);
        status.publish(index, StatusKind::Ring, 0, 0, source, &[claim.position]);
    }
}

/// The receiving side of a [`SharedRings`].
struct Receiver<'m> {
    memory: &'m SharedRings,
    ledger: Ledger,
    /// The received messages: source and byte.
    received: Vec<(u32, u8)>,
}

impl Receiver<'_> {
    fn new(memory: &SharedRings) -> Receiver<'_> {
        let ledger = Ledger::new(memory.landing().size(), 0);
        Receiver { memory, ledger, received: Vec::new() }
    }

    /// Receives and releases the next message, if there is one now.
    fn poll(&mut self) -> bool {
        let (ring, status) = (self.memory.landing(), self.memory.status());
        let head = self.received.len() as u64;
        let Some(record) = status.read(head) else { return false };
        let (source, position) = (record.stamp.source(), record.body[0]);
        let mut byte = [0];
        ring.load(position, &mut byte);
        self.ledger.announce(position, span_of(u64::from(LENGTH))).expect("claims are apart");
        status.free(head + 1);
        if self.ledger.release(position) {
            ring.free(self.ledger.head());
        }
        self.received.push((source, byte[0]));
        true
    }

    /// Receives until `count` messages have arrived.
    fn receive(&mut self, count: usize) {
        while self.received.len() < count {
            if !self.poll() {
                thread::yield_now();
            }
        }
    }

    /// The messages of one source.
    fn of(&self, source: u32) -> Vec<u8> {
        self.received.iter().filter(|(from, _)| *from == source).map(|(_, byte)| *byte).collect()
    }
}

/// A sender's views of the heads.
#[derive(Default)]
struct Heads {
    ring: u64,
    poster: Poster,
}

/// Starts a sender that stops at the first message without room. Returns how many it sent.
fn sender(
    memory: &Arc<SharedRings>,
    source: u32,
    messages: &'static [u8],
) -> thread::JoinHandle<usize> {
    let memory = Arc::clone(memory);
    thread::spawn(move || {
        let mut heads = Heads::default();
        messages.iter().take_while(|message| memory.post(source, **message, &mut heads)).count()
    })
}

/// Starts a sender that waits for room. Returns how often there was none.
fn waiting_sender(memory: &Arc<SharedRings>, messages: &'static [u8]) -> thread::JoinHandle<u64> {
    let memory = Arc::clone(memory);
    thread::spawn(move || {
        let mut heads = Heads::default();
        let mut fulls = 0;
        for message in messages {
            while !memory.post(1, *message, &mut heads) {
                fulls += 1;
                thread::yield_now();
            }
        }
        fulls
    })
}

/// Two senders and the receiver run at the same time on a shared ring of `places`. No thread waits
/// for another (two threads that wait for a third can yield to each other for ever). Messages that
/// found no room are sent again at the end.
fn shared_ring(places: u64, policy: FullPolicy, polls: usize) {
    const FIRST: &[u8] = &[11, 12];
    const SECOND: &[u8] = &[21];
    model(move || {
        let memory = SharedRings::new(2, places, 8, policy);
        let (first, second) = (sender(&memory, 1, FIRST), sender(&memory, 2, SECOND));
        let mut receiver = Receiver::new(&memory);
        for _ in 0..polls {
            receiver.poll();
        }
        let sent = [first.join().unwrap(), second.join().unwrap()];
        let unsent = |source: usize, all: &[u8]| u64::from(sent[source] < all.len());
        let fulls = unsent(0, FIRST) + unsent(1, SECOND);
        let counted = if policy == FullPolicy::Stall { (fulls, 0) } else { (0, fulls) };
        let ring = memory.landing();
        assert_eq!(ring.full(), counted, "every full answer is counted, by its policy");
        for (source, rest) in [(1, &FIRST[sent[0]..]), (2, &SECOND[sent[1]..])] {
            for message in rest {
                while receiver.poll() {}
                assert!(memory.post(source, *message, &mut Heads::default()), "it is empty");
            }
        }
        while receiver.poll() {}
        assert_eq!(receiver.of(1), FIRST, "in order, none lost or doubled");
        assert_eq!(receiver.of(2), SECOND);
        assert_eq!((ring.tail(), ring.reserved()), (3 * GRANULE, 3 * GRANULE));
    });
}

#[test]
fn a_shared_ring_of_two_wraps_and_stalls() {
    shared_ring(2, FullPolicy::Stall, 2);
}

#[test]
fn a_shared_ring_of_one_refuses_more() {
    shared_ring(1, FullPolicy::Refuse, 2);
}

#[test]
fn a_shared_ring_with_room_is_never_full() {
    model(|| {
        let memory = SharedRings::new(2, 2, 8, FullPolicy::Stall);
        let (first, second) = (sender(&memory, 1, &[1]), sender(&memory, 2, &[2]));
        Receiver::new(&memory).poll();
        assert_eq!((first.join().unwrap(), second.join().unwrap()), (1, 1));
    });
}

#[test]
fn a_private_ring_wraps_and_stalls() {
    model(|| {
        let memory = SharedRings::new(1, 2, 4, FullPolicy::Stall);
        let only = waiting_sender(&memory, &[1, 2, 3, 4]);
        let mut receiver = Receiver::new(&memory);
        receiver.receive(4);
        assert_eq!(receiver.of(1), [1, 2, 3, 4]);
        let fulls = only.join().unwrap();
        assert_eq!(memory.landing().full().0 + memory.status().full(), fulls);
    });
}

#[test]
fn a_private_ring_of_one_refuses() {
    model(|| {
        let memory = SharedRings::new(1, 1, 4, FullPolicy::Refuse);
        let only = waiting_sender(&memory, &[1, 2, 3]);
        let mut receiver = Receiver::new(&memory);
        receiver.receive(3);
        assert_eq!(receiver.of(1), [1, 2, 3]);
        let fulls = only.join().unwrap();
        assert_eq!(memory.landing().full(), (0, fulls));
    });
}

#[test]
fn a_visible_tail_covers_visible_bytes() {
    model(|| {
        let memory = SharedRings::new(1, 2, 4, FullPolicy::Stall);
        let only = sender(&memory, 1, &[42]);
        let ring = memory.landing();
        if ring.tail() > 0 {
            let mut byte = [0];
            ring.load(0, &mut byte);
            assert_eq!(byte, [42]);
        }
        only.join().unwrap();
    });
}

/// Fills the next claim in the order of `steps`, against a receiver.
fn broken_sender(steps: fn(&SharedRings, Claim)) {
    model(move || {
        let memory = SharedRings::new(1, 2, 4, FullPolicy::Stall);
        let breach = {
            let memory = Arc::clone(&memory);
            thread::spawn(move || {
                let claim = memory.landing().claim(LENGTH, LENGTH, &mut 0).unwrap();
                steps(&memory, claim);
            })
        };
        Receiver::new(&memory).receive(1);
        breach.join().unwrap();
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_record_before_its_payload_is_detected() {
    broken_sender(|memory, claim| {
        memory.announce(1, claim, &mut Poster::default());
        memory.landing().store(claim, &[7], LongStores::Cached);
        memory.landing().commit(claim);
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_tail_before_its_payload_is_detected() {
    model(|| {
        let memory = SharedRings::new(1, 2, 4, FullPolicy::Stall);
        let breach = {
            let memory = Arc::clone(&memory);
            thread::spawn(move || {
                let ring = memory.landing();
                let claim = ring.claim(LENGTH, LENGTH, &mut 0).unwrap();
                ring.commit(claim);
                ring.store(claim, &[7], LongStores::Cached);
            })
        };
        if memory.landing().tail() > 0 {
            memory.landing().load(0, &mut [0]);
        }
        breach.join().unwrap();
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_release_before_the_read_is_detected() {
    model(|| {
        let memory = SharedRings::new(1, 1, 4, FullPolicy::Stall);
        let only = waiting_sender(&memory, &[1, 2]);
        let (ring, status) = (memory.landing(), memory.status());
        while status.read(0).is_none() {
            thread::yield_now();
        }
        ring.free(GRANULE);
        ring.load(0, &mut [0]);
        only.join().unwrap();
    });
}

/// Two senders at the limit of a full status ring: both may find room at once, and the places kept
/// free for that must be enough.
#[test]
fn two_senders_fit_a_nearly_full_status_ring() {
    model(|| {
        let memory = SharedRings::new(2, 1, 8, FullPolicy::Stall);
        // Five of six are used: room for one more, or for one more of each sender.
        for number in 0..5 {
            let status = memory.status();
            let index = status.reserve(&mut Poster::default());
            status.publish(index, StatusKind::Void, 0, 0, 0, &[number]);
        }
        let post = |source| {
            let memory = Arc::clone(&memory);
            thread::spawn(move || {
                let status = memory.status();
                let mut poster = Poster::default();
                let mut fulls = 0;
                while !status.has_room(&mut poster) {
                    status.count_full();
                    fulls += 1;
                    thread::yield_now();
                }
                let index = status.reserve(&mut poster);
                status.publish(index, StatusKind::Void, 0, 0, source, &[100]);
                fulls
            })
        };
        let (first, second) = (post(1), post(2));
        let status = memory.status();
        let mut late = Vec::new();
        for head in 0..7 {
            let record = loop {
                if let Some(record) = status.read(head) {
                    break record;
                }
                thread::yield_now();
            };
            if head < 5 {
                assert_eq!((record.stamp.source(), record.body[0]), (0, head), "not overwritten");
            } else {
                assert_eq!(record.body[0], 100);
                late.push(record.stamp.source());
            }
            status.free(head + 1);
        }
        late.sort_unstable();
        assert_eq!(late, [1, 2]);
        let fulls = first.join().unwrap() + second.join().unwrap();
        assert_eq!((status.full(), status.reserved()), (fulls, 7));
    });
}

/// Six records of one sender in a ring of four, `records` for each number: `post` fills them,
/// `check` reads them.
fn laps(records: u64, post: fn(StatusRing<'_>, u64, u64), check: fn(StatusRing<'_>, u64, u64)) {
    model(move || {
        let memory = SharedRings::new(1, 1, 4, FullPolicy::Stall);
        let count = 6 / records;
        let only = {
            let memory = Arc::clone(&memory);
            thread::spawn(move || {
                let status = memory.status();
                let mut poster = Poster::default();
                for number in 0..count {
                    while !status.has_room_for(records, &mut poster) {
                        thread::yield_now();
                    }
                    let index = status.reserve(&mut poster);
                    post(status, index, number);
                    poster.posted += records - 1;
                }
            })
        };
        let status = memory.status();
        for number in 0..count {
            let head = number * records;
            while status.peek(head).is_none() {
                thread::yield_now();
            }
            check(status, head, number);
            status.free(head + records);
        }
        only.join().unwrap();
    });
}

/// A message of two records is complete when the first one's stamp is visible, in the second lap of
/// the ring too, and its second record is not taken for a message.
#[test]
fn a_message_of_two_records_is_whole_in_every_lap() {
    const LENGTH: usize = 48;
    let post = |status: StatusRing<'_>, index, number| {
        status.publish_short(index, 0, 1, [number, 0], &[number as u8; LENGTH]);
    };
    laps(2, post, |status, head, number| {
        let mut bytes = [0xff; LENGTH];
        status.load_short(head, &mut bytes);
        assert_eq!((status.word(head, 1), bytes), (number, [number as u8; LENGTH]));
        assert!(status.peek(head).is_some_and(|stamp| stamp.length() == 8));
    });
}

/// A record is complete when its stamp is visible, in the second lap of the ring too.
#[test]
fn a_status_record_is_whole_in_every_lap() {
    let post = |status: StatusRing<'_>, index, number: u64| {
        status.publish(index, StatusKind::Void, 0, 0, 1, &[number, !number]);
    };
    laps(1, post, |status, head, number| {
        assert_eq!(
            status.read(head).map(|record| [record.body[0], record.body[1]]),
            Some([number, !number])
        );
    });
}
