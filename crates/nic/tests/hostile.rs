//! A broken or hostile peer: random words in the memory that it can write.
//!
//! Two ports over the test's memory, which a third party overwrites between calls. The ports may
//! respond to invalid words with `Malformed`, full or nothing. They must not panic, and must not
//! access anything outside their segments, which lie between walls of known bytes.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used)]

use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::rc::Rc;

use hikyaku_nic::fabric::{
    Activity, Command, DeathCause, Event, FullPolicy, GroupError, GroupId, GroupPort, Landing,
    PeerState, Port, PostError, QueueAddress, QueueCommand, QueueMode, QueuePort, QueuePut, Rank,
    RemoteAddress, RingPort, Space, Wait, Wake,
};
use hikyaku_nic::hosted::{Host, HostedPort, RankLine, Registry};
use hikyaku_nic::region::{RegionBuffer, RegionError};
use hikyaku_nic::ring::{Descriptor, LongStores, RingControl};
use hikyaku_nic::segment::{GroupLayout, Segment, SegmentLayout};
use hikyaku_nic::sync::{AtomicU32, AtomicU64, Line, Ordering};
use hikyaku_nic::time::Time;
use hikyaku_nic::wire::{Stamp, StatusKind};
use proptest::prelude::*;

const RANKS: u32 = 2;
const WALL: usize = 64 << 10;
const BRICK: u64 = 0x5aa5_c33c_0ff0_9669;

/// Memory of a job of two: wall, segment, wall, segment, wall.
struct Memory {
    words: Vec<AlignedWords>,
    layout: SegmentLayout,
    /// Byte offset of the first status ring's first slot in a segment.
    slots: usize,
    ends: Line<AtomicU64>,
    lines: Vec<RankLine>,
    ticks: Cell<u64>,
    /// The ranks whose state was queried.
    asked: RefCell<Vec<Rank>>,
}

/// A page, so that segments are aligned.
#[repr(C, align(4096))]
struct AlignedWords([AtomicU64; 512]);

impl Memory {
    fn new() -> Rc<Memory> {
        let layout = SegmentLayout {
            ranks: RANKS,
            posters: u32::MAX,
            status_rings: 2,
            status_slots: 16,
            status_policy: FullPolicy::Stall,
            rings: 2,
            first_rings: 2,
            ring_bytes: 512,
            ring_policy: FullPolicy::Stall,
            packet_bytes: 256,
            credit: 4,
            queues: 2,
            queue_slots: 4,
            contexts: 2,
            segments: 2,
            groups: GroupLayout { channels: 2, area_bytes: 1024 },
        };
        layout.check().unwrap();
        let bytes = 3 * WALL + 2 * layout.segment_bytes();
        let page = || AlignedWords(std::array::from_fn(|_| AtomicU64::new(0)));
        let mut memory = Memory {
            words: (0..bytes / 4096).map(|_| page()).collect(),
            layout,
            slots: 0,
            ends: Line::default(),
            lines: (0..RANKS).map(|_| RankLine::default()).collect(),
            ticks: Cell::new(0),
            asked: RefCell::default(),
        };
        memory.walls().for_each(|at| memory.word(at).store(BRICK, Ordering::Relaxed));
        memory.slots = memory.find_slots();
        for rank in 0..RANKS {
            memory.segment(rank).set_up();
        }
        Rc::new(memory)
    }

    /// The word at a byte offset.
    fn word(&self, at: usize) -> &AtomicU64 {
        &self.words[at / 4096].0[at % 4096 / 8]
    }

    fn start(&self, rank: Rank) -> usize {
        WALL + rank as usize * (WALL + self.layout.segment_bytes())
    }

    /// The byte offsets of the walls' words.
    fn walls(&self) -> impl Iterator<Item = usize> {
        let stride = WALL + self.layout.segment_bytes();
        (0..3).flat_map(move |wall| (0..WALL / 8).map(move |word| wall * stride + word * 8))
    }

