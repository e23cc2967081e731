//! Contexts, tables and protection (paper 003 §4.7: CJ-04 to CJ-07).

use hikyaku_nic::fabric::{
    Advance, AtomicOp, Command, ContextError, ContextId, Fault, Integer, Key, Member, MemoryPort,
    Notification, Port, PostError, REGISTERS, RegisterValue, RemoteAddress, Rights, RingPort,
    Space,
};

use crate::access::{Area, atomic, fetch, get, register};
use crate::job::pattern;
use crate::{Harness, Job, Setup, TablePort};

/// A logical number is translated by its context's node table; beyond the table's end it is
/// refused.
pub fn cj_04_a_logical_number_is_translated_or_refused<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(3));
    let port = job.port(0);
    let (one, two) = (
        port.open_context().expect("a context is free"),
        port.open_context().expect("a context is free"),
    );
    let member = |rank, context| Member { rank, context: ContextId(context) };
    let members = [member(2, 1), member(0, 0), member(2, 3)];
    port.connect(one, &members).expect("the members can be");
    port.connect(two, &members[..1]).expect("the members can be");
    for (logical, expected) in (0..).zip(members) {
        assert_eq!(port.member(one, logical), Ok(expected));
    }
    for (context, logical, members) in [(one, 3, 3), (two, 1, 1), (one, u32::MAX, 3)] {
        let error = PostError::NoSuchMember { logical, members };
        assert_eq!(port.member(context, logical), Err(error));
    }
    let bad = member(3, 0);
    let error = ContextError::BadMember { index: 1, member: bad };
    assert_eq!(port.connect(one, &[members[0], bad]), Err(error));
    assert_eq!(port.member(one, 2), Ok(members[2]), "a refused table changes nothing");
    port.close_context(one).expect("it is empty");
    let error = PostError::NoSuchMember { logical: 0, members: 0 };
    assert_eq!(port.member(one, 0), Err(error));
    assert_eq!(port.connect(one, &members), Err(ContextError::NotOpen(one)));
}

/// The layout sets the number of contexts; things of one context cannot be reached from another.
pub fn cj_05_contexts_do_not_leak<H: Harness>(harness: &H) {
    let setup = Setup::private(2);
    let mut job = Job::open(harness, &setup);
    let mut areas: Vec<Area> =
        (0..setup.layout.contexts).map(|_| Area::new(&mut job, 0, 64, Rights::ALL)).collect();
    let error = ContextError::NoContextFree { contexts: setup.layout.contexts };
    assert_eq!(job.port(0).open_context(), Err(error));
    for (number, area) in areas.iter().enumerate() {
        let payload = [number as u8 + 1; 64];
        job.send(1, &Command::put(area.at(0), &payload));
    }
    for (number, area) in areas.iter().enumerate() {
        assert!(area.bytes().iter().all(|byte| *byte == number as u8 + 1));
        area.check_margins();
    }
    // Only the first context has a second segment, and only the second a register.
    let second = Area::within(&mut job, 0, areas[0].context, 64, Rights::ALL);
    let value = RegisterValue { segment: areas[1].key, offset: 0, advance: Advance::Hold };
    job.port(0).set_address_register(areas[1].context, 0, Some(value)).expect("it points inside");
    let elsewhere = Key { context: areas[1].context, ..second.key };
    let space = Space::Segment(elsewhere);
    let refused = job.refused(1, &Command::put(RemoteAddress { space, ..second.at(0) }, &[9; 8]));
    let fault = Fault::NoSuchSegment(elsewhere);
    assert_eq!(refused, PostError::Protection { rank: 0, fault });
    let unset = register(&mut job, 0, areas[0].context, 0);
    let Space::Register(key) = unset.space else { unreachable!("it is a register") };
    let refused = job.refused(1, &Command::put(unset, &[9; 8]));
    assert_eq!(refused, PostError::Protection { rank: 0, fault: Fault::RegisterUnset(key) });
    let foreign = RegisterValue { segment: areas[0].key, ..value };
    let answer = job.port(0).set_address_register(areas[1].context, 1, Some(foreign));
    let error = ContextError::BadRegisterValue { segment: areas[0].key, offset: 0 };
    assert_eq!(answer, Err(error), "a register points into its own context only");
    assert!(second.bytes().iter().all(|byte| *byte == 0));
    areas.iter_mut().for_each(|area| area.check_margins());
}

