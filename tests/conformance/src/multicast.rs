//! Multicast to memory: puts through each receiver's address register (paper 003 §4.9, CJ-14), and
//! atomic operations.

#![expect(clippy::unwrap_used, reason = "bodies of tests: an error is a failure")]

use std::collections::BTreeMap;

use hikyaku_nic::fabric::{
    Advance, AtomicOp, ChainError, Command, Completed, Event, Fault, FullCause, Get, GroupError,
    GroupId, GroupPort, Integer, Key, MemoryPort, Notification, Operation, Port, PostError,
    REGISTERS, Rank, RegisterValue, RemoteAddress, Reply, Rights, Space,
};

use crate::access::{Area, atomic};
use crate::group::{join, multicast};
use crate::job::pattern;
use crate::{Harness, Job, Setup, TablePort};

/// Memory of each rank of a group, and the keys of their registers, which the sender knows.
struct Receivers {
    group: GroupId,
    areas: Vec<Area>,
    keys: Vec<Key>,
}

impl Receivers {
    /// All ranks of a job in one group; each has `length` bytes, at another place and in another
    /// context. Rank 0 will multicast.
    fn new<H: Harness>(job: &mut Job<'_, H>, ranks: Rank, length: usize) -> Receivers {
        let members: Vec<Rank> = (0..ranks).collect();
        let group = join(job, 0, &members, 0);
        let area = |job: &mut Job<'_, H>, rank: Rank| {
            let port = job.port(rank);
            for _ in 0..rank % 3 {
                port.open_context().unwrap();
            }
            let gap = port.allocate(64 * (rank as usize + 1)).unwrap();
            let area = Area::new(job, rank, length, Rights::WRITE);
            drop(gap);
            area
        };
        let areas: Vec<Area> = members.iter().map(|rank| area(job, *rank)).collect();
        let mut key = |(rank, area): (Rank, &Area)| job.port(rank).register_key(area.context, 2);
        let keys: Vec<Key> = (0..).zip(&areas).map(|area| key(area).unwrap()).collect();
        job.port(0).set_registers(group, &keys).unwrap();
        Receivers { group, areas, keys }
    }

    /// Points a register of a rank into its memory.
    fn point<H: Harness>(
        &self,
        job: &mut Job<'_, H>,
        rank: Rank,
        register: u8,
        (offset, advance): (u64, Advance),
    ) {
        let area = &self.areas[rank as usize];
        let value = RegisterValue { segment: area.key, offset, advance };
        job.port(rank).set_address_register(area.context, register, Some(value)).unwrap();
    }

    /// The offset that a register of a rank points to.
    fn at<H: Harness>(&self, job: &mut Job<'_, H>, rank: Rank, register: u8) -> Option<u64> {
        let context = self.areas[rank as usize].context;
        job.port(rank).address_register(context, register).unwrap().map(|value| value.offset)
    }

    /// Asserts the contents of a rank: zeros except these bytes at these places.
    fn has(&self, rank: Rank, pieces: &[(usize, &[u8])]) {
        let area = &self.areas[rank as usize];
        let mut expected = vec![0; area.bytes().len()];
        for (at, bytes) in pieces {
            expected[*at..*at + bytes.len()].copy_from_slice(bytes);
        }
        assert_eq!(area.bytes(), expected, "rank {rank}");
        area.check_margins();
    }
}

/// Rank 0's completions by member, in any order, until `count` members have one.
fn told<H: Harness>(job: &mut Job<'_, H>, count: usize) -> BTreeMap<Rank, Completed> {
    let mut all = BTreeMap::new();
    while all.len() < count {
        match job.await_event(0) {
            Event::Completed(completed) => {
                assert!(all.insert(completed.destination, completed).is_none(), "told twice");
            }
            Event::PeerFailed(_) => {}
            other => panic!("a completion was expected: {other:?}"),
        }
    }
    all
}

