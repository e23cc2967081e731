//! Messages that both ends copy, in regions of a loopback job.

use hikyaku_nic::fabric::{Activity, DeathCause, MemoryPort, Port};
use hikyaku_nic::region::RegionBuffer;

use super::*;
use crate::testing::{Rules, pair, pattern, run, settle, tight};
use crate::ways::Way;
use crate::{LongMessages, Statistics};

const LENGTH: usize = 150_000;

/// A sender with its message, and a receiver with room that carries messages in this way.
fn ends(way: Way) -> (Engine<Unruly>, RegionBuffer, Engine<Unruly>, RegionBuffer) {
    let (mut a, mut b) = pair();
    b.carry_long_messages(LongMessages::By(way));
    let mut message = a.port_mut().allocate(LENGTH).unwrap();
    message.copy_from_slice(&pattern(LENGTH, 4));
    let into = b.port_mut().allocate(LENGTH).unwrap();
    (a, message, b, into)
}

/// Starts the send of the whole message.
fn start(a: &mut Engine<Unruly>, message: &[u8]) -> RequestId {
    a.open_send(message, to(1, 0), SendMode::Standard, true).unwrap().unwrap()
}

#[test]
fn each_way_brings_the_message() {
    for (way, counts) in [(Way::Ring, (0, 0)), (Way::Read, (1, 0)), (Way::Both, (0, 1))] {
        let (mut a, message, mut b, mut into) = ends(way);
        // The clock of these ports advances by waits alone.
        (0..100).for_each(|_| _ = b.port_mut().park(None));
        let receive = b.start_recv_detached(LENGTH, from(0, 0)).unwrap();
        let send = start(&mut a, &message);
        a.lend_to_send(send, &message, |a| {
            b.lend_to_receive(receive, &mut into, |b| settle(&mut [a, b]));
        });
        assert_eq!(b.test(receive).unwrap().unwrap().bytes, LENGTH as u64);
        assert!(a.test(send).unwrap().is_ok());
        assert!(into[..] == message[..]);
        assert_eq!((b.statistics().direct_reads, b.statistics().joint_copies), counts, "{way:?}");
        let tally = b.way_tally().unwrap().to_string();
        assert!(tally.contains(&format!("1 {} (0.0 us each)", way.in_words())), "{tally}");
        assert_clean(&a);
        assert_clean(&b);
    }
}

#[test]
fn a_sender_that_waits_copies_its_part() {
    let (mut a, message, mut b, mut into) = ends(Way::Both);
    b.port_mut().rules().late = 2;
    let receive = b.start_recv_detached(LENGTH, from(0, 0)).unwrap();
    let send = start(&mut a, &message);
    a.lend_to_send(send, &message, |a| {
        settle(&mut [a]);
        b.lend_to_receive(receive, &mut into, |b| {
            b.progress();
            settle(&mut [a, b]);
        });
    });
    assert!(b.test(receive).unwrap().is_ok() && a.test(send).unwrap().is_ok());
    assert_eq!((a.statistics().joint_bytes, b.statistics().joint_copies), (LENGTH as u64, 1));
    assert!(into[..] == message[..]);
}

/// A future has its memory attached only while it is polled.
#[test]
fn a_sender_that_has_no_memory_yet_copies_its_part_when_it_has() {
    let (mut a, message, mut b, mut into) = ends(Way::Both);
    b.port_mut().rules().late = 2;
    let receive = b.start_recv_detached(LENGTH, from(0, 0)).unwrap();
    let send = start(&mut a, &message);
    a.lend_to_send(send, &message, |a| settle(&mut [a]));
    b.lend_to_receive(receive, &mut into, |b| {
        b.progress();
        a.progress();
        assert_eq!(a.statistics().joint_bytes, 0);
        a.lend_to_send(send, &message, |_| {});
        assert_eq!(a.statistics().joint_bytes, LENGTH as u64);
        settle(&mut [&mut a, b]);
    });
    assert!(b.test(receive).unwrap().is_ok() && a.test(send).unwrap().is_ok());
    assert!(into[..] == message[..]);
}

#[test]
fn a_receive_that_loses_its_memory_in_the_middle_goes_on_elsewhere() {
    let (mut a, message, mut b, mut into) = ends(Way::Both);
    b.port_mut().rules().late = u32::MAX;
    let receive = b.start_recv_detached(LENGTH, from(0, 0)).unwrap();
    let send = start(&mut a, &message);
    settle(&mut [&mut a]);
    b.lend_to_receive(receive, &mut into, |b| settle(&mut [b]));
    // The sender learns of the first copy only after that copy has lost its memory.
    let before = into.to_vec();
    a.lend_to_send(send, &message, |a| settle(&mut [a]));
    assert_eq!(a.statistics().joint_bytes, 0);
    assert!(into[..] == before[..], "the memory was taken back");
    b.port_mut().rules().late = 0;
    let mut other = b.port_mut().allocate(LENGTH).unwrap();
    a.lend_to_send(send, &message, |a| {
        b.lend_to_receive(receive, &mut other, |b| settle(&mut [a, b]));
    });
    assert!(b.test(receive).unwrap().is_ok() && a.test(send).unwrap().is_ok());
    assert!(other[..] == message[..]);
}