    fn segment(&self, rank: Rank) -> Segment<'_> {
        let base = self.words.as_ptr().cast::<u8>().cast_mut();
        // SAFETY: the segment is inside the vector, by construction of its size.
        let base = unsafe { base.add(self.start(rank)) };
        let base = NonNull::new(base).unwrap();
        // SAFETY: pages of atomics, aligned, zero at first, that live as long as `self` does; they
        // may be written through a shared reference.
        unsafe { Segment::new(base, &self.layout) }
    }

    /// The offset of the slots. It is found by publishing a record, since the layout is private.
    fn find_slots(&self) -> usize {
        self.segment(0).status(0).publish(0, StatusKind::Void, 0, 0, 1, &[]);
        let mut words = (0..self.layout.segment_bytes()).step_by(8);
        let found = words.find(|at| self.word(self.start(0) + at).load(Ordering::Relaxed) != 0);
        let found = found.unwrap();
        self.word(self.start(0) + found).store(0, Ordering::Relaxed);
        found
    }

    /// The bytes of a segment before the payload: a broken peer can write all of them.
    fn control_bytes(&self) -> usize {
        let slots = self.layout.status_rings as usize * self.layout.status_slots as usize * 64;
        self.slots + slots + self.layout.rings as usize * size_of::<RingControl>()
    }

    /// Start and length of a segment's part for groups, bytes.
    fn group_bytes(&self) -> (usize, usize) {
        let segment = self.segment(0);
        let base = std::ptr::from_ref(segment.doorbell()).addr();
        let start = std::ptr::from_ref(segment.awaited()).addr() - base;
        (start, self.layout.segment_bytes() - start)
    }

    /// Overwrites a word of the part for groups.
    fn scribble_groups(&self, rank: Rank, at: prop::sample::Index, near: bool, value: u64) {
        let (start, bytes) = self.group_bytes();
        let word = at.index(if near { 64 } else { bytes / 8 });
        self.word(self.start(rank) + start + word * 8).store(value, Ordering::Relaxed);
    }

    fn check_walls(&self) {
        let whole = self.walls().all(|at| self.word(at).load(Ordering::Relaxed) == BRICK);
        assert!(whole, "something outside the segments was written");
    }
}

struct TestHost(Rc<Memory>, Rank);

// SAFETY: the memory is kept by the `Rc`, and does not move with the host.
unsafe impl Host for TestHost {
    const NAME: &'static str = "test";

    fn rank(&self) -> Rank {
        self.1
    }

    fn segment(&self, rank: Rank) -> Segment<'_> {
        self.0.segment(rank)
    }

    fn registry(&self) -> Registry<'_> {
        Registry::new(&self.0.ends, &self.0.lines)
    }

    fn state_of(&self, rank: Rank) -> PeerState {
        self.0.asked.borrow_mut().push(rank);
        self.registry().state(rank)
    }

    fn node_of(&self, _rank: Rank) -> u32 {
        0
    }

    fn wake(&self, _rank: Rank) {}

    fn wait(&mut self, _: u32, _: Option<Time>, pending: impl Fn(&Self) -> bool) -> Wake {
        if pending(self) { Wake::Look } else { Wake::Slept }
    }

    fn now(&self) -> Time {
        self.0.ticks.set(self.0.ticks.get() + 1);
        Time::from_nanoseconds(self.0.ticks.get())
    }

    fn allocate(&mut self, _bytes: usize) -> Result<RegionBuffer, RegionError> {
        Err(RegionError::Unsupported)
    }

    fn commit_area(&self, _channel: u32) -> Result<(), GroupError> {
        if HAS_MEMORY.get() { Ok(()) } else { Err(NO_MEMORY) }
    }

    fn expose(&self, _bytes: &[u8]) -> Option<RemoteAddress> {
        None
    }

    fn read(&self, _from: RemoteAddress, _into: &mut [u8]) -> Result<(), PostError> {
        Err(PostError::Unsupported("read"))
    }

    fn write(&self, _: RemoteAddress, _: &[u8], _: LongStores) -> Result<(), PostError> {
        Err(PostError::Unsupported("write"))
    }

    fn write_word(&self, _to: RemoteAddress, _value: u64) -> Result<(), PostError> {
        Err(PostError::Unsupported("write a word"))
    }

    fn region_bytes(&self) -> u64 {
        0
    }

    fn copy_between(
        &self,
        _from: RemoteAddress,
        _to: RemoteAddress,
        _length: u64,
        _way: LongStores,
    ) -> Result<(), PostError> {
        // Checking bounds is the host's task; the test only needs the code after a copy to run.
        Ok(())
    }

    fn word32(&self, _rank: Rank, _offset: u64) -> Option<&AtomicU32> {
        None
    }

    fn word64(&self, _rank: Rank, _offset: u64) -> Option<&AtomicU64> {
        None
    }

    fn copies_from(&self, _space: Space) -> Option<usize> {
        None
    }
}

