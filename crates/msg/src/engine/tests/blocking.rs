//! Blocking calls: the fast path, waiting, wait any, and a rank that waits for itself.

use std::cell::RefCell;
use std::future::poll_fn;
use std::task::Poll;

use hikyaku_nic::fabric::{Activity, Wait, Wake};
use hikyaku_nic::layer::Layer;
use hikyaku_nic::time::Time;

use super::*;
use crate::engine::{Blocked, Wanted};
use crate::future::block_on_for;
use crate::testing::{Rules, engines, pair, pattern, run, tight};

#[test]
fn messages_of_every_length_go_round() {
    run(tight(2), |mut engine| {
        let me = engine.rank();
        for (round, length) in [0, 1, 48, 49, 300, 600, 601, 20_000].into_iter().enumerate() {
            for mode in [SendMode::Standard, SendMode::Synchronous, SendMode::Ready] {
                let mut buffer = vec![0; length];
                if me == 0 {
                    engine.send(&pattern(length, round), to(1, 4), mode).unwrap();
                    engine.recv(&mut buffer, from(1, 5)).unwrap();
                } else {
                    engine.recv(&mut buffer, from(0, 4)).unwrap();
                    engine.send(&buffer, to(0, 5), mode).unwrap();
                }
                assert_eq!(buffer, pattern(length, round));
            }
        }
        engine.flush();
        assert_clean(&engine);
    });
}

#[test]
fn a_small_message_takes_no_request() {
    let (mut a, mut b) = pair();
    a.send(&[1, 2, 3], to(1, 0), SendMode::Standard).unwrap();
    let mut buffer = [0; 4];
    let received = b.recv(&mut buffer, from(0, 0)).unwrap();
    assert_eq!((received.bytes, buffer), (3, [1, 2, 3, 0]));
    assert!(a.requests.iter().next().is_none() && b.requests.iter().next().is_none());
    assert_eq!(b.statistics().unexpected_messages_high, 0);
    assert_eq!((a.statistics().bytes_sent, b.statistics().bytes_received), (3, 3));
}

#[test]
fn a_direct_receive_leaves_older_receives_their_messages() {
    let (mut a, mut b) = pair();
    let older = irecv(&mut b, 1, any());
    a.send(&[1], to(1, 0), SendMode::Standard).unwrap();
    a.send(&[2], to(1, 0), SendMode::Standard).unwrap();
    let mut buffer = [0];
    b.recv(&mut buffer, from(0, 0)).unwrap();
    assert_eq!(buffer, [2]);
    assert_eq!(taken(&mut b, older).unwrap().1, [1]);
}

#[test]
fn a_wait_for_next_frees_its_slot() {
    let (mut a, mut b) = pair();
    let [(first, one), (second, two)] = [1, 2].map(|_| irecv(&mut b, 2, from(0, 1)));
    for byte in [7, 8] {
        a.send(&[byte], to(1, 1), SendMode::Standard).unwrap();
    }
    // This is not the first receive of its source: the next message completes the other one.
    assert_eq!(b.wait_for_next(second).map(|received| received.bytes), Some(1));
    assert_eq!(b.test(second), Some(Err(MsgError::NoSuchRequest)));
    assert_eq!(b.test(first).unwrap().map(|received| received.bytes), Ok(1));
    assert_eq!((one.to_vec()[0], two.to_vec()[0]), (7, 8));
    assert!(b.posted.is_empty() && b.requests.iter().next().is_none());
    assert_eq!((b.statistics().messages_received, b.statistics().bytes_received), (2, 2));
}

#[test]
fn a_round_in_which_something_moved_ends_without_a_rest() {
    let (mut a, mut b) = pair();
    let receive = irecv(&mut b, 300, from(0, 0));
    a.send(&pattern(300, 1), to(1, 0), SendMode::Standard).unwrap();
    let me = RefCell::new(b);
    let future = poll_fn(|_| {
        let mut engine = me.borrow_mut();
        // One operation is polled, and then another one, whose poll completes the first.
        let done = engine.requests.is_done(receive.0);
        engine.progress();
        let parks = engine.port_mut().rules().parks;
        if done { Poll::Ready(parks) } else { Poll::Pending }
    });
    assert_eq!(block_on_for(&me, Wait::new(Activity::Receive), future), 0);
    assert!(taken(&mut me.into_inner(), receive).unwrap().1 == pattern(300, 1));
}

