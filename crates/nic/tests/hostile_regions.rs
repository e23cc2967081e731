//! A hostile rank that overwrites any word it can reach: of every segment (doorbells, source and
//! sender lines, tables, address registers, queues, status slots, ring pointers, payload) and of
//! the registry. Meanwhile two honest ranks use every operation of a port on each other's memory.
//!
//! ```text
//!   wall | segment 0 | wall | region 0 | wall | segment 1 | wall | region 1 | … | registry | wall
//! ```
//!
//! The honest ranks may get invalid data or errors. They must not panic, must return from every
//! call, and must not access a wall, the memory between the shared parts. The host checks regions
//! exactly and returns out of bounds; the vector's index would catch reads beyond it. `hostile.rs`
//! tests records and queues of one rank in more depth.
//!
//! The host also records which ranks are woken and, in virtual time, which actions take time; the
//! last tests check these records.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used)]

use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::rc::Rc;

use hikyaku_nic::fabric::{
    Advance, Atomic, AtomicOp, Combining, Command, ContextId, CopyPort, DeathCause, Event,
    FullCause, FullPolicy, Get, GroupId, GroupPort, Integer, JointCopy, Key, Landing, Member,
    MemoryPort, Notification, Operation, Port, PostError, QueueAddress, QueueCombine, QueueCommand,
    QueueMode, QueuePort, QueuePut, Rank, RegisterValue, RemoteAddress, Reply, Rights, RingPort,
    Route, Space, Wake,
};
use hikyaku_nic::hosted::{Conductor, Host, HostedPort, RankLine, Registry};
use hikyaku_nic::region::{RegionBuffer, RegionError};
use hikyaku_nic::ring::LongStores;
use hikyaku_nic::segment::{GroupLayout, Segment, SegmentLayout};
use hikyaku_nic::sync::{AtomicU32, AtomicU64, Line, Ordering};
use hikyaku_nic::time::Time;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Ranks 0 and 1 are honest; rank 2 is hostile, and has no port.
const RANKS: u32 = 3;
const HONEST: usize = 2;
const WALL: usize = 4096;
const REGION: usize = 4096;
const BRICK: u64 = 0x5aa5_c33c_0ff0_9669;

/// A page, so that segments are aligned.
#[repr(C, align(4096))]
struct Page([AtomicU64; 512]);

struct WalledRegions {
    pages: Vec<Page>,
    layout: SegmentLayout,
    clock: Cell<u64>,
    /// The ranks that were woken.
    woken: RefCell<Vec<Rank>>,
    /// Whether the ranks are in virtual time, and their requests to the conductor.
    conducted: Cell<bool>,
    spent: RefCell<Vec<(&'static str, Rank, u64)>>,
}

impl WalledRegions {
    fn new() -> Rc<WalledRegions> {
        let layout = SegmentLayout {
            ranks: RANKS,
            posters: u32::MAX,
            status_rings: 2,
            status_slots: 16,
            status_policy: FullPolicy::Stall,
            rings: 2,
            first_rings: 2,
            ring_bytes: 512,
            ring_policy: FullPolicy::Refuse,
            packet_bytes: 256,
            credit: 4,
            contexts: 2,
            segments: 2,
            queues: 2,
            queue_slots: 4,
            groups: GroupLayout { channels: 2, area_bytes: 1024 },
        };
        layout.check().unwrap();
        let (pages, clock, woken, conducted, spent) = Default::default();
        let mut memory = WalledRegions { pages, layout, clock, woken, conducted, spent };
        let bytes = memory.registry_at() + Page::BYTES + WALL;
        let brick = || Page(std::array::from_fn(|_| AtomicU64::new(BRICK)));
        memory.pages.extend((0..bytes / Page::BYTES).map(|_| brick()));
        memory.shared().for_each(|at| memory.word(at).store(0, Ordering::Relaxed));
        (0..RANKS).for_each(|rank| memory.segment(rank).set_up());
        Rc::new(memory)
    }

