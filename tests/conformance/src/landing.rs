//! Landing: source table, ring, tail, record, in that order (IP-01 to IP-09, IP-23, IP-24).

use hikyaku_nic::fabric::{
    Command, CopyPort, Event, Granularity, Landing, MemoryPort, Notification, Port, PostError,
    Rank, RingPort,
};

use crate::job::{Assembly, part, pattern};
use crate::{Harness, Job, Setup};

/// Bytes of a payload that needs a ring: more than fits into a record.
const RINGED: usize = 100;

/// The ring in which the next message of each source lands at rank 0.
fn rings_by_source<H: Harness>(job: &mut Job<'_, H>, ranks: u32) -> Vec<u32> {
    (1..ranks)
        .map(|source| {
            let payload = pattern(u64::from(source), RINGED);
            job.send(source, &Command::send(0, 0, 0, &payload));
            let landed = job.landed(0).expect("the message has landed");
            assert_eq!(landed.source, source);
            let Landing::Ring(slice) = &landed.data else { panic!("it needs a ring") };
            let ring = slice.ring();
            assert_eq!(job.read_out(0, landed).bytes, payload);
            ring
        })
        .collect()
}

/// IP-01: a send names no address, a put names one; the receiver distinguishes them.
pub fn ip_01_cj_08_send_and_put_go_side_by_side<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(2));
    let buffer = job.port(0).allocate(256).expect("the region has room");
    let target = job.port(0).expose(&buffer).expect("region memory can be named");
    for round in 0..20u64 {
        let (sent, written) = (pattern(round, RINGED), pattern(!round, 256));
        job.send(1, &Command::send(0, 7, round, &sent));
        let put = Command { protocol: 9, header: round, ..Command::put(target, &written) };
        job.send(1, &Command { notification: Notification::Status, ..put });
        let landed = job.take(0).expect("the send has landed");
        assert_eq!((landed.protocol, landed.header, landed.bytes), (7, round, sent));
        let Some(Event::Notified(notified)) = job.next(0) else { panic!("the put is announced") };
        assert_eq!((notified.source, notified.protocol, notified.header), (1, 9, round));
        assert_eq!((notified.length, notified.offset), (256, target.offset));
        assert_eq!(buffer[..], written);
    }
}

/// IP-02: two sources with equal table entries land in the same ring.
pub fn ip_02_equal_table_entries_land_in_one_ring<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::shared(6, 2));
    assert_eq!(rings_by_source(&mut job, 6), [1, 0, 1, 0, 1]);
    for (source, ring) in [(1, 1), (2, 0), (3, 1), (4, 0), (5, 1)] {
        assert_eq!(job.port(0).route_of(source), Some(ring));
    }
}

/// IP-03: sources with different entries land in different rings and never mix.
pub fn ip_03_different_entries_never_mix<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(4));
    let rings = rings_by_source(&mut job, 4);
    assert!(rings[0] != rings[1] && rings[1] != rings[2] && rings[0] != rings[2], "{rings:?}");
    let payload = |source: Rank, round| pattern(u64::from(source) << 32 | round, 900);
    for round in 0..4 {
        for source in 1..4 {
            job.send(source, &Command::send(0, 0, round, &payload(source, round)));
        }
    }
    let mut assembly = Assembly::default();
    let mut messages = 0;
    while let Some(record) = job.take(0) {
        if let Some(message) = assembly.enter(record) {
            assert_eq!(message.bytes, payload(message.source, message.header));
            messages += 1;
        }
    }
    assert_eq!(messages, 12);
}

/// IP-04: senders to one shared ring never overwrite each other; puts to one address do.
pub fn ip_04_a_shared_ring_keeps_senders_apart_and_a_shared_address_does_not<H: Harness>(
    harness: &H,
) {
    let mut job = Job::open(harness, &Setup::shared(3, 1));
    let buffer = job.port(0).allocate(RINGED).expect("the region has room");
    let target = job.port(0).expose(&buffer).expect("region memory can be named");
    let payload = |source: Rank| pattern(u64::from(source), RINGED);
    for source in [1, 2] {
        job.send(source, &Command::send(0, 0, 0, &payload(source)));
        job.send(source, &Command::put(target, &payload(source)));
    }
    let records = job.take_all(0);
    let contents: Vec<_> = records.into_iter().map(|record| record.bytes).collect();
    assert_eq!(contents, [payload(1), payload(2)], "both messages are there");
    assert_eq!(buffer[..], payload(2), "of the two puts only the later one is left");
}

