//! Each fault alone, counted; held commands; commands that a link does not hold.

use super::*;
use crate::fabric::{DeathCause, Landing, Reply, Rights, Route, Space};
use crate::loopback::{LoopbackConfig, LoopbackPort, open};
use crate::segment::SegmentLayout;

type Faulty = FaultInjector<LoopbackPort>;

fn job(faults: Faults) -> (Faulty, Faulty) {
    let mut config = LoopbackConfig::for_ranks(2);
    config.layout =
        SegmentLayout { ring_bytes: 1024, packet_bytes: 256, credit: 3, ..config.layout };
    let mut ports = open(&config).unwrap().into_iter();
    let mut next = || FaultInjector::new(ports.next().unwrap(), faults);
    (next(), next())
}

/// The headers of all messages that have landed at a port.
fn headers(port: &mut Faulty) -> Vec<u64> {
    let mut found = Vec::new();
    while let Some(event) = port.inner_mut().poll() {
        if let Event::Landed(landed) = event {
            found.push(landed.header);
            if let Landing::Ring(slice) = landed.data {
                port.inner_mut().release(slice);
            }
        }
    }
    found
}

fn message(header: u64) -> Command<'static> {
    Command::send(1, 0, header, &[7; 100])
}

#[test]
fn without_faults_nothing_is_held_or_counted() {
    let (mut a, mut b) = job(Faults::NONE);
    for header in 0..4 {
        assert_eq!(a.post(&message(header)), Ok(100));
    }
    a.post_chain(&[message(4), message(5)]).unwrap();
    assert_eq!(a.inner().doorbells(), 5, "a chain stays a chain");
    assert_eq!((a.held(), a.counts()), (0, FaultCounts::default()));
    assert_eq!(headers(&mut b), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn an_absent_layer_changes_nothing() {
    let mut ports = open(&LoopbackConfig::for_ranks(2)).unwrap().into_iter();
    let mut next = || FaultInjector::absent(ports.next().unwrap());
    let (mut a, mut b) = (next(), next());
    for header in 0..4 {
        assert_eq!(a.post(&message(header)), Ok(100));
    }
    assert_eq!((a.held(), a.counts()), (0, FaultCounts::default()));
    assert_eq!(headers(&mut b), [0, 1, 2, 3]);
    a.meet(Faults { refuse: 1000, ..Faults::NONE });
    assert!(matches!(a.post(&message(4)), Err(PostError::Full { .. })));
    assert!(!a.post_short(1, 0, 5, &[]), "it is to be posted as a command");
    assert_eq!(a.counts().refused, 1);
    assert!(headers(&mut b).is_empty());
}

#[test]
fn puts_of_a_job_are_never_held() {
    let (mut a, mut b) = job(Faults { delay: 500, delay_polls: 3, ..Faults::of_a_job(1) });
    let context = b.open_context().unwrap();
    let key = b.register(context, 0, 64, Rights::ALL).unwrap();
    let target = RemoteAddress { rank: 1, space: Space::Segment(key), offset: 0 };
    let mut refused = 0;
    for turn in 1..=20 {
        while a.post(&Command::put(target, &[turn; 8])).is_err() {
            refused += 1;
            assert!(refused < 1000, "it lands some time");
        }
        assert_eq!(a.held(), 0);
        let mut found = [0; 8];
        a.inner_mut().get(target, &mut found).unwrap();
        assert_eq!(found, [turn; 8], "it has had its effect when the post returns");
    }
    assert!(refused > 0);
}

#[test]
fn what_found_no_room_is_passed_by_what_needs_none() {
    let faults = Faults { delay: 500, delay_polls: 1, window: 64, ..Faults::of_a_job(1) };
    let (mut a, mut b) = job(Faults { refuse: 0, drop: 0, duplicate: 0, ..faults });
    let context = b.open_context().unwrap();
    let key = b.register(context, 0, 64, Rights::ALL).unwrap();
    let target = RemoteAddress { rank: 1, space: Space::Segment(key), offset: 0 };
    for header in 0..20 {
        assert_eq!(a.post(&message(header)), Ok(100));
    }
    for _ in 0..10 {
        a.poll();
    }
    let behind = a.held();
    assert!(behind > 0, "they are more than the ring");
    let tries = (0..100).find(|_| a.post(&Command::put(target, &[7; 8])).is_ok());
    assert!(tries.is_some(), "the receiver may wait for it");
    let mut found = [0; 8];
    let tries = (0..100).find(|_| a.get(target, &mut found).is_ok());
    assert!(tries.is_some());
    assert_eq!((found, a.held()), ([7; 8], behind));
    let mut landed = headers(&mut b);
    while !a.flush() {
        landed.extend(headers(&mut b));
    }
    landed.extend(headers(&mut b));
    assert_eq!(landed, (0..20).collect::<Vec<_>>());
}

#[test]
fn what_may_pass_does_so_wherever_it_was_when_there_was_no_room() {
    let faults = Faults { duplicate: 1000, delay: 1000, delay_polls: 1, ..Faults::NONE };
    let (mut a, mut b) = job(Faults { window: 64, ..faults });
    let note = |header| Command { passes: true, ..Command::send(1, 0, header, &[7; 8]) };
    for header in 0..20 {
        assert_eq!(a.post(&message(header)), Ok(100));
        a.links[1].packets[0].ready = 30;
    }
    assert!(a.links[1].cause.is_none(), "nobody knows that there is no room");
    for header in [100, 101] {
        assert_eq!(a.post(&note(header)), Ok(8));
    }
    while a.links[1].cause.is_none() {
        a.poll();
    }
    assert_eq!(a.post(&note(102)), Ok(8));
    assert_eq!(a.post(&message(20)), Ok(100));
    let mut landed = headers(&mut b);
    let before = landed.iter().position(|header| *header == 100).unwrap();
    assert!(before < 20, "they are more than the ring");
    assert_eq!(landed[before..], [100, 101, 102], "in order, and once");
    while !a.flush() {
        landed.extend(headers(&mut b));
    }
    landed.extend(headers(&mut b));
    landed.retain(|header| *header < 100);
    assert_eq!(landed, (0..=20).collect::<Vec<_>>());
}

#[test]
fn a_delayed_command_delays_those_behind_it() {
    let (mut a, mut b) = job(Faults { delay: 1000, delay_polls: 1, window: 4, ..Faults::NONE });
    let mut payload = vec![1; 100];
    assert_eq!(a.post(&Command::send(1, 0, 0, &payload)), Ok(100));
    payload.fill(2);
    assert_eq!(a.held(), 1, "it is held, with a payload of its own");
    assert!(headers(&mut b).is_empty());
    a.poll();
    let Some(Event::Landed(landed)) = b.inner_mut().poll() else { panic!("it has landed") };
    let Landing::Ring(slice) = landed.data else { panic!("it needs a ring") };
    let mut into = [0; 100];
    b.inner_mut().read_out(slice, &mut into);
    assert_eq!(into, [1; 100]);
    assert_eq!(a.counts().delayed, 1);
}

#[test]
fn what_is_held_waits_for_the_next_call_of_its_sender() {
    let (mut a, mut b) = job(Faults { delay: 1000, delay_polls: 1, window: 4, ..Faults::NONE });
    assert_eq!(a.post(&message(0)), Ok(100));
    for _ in 0..1000 {
        assert!(b.poll().is_none(), "the receiver's calls are not the link's time");
        let now = b.now();
        b.park(Some(now));
    }
    assert_eq!(a.held(), 1);
    assert!(a.poll().is_none(), "the sender needs to call no more than once");
    assert_eq!((a.held(), headers(&mut b)), (0, vec![0]));
}

#[test]
fn a_link_is_bounded() {
    let (mut a, _b) =
        job(Faults { delay: 1000, delay_polls: 1 << 30, window: 4, seed: 5, ..Faults::NONE });
    for header in 0..4 {
        assert_eq!(a.post(&message(header)), Ok(100));
    }
    let full = PostError::Full { destination: 1, cause: FullCause::RingStalled };
    assert_eq!(a.post(&message(4)), Err(full));
    assert_eq!(a.held(), 4);
    a.discard();
    assert_eq!((a.held(), a.counts().abandoned), (0, 4));
}

#[test]
fn a_refusal_is_spontaneous_and_takes_nothing() {
    let (mut a, mut b) = job(Faults { refuse: 1000, ..Faults::NONE });
    let full = PostError::Full { destination: 1, cause: FullCause::RingRefused };
    assert_eq!(a.post(&message(0)), Err(full));
    assert_eq!(a.post_chain(&[message(0)]), Err(ChainError { done: 0, bytes: 0, error: full }));
    assert_eq!(a.counts().refused, 2);
    assert!(headers(&mut b).is_empty());
}

#[test]
fn a_lost_packet_is_resent_in_order() {
    let (mut a, mut b) =
        job(Faults { drop: 500, retransmit_polls: 3, window: 64, seed: 1, ..Faults::NONE });
    for header in 0..8 {
        assert_eq!(a.post(&message(header)), Ok(100));
        let arrived = headers(&mut b);
        assert!(arrived.is_sorted());
    }
    let mut polls = 0;
    while a.held() > 0 {
        a.poll();
        headers(&mut b);
        polls += 1;
    }
    let counts = a.counts();
    assert!(counts.dropped > 0 && polls >= 3, "{counts:?}");
    assert!(counts.retransmitted > 0 && counts.retransmitted <= counts.dropped);
}

#[test]
fn a_second_copy_is_suppressed() {
    let (mut a, mut b) = job(Faults { duplicate: 1000, window: 4, ..Faults::NONE });
    for header in 0..10 {
        assert_eq!(a.post(&message(header)), Ok(100));
        assert_eq!(headers(&mut b), [header]);
    }
    let FaultCounts { duplicated, suppressed, .. } = a.counts();
    assert_eq!((duplicated, suppressed), (10, 10));
}

#[test]
fn partial_posts_underneath_are_continued() {
    let (mut a, mut b) = job(Faults { delay: 1000, delay_polls: 1, window: 64, ..Faults::NONE });
    let payload: Vec<u8> = (0..5000u32).map(|n| n as u8).collect();
    let (mut taken, mut received) = (0, Vec::new());
    while received.len() < payload.len() {
        let whole = Command::send(1, 0, 0, &payload);
        if let (true, Ok(more)) = (taken < payload.len(), a.post(&after(&whole, &payload, taken))) {
            assert!(more <= 256, "a packet at a time");
            taken += more;
        }
        a.poll();
        while let Some(event) = b.poll() {
            let Event::Landed(landed) = event else { continue };
            assert_eq!(landed.offset as usize, received.len());
            let Landing::Ring(slice) = landed.data else { panic!("a part needs a ring") };
            let mut bytes = vec![0; slice.len()];
            b.read_out(slice, &mut bytes);
            received.extend(bytes);
        }
    }
    assert_eq!(received, payload);
}

#[test]
fn credited_commands_are_never_held() {
    let (mut a, mut b) =
        job(Faults { delay: 500, delay_polls: 3, window: 4, seed: 3, ..Faults::NONE });
    let mut header = 0;
    for _ in 0..200 {
        let command = Command { credited: true, ..message(header) };
        match a.post(&command) {
            Ok(_) => header += 1,
            Err(error) => assert!(matches!(error, PostError::Full { .. })),
        }
        assert_eq!(a.held(), 0);
    }
    assert_eq!(headers(&mut b), [0, 1, 2], "as many as there is credit for");
}

#[test]
fn the_next_post_returns_a_held_error() {
    let (mut a, mut b) = job(Faults { delay: 1000, delay_polls: 1, window: 4, ..Faults::NONE });
    let bad = Command { route: Route::Ring(9), ..message(0) };
    assert_eq!(a.post(&bad), Ok(100));
    a.poll();
    let error = PostError::NoSuchRing { destination: 1, ring: 9 };
    assert_eq!(a.post(&message(1)), Err(error), "late, and the second was not tried");
    assert_eq!(a.post(&message(2)), Ok(100));
    assert!(a.flush());
    assert_eq!(headers(&mut b), [2]);
    assert_eq!(a.counts().abandoned, 1);
}

#[test]
fn held_packets_are_sent_before_the_port_leaves() {
    let (mut a, mut b) =
        job(Faults { delay: 1000, delay_polls: 1 << 30, window: 9, seed: 8, ..Faults::NONE });
    for header in 0..5 {
        a.post(&message(header)).unwrap();
    }
    drop(a);
    assert_eq!(headers(&mut b), [0, 1, 2, 3, 4]);
    assert_eq!(b.peer(0), PeerState::Left);
}

#[test]
fn the_same_seed_makes_the_same_faults() {
    let run = |seed| {
        let (mut a, mut b) = job(Faults::all(seed));
        let mut log = Vec::new();
        for header in 0..500 {
            log.push((a.post(&message(header)).is_ok(), headers(&mut b)));
        }
        let counts = a.counts();
        // No rank receives the packets still held, and the port would try for long to send them.
        a.discard();
        (log, counts)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn each_command_to_a_dead_rank_fails_once() {
    for duplicate in [0, 1000] {
        let faults = Faults { delay: 1000, delay_polls: 1 << 30, duplicate, ..Faults::NONE };
        let (mut a, _b) = job(Faults { window: 9, seed: 5, ..faults });
        for header in 0..3 {
            let told = Command { reply: Reply::Failure, ..message(header) };
            assert_eq!(a.post(&told), Ok(100));
        }
        a.host().fail(1, DeathCause::Signal(9));
        let _ = a.post(&message(3));
        let mut failed = Vec::new();
        while let Some(event) = a.poll() {
            if let Event::Completed(completed) = event {
                assert!(matches!(completed.outcome, Err(PostError::PeerFailed(_))));
                failed.push(completed.header);
            }
        }
        assert_eq!((failed, a.held()), (vec![0, 1, 2], 0));
    }
}

#[test]
fn a_leaving_port_tries_until_there_is_room() {
    let mut ports = open(&LoopbackConfig::for_ranks(2)).unwrap().into_iter();
    let mut refusing = |refuse| {
        let faults = Faults { refuse, seed: 1, ..Faults::NONE };
        FaultInjector::new(ports.next().unwrap(), faults)
    };
    let (a, mut b) = (refusing(900), refusing(0));
    let faults = Faults { delay: 1000, delay_polls: 1 << 30, window: 9, ..Faults::NONE };
    let mut a = FaultInjector::new(a, faults);
    (0..5).for_each(|header| assert_eq!(a.post(&message(header)), Ok(100)));
    drop(a);
    assert_eq!(headers(&mut b), [0, 1, 2, 3, 4]);
}
