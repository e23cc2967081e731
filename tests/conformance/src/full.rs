//! Full is a normal answer: both policies for landing rings (IP-10, IP-11) and for the status
//! ring, and messages that no ring can hold.

use hikyaku_nic::fabric::{
    Command, Event, FullCause, FullPolicy, Granularity, Landed, Port, PostError, Rank, RingPort,
    RingState,
};

use crate::job::{Assembly, part, pattern};
use crate::{Harness, Job, Received, Setup};

/// Sends messages of `length` bytes to rank 0 until one finds no room, for the expected cause.
/// Returns how many were accepted.
fn fill<H: Harness>(
    job: &mut Job<'_, H>,
    from: Rank,
    first: u64,
    length: usize,
    expected: FullCause,
) -> u64 {
    for number in first.. {
        let payload = pattern(number, length);
        let command = Command::send(0, 0, number, &payload);
        if job.offer(from, &command).is_err() {
            let causes = job.full_causes(from, &command);
            assert!(causes.contains(&expected), "{causes:?}");
            return number;
        }
    }
    unreachable!("a ring is not endless")
}

fn ring_of<H: Harness>(job: &mut Job<'_, H>, source: Rank) -> RingState {
    let ring = job.port(0).route_of(source).expect("the source has a ring");
    job.port(0).ring(ring).expect("the ring exists")
}

/// The next records that have landed at rank 0, unread.
fn landed<H: Harness>(job: &mut Job<'_, H>, count: usize) -> Vec<Landed> {
    (0..count).map(|_| job.landed(0).expect("it has landed")).collect()
}

/// Drains rank 0 while the sender continues, until all accepted messages have arrived, in order.
fn drain_in_order<H: Harness>(job: &mut Job<'_, H>, from: Rank, next: u64, accepted: u64) {
    for number in next..accepted {
        let record = await_record(job, from);
        assert_eq!((record.source, record.header), (from, number), "in order, none twice");
        assert_eq!(record.bytes, pattern(number, record.bytes.len()));
    }
    job.settle(from);
    assert!(job.take(0).is_none(), "nothing comes that was not accepted");
}

fn await_record<H: Harness>(job: &mut Job<'_, H>, from: Rank) -> Received {
    for _ in 0..10_000 {
        if let Some(record) = job.take(0) {
            return record;
        }
        job.drive(from);
    }
    panic!("a message that was accepted does not come");
}

/// IP-10: a full ring stalls its sender, the receiver is told, draining resumes reception, and
/// nothing is lost or doubled.
pub fn ip_10_a_full_ring_stalls_tells_and_resumes<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(2));
    let accepted = fill(&mut job, 1, 0, 512, FullCause::RingStalled);
    let state = ring_of(&mut job, 1);
    assert_eq!((state.tail - state.head, state.stalls, state.refusals), (4096, 1, 0));

    let kept = landed(&mut job, 8);
    let ring = job.port(0).route_of(1);
    let told = job.is_told(0, |event| matches!(event, Event::RingFull(id) if Some(*id) == ring));
    assert!(told, "the receiver learns that its ring is full");
    for (number, record) in (0..).zip(kept) {
        let record = job.read_out(0, record);
        assert_eq!((record.header, record.bytes), (number, pattern(number, 512)));
    }
    drain_in_order(&mut job, 1, 8, accepted);
    let more = fill(&mut job, 1, accepted, 512, FullCause::RingStalled);
    assert!(more >= accepted + 8, "reception has resumed");
    drain_in_order(&mut job, 1, accepted, more);
}

/// IP-10: many stalls in a row, with messages of many sizes, lose and double nothing.
pub fn ip_10_nothing_is_lost_or_doubled_across_many_stalls<H: Harness>(harness: &H) {
    for setup in [Setup::private(3), Setup::shared(3, 1)] {
        let mut job = Job::open(harness, &setup);
        exchange(&mut job, 300);
        let stalls = job.port(0).ring(0).map_or(0, |r| r.stalls)
            + job.port(0).ring(1).map_or(0, |r| r.stalls)
            + job.port(0).ring(2).map_or(0, |r| r.stalls);
        assert!(stalls > 10, "the rings were full {stalls} times");
    }
}