#[test]
fn a_crowded_rank_looks_once_before_it_parks() {
    let (_a, mut b) = pair();
    let (id, _memory) = irecv(&mut b, 2, from(0, 1));
    for (crowded, first, watched) in [(false, 16, 6), (true, 1, 3)] {
        *b.port_mut().rules() = Rules { crowded, ..Rules::default() };
        assert_eq!(b.wait_for_next(id), None);
        assert_eq!(b.port_mut().rules().looks, first, "crowded: {crowded}");
        // Before the round, in it, and after it has parked.
        let mut looks = 0;
        b.watch(
            || Wait::new(Activity::Collective),
            |port| {
                looks += 1;
                (port.rules().parks > 0).then_some(())
            },
        );
        assert_eq!(looks, watched, "crowded: {crowded}");
    }
}

#[test]
fn who_asks_again_and_again_in_vain_is_to_give_way_where_others_need_the_processor() {
    for crowded in [false, true] {
        let (mut a, mut b) = pair();
        let (id, _memory) = irecv(&mut b, 2, from(0, 1));
        b.port_mut().rules().crowded = crowded;
        let asked: Vec<bool> = (0..6)
            .map(|_| {
                assert_eq!(b.test(id), None);
                b.found_nothing()
            })
            .collect();
        let due = |at| crowded && at >= 3;
        assert_eq!(asked, (0..6).map(due).collect::<Vec<_>>(), "crowded: {crowded}");
        // An arriving message ends that.
        a.send(&[1], to(1, 9), SendMode::Standard).unwrap();
        assert_eq!(b.test(id), None);
        assert!(!b.found_nothing());
    }
}

#[test]
fn a_loop_of_calls_in_vain_is_announced_by_what_they_poll() {
    let (mut a, mut b) = pair();
    let (id, _memory) = irecv(&mut b, 2, from(0, 1));
    let vain = |b: &mut Engine<Unruly>, calls| {
        b.port_mut().rules().announced = None;
        for _ in 0..calls {
            assert_eq!(b.test(id), None);
            b.found_nothing();
        }
        b.port_mut().rules().announced
    };
    assert_eq!(vain(&mut b, 16), None, "a loop of a few costs nothing");
    let first = vain(&mut b, 1).unwrap();
    let receive = Wait::new(Activity::Receive).with(Some(0), Some(1)).on(1);
    assert_eq!(first, Wait { since: first.since, polled: Some(first.since), ..receive });
    // The clock counts waits.
    b.idle();
    let later = vain(&mut b, 100).unwrap();
    assert_eq!((later.since, later.peer), (first.since, first.peer));
    assert!(later.polled > first.polled);
    assert_eq!(b.waiting(), None, "it is no call that waits");

    // A probe for something else, and a message that no receive takes.
    b.idle();
    a.send(&[1], to(1, 9), SendMode::Standard).unwrap();
    let mut probed = || {
        for _ in 0..1000 {
            assert_eq!(b.probe(from(0, 5)), Ok(None));
            b.found_nothing();
        }
        b.port_mut().rules().announced.unwrap()
    };
    let probe = probed();
    assert_eq!((probe.activity, probe.tag), (Activity::Probe, Some(5)));
    assert_eq!(probe.since, first.since, "nothing was received meanwhile");
    a.send(&[1], to(1, 1), SendMode::Standard).unwrap();
    assert!(probed().since > first.since);
}

#[test]
fn a_slow_loop_is_announced_at_every_call_and_a_fast_one_rarely() {
    let (_a, mut b) = pair();
    let (id, _memory) = irecv(&mut b, 2, from(0, 1));
    // How many announcements a thousand calls make, with this much time between two calls.
    let mut announced = |milliseconds: u64| {
        let mut said = 0;
        for _ in 0..1000 {
            let gap = Time::from_nanoseconds(milliseconds * 1_000_000);
            b.port().inner().host().pass_time(gap);
            b.port_mut().rules().announced = None;
            assert_eq!(b.test(id), None);
            b.found_nothing();
            said += u32::from(b.port_mut().rules().announced.is_some());
        }
        said
    };
    let (fast, slow, again) = (announced(0), announced(20), announced(0));
    assert!(fast < 10 && slow > 400 && again < 20, "{fast} {slow} {again}");
}

