//! Cancelling and abandoning operations.

use hikyaku_nic::sync::{AtomicU64, Ordering};

use super::*;
use crate::engine::CancelOutcome;
use crate::testing::{engines, pair, pattern, settle};

#[test]
fn an_unmatched_receive_is_cancelled() {
    let (mut a, mut b) = pair();
    let (receive, memory) = irecv(&mut b, 1, from(0, 0));
    assert_eq!(b.cancel(receive), CancelOutcome::Cancelled);
    assert_eq!(b.cancel(receive), CancelOutcome::TooLate, "it is gone");
    isend(&mut a, &[1], to(1, 0));
    settle(&mut [&mut a, &mut b]);
    assert_eq!(memory.to_vec(), [0xEE]);
    let next = irecv(&mut b, 1, from(0, 0));
    assert_eq!(taken(&mut b, next).unwrap().1, [1]);
}

#[test]
fn a_matched_receive_is_not_cancelled() {
    for length in [1, 500, 3000] {
        let (mut a, mut b) = pair();
        let receive = irecv(&mut b, length, from(0, 0));
        a.port_mut().rules().part = Some(100);
        isend(&mut a, &pattern(length, 1), to(1, 0));
        b.progress();
        assert_eq!(b.cancel(receive.0), CancelOutcome::TooLate);
        settle(&mut [&mut a, &mut b]);
        assert_eq!(taken(&mut b, receive).unwrap().1, pattern(length, 1));
    }
}

#[test]
fn an_unposted_send_is_cancelled() {
    let (mut a, mut b) = pair();
    a.port_mut().rules().full = 100;
    let sends = [1, 500, 3000].map(|length| isend(&mut a, &pattern(length, 1), to(1, 0)));
    a.port_mut().rules().full = 0;
    for send in sends {
        assert_eq!(a.cancel(send), CancelOutcome::Cancelled);
    }
    settle(&mut [&mut a, &mut b]);
    assert_eq!(b.probe(any()), Ok(None));
    assert_clean(&a);
}

#[test]
fn an_announced_send_is_cancelled_unless_matched() {
    for matched in [false, true] {
        let (mut a, mut b) = pair();
        let send = isend(&mut a, &pattern(3000, 1), to(1, 0));
        settle(&mut [&mut a, &mut b]);
        let receive = matched.then(|| irecv(&mut b, 3000, from(0, 0)));
        assert_eq!(a.cancel(send), CancelOutcome::Asked);
        assert_eq!(a.cancel(send), CancelOutcome::Asked, "asked once only");
        settle(&mut [&mut a, &mut b]);
        match receive {
            Some(receive) => {
                assert!(a.test(send).unwrap().is_ok());
                assert_eq!(taken(&mut b, receive).unwrap().1, pattern(3000, 1));
            }
            None => {
                assert_eq!(a.test(send), Some(Err(MsgError::Cancelled)));
                assert_eq!(b.probe(any()), Ok(None));
            }
        }
        assert_clean(&a);
        assert_clean(&b);
    }
}

/// A program may cancel a message to a rank that has ended without receiving it.
#[test]
fn a_message_is_cancelled_although_its_receiver_leaves() {
    for asks_first in [false, true] {
        let (mut a, b) = pair();
        let send = isend(&mut a, &pattern(3000, 1), to(1, 0));
        if asks_first {
            assert_eq!(a.cancel(send), CancelOutcome::Asked);
        }
        drop(b);
        if !asks_first {
            assert_eq!(a.cancel(send), CancelOutcome::Asked);
        }
        assert_eq!(a.wait(send), Err(MsgError::Cancelled));
    }
}

#[test]
fn a_cancelled_announcement_returns_its_credit() {
    let (mut a, mut b) = pair();
    for _ in 0..20 {
        let send = isend(&mut a, &pattern(700, 1), to(1, 0));
        settle(&mut [&mut a, &mut b]);
        assert_eq!(a.cancel(send), CancelOutcome::Asked);
        settle(&mut [&mut a, &mut b]);
        assert_eq!(a.test(send), Some(Err(MsgError::Cancelled)));
    }
}

