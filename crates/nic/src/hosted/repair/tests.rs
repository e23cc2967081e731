//! Senders that die between any two steps of a post. Rank 1 dies; the tests execute its steps one
//! by one, in rank 0's segment.

use super::*;
use crate::fabric::{Command, DeathCause, FullCause, Landing, Port, PostError, RingPort};
use crate::loopback::{LoopbackConfig, LoopbackPort, open};
use crate::ring::{Claim, LongStores, Poster};
use crate::segment::{Segment, SegmentLayout};
use crate::wire::StatusKind;

const RING: u32 = 512;

/// Four ranks, with shared rings of eight cache lines or private ones.
fn job(rings: u32) -> Vec<LoopbackPort> {
    let layout = SegmentLayout {
        status_rings: rings,
        status_slots: 16,
        rings,
        first_rings: rings,
        ring_bytes: RING,
        packet_bytes: 128,
        ..SegmentLayout::for_ranks(4)
    };
    open(&LoopbackConfig { layout, ..LoopbackConfig::for_ranks(4) }).unwrap()
}

/// Rank 0's segment, as rank `from` sees it.
fn target(ports: &[LoopbackPort], from: usize) -> Segment<'_> {
    ports[from].host().segment(0)
}

/// `rank` begins a post to rank 0: its epoch there becomes odd.
fn begin(ports: &[LoopbackPort], rank: Rank) {
    target(ports, rank as usize).sender(rank).epoch.fetch_add(1, Ordering::Relaxed);
}

/// `rank` ends its post.
fn end(ports: &[LoopbackPort], rank: Rank) {
    target(ports, rank as usize).sender(rank).epoch.fetch_add(1, Ordering::Release);
}

fn reserve(ports: &[LoopbackPort], rank: Rank) -> u64 {
    let segment = target(ports, rank as usize);
    segment.status(rank % segment.layout().status_rings).reserve(&mut Poster::default())
}

fn claim(ports: &[LoopbackPort], rank: Rank, length: u32) -> Claim {
    let segment = target(ports, rank as usize);
    let ring = segment.ring(rank % segment.layout().rings);
    ring.claim(length, length, &mut ring.head()).unwrap()
}

fn kill(ports: &[LoopbackPort], rank: Rank) {
    assert!(ports[0].host().fail(rank, DeathCause::Signal(9)));
}

fn send(ports: &mut [LoopbackPort], from: usize, header: u64, length: usize) {
    let payload = vec![from as u8; length];
    assert_eq!(ports[from].post(&Command::send(0, 0, header, &payload)), Ok(length));
}

/// The results of all polls of rank 0: headers of messages, and dead ranks as negative numbers.
fn told(ports: &mut [LoopbackPort]) -> Vec<i64> {
    let mut told = Vec::new();
    while let Some(event) = ports[0].poll() {
        match event {
            Event::Landed(landed) => {
                told.push(landed.header as i64);
                if let Landing::Ring(slice) = landed.data {
                    ports[0].release(slice);
                }
            }
            Event::PeerFailed(failure) => told.push(-i64::from(failure.rank)),
            Event::RingFull(_) | Event::StatusFull => {}
            other => panic!("{other:?}"),
        }
    }
    told
}

#[test]
fn a_record_reserved_and_never_published_is_skipped() {
    for rings in [1, 4] {
        let mut ports = job(rings);
        send(&mut ports, 1, 10, 8);
        begin(&ports, 1);
        reserve(&ports, 1);
        send(&mut ports, 2, 20, 8);
        if rings == 1 {
            assert_eq!(told(&mut ports), [10], "the hole stops what is behind it");
        }
        kill(&ports, 1);
        let rest = if rings == 1 { vec![20, -1] } else { vec![10, 20, -1] };
        assert_eq!(told(&mut ports), rest);
        send(&mut ports, 3, 30, 8);
        assert_eq!(told(&mut ports), [30]);
    }
}

