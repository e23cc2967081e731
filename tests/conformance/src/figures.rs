//! The causes of the times and rates that papers 000, 003 and 004 print: the steps of a transfer,
//! its need for room, and the parts that overlap. Nothing is timed (IP-15 to IP-17, CJ-21, CP-03,
//! CP-15).

use hikyaku_nic::fabric::{
    Command, CopyPort, Event, MemoryPort, Notification, Port, PostError, Rank, RemoteAddress,
    RingPort, RingState,
};
use hikyaku_nic::region::RegionBuffer;

use crate::group::{join, multicast};
use crate::job::{Assembly, part, pattern};
use crate::{Harness, Job, Setup};

/// Bytes of a payload that needs a ring, and the bytes that it uses there.
const RINGED: usize = 100;
const SPAN: u64 = 128;

/// How many of them fit into a ring of [`Setup::private`].
const ROOM: u64 = 4096 / SPAN;

fn ring_of<H: Harness>(job: &mut Job<'_, H>, rank: Rank, source: Rank) -> RingState {
    let ring = job.port(rank).route_of(source).expect("the source has a ring");
    job.port(rank).ring(ring).expect("the ring exists")
}

/// Memory of a rank that others write by its address.
fn exposed<H: Harness>(job: &mut Job<'_, H>, rank: Rank) -> (RegionBuffer, RemoteAddress) {
    let buffer = job.port(rank).allocate(RINGED).expect("the region has room");
    let address = job.port(rank).expose(&buffer).expect("region memory can be named");
    (buffer, address)
}

/// Writes by address, and waits for the record that reports it.
fn put<H: Harness>(job: &mut Job<'_, H>, from: Rank, target: RemoteAddress, payload: &[u8]) {
    let command = Command { notification: Notification::Status, ..Command::put(target, payload) };
    job.send(from, &command);
    loop {
        match job.await_event(target.rank) {
            Event::Notified(told) => return assert_eq!(told.source, from),
            Event::RingFull(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// IP-15: the steps that make landing by ring longer than by address: the tail gives the place,
/// head and tail show whether there is room. By address neither is read, nor moved.
pub fn ip_15_the_ring_alone_asks_for_head_tail_and_room<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(3));
    let (buffer, target) = exposed(&mut job, 0);
    let mut kept = Vec::new();
    for number in 0..ROOM {
        put(&mut job, 2, target, &pattern(!number, RINGED));
        assert_eq!(ring_of(&mut job, 0, 1).tail, number * SPAN, "by address it does not move");
        job.send(1, &Command::send(0, 0, number, &pattern(number, RINGED)));
        kept.push(job.landed(0).expect("there is room"));
        assert_eq!(ring_of(&mut job, 0, 1).tail, (number + 1) * SPAN, "by ring it does");
    }
    let last = pattern(ROOM, RINGED);
    let command = Command::send(0, 0, ROOM, &last);
    let is_taken = job.offer(1, &command).is_ok();
    assert!(job.landed(0).is_none(), "by ring there is no room");
    put(&mut job, 2, target, &last);
    assert_eq!(buffer[..], last, "by address none is needed");
    for (number, landed) in (0..).zip(kept) {
        assert_eq!(job.read_out(0, landed).bytes, pattern(number, RINGED), "each in its place");
    }
    if !is_taken {
        job.send(1, &command);
    }
    let Event::Landed(landed) = job.await_event(0) else { panic!("the head has moved") };
    assert_eq!(job.read_out(0, landed).bytes, last);
    assert_eq!(ring_of(&mut job, 0, 1).tail, (ROOM + 1) * SPAN);
}

/// IP-16: a round trip without read-out: the record alone lets a rank answer, so the payloads stay
/// where they landed, in a ring until it is full, at an address for ever.
pub fn ip_16_without_read_out_a_round_trip_takes_the_records_alone<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(2));
    let payload = |to: Rank, round| pattern(u64::from(to) << 32 | round, RINGED);
    let mut kept = Vec::new();
    for round in 0..ROOM {
        for (from, to) in [(0, 1), (1, 0)] {
            job.send(from, &Command::send(to, 0, round, &payload(to, round)));
            kept.push((to, job.landed(to).expect("there is room")));
        }
    }
    let ends = [exposed(&mut job, 0), exposed(&mut job, 1)];
    for round in 0..3 * ROOM {
        for (from, to) in [(0, 1), (1, 0)] {
            let (buffer, address) = &ends[to as usize];
            put(&mut job, from, *address, &payload(to, round));
            assert_eq!(buffer[..], payload(to, round));
        }
    }
    let more = payload(1, ROOM);
    _ = job.offer(0, &Command::send(1, 0, ROOM, &more));
    assert!(job.landed(1).is_none(), "nothing was read out");
    for (to, landed) in kept {
        let record = job.read_out(to, landed);
        assert_eq!(record.bytes, payload(to, record.header), "it is where it has landed");
    }
}

