//! Every operation on every small number of ranks, against what it is defined to give.

#![allow(clippy::unwrap_used)]

use std::sync::Barrier;
use std::thread;

use hikyaku_msg::{Engine, EngineConfig};
use hikyaku_nic::fabric::{DeathCause, Rank};
use hikyaku_nic::loopback::{Config, LoopbackPort, open};
use hikyaku_nic::segment::GroupLayout;
use proptest::prelude::*;

use super::*;

/// An area so small that everything has many parts.
const AREA: u32 = 4096;

/// Runs `body` on every rank of one node; answers what it answered.
fn on_ranks<R: Send>(
    ranks: u32,
    body: impl Fn(&mut Node<'_, LoopbackPort>, Rank) -> R + Sync,
) -> Vec<R> {
    on_nodes(ranks, ranks, body)
}

/// The same on nodes of `per_node` ranks.
fn on_nodes<R: Send>(
    ranks: u32,
    per_node: u32,
    body: impl Fn(&mut Node<'_, LoopbackPort>, Rank) -> R + Sync,
) -> Vec<R> {
    let mut config = Config { ranks_per_node: per_node, ..Config::for_ranks(ranks) };
    config.layout.groups = GroupLayout { channels: 1, area_bytes: AREA };
    let run = |port: LoopbackPort| {
        let rank = port.rank();
        let mut engine = Engine::new(port, EngineConfig::default());
        let nodes = Nodes::of(engine.port(), 0).unwrap();
        let mates: Vec<Rank> = nodes.mates.clone().collect();
        let group = engine.port_mut().join(0, &mates, 0).unwrap();
        let result = body(&mut Node::new(&mut engine, group, &nodes).unwrap(), rank);
        engine.flush();
        result
    };
    thread::scope(|scope| {
        let run = &run;
        let start = |port| scope.spawn(move || run(port));
        let ranks: Vec<_> = open(&config).unwrap().into_iter().map(start).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

/// What a rank has, or gives to the call of this number.
fn data(rank: Rank, call: usize, length: usize) -> Vec<u8> {
    let byte = |at: usize| (at * 31 + call * 7 + rank as usize * 101 + at / 256) as u8;
    (0..length).map(byte).collect()
}

/// x -> a x + b under composition, modulo 256: associative and not commutative.
fn compose(left: &[u8], right: &mut [u8]) {
    for (f, g) in left.chunks_exact(2).zip(right.chunks_exact_mut(2)) {
        let (a, b, c, d) = (f[0], f[1], g[0], g[1]);
        g.copy_from_slice(&[a.wrapping_mul(c), a.wrapping_mul(d).wrapping_add(b)]);
    }
}

/// A call of a program that all ranks run.
#[derive(Debug, Clone)]
enum Call {
    Barrier,
    Broadcast { root: u32, length: usize },
    Allreduce { elements: usize },
    Allgather { length: usize },
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    // Around the sizes at which something changes: line, sharing, a part, the area.
    let length = || {
        prop_oneof![
            0..20usize,
            100..130usize,
            500..530usize,
            1010..1040usize,
            2040..2060usize,
            4000..4200usize,
            0..20_000usize
        ]
    };
    let call = prop_oneof![
        Just(Call::Barrier),
        (any::<u32>(), length()).prop_map(|(root, length)| Call::Broadcast { root, length }),
        length().prop_map(|length| Call::Allreduce { elements: length / 2 }),
        length().prop_map(|length| Call::Allgather { length }),
    ];
    prop::collection::vec(call, 1..30)
}

/// Runs one call on one rank and checks what it gives.
fn run(node: &mut Node<'_, LoopbackPort>, rank: Rank, ranks: u32, number: usize, call: &Call) {
    match *call {
        Call::Barrier => node.barrier().unwrap(),
        Call::Broadcast { root, length } => {
            let root = root % ranks;
            let mut mine = data(rank, number, length);
            node.broadcast(&mut mine, root).unwrap();
            assert_eq!(mine, data(root, number, length));
        }
        Call::Allreduce { elements } => {
            let mut mine = data(rank, number, elements * 2);
            node.allreduce(&mut mine, 2, compose).unwrap();
            let of = |rank| data(rank, number, elements * 2);
            let mut expected = of(ranks - 1);
            (0..ranks - 1).rev().for_each(|rank| compose(&of(rank), &mut expected));
            assert_eq!(mine, expected, "in the order of the ranks");
        }
        Call::Allgather { length } => {
            let mut all = vec![0; length * ranks as usize];
            let Some(done) = node.allgather(&data(rank, number, length), &mut all) else {
                return assert!(node.nodes.is_some());
            };
            done.unwrap();
            let expected = (0..ranks).flat_map(|rank| data(rank, number, length));
            assert!(expected.eq(all));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn programs_of_all_operations_give_what_they_should(ranks in 2..8u32, calls in calls()) {
        on_ranks(ranks, |node, rank| {
            for (number, call) in calls.iter().enumerate() {
                run(node, rank, ranks, number, call);
            }
        });
    }

    #[test]
    fn and_over_several_nodes(ranks in 3..9u32, per_node in 2..5u32, calls in calls()) {
        on_nodes(ranks, per_node, |node, rank| {
            for (number, call) in calls.iter().enumerate() {
                run(node, rank, ranks, number, call);
            }
        });
    }
}

/// Sums whose last bits depend on their order.
#[test]
fn every_rank_has_the_same_bits() {
    for count in [1, 14, 15, 300, 3000] {
        let add = |left: &[u8], right: &mut [u8]| {
            for (x, y) in left.as_chunks::<8>().0.iter().zip(right.as_chunks_mut::<8>().0) {
                *y = (f64::from_le_bytes(*x) + f64::from_le_bytes(*y)).to_le_bytes();
            }
        };
        let value = |rank: u32, at: usize| (f64::from(rank) + 1.1).powi(at as i32 % 40 - 20);
        let mine = |rank| -> Vec<u8> {
            (0..count).flat_map(|at| f64::to_le_bytes(value(rank, at))).collect()
        };
        let results = on_ranks(5, |node, rank| {
            let mut data = mine(rank);
            node.allreduce(&mut data, 8, add).unwrap();
            data
        });
        let mut expected = mine(4);
        (0..4).rev().for_each(|rank| add(&mine(rank), &mut expected));
        assert!(results.iter().all(|bits| *bits == expected), "{count} numbers");
    }
}

/// Ranks that call different things, or with different lengths, learn whose call differs, and are
/// together again for the next call.
#[test]
fn who_differs_is_named_and_the_world_goes_on() {
    const RANKS: u32 = 3;
    let disagreement = |rank, theirs, given, own, ours, expected| {
        Err(Error::Disagreement { rank, theirs, given, own, ours, expected })
    };
    on_ranks(RANKS, |node, rank| {
        for (usual, other) in [(8, 16), (8, 20_000), (20_000, 8), (20_000, 19_000), (0, 1)] {
            let length = if rank == 2 { other } else { usual };
            let (usual, other) = (usual as u64, other as u64);
            // Rank 2 differs; it sees the others in some order.
            let expected = |name, first| match rank {
                2 => disagreement(first, name, usual, 2, name, other),
                own => disagreement(2, name, other, own, name, usual),
            };
            let sum = node.allreduce(&mut vec![1; length], 1, |_, _| {});
            assert_eq!(sum, expected("allreduce", 1));
            let mut all = vec![0; length * RANKS as usize];
            let gathered = node.allgather(&vec![1; length], &mut all);
            assert_eq!(gathered, Some(expected("allgather", 0)));
            let sent = node.broadcast(&mut vec![1; length], 0);
            match rank {
                2 => assert_eq!(sent, expected("broadcast", 0)),
                _ => assert_eq!(sent, Ok(())),
            }
            node.barrier().unwrap();
        }
        let mixed =
            if rank == 1 { node.barrier() } else { node.allreduce(&mut [1; 4], 1, |_, _| {}) };
        match rank {
            1 => assert_eq!(mixed, disagreement(0, "allreduce", 4, 1, "barrier", 0)),
            own => assert_eq!(mixed, disagreement(1, "barrier", 0, own, "allreduce", 4)),
        }
        run(node, rank, RANKS, 0, &Call::Allreduce { elements: 5000 });
    });
}

/// The same between nodes, where the leaders find out: each rank learns of somebody whose call
/// differs from that of somebody else, and nobody waits.
#[test]
fn nodes_that_differ_are_told_by_their_leaders() {
    const RANKS: u32 = 6;
    on_nodes(RANKS, 2, |node, rank| {
        let differs = |result: Result<(), Error>, name| match result {
            Err(Error::Disagreement { rank: other, theirs, own, ours, given, expected }) => {
                assert_eq!((theirs, ours), (name, name));
                assert!((other / 2 == 1) != (own / 2 == 1) && given != expected);
            }
            other => panic!("rank {rank}: node 1 differs: {other:?}"),
        };
        for (usual, other) in [(8, 16), (8, 20_000), (20_000, 8), (0, 1)] {
            let length = if rank / 2 == 1 { other } else { usual };
            differs(node.allreduce(&mut vec![1; length], 1, |_, _| {}), "allreduce");
            let sent = node.broadcast(&mut vec![1; length], 5);
            if rank / 2 == 1 {
                differs(sent, "broadcast");
            } else {
                assert_eq!(sent, Ok(()));
            }
            node.barrier().unwrap();
        }
        // One rank of a node differs: its node knows at once, the others by their leaders.
        let length = if rank == 3 { 5 } else { 4 };
        let sum = node.allreduce(&mut vec![1; length], 1, |_, _| {});
        assert!(matches!(sum, Err(Error::Disagreement { .. })), "rank {rank}: {sum:?}");
        run(node, rank, RANKS, 0, &Call::Allreduce { elements: 5000 });
    });
}

/// A death in one node is told in all of them, whoever it was.
#[test]
fn a_death_is_told_in_every_node() {
    const RANKS: u32 = 6;
    for victim in [0, 1, 2, 5] {
        let together = Barrier::new(RANKS as usize);
        on_nodes(RANKS, 2, |node, rank| {
            node.barrier().unwrap();
            together.wait();
            if rank == victim {
                node.engine.port().host().fail(victim, DeathCause::Signal(9));
                return;
            }
            let died = |result: Result<(), Error>| match result {
                Err(Error::Message(MsgError::PeerFailed(failure))) => {
                    assert_eq!(failure.rank, victim);
                }
                other => panic!("{victim} is dead: {other:?}"),
            };
            for length in [8, 3000, 20_000] {
                died(node.barrier());
                died(node.allreduce(&mut vec![0; length], 1, |_, _| {}));
                died(node.broadcast(&mut vec![0; length], victim));
            }
        });
    }
}

/// A rank that dies in the middle is an error that names it, at every rank, and no hang.
#[test]
fn a_death_ends_every_operation() {
    const RANKS: u32 = 3;
    let together = Barrier::new(RANKS as usize);
    on_ranks(RANKS, |node, rank| {
        node.barrier().unwrap();
        together.wait();
        if rank == 1 {
            node.engine.port().host().fail(1, DeathCause::Signal(9));
            return;
        }
        let died = |result: Result<(), Error>| match result {
            Err(Error::Message(MsgError::PeerFailed(failure))) => assert_eq!(failure.rank, 1),
            other => panic!("rank 1 is dead: {other:?}"),
        };
        for length in [8, 3000, 20_000] {
            died(node.barrier());
            died(node.broadcast(&mut vec![0; length], 1));
            died(node.allreduce(&mut vec![0; length], 1, |_, _| {}));
            died(node.allgather(&vec![0; length], &mut vec![0; length * 3]).unwrap());
            let sent = node.broadcast(&mut vec![rank as u8; length], 2);
            if rank == 2 { died(sent) } else { assert_eq!(sent, Ok(())) }
        }
    });
}
