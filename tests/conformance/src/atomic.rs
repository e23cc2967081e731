//! Gets, atomic operations, address registers and completions (paper 003 Table 1 and §4.8:
//! CJ-03, CJ-10 to CJ-12), with targets that do nothing.

use hikyaku_nic::fabric::{
    Advance, Atomic, AtomicOp, Command, Event, FullCause, Integer, MemoryPort, Notification, Port,
    PostError, RegisterValue, RemoteAddress, Reply, Rights, Space,
};

use crate::access::{Area, atomic, completed, fetch, get, register};
use crate::job::pattern;
use crate::{Harness, Job, Setup, TablePort};

const INTEGERS: [Integer; 4] = [Integer::U32, Integer::I32, Integer::U64, Integer::I64];

/// Numbers near all limits.
const NUMBERS: [u64; 8] =
    [0, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 1 << 63, (1 << 63) - 1, u64::MAX];

/// The result of an operation by its definition: MPI 5.0 §12.3.4 and paper 003 Table 1.
fn expected(operation: AtomicOp, integer: Integer, old: u64, operand: u64) -> u64 {
    let signed = |value: u64| match integer {
        Integer::I32 => i128::from(value as u32 as i32),
        Integer::I64 => i128::from(value as i64),
        Integer::U32 | Integer::U64 => i128::from(integer.truncate(value)),
    };
    let smaller = signed(old) <= signed(operand);
    let new = match operation {
        AtomicOp::Load => old,
        AtomicOp::Add => old.wrapping_add(operand),
        AtomicOp::Swap => operand,
        AtomicOp::CompareSwap { expected } => {
            let equal = integer.truncate(expected) == old;
            if equal { operand } else { old }
        }
        AtomicOp::And => old & operand,
        AtomicOp::Or => old | operand,
        AtomicOp::Xor => old ^ operand,
        AtomicOp::Min => {
            if smaller {
                old
            } else {
                operand
            }
        }
        AtomicOp::Max => {
            if smaller {
                operand
            } else {
                old
            }
        }
    };
    integer.truncate(new)
}

/// Every atomic operation, on every integer, returns the old value, stores the right new one, and
/// changes nothing beside it, while the target does nothing.
pub fn cj_11_atomic_operations_do_what_they_say<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(2));
    let mut area = Area::new(&mut job, 0, 32, Rights::ALL);
    let own = Area::new(&mut job, 1, 32, Rights::ALL);
    for (old, operand) in NUMBERS.iter().flat_map(|old| NUMBERS.map(|other| (*old, other))) {
        let swaps =
            [AtomicOp::CompareSwap { expected: old }, AtomicOp::CompareSwap { expected: 7 }];
        let bits = [AtomicOp::And, AtomicOp::Or, AtomicOp::Xor];
        let others = [AtomicOp::Load, AtomicOp::Add, AtomicOp::Swap, AtomicOp::Min, AtomicOp::Max];
        for operation in swaps.into_iter().chain(bits).chain(others) {
            for integer in INTEGERS {
                area.bytes_mut()[..8].fill(0xee);
                area.bytes_mut()[8..16].copy_from_slice(&old.to_le_bytes());
                area.bytes_mut()[16..].fill(0xee);
                let was = integer.truncate(old);
                let change = atomic(area.at(8), integer, operation, operand);
                assert_eq!(fetch(&mut job, 1, &change), Ok(was), "{change:?}");
                let kept = if integer.size() == 4 { old >> 32 << 32 } else { 0 };
                let new = expected(operation, integer, was, operand) | kept;
                assert_eq!(area.word(8), new, "{change:?} of {old:#x}");
                let beside = area.bytes()[..8].iter().chain(&area.bytes()[16..]);
                assert!(beside.copied().all(|byte| byte == 0xee));
            }
        }
    }
    // The same as a command, which stores the old value in the requester's region and reports an
    // event.
    area.bytes_mut()[8..16].copy_from_slice(&40u64.to_le_bytes());
    let result = Some(own.buffer.offset() + crate::access::MARGIN as u64 + 8);
    let add = Atomic { result, ..atomic(area.at(8), Integer::U64, AtomicOp::Add, 2) };
    let reply = Reply::Event;
    job.send(1, &Command { reply, header: 77, protocol: 5, ..Command::atomic(add) });
    let told = completed(&mut job, 1);
    assert_eq!((told.destination, told.header, told.protocol), (0, 77, 5));
    assert_eq!(told.outcome, Ok(40));
    assert_eq!((own.word(8), area.word(8)), (40, 42));
    assert!(job.next(0).is_none(), "the target was not told");
    own.check_margins();
}