/// Its own polls would cost as much as their report is worth.
#[test]
fn a_call_that_waits_is_not_asked_what_it_polls() {
    let (_a, mut b) = pair();
    let (id, _memory) = irecv(&mut b, 2, from(0, 1));
    let ask = |b: &mut Engine<Unruly>| {
        while b.reported_waits().is_none() {
            assert_eq!(b.test(id), None);
            b.found_nothing();
        }
    };
    ask(&mut b);
    let mut blocked = Blocked::new(Wait::new(Activity::Probe));
    b.rest(&mut blocked);
    assert_eq!(b.reported_waits(), None);
    (0..30).for_each(|_| b.rest(&mut blocked));
    assert_eq!(b.reported_waits(), Some(0), "before it is announced it is");
    (0..100).for_each(|_| _ = b.found_nothing());
    assert_eq!(b.reported_waits(), Some(0), "its reports are left to it");
    b.rest(&mut blocked);
    assert_eq!(b.waiting().map(|wait| wait.activity), Some(Activity::Probe));
    (0..100).for_each(|_| _ = b.found_nothing());
    let announced = b.port_mut().rules().announced.unwrap();
    assert_eq!((announced.activity, announced.polled), (Activity::Probe, None));
}

#[test]
fn a_wait_for_next_completes_whatever_comes_before() {
    let (mut a, mut b) = pair();
    let any_tag = Selector { tag: None, ..from(0, 0) };
    let selectors = [from(0, 5), from(0, 3), any_tag, from(0, 4)];
    let receives = selectors.map(|selector| irecv(&mut b, 2, selector));
    for tag in [4, 3, 5, 9] {
        a.send(&[tag as u8], to(1, tag), SendMode::Standard).unwrap();
    }
    let received = |tag| Received { source: 0, tag, bytes: 1 };
    assert_eq!(b.wait_for_next(receives[0].0), Some(received(5)));
    // The message of tag 4 was for the receive of any tag, which was posted before its own.
    for (at, tag) in [(1, 3), (2, 4)] {
        assert_eq!(b.requests.take_done(receives[at].0), Some(Ok(received(tag))));
    }
    let bytes: Vec<u8> = receives.iter().map(|(_, memory)| memory.to_vec()[0]).collect();
    assert_eq!(bytes[..3], [5, 3, 4]);
    assert_eq!(b.statistics().messages_received, 3);
    // No message of tag 9 was sent.
    assert_eq!(b.wait_for_next(receives[3].0), None);
}

#[test]
fn a_wait_for_next_takes_results_but_no_errors() {
    let (mut a, mut b) = pair();
    let any_tag = Selector { tag: None, ..from(0, 0) };
    let receives = [from(0, 1), from(0, 0), any_tag].map(|selector| irecv(&mut b, 1, selector));
    for tag in [0, 1, 7] {
        a.send(&[tag as u8], to(1, tag), SendMode::Standard).unwrap();
    }
    for ((id, _), tag) in receives.iter().zip([1, 0, 7]) {
        assert_eq!(b.wait_for_next(*id), Some(Received { source: 0, tag, bytes: 1 }));
        assert_eq!(b.wait_for_next(*id), None, "it is freed");
    }
    let bytes = receives.map(|(_, memory)| memory.to_vec()[0]);
    assert_eq!(bytes, [1, 0, 7]);
    let short = irecv(&mut b, 1, from(0, 2));
    a.send(&[1, 2], to(1, 2), SendMode::Standard).unwrap();
    b.progress();
    assert_eq!(b.wait_for_next(short.0), None);
    assert!(matches!(taken(&mut b, short), Err(MsgError::Truncated { .. })));
    assert_clean(&b);
}

#[test]
fn a_wait_for_next_leaves_other_messages() {
    let (mut a, mut b) = pair();
    let wildcard = irecv(&mut b, 1, any());
    let named = irecv(&mut b, 1, from(0, 3));
    a.send(&[1], to(1, 3), SendMode::Standard).unwrap();
    // The wildcard was posted earlier.
    assert!(b.wait_for_next(named.0).is_none());
    assert_eq!(taken(&mut b, wildcard).unwrap().1, [1]);
    // Another tag arrives first, then a message that is too long.
    a.send(&[2], to(1, 4), SendMode::Standard).unwrap();
    a.send(&[3, 4], to(1, 3), SendMode::Standard).unwrap();
    assert!(b.wait_for_next(named.0).is_none());
    let too_long = taken(&mut b, named).unwrap_err();
    assert!(matches!(too_long, MsgError::Truncated { sent: 2, room: 1, .. }), "{too_long}");
    let mut buffer = [0];
    b.recv(&mut buffer, from(0, 4)).unwrap();
    assert_eq!(buffer, [2]);
}

