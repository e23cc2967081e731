//! Rendezvous: direct reads, streams, refusals, and messages that are cleared in part.

use hikyaku_nic::fabric::{MemoryPort, Port, Unmatched};
use hikyaku_nic::segment::SegmentLayout;
use hikyaku_nic::time::Time;

use super::*;
use crate::config::EngineConfig;
use crate::engine::wait::GONE_ROUNDS;
use crate::testing::{Rules, pair, pair_on, pattern, ports, ports_of, run, settle, tight};
use crate::{LongMessages, Way};

/// Sends a long message from `a` to `b` and checks that it arrives.
fn exchange(a: &mut Engine<Unruly>, b: &mut Engine<Unruly>, length: usize, posted_first: bool) {
    let early = posted_first.then(|| irecv(b, length, from(0, 0)));
    let send = isend(a, &pattern(length, 6), to(1, 0));
    settle(&mut [&mut *a, &mut *b]);
    let receive = early.unwrap_or_else(|| irecv(b, length, from(0, 0)));
    settle(&mut [&mut *a, &mut *b]);
    assert!(a.test(send).unwrap().is_ok());
    assert_eq!(taken(b, receive).unwrap().1, pattern(length, 6));
    assert_clean(a);
    assert_clean(b);
}

#[test]
fn reachable_memory_is_read_directly() {
    for posted_first in [true, false] {
        let (mut a, mut b) = pair();
        a.port_mut().rules().process = true;
        exchange(&mut a, &mut b, 5000, posted_first);
        assert_eq!((b.statistics().direct_reads, b.statistics().refused_reads), (1, 0));
    }
}

#[test]
fn what_a_late_receiver_could_read_is_put_into_its_ring() {
    assert_eq!(sent_at_once(false), [false, false, true, true]);
}

#[test]
fn a_receiver_that_shares_its_processor_is_not_late() {
    assert_eq!(sent_at_once(true), [false; 4]);
}

/// Whether each of four messages was complete at once at its sender. Their receiver is late for the
/// first three.
fn sent_at_once(crowded: bool) -> Vec<bool> {
    const LENGTH: usize = 8 << 10;
    let layout = SegmentLayout::for_ranks(2);
    let mut sent_at_once = run((layout, EngineConfig::default()), |mut engine| {
        *engine.port_mut().rules() = Rules { process: true, crowded, ..Rules::default() };
        let (bytes, mut into) = (pattern(LENGTH, 6), vec![0; LENGTH]);
        let mut sent_at_once = Vec::new();
        for late in [true, true, true, false] {
            if engine.rank() == 0 {
                let sent = isend(&mut engine, &bytes, to(1, 0));
                sent_at_once.push(engine.requests.is_done(sent));
                engine.wait(sent).unwrap();
                engine.recv(&mut [], from(1, 1)).unwrap();
            } else {
                // Only the waiting rank makes time pass here.
                while engine.probe(from(0, 0)).unwrap().is_none() {}
                let began = engine.port().now();
                while late && engine.port().now() < began + Time::from_nanoseconds(30_000) {}
                engine.recv(&mut into, from(0, 0)).unwrap();
                assert_eq!(into, bytes);
                engine.send(&[], to(0, 1), SendMode::Standard).unwrap();
            }
        }
        sent_at_once
    });
    sent_at_once.swap_remove(0)
}

/// Sends the same message repeatedly. Returns how often it completed at once at its sender.
fn put_again_and_again(ways: LongMessages, times: usize) -> (usize, Engine<Unruly>) {
    const LENGTH: usize = 8 << 10;
    let config = EngineConfig { long_messages: ways, ..EngineConfig::default() };
    let mut both = ports_of(&hikyaku_nic::loopback::LoopbackConfig::for_ranks(2)).into_iter();
    let mut engine = || Engine::new(both.next().unwrap(), config);
    let (mut a, mut b) = (engine(), engine());
    a.port_mut().rules().process = true;
    let mut at_once = 0;
    for round in 0..times {
        // Posted before, after, and in between; of one packet and of several.
        let bytes = pattern(LENGTH << (round % 4), round);
        b.port_mut().rules().part = (round % 3 == 0).then_some(1000);
        a.port_mut().rules().part = b.port_mut().rules().part;
        let early = (round % 2 == 0).then(|| irecv(&mut b, bytes.len(), from(0, 0)));
        let sent = isend(&mut a, &bytes, to(1, 0));
        at_once += usize::from(a.requests.is_done(sent));
        b.progress();
        let receive = early.unwrap_or_else(|| irecv(&mut b, bytes.len(), from(0, 0)));
        settle(&mut [&mut a, &mut b]);
        assert!(a.test(sent).unwrap().is_ok());
        assert!(taken(&mut b, receive).unwrap().1 == bytes);
    }
    assert_clean(&a);
    assert_clean(&b);
    (at_once, b)
}