/// A get returns exactly the bytes it names, while the target's program does nothing.
pub fn cj_11_a_get_brings_bytes_and_says_so<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(2));
    let mut area = Area::new(&mut job, 0, 5000, Rights::READ);
    let own = Area::new(&mut job, 1, 5000, Rights::READ);
    let bytes = pattern(3, 5000);
    area.bytes_mut().copy_from_slice(&bytes);
    let into = own.buffer.offset() + crate::access::MARGIN as u64;
    for (offset, length) in [(0, 1), (1, 63), (13, 4000), (4999, 1), (5000, 0)] {
        let reply = Reply::Event;
        let command = Command::get(area.at(offset), into, length);
        job.send(1, &Command { reply, header: offset, ..command });
        let told = completed(&mut job, 1);
        assert_eq!((told.header, told.outcome), (offset, Ok(length)));
        let range = offset as usize..(offset + length) as usize;
        assert_eq!(own.bytes()[..length as usize], bytes[range.clone()]);
        let mut direct = vec![0; length as usize];
        assert_eq!(get(&mut job, 1, area.at(offset), &mut direct), Ok(()));
        assert_eq!(direct, bytes[range]);
    }
    own.check_margins();
    let size = Setup::private(2).region_bytes as u64;
    for into in [size - 7, size, u64::MAX] {
        let outside = PostError::OutOfBounds { rank: 1, offset: into, length: 8 };
        assert_eq!(job.refused(1, &Command::get(area.at(0), into, 8)), outside);
    }
    assert!(job.next(0).is_none(), "the target was not told");
}

/// Words follow the data that they announce: at the target the payload, at the source the reply.
pub fn cj_10_words_come_after_what_they_announce<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(3));
    let area = Area::new(&mut job, 0, 256, Rights::ALL);
    let third = Area::new(&mut job, 2, 64, Rights::WRITE);
    let own = Area::new(&mut job, 1, 256, Rights::ALL);
    let start = own.buffer.offset() + crate::access::MARGIN as u64;
    let payload = pattern(8, 100);
    let notification = Notification::Word { address: third.at(8), value: 11 };
    let reply = Reply::Word { offset: start, value: 12 };
    job.send(1, &Command { notification, reply, ..Command::put(area.at(3), &payload) });
    assert_eq!(area.bytes()[3..103], payload);
    assert_eq!((third.word(8), own.word(0)), (11, 12), "the word may be at a third rank");
    let reply = Reply::Word { offset: start + 8, value: 13 };
    let command = Command::get(area.at(3), start + 16, 100);
    job.send(1, &Command { reply, ..command });
    assert_eq!((own.word(8), &own.bytes()[16..116]), (13, &payload[..]));
    let notification = Notification::Status;
    let add = atomic(area.at(240), Integer::U32, AtomicOp::Add, 5);
    job.send(1, &Command { notification, header: 6, ..Command::atomic(add) });
    let Some(Event::Notified(told)) = job.next(0) else { panic!("the target asked to be told") };
    let at = area.buffer.offset() + crate::access::MARGIN as u64 + 240;
    assert_eq!((told.source, told.header, told.offset, told.length), (1, 6, at, 4));
    // If a word cannot be stored, nothing is done at all.
    for offset in [start + 4, Setup::private(3).region_bytes as u64, u64::MAX - 7] {
        let reply = Reply::Word { offset, value: 1 };
        let put = Command { reply, ..Command::put(area.at(0), &[9; 8]) };
        let error = job.refused(1, &put);
        let size = 8;
        let expected = match offset % 8 {
            0 => PostError::OutOfBounds { rank: 1, offset, length: 8 },
            _ => PostError::Misaligned { rank: 1, offset, size },
        };
        assert_eq!(error, expected);
    }
    assert_eq!(area.bytes()[..3], [0; 3]);
    for area in [&area, &third, &own] {
        area.check_margins();
    }
}