/// A multicast put lands where each member's own register points, with any of the three; a member
/// points it elsewhere without telling any rank (CJ-14: "DMA with address register").
pub fn cj_14_every_member_has_its_own_address<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(4));
    let mut receivers = Receivers::new(&mut job, 4, 300);
    let group = receivers.group;
    for register in 0..REGISTERS {
        for rank in 0..4u32 {
            let offset = u64::from(10 * rank + u32::from(register));
            receivers.point(&mut job, rank, register, (offset, Advance::Hold));
        }
    }
    for register in [1, 2, 0] {
        let payload = pattern(u64::from(register), 200);
        let put = Command::put_through(register, &payload);
        let put = Command { notification: Notification::Status, header: 5, ..put };
        multicast(&mut job, 0, group, &put);
        for rank in 1..4 {
            let Some(Event::Notified(told)) = job.next(rank) else { panic!("it is announced") };
            assert_eq!((told.source, told.header, told.length), (0, 5, 200));
            let at = 10 * rank as usize + usize::from(register);
            receivers.has(rank, &[(at, &payload)]);
            receivers.areas[rank as usize].bytes_mut().fill(0);
        }
        receivers.has(0, &[]);
    }
    receivers.point(&mut job, 2, 1, (90, Advance::Hold));
    let put = Command::put_through(1, &[7; 8]);
    let Operation::Put(address) = put.operation else { panic!("it is a put") };
    let further = Operation::Put(RemoteAddress { offset: 100, ..address });
    multicast(&mut job, 0, group, &Command { operation: further, ..put });
    receivers.has(1, &[(111, &[7; 8])]);
    receivers.has(2, &[(190, &[7; 8])]);
    receivers.has(3, &[(131, &[7; 8])]);
}

/// Each member chooses whether its register advances, and where it points (paper 003 does not say
/// this; both are possible here).
pub fn cj_14_registers_move_on_as_their_members_say<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(3));
    let receivers = Receivers::new(&mut job, 3, 200);
    receivers.point(&mut job, 1, 0, (20, Advance::ByLength));
    receivers.point(&mut job, 2, 0, (40, Advance::Hold));
    let payloads: Vec<Vec<u8>> =
        [30, 0, 1, 40].map(|length| pattern(length, length as usize)).into();
    for payload in &payloads {
        multicast(&mut job, 0, receivers.group, &Command::put_through(0, payload));
    }
    assert_eq!((receivers.at(&mut job, 1, 0), receivers.at(&mut job, 2, 0)), (Some(91), Some(40)));
    receivers.has(1, &[(20, &payloads.concat())]);
    // The last is the longest: it has overwritten the others.
    receivers.has(2, &[(40, &payloads[3])]);
}

/// Out of bounds of one member's segment, an unset register, a segment that was taken back, a
/// member that is gone: nothing is written there, the sender gets an event, and all others have the
/// data (CJ-14; paper 003 §4.7: an error).
pub fn cj_14_what_a_member_refuses_is_an_event_and_the_others_are_served<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(6));
    let receivers = Receivers::new(&mut job, 6, 100);
    let group = receivers.group;
    for rank in [1, 4, 5] {
        receivers.point(&mut job, rank, 1, (3, Advance::Hold));
    }
    receivers.point(&mut job, 2, 1, (60, Advance::ByLength));
    let refused = |register: Key, all: &BTreeMap<Rank, Completed>| {
        let outside = PostError::OutOfBounds { rank: 2, offset: 60, length: 41 };
        let unset = Fault::RegisterUnset(Key { index: 1, ..register });
        let unset = PostError::Protection { rank: 3, fault: unset };
        assert_eq!((all[&2].outcome, all[&3].outcome), (Err(outside), Err(unset)));
    };
    let payload = pattern(1, 41);
    let put = Command { header: 7, protocol: 3, ..Command::put_through(1, &payload) };
    multicast(&mut job, 0, group, &put);
    let all = told(&mut job, 2);
    refused(receivers.keys[3], &all);
    assert!(all.values().all(|told| (told.header, told.protocol) == (7, 3)));
    for rank in [1, 4, 5] {
        receivers.has(rank, &[(3, &payload)]);
    }
    receivers.has(2, &[]);
    receivers.has(3, &[]);
    assert_eq!(receivers.at(&mut job, 2, 1), Some(60), "what was refused moves nothing");

    // If all completions are requested, the refusals are among them.
    multicast(&mut job, 0, group, &Command { reply: Reply::Event, ..put });
    let all = told(&mut job, 5);
    refused(receivers.keys[3], &all);
    assert!([1, 4, 5].iter().all(|rank| all[rank].outcome == Ok(41)));

    let stale = receivers.areas[4].key;
    assert_eq!(job.port(4).deregister(stale), Ok(()), "nobody is inside");
    job.kill(5);
    assert!(matches!(job.await_event(0), Event::PeerFailed(failure) if failure.rank == 5));
    multicast(&mut job, 0, group, &Command::put_through(1, &[9; 41]));
    let all = told(&mut job, 4);
    refused(receivers.keys[3], &all);
    assert!(matches!(all[&4].outcome, Err(PostError::Protection { rank: 4, .. })), "{all:?}");
    assert!(matches!(all[&5].outcome, Err(PostError::PeerFailed(_))), "{all:?}");
    receivers.has(1, &[(3, &[9; 41])]);
    receivers.has(4, &[(3, &payload)]);
}