/// An action on, or by, rank 0.
#[derive(Debug, Clone)]
enum Step {
    /// A word of its segment is overwritten.
    Scribble { at: prop::sample::Index, value: u64 },
    /// A word for groups is overwritten, in either segment: usually one that is read.
    ScribbleGroups { rank: Rank, at: prop::sample::Index, near: bool, value: u64 },
    /// It takes part in rounds and barriers, with or without the peer.
    Round { peer: bool, length: usize },
    /// A record is forged as a whole, in the ring and slot that rank 0 reads next or in others.
    Forge { ring: u32, index: u64, stamp: u64, body: [u64; 7] },
    /// A valid message arrives.
    Send(usize),
    /// It polls, and keeps or releases what it receives.
    Poll { keep: bool },
    /// It releases what it kept.
    Release,
    /// It sends, using the peer's segment.
    Reply(usize),
    /// A slot of its command queue is forged and released.
    Command { slot: u64, words: [u64; 5] },
    /// It uses its command queues.
    Queues { notify: bool, release: u32 },
    /// The peer is declared dead, which starts a repair.
    Die,
}

/// Numbers near the edges of all ranges.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(u64::MAX),
        0..40u64,
        (0..40u64).prop_map(|n| n.wrapping_neg()),
        (0..40u64).prop_map(|n| n * 64),
        (0..4u64, 0..600u64).prop_map(|(high, low)| high << 32 | low),
        (0..64u32).prop_map(|bit| 1 << bit),
        any::<u64>(),
    ]
}

/// Such numbers, and stamps of nearby rounds.
fn group_word() -> impl Strategy<Value = u64> {
    let stamp = (0..6u64, prop_oneof![0..8u64, 100..120u64, 616..630u64, 1018..1024u64]);
    prop_oneof![word(), stamp.prop_map(|(round, length)| round << 10 | length)]
}

fn step() -> impl Strategy<Value = Step> {
    let stamp = (0..4u64, prop_oneof![0..60u64, 0..256u64], 0..8u64, 0..4u64);
    let stamp = stamp
        .prop_map(|(lap, length, kind, source)| lap << 48 | length << 40 | kind << 32 | source);
    let body = prop::array::uniform7(word());
    prop_oneof![
        2 => (any::<prop::sample::Index>(), word())
            .prop_map(|(at, value)| Step::Scribble { at, value }),
        4 => (0..2u32, any::<prop::sample::Index>(), any::<bool>(), group_word())
            .prop_map(|(rank, at, near, value)| Step::ScribbleGroups { rank, at, near, value }),
        4 => (any::<bool>(), 0..1100usize).prop_map(|(peer, length)| Step::Round { peer, length }),
        4 => (0..2u32, 0..20u64, stamp, body)
            .prop_map(|(ring, index, stamp, body)| Step::Forge { ring, index, stamp, body }),
        2 => (0..600usize).prop_map(Step::Send),
        4 => any::<bool>().prop_map(|keep| Step::Poll { keep }),
        1 => Just(Step::Release),
        1 => (0..600usize).prop_map(Step::Reply),
        2 => (0..4u64, prop::array::uniform5(word()))
            .prop_map(|(slot, words)| Step::Command { slot, words }),
        2 => (any::<bool>(), 0..3u32)
            .prop_map(|(notify, release)| Step::Queues { notify, release }),
        1 => Just(Step::Die),
    ]
}