    fn segment_at(&self, rank: Rank) -> usize {
        let stride = 2 * WALL + self.layout.segment_bytes() + REGION;
        WALL + rank as usize * stride
    }

    fn region_at(&self, rank: Rank) -> usize {
        self.segment_at(rank) + self.layout.segment_bytes() + WALL
    }

    fn registry_at(&self) -> usize {
        self.segment_at(RANKS)
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        &self.pages[at / Page::BYTES].0[at % Page::BYTES / 8]
    }

    /// The byte offsets of all shared words, which the hostile rank may write.
    fn shared(&self) -> impl Iterator<Item = usize> {
        let segments = (0..RANKS).map(|rank| (self.segment_at(rank), self.layout.segment_bytes()));
        let regions = (0..RANKS).map(|rank| (self.region_at(rank), REGION));
        let parts = segments.chain(regions).chain([(self.registry_at(), Page::BYTES)]);
        parts.flat_map(|(start, length)| (start..start + length).step_by(8))
    }

    /// The address of a byte, valid to the end of the vector.
    fn address(&self, at: usize) -> NonNull<u8> {
        assert!(at < self.pages.len() * Page::BYTES);
        let base = self.pages.as_ptr().cast::<u8>().cast_mut();
        // SAFETY: inside the vector, by the assertion.
        NonNull::new(unsafe { base.add(at) }).unwrap()
    }

    fn segment(&self, rank: Rank) -> Segment<'_> {
        // SAFETY: pages of atomics, aligned, zero at first, that live as long as `self` does; they
        // may be written through a shared reference.
        unsafe { Segment::new(self.address(self.segment_at(rank)), &self.layout) }
    }

    fn registry(&self) -> Registry<'_> {
        let ends = self.address(self.registry_at()).cast::<Line<AtomicU64>>();
        let lines = self.address(self.registry_at() + 128).cast::<RankLine>();
        // SAFETY: zeroed words of the vector, aligned; a line is made of atomics.
        let ends = unsafe { ends.as_ref() };
        // SAFETY: as above; the page has room for them.
        let lines = unsafe { std::slice::from_raw_parts(lines.as_ptr(), RANKS as usize) };
        Registry::new(ends, lines)
    }

    /// The words of a range of a region, checked as a host must.
    fn range(&self, at: RemoteAddress, length: u64) -> Result<usize, PostError> {
        let RemoteAddress { rank, space, offset } = at;
        assert!(space == Space::Region, "a port resolves keys before it comes here");
        let inside = offset.checked_add(length).is_some_and(|end| end <= REGION as u64);
        let outside = PostError::OutOfBounds { rank, offset, length };
        if inside { Ok(self.region_at(rank) + offset as usize) } else { Err(outside) }
    }

    fn load(&self, at: usize) -> u8 {
        (self.word(at / 8 * 8).load(Ordering::Relaxed) >> (at % 8 * 8)) as u8
    }

    fn store(&self, at: usize, byte: u8) {
        let shift = at % 8 * 8;
        let word = self.word(at / 8 * 8);
        let others = word.load(Ordering::Relaxed) & !(0xff << shift);
        word.store(others | u64::from(byte) << shift, Ordering::Relaxed);
    }

    fn check_walls(&self) {
        let shared: std::collections::HashSet<usize> = self.shared().collect();
        for at in (0..self.pages.len() * Page::BYTES).step_by(8).filter(|at| !shared.contains(at)) {
            assert_eq!(self.word(at).load(Ordering::Relaxed), BRICK, "a wall was written at {at}");
        }
    }
}

impl Page {
    const BYTES: usize = 4096;
}

struct RegionHost(Rc<WalledRegions>, Rank);

// SAFETY: the memory is kept by the `Rc`, and does not move with the host.
unsafe impl Host for RegionHost {
    const NAME: &'static str = "test";

    fn rank(&self) -> Rank {
        self.1
    }

