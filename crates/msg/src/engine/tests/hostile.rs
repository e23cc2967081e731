//! Invalid packets: dropped and counted, never a panic, never past a buffer.

use hikyaku_nic::fabric::{
    Command, CopyPort, JointCopy, LentAddress, MemoryPort, Port, RemoteAddress, RingPort, Space,
};
use proptest::prelude::*;

use super::*;
use crate::protocol::{CTS, Control, DATA, EAGER, FIN, MessageOutcome, NOTE, RTS, ReadyToSend};
use crate::testing::{pair, pattern, settle};

/// Posts a packet from `a` without its engine.
fn inject(a: &mut Engine<Unruly>, protocol: u8, header: u64, payload: &[u8]) {
    inject_part(a, protocol, header, payload, payload.len() as u64, 0);
}

fn inject_part(
    a: &mut Engine<Unruly>,
    protocol: u8,
    header: u64,
    payload: &[u8],
    total: u64,
    offset: u64,
) {
    let command = Command { total, offset, ..Command::send(1, protocol, header, payload) };
    a.port_mut().post(&command).unwrap();
}

/// Checks that the two can still communicate.
fn assert_working(a: &mut Engine<Unruly>, b: &mut Engine<Unruly>) {
    for length in [3, 400, 2000] {
        let receive = irecv(b, length, from(0, 63));
        isend(a, &pattern(length, 1), to(1, 63));
        settle(&mut [&mut *a, &mut *b]);
        assert_eq!(taken(b, receive).unwrap().1, pattern(length, 1));
    }
}

#[test]
fn control_packets_of_no_request_are_counted() {
    let (mut a, mut b) = pair();
    let into = RemoteAddress { rank: 0, space: Space::Process, offset: 0 };
    let packets = [
        Control::Finish { sender: 12345, outcome: MessageOutcome::Consumed },
        Control::Finish { sender: u64::MAX, outcome: MessageOutcome::Withdrawn },
        Control::Abort { receiver: 9 },
        Control::Cancel { sender: RequestId::from_word(8) },
        Control::ClearToSend { sender: 77, receiver: RequestId::from_word(1), want: 10 },
        Control::Join { sender: 78, copy: JointCopy { into, length: 10, number: 1 } },
    ];
    for control in packets {
        let packet = control.packet();
        inject(&mut a, packet.protocol, packet.header, packet.payload());
    }
    inject(&mut a, DATA, 5, &[1; 100]);
    settle(&mut [&mut a, &mut b]);
    assert_eq!(b.statistics().stray, 6);
    let packet = Control::PutNext { kind: 12345, messages: 1 }.packet();
    inject(&mut a, packet.protocol, packet.header, packet.payload());
    settle(&mut [&mut a, &mut b]);
    assert_eq!(b.statistics().malformed, 1, "there is no such kind of messages");
    assert_working(&mut a, &mut b);
    assert_clean(&b);
}

#[test]
fn malformed_payloads_are_dropped_and_counted() {
    let (mut a, mut b) = pair();
    for protocol in [RTS, CTS, FIN, 0, 11, 255] {
        inject(&mut a, protocol, 0, &[0xFF; 7]);
        settle(&mut [&mut a, &mut b]);
        inject(&mut a, protocol, 0, &[0xFF; 100]);
        settle(&mut [&mut a, &mut b]);
    }
    assert_eq!(b.statistics().malformed, 12);
    // A note in a ring is invalid.
    inject(&mut a, NOTE, 0, &[0xFF; 100]);
    settle(&mut [&mut a, &mut b]);
    assert_eq!((b.statistics().malformed, b.take_note(0, |_| true)), (13, None));
    assert_working(&mut a, &mut b);
    assert_clean(&b);
}

