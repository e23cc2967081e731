//! Credit and room: a fast sender is slowed, a source that is needed is relieved.

use hikyaku_nic::fabric::{Activity, Port, Unmatched, Wait};
use hikyaku_nic::plan::{RankFlow, TrafficKind};
use hikyaku_nic::random::Random;

use super::*;
use crate::config::EngineConfig;
use crate::engine::Blocked;
use crate::testing::{Rules, engines, pair, pair_on, pattern, ports, run, settle, tight};

#[test]
fn a_fast_sender_is_slowed_in_flat_memory() {
    let (mut a, mut b) = pair();
    let sends: Vec<_> = (0..100u8).map(|n| isend(&mut a, &[n], to(1, 0))).collect();
    for _ in 0..200 {
        settle(&mut [&mut a, &mut b]);
        // A rank that waits for nothing gives no relief.
        b.attend(None);
    }
    assert_eq!(b.statistics().unexpected_messages, 4);
    assert_eq!(sends.iter().filter(|id| a.requests.is_done(**id)).count(), 4);
    assert!(a.statistics().held_up > 0);
    for n in 0..100u8 {
        let receive = irecv(&mut b, 1, from(0, 0));
        settle(&mut [&mut a, &mut b]);
        assert_eq!(taken(&mut b, receive).unwrap().1, [n]);
    }
    assert!(sends.into_iter().all(|id| a.test(id).unwrap().is_ok()));
    assert!(b.statistics().unexpected_messages_high <= 5);
    assert_eq!(b.statistics().evacuations, 0);
    assert_clean(&a);
    assert_clean(&b);
}

/// Tests a receive as a program in a loop would.
fn test_often(
    receive: RequestId,
    b: &mut Engine<Unruly>,
    a: &mut Engine<Unruly>,
) -> Option<Result<Received, MsgError>> {
    (0..1000).find_map(|_| {
        a.progress();
        b.test(receive)
    })
}

#[test]
fn a_note_overtakes_messages_without_credit_or_room() {
    for length in [1, 500] {
        let (mut a, mut b) = pair();
        for n in 0..10 {
            isend(&mut a, &pattern(length, n), to(1, 0));
        }
        settle(&mut [&mut a, &mut b]);
        assert!(!a.outbox.is_clear(1), "messages wait");
        let note = pattern(crate::NOTE_MOST, 3);
        a.send_note(&note, to(1, 9)).unwrap();
        a.send_note(&[], to(1, 9)).unwrap();
        settle(&mut [&mut a, &mut b]);
        // A rank that waits for none of the messages receives the note nevertheless.
        let about = |bytes| Received { source: 0, tag: 9, bytes };
        assert_eq!(b.take_note(1, |tag| tag == 8), None);
        assert_eq!(b.take_note(1, |_| true), Some((about(note.len() as u64), note)));
        assert_eq!(b.take_note(1, |tag| tag == 9), Some((about(0), Vec::new())));
        assert_eq!(b.statistics().evacuations, 0);
        for n in 0..10 {
            let receive = irecv(&mut b, length, from(0, 0));
            settle(&mut [&mut a, &mut b]);
            assert_eq!(taken(&mut b, receive).unwrap().1, pattern(length, n));
        }
        assert_clean(&b);
    }
}

#[test]
fn refused_note_pieces_are_retried_in_order() {
    let (mut a, mut b) = pair();
    let (first, second) = (pattern(150, 1), pattern(90, 2));
    a.port_mut().rules().full = 2;
    a.send_note(&first, to(1, 0)).unwrap();
    a.send_note(&second, to(1, 0)).unwrap();
    settle(&mut [&mut a, &mut b]);
    assert_eq!(b.take_note(1, |_| true), None, "there was no room twice");
    settle(&mut [&mut a, &mut b]);
    assert_eq!(b.take_note(1, |_| true).unwrap().1, first);
    assert_eq!(b.take_note(1, |_| true).unwrap().1, second);
    let long = vec![0; crate::NOTE_MOST + 1];
    let refused = MsgError::InvalidLength { given: 161, needed: 160 };
    assert_eq!(a.send_note(&long, to(1, 0)), Err(refused));
    assert_clean(&a);
}