/// IP-05: the tail counts what has landed and never more than that.
pub fn ip_05_the_tail_counts_what_has_landed<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::shared(2, 1));
    let tail = |job: &mut Job<'_, H>| job.port(0).ring(0).expect("the ring exists").tail;
    assert_eq!(tail(&mut job), 0);
    let mut last = 0;
    for length in [49, 64, 65, 500] {
        job.send(1, &Command::send(0, 0, 0, &pattern(1, length)));
        let now = tail(&mut job);
        assert!(now >= last + length as u64, "{length} bytes have landed");
        assert!(now < last + length as u64 + 64, "at most rounded up to a cache line");
        last = now;
    }
    assert_eq!(job.take_all(0).len(), 4);
    assert_eq!(tail(&mut job), last, "reading moves the head, not the tail");
}

/// IP-06: n packets leave n records; a message with one record leaves one, with its whole length.
pub fn ip_06_a_record_per_packet_or_per_message<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(2));
    let payload = pattern(6, 512 * 4 + 1);
    let command = Command::send(0, 3, 77, &payload);
    job.send(1, &command);
    let records = job.take_all(0);
    let shapes: Vec<_> = records.iter().map(|r| (r.offset, r.bytes.len())).collect();
    assert_eq!(shapes, [(0, 512), (512, 512), (1024, 512), (1536, 512), (2048, 1)]);
    assert!(records.iter().all(|r| (r.total, r.header) == (2049, 77)));
    assert_eq!(records.concat_bytes(), payload);

    job.send(1, &Command { granularity: Granularity::PerMessage, ..command });
    let records = job.take_all(0);
    assert_eq!(records.len(), 1);
    assert_eq!((records[0].offset, records[0].total), (0, 2049));
    assert_eq!(records[0].bytes, payload);

    for granularity in [Granularity::PerPacket, Granularity::PerMessage] {
        job.send(1, &Command { granularity, ..Command::send(0, 3, 78, &payload[..300]) });
        assert_eq!(job.take_all(0).len(), 1, "one packet is one record either way");
    }
}

/// FG-13: a message longer than a packet is cut: with paper 001's packets 4 KiB become nine.
pub fn fg_13_4_kib_are_nine_packets_of_464_bytes<H: Harness>(harness: &H) {
    let mut setup = Setup::private(2);
    setup.layout.packet_bytes = 464;
    setup.layout.ring_bytes = 8192;
    let mut job = Job::open(harness, &setup);
    let payload = pattern(13, 4096);
    job.send(1, &Command::send(0, 0, 0, &payload));
    let records = job.take_all(0);
    let lengths: Vec<_> = records.iter().map(|record| record.bytes.len()).collect();
    assert_eq!(lengths, [464, 464, 464, 464, 464, 464, 464, 464, 384]);
    assert_eq!(records.concat_bytes(), payload);
}

/// The payloads of records, one after the other.
trait ConcatBytes {
    fn concat_bytes(&self) -> Vec<u8>;
}

impl ConcatBytes for [crate::Received] {
    fn concat_bytes(&self) -> Vec<u8> {
        self.iter().flat_map(|record| record.bytes.iter().copied()).collect()
    }
}