#[test]
fn contradicting_parts_end_only_their_message() {
    let bits = to(1, 0).bits();
    // (offset, total) of a second part that follows 100 bytes of 300.
    for (offset, total, bits_too) in
        [(0, 300, bits), (99, 300, bits), (200, 300, bits), (100, 301, bits), (100, 300, bits + 1)]
    {
        for posted in [true, false] {
            let (mut a, mut b) = pair();
            let receive = posted.then(|| irecv(&mut b, 300, from(0, 0)));
            inject_part(&mut a, EAGER, bits, &[1; 100], 300, 0);
            inject_part(&mut a, EAGER, bits_too, &[2; 100], total, offset);
            settle(&mut [&mut a, &mut b]);
            assert!(b.statistics().malformed > 0);
            if let Some((id, _)) = receive {
                assert_eq!(b.test(id), Some(Err(MsgError::Malformed { source_rank: 0 })));
            }
            if offset == 0 {
                // A valid start: the second message is the incomplete one. Complete it.
                inject_part(&mut a, EAGER, bits, &[3; 100], 300, 0);
                inject_part(&mut a, EAGER, bits, &[3; 200], 300, 100);
                settle(&mut [&mut a, &mut b]);
                let whole = irecv(&mut b, 300, from(0, 0));
                assert_eq!(taken(&mut b, whole).unwrap().1, [3; 300]);
            }
            assert_working(&mut a, &mut b);
            assert_clean(&b);
        }
    }
}

#[test]
fn a_stream_that_contradicts_itself_ends_its_receive() {
    for (total, offset, length) in [(1000, 1, 10), (999, 0, 10), (1000, 990, 10)] {
        let (mut a, mut b) = pair();
        let (receive, memory) = irecv(&mut b, 1000, from(0, 0));
        let rts = ReadyToSend {
            total: 1000,
            request: 3,
            address: None,
            lent: None,
            ready: false,
            early: false,
            trial: None,
            announced: 0,
        };
        inject(&mut a, RTS, to(1, 0).bits(), &rts.encode());
        b.progress();
        inject_part(&mut a, DATA, receive.word(), &vec![1; length], total, offset);
        b.progress();
        assert_eq!(b.test(receive), Some(Err(MsgError::Malformed { source_rank: 0 })));
        assert_eq!(memory.to_vec(), [0xEE; 1000]);
        assert_clean(&b);
    }
}

#[test]
fn an_invalid_address_is_not_read() {
    let lent = Some(LentAddress { address: u64::MAX - 10, key: 1 });
    for (address, lent) in [
        (Some((Space::Region, u64::MAX - 10)), None),
        (Some((Space::Process, u64::MAX - 10)), None),
        (None, lent),
    ] {
        let (mut a, mut b) = pair();
        let (receive, memory) = irecv(&mut b, 1000, from(0, 0));
        let rts = ReadyToSend {
            total: u64::MAX,
            request: 3,
            address,
            lent,
            ready: false,
            early: false,
            trial: None,
            announced: 0,
        };
        inject(&mut a, RTS, to(1, 0).bits(), &rts.encode());
        settle(&mut [&mut a, &mut b]);
        // It asked for a stream instead, of an unknown request, and got an ABORT.
        assert_eq!(b.statistics().refused_reads, u64::from(address.is_some()));
        let error = MsgError::Abandoned { source_rank: 0, tag: 0 };
        assert_eq!(b.test(receive), Some(Err(error)));
        assert_eq!(memory.to_vec(), [0xEE; 1000]);
    }
}

#[test]
fn a_join_with_wrong_words_copies_nothing() {
    const LENGTH: usize = 4000;
    let (mut a, mut b) = pair();
    let into = a.port_mut().allocate(LENGTH).unwrap();
    let send = isend(&mut b, &pattern(LENGTH, 2), to(0, 0));
    settle(&mut [&mut a, &mut b]);
    let right = LENGTH as u64;
    let beyond = |space| RemoteAddress { rank: 0, space, offset: u64::MAX - 10 };
    for (wrong, number, length, malformed) in [
        (None, 1, right, 0),
        (Some(beyond(Space::Region)), 0, right, 0),
        (Some(beyond(Space::Process)), 0, right, 0),
        (None, 0, right + 1, 1),
        (None, 0, u64::MAX, 1),
        (None, 0, 0, 0),
        (None, 0, right, 0),
    ] {
        let open = a.port_mut().open_joint(&into).unwrap();
        let number = open.number.wrapping_add(number);
        let copy = JointCopy { into: wrong.unwrap_or(open.into), number, length };
        let packet = Control::Join { sender: send.word(), copy }.packet();
        inject(&mut a, packet.protocol, packet.header, packet.payload());
        let before = b.statistics();
        b.progress();
        let (after, is_right) = (b.statistics(), copy == open);
        let copied = if is_right { right } else { 0 };
        assert_eq!(after.joint_bytes - before.joint_bytes, copied, "{copy:?}");
        assert_eq!(after.malformed - before.malformed, malformed, "{copy:?}");
        let expected = if is_right { pattern(LENGTH, 2) } else { vec![0; LENGTH] };
        assert!(into[..] == expected, "{copy:?}");
        assert!(a.port_mut().close_joint(1, &open));
        assert!(b.test(send).is_none(), "its receiver has not said that it has it");
    }
    let receive = irecv(&mut a, LENGTH, from(1, 0));
    settle(&mut [&mut a, &mut b]);
    assert_eq!(taken(&mut a, receive).unwrap().1, pattern(LENGTH, 2));
    assert!(b.test(send).unwrap().is_ok());
}