    fn segment(&self, rank: Rank) -> Segment<'_> {
        self.0.segment(rank)
    }

    fn registry(&self) -> Registry<'_> {
        self.0.registry()
    }

    fn node_of(&self, _rank: Rank) -> u32 {
        0
    }

    fn wake(&self, rank: Rank) {
        assert!(rank < RANKS, "a rank that does not exist is woken");
        self.0.woken.borrow_mut().push(rank);
    }

    fn wait(&mut self, _: u32, _: Option<Time>, pending: impl Fn(&Self) -> bool) -> Wake {
        pending(self);
        Wake::Look
    }

    fn now(&self) -> Time {
        self.0.clock.set(self.0.clock.get() + 1);
        Time::from_nanoseconds(self.0.clock.get())
    }

    fn allocate(&mut self, _bytes: usize) -> Result<RegionBuffer, RegionError> {
        Err(RegionError::Unsupported)
    }

    fn expose(&self, _bytes: &[u8]) -> Option<RemoteAddress> {
        None
    }

    fn read(&self, from: RemoteAddress, into: &mut [u8]) -> Result<(), PostError> {
        let start = self.0.range(from, into.len() as u64)?;
        into.iter_mut().zip(start..).for_each(|(byte, at)| *byte = self.0.load(at));
        Ok(())
    }

    fn write(&self, to: RemoteAddress, payload: &[u8], _: LongStores) -> Result<(), PostError> {
        let start = self.0.range(to, payload.len() as u64)?;
        payload.iter().zip(start..).for_each(|(byte, at)| self.0.store(at, *byte));
        Ok(())
    }

    fn write_word(&self, to: RemoteAddress, value: u64) -> Result<(), PostError> {
        let at = self.0.range(to, 8)?;
        assert!(at.is_multiple_of(8), "a port checks alignment before it comes here");
        self.0.word(at).store(value, Ordering::Release);
        Ok(())
    }

    fn region_bytes(&self) -> u64 {
        REGION as u64
    }

    fn copy_between(
        &self,
        from: RemoteAddress,
        to: RemoteAddress,
        length: u64,
        _way: LongStores,
    ) -> Result<(), PostError> {
        let (from, to) = (self.0.range(from, length)?, self.0.range(to, length)?);
        (0..length as usize).for_each(|at| self.0.store(to + at, self.0.load(from + at)));
        Ok(())
    }

    fn word32(&self, rank: Rank, offset: u64) -> Option<&AtomicU32> {
        let at = RemoteAddress { rank, space: Space::Region, offset };
        let at = self.0.range(at, 4).ok().filter(|at| at.is_multiple_of(4))?;
        // SAFETY: four bytes of the vector, aligned, which lives as long as the host.
        Some(unsafe { AtomicU32::from_ptr(self.0.address(at).as_ptr().cast()) })
    }

    fn word64(&self, rank: Rank, offset: u64) -> Option<&AtomicU64> {
        let at = RemoteAddress { rank, space: Space::Region, offset };
        self.0.range(at, 8).ok().filter(|at| at.is_multiple_of(8)).map(|at| self.0.word(at))
    }

    fn copies_from(&self, _space: Space) -> Option<usize> {
        None
    }

    fn conductor(&mut self) -> Option<&mut dyn Conductor> {
        self.is_conducted().then_some(self)
    }

    fn is_conducted(&self) -> bool {
        self.0.conducted.get()
    }
}

/// Records the actions that take time.
impl Conductor for RegionHost {
    fn carry(&mut self, command: &Command<'_>) -> Result<usize, FullCause> {
        Ok(command.payload.len())
    }

    fn begin_chain(&mut self) {}

    fn carry_put(&mut self, _put: &Command<'_>, _is_last: bool) -> bool {
        false
    }

    fn end_chain(&mut self) -> Option<u32> {
        None
    }

    fn awaits_landing(&mut self, _to: Rank) -> bool {
        false
    }

    fn announce(&mut self, _to: Rank, _protocol: u8, _header: u64, _length: u64, _offset: u64) {}

    fn go(&mut self, to: Rank, bytes: u64) {
        self.0.spent.borrow_mut().push(("go", to, bytes));
    }

    fn come_back(&mut self, from: Rank, bytes: u64) {
        self.0.spent.borrow_mut().push(("come back", from, bytes));
    }

