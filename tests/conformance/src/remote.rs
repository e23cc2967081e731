//! Memory that peers address: put, read, regions and nodes.

use hikyaku_nic::fabric::{
    ChainError, Command, CopyPort, Event, MemoryPort, Notification, Port, PostError, RemoteAddress,
    Rights, Space,
};
use hikyaku_nic::region::{RegionBuffer, RegionError};

use crate::command::chain;
use crate::job::pattern;
use crate::{Harness, Job, Setup};

/// Allocates region memory of a rank and exposes it.
fn region<H: Harness>(job: &mut Job<'_, H>, rank: u32, bytes: usize) -> (RegionBuffer, Address) {
    let buffer = job.port(rank).allocate(bytes).expect("the region has room");
    let address = job.port(rank).expose(&buffer).expect("region memory can be named");
    assert_eq!((address.rank, address.space), (rank, Space::Region));
    assert_eq!(address.offset, buffer.offset());
    (buffer, address)
}

type Address = RemoteAddress;

/// The address `bytes` further on.
fn after(address: Address, bytes: u64) -> Address {
    Address { offset: address.offset + bytes, ..address }
}

/// A put writes exactly its bytes; the record or the word that announces it comes after them.
pub fn cp_05_a_put_arrives_before_its_notification<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(3));
    let (mut buffer, target) = region(&mut job, 0, 1024);
    buffer.fill(0xaa);
    let payload = pattern(1, 100);
    job.send(1, &Command::put(after(target, 64), &payload));
    assert!(job.next(0).is_none(), "without notification nobody is told");
    assert_eq!(buffer[64..164], payload);
    assert!(buffer[..64].iter().chain(&buffer[164..]).all(|byte| *byte == 0xaa));

    let payload = pattern(2, 33);
    let notification = Notification::Status;
    let put = Command::put(after(target, 501), &payload);
    job.send(2, &Command { notification, header: 11, protocol: 4, ..put });
    let Some(Event::Notified(told)) = job.next(0) else { panic!("the put is announced") };
    assert_eq!((told.source, told.header, told.protocol), (2, 11, 4));
    assert_eq!((told.offset, told.length), (target.offset + 501, 33));
    assert_eq!(buffer[501..534], payload);

    let payload = pattern(3, 256);
    let word = after(target, 512);
    let notification = Notification::Word { address: word, value: 0x0123_4567_89ab_cdef };
    job.send(1, &Command { notification, ..Command::put(target, &payload) });
    assert_eq!(buffer[512..520], 0x0123_4567_89ab_cdef_u64.to_le_bytes());
    assert_eq!(buffer[..256], payload);
    assert!(job.next(0).is_none(), "a word is not a record");
}

/// The puts of a posted chain have landed, at several ranks, each word after its data. They are one
/// access to each rank's memory. An invalid put cuts the chain there.
pub fn cp_06_puts_of_a_chain_land_with_their_words<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(3));
    let mut areas = [0, 2].map(|rank| {
        let (buffer, at) = region(&mut job, rank, 1024);
        let context = job.port(rank).open_context().expect("a context is free");
        let key = job.port(rank).register(context, at.offset, 1024, Rights::WRITE);
        let space = Space::Segment(key.expect("the context has room for a segment"));
        (buffer, RemoteAddress { rank, space, offset: 0 })
    });
    areas.iter_mut().for_each(|(buffer, _)| buffer.fill(0xaa));
    let payloads: Vec<_> = (0..6).map(|n| pattern(n, 20 * n as usize)).collect();
    let place = |n: usize| after(areas[n % 2].1, 100 * n as u64);
    let puts = |n: usize| {
        let word = after(areas[n % 2].1, 1016);
        let notification = match n {
            4 | 5 => Notification::Word { address: word, value: n as u64 },
            _ => Notification::None,
        };
        Command { notification, ..Command::put(place(n), &payloads[n]) }
    };
    let commands: Vec<_> = (0..6).map(puts).collect();
    let seen = |job: &mut Job<'_, H>| [0, 2].map(|rank| harness.epoch(job.port(1), rank));
    let before = seen(&mut job);
    chain(&mut job, 1, &commands);
    assert_eq!(seen(&mut job), before.map(|epoch| Some(epoch? + 2)), "one access");
    for (n, payload) in payloads.iter().enumerate() {
        let buffer = &areas[n % 2].0;
        assert_eq!(buffer[100 * n..][..payload.len()], payload[..], "put {n}");
        assert_eq!(buffer[100 * n + payload.len()..][..1], [0xaa], "behind put {n}");
    }
    for (side, (buffer, _)) in areas.iter().enumerate() {
        assert_eq!(buffer[1016..], (4 + side as u64).to_le_bytes());
    }
    let outside = RemoteAddress { offset: 1 << 40, ..areas[1].1 };
    let (first, third) = (pattern(7, 50), pattern(8, 50));
    let bad = [
        Command::put(place(0), &first),
        Command::put(outside, &third),
        Command::put(place(2), &third),
    ];
    let cut = (0..1000).find_map(|_| match job.port(1).post_chain(&bad) {
        Err(cut) if !matches!(cut.error, PostError::Full { .. }) => Some(cut),
        _ => {
            job.drive(1);
            None
        }
    });
    let (rank, length) = (2, 50);
    let error = PostError::OutOfBounds { rank, offset: outside.offset, length };
    assert_eq!(cut, Some(ChainError { done: 1, bytes: 0, error }));
    job.settle(1);
    // A layer may hold puts after the cut that it took before it knew the answer.
    assert_eq!(areas[0].0[..50], first);
}