#[test]
fn a_note_is_answered_in_any_call_and_kept() {
    #[derive(Debug)]
    struct Echo;
    impl crate::Answerer for Echo {
        fn answer(&mut self, tag: i32, bytes: &[u8]) -> Option<Vec<u8>> {
            (tag == 9).then(|| bytes.iter().rev().copied().collect())
        }
    }
    let (mut a, mut b) = pair();
    b.set_answerer(1, None, Box::new(Echo));
    let (note, unanswered) = (pattern(crate::NOTE_MOST, 3), Envelope { tag: 8, ..to(1, 9) });
    a.send_note(&note, to(1, 9)).unwrap();
    a.send_note(&note, unanswered).unwrap();
    a.send_note(&note, Envelope { context: 2, ..to(1, 9) }).unwrap();
    settle(&mut [&mut a, &mut b]);
    // No call has taken a note there.
    let (about, answer) = a.take_note(1, |_| true).unwrap();
    assert_eq!((about.source, about.tag), (1, 9));
    assert_eq!(answer, note.iter().rev().copied().collect::<Vec<u8>>());
    assert_eq!((a.take_note(1, |_| true), a.take_note(2, |_| true)), (None, None));
    assert_eq!(b.take_note(1, |tag| tag == 9).unwrap().1, note);
    let come = b.left_overs_come();
    b.drop_context(1);
    isend(&mut a, &[1], Envelope { context: 1, ..to(1, 3) });
    isend(&mut a, &[1], Envelope { context: 2, ..to(1, 3) });
    a.send_note(&note, unanswered).unwrap();
    settle(&mut [&mut a, &mut b]);
    assert_eq!((b.left_overs_come(), b.statistics().unexpected_messages), (come + 3, 2));
    b.drop_what_came(|context| context == 1);
    assert_eq!((b.left_overs_come(), b.statistics().unexpected_messages), (come + 3, 1));
    assert_eq!(b.take_note(1, |_| true), None);
    assert!(b.take_note(2, |_| true).is_some(), "of another context");
    a.send_note(&note, to(1, 9)).unwrap();
    settle(&mut [&mut a, &mut b]);
    assert_eq!(a.take_note(1, |_| true), None, "the context has ended");
}

#[test]
fn a_needed_source_without_credit_is_relieved() {
    let (mut a, mut b) = pair();
    for n in 0..10u8 {
        isend(&mut a, &[n], to(1, 0));
    }
    isend(&mut a, &[77], to(1, 1));
    let (receive, memory) = irecv(&mut b, 1, from(0, 1));
    assert!(test_often(receive, &mut b, &mut a).unwrap().is_ok());
    assert_eq!(memory.to_vec(), [77]);
    assert!(b.statistics().evacuations > 0);
    assert_eq!(b.statistics().unexpected_messages, 10);
    for n in 0..10u8 {
        let receive = irecv(&mut b, 1, from(0, 0));
        assert_eq!(taken(&mut b, receive).unwrap().1, [n]);
    }
}

#[test]
fn a_needed_source_without_room_is_relieved() {
    // IP-10: reading out lets reception continue, nothing lost or duplicated.
    let (mut a, mut b) = pair();
    for n in 0..4 {
        isend(&mut a, &pattern(500, n), to(1, 0));
    }
    isend(&mut a, &pattern(300, 9), to(1, 1));
    let (receive, memory) = irecv(&mut b, 300, from(0, 1));
    assert!(test_often(receive, &mut b, &mut a).unwrap().is_ok());
    assert_eq!(memory.to_vec(), pattern(300, 9));
    assert!(b.statistics().evacuated_bytes >= 1000);
    for n in 0..4 {
        let receive = irecv(&mut b, 500, from(0, 0));
        settle(&mut [&mut a, &mut b]);
        assert_eq!(taken(&mut b, receive).unwrap().1, pattern(500, n));
    }
    assert_clean(&b);
}

#[test]
fn a_probe_relieves_its_source() {
    let (mut a, mut b) = pair();
    for n in 0..10u8 {
        isend(&mut a, &[n], to(1, 0));
    }
    isend(&mut a, &[1, 2], to(1, 1));
    let found = (0..1000).find_map(|_| {
        a.progress();
        b.probe(from(0, 1)).unwrap()
    });
    assert_eq!(found, Some(Received { source: 0, tag: 1, bytes: 2 }));
}

