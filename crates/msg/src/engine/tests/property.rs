//! Random programs of sends and receives, stepped in one thread, against MPI's rules.
//!
//! A program is a list of operations of two to four ranks in a job so small that rings, status
//! rings and credit are full all the time. Whatever the interleaving:
//!
//! - every message is received exactly once, unchanged, by a receive that its envelope fits;
//! - of two messages from one rank to another that fit the same receive, the earlier one is not
//!   left for a later receive (non-overtaking, MPI 5.0 §3.5);
//! - without wildcard sources the matching is the one a sequential oracle finds;
//! - unmatched messages stay within the credit as long as no source was relieved.

use std::cell::Cell;

use hikyaku_nic::fabric::MemoryPort;
use hikyaku_nic::region::RegionBuffer;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::*;
use crate::engine::CancelOutcome;
use crate::engine::wait::GONE_ROUNDS;
use crate::testing::{engines, pattern, settle, tight};
use crate::{LongMessages, Way};

#[derive(Debug, Clone)]
enum Step {
    Send { from: Rank, to: Rank, tag: i32, length: usize, mode: SendMode },
    Receive { at: Rank, source: Option<Rank>, tag: Option<i32> },
    Progress { at: Rank, budget: u8 },
    Full { at: Rank, posts: u32 },
    Part { at: Rank, bytes: Option<usize> },
    Carry { at: Rank, ways: LongMessages },
}

/// Long enough for a message to identify itself.
const LENGTHS: [usize; 7] = [4, 48, 49, 200, 600, 601, 3000];
const ROOM: usize = 3000;

fn step(ranks: u32, wild: bool) -> impl Strategy<Value = Step> {
    let rank = 0..ranks;
    let mode = prop_oneof![
        4 => Just(SendMode::Standard),
        1 => Just(SendMode::Synchronous),
        1 => Just(SendMode::Ready),
    ];
    let source = if wild {
        prop::option::weighted(0.6, rank.clone()).boxed()
    } else {
        rank.clone().prop_map(Some).boxed()
    };
    let tag = prop::option::weighted(0.7, 0..3);
    prop_oneof![
        6 => (rank.clone(), rank.clone(), 0..3, prop::sample::select(&LENGTHS[..]), mode)
            .prop_map(|(from, to, tag, length, mode)| Step::Send { from, to, tag, length, mode }),
        5 => (rank.clone(), source, tag)
            .prop_map(|(at, source, tag)| Step::Receive { at, source, tag }),
        4 => (rank.clone(), 1..4u8).prop_map(|(at, budget)| Step::Progress { at, budget }),
        1 => (rank.clone(), 1..4u32).prop_map(|(at, posts)| Step::Full { at, posts }),
        1 => (rank.clone(), prop::option::of(40..200usize))
            .prop_map(|(at, bytes)| Step::Part { at, bytes }),
        1 => (rank, prop::option::of(prop::sample::select(&Way::ALL[..]))).prop_map(|(at, way)| {
            Step::Carry { at, ways: way.map_or(LongMessages::Fastest, LongMessages::By) }
        }),
    ]
}

fn program(wild: bool) -> impl Strategy<Value = (u32, Vec<Step>)> {
    (2..5u32)
        .prop_flat_map(move |ranks| (Just(ranks), prop::collection::vec(step(ranks, wild), 1..120)))
}

/// A message that was sent. Its place in the list is its seed.
#[derive(Debug)]
struct SentMessage {
    from: Rank,
    to: Rank,
    tag: i32,
    length: usize,
    id: RequestId,
}

/// A posted receive, in posting order, and its result.
#[derive(Debug)]
struct PostedReceive {
    at: Rank,
    source: Option<Rank>,
    tag: Option<i32>,
    request: (RequestId, Leaked),
    got: Option<usize>,
}

impl PostedReceive {
    fn fits(&self, sent: &SentMessage) -> bool {
        self.at == sent.to
            && self.source.is_none_or(|source| source == sent.from)
            && self.tag.is_none_or(|tag| tag == sent.tag)
    }
}

struct World {
    ranks: Vec<Engine<Unruly>>,
    /// Memory of the requests: for some messages of both ends, so that both can copy.
    kept: Vec<RegionBuffer>,
    sent: Vec<SentMessage>,
    posted: Vec<PostedReceive>,
}

