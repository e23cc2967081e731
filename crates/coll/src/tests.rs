//! Collectives on every small number of ranks, every root, no bytes and many.

#![allow(clippy::unwrap_used)]

use std::cell::{Cell, RefCell};
use std::sync::Mutex;

use hikyaku_msg::{Endpoint, Engine, EngineConfig, MsgError, block_on, join};
use hikyaku_nic::fabric::{Activity, DeathCause};
use hikyaku_nic::loopback::{self, LoopbackPort};
use hikyaku_nic::segment::Layout;

use super::*;

const SIZES: [u32; 8] = [1, 2, 3, 4, 5, 7, 8, 19];

/// Small sizes, so that everything is full soon.
fn tight(ranks: u32) -> (Layout, EngineConfig) {
    let layout = Layout {
        status_slots: 64,
        rings: ranks,
        ring_bytes: 1024,
        packet_bytes: 128,
        credit: 4,
        ..Layout::for_ranks(ranks)
    };
    let config = EngineConfig {
        eager_limit: 600,
        direct_from: 256,
        credit_window: 4,
        poll_budget: 8,
        direct_rounds: 4,
    };
    (layout, config)
}

/// Runs `body` on every rank of a job, each in a thread of its own; answers what they answer.
fn run<R: Send>(
    (layout, config): (Layout, EngineConfig),
    body: impl Fn(Engine<LoopbackPort>) -> R + Sync,
) -> Vec<R> {
    let job = loopback::Config { layout, ..loopback::Config::for_ranks(layout.ranks) };
    let ports = loopback::open(&job).unwrap();
    let body = &body;
    std::thread::scope(|scope| {
        let start = |port| scope.spawn(move || body(Engine::new(port, config)));
        let threads: Vec<_> = ports.into_iter().map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// `length` bytes that differ by `seed`.
fn pattern(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + seed * 31 + at / 251) as u8).collect()
}

/// Runs `body` with an endpoint on every rank.
fn with_endpoints<R: Send>(
    ranks: u32,
    body: impl AsyncFn(Endpoint<'_, LoopbackPort>) -> R + Sync,
) -> Vec<R> {
    run(tight(ranks), |engine| {
        let engine = RefCell::new(engine);
        let sequence = Cell::new(u32::MAX - 1);
        let endpoint = Endpoint::new(&engine, 9, &sequence);
        let result = block_on(&engine, Activity::Collective, body(endpoint));
        engine.borrow_mut().flush();
        result
    })
}

#[test]
fn nobody_leaves_a_barrier_before_all_have_come() {
    for ranks in SIZES {
        let log = Mutex::new(Vec::new());
        with_endpoints(ranks, async |endpoint| {
            for round in 0..3 {
                log.lock().unwrap().push((round, false));
                barrier(&endpoint).await.unwrap();
                log.lock().unwrap().push((round, true));
            }
        });
        let log = log.into_inner().unwrap();
        for round in 0..3 {
            let first_out = log.iter().position(|entry| *entry == (round, true)).unwrap();
            let last_in = log.iter().rposition(|entry| *entry == (round, false)).unwrap();
            assert!(last_in < first_out, "{ranks} ranks, round {round}");
        }
    }
}

#[test]
fn a_broadcast_reaches_everybody_from_any_root() {
    for ranks in SIZES {
        let results = with_endpoints(ranks, async |endpoint| {
            let mut all = Vec::new();
            for root in 0..ranks {
                for length in [0, 8, 500, 2000] {
                    let mut data = vec![0; length];
                    if endpoint.rank() == root {
                        data = pattern(length, root as usize);
                    }
                    broadcast(&endpoint, &mut data, root).await.unwrap();
                    all.push(data);
                }
            }
            all
        });
        let expected: Vec<_> = (0..ranks as usize)
            .flat_map(|root| [0, 8, 500, 2000].map(|length| pattern(length, root)))
            .collect();
        assert!(results.iter().all(|result| *result == expected), "{ranks} ranks");
    }
}

fn add(left: &[u8], right: &mut [u8]) {
    for (l, r) in left.chunks_exact(8).zip(right.chunks_exact_mut(8)) {
        let sum = f64::from_le_bytes(l.try_into().unwrap())
            + f64::from_le_bytes((&*r).try_into().unwrap());
        r.copy_from_slice(&sum.to_le_bytes());
    }
}

/// Values whose sum depends on the order in its last bits.
fn values(rank: u32, count: usize) -> Vec<u8> {
    let value =
        |at: usize| 1.0 / (1.0 + f64::from(rank) * 3.7 + at as f64) * 1e10_f64.powi(at as i32 % 3);
    (0..count).flat_map(|at| value(at).to_le_bytes()).collect()
}

#[test]
fn an_allreduce_gives_every_rank_the_same_bits_every_time() {
    for ranks in SIZES {
        for count in [0, 1, 30, 200] {
            let once = || {
                with_endpoints(ranks, async |endpoint| {
                    let mut data = values(endpoint.rank(), count);
                    let mut scratch = vec![0; data.len()];
                    allreduce(&endpoint, &mut data, &mut scratch, add).await.unwrap();
                    data
                })
            };
            let (first, second) = (once(), once());
            assert!(first.iter().chain(&second).all(|bits| *bits == first[0]), "{ranks} ranks");
            for at in 0..count {
                let got = f64::from_le_bytes(first[0][at * 8..][..8].try_into().unwrap());
                let one = |rank| {
                    let bits = values(rank, count);
                    f64::from_le_bytes(bits[at * 8..][..8].try_into().unwrap())
                };
                let sum: f64 = (0..ranks).map(one).sum();
                assert!((got - sum).abs() <= sum.abs() * 1e-12);
            }
        }
    }
}

#[test]
fn an_allreduce_combines_in_the_order_of_the_ranks() {
    // x -> a x + b under composition is associative and not commutative.
    let compose = |left: &[u8], right: &mut [u8]| {
        let (a, b) = (left[0], left[1]);
        let (c, d) = (right[0], right[1]);
        right.copy_from_slice(&[a.wrapping_mul(c), a.wrapping_mul(d).wrapping_add(b)]);
    };
    let own = |rank: u32| [2 * rank as u8 + 3, rank as u8 + 1];
    for ranks in SIZES {
        let results = with_endpoints(ranks, async |endpoint| {
            let mut data = own(endpoint.rank());
            let mut scratch = [0; 2];
            allreduce(&endpoint, &mut data, &mut scratch, compose).await.unwrap();
            data
        });
        let mut expected = own(ranks - 1);
        for rank in (0..ranks - 1).rev() {
            compose(&own(rank), &mut expected);
        }
        assert!(results.iter().all(|result| *result == expected), "{ranks} ranks");
    }
}

#[test]
fn a_gather_puts_everybody_in_order_at_any_root() {
    for ranks in SIZES {
        with_endpoints(ranks, async |endpoint| {
            let rank = endpoint.rank() as usize;
            for root in 0..ranks {
                for length in [0, 4, 700] {
                    let at_root = endpoint.rank() == root;
                    let mut into = vec![0; if at_root { length * ranks as usize } else { 0 }];
                    gather(&endpoint, &pattern(length, rank), &mut into, root).await.unwrap();
                    let all = (0..ranks as usize).flat_map(|from| pattern(length, from));
                    assert!(!at_root || all.eq(into));
                }
            }
        });
    }
}

#[test]
fn blocks_of_a_gather_may_have_any_length() {
    let length = |rank: u32| [0, 3, 900, 48][rank as usize % 4];
    with_endpoints(5, async |endpoint| {
        let mine = pattern(length(endpoint.rank()), endpoint.rank() as usize);
        let mut blocks: Vec<_> = (0..5).map(|rank| vec![0; length(rank)]).collect();
        let views = blocks.iter_mut().map(Vec::as_mut_slice).collect();
        gather_blocks(&endpoint, &mine, views, 3).await.unwrap();
        if endpoint.rank() == 3 {
            let all = (0..5).map(|rank| pattern(length(rank), rank as usize));
            assert!(all.eq(blocks));
        }
    });
}

#[test]
fn collectives_started_together_do_not_take_each_others_messages() {
    let results = with_endpoints(4, async |endpoint| {
        let (mut first, mut second) = ([endpoint.rank() as u8; 8], [endpoint.rank() as u8 + 10; 8]);
        let one = broadcast(&endpoint, &mut first, 1);
        let two = broadcast(&endpoint, &mut second, 2);
        // Half of the ranks drive them in the other order.
        if endpoint.rank() % 2 == 0 {
            let (one, two) = join(one, two).await;
            one.and(two).unwrap();
        } else {
            let (two, one) = join(two, one).await;
            one.and(two).unwrap();
        }
        (first, second)
    });
    assert_eq!(results, [([1; 8], [12; 8]); 4]);
}

#[test]
fn wrong_lengths_and_roots_are_errors() {
    with_endpoints(1, async |endpoint| {
        let error = MsgError::NoSuchRank { rank: 1, size: 1 };
        assert_eq!(broadcast(&endpoint, &mut [], 1).await, Err(error));
        assert_eq!(gather(&endpoint, &[], &mut [], 1).await, Err(error));
        let short = MsgError::InvalidLength { given: 1, needed: 2 };
        assert_eq!(allreduce(&endpoint, &mut [0; 2], &mut [0; 1], add).await, Err(short));
        assert_eq!(gather(&endpoint, &[1, 2], &mut [0], 0).await, Err(short));
    });
    let results = with_endpoints(2, async |endpoint| {
        let mut data = vec![0; 2 - endpoint.rank() as usize];
        broadcast(&endpoint, &mut data, 0).await
    });
    assert!(matches!(results[1], Err(MsgError::Truncated { .. })));
}

#[test]
fn a_death_ends_a_barrier_at_every_rank() {
    let results = run(tight(4), |engine| {
        let engine = RefCell::new(engine);
        let sequence = Cell::new(0);
        let endpoint = Endpoint::new(&engine, 9, &sequence);
        if endpoint.rank() == 0 {
            // The root of the tree dies; all others wait for it.
            let this = engine.borrow();
            assert!(this.port().host().fail(0, DeathCause::Unknown));
            return Ok(());
        }
        block_on(&engine, Activity::Collective, barrier(&endpoint))
    });
    assert!(results[1..].iter().all(|r| matches!(r, Err(MsgError::PeerFailed(_)))), "{results:?}");
}