/// As many contexts as a key can tell apart: 256 of a rank (paper 003's cid has 8 bits). Each one's
/// segment and register lead to its own memory alone, and closing one takes nothing from another.
pub fn cj_05_256_contexts_of_a_rank_do_not_leak<H: Harness>(harness: &H) {
    const CONTEXTS: u32 = 256;
    let mut setup = Setup::private(2);
    (setup.layout.contexts, setup.layout.segments) = (CONTEXTS, 1);
    setup.region_bytes = 1 << 20;
    let mut job = Job::open(harness, &setup);
    let areas: Vec<Area> = (0..CONTEXTS).map(|_| Area::new(&mut job, 0, 16, Rights::ALL)).collect();
    let error = ContextError::NoContextFree { contexts: CONTEXTS };
    assert_eq!(job.port(0).open_context(), Err(error));
    let registers: Vec<RemoteAddress> = areas
        .iter()
        .map(|area| {
            let value = RegisterValue { segment: area.key, offset: 8, advance: Advance::Hold };
            let set = job.port(0).set_address_register(area.context, 0, Some(value));
            set.expect("it points inside");
            register(&mut job, 0, area.context, 0)
        })
        .collect();
    let word = |number: usize| (number as u64 + 1) * 0x0101_0101_0101;
    // Each write is seen in one area and in no other.
    let check = |written: usize| {
        for (number, area) in areas.iter().enumerate() {
            let expected = if number < written { [word(number), !word(number)] } else { [0; 2] };
            assert_eq!([area.word(0), area.word(8)], expected, "context {number} of {written}");
            area.check_margins();
        }
    };
    for (number, area) in areas.iter().enumerate() {
        job.send(1, &Command::put(area.at(0), &word(number).to_ne_bytes()));
        job.send(1, &Command::put(registers[number], &(!word(number)).to_ne_bytes()));
        if number % 16 == 0 {
            check(number + 1);
        }
    }
    check(areas.len());
    // Of three neighbours the one between is closed: its own keys open nothing, the others' do.
    let closed = &areas[100];
    job.port(0).deregister(closed.key).expect("nobody is inside");
    job.port(0).close_context(closed.context).expect("it is empty");
    for address in [closed.at(0), registers[100]] {
        let error = job.refused(1, &Command::put(address, &[0xff; 8]));
        assert!(matches!(error, PostError::Protection { rank: 0, .. }), "{error}");
    }
    check(areas.len());
    for number in [99, 101] {
        job.send(1, &Command::put(areas[number].at(0), &[0; 8]));
        assert_eq!([areas[number].word(0), areas[number].word(8)], [0, !word(number)]);
    }
}

/// A closed context gives no access, and old keys stay invalid when it is opened again.
pub fn cj_05_a_context_that_is_open_again_does_not_know_old_keys<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(2));
    let area = Area::new(&mut job, 0, 64, Rights::ALL);
    let context = area.context;
    let value = RegisterValue { segment: area.key, offset: 0, advance: Advance::Hold };
    job.port(0).set_address_register(context, 2, Some(value)).expect("it points inside");
    let through = register(&mut job, 0, context, 2);
    job.send(1, &Command::put(through, &[1; 8]));
    let port = job.port(0);
    let error = ContextError::InUse { context, segments: 1 };
    assert_eq!(port.close_context(context), Err(error));
    port.deregister(area.key).expect("nobody is inside");
    port.close_context(context).expect("it is empty");
    assert_eq!(port.close_context(context), Err(ContextError::NotOpen(context)));
    let Space::Register(key) = through.space else { unreachable!("it is a register") };
    let closed = PostError::Protection { rank: 0, fault: Fault::NoSuchRegister(key) };
    assert_eq!(job.refused(1, &Command::put(through, &[2; 8])), closed);
    let again = Area::new(&mut job, 0, 64, Rights::ALL);
    assert_eq!((again.context, again.key.index), (context, area.key.index));
    let value = RegisterValue { segment: again.key, ..value };
    job.port(0).set_address_register(context, 2, Some(value)).expect("it points inside");
    assert_eq!(job.refused(1, &Command::put(through, &[2; 8])), closed);
    let stale = PostError::Protection { rank: 0, fault: Fault::Stale(area.key) };
    assert_eq!(job.refused(1, &Command::put(area.at(0), &[2; 8])), stale);
    assert_eq!(again.bytes(), [0; 64]);
}