/// Commands that want a completion event are limited; polling the events makes room.
pub fn cj_12_outstanding_completions_are_limited<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(2));
    let area = Area::new(&mut job, 0, 64, Rights::ALL);
    let into = job.port(1).allocate(64).expect("the region has room").offset();
    let limit = job.port(1).capabilities().outstanding;
    let reply = Reply::Event;
    let command = Command { reply, ..Command::get(area.at(0), into, 8) };
    let (mut posted, mut polled) = (0, 0);
    for round in 0..4 {
        loop {
            let command = Command { header: posted, ..command };
            match job.port(1).post(&command) {
                Ok(_) => posted += 1,
                Err(PostError::Full { cause: FullCause::Outstanding, .. }) => break,
                Err(PostError::Full { .. }) => job.settle(1),
                Err(error) => panic!("{error}"),
            }
            assert!(posted - polled <= 2 * limit as u64 + 2, "it is not limited");
        }
        let waiting = posted - polled;
        assert!(waiting >= limit as u64, "fewer than the limit fit: {waiting}");
        // Commands without an event are not held up by those with one.
        if round == 0 {
            assert!(job.next(0).is_none());
        }
        for _ in 0..waiting {
            let told = completed(&mut job, 1);
            assert_eq!((told.header, told.outcome), (polled, Ok(8)), "each once, in order");
            polled += 1;
        }
    }
}

/// A put through an address register lands where the target's program pointed it.
pub fn cj_03_a_put_lands_where_the_register_points<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(3));
    let mut area = Area::new(&mut job, 0, 256, Rights::WRITE);
    let context = area.context;
    for which in 0..3u8 {
        let offset = 64 * u64::from(which);
        let value = RegisterValue { segment: area.key, offset, advance: Advance::Hold };
        job.port(0).set_address_register(context, which, Some(value)).expect("it points inside");
        assert_eq!(job.port(0).address_register(context, which), Ok(Some(value)));
    }
    for which in [2, 0, 1] {
        let through = register(&mut job, 0, context, which);
        for source in [1, 2] {
            let payload = [which * 10 + source as u8; 16];
            job.send(source, &Command::put(through, &payload));
            job.send(source, &Command::put(RemoteAddress { offset: 32, ..through }, &payload));
        }
        let start = 64 * usize::from(which);
        let mark = which * 10 + 2;
        assert_eq!(area.bytes()[start..start + 16], [mark; 16], "it stays: the last one is there");
        assert_eq!(area.bytes()[start + 16..start + 32], [0; 16]);
        assert_eq!(area.bytes()[start + 32..start + 48], [mark; 16]);
    }
    area.bytes_mut().fill(0);
    // When it points elsewhere, the same command lands there; pointing nowhere, it refuses.
    let through = register(&mut job, 0, context, 1);
    let value = RegisterValue { segment: area.key, offset: 250, advance: Advance::Hold };
    job.port(0).set_address_register(context, 1, Some(value)).expect("it points inside");
    job.send(1, &Command::put(through, &[1; 6]));
    let outside = PostError::OutOfBounds { rank: 0, offset: 250, length: 7 };
    assert_eq!(job.refused(1, &Command::put(through, &[2; 7])), outside);
    assert_eq!(area.bytes()[..250], [0; 250]);
    assert_eq!(area.bytes()[250..], [1; 6]);
    job.port(0).set_address_register(context, 1, None).expect("it points inside");
    let error = job.refused(1, &Command::put(through, &[2; 6]));
    assert!(matches!(error, PostError::Protection { rank: 0, .. }), "{error}");
    // Registers accept puts only.
    let through = register(&mut job, 0, context, 0);
    let error = get(&mut job, 1, through, &mut [0; 4]).expect_err("puts only");
    assert!(matches!(error, PostError::Unsupported(_)), "{error}");
    let add = atomic(through, Integer::U32, AtomicOp::Add, 1);
    let error = fetch(&mut job, 1, &add).expect_err("not in such memory");
    assert!(matches!(error, PostError::Unsupported(_)), "{error}");
    area.check_margins();
}

