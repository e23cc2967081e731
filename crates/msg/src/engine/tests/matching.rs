//! Matching: posted and unexpected, wildcards, order, truncation.

use super::*;
use crate::testing::{engines, pair, pattern, settle};

#[test]
fn a_posted_receive_takes_messages_of_any_length() {
    for length in [0, 1, 48, 49, 128, 129, 600, 601, 5000] {
        let (mut a, mut b) = pair();
        let receive = irecv(&mut b, 6000, from(0, 3));
        let send = isend(&mut a, &pattern(length, 1), to(1, 3));
        settle(&mut [&mut a, &mut b]);
        let sent = a.test(send).unwrap().unwrap();
        assert_eq!(sent, Received { source: 0, tag: 3, bytes: length as u64 });
        let (received, bytes) = taken(&mut b, receive).unwrap();
        assert_eq!(received, Received { source: 0, tag: 3, bytes: length as u64 });
        assert_eq!(bytes, pattern(length, 1), "{length}");
        settle(&mut [&mut a, &mut b]);
        assert_clean(&a);
        assert_clean(&b);
    }
}

#[test]
fn an_unexpected_message_stays_in_its_sources_ring() {
    // IP-24.
    let (mut a, mut b) = pair();
    let send = isend(&mut a, &pattern(400, 2), to(1, 0));
    settle(&mut [&mut a, &mut b]);
    assert!(a.test(send).unwrap().is_ok());
    assert_eq!(b.statistics().unexpected_messages, 1);
    assert_eq!(b.statistics().unexpected_bytes, 400);
    assert_eq!(b.statistics().evacuations, 0);
    let receive = irecv(&mut b, 400, from(0, 0));
    assert_eq!(taken(&mut b, receive).unwrap().1, pattern(400, 2));
    assert_clean(&b);
    assert_eq!(b.statistics().unexpected_bytes_high, 400);
}

#[test]
fn wildcards_take_in_order_of_arrival() {
    // IP-09.
    let mut all = engines(3);
    for (rank, tag) in [(2, 5), (1, 5), (2, 6), (0, 7)] {
        let envelope = to(0, tag);
        isend(&mut all[rank], &[tag as u8], envelope);
    }
    for expected in [(2, 5), (1, 5), (2, 6), (0, 7)] {
        let receive = irecv(&mut all[0], 8, any());
        settle(&mut all.iter_mut().collect::<Vec<_>>());
        let (received, _) = taken(&mut all[0], receive).unwrap();
        assert_eq!((received.source, received.tag), expected);
    }
}

#[test]
fn of_wildcard_and_named_the_first_posted_wins() {
    let (mut a, mut b) = pair();
    let named = irecv(&mut b, 8, from(0, 1));
    let wild = irecv(&mut b, 8, any());
    let named_later = irecv(&mut b, 8, from(0, 1));
    for value in 1..=3 {
        isend(&mut a, &[value], to(1, 1));
    }
    settle(&mut [&mut a, &mut b]);
    assert_eq!(taken(&mut b, named).unwrap().1, [1]);
    assert_eq!(taken(&mut b, wild).unwrap().1, [2]);
    assert_eq!(taken(&mut b, named_later).unwrap().1, [3]);
}

#[test]
fn contexts_do_not_mix_even_under_wildcards() {
    let (mut a, mut b) = pair();
    let other = Envelope { destination: 1, context: 2, tag: 0 };
    isend(&mut a, &[9], other);
    isend(&mut a, &[1], to(1, 0));
    settle(&mut [&mut a, &mut b]);
    let receive = irecv(&mut b, 8, any());
    assert_eq!(taken(&mut b, receive).unwrap().1, [1]);
    assert_eq!(b.probe(any()), Ok(None));
    let foreign = Selector { source: None, tag: None, context: 2 };
    assert_eq!(b.probe(foreign).unwrap().unwrap().bytes, 1);
}