/// CJ-17: bytes are exact from and to any word, also across a page, and no neighbouring byte is
/// changed.
pub fn cj_17_a_put_is_exact_from_and_to_any_byte<H: Harness>(harness: &H) {
    const PAGE: usize = 4096;
    let mut job = Job::open(harness, &Setup::private(2));
    let (mut buffer, target) = region(&mut job, 0, 2 * PAGE);
    let memory = pattern(17, 2 * PAGE);
    for length in [1, 4, 9, 64, 300] {
        for from in [0, 1, 4, 7, PAGE - 3] {
            for to in [0, 1, 4, 5, 63, PAGE - 1] {
                buffer.fill(0xaa);
                let payload = &memory[from..from + length];
                job.send(1, &Command::put(after(target, to as u64), payload));
                let case = format!("{length} bytes from {from} to {to}");
                assert_eq!(buffer[to..to + length], *payload, "{case}");
                let mut beside = buffer[..to].iter().chain(&buffer[to + length..]);
                assert!(beside.all(|byte| *byte == 0xaa), "{case}");
            }
        }
    }
}

/// A put that is not fully inside the region, or whose word is not, writes nothing at all.
pub fn a_put_out_of_bounds_writes_nothing<H: Harness>(harness: &H) {
    let setup = Setup::private(2);
    let size = setup.region_bytes as u64;
    let mut job = Job::open(harness, &setup);
    let (mut buffer, start) = region(&mut job, 0, setup.region_bytes);
    buffer.fill(0x55);
    let payload = pattern(1, 64);
    for offset in [size - 63, size, size + 1, u64::MAX - 63, u64::MAX] {
        let target = Address { offset, ..start };
        for notification in [Notification::None, Notification::Status] {
            let put = Command { notification, ..Command::put(target, &payload) };
            let outside = PostError::OutOfBounds { rank: 0, offset, length: 64 };
            assert_eq!(job.refused(1, &put), outside);
        }
    }
    let put = Command::put(start, &payload);
    for offset in [size, size + 8, u64::MAX - 7] {
        let address = Address { offset, ..start };
        let outside = PostError::OutOfBounds { rank: 0, offset, length: 8 };
        let notification = Notification::Word { address, value: 1 };
        assert_eq!(job.refused(1, &Command { notification, ..put }), outside);
    }
    let notification = Notification::Word { address: after(start, 4), value: 1 };
    let error = job.refused(1, &Command { notification, ..put });
    let offset = start.offset + 4;
    assert_eq!(error, PostError::Misaligned { rank: 0, offset, size: 8 });
    let address = Address { rank: 7, ..start };
    let notification = Notification::Word { address, value: 1 };
    let error = job.refused(1, &Command { notification, ..put });
    assert_eq!(error, PostError::NoSuchRank { rank: 7, size: 2 });
    assert!(buffer.iter().all(|byte| *byte == 0x55), "nothing was written");
    assert!(job.next(0).is_none(), "and nothing was announced");
}

/// A read sees what its owner wrote, byte for byte, and nothing outside the region.
pub fn reads_see_what_is_there_and_nothing_outside<H: Harness>(harness: &H) {
    let setup = Setup::private(2);
    let size = setup.region_bytes as u64;
    let mut job = Job::open(harness, &setup);
    let (mut buffer, start) = region(&mut job, 0, setup.region_bytes);
    buffer.copy_from_slice(&pattern(5, setup.region_bytes));
    for (offset, length) in [(0, 1), (1, 63), (4095, 4097), (size - 1, 1), (size, 0)] {
        let mut into = vec![0; length];
        let from = after(start, offset);
        assert_eq!(job.port(1).read(from, &mut into), Ok(()));
        let offset = offset as usize;
        assert_eq!(into, buffer[offset..offset + length]);
    }
    for offset in [size - 7, size, u64::MAX - 7, u64::MAX] {
        let from = Address { offset, ..start };
        let mut into = [0x33; 8];
        let outside = PostError::OutOfBounds { rank: 0, offset, length: 8 };
        assert_eq!(job.port(1).read(from, &mut into), Err(outside));
        assert_eq!(into, [0x33; 8], "nothing was read");
    }
    let stack = [1, 2, 3];
    if let Some(address) = job.port(0).expose(&stack) {
        assert_eq!(address.space, Space::Process, "not in the region");
        assert!(job.port(0).capabilities().process_from.is_some());
    }
}