/// The memory of a message that its sender has abandoned may have other contents by then.
#[test]
fn what_is_read_of_an_abandoned_message_is_not_received() {
    for way in [Way::Read, Way::Both] {
        let (mut a, mut message, mut b, mut into) = ends(way);
        let receive = b.start_recv_detached(LENGTH, from(0, 0)).unwrap();
        let send = start(&mut a, &message);
        a.lend_to_send(send, &message, |a| a.abandon(send));
        message.fill(0);
        b.lend_to_receive(receive, &mut into, |b| settle(&mut [&mut a, b]));
        let error = MsgError::Abandoned { source_rank: 0, tag: 0 };
        assert_eq!(b.test(receive), Some(Err(error)), "{way:?}");
        assert_clean(&a);
        assert_clean(&b);

        // Its other messages are read again.
        let receive = b.start_recv_detached(LENGTH, from(0, 0)).unwrap();
        let (sent, before) = (start(&mut a, &message), b.statistics());
        a.lend_to_send(sent, &message, |a| {
            b.lend_to_receive(receive, &mut into, |b| settle(&mut [a, b]));
        });
        assert!(b.test(receive).unwrap().is_ok() && a.test(sent).unwrap().is_ok());
        let read = |it: Statistics| it.direct_reads + it.joint_copies;
        assert_eq!(read(b.statistics()), read(before) + 1, "{way:?}");
    }
}

#[test]
fn a_long_wait_for_a_sender_inside_is_announced() {
    for (inside, expected) in [(1_000, None), (1 << 17, Some((Activity::Receive, Some(0))))] {
        let (mut a, message, mut b, mut into) = ends(Way::Both);
        b.port_mut().rules().late = u32::MAX;
        b.port_mut().rules().inside = inside;
        let receive = b.start_recv_detached(LENGTH, from(0, 0)).unwrap();
        start(&mut a, &message);
        settle(&mut [&mut a]);
        b.lend_to_receive(receive, &mut into, |b| settle(&mut [b]));
        let announced = b.port_mut().rules().announced;
        assert_eq!(announced.map(|wait| (wait.activity, wait.peer)), expected, "{inside}");
    }
}

/// Carries a message that is announced when its receiver does `act`, with its memory, and finds its
/// sender still in the last part the next `late` times. The whole message is there afterwards.
/// Returns the ends.
fn carry_late(
    late: u32,
    act: impl FnOnce(&mut Engine<Unruly>, RequestId, &mut [u8]),
) -> (Engine<Unruly>, Engine<Unruly>, RequestId) {
    let (mut a, message, mut b, mut into) = ends(Way::Both);
    b.port_mut().rules().late = late;
    let receive = b.start_recv_detached(LENGTH, from(0, 0)).unwrap();
    let send = start(&mut a, &message);
    a.lend_to_send(send, &message, |a| {
        settle(&mut [a]);
        b.progress();
        act(&mut b, receive, &mut into);
        assert!(into[..] == message[..]);
        settle(&mut [a, &mut b]);
    });
    assert!(a.test(send).unwrap().is_ok());
    (a, b, receive)
}

#[test]
fn a_receive_whose_memory_is_lent_for_a_moment_is_completed_in_it() {
    let (a, mut b, receive) = carry_late(1, |b, receive, into| {
        b.lend_to_receive(receive, into, |b| assert!(!b.requests.is_done(receive)));
        assert!(b.requests.is_done(receive));
    });
    assert!(b.test(receive).unwrap().is_ok());
    assert_eq!((a.statistics().joint_bytes, b.statistics().joint_copies), (0, 1));
}

#[test]
fn a_poll_in_whose_end_the_copy_is_completed_has_the_result() {
    // In both looks of the poll the sender copies its last part.
    carry_late(2, |b, receive, into| {
        assert!(b.poll_receive(receive, into).unwrap().is_ok(), "no event would follow");
    });
}

/// The receiver's memory has no address here, so both ends never copy.
#[test]
fn a_way_that_is_not_possible_is_tried_and_left() {
    let (mut a, message, mut b, _) = ends(Way::Both);
    b.carry_long_messages(LongMessages::Fastest);
    for _ in 0..40 {
        let receive = irecv(&mut b, LENGTH, from(0, 0));
        let send = start(&mut a, &message);
        a.lend_to_send(send, &message, |a| settle(&mut [a, &mut b]));
        assert!(a.test(send).unwrap().is_ok());
        assert!(taken(&mut b, receive).unwrap().1 == message[..]);
    }
    // Ten in place of joint copies; the clock of these ports stands still, so the ring is first.
    assert_eq!((b.statistics().joint_copies, b.statistics().direct_reads), (0, 20));
}