#[test]
fn sources_of_a_shared_ring_are_relieved_together() {
    // IP-04, IP-07.
    let (layout, config) = tight(3);
    let layout = hikyaku_nic::segment::SegmentLayout { rings: 1, first_rings: 1, ..layout };
    let mut all: Vec<_> = ports(layout).into_iter().map(|port| Engine::new(port, config)).collect();
    let [b, a, c] = &mut all[..] else { unreachable!() };
    // Source 2 fills the ring with messages that no receive takes; source 1 is needed.
    isend(c, &pattern(500, 1), to(0, 0));
    isend(c, &pattern(500, 2), to(0, 0));
    isend(a, &pattern(400, 3), to(0, 5));
    let (receive, memory) = irecv(b, 400, from(1, 5));
    let done = (0..1000).find_map(|_| {
        a.progress();
        c.progress();
        b.test(receive)
    });
    assert!(done.unwrap().is_ok());
    assert_eq!(memory.to_vec(), pattern(400, 3));
    for n in 1..=2 {
        let receive = irecv(b, 500, from(2, 0));
        settle(&mut [&mut *b, &mut *a, &mut *c]);
        assert_eq!(taken(b, receive).unwrap().1, pattern(500, n));
    }
}

#[test]
fn a_detached_stream_does_not_stop_its_source() {
    let (mut a, mut b) = pair();
    isend(&mut a, &pattern(4000, 1), to(1, 0));
    let streamed = b.start_recv_detached(4000, from(0, 0)).unwrap();
    settle(&mut [&mut a, &mut b]);
    let mut buffer = vec![0; 4000];
    // Lent for a moment, so that it clears the sender, then detached.
    b.lend_to_receive(streamed, &mut buffer, |_| {});
    isend(&mut a, &[5], to(1, 1));
    let (receive, _) = irecv(&mut b, 1, from(0, 1));
    assert!(test_often(receive, &mut b, &mut a).unwrap().is_ok());
    for _ in 0..1000 {
        a.progress();
        b.test(streamed);
        if b.lend_to_receive(streamed, &mut buffer, |b| b.test(streamed)).is_some() {
            break;
        }
    }
    assert_eq!(buffer, pattern(4000, 1));
    assert_clean(&b);
}

#[test]
fn refused_posts_are_retried() {
    for length in [0, 48, 500, 2000] {
        let (mut a, mut b) = pair();
        *a.port_mut().rules() = Rules { full: 7, part: Some(90), ..Rules::default() };
        *b.port_mut().rules() = Rules { full: 5, blind: 9, ..Rules::default() };
        let send = isend(&mut a, &pattern(length, 1), to(1, 0));
        let (receive, memory) = irecv(&mut b, length, from(0, 0));
        assert!(test_often(receive, &mut b, &mut a).unwrap().is_ok());
        assert_eq!(memory.to_vec(), pattern(length, 1));
        settle(&mut [&mut a, &mut b]);
        assert!(a.test(send).unwrap().is_ok());
    }
}

#[test]
fn ranks_may_all_send_first_within_credit() {
    let sums = run(tight(4), |mut engine| {
        let me = engine.rank();
        for other in (0..4).filter(|other| *other != me) {
            (0..3u8).for_each(|n| {
                engine.send(&[n], to(other, 0), SendMode::Standard).unwrap();
            });
        }
        let mut sum = 0;
        for _ in 0..9 {
            let mut buffer = [0];
            engine.recv(&mut buffer, any()).unwrap();
            sum += u32::from(buffer[0]);
        }
        engine.flush();
        sum
    });
    assert_eq!(sums, [9; 4]);
}

#[test]
fn flush_does_not_wait_for_departed_ranks() {
    let mut all = engines(3);
    let gone = all.pop().unwrap();
    let [a, b] = &mut all[..] else { unreachable!() };
    for n in 0..10u8 {
        isend(a, &[n], to(2, 0));
    }
    drop(gone);
    a.port_mut().rules().full = 20;
    let send = isend(a, &[1], to(1, 0));
    a.flush();
    assert!(a.requests.is_done(send));
    assert_eq!(b.probe(from(0, 0)).unwrap().unwrap().bytes, 1);
    assert_eq!(b.port().rank(), 1);
}

/// Both have more on the way than the other has room for, and neither receives any of it.
#[test]
fn ranks_leave_though_nobody_receives_what_they_sent() {
    let held_up = run(tight(2), |mut engine| {
        let other = 1 - engine.rank();
        for n in 0..100 {
            isend(&mut engine, &pattern(60 * (n % 3), n), to(other, 0));
            isend(&mut engine, &pattern(4000, n), to(other, 1));
        }
        engine.flush();
        engine.statistics().held_up
    });
    assert!(held_up.iter().any(|&times| times > 0), "{held_up:?}");
}

