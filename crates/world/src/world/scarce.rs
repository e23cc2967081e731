//! Exchanges of ranks, one of which has no memory left in its region.

#![allow(clippy::unwrap_used)]

use hikyaku_coll::SessionChoices;
use hikyaku_nic::fabric::{QueueMode, QueuePort};
use hikyaku_shm::JobConfig;

use super::tests::on_job;
use super::*;
use crate::SharedBuffer;
use crate::persistent::{Exchange, Neighbour, Neighbours, PersistentError, Scheme};
use crate::topology::Reorder;

/// Runs a program on every rank of a job whose regions are small.
fn on_ranks(ranks: u32, per_node: u32, program: impl Fn(World) + Sync) {
    let config = JobConfig { region_bytes: 1 << 20, ..JobConfig::new(ranks, per_node) };
    on_job(&config, program);
}

/// All memory that is left in a rank's region.
fn all_memory(world: &World) -> Vec<SharedBuffer<u8>> {
    std::iter::from_fn(|| world.alloc(1).ok()).collect()
}

/// Four ranks on two nodes, each with edges to and from both ranks of the other node.
fn across(world: &World) -> (Neighbours, Vec<u32>) {
    let others: Vec<u32> = (0..4).filter(|rank| rank / 2 != world.rank() / 2).collect();
    let mut edges = Neighbours::even(&others, &others, 100);
    edges.scheme = Some(Scheme::Combined);
    (edges, others)
}

/// Ten rounds of an exchange. Checks how many messages of this rank each round uses.
fn ten_rounds(world: &World, exchange: &mut Exchange<u32>, others: &[u32], messages: u64) {
    let own = world.rank();
    for round in 0..10 {
        let before = world.statistics().messages_sent;
        exchange.outgoing_mut().unwrap().fill(100 * round + own);
        exchange.start().unwrap();
        exchange.wait().unwrap();
        assert_eq!(world.statistics().messages_sent - before, messages);
        let mut came = exchange.incoming().unwrap().chunks(100).zip(others);
        assert!(came.all(|(block, rank)| *block == [100 * round + rank; 100]));
    }
}

/// Rank 0 represents its node and has no memory for data to pass on: every rank's rounds use
/// messages, and the memory that the others had allocated for it is freed.
#[test]
fn tf_19_where_one_rank_lacks_memory_all_go_by_messages() {
    on_ranks(4, 2, |world| {
        let own = world.rank();
        let (edges, others) = across(&world);
        let free = || world.engine().borrow().port().free_queues();
        let before = free();
        let buffer = || world.alloc::<u32>(200).unwrap();
        let (out, into) = (buffer(), buffer());
        let held = if own == 0 { all_memory(&world) } else { Vec::new() };
        assert_eq!(held.is_empty(), own != 0);
        let mut staged = world.staged_exchange_init::<u32>(&edges).unwrap();
        let mut shared = world.exchange_init(&edges, out, into).unwrap();
        assert!(staged.is_by_messages() && shared.is_by_messages());
        assert_eq!(free(), before);
        ten_rounds(&world, &mut shared, &others, 2);
        let mut came = [0; 200];
        staged.start_from(&[own; 200]).unwrap();
        while !staged.test_into(&mut came).unwrap() {}
        assert!(came.chunks(100).zip(&others).all(|(block, rank)| *block == [*rank; 100]));
        world.barrier().unwrap();
        drop((shared, held));
        // As soon as it has memory again, exchanges use queues.
        world.barrier().unwrap();
        let mut exchange = world.exchange_init(&edges, buffer(), buffer()).unwrap();
        assert!(!exchange.is_by_messages());
        ten_rounds(&world, &mut exchange, &others, 0);
        exchange.free().unwrap();
        world.barrier().unwrap();
    });
}

/// The same if the job has chosen the scheme and a rank has no queue left.
#[test]
fn tf_19_where_one_rank_lacks_queues_all_go_by_messages() {
    on_ranks(4, 2, |world| {
        let (mut edges, others) = across(&world);
        edges.scheme = None;
        for scheme in [Scheme::Fast, Scheme::Mrc, Scheme::Combined] {
            let chosen = SessionChoices { exchange: Some(scheme), ..SessionChoices::default() };
            let world = world.with_sessions(chosen);
            let mut held = Vec::new();
            if world.rank() == 2 {
                let mut engine = world.engine().borrow_mut();
                let take = || engine.port_mut().create_queue(QueueMode::Normal, 1).ok();
                held = std::iter::from_fn(take).collect();
            }
            let buffer = || world.alloc::<u32>(200).unwrap();
            let mut exchange = world.exchange_init(&edges, buffer(), buffer()).unwrap();
            assert!(exchange.is_by_messages(), "{scheme:?}");
            ten_rounds(&world, &mut exchange, &others, 2);
            exchange.free().unwrap();
            let mut engine = world.engine().borrow_mut();
            for queue in held {
                engine.port_mut().destroy_queue(queue.queue).unwrap();
            }
            drop(engine);
            world.barrier().unwrap();
        }
    });
}