#[test]
fn an_abandoned_receive_frees_its_sender() {
    let (mut a, message, mut b, mut into) = ends(Way::Both);
    b.port_mut().rules().late = u32::MAX;
    let receive = b.start_recv_detached(LENGTH, from(0, 0)).unwrap();
    let send = start(&mut a, &message);
    settle(&mut [&mut a]);
    b.lend_to_receive(receive, &mut into, |b| {
        settle(&mut [b]);
        b.abandon(receive);
    });
    a.lend_to_send(send, &message, |a| settle(&mut [a, &mut b]));
    assert!(a.test(send).unwrap().is_ok(), "the message is lost, as with any abandoned receive");
    assert_eq!(a.statistics().joint_bytes, 0);
    assert_clean(&b);
}

#[test]
fn a_refused_copy_becomes_a_stream_for_good() {
    let (mut a, message, mut b, mut into) = ends(Way::Both);
    b.port_mut().rules().refuse_reads = true;
    for _ in 0..2 {
        into.fill(0);
        let receive = b.start_recv_detached(LENGTH, from(0, 0)).unwrap();
        let send = start(&mut a, &message);
        a.lend_to_send(send, &message, |a| {
            b.lend_to_receive(receive, &mut into, |b| settle(&mut [a, b]));
        });
        assert!(b.test(receive).unwrap().is_ok() && a.test(send).unwrap().is_ok());
        assert!(into[..] == message[..]);
    }
    assert_eq!((b.statistics().refused_reads, b.statistics().joint_copies), (1, 0));
}

#[test]
fn a_sender_that_dies_in_the_middle_is_an_error() {
    let (mut a, message, mut b, mut into) = ends(Way::Both);
    *b.port_mut().rules() = Rules { late: u32::MAX, ..Rules::default() };
    let receive = b.start_recv_detached(LENGTH, from(0, 0)).unwrap();
    start(&mut a, &message);
    settle(&mut [&mut a]);
    let result = b.lend_to_receive(receive, &mut into, |b| {
        settle(&mut [b]);
        assert!(b.test(receive).is_none());
        b.port().inner.host().fail(0, DeathCause::Unknown);
        b.wait(receive)
    });
    assert!(matches!(result, Err(MsgError::PeerFailed(_))), "{result:?}");
}

#[test]
fn a_receiver_that_dies_before_its_sender_has_written_is_an_error() {
    let (mut a, message, mut b, mut into) = ends(Way::Both);
    b.port_mut().rules().late = u32::MAX;
    let receive = b.start_recv_detached(LENGTH, from(0, 0)).unwrap();
    let send = start(&mut a, &message);
    let result = a.lend_to_send(send, &message, |a| {
        settle(&mut [a]);
        b.lend_to_receive(receive, &mut into, |b| settle(&mut [b]));
        a.port().inner.host().fail(1, DeathCause::Unknown);
        a.wait(send)
    });
    assert!(matches!(result, Err(MsgError::PeerFailed(_))), "{result:?}");
    assert_eq!(a.statistics().joint_bytes, 0);
    assert_clean(&a);
}

#[test]
fn two_messages_at_once_arrive_with_one_copy_open() {
    let (mut a, message, mut b, mut into) = ends(Way::Both);
    b.port_mut().rules().late = 3;
    let mut second = b.port_mut().allocate(LENGTH).unwrap();
    let first = b.start_recv_detached(LENGTH, from(0, 0)).unwrap();
    let other = b.start_recv_detached(LENGTH, from(0, 0)).unwrap();
    let sends = [start(&mut a, &message), start(&mut a, &message)];
    a.lend_to_send(sends[0], &message, |a| {
        a.lend_to_send(sends[1], &message, |a| {
            b.lend_to_receive(first, &mut into, |b| {
                b.lend_to_receive(other, &mut second, |b| settle(&mut [a, b]));
            });
        });
    });
    assert!([first, other].iter().all(|id| b.test(*id).unwrap().is_ok()));
    assert!(sends.iter().all(|id| a.test(*id).unwrap().is_ok()));
    assert!(into[..] == message[..] && second[..] == message[..]);
    assert_eq!((b.statistics().joint_copies, b.statistics().direct_reads), (1, 1));
}

#[test]
fn threads_that_copy_at_once_lose_nothing() {
    const ROUNDS: usize = 60;
    let (layout, mut config) = tight(2);
    config.long_messages = LongMessages::By(Way::Both);
    let copies = run((layout, config), |mut engine| {
        let (me, other) = (engine.rank(), 1 - engine.rank());
        let mut buffer = engine.port_mut().allocate(LENGTH).unwrap();
        for round in 0..ROUNDS {
            let expected = pattern(LENGTH, round);
            if round % 2 == me as usize {
                buffer.copy_from_slice(&expected);
                engine.send(&buffer, to(other, 0), SendMode::Standard).unwrap();
            } else {
                buffer.fill(0);
                engine.recv(&mut buffer, from(other, 0)).unwrap();
                assert!(buffer[..] == expected[..], "round {round}");
            }
        }
        engine.flush();
        engine.statistics().joint_copies
    });
    assert_eq!(copies, [ROUNDS as u64 / 2; 2]);
}
