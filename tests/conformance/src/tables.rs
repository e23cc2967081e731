//! The tables: heads, routes and their visibility to the receiver (IP-12 to IP-14, IP-25).

use hikyaku_nic::fabric::{
    Command, CopyPort, Event, FullPolicy, Landing, MemoryPort, Notification, Port, PostError, Rank,
    RingId, RingPort, RingState, Route, TableError,
};

use crate::job::pattern;
use crate::{Harness, Job, Setup};

/// Sends one message that needs a ring. Returns the ring in which it landed.
fn ring_used<H: Harness>(job: &mut Job<'_, H>, from: Rank, route: Route) -> RingId {
    let payload = pattern(u64::from(from), 200);
    job.send(from, &Command { route, ..Command::send(0, 0, 0, &payload) });
    let landed = job.landed(0).expect("the message has landed");
    let Landing::Ring(slice) = &landed.data else { panic!("it needs a ring") };
    let ring = slice.ring();
    let record = job.read_out(0, landed);
    assert_eq!((record.source, record.bytes), (from, payload));
    ring
}

fn ring_state<H: Harness>(job: &mut Job<'_, H>, ring: RingId) -> RingState {
    job.port(0).ring(ring).expect("the ring exists")
}

fn head<H: Harness>(job: &mut Job<'_, H>, ring: RingId) -> u64 {
    ring_state(job, ring).head
}

/// IP-12: the host advances the head by releasing bytes that it has read.
pub fn ip_12_release_advances_the_head<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(2));
    let payload = pattern(12, 256);
    for round in 0..40 {
        job.send(1, &Command::send(0, 0, round, &payload));
        let landed = job.landed(0).expect("the message has landed");
        let Landing::Ring(slice) = landed.data else { panic!("it needs a ring") };
        let ring = slice.ring();
        let mut pieces = [0; 256];
        assert_eq!(job.port(0).copy_out(&slice, 0, &mut pieces[..100]), 100);
        assert_eq!(job.port(0).copy_out(&slice, 100, &mut pieces[100..]), 156);
        assert_eq!(job.port(0).copy_out(&slice, 250, &mut [0; 64]), 6, "it ends with the slice");
        assert_eq!(job.port(0).copy_out(&slice, 256, &mut [0; 8]), 0);
        assert_eq!(job.port(0).copy_out(&slice, 9999, &mut [0; 8]), 0);
        assert_eq!(pieces[..], payload);
        assert_eq!(head(&mut job, ring), round * 256, "copying frees nothing");
        job.port(0).release(slice);
        assert_eq!(head(&mut job, ring), (round + 1) * 256);
    }
}

/// IP-12: the interface advances the head when a read-out request is complete.
pub fn ip_12_read_out_advances_the_head<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(2));
    let payload = pattern(13, 300);
    for round in 0..40 {
        job.send(1, &Command::send(0, 0, round, &payload));
        let landed = job.landed(0).expect("the message has landed");
        let Landing::Ring(slice) = landed.data else { panic!("it needs a ring") };
        let ring = slice.ring();
        let mut into = [0; 300];
        // A short buffer takes a part; the rest is released unread.
        let wanted = if round % 2 == 0 { 300 } else { 10 };
        assert_eq!(job.port(0).read_out(slice, &mut into[..wanted]), wanted);
        assert_eq!(into[..wanted], payload[..wanted]);
        assert_eq!(head(&mut job, ring), (round + 1) * 320);
    }
}

/// IP-12: a ring is a queue, so its head waits for the oldest bytes that are still held.
pub fn ip_12_the_head_waits_for_the_oldest<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::shared(3, 1));
    let mut slices = Vec::new();
    for number in 0..6u64 {
        let payload = pattern(number, 128);
        job.send(1 + (number % 2) as Rank, &Command::send(0, 0, number, &payload));
        let landed = job.landed(0).expect("the message has landed");
        let Landing::Ring(slice) = landed.data else { panic!("it needs a ring") };
        slices.push((number, slice));
    }
    for number in [5, 3, 1, 4, 2] {
        let at = slices.iter().position(|(n, _)| *n == number).expect("it is still held");
        let (_, slice) = slices.remove(at);
        job.port(0).release(slice);
        assert_eq!(head(&mut job, 0), 0, "the oldest is still held");
    }
    let (_, oldest) = slices.remove(0);
    job.port(0).release(oldest);
    assert_eq!(head(&mut job, 0), 6 * 128);
}

/// IP-13: the host can read its tables.
pub fn ip_13_the_tables_can_be_read<H: Harness>(harness: &H) {
    for (setup, shared) in [(Setup::private(3), false), (Setup::shared(3, 2), true)] {
        let mut job = Job::open(harness, &setup);
        let port = job.port(0);
        let rings = setup.layout.rings;
        for source in 0..3 {
            assert_eq!(port.route_of(source), Some(source % rings));
        }
        assert_eq!(port.route_of(3), None, "no such source");
        for ring in 0..rings {
            let state = port.ring(ring).expect("the ring exists");
            assert_eq!((state.size, state.head, state.tail), (4096, 0, 0));
            assert_eq!((state.shared, state.policy), (shared, setup.layout.ring_policy));
        }
        assert_eq!(port.ring(rings), None, "no such ring");
    }
}