#[test]
fn a_rank_controls_only_its_own_messages() {
    let mut all = crate::testing::engines(3);
    let [a, b, c] = &mut all[..] else { unreachable!() };
    let send = isend(b, &pattern(1000, 1), to(2, 0));
    // Rank 0 names the request of rank 1 to rank 2.
    for control in [
        Control::Finish { sender: send.word(), outcome: MessageOutcome::Consumed },
        Control::ClearToSend { sender: send.word(), receiver: send, want: 1000 },
    ] {
        let packet = control.packet();
        inject(a, packet.protocol, packet.header, packet.payload());
    }
    settle(&mut [&mut *a, &mut *b, &mut *c]);
    assert!(b.test(send).is_none());
    let receive = irecv(c, 1000, from(1, 0));
    settle(&mut [&mut *a, &mut *b, &mut *c]);
    assert!(b.test(send).unwrap().is_ok());
    assert_eq!(taken(c, receive).unwrap().1, pattern(1000, 1));
}

#[test]
fn asking_for_too_much_gets_nothing() {
    let (mut a, mut b) = pair();
    let send = isend(&mut b, &pattern(1000, 1), to(0, 0));
    for want in [1001, u64::MAX, 0] {
        let receiver = RequestId::from_word(4);
        let packet = Control::ClearToSend { sender: send.word(), receiver, want }.packet();
        inject(&mut a, packet.protocol, packet.header, packet.payload());
    }
    b.progress();
    assert_eq!(b.statistics().malformed, 3);
    assert!(b.test(send).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn random_packets_never_break_a_rank(
        packets in prop::collection::vec(
            (0..12u8, 0..8u64, prop::collection::vec(0..4u8, 0..200), 0..400u64, 0..300u64),
            0..40,
        ),
        receives in 0..4usize,
    ) {
        let (mut a, mut b) = pair();
        let send = isend(&mut b, &pattern(1000, 1), to(0, 0));
        let posted: Vec<_> = (0..receives).map(|_| irecv(&mut b, 150, super::any())).collect();
        for (protocol, header, payload, total, offset) in packets {
            let header = if protocol <= RTS { 1 << 32 | header } else { header };
            let total = total.max(payload.len() as u64 + offset);
            let command = Command {
                total, offset, ..Command::send(1, protocol, header, &payload)
            };
            // A full ring refuses some of them; that does not matter here.
            let _ = a.port_mut().post(&command);
            b.progress();
            a.progress();
        }
        settle(&mut [&mut a, &mut b]);
        for (id, _) in posted {
            b.abandon(id);
        }
        b.abandon(send);
        settle(&mut [&mut a, &mut b]);
        // All messages left unexpected can be received or at least abandoned.
        while let Ok(Some(_)) = b.probe(super::any()) {
            let (id, _) = irecv(&mut b, 10, super::any());
            settle(&mut [&mut a, &mut b]);
            b.abandon(id);
        }
        prop_assert_eq!(b.statistics().unexpected_bytes, 0);
        let ring = b.port().ring(0).unwrap();
        prop_assert_eq!(ring.head, ring.tail, "ring bytes leaked");
    }
}