/// IP-07: messages of two sources, interleaved packet by packet in a shared ring, are separated by
/// their records.
pub fn ip_07_interleaved_messages_are_reassembled<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::shared(3, 1));
    let payload = |source: Rank| pattern(u64::from(source), 512 * 3 + 200 * source as usize);
    let (first, second) = (payload(1), payload(2));
    let longest = first.len().max(second.len());
    for from in (0..longest).step_by(512) {
        for (source, message) in [(1, &first), (2, &second)] {
            let end = message.len().min(from + 512);
            if from < end {
                let whole = Command::send(0, 0, 5, message);
                let packet = Command { payload: &message[from..end], ..part(&whole, from) };
                job.send(source, &packet);
            }
        }
    }
    let records = job.take_all(0);
    let order: Vec<_> = records.iter().map(|record| record.source).collect();
    assert_eq!(order, [1, 2, 1, 2, 1, 2, 1, 2], "they lie between each other");
    let mut assembly = Assembly::default();
    let messages: Vec<_> = records.into_iter().filter_map(|r| assembly.enter(r)).collect();
    assert_eq!(messages.len(), 2);
    for message in messages {
        assert_eq!(message.bytes, payload(message.source));
    }
    assert!(assembly.is_empty());
}

/// IP-08: one record for several packets could not be read on a shared ring, so it is refused.
pub fn ip_08_one_record_for_packets_on_a_shared_ring_is_refused<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::shared(3, 1));
    let payload = pattern(8, 513);
    let command = Command::send(0, 0, 0, &payload);
    let one_record = Command { granularity: Granularity::PerMessage, ..command };
    let error = job.refused(1, &one_record);
    assert_eq!(error, PostError::SharedRing { destination: 0, ring: 0 });
    assert!(job.take(0).is_none(), "nothing has landed");
    let one_packet = Command { payload: &payload[..512], total: 512, ..one_record };
    job.send(1, &one_packet);
    job.send(1, &command);
    assert_eq!(job.take_all(0).len(), 3, "one packet may; so may a record per packet");
}

/// IP-09: the status ring yields the messages of all sources in the order of arrival, whatever
/// their rings and sizes.
pub fn ip_09_poll_yields_the_order_of_arrival<H: Harness>(harness: &H) {
    for setup in [Setup::private(4), Setup::shared(4, 2)] {
        let mut job = Job::open(harness, &setup);
        let posts: Vec<(Rank, u64)> =
            (0..40u64).map(|number| ((number * number % 3 + 1) as Rank, number)).collect();
        for (source, number) in &posts {
            let payload = pattern(*number, (number * 37 % 120) as usize);
            job.send(*source, &Command::send(0, 0, *number, &payload));
        }
        let records = job.take_all(0);
        let arrived: Vec<_> = records.iter().map(|r| (r.source, r.header)).collect();
        assert_eq!(arrived, posts);
    }
}

/// IP-23: a message lands without any action of the receiver.
pub fn ip_23_messages_land_while_the_receiver_does_nothing<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(3));
    let payload = |source: Rank, number| pattern(u64::from(source) << 32 | number, RINGED);
    for number in 0..16 {
        for source in [1, 2] {
            job.send(source, &Command::send(0, 0, number, &payload(source, number)));
        }
    }
    for source in [1, 2] {
        let ring = job.port(0).route_of(source).expect("the source has a ring");
        let state = job.port(0).ring(ring).expect("the ring exists");
        assert_eq!(state.tail, 16 * 128, "all of it is in memory before the first poll");
    }
    let records = job.take_all(0);
    assert_eq!(records.len(), 32);
    assert!(records.iter().all(|r| r.bytes == payload(r.source, r.header)));
}

/// IP-24: a private ring holds the unexpected messages of one source, so a search for that source
/// is confined to it, and unread messages of one source are in no other's way.
pub fn ip_24_a_ring_per_source_is_a_queue_per_source<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(3));
    let mut kept = Vec::new();
    for number in 0..8 {
        job.send(1, &Command::send(0, 0, number, &pattern(number, 512)));
        kept.push(job.landed(0).expect("the message has landed"));
    }
    for number in 0..100 {
        job.send(2, &Command::send(0, 0, number, &pattern(!number, 512)));
        let record = job.take(0).expect("the other source's ring has room");
        assert_eq!((record.source, record.header), (2, number));
    }
    let ring = job.port(0).route_of(1).expect("the source has a ring");
    for landed in kept {
        let Landing::Ring(slice) = &landed.data else { panic!("it needs a ring") };
        assert_eq!(slice.ring(), ring, "all of the source's messages are in its ring");
        let number = landed.header;
        assert_eq!(job.read_out(0, landed).bytes, pattern(number, 512));
    }
}