/// IP-13: a changed entry redirects later messages; landed messages stay in place.
pub fn ip_13_a_changed_entry_re_routes_later_messages<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::shared(5, 3));
    assert_eq!(ring_used(&mut job, 1, Route::Table), 1);
    let before = pattern(1, 200);
    job.send(1, &Command::send(0, 0, 0, &before));
    assert_eq!(job.port(0).route(1, Some(2)), Ok(()));
    assert_eq!(job.port(0).route_of(1), Some(2));
    let landed = job.landed(0).expect("the message has landed");
    let Landing::Ring(slice) = &landed.data else { panic!("it needs a ring") };
    assert_eq!(slice.ring(), 1, "it landed before the change");
    assert_eq!(job.read_out(0, landed).bytes, before);
    assert_eq!(ring_used(&mut job, 1, Route::Table), 2);
    assert_eq!(ring_used(&mut job, 4, Route::Table), 1, "another source is not affected");
    for (round, ring) in [0, 1, 2, 0, 1].into_iter().enumerate() {
        assert_eq!(job.port(0).route(1, Some(ring)), Ok(()), "round {round}");
        assert_eq!(ring_used(&mut job, 1, Route::Table), ring);
    }
}

/// IP-13: entries for sources or rings that do not exist, or for another's private ring, are
/// refused and change nothing.
pub fn ip_13_impossible_entries_are_refused<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(3));
    let port = job.port(0);
    let missing = TableError::NoSuchSource { source_rank: 3, size: 3 };
    assert_eq!(port.route(3, Some(0)), Err(missing));
    assert_eq!(port.route(1, Some(3)), Err(TableError::NoSuchRing { ring: 3, rings: 3 }));
    assert_eq!(port.route(1, Some(2)), Err(TableError::Private { ring: 2, owner: 2 }));
    for source in 0..3 {
        assert_eq!(port.route_of(source), Some(source), "nothing has changed");
    }
    assert_eq!(port.route(2, None), Ok(()));
    assert_eq!(port.route(1, Some(2)), Ok(()), "its owner has given it up");
    assert_eq!(ring_used(&mut job, 1, Route::Table), 2);
}

/// IP-13: a private ring passes from one source to the next, with the first one's messages in it,
/// and everything arrives in the order of arrival.
pub fn ip_13_a_private_ring_goes_from_source_to_source<H: Harness>(harness: &H) {
    let mut setup = Setup::shared(4, 2);
    setup.layout.first_rings = 1;
    let mut job = Job::open(harness, &setup);
    for round in 0..20 {
        let source = 1 + round % 3;
        assert_eq!(job.port(0).route(source, Some(1)), Ok(()), "round {round}");
        for number in 0..2 {
            let payload = pattern(u64::from(round) << 8 | number, 200);
            job.send(source, &Command::send(0, 0, number, &payload));
        }
        let other = 1 + (round + 1) % 3;
        let taken = TableError::Private { ring: 1, owner: source };
        assert_eq!(job.port(0).route(other, Some(1)), Err(taken));
        assert_eq!(job.port(0).route(source, Some(0)), Ok(()));
        // Messages of the previous round: two are always left in the ring.
        for number in (0..2).filter(|_| round > 0) {
            let landed = job.landed(0).expect("the message has landed");
            let Landing::Ring(slice) = &landed.data else { panic!("it needs a ring") };
            assert_eq!(slice.ring(), 1);
            let record = job.read_out(0, landed);
            assert_eq!(record.source, 1 + (round - 1) % 3);
            assert_eq!(record.bytes, pattern(u64::from(round - 1) << 8 | number, 200));
        }
        assert_eq!(ring_state(&mut job, 1).tail - head(&mut job, 1), 2 * 256);
    }
    (0..2).for_each(|_| {
        let landed = job.landed(0).expect("the message has landed");
        job.read_out(0, landed);
    });
}

/// IP-11: the policy of a full ring is set for each ring, at any time.
pub fn ip_11_each_ring_has_its_own_rule<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(3));
    let missing = TableError::NoSuchRing { ring: 3, rings: 3 };
    assert_eq!(job.port(0).set_full(3, FullPolicy::Refuse), Err(missing));
    assert_eq!(job.port(0).set_full(2, FullPolicy::Refuse), Ok(()));
    let policies = [1, 2].map(|ring| ring_state(&mut job, ring).policy);
    assert_eq!(policies, [FullPolicy::Stall, FullPolicy::Refuse]);
    assert!([1, 2].iter().all(|ring| !ring_state(&mut job, *ring).shared), "as before");
}

/// IP-14: without the table, the sender names the ring itself, with the same result.
pub fn ip_14_the_sender_may_name_the_ring<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::shared(4, 3));
    for ring in [0, 1, 2, 1, 0] {
        assert_eq!(ring_used(&mut job, 1, Route::Ring(ring)), ring);
        assert_eq!(ring_used(&mut job, 2, Route::Ring(ring)), ring);
    }
    assert_eq!(ring_used(&mut job, 1, Route::Table), 1, "the table is as it was");
}

/// IP-25: a source without a ring gets an error, and is served by put.
pub fn ip_25_an_unmapped_source_is_served_by_put<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(3));
    let buffer = job.port(0).allocate(200).expect("the region has room");
    let target = job.port(0).expose(&buffer).expect("region memory can be named");
    assert_eq!(job.port(0).route(1, None), Ok(()));
    assert_eq!(job.port(0).route_of(1), None);
    let payload = pattern(25, 200);
    let error = job.refused(1, &Command::send(0, 0, 0, &payload));
    assert_eq!(error, PostError::Unmapped { destination: 0, source_rank: 1 });
    assert!(job.take(0).is_none());
    let put = Command { notification: Notification::Status, ..Command::put(target, &payload) };
    job.send(1, &put);
    assert!(job.is_told(0, |event| matches!(event, Event::Notified(n) if n.source == 1)));
    assert_eq!(buffer[..], payload);
    assert_eq!(ring_used(&mut job, 2, Route::Table), 2, "another source is not affected");
    assert_eq!(job.port(0).route(1, Some(1)), Ok(()));
    assert_eq!(ring_used(&mut job, 1, Route::Table), 1);
}