#[test]
fn a_direct_receive_leaves_unmatched_messages_alone() {
    let (mut a, mut b) = pair();
    for tag in [3, 2, 1] {
        a.send(&[tag as u8], to(1, tag), SendMode::Standard).unwrap();
    }
    for tag in [1, 2, 3] {
        let mut buffer = [0];
        b.recv(&mut buffer, from(0, tag)).unwrap();
        assert_eq!(buffer, [tag as u8]);
    }
    assert_clean(&b);
}

#[test]
fn a_direct_receive_reports_a_short_buffer() {
    let (mut a, mut b) = pair();
    a.send(&[1, 2, 3], to(1, 0), SendMode::Standard).unwrap();
    let mut buffer = [0; 2];
    let error = MsgError::Truncated { sent: 3, room: 2, source_rank: 0, tag: 0 };
    assert_eq!(b.recv(&mut buffer, from(0, 0)), Err(error));
    assert_eq!(buffer, [1, 2]);
    assert_clean(&b);
}

#[test]
fn a_synchronous_send_returns_only_after_the_match() {
    let order = std::sync::Mutex::new(Vec::new());
    run(tight(2), |mut engine| {
        if engine.rank() == 0 {
            engine.send(&[], to(1, 0), SendMode::Synchronous).unwrap();
            order.lock().unwrap().push("sent");
        } else {
            // The announcement has arrived, and the sender must still wait.
            engine.wait_probe(from(0, 0)).unwrap();
            (0..100).for_each(|_| engine.idle());
            order.lock().unwrap().push("received");
            engine.recv(&mut [], from(0, 0)).unwrap();
            engine.flush();
        }
    });
    assert_eq!(*order.lock().unwrap(), ["received", "sent"]);
}

#[test]
fn wait_any_returns_the_complete_request() {
    let mut all = engines(3);
    let receives: Vec<_> = (0..3).map(|source| irecv(&mut all[0], 8, from(source, 0))).collect();
    let ids: Vec<_> = receives.iter().map(|(id, _)| *id).collect();
    all[2].send(&[7], to(0, 0), SendMode::Standard).unwrap();
    let (at, result) = all[0].wait_any(&ids);
    assert_eq!((at, result.unwrap().source), (2, 2));
    all[0].send(&[], to(0, 0), SendMode::Standard).unwrap();
    assert_eq!(all[0].wait_any(&ids[..2]).0, 0);
    assert_eq!(all[0].wait(ids[0]), Err(MsgError::NoSuchRequest), "asked for twice");
}

#[test]
fn only_long_waits_are_announced_and_accounted() {
    let (mut a, mut b) = pair();
    a.send(&[1], to(1, 0), SendMode::Standard).unwrap();
    b.recv(&mut [0], from(0, 0)).unwrap();
    assert_eq!(b.port_mut().rules().announced, None);
    a.send(&[2], to(1, 9), SendMode::Standard).unwrap();
    b.port_mut().rules().blind = 100;
    b.recv(&mut [0], from(0, 9)).unwrap();
    let wait = b.port_mut().rules().announced.unwrap();
    assert_eq!((wait.activity, wait.peer, wait.tag), (Activity::Receive, Some(0), Some(9)));
    assert!(b.statistics().parked.picoseconds() > 0);
    assert_eq!(b.waiting(), None);
    a.port_mut().rules().full = 100;
    a.send(&[3], to(1, 8), SendMode::Standard).unwrap();
    let wait = a.port_mut().rules().announced.unwrap();
    assert_eq!((wait.activity, wait.peer, wait.tag), (Activity::Send, Some(1), Some(8)));
}

#[test]
fn parts_are_announced_as_the_whole() {
    let (mut a, mut b) = pair();
    a.send(&[1], to(1, 0), SendMode::Standard).unwrap();
    b.set_whole(Some(Wait::new(Activity::Collective)));
    b.port_mut().rules().blind = 100;
    b.recv(&mut [0], from(0, 0)).unwrap();
    let wait = b.port_mut().rules().announced.unwrap();
    assert_eq!((wait.activity, wait.peer), (Activity::Collective, Some(0)));
}