/// An access outside the segment is refused.
pub fn cj_06_what_is_outside_of_a_segment_is_an_error_at_the_sender<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(2));
    let area = Area::new(&mut job, 0, 128, Rights::ALL);
    let own = Area::new(&mut job, 1, 128, Rights::ALL);
    let payload = pattern(1, 64);
    for offset in [65, 127, 128, 129, 4096, u64::MAX - 63, u64::MAX] {
        let outside = PostError::OutOfBounds { rank: 0, offset, length: 64 };
        let address = area.at(offset);
        assert_eq!(job.refused(1, &Command::put(address, &payload)), outside);
        let into = own.buffer.offset();
        assert_eq!(job.refused(1, &Command::get(address, into, 64)), outside);
        assert_eq!(get(&mut job, 1, address, &mut [0; 64]), Err(outside));
    }
    for offset in [124, 128, u64::MAX - 3] {
        let add = atomic(area.at(offset), Integer::U64, AtomicOp::Add, 1);
        let outside = PostError::OutOfBounds { rank: 0, offset, length: 8 };
        assert_eq!(fetch(&mut job, 1, &add), Err(outside));
        assert_eq!(job.refused(1, &Command::atomic(add)), outside);
        let notification = Notification::Word { address: area.at(offset), value: 1 };
        let put = Command { notification, ..Command::put(area.at(0), &payload) };
        assert_eq!(job.refused(1, &put), outside, "not even the payload");
    }
    assert_eq!(area.bytes(), [0; 128]);
    area.check_margins();
    own.check_margins();
    job.send(1, &Command::put(area.at(64), &payload));
    job.send(1, &Command::put(area.at(128), &[]));
    assert_eq!(area.bytes()[64..], payload);
}

/// A segment may be used according to its rights and not otherwise.
pub fn cj_06_rights_are_what_the_owner_gave<H: Harness>(harness: &H) {
    let rights = [Rights::READ, Rights::WRITE, Rights::ATOMIC];
    for granted in (1..8).map(Rights::from_bits) {
        let mut job = Job::open(harness, &Setup::private(2));
        let area = Area::new(&mut job, 0, 64, granted);
        let own = Area::new(&mut job, 1, 64, Rights::READ);
        let denied = |wanted| {
            let fault = Fault::Rights { wanted, granted };
            Err(PostError::Protection { rank: 0, fault })
        };
        let expect =
            |wanted: Rights| if granted.contains(wanted) { Ok(()) } else { denied(wanted) };
        let [read, write, change] = rights.map(expect);
        assert_eq!(get(&mut job, 1, area.at(0), &mut [0; 8]), read);
        let load = atomic(area.at(0), Integer::U32, AtomicOp::Load, 0);
        assert_eq!(fetch(&mut job, 1, &load).map(drop), read);
        let add = atomic(area.at(0), Integer::U32, AtomicOp::Add, 1);
        assert_eq!(fetch(&mut job, 1, &add).map(drop), change);
        let put = Command::put(area.at(8), &[1; 8]);
        let elsewhere = Command::get(own.at(0), own.buffer.offset(), 0);
        let notification = Notification::Word { address: area.at(16), value: 1 };
        for command in [put, Command { notification, ..elsewhere }] {
            match write {
                Ok(()) => job.send(1, &command),
                Err(error) => assert_eq!(job.refused(1, &command), error),
            }
        }
        let expected =
            [u64::from(change.is_ok()), if write.is_ok() { 0x0101_0101_0101_0101 } else { 0 }];
        assert_eq!([area.word(0), area.word(8)], expected);
        assert_eq!(area.word(16), u64::from(write.is_ok()));
    }
}

/// A key that was taken back is invalid, also when its place is reused; so are keys that never
/// existed.
pub fn cj_06_a_stale_or_invented_key_opens_nothing<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(2));
    let first = Area::new(&mut job, 0, 64, Rights::ALL);
    job.send(1, &Command::put(first.at(0), &[1; 64]));
    job.port(0).deregister(first.key).expect("nobody is inside");
    let error = ContextError::NoSuchSegment(first.key);
    assert_eq!(job.port(0).deregister(first.key), Err(error), "once");
    let put = Command::put(first.at(0), &[2; 64]);
    let fault = Fault::NoSuchSegment(first.key);
    assert_eq!(job.refused(1, &put), PostError::Protection { rank: 0, fault });
    let again = Area::within(&mut job, 0, first.context, 64, Rights::ALL);
    assert_eq!(again.key.index, first.key.index, "the same entry");
    let fault = Fault::Stale(first.key);
    assert_eq!(job.refused(1, &put), PostError::Protection { rank: 0, fault });
    assert_eq!((first.bytes(), again.bytes()), (&[1; 64][..], &[0; 64][..]));
    let right = again.key;
    for context in [0, 1, 3, 4, 255].map(ContextId) {
        for index in [0, 1, 3, 4, 255] {
            for generation in [0, right.generation, right.generation + 1, u32::MAX] {
                let key = Key { context, index, generation };
                let space = Space::Segment(key);
                let invented = RemoteAddress { rank: 0, space, offset: 0 };
                if key != right {
                    let error = job.refused(1, &Command::put(invented, &[3; 64]));
                    assert!(matches!(error, PostError::Protection { rank: 0, .. }), "{error}");
                }
                let invented = RemoteAddress { space: Space::Register(key), ..invented };
                let error = job.refused(1, &Command::put(invented, &[3; 64]));
                assert!(matches!(error, PostError::Protection { rank: 0, .. }), "{error}");
            }
        }
    }
    assert_eq!(again.bytes(), [0; 64]);
}