/// Makes every call on a group once, regardless of the results.
fn round(port: &mut HostedPort<TestHost>, length: usize) {
    let Ok(group) = port.join(0, &[0, 1], 0).or_else(|error| match error {
        GroupError::ChannelInUse { .. } => Ok(GROUP.with(|known| known.get().unwrap())),
        other => Err(other),
    }) else {
        return;
    };
    GROUP.with(|known| known.set(Some(group)));
    let _ = port.contribute(group, 7, &[&vec![0xef; length]]);
    for place in 0..3 {
        if let Ok(Some(contribution)) = port.contribution(group, place) {
            let mut into = vec![0; 800];
            port.load_contribution(group, place, &contribution, 0, &mut into);
            port.load_contribution(group, place, &contribution, length / 2, &mut into);
            port.load_contribution(group, place, &contribution, usize::MAX, &mut into);
        }
    }
    let _ = port.all_contributed(group, 7);
    let _ = port.finish_round(group);
    for id in [0, 3, 127] {
        let _ = port.sync(group, id);
        let _ = port.synced(group, id);
    }
    let _ = port.multicast(group, &Command::send(0, 0, 0, &[1; 50]), 0, 0);
    port.park(None);
    if length.is_multiple_of(7) {
        let _ = port.leave(group);
    }
}

/// The error of a machine without memory.
const NO_MEMORY: GroupError = GroupError::NoMemory { wanted: 1024, code: 12 };

thread_local! {
    /// Whether the machine has memory for multicast areas.
    static HAS_MEMORY: Cell<bool> = const { Cell::new(true) };
    /// The group of channel 0, once joined: its name does not change.
    static GROUP: Cell<Option<GroupId>> = const { Cell::new(None) };
}

fn run(step: Step, memory: &Memory, ports: &mut [HostedPort<TestHost>], kept: &mut Vec<Landing>) {
    let start = memory.start(0);
    match step {
        Step::Scribble { at, value } => {
            let word = at.index(memory.control_bytes() / 8);
            memory.word(start + word * 8).store(value, Ordering::Relaxed);
        }
        Step::ScribbleGroups { rank, at, near, value } => {
            memory.scribble_groups(rank, at, near, value);
        }
        Step::Round { peer, length } => {
            ports.iter_mut().take(1 + usize::from(peer)).for_each(|port| round(port, length));
        }
        Step::Forge { ring, index, stamp, body } => {
            let at = start + memory.slots + (u64::from(ring) * 16 + index % 16) as usize * 64;
            for (word, value) in (1..).zip(body) {
                memory.word(at + word * 8).store(value, Ordering::Relaxed);
            }
            memory.word(at).store(Stamp(stamp).0, Ordering::Release);
        }
        Step::Send(length) => send(&mut ports[1], 0, &vec![0xab; length]),
        Step::Reply(length) => {
            let payload = vec![0xcd; length];
            send(&mut ports[0], 1, &payload);
            let _ = ports[0].post(&Command::send(0, 0, 0, &payload));
        }
        Step::Command { slot, words } => {
            if let Some((queue, _)) = memory.segment(0).queue(0) {
                let [operation, rest @ ..] = words;
                let mut forged = [0; 8];
                forged[0] = (operation & !0xf0) | (slot % 2);
                forged[1..5].copy_from_slice(&rest);
                let _ = queue.write(&[Descriptor(forged)]);
                let _ = queue.release(1);
            }
            ports[1].help_queue(QueueAddress { rank: 0, queue: 0, generation: 1 });
        }
        Step::Queues { notify, release } => use_queues(ports, notify, release),
        Step::Die => {
            let registry = Registry::new(&memory.ends, &memory.lines);
            registry.fail(1, DeathCause::Unknown);
        }
        Step::Poll { keep } => {
            if let Some(Event::Landed(landed)) = ports[0].poll() {
                let mut into = vec![0; landed.len().min(4096)];
                if let Landing::Ring(slice) = &landed.data {
                    ports[0].copy_out(slice, 0, &mut into);
                }
                match landed.data {
                    Landing::Ring(slice) if !keep => ports[0].release(slice),
                    other => kept.push(other),
                }
            }
            ports[0].receive_whole(1, 0, 0, &mut [0; 64]);
            for id in 0..2 {
                ports[0].held_up();
                ports[0].ring(id);
                ports[0].route_of(id);
            }
        }
        Step::Release => {
            if let Some(Landing::Ring(slice)) = kept.pop() {
                ports[0].release(slice);
            }
        }
    }
}