#[test]
fn threads_may_receive_out_of_order() {
    // In each round every rank sends more than credit and ring hold, and receives in another order:
    // stalls, relief, streams and direct receives all occur.
    const BATCH: usize = 7;
    let lengths = [0, 8, 48, 100, 600, 601, 2500];
    let evacuations = run(tight(4), |mut engine| {
        let me = engine.rank() as usize;
        // The same numbers at every rank.
        let mut random = Random::new(1);
        for round in 0..100 {
            let shift = random.place(4);
            let sizes: Vec<_> = (0..BATCH).map(|_| lengths[random.place(7)]).collect();
            let first = random.place(BATCH);
            let (target, source) = ((me + shift) % 4, (me + 4 - shift) % 4);
            let sends: Vec<_> = (0..BATCH)
                .map(|n| {
                    let bytes = pattern(sizes[n], round + me + n);
                    isend(&mut engine, &bytes, to(target as Rank, n as i32))
                })
                .collect();
            for n in (0..BATCH).map(|n| (n * 3 + first) % BATCH) {
                let mut buffer = vec![0; sizes[n]];
                engine.recv(&mut buffer, from(source as Rank, n as i32)).unwrap();
                assert_eq!(buffer, pattern(sizes[n], round + source + n));
            }
            for send in sends {
                engine.wait(send).unwrap();
            }
        }
        engine.flush();
        assert_clean(&engine);
        engine.statistics().evacuations
    });
    assert!(evacuations.iter().sum::<u64>() > 0, "nobody was ever held up");
}

#[test]
fn evacuation_stops_at_the_announced_limit() {
    let (layout, config) = tight(2);
    let limited = EngineConfig { unmatched_bytes: 2_000, ..config };
    let (mut a, mut b) = pair_on(ports(layout), limited);
    let floods: Vec<_> = (0..100u8).map(|n| isend(&mut a, &[n; 60], to(1, 0))).collect();
    let last = isend(&mut a, &[77], to(1, 1));
    let (receive, memory) = irecv(&mut b, 1, from(0, 1));
    assert!(test_often(receive, &mut b, &mut a).is_none());
    let held = b.at_limit.unwrap();
    // The limit is ten messages of 60 and 128 bytes, and up to a window is handled at once.
    assert!((11..=20).contains(&held.messages) && held.bytes == 60 * held.messages, "{held:?}");
    let mut blocked = Blocked::new(Wait::new(Activity::Receive).with(Some(0), Some(1)));
    (0..40).for_each(|_| b.rest(&mut blocked));
    assert_eq!(b.waiting().unwrap().unmatched, Some(held));
    b.awake(&blocked);
    // A limit that is met during a wait is announced in it.
    let mut blocked = Blocked::new(Wait::new(Activity::Receive));
    (0..40).for_each(|_| b.rest(&mut blocked));
    assert_eq!(b.waiting().unwrap().unmatched, None);
    (0..40).for_each(|_| _ = b.attend(None));
    b.rest(&mut blocked);
    assert_eq!(b.waiting().unwrap().unmatched, Some(held));
    b.awake(&blocked);
    // Receiving messages makes room again.
    for n in 0..100u8 {
        let receive = irecv(&mut b, 60, from(0, 0));
        let sent = test_often(receive.0, &mut b, &mut a).unwrap();
        assert_eq!((sent.unwrap().bytes, receive.1.to_vec()), (60, vec![n; 60]));
    }
    assert!(test_often(receive, &mut b, &mut a).unwrap().is_ok());
    assert_eq!(memory.to_vec(), [77]);
    assert_eq!(b.unexpected.evacuated(), Unmatched { messages: 0, bytes: 0 });
    assert!(floods.into_iter().chain([last]).all(|id| a.test(id).unwrap().is_ok()));
    assert_clean(&a);
    assert_clean(&b);
}

#[test]
fn evacuated_messages_are_not_scanned_again() {
    let (mut a, mut b) = pair();
    let (receive, _memory) = irecv(&mut b, 1, from(0, 1));
    for n in 0..200u8 {
        isend(&mut a, &[n; 60], to(1, 0));
    }
    assert!(test_often(receive, &mut b, &mut a).is_none());
    let moved = b.statistics();
    assert_eq!(moved.unexpected_messages, 200);
    assert_eq!(moved.evacuated_bytes + b.unexpected.evacuate(0, &mut b.port), 200 * 60);
    assert_eq!(b.unexpected.evacuated().messages, 200);
}