/// IP-17: a round trip with read-out: each payload is copied to the reader's own memory and its
/// place in the ring is free, so the round trips continue for ever.
pub fn ip_17_with_read_out_a_round_trip_leaves_the_rings_empty<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(2));
    for round in 0..3 * ROOM {
        for (from, to) in [(0, 1), (1, 0)] {
            let payload = pattern(u64::from(to) << 32 | round, RINGED);
            job.send(from, &Command::send(to, 0, round, &payload));
            let landed = job.landed(to).expect("there is room");
            let before = ring_of(&mut job, to, from);
            assert_eq!(before.tail - before.head, SPAN);
            assert_eq!(job.read_out(to, landed).bytes, payload);
            let after = ring_of(&mut job, to, from);
            assert_eq!((after.head, after.tail), (before.tail, before.tail));
        }
    }
}

/// A job of `ranks` whose rings hold one message of [`WHOLE`] bytes each.
fn one_at_a_time(ranks: u32, rings: u32) -> Setup {
    let mut setup = Setup::shared(ranks, rings);
    setup.layout.packet_bytes = WHOLE as u32;
    setup
}

/// Bytes of a message that fills a ring.
const WHOLE: usize = 4096;

/// Takes one message of each rank, which has landed. Returns the sources.
fn take_one_each<H: Harness>(job: &mut Job<'_, H>, ranks: u32) -> Vec<Rank> {
    let mut one = |rank| {
        let record = job.take(rank).expect("it has landed");
        assert_eq!(record.bytes, pattern(u64::from(record.source), WHOLE));
        assert!(job.take(rank).is_none(), "one was sent");
        record.source
    };
    (0..ranks).map(&mut one).collect()
}

/// CJ-21: all to all, at receivers with room for one message. In the same order all ranks send to
/// one receiver, and all but one wait for it. Shifted, each receiver has one sender, and no rank
/// waits. By multicast one command reaches all of them.
pub fn cj_21_the_same_order_waits_shifted_does_not_and_a_multicast_is_one_command<H: Harness>(
    harness: &H,
) {
    const RANKS: u32 = 5;
    let payloads: Vec<_> = (0..RANKS).map(|rank| pattern(rank.into(), WHOLE)).collect();
    let command = |from: Rank, to| Command::send(to, 0, 0, &payloads[from as usize]);
    let mut job = Job::open(harness, &one_at_a_time(RANKS, 1));
    for to in 0..RANKS {
        let others = || (0..RANKS).filter(|from| *from != to);
        let mut waiting: Vec<Rank> =
            others().filter(|from| job.offer(*from, &command(*from, to)).is_err()).collect();
        let first = job.landed(to).expect("one has landed");
        assert!(job.landed(to).is_none(), "the others wait until it is read out");
        let mut heard = vec![job.read_out(to, first).source];
        for _ in 0..10_000 {
            waiting.retain(|from| job.port(*from).post(&command(*from, to)).is_err());
            others().for_each(|from| job.drive(from));
            heard.extend(job.take(to).map(|record| record.source));
        }
        heard.sort_unstable();
        assert_eq!(heard, others().collect::<Vec<_>>());
    }

    let mut job = Job::open(harness, &one_at_a_time(RANKS, 1));
    for shift in 1..RANKS {
        (0..RANKS).for_each(|from| job.send(from, &command(from, (from + shift) % RANKS)));
        let expected: Vec<_> = (0..RANKS).map(|to| (to + RANKS - shift) % RANKS).collect();
        assert_eq!(take_one_each(&mut job, RANKS), expected);
    }

    let mut job = Job::open(harness, &one_at_a_time(RANKS, 1));
    let all: Vec<Rank> = (0..RANKS).collect();
    let group = join(&mut job, 0, &all, 0);
    for from in 0..RANKS {
        let doorbells = harness.doorbells(job.port(from));
        multicast(&mut job, from, group, &command(from, 0));
        let rung = harness.doorbells(job.port(from)).zip(doorbells).map(|(now, then)| now - then);
        assert!(rung.is_none_or(|rung| rung == 1), "{rung:?}");
        for to in (0..RANKS).filter(|to| *to != from) {
            let record = job.take(to).expect("it was sent to all");
            assert_eq!((record.source, &record.bytes), (from, &payloads[from as usize]));
        }
    }
}