    fn received(&mut self, _from: Rank, _bytes: u64, _begins: Option<u64>) {}

    fn near(&mut self, bytes: u64) {
        self.0.spent.borrow_mut().push(("near", self.1, bytes));
    }

    fn own(&mut self) {}

    fn compute(&mut self, _span: Time) {}

    fn look_in_vain(&mut self) {}

    fn catch_up(&mut self) {}

    fn run(&mut self, _queue: QueueAddress) {}
}

/// One step of the test.
#[derive(Debug, Clone)]
enum RegionStep {
    /// A shared word is overwritten, one of the first `near`.
    Scribble { at: prop::sample::Index, near: usize, value: u64 },
    /// A table entry or register is overwritten with words that name existing things.
    Forge { rank: Rank, generation: u32, index: u8, words: [u64; 3] },
    /// An honest rank posts to the other.
    Post { by: usize, what: u8, numbers: [u64; 4] },
    /// One of an honest rank's tables is changed.
    Table { by: usize, what: u8, numbers: [u64; 2] },
    /// An honest rank polls and takes what has arrived.
    Poll { by: usize },
    /// An honest rank uses its queues.
    Queue { by: usize, numbers: [u64; 4] },
    /// The hostile rank is declared dead.
    Die,
}

/// Numbers near the edges of all ranges.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0..40u64,
        2 => (0..600u64).prop_map(|n| n * 8),
        1 => (0..40u64).prop_map(|n| n.wrapping_neg()),
        1 => (0..40u64).prop_map(|n| REGION as u64 - n),
        1 => (0..4u64, 0..600u64).prop_map(|(high, low)| high << 32 | low),
        1 => (0..64u32).prop_map(|bit| 1 << bit),
        1 => any::<u64>(),
    ]
}

fn step() -> impl Strategy<Value = RegionStep> {
    use prop::array::{uniform2, uniform3, uniform4};
    let by = || 0..HONEST;
    let near = prop_oneof![Just(1000), Just(4000), Just(usize::MAX)];
    prop_oneof![
        6 => (any::<prop::sample::Index>(), near, number())
            .prop_map(|(at, near, value)| RegionStep::Scribble { at, near, value }),
        2 => (0..RANKS, 0..3u32, 0..3u8, uniform3(number())).prop_map(
            |(rank, generation, index, words)| RegionStep::Forge { rank, generation, index, words }
        ),
        6 => (by(), any::<u8>(), uniform4(number()))
            .prop_map(|(by, what, numbers)| RegionStep::Post { by, what, numbers }),
        2 => (by(), any::<u8>(), uniform2(number()))
            .prop_map(|(by, what, numbers)| RegionStep::Table { by, what, numbers }),
        4 => by().prop_map(|by| RegionStep::Poll { by }),
        1 => (by(), uniform4(number())).prop_map(|(by, numbers)| RegionStep::Queue { by, numbers }),
        1 => Just(RegionStep::Die),
    ]
}

/// The job: memory, honest ports, and their keys and groups.
struct RegionJob {
    memory: Rc<WalledRegions>,
    shared: Vec<usize>,
    ports: Vec<HostedPort<RegionHost>>,
    keys: Vec<(Rank, Key)>,
    groups: Vec<GroupId>,
}

impl RegionJob {
    fn new() -> RegionJob {
        let memory = WalledRegions::new();
        let port = |rank| HostedPort::new(RegionHost(Rc::clone(&memory), rank));
        let mut ports: Vec<_> = (0..HONEST as Rank).map(port).collect();
        let all: Vec<Rank> = (0..RANKS).collect();
        let groups = ports.iter_mut().map(|port| port.join(0, &all, 0).unwrap()).collect();
        let shared = memory.shared().collect();
        let mut job = RegionJob { memory, shared, ports, keys: Vec::new(), groups };
        for by in 0..HONEST {
            (0..4).for_each(|what| job.change_table(by, what, [64, 1024]));
        }
        job
    }