impl World {
    /// Memory of a rank, alternately in its region while that has room.
    fn memory(&mut self, of: Rank, number: usize, bytes: Vec<u8>) -> Leaked {
        let port = self.ranks[of as usize].port_mut();
        match port.allocate(bytes.len()) {
            Ok(mut buffer) if number.is_multiple_of(2) => {
                buffer.copy_from_slice(&bytes);
                let memory = Leaked::kept(&mut buffer);
                self.kept.push(buffer);
                memory
            }
            _ => Leaked::new(bytes),
        }
    }

    fn post(&mut self, at: Rank, source: Option<Rank>, tag: Option<i32>) {
        let selector = Selector { source, tag, context: 1 };
        let memory = self.memory(at, self.posted.len(), vec![0xEE; ROOM]);
        let id = self.ranks[at as usize].start_recv(memory.to_receive(), selector).unwrap();
        self.posted.push(PostedReceive { at, source, tag, request: (id, memory), got: None });
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Send { from, to: dest, tag, length, mode } => {
                let number = self.sent.len();
                let buffer = self.memory(from, number, content(number, length)).to_send();
                let id = self.ranks[from as usize].start_send(buffer, to(dest, tag), mode).unwrap();
                self.sent.push(SentMessage { from, to: dest, tag, length, id });
            }
            Step::Receive { at, source, tag } => self.post(at, source, tag),
            Step::Progress { at, budget } => {
                for _ in 0..budget {
                    self.ranks[at as usize].progress();
                }
            }
            Step::Full { at, posts } => {
                self.ranks[at as usize].port_mut().rules().full = posts;
            }
            // From now on its memory can be reached, and its choice of ways changes.
            Step::Carry { at, ways } => {
                let rules = self.ranks[at as usize].port_mut().rules();
                // A few times, the sender is first to copy its part.
                (rules.process, rules.late) = (true, 2);
                self.ranks[at as usize].carry_long_messages(ways);
            }
            Step::Part { at, bytes } => self.ranks[at as usize].port_mut().rules().part = bytes,
        }
        self.collect();
    }

    /// Collects the complete receives and checks their results.
    fn collect(&mut self) {
        for posted in self.posted.iter_mut().filter(|posted| posted.got.is_none()) {
            let engine = &mut self.ranks[posted.at as usize];
            if !engine.requests.is_done(posted.request.0) {
                continue;
            }
            let (received, bytes) = taken(engine, posted.request).unwrap();
            let which = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
            let sent = &self.sent[which];
            assert!(posted.fits(sent));
            assert_eq!((received.source, received.tag), (sent.from, sent.tag));
            assert_eq!(bytes, content(which, sent.length));
            posted.got = Some(which);
        }
    }

    /// Every rank waits for something that never arrives, and reads early what may be read before
    /// its receive.
    fn wait_in_vain(&mut self) {
        for engine in &mut self.ranks {
            (0..=GONE_ROUNDS).for_each(|_| _ = engine.attend(None));
        }
    }

    /// Receives all remaining messages, on every rank, as a program that waits for them would.
    fn drain(&mut self) {
        let mut last: Vec<Option<usize>> = vec![None; self.ranks.len()];
        for _ in 0..100_000 {
            for (at, last) in last.iter_mut().enumerate() {
                if last.is_none_or(|receive| self.posted[receive].got.is_some()) {
                    *last = Some(self.posted.len());
                    self.post(at as Rank, None, None);
                }
                if !self.ranks[at].progress() {
                    self.ranks[at].attend(None);
                }
            }
            self.collect();
            if self.posted.iter().filter(|p| p.got.is_some()).count() == self.sent.len() {
                break;
            }
        }
    }

    /// Cancels the receives without a message; nothing else is left then.
    fn clean_up(&mut self) {
        for posted in self.posted.iter().filter(|p| p.got.is_none()) {
            let outcome = self.ranks[posted.at as usize].cancel(posted.request.0);
            assert_eq!(outcome, CancelOutcome::Cancelled);
        }
        // The packets that report a read message find room, too.
        self.ranks.iter_mut().for_each(|engine| engine.port_mut().rules().full = 0);
        settle(&mut self.ranks.iter_mut().collect::<Vec<_>>());
        for sent in &self.sent {
            assert!(self.ranks[sent.from as usize].test(sent.id).unwrap().is_ok());
        }
        self.ranks.iter().for_each(assert_clean);
    }

    /// Every message was received once, and none overtook another.
    fn check(&self) {
        let mut by: Vec<Option<usize>> = vec![None; self.sent.len()];
        for (order, posted) in self.posted.iter().enumerate() {
            if let Some(which) = posted.got {
                assert_eq!(by[which].replace(order), None, "a message was received twice");
            }
        }
        assert!(by.iter().all(Option::is_some), "a message was lost");
        for (second, late) in self.sent.iter().enumerate() {
            for (first, early) in self.sent[..second].iter().enumerate() {
                let receive = &self.posted[by[second].unwrap()];
                let same_pair = (early.from, early.to) == (late.from, late.to);
                if same_pair && receive.fits(early) {
                    assert!(by[first] < by[second], "message {second} overtook {first}");
                }
            }
        }
    }

    /// The results of receives from named sources: each message in turn takes the oldest free
    /// matching receive. Both sides prefer the oldest, so every interleaving gives this result.
    fn oracle(&self, receives: usize) -> Vec<Option<usize>> {
        let mut got = vec![None; receives];
        for (which, sent) in self.sent.iter().enumerate() {
            let free = (0..receives).find(|r| got[*r].is_none() && self.posted[*r].fits(sent));
            if let Some(receive) = free {
                got[receive] = Some(which);
            }
        }
        got
    }

    /// No source has more unmatched messages anywhere than its credit allows.
    fn check_bounds(&self) {
        let window = u64::from(tight(1).1.credit_window);
        for engine in &self.ranks {
            let statistics = engine.statistics();
            assert_eq!(statistics.evacuations, 0);
            assert!(statistics.unexpected_messages_high <= window * self.ranks.len() as u64);
        }
    }
}