/// IP-11: a refusing ring discards messages without room; the sender sends again until the contents
/// are the same.
pub fn ip_11_a_refusing_ring_gets_the_same_content_in_the_end<H: Harness>(harness: &H) {
    let setup = Setup::private(2).ring_policy(FullPolicy::Refuse);
    let mut job = Job::open(harness, &setup);
    let accepted = fill(&mut job, 1, 0, 512, FullCause::RingRefused);
    let state = ring_of(&mut job, 1);
    assert_eq!((state.tail - state.head, state.policy), (4096, FullPolicy::Refuse));
    assert_eq!(state.stalls, 0);
    let refusals = state.refusals;
    assert!(refusals > 0);
    let payload = pattern(accepted, 512);
    assert!(job.offer(1, &Command::send(0, 0, accepted, &payload)).is_err());
    assert!(ring_of(&mut job, 1).refusals > refusals, "every attempt is refused and counted");
    drain_in_order(&mut job, 1, 0, accepted);

    let setup = Setup::shared(3, 1).ring_policy(FullPolicy::Refuse);
    let mut job = Job::open(harness, &setup);
    exchange(&mut job, 300);
    let state = job.port(0).ring(0).expect("the ring exists");
    assert!(state.refusals > 10 && state.stalls == 0, "{state:?}");
}

/// CJ-16: a receiver without room holds up no other rank: neither its sender's messages to others,
/// nor other ranks' messages to the receiver.
pub fn cj_16_a_receiver_without_room_holds_up_nobody_else<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(3));
    let accepted = fill(&mut job, 1, 0, 512, FullCause::RingStalled);
    let payload = pattern(99, 300);
    job.send(1, &Command::send(2, 0, 98, &payload));
    let passed = job.take(2).expect("rank 2 has room");
    assert_eq!((passed.source, passed.header, passed.bytes), (1, 98, payload.clone()));
    job.send(2, &Command::send(0, 0, 99, &payload));
    let mut others = Vec::new();
    let mut next = 0;
    while next < accepted {
        let record = await_record(&mut job, 1);
        if record.source == 2 {
            others.push(record.bytes);
        } else {
            assert_eq!(record.header, next, "in order, none twice");
            next += 1;
        }
    }
    others.extend(job.take_all(0).into_iter().map(|record| record.bytes));
    assert_eq!(others, [payload]);
}

/// Two sources send `count` messages of mixed sizes each to rank 0, which reads one record for
/// every few posts, so that its rings are full most of the time.
fn exchange<H: Harness>(job: &mut Job<'_, H>, count: u64) {
    let length = |number: u64| (number * 7919 % 1500) as usize;
    let payload = |source: Rank, number| pattern(u64::from(source) << 32 | number, length(number));
    let mut sending = [(1, 0u64, 0usize), (2, 0, 0)];
    let mut expected = [0, 0, 0];
    let mut assembly = Assembly::default();
    while expected[1] < count || expected[2] < count {
        for (source, number, taken) in &mut sending {
            if *number == count {
                job.drive(*source);
                continue;
            }
            let message = payload(*source, *number);
            let rest = part(&Command::send(0, 0, *number, &message), *taken);
            match job.port(*source).post(&rest) {
                Ok(more) => *taken += more,
                Err(PostError::Full { .. }) => {
                    job.drive(*source);
                    continue;
                }
                Err(error) => panic!("{error}"),
            }
            if *taken == message.len() {
                (*number, *taken) = (*number + 1, 0);
            }
        }
        let Some(record) = job.take(0) else { continue };
        if let Some(message) = assembly.enter(record) {
            let number = &mut expected[message.source as usize];
            assert_eq!(message.header, *number, "messages of a source come in order");
            assert_eq!(message.bytes, payload(message.source, *number));
            *number += 1;
        }
    }
    assert!(job.take(0).is_none() && assembly.is_empty());
}