/// CP-03: in a torus every rank sends to its neighbours in all six directions before any rank
/// reads. Although a ring has room for one message only, no two collide: all have arrived at once.
pub fn cp_03_neighbours_exchange_in_all_directions_at_once<H: Harness>(harness: &H) {
    const SIDE: u32 = 3;
    let ranks = SIDE.pow(3);
    let neighbour = |rank: Rank, axis: u32, step: u32| {
        let stride = SIDE.pow(axis);
        let at = rank / stride % SIDE;
        rank - at * stride + (at + step) % SIDE * stride
    };
    let directions: Vec<_> = (0..3).flat_map(|axis| [(axis, 1), (axis, SIDE - 1)]).collect();
    let mut job = Job::open(harness, &one_at_a_time(ranks, ranks));
    let payloads: Vec<_> = (0..ranks).map(|rank| pattern(rank.into(), WHOLE)).collect();
    for (axis, step) in &directions {
        for rank in 0..ranks {
            let to = neighbour(rank, *axis, *step);
            job.send(rank, &Command::send(to, 0, 0, &payloads[rank as usize]));
        }
    }
    for rank in 0..ranks {
        let mut expected: Vec<_> =
            directions.iter().map(|(axis, step)| neighbour(rank, *axis, SIDE - step)).collect();
        for record in job.take_all(rank) {
            assert_eq!(record.bytes, payloads[record.source as usize]);
            let at = expected.iter().position(|source| *source == record.source);
            expected.remove(at.expect("one comes from each neighbour"));
        }
        assert!(expected.is_empty(), "rank {rank} has nothing of {expected:?}");
    }
}

/// CP-15: each of two ranks sends the other more than there is room for. Before anything is read,
/// as much of either as fits has landed, and both continue concurrently to their ends.
pub fn cp_15_a_rank_receives_while_it_sends<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(2));
    let messages = [pattern(0, 4 * 4096 + 5), pattern(1, 4 * 4096 + 5)];
    let command = |from: Rank| Command::send(1 - from, 0, 0, &messages[from as usize]);
    let mut taken = [0, 1].map(|from| job.send_some(from, &command(from)).expect("there is room"));
    for rank in [0, 1] {
        assert_eq!(ring_of(&mut job, rank, 1 - rank).tail, 4096, "nobody has read anything");
    }
    let mut assemblies = [Assembly::default(), Assembly::default()];
    let mut received = [0; 2];
    for _ in 0..100_000 {
        for rank in [0, 1_u32] {
            let own = rank as usize;
            for record in job.take_all(rank) {
                received[own] += record.bytes.len();
                if let Some(whole) = assemblies[own].enter(record) {
                    assert_eq!(whole.bytes, messages[1 - own]);
                }
            }
            if taken[own] == messages[own].len() {
                job.drive(rank);
                continue;
            }
            match job.offer(rank, &part(&command(rank), taken[own])) {
                Ok(more) => taken[own] += more,
                Err(error) => assert!(matches!(error, PostError::Full { .. }), "{error}"),
            }
        }
        if received == messages.each_ref().map(Vec::len) {
            break;
        }
    }
    assert_eq!(received, messages.each_ref().map(Vec::len));
    assert!(assemblies.iter().all(Assembly::is_empty));
}