#[test]
fn bytes_claimed_and_never_announced_are_given_back() {
    for rings in [1, 4] {
        let mut ports = job(rings);
        begin(&ports, 1);
        claim(&ports, 1, 128);
        kill(&ports, 1);
        assert_eq!(told(&mut ports), [-1]);
        let ring = 1 % rings;
        assert_eq!(ports[0].ring(ring).unwrap().head, 128, "the gap is free again");
    }
    let mut ports = job(1);
    begin(&ports, 1);
    claim(&ports, 1, 256);
    for header in 0..2 {
        send(&mut ports, 2, header, 128);
    }
    let stalled = PostError::Full { destination: 0, cause: FullCause::RingStalled };
    let command = Command::send(0, 0, 2, &[2; 100]);
    assert_eq!(ports[2].post(&command), Err(stalled));
    assert_eq!(told(&mut ports), [0, 1]);
    assert_eq!(ports[2].post(&command), Err(stalled), "the gap before them is not released");
    kill(&ports, 1);
    assert_eq!(told(&mut ports), [-1]);
    assert_eq!(ports[2].post(&command), Ok(100));
    assert_eq!(told(&mut ports), [2]);
    assert_eq!(ports[0].ring(0).unwrap().head, 640);
}

#[test]
fn a_claim_reserved_but_not_published_is_repaired() {
    let mut ports = job(1);
    begin(&ports, 1);
    let claim = claim(&ports, 1, 100);
    let ring = target(&ports, 1).ring(0);
    ring.store(claim, &[1; 100], LongStores::Cached);
    ring.commit(claim);
    reserve(&ports, 1);
    send(&mut ports, 2, 20, 100);
    kill(&ports, 1);
    assert_eq!(told(&mut ports), [20, -1]);
    let state = ports[0].ring(0).unwrap();
    assert_eq!((state.head, state.tail), (256, 256));
}

#[test]
fn a_record_published_before_death_is_delivered() {
    let mut ports = job(1);
    begin(&ports, 1);
    let index = reserve(&ports, 1);
    target(&ports, 1).status(0).publish(index, StatusKind::Inline, 0, 0, 1, &[10]);
    kill(&ports, 1);
    assert_eq!(told(&mut ports), [10, -1]);
}

#[test]
fn a_live_post_delays_the_repair() {
    let mut ports = job(1);
    begin(&ports, 1);
    reserve(&ports, 1);
    begin(&ports, 2);
    let claimed = claim(&ports, 2, 64);
    let index = reserve(&ports, 2);
    kill(&ports, 1);
    assert!(told(&mut ports).is_empty(), "which of the two holes is the dead one's?");
    let segment = target(&ports, 2);
    segment.ring(0).store(claimed, &[2; 64], LongStores::Cached);
    segment.ring(0).commit(claimed);
    segment.status(0).publish(
        index,
        StatusKind::Ring,
        0,
        0,
        2,
        &[20, 0, 64, 0, claimed.position, 64],
    );
    end(&ports, 2);
    assert_eq!(told(&mut ports), [20, -1]);
    assert_eq!(ports[0].ring(0).unwrap().head, 64);
}

#[test]
fn a_death_during_a_repair_is_repaired_too() {
    let mut ports = job(1);
    begin(&ports, 1);
    begin(&ports, 2);
    kill(&ports, 1);
    assert!(told(&mut ports).is_empty());
    // These lie behind the records that the first repair covers, and are never published either.
    claim(&ports, 2, 64);
    reserve(&ports, 2);
    send(&mut ports, 3, 30, 100);
    kill(&ports, 2);
    let mut told = told(&mut ports);
    assert_eq!(told.remove(0), 30, "what the living send is not lost behind the holes");
    told.sort_unstable();
    assert_eq!(told, [-2, -1]);
    assert_eq!(ports[0].ring(0).unwrap().head, 192);
}

#[test]
fn all_other_ranks_may_die_inside_a_post() {
    let mut ports = job(1);
    for rank in 1..4 {
        begin(&ports, rank);
        claim(&ports, rank, 128);
        reserve(&ports, rank);
    }
    (1..4).for_each(|rank| kill(&ports, rank));
    let mut told = told(&mut ports);
    told.sort_unstable();
    assert_eq!(told, [-3, -2, -1]);
    assert_eq!(ports[0].ring(0).unwrap().head, 384);
    send(&mut ports, 0, 1, 128);
    assert_eq!(super::tests::told(&mut ports), [1]);
}

#[test]
fn invalid_record_counts_delay_no_death() {
    let mut ports = job(1);
    // More reservations than slots, as from a sender that ignores the limit.
    (0..40).for_each(|_| _ = reserve(&ports, 1));
    kill(&ports, 1);
    assert_eq!(told(&mut ports), [-1]);
}