/// Packets have 128 bytes here, rings 1,024.
#[test]
fn a_traced_engine_knows_what_went_to_whom() {
    let (mut a, mut b) = pair();
    a.trace_traffic(
        |context| if context == 1 { TrafficKind::Point } else { TrafficKind::Collective },
    );
    let lengths = [0, 40, 41, 500, 2000];
    for length in lengths {
        isend(&mut a, &pattern(length, 1), to(1, 0));
        let receive = irecv(&mut b, length, from(0, 0));
        settle(&mut [&mut a, &mut b]);
        assert_eq!(taken(&mut b, receive).unwrap().1, pattern(length, 1));
    }
    a.send(&[1; 8], Envelope { context: 2, ..to(1, 0) }, SendMode::Standard).unwrap();
    settle(&mut [&mut a, &mut b]);
    let sent = a.traffic().unwrap();
    let flows: Vec<_> = sent.flows().map(|(kind, rank, flow)| (kind, rank, *flow)).collect();
    // Two messages lie in their records. 41 bytes take a packet of 64, 500 bytes four of 128, and
    // 2,000 bytes, which are streamed, 16.
    let by_program =
        RankFlow { messages: 5, bytes: 2581, packets: 21, ring_bytes: 2624, held_up: 0 };
    let by_others = RankFlow { messages: 1, bytes: 8, packets: 0, ring_bytes: 0, held_up: 0 };
    assert_eq!(
        flows,
        [(TrafficKind::Point, 1, by_program), (TrafficKind::Collective, 1, by_others)]
    );
    assert_eq!(b.traffic(), None);
}

#[test]
fn a_traced_message_without_room_is_held_up_once() {
    let (mut a, mut b) = pair();
    a.trace_traffic(|_| TrafficKind::Point);
    for n in 0..6 {
        isend(&mut a, &[n], to(1, 0));
        settle(&mut [&mut a, &mut b]);
    }
    let flow = |engine: &Engine<Unruly>| *engine.traffic().unwrap().flows().next().unwrap().2;
    // Credit allows four messages.
    assert_eq!((flow(&a).messages, flow(&a).held_up), (4, 2));
    for _ in 0..6 {
        let receive = irecv(&mut b, 1, from(0, 0));
        settle(&mut [&mut a, &mut b]);
        taken(&mut b, receive).unwrap();
    }
    assert_eq!((flow(&a).messages, flow(&a).held_up, flow(&a).packets), (6, 2, 0));
}

#[test]
fn what_comes_of_a_tag_that_has_ended_is_dropped() {
    for length in [1, 500] {
        let (mut a, mut b) = pair();
        let send = |a: &mut Engine<Unruly>, tag| isend(a, &pattern(length, 1), to(1, tag));
        let mut sends: Vec<_> = (0..10).map(|_| send(&mut a, 3)).collect();
        let mine = send(&mut a, 4);
        settle(&mut [&mut a, &mut b]);
        assert!(b.statistics().unexpected_messages > 0 && !a.outbox.is_clear(1));
        b.end_tag(0, (1, 3), false);
        settle(&mut [&mut a, &mut b]);
        let (receive, memory) = irecv(&mut b, length, from(0, 4));
        assert!(test_often(receive, &mut b, &mut a).unwrap().is_ok());
        assert_eq!(memory.to_vec(), pattern(length, 1));
        a.send_note(&[7], to(1, 3)).unwrap();
        // A note may overtake messages.
        sends.push(send(&mut a, 3));
        settle(&mut [&mut a, &mut b]);
        assert_eq!(b.take_note(1, |_| true), None);
        let lying = b.statistics();
        assert_eq!((lying.unexpected_messages, lying.unexpected_bytes), (0, 0), "{length} bytes");
        assert!(sends.into_iter().chain([mine]).all(|id| a.test(id).unwrap().is_ok()));
        // A context number that is reused is a new context.
        b.drop_context(1);
        send(&mut a, 3);
        settle(&mut [&mut a, &mut b]);
        assert_eq!(b.statistics().unexpected_messages, 1);
    }
}