#[test]
fn messages_are_put_where_that_is_asked_for_or_tried() {
    let (at_once, b) = put_again_and_again(LongMessages::By(Way::Put), 40);
    let said = b.way_tally().unwrap().to_string();
    assert_eq!(at_once + 14, 40, "those in parts wait for their receiver");
    assert_eq!(said.matches("10 put into rings").count(), 4, "{said}");
    assert_eq!(said.matches("10 as asked for").count(), 4, "{said}");
    let (_, b) = put_again_and_again(LongMessages::By(Way::Read), 40);
    assert!(!b.way_tally().unwrap().to_string().contains("put"));
    // In each try one message is announced, and goes through the ring.
    let (_, b) = put_again_and_again(LongMessages::Fastest, 160);
    let said = b.way_tally().unwrap().to_string();
    assert_eq!(said.matches(" put into rings (").count(), 4, "{said}");
}

#[test]
fn unreachable_memory_is_streamed() {
    for posted_first in [true, false] {
        let (mut a, mut b) = pair();
        exchange(&mut a, &mut b, 5000, posted_first);
        assert_eq!((a.statistics().rendezvous_sent, b.statistics().direct_reads), (1, 0));
    }
}

#[test]
fn a_refused_read_becomes_a_stream_for_good() {
    let (mut a, mut b) = pair();
    a.port_mut().rules().process = true;
    b.port_mut().rules().refuse_reads = true;
    exchange(&mut a, &mut b, 5000, true);
    exchange(&mut a, &mut b, 5000, false);
    assert_eq!((b.statistics().direct_reads, b.statistics().refused_reads), (0, 1));
}

#[test]
fn region_buffers_are_read_from_smaller_sizes() {
    let (mut a, mut b) = pair();
    let mut shared = a.port_mut().allocate(1000).unwrap();
    shared.copy_from_slice(&pattern(1000, 8));
    for (length, reads) in [(255, 0), (256, 1), (600, 2), (1000, 3)] {
        let receive = irecv(&mut b, length, from(0, 0));
        // Single-threaded steps: the receive is posted, so the send completes by itself.
        let id = a.open_send(&shared[..length], to(1, 0), SendMode::Standard, true).unwrap();
        if let Some(id) = id {
            a.lend_to_send(id, &shared[..length], |a| settle(&mut [a, &mut b]));
            assert!(a.test(id).unwrap().is_ok());
        }
        settle(&mut [&mut a, &mut b]);
        assert_eq!(taken(&mut b, receive).unwrap().1, pattern(1000, 8)[..length]);
        assert_eq!(b.statistics().direct_reads, reads, "{length}");
    }
}

#[test]
fn ranks_of_different_nodes_expose_no_memory() {
    let (layout, config) = tight(2);
    let job = hikyaku_nic::loopback::LoopbackConfig {
        layout,
        ranks_per_node: 1,
        ..hikyaku_nic::loopback::LoopbackConfig::for_ranks(2)
    };
    let (mut a, mut b) = pair_on(ports_of(&job), config);
    a.port_mut().rules().process = true;
    exchange(&mut a, &mut b, 5000, true);
    assert_eq!((b.statistics().direct_reads, b.statistics().refused_reads), (0, 0));
}