/// A register that advances places its puts side by side, until the segment is full.
pub fn cj_03_a_register_that_advances_fills_its_segment<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(3));
    let area = Area::new(&mut job, 0, 100, Rights::WRITE);
    let context = area.context;
    let value = RegisterValue { segment: area.key, offset: 10, advance: Advance::ByLength };
    job.port(0).set_address_register(context, 0, Some(value)).expect("it points inside");
    let through = register(&mut job, 0, context, 0);
    let mut expected = vec![0; 10];
    for (number, length) in [30, 0, 1, 40].into_iter().enumerate() {
        let payload = pattern(number as u64, length);
        job.send(1 + number as u32 % 2, &Command::put(through, &payload));
        expected.extend(payload);
    }
    let at = |job: &mut Job<'_, H>| {
        let value = job.port(0).address_register(context, 0).expect("it exists");
        value.expect("it is set").offset
    };
    assert_eq!(at(&mut job), 81);
    let outside = PostError::OutOfBounds { rank: 0, offset: 81, length: 20 };
    assert_eq!(job.refused(1, &Command::put(through, &[9; 20])), outside);
    let error = job.refused(1, &Command::put(RemoteAddress { offset: 1, ..through }, &[9; 2]));
    assert!(matches!(error, PostError::Unsupported(_)), "{error}");
    // A put whose word cannot be stored takes no place.
    let notification = Notification::Word { address: area.at(96), value: 1 };
    let put = Command { notification, ..Command::put(through, &[9; 2]) };
    let error = job.refused(1, &put);
    assert_eq!(error, PostError::OutOfBounds { rank: 0, offset: 96, length: 8 });
    assert_eq!(at(&mut job), 81, "what was refused moves nothing");
    job.send(2, &Command::put(through, &[7; 19]));
    expected.extend([7; 19]);
    assert_eq!(area.bytes(), expected);
    assert_eq!(job.refused(2, &Command::put(through, &[7])), {
        PostError::OutOfBounds { rank: 0, offset: 100, length: 1 }
    });
    area.check_margins();
}

/// Puts through a register that are longer than a packet lie side by side and whole; one that does
/// not fit writes nothing.
pub fn cj_03_long_puts_through_a_register_lie_side_by_side<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(3));
    let lengths = [20_000, 5, 9_000];
    let mut area = Area::new(&mut job, 0, lengths.iter().sum(), Rights::WRITE);
    for advance in [Advance::ByLength, Advance::Hold] {
        area.bytes_mut().fill(0);
        let value = RegisterValue { segment: area.key, offset: 0, advance };
        job.port(0).set_address_register(area.context, 2, Some(value)).expect("it points inside");
        let through = register(&mut job, 0, area.context, 2);
        let mut expected = vec![0; area.bytes().len()];
        let mut end = 0;
        for (number, length) in lengths.into_iter().enumerate() {
            let payload = pattern(number as u64, length);
            job.send(1 + number as u32 % 2, &Command::put(through, &payload));
            let start = if advance == Advance::Hold { 0 } else { end };
            expected[start..start + length].copy_from_slice(&payload);
            end += length;
        }
        assert!(area.bytes() == expected, "{advance:?}");
        let free = if advance == Advance::Hold { end } else { 0 };
        let error = job.refused(1, &Command::put(through, &vec![9; free + 10_000]));
        assert!(matches!(error, PostError::OutOfBounds { rank: 0, .. }), "{error}");
        assert!(area.bytes() == expected, "{advance:?}: what was refused wrote nothing");
    }
    area.check_margins();
}