#[test]
fn an_abandoned_message_arrives_only_if_eager() {
    for length in [500, 3000] {
        let (mut a, mut b) = pair();
        a.port_mut().rules().part = Some(100);
        let bytes = pattern(length, 1);
        let receive = irecv(&mut b, length, from(0, 0));
        let send = isend(&mut a, &bytes, to(1, 0));
        b.progress();
        a.progress();
        b.progress();
        a.abandon(send);
        settle(&mut [&mut a, &mut b]);
        if length == 500 {
            assert_eq!(taken(&mut b, receive).unwrap().1, bytes);
        } else {
            let error = MsgError::Abandoned { source_rank: 0, tag: 0 };
            assert_eq!(b.test(receive.0), Some(Err(error)));
        }
        assert_clean(&a);
        assert_clean(&b);
    }
}

#[test]
fn an_abandoned_announcement_ends_its_receive() {
    for matched in [false, true] {
        let (mut a, mut b) = pair();
        let send = isend(&mut a, &pattern(3000, 1), to(1, 0));
        b.progress();
        let receive = matched.then(|| irecv(&mut b, 3000, from(0, 0)));
        a.abandon(send);
        settle(&mut [&mut a, &mut b]);
        if let Some((id, _)) = receive {
            let error = MsgError::Abandoned { source_rank: 0, tag: 0 };
            assert_eq!(b.test(id), Some(Err(error)));
        }
        assert_eq!(b.probe(any()), Ok(None));
        assert_clean(&a);
        assert_clean(&b);
    }
}

#[test]
fn an_abandoned_announcement_is_not_read_early() {
    let (mut a, mut b) = pair();
    a.port_mut().rules().process = true;
    let send = isend(&mut a, &pattern(600, 1), to(1, 0));
    b.progress();
    a.abandon(send);
    b.read_early();
    settle(&mut [&mut a, &mut b]);
    assert_eq!(b.probe(any()), Ok(None));
    assert_clean(&a);
    assert_clean(&b);
}

/// If the same key cannot lend a copy, the receiver no longer uses the memory on return.
#[test]
fn an_abandoned_loan_outlasts_whoever_fetches_it() {
    for matched in [false, true] {
        let (mut a, mut b) = pair();
        a.port_mut().rules().lends = true;
        a.port_mut().rules().keys_are_chosen = true;
        let send = isend(&mut a, &pattern(3000, 1), to(1, 0));
        assert_eq!(a.port_mut().rules().lent.len(), 1);
        let receive = matched.then(|| irecv(&mut b, 3000, from(0, 0)));
        let is_over = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                while is_over.load(Ordering::Acquire) == 0 {
                    b.idle();
                }
            });
            a.abandon(send);
            is_over.store(1, Ordering::Release);
            other.join().unwrap();
        });
        assert!(a.port_mut().rules().lent.is_empty());
        assert_clean(&a);
        settle(&mut [&mut a, &mut b]);
        if let Some((id, _)) = receive {
            let error = MsgError::Abandoned { source_rank: 0, tag: 0 };
            assert_eq!(b.test(id), Some(Err(error)));
        }
        assert_eq!(b.probe(any()), Ok(None));
        assert_clean(&b);
    }
}

#[test]
fn an_abandoned_receive_consumes_only_its_match() {
    for length in [500, 3000] {
        for cleared in [false, true] {
            let (mut a, mut b) = pair();
            a.port_mut().rules().part = Some(100);
            let receive = match cleared {
                true => irecv(&mut b, length, from(0, 0)).0,
                false => b.start_recv_detached(length, from(0, 0)).unwrap(),
            };
            let send = isend(&mut a, &pattern(length, 1), to(1, 0));
            b.progress();
            b.abandon(receive);
            let next = irecv(&mut b, 1, from(0, 0));
            isend(&mut a, &[7], to(1, 0));
            settle(&mut [&mut a, &mut b]);
            assert!(a.test(send).unwrap().is_ok());
            assert_eq!(taken(&mut b, next).unwrap().1, [7]);
            let sends: Vec<_> = a.requests.iter().map(|(id, _)| id).collect();
            assert!(sends.into_iter().all(|id| a.test(id).unwrap().is_ok()));
            assert_clean(&a);
            assert_clean(&b);
        }
    }
}

#[test]
fn complete_and_freed_requests_can_be_abandoned() {
    let mut all = engines(1);
    let me = &mut all[0];
    let send = isend(me, &[1], to(0, 0));
    me.abandon(send);
    me.abandon(send);
    let (receive, _) = irecv(me, 1, from(0, 0));
    settle(&mut [me]);
    me.abandon(receive);
    assert_clean(me);
}