#[test]
fn a_stream_alternates_with_messages_when_full() {
    let (mut a, mut b) = pair();
    *a.port_mut().rules() = Rules { part: Some(60), ..Rules::default() };
    let long = irecv(&mut b, 4000, from(0, 0));
    let long_send = isend(&mut a, &pattern(4000, 1), to(1, 0));
    let other = irecv(&mut b, 3000, from(0, 1));
    let other_send = isend(&mut a, &pattern(3000, 2), to(1, 1));
    let small = irecv(&mut b, 500, from(0, 2));
    let small_send = isend(&mut a, &pattern(500, 3), to(1, 2));
    settle(&mut [&mut a, &mut b]);
    assert_eq!(taken(&mut b, long).unwrap().1, pattern(4000, 1));
    assert_eq!(taken(&mut b, other).unwrap().1, pattern(3000, 2));
    assert_eq!(taken(&mut b, small).unwrap().1, pattern(500, 3));
    for send in [long_send, other_send, small_send] {
        assert!(a.test(send).unwrap().is_ok());
    }
    assert_clean(&a);
    assert_clean(&b);
}

#[test]
fn both_ways_at_once_through_full_rings() {
    let (mut a, mut b) = pair();
    let to_b = irecv(&mut b, 9000, from(0, 0));
    let to_a = irecv(&mut a, 9000, from(1, 0));
    isend(&mut a, &pattern(9000, 1), to(1, 0));
    isend(&mut b, &pattern(9000, 2), to(0, 0));
    settle(&mut [&mut a, &mut b]);
    assert_eq!(taken(&mut b, to_b).unwrap().1, pattern(9000, 1));
    assert_eq!(taken(&mut a, to_a).unwrap().1, pattern(9000, 2));
}

#[test]
fn a_detached_send_streams_only_while_attached() {
    let (mut a, mut b) = pair();
    let bytes = pattern(2000, 4);
    let send = a.start_send_detached(&bytes, to(1, 0), SendMode::Standard, false).unwrap();
    let receive = irecv(&mut b, 2000, from(0, 0));
    settle(&mut [&mut a, &mut b]);
    assert!(a.test(send).is_none() && b.test(receive.0).is_none());
    // Not the bytes that it was started with: refused.
    a.lend_to_send(send, &bytes[..1999], |a| settle(&mut [a, &mut b]));
    assert!(a.test(send).is_none());
    a.lend_to_send(send, &bytes, |a| settle(&mut [a, &mut b]));
    assert!(a.test(send).unwrap().is_ok());
    assert_eq!(taken(&mut b, receive).unwrap().1, bytes);
}

#[test]
fn a_detached_receive_reads_only_while_attached() {
    for process in [true, false] {
        let (mut a, mut b) = pair();
        a.port_mut().rules().process = process;
        let receive = b.start_recv_detached(2000, from(0, 0)).unwrap();
        let send = isend(&mut a, &pattern(2000, 5), to(1, 0));
        settle(&mut [&mut a, &mut b]);
        assert!(b.test(receive).is_none() && a.test(send).is_none());
        let mut buffer = vec![0; 2000];
        b.lend_to_receive(receive, &mut buffer, |b| settle(&mut [&mut a, b]));
        assert!(b.test(receive).unwrap().is_ok() && a.test(send).unwrap().is_ok());
        assert_eq!(buffer, pattern(2000, 5));
    }
}

#[test]
fn a_blocked_stream_is_no_progress() {
    let (mut a, mut b) = pair();
    let bytes = pattern(2000, 4);
    a.start_send_detached(&bytes, to(1, 0), SendMode::Standard, false).unwrap();
    irecv(&mut b, 2000, from(0, 0));
    // Far more rounds than the handshake takes: the stream waits for its bytes.
    for _ in 0..100 {
        a.progress();
        b.progress();
    }
    assert!(!a.progress() && !b.progress());
}

/// `waits` waits for something that does not arrive, and `other` has sent something.
fn wait_in_vain(waits: &mut Engine<Unruly>, other: &mut Engine<Unruly>) {
    settle(&mut [&mut *waits, &mut *other]);
    (0..=GONE_ROUNDS).for_each(|_| _ = waits.attend(None));
    settle(&mut [waits, other]);
}