#[test]
fn a_wait_for_oneself_is_an_error() {
    for ranks in [1, 2] {
        let mut all = engines(ranks);
        let me = &mut all[0];
        let error = Err(MsgError::WaitsForItself { rank: 0 });
        assert_eq!(me.send(&pattern(601, 0), to(0, 0), SendMode::Standard), error);
        assert_eq!(me.send(&[], to(0, 0), SendMode::Synchronous), error);
        assert_eq!(me.recv(&mut [], from(0, 0)).map(drop), error);
        assert_clean(me);
        // The rank continues as if nothing had happened.
        me.send(&[1], to(0, 0), SendMode::Standard).unwrap();
        assert_eq!(me.recv(&mut [0], from(0, 0)).unwrap().bytes, 1);
    }
}

#[test]
fn only_credit_bounds_eager_messages_to_oneself() {
    let mut all = engines(1);
    let me = &mut all[0];
    for n in 0..4 {
        me.send(&pattern(600, n), to(0, 0), SendMode::Standard).unwrap();
    }
    let fifth = me.send(&pattern(600, 4), to(0, 0), SendMode::Standard);
    assert_eq!(fifth, Err(MsgError::WaitsForItself { rank: 0 }));
    for n in 0..4 {
        let mut buffer = vec![0; 600];
        me.recv(&mut buffer, from(0, 0)).unwrap();
        assert_eq!(buffer, pattern(600, n));
    }
    assert_clean(me);
}

#[test]
fn a_wildcard_receive_of_one_rank_fails() {
    let mut all = engines(1);
    let error = MsgError::WaitsForItself { rank: 0 };
    assert_eq!(all[0].recv(&mut [], any()), Err(error));
}

#[test]
fn a_long_flush_is_announced() {
    let (mut a, _b) = pair();
    // More refusals than rounds before a wait is announced.
    a.port_mut().rules().full = 100;
    isend(&mut a, &[1], to(1, 0));
    a.flush();
    let announced = a.port_mut().rules().announced.unwrap();
    assert_eq!((announced.activity, announced.peer), (Activity::Leave, Some(1)));
}

#[test]
fn a_wait_in_which_something_always_happens_is_announced() {
    let (mut other, me) = pair();
    let me = RefCell::new(me);
    let mut open: Option<RequestId> = None;
    let mut busy = |rounds: u32| {
        let mut left = rounds;
        let future = poll_fn(|_| {
            let mut engine = me.borrow_mut();
            if let Some(id) = open.take() {
                engine.test(id).unwrap().unwrap();
            }
            if left == 0 {
                return Poll::Ready(());
            }
            left -= 1;
            // The next progress finds this.
            open = Some(irecv(&mut engine, 1, from(0, 0)).0);
            other.send(&[1], to(1, 0), SendMode::Standard).unwrap();
            Poll::Pending
        });
        block_on_for(&me, Wait::new(Activity::Probe), future);
        me.borrow_mut().port_mut().rules().announced
    };
    assert_eq!(busy(100), None);
    let wait = busy(5_000).unwrap();
    assert_eq!(wait.activity, Activity::Probe);
    assert_eq!(me.borrow().waiting(), None);
}

#[test]
fn a_call_that_ends_asks_for_no_reports() {
    let (_a, mut b) = pair();
    let mut blocked = Blocked::new(Wait::new(Activity::Probe));
    (0..30).for_each(|_| b.rest(&mut blocked));
    assert_eq!(b.reported_waits(), None, "a report would be of no use yet");
    b.rest(&mut blocked);
    assert_eq!(b.reported_waits(), Some(0), "the next round would be announced");
    assert!(!b.pause_reports(true));
    assert_eq!(b.reported_waits(), None);
    assert!(b.pause_reports(false));
    assert_eq!(b.reported_waits(), Some(0));
    b.awake(&blocked);
    assert_eq!(b.reported_waits(), None);
}

#[test]
fn rests_in_two_halves_are_announced() {
    let (_a, mut b) = pair();
    let mut blocked = Blocked::new(Wait::new(Activity::Probe));
    for _ in 0..40 {
        b.begin_rest(&mut blocked);
        b.end_rest(&blocked, Wake::Look);
    }
    let wait = b.waiting().unwrap();
    assert_eq!(wait.activity, Activity::Probe);
    assert_eq!(b.long_wait().map(|(since, _)| since), Some(wait.since));
    b.awake(&blocked);
    assert_eq!(b.long_wait(), None);
}