/// Misaligned words, and words outside memory that can be named, are refused.
pub fn words_that_cannot_be_are_refused<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(2));
    let area = Area::new(&mut job, 0, 64, Rights::ALL);
    let own = Area::new(&mut job, 1, 64, Rights::ALL);
    for (integer, offsets) in [(Integer::U32, &[1, 2, 3, 5][..]), (Integer::I64, &[1, 4, 7])] {
        let size = integer.size();
        for offset in offsets.iter().copied() {
            let add = atomic(area.at(offset), integer, AtomicOp::Add, 1);
            let error = PostError::Misaligned { rank: 0, offset, size };
            assert_eq!(fetch(&mut job, 1, &add), Err(error));
            assert_eq!(job.refused(1, &Command::atomic(add)), error);
            let result = own.buffer.offset() + offset;
            let add =
                Atomic { result: Some(result), ..atomic(area.at(0), integer, AtomicOp::Add, 1) };
            let error = PostError::Misaligned { rank: 1, offset: result, size };
            assert_eq!(job.refused(1, &Command::atomic(add)), error);
        }
    }
    let process = RemoteAddress { rank: 0, space: Space::Process, offset: 4096 };
    let add = atomic(process, Integer::U64, AtomicOp::Add, 1);
    let error = fetch(&mut job, 1, &add).expect_err("not in such memory");
    assert!(matches!(error, PostError::Unsupported(_)), "{error}");
    let missing = atomic(RemoteAddress { rank: 2, ..area.at(0) }, Integer::U64, AtomicOp::Add, 1);
    let error = PostError::NoSuchRank { rank: 2, size: 2 };
    assert_eq!(fetch(&mut job, 1, &missing), Err(error));
    assert_eq!(get(&mut job, 1, missing.target, &mut [0; 8]), Err(error));
    assert_eq!(area.bytes(), [0; 64]);
}

/// A refused command of a chain is named, and reported by the event it asked for.
pub fn a_refused_command_of_a_chain_is_told_twice<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(2));
    let area = Area::new(&mut job, 0, 64, Rights::ALL);
    let reply = Reply::Event;
    let bad = Command { reply, header: 5, ..Command::put(area.at(60), &[1; 8]) };
    let outside = PostError::OutOfBounds { rank: 0, offset: 60, length: 8 };
    let mut rest = &[Command::put(area.at(0), &[1; 8]), bad, Command::put(area.at(8), &[1; 8])][..];
    for _ in 0..1000 {
        match job.port(1).post_chain(rest) {
            Err(cut) if matches!(cut.error, PostError::Full { .. }) => {
                rest = &rest[cut.done..];
                job.settle(1);
            }
            Err(cut) => {
                assert_eq!(cut.error, outside);
                break;
            }
            // It was taken before the outcome was known: then the event is the only report.
            Ok(()) => break,
        }
    }
    job.settle(1);
    let told = completed(&mut job, 1);
    assert_eq!((told.header, told.outcome), (5, Err(outside)));
    assert_eq!(area.word(0), 0x0101_0101_0101_0101);
    assert_eq!(area.bytes()[60..], [0; 4]);
}

/// Commands reach the memory of other nodes, as an interface carries them.
pub fn cj_11_commands_go_between_nodes<H: Harness>(harness: &H) {
    let setup = Setup { ranks_per_node: 1, ..Setup::private(3) };
    let mut job = Job::open(harness, &setup);
    let area = Area::new(&mut job, 0, 64, Rights::ALL);
    let own = Area::new(&mut job, 2, 64, Rights::ALL);
    job.send(2, &Command::put(area.at(0), &[3; 8]));
    let add = atomic(area.at(8), Integer::U64, AtomicOp::Add, 4);
    assert_eq!(fetch(&mut job, 2, &add), Ok(0));
    let into = own.buffer.offset() + crate::access::MARGIN as u64;
    job.send(2, &Command::get(area.at(0), into, 16));
    assert_eq!((own.word(0), own.word(8)), (0x0303_0303_0303_0303, 4));
    let process = RemoteAddress { rank: 0, space: Space::Process, offset: 4096 };
    let error = job.refused(2, &Command::put(process, &[1]));
    assert!(
        matches!(error, PostError::Unsupported(_)),
        "a process's memory is its node's: {error}"
    );
}