#[test]
fn who_sends_an_eager_message_does_not_wait_for_its_receive() {
    let (mut a, mut b) = pair();
    a.port_mut().rules().process = true;
    let lengths = [600, 601, 512];
    // The second is longer than the eager limit; the synchronous one waits for its receive.
    let send = |tag: usize| isend(&mut a, &pattern(lengths[tag], tag), to(1, tag as i32));
    let sends: Vec<_> = (0..3).map(send).collect();
    let synchronous = isend_as(&mut a, &pattern(512, 3), to(1, 3), SendMode::Synchronous);
    wait_in_vain(&mut b, &mut a);
    let done: Vec<_> = sends.iter().map(|send| a.test(*send).map(|sent| sent.is_ok())).collect();
    assert_eq!((done, a.test(synchronous)), (vec![Some(true), None, Some(true)], None));
    let held = Unmatched { messages: 2, bytes: 600 + 512 };
    assert_eq!((b.unexpected.evacuated(), b.statistics().unexpected_bytes), (held, held.bytes));
    for (tag, length) in [(2, 512), (3, 512), (0, 600), (1, 601)] {
        let receive = irecv(&mut b, length, from(0, tag as i32));
        settle(&mut [&mut a, &mut b]);
        assert_eq!(taken(&mut b, receive).unwrap().1, pattern(length, tag));
    }
    assert!(a.test(sends[1]).unwrap().is_ok() && a.test(synchronous).unwrap().is_ok());
    assert_eq!(b.unexpected.evacuated(), Unmatched { messages: 0, bytes: 0 });
    assert_clean(&a);
    assert_clean(&b);
}

#[test]
fn early_reads_stop_at_the_limit_of_unmatched_messages() {
    let (layout, config) = tight(2);
    let limited = EngineConfig { unmatched_bytes: 1_000, ..config };
    let (mut a, mut b) = pair_on(ports(layout), limited);
    a.port_mut().rules().process = true;
    let sends: Vec<_> = (0..4).map(|n| isend(&mut a, &pattern(600, n), to(1, n as i32))).collect();
    wait_in_vain(&mut b, &mut a);
    let done = |a: &mut Engine<Unruly>| {
        sends.iter().filter(|send| matches!(a.test(**send), Some(Ok(_)))).count()
    };
    // Each counts 600 bytes and 128.
    assert_eq!(done(&mut a), 2);
    assert!(b.at_limit.is_some(), "the announcement of a wait says so");
    for n in 0..4 {
        let receive = irecv(&mut b, 600, from(0, n as i32));
        settle(&mut [&mut a, &mut b]);
        assert_eq!(taken(&mut b, receive).unwrap().1, pattern(600, n));
    }
    assert_eq!(done(&mut a), 2, "the others");
    assert_clean(&a);
    assert_clean(&b);
}

#[test]
fn an_early_message_that_cannot_be_read_waits_for_its_receive() {
    let (mut a, mut b) = pair();
    a.port_mut().rules().process = true;
    b.port_mut().rules().refuse_reads = true;
    let send = isend(&mut a, &pattern(600, 1), to(1, 0));
    wait_in_vain(&mut b, &mut a);
    assert_eq!((b.statistics().refused_reads, a.test(send)), (1, None));
    let receive = irecv(&mut b, 600, from(0, 0));
    settle(&mut [&mut a, &mut b]);
    assert_eq!(taken(&mut b, receive).unwrap().1, pattern(600, 1));
    assert!(a.test(send).unwrap().is_ok());
    assert_eq!((b.statistics().direct_reads, b.statistics().refused_reads), (0, 1));
}

#[test]
fn a_sender_whose_messages_are_read_early_is_asked_to_put_them() {
    let (layout, config) = tight(2);
    let config = EngineConfig { long_messages: LongMessages::Fastest, ..config };
    let (mut a, mut b) = pair_on(ports(layout), config);
    a.port_mut().rules().process = true;
    for n in 0..8 {
        let send = isend(&mut a, &pattern(600, n), to(1, 0));
        wait_in_vain(&mut b, &mut a);
        assert!(a.test(send).unwrap().is_ok());
        let receive = irecv(&mut b, 600, from(0, 0));
        settle(&mut [&mut a, &mut b]);
        assert_eq!(taken(&mut b, receive).unwrap().1, pattern(600, n));
    }
    let said = b.way_tally().unwrap().to_string();
    assert!(said.contains("2 before their receive"), "{said}");
    assert!(said.contains("6 since their receiver came late"), "{said}");
}
