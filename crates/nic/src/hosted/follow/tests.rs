//! Sources that move to spare status rings and back, in one process: order, credit, room, and peers
//! that break the rules.

use super::*;
use crate::fabric::{Event, Port};
use crate::loopback::{LoopbackConfig, LoopbackPort, open};
use crate::segment::SegmentLayout;

/// Four ranks whose sources start in one status ring.
fn job() -> Vec<LoopbackPort> {
    let layout = SegmentLayout { status_rings: 1, ..SegmentLayout::for_ranks(4) };
    open(&LoopbackConfig { layout, ..LoopbackConfig::for_ranks(4) }).unwrap()
}

fn send(ports: &mut [LoopbackPort], source: Rank, header: u64) {
    assert!(ports[source as usize].post_short(0, 0, header, &[]));
}

/// The messages that rank 0 receives: source and header of each. Grants their sources as many more.
fn arrivals(ports: &mut [LoopbackPort]) -> Vec<(Rank, u64)> {
    let mut all = Vec::new();
    while let Some(event) = ports[0].poll() {
        let Event::Landed(landed) = event else { panic!("{event:?}") };
        all.push((landed.source, landed.header));
    }
    for (source, _) in &all {
        let granted = ports[0].peers[*source as usize].granted;
        ports[0].grant(*source, granted + 1);
    }
    all
}

fn is_private(ports: &[LoopbackPort], source: Rank) -> bool {
    ports[source as usize].peers[0].status.is_private()
}

#[test]
fn ip_13_a_source_with_a_ring_of_its_own_goes_the_fast_path() {
    let mut ports = job();
    assert!(ports[0].give_status(1));
    assert_eq!(ports[1].peers[0].allowed, 0);
    (0..3).for_each(|number| send(&mut ports, 1, number));
    let peer = &ports[1].peers[0];
    assert!(is_private(&ports, 1) && peer.allowed > peer.poster.posted);
    assert_eq!(peer.sent(), 3, "what was the last record in the shared ring takes no credit");
    assert_eq!(arrivals(&mut ports), [(1, 0), (1, 1), (1, 2)]);
    assert_eq!(ports[0].lanes.len(), 2);
}

/// Another source has reserved a record of the shared ring and not published it yet.
#[test]
fn ip_13_what_stands_behind_a_hole_is_not_overtaken() {
    let mut ports = job();
    let mut poster = Poster::default();
    let shared = ports[2].host().segment(0).status(0);
    let hole = shared.reserve(&mut poster);
    shared.publish(hole + 1, StatusKind::Void, 0, 0, 2, &[]);
    let shared = ports[1].peers[0].status;
    send(&mut ports, 1, 0);
    assert!(ports[0].give_status(1));
    send(&mut ports, 1, 1);
    assert!(is_private(&ports, 1));
    assert_eq!(arrivals(&mut ports), []);
    shared.publish(hole, StatusKind::Inline, 0, 0, 2, &[5, 0]);
    assert_eq!(arrivals(&mut ports), [(2, 5), (1, 0), (1, 1)]);
}

#[test]
fn ip_13_a_ring_of_a_quiet_source_goes_to_another() {
    let mut ports = job();
    for round in 0..100 {
        for (source, other) in [(1, 2), (2, 1)] {
            assert!(ports[0].give_status(source) && !ports[0].shares_status(source));
            (0..round % 31).for_each(|number| send(&mut ports, source, number));
            assert_eq!(arrivals(&mut ports).len() as u64, round % 31);
            // The source posts nothing: it reads the table at its next wait, as it is asked to.
            assert_eq!(ports[0].take_status(source), round % 31 > 0);
            assert!(ports[source as usize].poll().is_none());
            assert_eq!(arrivals(&mut ports), []);
            if round % 31 == 0 {
                assert!(!ports[0].take_status(other), "it has none");
                assert!(ports[0].take_status(source), "it has been seen there by now");
                assert!(ports[source as usize].poll().is_none());
                assert_eq!(arrivals(&mut ports), []);
            }
            assert!(!is_private(&ports, source) && ports[0].shares_status(source));
            assert_eq!(ports[0].status_owners().count(), 0);
            send(&mut ports, source, 7);
            assert_eq!(arrivals(&mut ports), [(source, 7)]);
        }
    }
}

#[test]
fn ip_13_each_spare_status_ring_has_one_owner() {
    let mut ports = job();
    let layout = *ports[0].own.layout();
    assert_eq!(layout.spare_status(), 4);
    for source in 1..4 {
        assert!(ports[0].shares_status(source) && ports[0].give_status(source));
    }
    assert!(!ports[0].shares_status(0), "what it sends itself stays in the shared ring");
    for round in 0..40 {
        (1..4).for_each(|source| send(&mut ports, source, round));
        let expected: Vec<_> = (1..4).map(|source| (source, round)).collect();
        assert_eq!(arrivals(&mut ports), expected);
    }
    // The last but one of the polled rings leaves its place to the last.
    assert!(ports[0].take_status(2));
    (1..4).for_each(|source| send(&mut ports, source, 0));
    assert_eq!(arrivals(&mut ports), [(1, 0), (2, 0), (3, 0)]);
    let mut into = [0; 8];
    send(&mut ports, 3, 9);
    let short = ports[0].receive_whole(3, 0, 9, &mut into);
    assert_eq!(short, crate::fabric::Short::Taken(0));
}

#[test]
fn a_source_that_moves_unasked_is_malformed() {
    let mut ports = job();
    let shared = ports[1].peers[0].status;
    let index = shared.reserve(&mut Poster::default());
    shared.publish(index, StatusKind::Moved, 0, 0, 1, &[0, 1]);
    assert!(matches!(ports[0].poll(), Some(Event::Malformed { source: 1 })));
    // The table names a ring that does not exist.
    for entry in [1_000, u64::MAX] {
        ports[0].own.source(1).set_status(entry);
        send(&mut ports, 1, 4);
        assert_eq!(arrivals(&mut ports), [(1, 4)]);
    }
}