#[test]
fn what_a_thread_wants_may_come_with_progress() {
    let (mut a, mut b) = pair();
    let wanted = Wanted { requests: Vec::new(), more: true };
    let turns = b.turns();
    assert!(!b.advance() && !b.may_have_come(&wanted, turns));
    a.send(&[1], to(1, 0), SendMode::Standard).unwrap();
    assert!(b.advance() && b.may_have_come(&wanted, turns));
}

#[test]
fn early_looks_are_left_out_where_they_find_nothing() {
    let (mut a, mut b) = pair();
    let mut into = [0];
    let mut look = |b: &mut Engine<Unruly>| b.recv_if_there(&mut into, 0, 1, 5);
    // How many polls are skipped before an arrived message is found.
    let mut left_out = |b: &mut Engine<Unruly>| {
        a.send(&[1], to(1, 5), SendMode::Standard).unwrap();
        (0..100).position(|_| look(b) == Some(1)).expect("a message that is there is found")
    };
    let in_vain = |b: &mut Engine<Unruly>, times| {
        (0..times).for_each(|_| assert_eq!(b.recv_if_there(&mut [0], 0, 1, 5), None));
    };

    in_vain(&mut b, 7);
    assert_eq!(left_out(&mut b), 0);
    in_vain(&mut b, 8);
    assert_eq!(left_out(&mut b), 63);
    assert_eq!(left_out(&mut b), 0, "one that was found counts");
    in_vain(&mut b, 8 + 63);
    in_vain(&mut b, 1);
    assert_eq!(left_out(&mut b), 63, "and so does one more in vain");
}

#[test]
fn an_early_look_serves_older_receives_first() {
    let (mut a, mut b) = pair();
    let older = [irecv(&mut b, 1, from(0, 5)), irecv(&mut b, 1, from(0, 6))];
    let any_tag = irecv(&mut b, 1, Selector { tag: None, ..from(0, 0) });
    for (value, tag) in [(1, 6), (2, 5), (3, 9), (4, 7)] {
        a.send(&[value], to(1, tag), SendMode::Standard).unwrap();
    }
    let mut into = [0];
    assert_eq!(b.recv_if_there(&mut into, 0, 1, 7), Some(1));
    assert_eq!(into, [4]);
    let [five, six] = older;
    assert_eq!(taken(&mut b, five).unwrap().1, [2]);
    assert_eq!(taken(&mut b, six).unwrap().1, [1]);
    let (received, bytes) = taken(&mut b, any_tag).unwrap();
    assert_eq!((received.tag, bytes), (9, vec![3]));
    assert_eq!(b.statistics().unexpected_messages_high, 0);
    assert_clean(&b);
}

#[test]
fn an_early_look_takes_nothing_from_older_receives() {
    for older in [any(), from(0, 5)] {
        let (mut a, mut b) = pair();
        let first = irecv(&mut b, 1, older);
        a.send(&[1], to(1, 5), SendMode::Standard).unwrap();
        assert_eq!(b.recv_if_there(&mut [0], 0, 1, 5), None);
        a.send(&[2], to(1, 5), SendMode::Standard).unwrap();
        assert_eq!(taken(&mut b, first).unwrap().1, [1]);
        b.recv(&mut [0], from(0, 5)).unwrap();
        assert_clean(&b);
    }
}

#[test]
fn early_looks_behind_other_receives_are_ever_fewer() {
    let (mut a, mut b) = pair();
    let first = irecv(&mut b, 1, from(0, 5));
    // Polls 1, 3, 7 and 15 of the receives behind it.
    (0..14).for_each(|_| assert_eq!(b.recv_if_there(&mut [0], 0, 1, 5), None));
    a.send(&[1], to(1, 5), SendMode::Standard).unwrap();
    a.send(&[2], to(1, 5), SendMode::Standard).unwrap();
    let mut into = [0];
    assert_eq!(b.recv_if_there(&mut into, 0, 1, 5), Some(1));
    assert_eq!(into, [2]);
    assert_eq!(taken(&mut b, first).unwrap().1, [1]);
    a.send(&[3], to(1, 5), SendMode::Standard).unwrap();
    assert_eq!(b.recv_if_there(&mut into, 0, 1, 5), Some(1), "one that was found counts");
}