/// Bytes that identify their message.
fn content(which: usize, length: usize) -> Vec<u8> {
    let mut bytes = pattern(length, which);
    bytes[..4].copy_from_slice(&(which as u32).to_le_bytes());
    bytes
}

fn run(ranks: u32, steps: &[Step]) -> (World, usize) {
    let (kept, sent, posted) = Default::default();
    let mut world = World { ranks: engines(ranks), kept, sent, posted };
    steps.iter().for_each(|step| world.run(step));
    world.check_bounds();
    world.wait_in_vain();
    let receives = world.posted.len();
    world.drain();
    world.check();
    world.clean_up();
    (world, receives)
}

/// Runs many programs and checks each. Both ends have copied some of the messages.
fn run_many(wild: bool, check: impl Fn(&World, usize)) {
    let config = ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() };
    let [receivers, senders] = [(); 2].map(|()| Cell::new(0));
    let one = |(ranks, steps): (u32, Vec<Step>)| {
        let (world, receives) = run(ranks, &steps);
        check(&world, receives);
        for statistics in world.ranks.iter().map(Engine::statistics) {
            receivers.set(receivers.get() + statistics.joint_copies);
            senders.set(senders.get() + statistics.joint_bytes);
        }
        Ok(())
    };
    TestRunner::new(config).run(&program(wild), one).unwrap();
    let both = (receivers.get(), senders.get());
    assert!(both.0 > 20 && both.1 > 10_000, "{both:?}: messages, bytes of senders");
}

#[test]
fn nothing_is_lost_duplicated_or_overtaken() {
    run_many(true, |_, _| {});
}

#[test]
fn named_sources_match_as_the_oracle_says() {
    run_many(false, |world, receives| {
        let got: Vec<_> = world.posted[..receives].iter().map(|p| p.got).collect();
        assert_eq!(got, world.oracle(receives));
    });
}

/// Such a source was once forgotten if more messages than one poll takes had arrived before it had
/// to wait.
#[test]
fn a_source_that_waits_is_relieved_however_much_it_has_sent_before() {
    let send = |to, length| Step::Send { from: 0, to, tag: 0, length, mode: SendMode::Standard };
    // In parts, so that the ring is full after more records than are polled at a time.
    let parts = Step::Part { at: 0, bytes: Some(86) };
    let progress = |budget| Step::Progress { at: 0, budget };
    let first = [send(3, 601), send(0, 4), parts, send(0, 4), send(3, 600), progress(3)];
    let then = [send(0, 4), progress(2), send(3, 200)];
    run(4, &[&first[..], &then[..]].concat());
}