/// In place and with alternating buffers, by messages; and an end that is freed meanwhile.
#[test]
fn exchanges_by_messages_are_as_others() {
    on_ranks(2, 2, |world| {
        let (own, other) = (world.rank(), 1 - world.rank());
        let edge = |elements| vec![Neighbour { rank: other, elements }];
        let (sources, destinations) = (edge(0..3), edge(3..6));
        let scheme = Some(Scheme::Messages);
        let edges = Neighbours { sources, destinations, scheme };
        let buffer = || world.alloc::<u32>(6).unwrap();
        let mut one = world.exchange_in_place_init(&edges, buffer()).unwrap();
        for round in 0..5 {
            one.outgoing_mut().unwrap()[3..].fill(10 * round + own);
            one.start().unwrap();
            assert_eq!(one.outgoing(), Err(PersistentError::Started.into()));
            one.wait().unwrap();
            let wanted = [10 * round + other, 10 * round + own];
            assert_eq!(one.incoming().unwrap(), wanted.map(|it| [it; 3]).as_flattened());
        }
        let edges = Neighbours { sources: edge(0..6), destinations: edge(0..6), scheme };
        let mut turning = world.exchange_turning_init(&edges, buffer(), buffer()).unwrap();
        turning.outgoing_mut().unwrap().fill(own);
        for round in 1..6 {
            turning.start().unwrap();
            turning.wait().unwrap();
            let whose = if round % 2 == 0 { own } else { other };
            assert_eq!(turning.incoming().unwrap(), [whose; 6]);
        }
        world.barrier().unwrap();
        if own == 0 {
            turning.free().unwrap();
        } else {
            turning.start().unwrap();
            assert_eq!(turning.wait(), Err(PersistentError::Freed { rank: 0 }.into()));
            assert_eq!(turning.start(), Err(PersistentError::Failed.into()));
        }
        world.barrier().unwrap();
    });
}

/// Messages that neighbours have sent to an end that was freed in a round do not stay there.
#[test]
fn exchanges_by_messages_freed_in_flight_leave_nothing() {
    on_ranks(2, 2, |world| {
        let (own, other) = (world.rank(), 1 - world.rank());
        // A message of one record, one of several parts, and an announced one.
        for (times, length) in [(300, 3), (20, 3000), (5, 50_000)] {
            for turn in 0..times {
                let edge = |elements| vec![Neighbour { rank: other, elements }];
                let (sources, destinations) = (edge(0..length), edge(length..2 * length));
                let scheme = Some(Scheme::Messages);
                let edges = Neighbours { sources, destinations, scheme };
                let buffer = world.alloc::<u32>(2 * length).unwrap();
                let mut exchange = world.exchange_in_place_init(&edges, buffer).unwrap();
                // Freed before the other one starts, or at any time.
                let culprit = turn / 2 % 2;
                if own == culprit && turn % 4 > 0 {
                    exchange.start().unwrap();
                }
                if turn % 8 < 4 && own == culprit {
                    drop(exchange);
                    world.barrier().unwrap();
                    continue;
                }
                if turn % 8 < 4 {
                    world.barrier().unwrap();
                }
                if own != culprit {
                    exchange.start().unwrap();
                    let freed = PersistentError::Freed { rank: culprit };
                    assert!([Ok(()), Err(freed.into())].contains(&exchange.wait()));
                }
                drop(exchange);
            }
            world.barrier().unwrap();
            // More messages than the credit allows at a time.
            for number in 0..2000_u64 {
                match own {
                    0 => world.send(&[number], other, 5).unwrap(),
                    _ => {
                        let mut came = [0];
                        world.recv(&mut came, other, 5).unwrap();
                        assert_eq!(came, [number]);
                    }
                }
            }
            world.barrier().unwrap();
            let statistics = world.engine().borrow().statistics();
            let lying = (statistics.unexpected_messages, statistics.unexpected_bytes);
            assert_eq!(lying, (0, 0), "of {times} of {length}");
        }
    });
}

/// If one of the neighbours has no memory for letters, all of them exchange by messages.
#[test]
fn neighbours_go_by_messages_where_one_has_no_memory_for_letters() {
    on_ranks(3, 3, |world| {
        let own = world.rank();
        let ring = world.cartesian(&[3], &[true], Reorder::Keep).unwrap().unwrap();
        let held = if own == 1 { all_memory(&world) } else { Vec::new() };
        for round in 0..12 {
            let mut came = [0; 2];
            ring.neighbour_alltoall(&[10 * round + own; 2], &mut came).unwrap();
            assert_eq!(came, [(own + 2) % 3, (own + 1) % 3].map(|rank| 10 * round + rank));
        }
        drop(held);
        world.barrier().unwrap();
    });
}
