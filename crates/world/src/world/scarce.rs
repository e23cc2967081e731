//! Exchanges of ranks of which one has no memory left in its region.

#![allow(clippy::unwrap_used)]

use hikyaku_nic::fabric::QueuePort;
use hikyaku_shm::JobConfig;

use super::tests::on_job;
use super::*;
use crate::SharedBuffer;
use crate::persistent::{Neighbours, PersistentError, Scheme};
use crate::topology::Reorder;

/// Runs a program on every rank of a job whose regions are small.
fn on_ranks(ranks: u32, per_node: u32, program: impl Fn(World) + Sync) {
    let config = JobConfig { region_bytes: 1 << 20, ..JobConfig::new(ranks, per_node) };
    on_job(&config, program);
}

/// All that is left of a rank's region.
fn all_memory(world: &World) -> Vec<SharedBuffer<u8>> {
    std::iter::from_fn(|| world.alloc(1).ok()).collect()
}

/// Rank 0 stands for its node and has no memory for what it is to pass on: no rank gets an
/// exchange, each is told why, and what they had taken for it is given back.
#[test]
fn tf_19_a_representative_without_memory_is_an_error_of_every_rank() {
    on_ranks(4, 2, |world| {
        let own = world.rank();
        let others: Vec<u32> = (0..4).filter(|rank| rank / 2 != own / 2).collect();
        let mut edges = Neighbours::even(&others, &others, 100);
        edges.scheme = Some(Scheme::Combined);
        let free = || world.engine().borrow().port().free_queues();
        let before = free();
        let buffer = || world.alloc::<u32>(200).unwrap();
        let (out, into) = (buffer(), buffer());
        let held = if own == 0 { all_memory(&world) } else { Vec::new() };
        assert_eq!(held.is_empty(), own != 0);
        let staged = world.staged_exchange_init::<u32>(&edges).map(drop);
        let shared = world.exchange_init(&edges, out, into).map(drop);
        for refused in [staged.unwrap_err(), shared.unwrap_err()] {
            match own {
                0 => assert!(matches!(refused, Error::Memory(_)), "{refused}"),
                _ => assert_eq!(refused, PersistentError::Elsewhere { rank: 0 }.into()),
            }
        }
        assert_eq!(free(), before);
        drop(held);
        let mut exchange = world.exchange_init(&edges, buffer(), buffer()).unwrap();
        for round in 0..10 {
            exchange.outgoing_mut().unwrap().fill(100 * round + own);
            exchange.start().unwrap();
            exchange.wait().unwrap();
            let mut came = exchange.incoming().unwrap().chunks(100).zip(&others);
            assert!(came.all(|(block, rank)| *block == [100 * round + rank; 100]));
        }
        exchange.free().unwrap();
        world.barrier().unwrap();
    });
}

/// Neighbours of whom one has no memory for letters exchange by messages, all of them.
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