/// Sends as a command and, if the payload is short, also by the fast path.
fn send(port: &mut HostedPort<TestHost>, to: Rank, payload: &[u8]) {
    let _ = port.post(&Command::send(to, 0, 0, payload));
    port.post_short(to, 0, 0, payload);
}

/// Makes every call on queues, regardless of their words.
fn use_queues(ports: &mut [HostedPort<TestHost>], notify: bool, release: u32) {
    let to = QueueAddress { rank: 0, queue: 0, generation: 1 };
    let put = QueuePut { from: 0, at: 0, length: 8, to, notify, release };
    for port in ports {
        let _ = port.create_queue(QueueMode::Session { offset: 1 }, 4);
        let _ = port.post_queue(0, &[QueueCommand::Put(put), QueueCommand::Nop]);
        let _ = port.repeat_queue(0, 2);
        let _ = port.queue_state(to);
        port.help_queue(to);
        port.completion(0);
        if release == 2 {
            let _ = port.destroy_queue(0);
        }
        port.park(None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn invalid_words_in_shared_memory_are_survived(steps in prop::collection::vec(step(), 1..60)) {
        let memory = Memory::new();
        let mut ports: Vec<_> = (0..RANKS)
            .map(|rank| HostedPort::new(TestHost(Rc::clone(&memory), rank)))
            .collect();
        let mut kept = Vec::new();
        for step in steps {
            run(step, &memory, &mut ports, &mut kept);
        }
        memory.check_walls();
    }
}

/// How a stream of short messages ended while its memory was overwritten.
#[derive(Debug, PartialEq, Eq)]
enum StreamEnd {
    /// As many records arrived as were sent, including malformed ones.
    All,
    /// The receiver was notified that the sender failed.
    Told(DeathCause),
    /// Neither: a rank waits for ever.
    Never,
}

/// Rank 1 sends short messages to rank 0; before one of them a word of rank 0's segment is
/// overwritten.
fn scribbled_stream(seed: u64) -> StreamEnd {
    const MESSAGES: u64 = 40;
    let memory = Memory::new();
    let port = |rank| HostedPort::new(TestHost(Rc::clone(&memory), rank));
    let (mut receiver, mut sender) = (port(0), port(1));
    let mut random = seed;
    let mut draw = |below: u64| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let (when, word) = (draw(MESSAGES), draw(memory.control_bytes() as u64 / 8));
    let value = [0, u64::MAX, draw(50), 1 << draw(64), draw(u64::MAX)][draw(5) as usize];
    let (mut sent, mut came, mut done) = (0, 0, false);
    for turn in 0..5_000 {
        if sent == when && !done {
            done = true;
            let at = memory.start(0) + word as usize * 8;
            memory.word(at).store(value, Ordering::Relaxed);
        }
        let message = Command { credited: true, ..Command::send(0, 3, sent, &[1; 8]) };
        if sent < MESSAGES && sender.post(&message).is_ok() {
            sent += 1;
        }
        // Now and then several are in flight.
        if turn % 7 > 2 || sent == MESSAGES {
            match receiver.poll() {
                Some(Event::Landed(_) | Event::Malformed { .. }) => came += 1,
                Some(Event::PeerFailed(failure)) => {
                    assert_eq!(failure.rank, 1);
                    return StreamEnd::Told(failure.cause);
                }
                _ => {}
            }
            receiver.grant(1, came + 4);
        }
        if came >= MESSAGES {
            return StreamEnd::All;
        }
        receiver.park(None);
        sender.park(None);
    }
    StreamEnd::Never
}

#[test]
fn an_overwritten_word_stops_no_rank() {
    let mut told = 0;
    for seed in 0..3_000 {
        match scribbled_stream(seed) {
            StreamEnd::All => {}
            StreamEnd::Told(cause) => {
                assert_eq!(cause, DeathCause::Overwritten, "seed {seed}");
                told += 1;
            }
            StreamEnd::Never => panic!("seed {seed}: somebody waits for ever"),
        }
    }
    assert!(told > 0, "no record was lost: the test meets nothing");
}

/// Departed ranks are known from the list of ends or, if it was overwritten, by checking all.
#[test]
fn a_death_is_told_without_a_look_at_others() {
    let ended = |line: &RankLine| {
        // The words of a line are private: state, process id, cause, who ended.
        let words = std::ptr::from_ref(line).cast::<AtomicU64>();
        // SAFETY: a line begins with words of this kind, of which there are more than four.
        let word = unsafe { words.add(3) };
        // SAFETY: as above; it is changed through a shared reference only.
        unsafe { &*word }.swap(0, Ordering::Relaxed)
    };
    for (is_overwritten, looks) in [(false, vec![1]), (true, vec![0, 1])] {
        let memory = Memory::new();
        let mut port = HostedPort::new(TestHost(Rc::clone(&memory), 0));
        let registry = Registry::new(&memory.ends, &memory.lines);
        registry.fail(1, DeathCause::Signal(9));
        if is_overwritten {
            assert_eq!(ended(&memory.lines[0]), 2);
        }
        assert!(port.poll().is_none_or(|event| matches!(event, Event::PeerFailed(_))));
        assert_eq!(*memory.asked.borrow(), looks, "overwritten: {is_overwritten}");
        assert!(matches!(port.peer(1), PeerState::Failed(_)));
    }
}

#[test]
fn an_overwritten_announcement_is_made_again() {
    let memory = Memory::new();
    let mut port = HostedPort::new(TestHost(Rc::clone(&memory), 0));
    let registry = Registry::new(&memory.ends, &memory.lines);
    let wait = Wait::new(Activity::Receive).with(Some(1), Some(7));
    port.announce_wait(Some(wait));
    registry.set_wait(0, None);
    (0..10).for_each(|_| _ = port.park(None));
    assert_eq!(registry.wait(0), Some(wait));
    port.announce_wait(None);
    (0..10).for_each(|_| _ = port.park(None));
    assert_eq!(registry.wait(0), None);
}

#[test]
fn a_contribution_for_which_the_machine_has_no_memory_is_refused_and_can_be_repeated() {
    let memory = Memory::new();
    let port = |rank| HostedPort::new(TestHost(memory.clone(), rank));
    let (mut root, mut reader) = (port(0), port(1));
    let group = root.join(0, &[0, 1], 0).unwrap();
    reader.join(0, &[0, 1], 0).unwrap();
    HAS_MEMORY.set(false);
    assert_eq!(root.contribute(group, 7, &[&[5; 900]]), Err(NO_MEMORY));
    HAS_MEMORY.set(true);
    assert_eq!(reader.contribution(group, 0), Ok(None));
    root.contribute(group, 7, &[&[5; 900]]).unwrap();
    // The area keeps its memory.
    HAS_MEMORY.set(false);
    let mut into = [0; 900];
    let contribution = reader.contribution(group, 0).unwrap().unwrap();
    reader.load_contribution(group, 0, &contribution, 0, &mut into);
    assert_eq!((contribution.word(), into), (7, [5; 900]));
    reader.contribute(group, 7, &[]).unwrap();
    for port in [&mut root, &mut reader] {
        port.finish_round(group).unwrap();
    }
    root.contribute(group, 8, &[&[6; 500]]).unwrap();
}
