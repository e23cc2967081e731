//! The end of the ring and the end of the record: wrap, exact fit, inline sizes (IP-22).

use hikyaku_nic::fabric::{Command, Granularity, INLINE_BYTES, Landing, Port, PostError, RingPort};

use crate::job::pattern;
use crate::{Harness, Job, Setup};

/// A setup whose ring has eight cache lines, so that every offset is soon reached.
fn small() -> Setup {
    let mut setup = Setup::private(2);
    setup.layout.ring_bytes = 512;
    setup
}

/// Advances an empty ring's pointers by `lines` cache lines.
fn advance<H: Harness>(job: &mut Job<'_, H>, lines: usize) {
    for _ in 0..lines {
        job.send(1, &Command::send(0, 0, 0, &[0; 64]));
        assert!(job.take(0).is_some());
    }
}

/// IP-22: whatever the offset in the ring, every length is stored and read byte for byte.
pub fn ip_22_a_payload_wraps_at_every_offset<H: Harness>(harness: &H) {
    for offset in 0..8 {
        let mut job = Job::open(harness, &small());
        advance(&mut job, offset);
        for length in (49..=512).step_by(13).chain([512]) {
            let payload = pattern(length as u64, length);
            for granularity in [Granularity::PerPacket, Granularity::PerMessage] {
                job.send(1, &Command { granularity, ..Command::send(0, 0, 0, &payload) });
                let record = job.take(0).expect("it has landed");
                assert_eq!(record.bytes, payload, "offset {offset}, length {length}");
                assert!(job.take(0).is_none());
            }
        }
    }
}

/// IP-22: a message of exactly the ring's size, or several that add up to it, fill it from every
/// offset; one more byte does not fit; after release it counts as empty and not as full.
pub fn ip_22_an_exact_fit_fills_the_ring_from_every_offset<H: Harness>(harness: &H) {
    for offset in 0..8 {
        for first in [64, 128, 448, 512] {
            let mut job = Job::open(harness, &small());
            advance(&mut job, offset);
            for round in 0..3 {
                let parts = if first == 512 { vec![512] } else { vec![first, 512 - first] };
                for length in &parts {
                    let payload = pattern(*length as u64, *length);
                    job.send(1, &Command::send(0, 0, 0, &payload));
                }
                let ring = job.port(0).route_of(1).expect("the source has a ring");
                let state = job.port(0).ring(ring).expect("the ring exists");
                assert_eq!(state.tail - state.head, 512, "full, at offset {offset}");
                let command = Command::send(0, 0, 0, &[0; 49]);
                let held = job.offer(1, &command);
                let full = matches!(held, Err(PostError::Full { .. }));
                for length in parts {
                    let bytes = job.take(0).expect("it has landed").bytes;
                    assert_eq!(bytes, pattern(length as u64, length), "round {round}");
                }
                // A fabric that holds commands back may have accepted it; then it comes now.
                job.settle(1);
                let one_more = job.take(0).map(|record| record.bytes);
                assert_eq!(one_more, (!full).then(|| vec![0; 49]));
                advance(&mut job, if full { 1 } else { 0 });
            }
        }
    }
}

/// Sizes 0 to 48 are stored in the record, 49 in the ring; all arrive unchanged.
pub fn cj_13_inline_sizes_and_their_neighbours_are_byte_exact<H: Harness>(harness: &H) {
    let mut job = Job::open(harness, &Setup::private(2));
    for length in 0..=INLINE_BYTES + 20 {
        // Not zero at the end, where missing bytes would not show.
        let payload: Vec<u8> = pattern(length as u64, length).iter().map(|b| b | 1).collect();
        for granularity in [Granularity::PerPacket, Granularity::PerMessage] {
            let header = u64::MAX - length as u64;
            job.send(1, &Command { granularity, ..Command::send(0, 255, header, &payload) });
            let landed = job.landed(0).expect("it has landed");
            assert_eq!(landed.len(), length);
            assert_eq!(landed.is_empty(), length == 0);
            let inline = matches!(landed.data, Landing::Inline(_));
            assert_eq!(inline, length <= INLINE_BYTES, "{length} bytes");
            let record = job.read_out(0, landed);
            assert_eq!((record.total, record.offset), (length as u64, 0));
            assert_eq!((record.source, record.protocol, record.header), (1, 255, header));
            assert_eq!(record.bytes, payload, "{length} bytes");
        }
    }
}