/// A sender that ignores the events of refusals cannot have any number of them: beyond the limit of
/// completions nothing more is sent (CJ-12), and every refusal is reported.
pub fn cj_12_cj_14_events_of_refusals_are_limited<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(2));
    let receivers = Receivers::new(&mut job, 2, 8);
    receivers.point(&mut job, 1, 0, (0, Advance::Hold));
    let most = job.port(0).capabilities().outstanding;
    let put = Command::put_through(0, &[1; 9]);
    let mut refused = 0;
    for _ in 0..100 * most {
        match job.port(0).multicast(receivers.group, &put, 0, 0) {
            Ok(()) => refused += 1,
            Err(ChainError { done: 1, error: PostError::Full { cause, .. }, .. }) => {
                if cause == FullCause::Outstanding {
                    break;
                }
            }
            Err(cut) => panic!("{cut}"),
        }
    }
    assert!(refused >= most && refused < 4 * most, "{refused} of {most}");
    for _ in 0..refused {
        let Event::Completed(told) = job.await_event(0) else { panic!("no completion") };
        assert!(matches!(told.outcome, Err(PostError::OutOfBounds { rank: 1, .. })), "{told:?}");
    }
    receivers.has(1, &[]);
    multicast(&mut job, 0, receivers.group, &Command::put_through(0, &[1; 8]));
    receivers.has(1, &[(0, &[1; 8])]);
}

/// Barrier D of paper 003's Fig. 10 needs an atomic add at the same address of all others.
pub fn cj_15_one_command_adds_at_every_member<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(4));
    let group = join(&mut job, 0, &[3, 1, 0, 2], 0);
    let mut words = Vec::new();
    for rank in 0..4 {
        let mut word = job.port(rank).allocate(64).unwrap();
        word.fill(0);
        words.push(word);
    }
    let offset = words[0].offset();
    assert!(words.iter().all(|word| word.offset() == offset), "regions are alike");
    let anywhere = RemoteAddress { rank: 99, space: Space::Region, offset };
    for rank in 0..4 {
        let add = atomic(anywhere, Integer::U64, AtomicOp::Add, 1 << (8 * rank));
        multicast(&mut job, rank, group, &Command::atomic(add));
    }
    for (rank, word) in words.iter().enumerate() {
        let all = 0x0101_0101u64 & !(0xff << (8 * rank));
        assert_eq!(word[..8], all.to_le_bytes(), "rank {rank}: from all but itself");
    }
}

/// A command without an address register has no address at each member.
pub fn what_cannot_be_multicast_is_refused<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(3));
    let group = join(&mut job, 0, &[0, 1, 2], 0);
    let refused = |job: &mut Job<'_, H>, command: &Command<'_>| {
        let cut = job.port(0).multicast(group, command, 0, 0).unwrap_err();
        assert_eq!((cut.done, cut.bytes), (1, 0), "place 0 is the sender's own: {cut}");
        cut.error.to_string()
    };
    let put = Command::put_through(0, &[1; 4]);
    assert!(refused(&mut job, &put).contains("without the keys of the members' address registers"));
    let receiver = Area::new(&mut job, 1, 64, Rights::ALL);
    let key = job.port(1).register_key(receiver.context, 0).unwrap();
    let few = GroupError::NoSuchMember { place: 2, members: 3 };
    assert_eq!(job.port(0).set_registers(group, &[key; 2]), Err(few));
    job.port(0).set_registers(group, &[key; 3]).unwrap();
    assert_eq!(job.port(0).group(group).map(|g| g.registers().to_vec()), Some(vec![key; 3]));
    let fourth = Command::put_through(3, &[1; 4]);
    assert!(refused(&mut job, &fourth).contains("a fourth address register"));
    let elsewhere = [receiver.at(0), RemoteAddress { space: Space::Region, ..receiver.at(0) }];
    for address in elsewhere {
        let error = refused(&mut job, &Command::put(address, &[1; 4]));
        assert!(error.contains("multicast a put to anything but address registers"), "{error}");
    }
    let get = Operation::Get(Get { from: receiver.at(0), into: 0, length: 8 });
    let error = refused(&mut job, &Command { operation: get, ..Command::nop(1) });
    assert!(error.contains("multicast a get"), "{error}");
    assert!(receiver.bytes().iter().all(|byte| *byte == 0));
    receiver.check_margins();
}