/// Tables have their limits, and invalid registrations are refused.
pub fn cj_06_what_cannot_be_registered_is_refused<H: Harness>(harness: &H) {
    let setup = Setup::private(2);
    let size = setup.region_bytes as u64;
    let mut job = Job::open(harness, &setup);
    let port = job.port(0);
    let context = port.open_context().expect("a context is free");
    for (offset, length) in [(size, 1), (size - 7, 8), (u64::MAX, 1), (0, size + 1)] {
        let error = ContextError::NotInRegion { offset, length, region: size };
        assert_eq!(port.register(context, offset, length, Rights::ALL), Err(error));
    }
    let nothing = Rights::from_bits(0);
    assert_eq!(port.register(context, 0, 8, nothing), Err(ContextError::NoRights));
    let closed = ContextId(context.0 + 1);
    let answer = port.register(closed, 0, 8, Rights::ALL);
    assert_eq!(answer, Err(ContextError::NotOpen(closed)));
    let segments = setup.layout.segments;
    let keys: Vec<Key> = (0..segments)
        .map(|n| {
            port.register(context, u64::from(n), 0, Rights::ALL)
                .expect("there is room for a segment")
        })
        .collect();
    let error = ContextError::NoSegmentFree { context, segments };
    assert_eq!(port.register(context, 0, 8, Rights::ALL), Err(error));
    port.deregister(keys[1]).expect("nobody is inside");
    let key = port.register(context, 0, 8, Rights::ALL).expect("there is room for a segment");
    assert_eq!(key.index, keys[1].index);
    assert_ne!(key.generation, keys[1].generation);
    let which = REGISTERS;
    assert_eq!(port.register_key(context, which), Err(ContextError::NoSuchRegister(which)));
    for (segment, offset) in [(key, 9), (keys[1], 0)] {
        let value = RegisterValue { segment, offset, advance: Advance::Hold };
        let error = ContextError::BadRegisterValue { segment, offset };
        assert_eq!(port.set_address_register(context, 0, Some(value)), Err(error));
    }
    assert_eq!(port.address_register(context, 0), Ok(None));
}

/// A rank that may write all memory that another can register writes none of its tables: they read
/// the same, and messages land as before. (Past the library it can, if ranks share memory.)
pub fn cj_07_commands_write_memory_and_no_table<H: Harness>(harness: &H) {
    let setup = Setup::private(2);
    let mut job = Job::open(harness, &setup);
    let port = job.port(0);
    let context = port.open_context().expect("a context is free");
    let key = port.register(context, 0, setup.region_bytes as u64, Rights::ALL);
    let segment = key.expect("the whole region can be registered");
    let value = RegisterValue { segment, offset: 64, advance: Advance::Hold };
    port.set_address_register(context, 1, Some(value)).expect("it points inside");
    let member = Member { rank: 1, context: ContextId(0) };
    port.connect(context, &[member]).expect("the member can be");
    let tables = |job: &mut Job<'_, H>| {
        let port = job.port(0);
        let rings = (0..setup.layout.rings).map(|ring| port.ring(ring)).collect::<Vec<_>>();
        let routes = [0, 1].map(|source| port.route_of(source));
        let registers = [0, 1].map(|which| port.address_register(context, which));
        (rings, routes, registers, port.member(context, 0))
    };
    let before = tables(&mut job);
    let at = |offset: usize| {
        let space = Space::Segment(segment);
        RemoteAddress { rank: 0, space, offset: offset as u64 }
    };
    for offset in (0..setup.region_bytes).step_by(1024) {
        job.send(1, &Command::put(at(offset), &[0xff; 1024]));
    }
    let mut written = [0; 8];
    for offset in [0, setup.region_bytes - 8] {
        get(&mut job, 1, at(offset), &mut written).expect("it may be read");
        assert_eq!(written, [0xff; 8]);
    }
    assert_eq!(tables(&mut job), before);
    let payload = pattern(7, 200);
    job.send(1, &Command::send(0, 0, 0, &payload));
    assert_eq!(job.take(0).expect("it has landed").bytes, payload);
}