    fn run(&mut self, step: RegionStep) {
        match step {
            RegionStep::Scribble { at, near, value } => {
                let at = self.shared[at.index(self.shared.len().min(near))];
                self.memory.word(at).store(value, Ordering::Relaxed);
            }
            RegionStep::Forge { rank, generation, index, words } => {
                self.forge(rank, generation, index, words);
            }
            RegionStep::Post { by, what, numbers } => self.post(by, what, numbers),
            RegionStep::Table { by, what, numbers } => self.change_table(by, what, numbers),
            RegionStep::Poll { by } => self.poll(by),
            RegionStep::Queue { by, numbers } => self.use_queues(by, numbers),
            RegionStep::Die => _ = self.memory.registry().fail(2, DeathCause::Unknown),
        }
    }

    /// Opens a segment of a rank without its owner's help.
    fn forge(&mut self, rank: Rank, generation: u32, index: u8, words: [u64; 3]) {
        let segment = self.memory.segment(rank);
        let context = ContextId(words[2] as u8 % 2);
        let [base, length, _] = words;
        let extent = hikyaku_nic::table::Extent { base, length };
        segment.entry(context, index % 2).publish(extent, generation, Rights::ALL);
        let key = Key { context, index: index % 2, generation };
        let value = RegisterValue { segment: key, offset: base, advance: Advance::ByLength };
        segment.context(context).set(index % 3, Some(value));
        self.keys.push((rank, key));
    }

    fn address(&self, which: u64, offset: u64) -> RemoteAddress {
        let (rank, key) = self.keys[which as usize % self.keys.len()];
        let space = match which % 5 {
            0 => Space::Region,
            1 => Space::Register(Key { index: key.index % 3, generation: 1, ..key }),
            _ => Space::Segment(key),
        };
        RemoteAddress { rank, space, offset }
    }

    /// A command of any kind with any numbers.
    fn post(&mut self, by: usize, what: u8, numbers: [u64; 4]) {
        let [which, offset, length, value] = numbers;
        let payload = vec![0xab; (length % 700) as usize];
        let target = self.address(which, offset);
        let address = self.address(value, offset);
        let integers = [Integer::U32, Integer::I32, Integer::U64, Integer::I64];
        let operations = [AtomicOp::Add, AtomicOp::Min, AtomicOp::CompareSwap { expected: value }];
        let atomic = Atomic {
            target,
            integer: integers[usize::from(what) % 4],
            operation: operations[usize::from(what) % 3],
            operand: value,
            result: what.is_multiple_of(7).then_some(offset),
        };
        let command = match what % 4 {
            0 => Command::send(target.rank, 0, value, &payload),
            1 => Command::put(target, &payload),
            2 => Command {
                operation: Operation::Get(Get { from: target, into: value, length }),
                ..Command::nop(target.rank)
            },
            _ => Command::atomic(atomic),
        };
        let notifications =
            [Notification::None, Notification::Status, Notification::Word { address, value }];
        let replies = [Reply::None, Reply::Event, Reply::Word { offset: value, value }];
        let command = Command {
            notification: notifications[usize::from(what) / 4 % 3],
            reply: replies[usize::from(what) / 12 % 3],
            route: if what > 200 { Route::Ring(value as u32 % 4) } else { Route::Table },
            credited: what.is_multiple_of(2),
            ..command
        };
        let port = &mut self.ports[by];
        // The result does not matter: the call has returned.
        let _ = port.post(&command);
        let _ = port.post_chain(&[command, Command::nop(target.rank)]);
        let _ = port.get(target, &mut vec![0; (length % 700) as usize]);
        let _ = port.fetch(&atomic);
        let _ = port.read(target, &mut [0; 16]);
        self.multicast(by, &command, numbers);
    }