#[test]
fn a_truncated_message_is_consumed() {
    for (length, room) in [(40, 7), (500, 7), (500, 0), (500, 130), (3000, 7), (3000, 0)] {
        for posted_first in [true, false] {
            let (mut a, mut b) = pair();
            let send = isend(&mut a, &pattern(length, 3), to(1, 0));
            if !posted_first {
                settle(&mut [&mut a, &mut b]);
            }
            let receive = irecv(&mut b, room, from(0, 0));
            settle(&mut [&mut a, &mut b]);
            let error = MsgError::Truncated {
                sent: length as u64,
                room: room as u64,
                source_rank: 0,
                tag: 0,
            };
            assert_eq!(b.test(receive.0), Some(Err(error)));
            assert_eq!(receive.1.to_vec(), pattern(length, 3)[..room]);
            assert!(a.test(send).unwrap().is_ok(), "the sender is not at fault");
            assert_clean(&a);
            assert_clean(&b);
        }
    }
}

#[test]
fn a_receive_posted_mid_message_gets_all_parts() {
    let (mut a, mut b) = pair();
    a.port_mut().rules().part = Some(100);
    let send = isend(&mut a, &pattern(500, 4), to(1, 0));
    b.progress();
    assert_eq!(b.probe(any()).unwrap().unwrap().bytes, 500);
    let receive = irecv(&mut b, 500, from(0, 0));
    assert!(b.test(receive.0).is_none());
    settle(&mut [&mut a, &mut b]);
    assert!(a.test(send).unwrap().is_ok());
    assert_eq!(taken(&mut b, receive).unwrap().1, pattern(500, 4));
    assert_clean(&b);
}

#[test]
fn a_rank_can_send_to_itself() {
    for length in [0, 10, 500, 3000] {
        let mut all = engines(1);
        let me = &mut all[0];
        let send = isend(me, &pattern(length, 5), to(0, 2));
        let receive = irecv(me, length, from(0, 2));
        settle(&mut [me]);
        assert!(me.test(send).unwrap().is_ok());
        assert_eq!(taken(me, receive).unwrap().1, pattern(length, 5));
        assert_clean(me);
    }
}

#[test]
fn an_unposted_ready_message_is_delivered_and_counted() {
    for length in [8, 500, 3000] {
        let (mut a, mut b) = pair();
        let send = isend_as(&mut a, &pattern(length, 0), to(1, 0), SendMode::Ready);
        settle(&mut [&mut a, &mut b]);
        assert_eq!(b.statistics().ready_unposted, 1);
        let receive = irecv(&mut b, length, from(0, 0));
        settle(&mut [&mut a, &mut b]);
        assert_eq!(taken(&mut b, receive).unwrap().1, pattern(length, 0));
        assert!(a.test(send).unwrap().is_ok());
        let expected = irecv(&mut b, length, from(0, 0));
        isend_as(&mut a, &pattern(length, 0), to(1, 0), SendMode::Ready);
        settle(&mut [&mut a, &mut b]);
        assert!(taken(&mut b, expected).is_ok());
        assert_eq!(b.statistics().ready_unposted, 1);
    }
}

#[test]
fn impossible_addresses_are_refused_by_name() {
    let (mut a, _b) = pair();
    let no_rank = MsgError::NoSuchRank { rank: 2, size: 2 };
    let bad_tag = MsgError::InvalidTag { tag: -1 };
    assert_eq!(a.send(&[], to(2, 0), SendMode::Standard), Err(no_rank));
    assert_eq!(a.send(&[], to(1, -1), SendMode::Standard), Err(bad_tag));
    assert_eq!(a.recv(&mut [], from(2, 0)), Err(no_rank));
    assert_eq!(a.recv(&mut [], from(1, -1)), Err(bad_tag));
    assert_eq!(a.probe(from(2, 0)), Err(no_rank));
    assert_eq!(a.start_recv_detached(0, from(1, -1)), Err(bad_tag));
    assert_eq!(a.start_send_detached(&[], to(2, 0), SendMode::Standard, false), Err(no_rank));
    assert_eq!(a.wait_any(&[]), (0, Err(MsgError::NoSuchRequest)));
}