/// The status ring follows the rule of the landing rings: it stalls, tells the receiver and
/// resumes.
pub fn a_full_status_ring_stalls_tells_and_resumes<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(2));
    let accepted = fill(&mut job, 1, 0, 0, FullCause::StatusStalled);
    assert!(accepted > 32, "most of its 64 slots can be used");
    let mut next = 0;
    let mut told = false;
    for _ in 0..10_000 {
        match job.next(0) {
            Some(Event::StatusFull) => told = true,
            Some(Event::Landed(landed)) => {
                assert_eq!(job.read_out(0, landed).header, next, "in order, none twice");
                next += 1;
            }
            Some(other) => panic!("{other:?}"),
            None => job.drive(1),
        }
        if told && next == accepted {
            break;
        }
    }
    assert_eq!((next, told), (accepted, true));
    assert!(job.take(0).is_none());
    job.send(1, &Command::send(0, 0, accepted, &[]));
    assert_eq!(job.take(0).map(|record| record.header), Some(accepted));
}

/// A refusing status ring reports it, and is distinguished from a full landing ring.
pub fn a_full_status_ring_refuses_and_counts_apart_from_rings<H: Harness>(harness: &H) {
    let setup = Setup::private(2).status_policy(FullPolicy::Refuse);
    let mut job = Job::open(harness, &setup);
    let accepted = fill(&mut job, 1, 0, 0, FullCause::StatusRefused);
    let state = ring_of(&mut job, 1);
    assert_eq!((state.stalls, state.refusals), (0, 0), "no landing ring was full");
    let mut told = (false, false);
    let mut next = 0;
    for _ in 0..10_000 {
        match job.next(0) {
            Some(Event::StatusFull) => told.0 = true,
            Some(Event::RingFull(_)) => told.1 = true,
            Some(Event::Landed(landed)) => {
                assert_eq!(job.read_out(0, landed).header, next);
                next += 1;
            }
            Some(other) => panic!("{other:?}"),
            None => job.drive(1),
        }
        if told.0 && next == accepted {
            break;
        }
    }
    assert_eq!((next, told), (accepted, (true, false)));
}

/// A message larger than its ring that asks for one record can never land: an error, not a wait.
pub fn cj_01_one_record_larger_than_the_ring_is_an_error<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(2));
    let payload = pattern(1, 4097);
    let command =
        Command { granularity: Granularity::PerMessage, ..Command::send(0, 0, 0, &payload) };
    assert_eq!(job.refused(1, &command), PostError::TooLarge { length: 4097, limit: 4096 });
    assert!(job.take(0).is_none());
    job.send(1, &Command { payload: &payload[..4096], total: 4096, ..command });
    assert_eq!(job.take(0).map(|record| record.bytes.len()), Some(4096));
}

/// With a record per packet a message larger than the ring flows through it in parts.
pub fn packets_of_a_message_larger_than_the_ring_flow_in_parts<H: Harness>(harness: &H) {
    for setup in [Setup::private(2), Setup::shared(2, 1)] {
        let mut job = Job::open(harness, &setup);
        let payload = pattern(2, 5 * 4096 + 333);
        let command = Command::send(0, 4, 9, &payload);
        let mut taken = 0;
        let mut assembly = Assembly::default();
        let mut whole = None;
        while whole.is_none() {
            if taken < payload.len() {
                match job.offer(1, &part(&command, taken)) {
                    Ok(more) => taken += more,
                    Err(error) => assert!(matches!(error, PostError::Full { .. }), "{error}"),
                }
            } else {
                job.drive(1);
            }
            for record in job.take_all(0) {
                assert!(whole.is_none(), "nothing follows the last packet");
                whole = assembly.enter(record);
            }
        }
        assert_eq!(whole.map(|message| message.bytes), Some(payload));
    }
}