    /// Multicasts the command to both other ranks, and a put through their registers, by any keys.
    fn multicast(&mut self, by: usize, command: &Command<'_>, numbers: [u64; 4]) {
        let [which, offset, length, value] = numbers;
        let key = |number: u64| self.keys[number as usize % self.keys.len()].1;
        let keys = [which, offset, value].map(key).map(|key| match value % 3 {
            0 => key,
            _ => Key { generation: 1, ..key },
        });
        let (group, port) = (self.groups[by], &mut self.ports[by]);
        let few = if value.is_multiple_of(11) { 2 } else { 3 };
        let _ = port.set_registers(group, &keys[..few]);
        let payload = vec![0xab; (length % 700) as usize];
        let through = Command::put_through(which as u8 % 5, &payload);
        let through =
            Command { notification: command.notification, reply: command.reply, ..through };
        for command in [command, &through] {
            let mut reached = (0, 0);
            // Continues after a member that refused the command.
            for _ in 0..RANKS {
                let Err(cut) = port.multicast(group, command, reached.0, reached.1) else { break };
                reached = (cut.done + 1, 0);
            }
        }
    }

    fn change_table(&mut self, by: usize, what: u8, numbers: [u64; 2]) {
        let [offset, length] = numbers;
        let port = &mut self.ports[by];
        let context = ContextId(what / 16 % 2);
        match what % 8 {
            0 => _ = port.open_context(),
            1..=3 => {
                if let Ok(key) = port.register(context, offset, length, Rights::ALL) {
                    self.keys.push((by as Rank, key));
                    let advance = Advance::ByLength;
                    let value = RegisterValue { segment: key, offset: 0, advance };
                    let _ = port.set_address_register(context, what % 3, Some(value));
                }
            }
            4 | 5 => {
                let (_, key) = self.keys[offset as usize % self.keys.len().max(1)];
                let _ = port.deregister(key);
            }
            6 => _ = port.close_context(context),
            _ => {
                let members = [Member { rank: offset as Rank, context }];
                let _ = port.connect(context, &members);
                let _ = port.member(context, length as u32);
            }
        }
        for register in 0..4 {
            let _ = port.address_register(context, register);
        }
    }

    fn poll(&mut self, by: usize) {
        let port = &mut self.ports[by];
        for _ in 0..4 {
            let Some(event) = port.poll() else { break };
            if let Event::Landed(landed) = event
                && let Landing::Ring(slice) = landed.data
            {
                let mut into = vec![0; slice.len().min(4096)];
                port.read_out(slice, &mut into);
            }
        }
        for source in 0..RANKS {
            port.receive_whole(source, 0, 0, &mut [0; 600]);
            port.held_up();
            port.grant(source, 1000);
            let _ = port.route(source, Some(source % 2));
            let _ = port.peer(source);
        }
        let _ = (port.ring(0), port.ring(1), port.route_of(2));
        port.park(None);
    }

