//! Persistent exchanges and topologies.

use hikyaku::topology::{Edge, Reorder};
use hikyaku::{Error, World};

use crate::Random;
use crate::edges::{self, Either, KINDS};
use crate::pattern::{check, key, message};

/// A persistent exchange, made and freed here.
pub(super) fn exchange(
    world: &World,
    edges: &[(u32, u32, usize)],
    rounds: u32,
    kind: usize,
    seed: u64,
) -> Result<(), Error> {
    let (scheme, staged) = KINDS[kind % KINDS.len()];
    let mut own = edges::own_edges(world, edges);
    own.neighbours.scheme = scheme;
    let mut exchange = Either::new(world, &own.neighbours, staged)?;
    let mut random = Random::new(seed ^ u64::from(world.rank()));
    edges::rounds(&mut exchange, &own, rounds, &mut random)?;
    exchange.free()
}

/// The exchanges of neighbours in a grid: block s arrives as block s ^ 1.
pub(super) fn grid(
    world: &World,
    dims: &[u32],
    periods: &[bool],
    length: usize,
    seed: u64,
) -> Result<(), Error> {
    let Some(grid) = world.cartesian(dims, periods, Reorder::Allow)? else { return Ok(()) };
    let edges = grid.destinations().len();
    let name = |rank: u32, slot: usize| key(seed, &[u64::from(rank), slot as u64]);
    let out: Vec<u8> =
        (0..edges).flat_map(|slot| message(name(grid.rank(), slot), length)).collect();
    let (mut into, mut later) = (vec![0xee; edges * length], vec![0xee; edges * length]);
    world.scope(|scope| {
        let pending = scope.ineighbour_alltoall(&grid, &out, &mut later)?;
        grid.neighbour_alltoall(&out, &mut into)?;
        pending.wait()
    })?;
    for (slot, link) in grid.sources().iter().enumerate() {
        let range = slot * length..(slot + 1) * length;
        for found in [&into[range.clone()], &later[range.clone()]] {
            match link.rank {
                Some(rank) => check(name(rank, slot ^ 1), found),
                None => assert!(found.iter().all(|byte| *byte == 0xee), "beyond the border"),
            }
        }
    }
    Ok(())
}

/// The exchanges of neighbours along any edges.
pub(super) fn graph(
    world: &World,
    edges: &[(u32, u32)],
    length: usize,
    seed: u64,
) -> Result<(), Error> {
    let own: Vec<(u32, Edge)> = edges
        .iter()
        .filter(|(from, _)| *from == world.rank())
        .map(|(from, to)| (*from, Edge { rank: *to, weight: 1 }))
        .collect();
    let graph = world.dist_graph(&own, Reorder::Allow)?;
    let name = |rank: u32| key(seed, &[u64::from(rank)]);
    let mut all = vec![0; length * graph.sources().len()];
    graph.neighbour_allgather(&message(name(graph.rank()), length), &mut all)?;
    for (at, link) in graph.sources().iter().enumerate() {
        check(name(link.rank.expect("there is no border")), &all[at * length..][..length]);
    }
    Ok(())
}