/// Whichever end copies, a message that both may copy arrives whole, once, and nothing else
/// changes.
pub fn a_message_is_copied_by_either_end_or_both<H: Harness>(harness: &H) {
    const LENGTH: usize = 200_001;
    let setup = Setup { region_bytes: 1 << 20, ..Setup::private(2) };
    let mut job = Job::open(harness, &setup);
    let (mut message, from) = region(&mut job, 0, LENGTH);
    let (mut into, _) = region(&mut job, 1, LENGTH + 64);
    message.copy_from_slice(&pattern(5, LENGTH));
    if job.port(0).capabilities().virtual_time {
        assert_eq!(job.port(1).open_joint(&into), None, "virtual time has no model of it");
        return;
    }
    for sender_first in [true, false] {
        into.fill(0x33);
        let copy = job.port(1).open_joint(&into[..LENGTH]).expect("fabrics of one host have it");
        assert_eq!((copy.into.rank, copy.length), (1, LENGTH as u64));
        let early = if sender_first { job.port(0).write_jointly(&copy, &message) } else { Ok(0) };
        assert_eq!(job.port(1).read_jointly(from, &mut into[..LENGTH], &copy), Ok(true));
        assert_eq!(early, Ok(if sender_first { LENGTH as u64 } else { 0 }));
        assert_eq!(job.port(0).write_jointly(&copy, &message), Ok(0), "nothing is left to copy");
        assert!(into[..LENGTH] == message[..] && into[LENGTH..] == [0x33; 64]);
    }
    // A copy that was closed, or opened before another, writes nothing any more.
    let old = job.port(1).open_joint(&into[..LENGTH]).expect("as before");
    let closed = job.port(1).open_joint(&into[..LENGTH]).expect("as before");
    assert!(job.port(1).close_joint(0, &closed), "the sender has nothing in its hands");
    into.fill(0x44);
    for copy in [old, closed] {
        assert_eq!(job.port(0).write_jointly(&copy, &message), Ok(0));
    }
    let short = job.port(0).write_jointly(&closed, &message[1..]);
    assert!(matches!(short, Err(PostError::OutOfBounds { rank: 1, .. })), "{short:?}");
    assert!(into.iter().all(|byte| *byte == 0x44));
}

/// A region is allocated in pieces that do not overlap, reports exhaustion by an error, and is
/// whole again when everything was freed.
pub fn regions_are_given_exhausted_and_given_back<H: Harness>(harness: &H) {
    let setup = Setup::private(2);
    let mut job = Job::open(harness, &setup);
    let mut counts = Vec::new();
    for _ in 0..3 {
        let mut pieces: Vec<(RegionBuffer, u8)> = Vec::new();
        let error = loop {
            match job.port(0).allocate(3000) {
                Ok(mut piece) => {
                    assert_eq!(piece.len(), 3000);
                    let mark = pieces.len() as u8 + 1;
                    piece.fill(mark);
                    pieces.push((piece, mark));
                }
                Err(error) => break error,
            }
        };
        let RegionError::Exhausted { wanted, size, free } = error else { panic!("{error}") };
        assert_eq!((wanted, size), (3000, setup.region_bytes as u64));
        assert!(free < 3000, "no run of 3000 bytes is left: the pieces lie side by side");
        assert!(pieces.iter().all(|(piece, mark)| piece.iter().all(|byte| byte == mark)));
        counts.push(pieces.len());
    }
    assert!(counts[0] > 0 && counts.iter().all(|count| *count == counts[0]), "{counts:?}");
    let whole = job.port(0).allocate(setup.region_bytes);
    assert!(whole.is_ok(), "the pieces were joined again");
    let other = job.port(1).allocate(setup.region_bytes);
    assert!(other.is_ok(), "each rank has a region of its own");
}

/// Ranks of different nodes do not read each other's memory directly; commands between them work,
/// as an interface would carry them.
pub fn memory_of_another_node_is_not_read<H: Harness>(harness: &H) {
    let setup = Setup { ranks_per_node: 2, ..Setup::private(4) };
    let mut job = Job::open(harness, &setup);
    let nodes: Vec<_> = (0..4).map(|rank| job.port(0).node_of(rank)).collect();
    assert_eq!(nodes, [0, 0, 1, 1]);
    let (mut buffer, target) = region(&mut job, 0, 64);
    buffer.fill(7);
    let mut into = [0; 64];
    assert_eq!(job.port(1).read(target, &mut into), Ok(()));
    assert_eq!(into, [7; 64]);
    let error = job.port(2).read(target, &mut into);
    assert!(matches!(error, Err(PostError::Unsupported(_))), "{error:?}");
    let put = Command { notification: Notification::Status, ..Command::put(target, &[9; 64]) };
    job.send(2, &put);
    assert!(matches!(job.next(0), Some(Event::Notified(_))));
    assert_eq!(buffer[..], [9; 64]);
    job.send(2, &Command::send(0, 0, 0, &[1; 100]));
    assert_eq!(job.take(0).map(|record| record.bytes), Some(vec![1; 100]), "messages do arrive");
}