    fn use_queues(&mut self, by: usize, numbers: [u64; 4]) {
        let [from, at, length, release] = numbers;
        let to = QueueAddress { rank: release as Rank % 4, queue: 0, generation: 1 };
        let (notify, release) = (release % 2 == 0, release as u32 % 5);
        let put = QueuePut { from, at, length, to, notify, release };
        let port = &mut self.ports[by];
        let _ = port.create_queue(QueueMode::Session { offset: 1 }, 4);
        let combining = Combining::of_code(release as u16 * 0x101 + 1).unwrap();
        let combine = QueueCombine { left: from, right: at, into: from ^ at, length, combining };
        let command =
            if at % 3 == 0 { QueueCommand::Combine(combine) } else { QueueCommand::Put(put) };
        let _ = port.post_queue(0, &[command, QueueCommand::Nop]);
        let _ = port.repeat_queue(0, 2);
        let _ = port.queue_state(to);
        port.help_queue(to);
        port.completion(0);
        if release == 4 {
            let _ = port.destroy_queue(0);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1000, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn invalid_words_in_any_field_are_survived(steps in prop::collection::vec(step(), 1..80)) {
        let mut job = RegionJob::new();
        steps.into_iter().for_each(|step| job.run(step));
        job.memory.check_walls();
    }
}

/// One job for thousands of steps, so that invalid words of earlier steps meet later ones.
#[test]
fn a_long_life_among_invalid_words_is_survived() {
    for seed in 0..8u8 {
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
        let mut runner = TestRunner::new_with_rng(Config::default(), rng);
        let steps = step();
        let mut job = RegionJob::new();
        for _ in 0..4000 {
            job.run(steps.new_tree(&mut runner).unwrap().current());
        }
        job.memory.check_walls();
    }
}

/// A wake-up is a system call, so only ranks that announced a sleep are woken.
#[test]
fn whoever_says_that_it_sleeps_is_woken() {
    let memory = WalledRegions::new();
    let mut port = HostedPort::new(RegionHost(Rc::clone(&memory), 0));
    let to = RemoteAddress { rank: 1, space: Space::Region, offset: 0 };
    let notification = Notification::Word { address: to, value: 7 };
    let inline = Command::send(1, 0, 0, b"inline");
    let in_ring = Command::send(1, 0, 0, &[1; 200]);
    let word = Command { notification, ..Command::put(to, &[]) };
    for sleeps in [false, true] {
        for command in [inline, in_ring, word] {
            let sleeping = &memory.segment(1).doorbell().sleeping;
            sleeping.store(u64::from(sleeps), Ordering::Relaxed);
            assert_eq!(port.post(&command), Ok(command.payload.len()));
            assert_eq!(memory.woken.take(), vec![1; usize::from(sleeps)], "{command:?}");
        }
    }
}

#[test]
fn a_grant_wakes_whoever_waits_for_room() {
    let memory = WalledRegions::new();
    let mut port = HostedPort::new(RegionHost(Rc::clone(&memory), 0));
    for (waits, credit) in [(0, 10), (1, 20)] {
        memory.segment(0).sender(1).waiting.store(waits, Ordering::Relaxed);
        port.grant(1, credit);
        assert_eq!(memory.woken.take(), vec![1; waits as usize]);
    }
}

#[test]
fn a_joint_copy_wakes_its_receiver_if_asleep() {
    let memory = WalledRegions::new();
    let mut port = HostedPort::new(RegionHost(Rc::clone(&memory), 0));
    let into = RemoteAddress { rank: 1, space: Space::Region, offset: 0 };
    let copy = JointCopy { into, length: 100, number: 1 };
    for sleeps in [0, 1] {
        memory.segment(1).joint().open(copy.number);
        memory.segment(1).doorbell().sleeping.store(sleeps, Ordering::Relaxed);
        assert_eq!(port.write_jointly(&copy, &[7; 100]), Ok(100));
        assert_eq!(memory.woken.take(), vec![1; sleeps as usize]);
    }
}

/// If a rank waits for several members, any contribution may be the one that it needs.
#[test]
fn only_the_awaited_contribution_wakes_a_rank() {
    for (polled, synced, woken) in [
        (None, false, vec![]),
        (Some(1), false, vec![0]),
        (Some(2), false, vec![]),
        (Some(2), true, vec![0]),
    ] {
        let memory = WalledRegions::new();
        let port = |rank| HostedPort::new(RegionHost(Rc::clone(&memory), rank));
        let (mut reader, mut writer) = (port(0), port(1));
        let group = reader.join(0, &[0, 1, 2], 0).unwrap();
        writer.join(0, &[0, 1, 2], 0).unwrap();
        if let Some(place) = polled {
            assert_eq!(reader.contribution(group, place), Ok(None));
        }
        if synced {
            reader.sync(group, 0).unwrap();
            assert_eq!(reader.synced(group, 0), Ok(false));
        }
        reader.park(None);
        memory.segment(0).doorbell().sleeping.store(1, Ordering::Relaxed);
        writer.contribute(group, 0, &[]).unwrap();
        assert_eq!(memory.woken.take(), woken, "it polled for {polled:?}, a barrier: {synced}");
    }
}

/// If a rank waits for its counter only, the last addition wakes it; if it waits for more, any
/// addition does.
#[test]
fn cj_15_only_the_last_addition_wakes_a_rank() {
    for (synced, first) in [(false, vec![]), (true, vec![0])] {
        let memory = WalledRegions::new();
        let port = |rank| HostedPort::new(RegionHost(Rc::clone(&memory), rank));
        let mut ports = [port(0), port(1), port(2)];
        let group = ports.each_mut().map(|port| port.join(0, &[0, 1, 2], 0).unwrap())[0];
        let [reader, one, other] = &mut ports;
        reader.add_to_all(group).unwrap();
        assert_eq!(reader.counted(group, 1), Ok(false));
        if synced {
            reader.sync(group, 0).unwrap();
            assert_eq!(reader.synced(group, 0), Ok(false));
        }
        reader.park(None);
        memory.segment(0).doorbell().sleeping.store(1, Ordering::Relaxed);
        one.add(group, 0).unwrap();
        assert_eq!(memory.woken.take(), first);
        other.add_to_all(group).unwrap();
        assert_eq!(memory.woken.take(), [0]);
        assert_eq!(reader.counted(group, 1), Ok(true));
    }
}

#[test]
fn in_virtual_time_requests_and_replies_take_time() {
    let memory = WalledRegions::new();
    memory.conducted.set(true);
    let mut port = HostedPort::new(RegionHost(Rc::clone(&memory), 0));
    let at = |rank| RemoteAddress { rank, space: Space::Region, offset: 0 };
    let put = |rank| Command::put(at(rank), &[7; 24]);
    let get = |rank| {
        let operation = Operation::Get(Get { from: at(rank), into: 64, length: 40 });
        Command { operation, ..Command::nop(rank) }
    };
    let add = |rank| {
        let (operation, integer) = (AtomicOp::Add, Integer::U64);
        let atomic = Atomic { target: at(rank), operation, integer, operand: 1, result: None };
        Command { operation: Operation::Atomic(atomic), ..Command::nop(rank) }
    };
    // A frame has 16 bytes in addition to its payload.
    for (command, spent) in [
        (put(1), vec![("go", 1, 24 + 16), ("come back", 1, 16)]),
        (get(1), vec![("go", 1, 16), ("come back", 1, 40 + 16)]),
        (add(1), vec![("go", 1, 16), ("come back", 1, 8 + 16)]),
        (put(0), vec![]),
        (get(0), vec![]),
        (add(0), vec![]),
        (Command::send(0, 0, 0, b"to itself"), vec![("near", 0, 9)]),
        (Command::send(1, 0, 0, b"carried"), vec![]),
    ] {
        assert_eq!(port.post(&command), Ok(command.payload.len()));
        assert_eq!(memory.spent.take(), spent, "{command:?}");
    }
}

/// In virtual time the second wait counts as a sleep, so the periodic work is done.
#[test]
fn who_holds_up_another_does_not_wait_twice() {
    for (conducted, waits, second) in
        [(true, 1, Wake::Slept), (true, 0, Wake::Look), (false, 1, Wake::Look)]
    {
        let memory = WalledRegions::new();
        memory.conducted.set(conducted);
        let mut port = HostedPort::new(RegionHost(Rc::clone(&memory), 0));
        memory.segment(0).sender(1).waiting.store(waits, Ordering::Relaxed);
        memory.segment(0).doorbell().attention.store(1, Ordering::Relaxed);
        assert!(port.poll().is_none());
        assert_eq!([(); 2].map(|()| port.park(None)), [Wake::Look, second]);
    }
}

#[test]
fn virtual_time_checks_the_ring_before_the_flight() {
    let memory = WalledRegions::new();
    memory.conducted.set(true);
    let mut port = HostedPort::new(RegionHost(Rc::clone(&memory), 0));
    let absent = PostError::NoSuchRing { destination: 1, ring: 9 };
    for (bytes, total, expected) in
        [(8, 8, Ok(8)), (8, 300, Err(absent)), (200, 200, Err(absent)), (200, 300, Err(absent))]
    {
        let payload = vec![7; bytes];
        let command = Command::send(1, 0, 0, &payload);
        let command = Command { route: Route::Ring(9), total, ..command };
        assert_eq!(port.post(&command), expected, "{bytes} bytes of {total}");
    }
}
