//! Ends: of a rank, in order or not, and of a wait.

use hikyaku_nic::fabric::{
    Command, CopyPort, Event, MemoryPort, PeerFailure, PeerState, Port, PostError, Rank, Wake,
};
use hikyaku_nic::time::Time;

use crate::job::pattern;
use crate::{Harness, Job, Setup};

/// Polls within which an event must arrive.
const PATIENCE: usize = 1000;

/// The next event of a rank within that limit.
fn soon<H: Harness>(job: &mut Job<'_, H>, rank: Rank) -> Option<Event> {
    (0..PATIENCE).find_map(|_| job.next(rank))
}

/// The next event of a rank, which must be a death.
fn death<H: Harness>(job: &mut Job<'_, H>, rank: Rank) -> PeerFailure {
    match soon(job, rank) {
        Some(Event::PeerFailed(failure)) => failure,
        other => panic!("rank {rank} expected to hear of a death and got {other:?}"),
    }
}

/// Messages that a rank had landed before it died are delivered first; then its death is reported,
/// once.
pub fn what_the_dead_delivered_comes_before_its_death<H: Harness>(harness: &H) {
    for setup in [Setup::private(3), Setup::shared(3, 1)] {
        let mut job = Job::open(harness, &setup);
        for number in 0..10 {
            let payload = pattern(number, 20 * number as usize);
            job.send(1, &Command::send(0, 0, number, &payload));
        }
        job.kill(1);
        for number in 0..10 {
            let record = job.take(0).expect("it had landed");
            assert_eq!((record.source, record.header), (1, number));
            assert_eq!(record.bytes, pattern(number, 20 * number as usize));
        }
        for rank in [0, 2] {
            assert_eq!(death(&mut job, rank).rank, 1);
            assert!(soon(&mut job, rank).is_none(), "told once");
        }
    }
}

/// Posts to the dead rank and reads from it fail and name it; other traffic continues.
pub fn posts_to_the_dead_fail_and_other_traffic_goes_on<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::shared(4, 2));
    let buffer = job.port(3).allocate(64).expect("the region has room");
    let address = job.port(3).expose(&buffer).expect("region memory can be named");
    drop(buffer);
    job.kill(3);
    for rank in 0..3 {
        let failure = death(&mut job, rank);
        assert_eq!(failure.rank, 3);
        assert_eq!(job.port(rank).peer(3), PeerState::Failed(failure));
        let failed = PostError::PeerFailed(failure);
        for payload in [&[0; 8][..], &[0; 100]] {
            assert_eq!(job.refused(rank, &Command::send(3, 0, 0, payload)), failed);
            assert_eq!(job.refused(rank, &Command::put(address, payload)), failed);
        }
        assert_eq!(job.port(rank).read(address, &mut [0; 8]), Err(failed));
    }
    for round in 0..100 {
        for (from, to) in [(0, 1), (1, 2), (2, 0), (2, 1), (1, 0), (0, 2)] {
            let payload = pattern(round, (round * 5) as usize);
            job.send(from, &Command::send(to, 0, round, &payload));
            let record = job.take(to).expect("the living talk to each other");
            assert_eq!((record.source, record.bytes), (from, payload));
        }
    }
}

/// A rank that drops its port leaves in order: its messages arrive and no death is reported.
pub fn leaving_in_order_is_not_dying<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(3));
    assert_eq!(job.port(0).peer(1), PeerState::Running);
    for number in 0..7 {
        job.send(1, &Command::send(0, 0, number, &pattern(number, 300)));
    }
    job.ports[1] = None;
    assert_eq!(job.port(0).peer(1), PeerState::Left);
    let headers: Vec<_> = job.take_all(0).iter().map(|record| record.header).collect();
    assert_eq!(headers, [0, 1, 2, 3, 4, 5, 6]);
    for rank in [0, 2] {
        assert!(soon(&mut job, rank).is_none());
    }
    job.send(2, &Command::send(0, 0, 8, &[]));
    assert_eq!(job.take(0).map(|record| record.source), Some(2));
}

/// A wait with a deadline ends at the deadline; with an event to handle it ends earlier.
pub fn park_returns_at_its_deadline<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(2));
    let port = job.port(0);
    let deadline = port.now() + Time::from_nanoseconds(2_000_000);
    let ended = (0..10_000_000).any(|_| {
        assert!(port.poll().is_none());
        port.park(Some(deadline)) == Wake::Deadline
    });
    assert!(ended && port.now() >= deadline);
    assert_eq!(port.park(Some(deadline)), Wake::Deadline, "it has passed");

    job.send(1, &Command::send(0, 0, 0, &[]));
    let far = job.port(0).now() + Time::from_nanoseconds(3_600_000_000_000);
    job.port(0).park(Some(far));
    assert!(job.port(0).now() < far);
    assert!(job.take(0).is_some());
}
