//! Communicators with a topology: the places of ranks, their neighbours, and mistakes that are
//! reported to every rank.

use hikyaku::topology::{Edge, Link, Reorder, Topology, TopologyError, dims_create};
use hikyaku::{Error, Op, World};

/// Balanced grids of every number of dimensions; surplus ranks are left out.
pub(super) fn grids(world: &World, _: u64) -> Result<(), Error> {
    for dimensions in 0..4 {
        let mut dims = vec![0; dimensions];
        let ranks = if dimensions == 0 { 1 } else { world.size() };
        dims_create(ranks, &mut dims)?;
        let periods: Vec<bool> = (0..dimensions).map(|dimension| dimension % 2 == 0).collect();
        let grid = world.cartesian(&dims, &periods, Reorder::Keep)?;
        assert_eq!(grid.is_some(), world.rank() < ranks);
        let Some(grid) = grid else { continue };
        assert_eq!((grid.rank(), grid.size()), (world.rank(), ranks));
        let place: Vec<i64> = grid.coordinates().into_iter().map(i64::from).collect();
        assert_eq!(grid.shape().rank_at(&place)?, grid.rank());
        for dimension in 0..dimensions {
            let shift = grid.shift(dimension, 1)?;
            assert_eq!(grid.sources()[2 * dimension].rank, shift.source);
            assert_eq!(grid.destinations()[2 * dimension + 1].rank, shift.destination);
        }
    }
    let smaller = world.cartesian(&[world.size() / 2], &[true], Reorder::Keep);
    if world.size() == 1 {
        assert_eq!(smaller.unwrap_err(), TopologyError::EmptyDimension { dimension: 0 }.into());
    } else {
        assert_eq!(smaller?.is_some(), world.rank() < world.size() / 2);
    }
    Ok(())
}

/// Slices of a grid that only some ranks belong to; contexts stay in step with those of all ranks.
pub(super) fn slices(world: &World, _: u64) -> Result<(), Error> {
    let mut dims = [0, 0];
    dims_create(world.size().max(2) - 1, &mut dims)?;
    let grid = world.cartesian(&dims, &[true, true], Reorder::Keep)?;
    if let Some(grid) = &grid {
        let (row, column) = (grid.sub(&[false, true])?, grid.sub(&[true, false])?);
        assert_eq!((row.size(), column.size()), (dims[1], dims[0]));
        let place = grid.coordinates();
        assert_eq!((row.coordinates(), column.coordinates()), (vec![place[1]], vec![place[0]]));
        // Both at once: messages of one must not reach the other.
        let (to_row, to_column) = ([[1, grid.rank()]], [[2, grid.rank()]]);
        let (mut in_row, mut in_column) = ([[0u32; 2]; 2], [[0u32; 2]; 2]);
        world.scope(|scope| {
            scope.ineighbour_allgather(&row, &to_row, &mut in_row)?;
            scope.ineighbour_allgather(&column, &to_column, &mut in_column)?;
            Ok(())
        })?;
        for (slot, link) in row.sources().iter().enumerate() {
            let neighbour = grid.sources()[2 + slot].rank.unwrap();
            assert_eq!(row.world_rank(link.rank.unwrap()), grid.world_rank(neighbour));
            assert_eq!(in_row[slot], [1, neighbour]);
            assert_eq!(in_column[slot], [2, grid.sources()[slot].rank.unwrap()]);
        }
        let point = grid.sub(&[false, false])?;
        assert_eq!((point.size(), point.sources().len()), (1, 0));
        point.neighbour_allgather::<u8>(&[1], &mut [])?;
        let all = grid.sub(&[true]).unwrap_err();
        assert!(all.to_string().starts_with("1 choices were given"), "{all}");
        if grid.size() > 1 {
            let mixed = grid.sub(&[true, grid.rank() == 0]).unwrap_err();
            let what = "dimensions to keep";
            assert_eq!(mixed, TopologyError::Disagreement { rank: 1, what }.into());
        }
    }
    // Ranks outside the grid have made fewer communicators; duplicates match all the same.
    let duplicate = world.duplicate();
    let mut sum = [1];
    duplicate.allreduce(&mut sum, Op::Sum)?;
    assert_eq!(sum, [world.size()]);
    Ok(())
}

/// A star that every rank knows, and the same defined by its centre.
pub(super) fn graphs(world: &World, _: u64) -> Result<(), Error> {
    let size = world.size();
    let index: Vec<u32> = (0..size).map(|rank| size - 1 + rank).collect();
    let edges: Vec<u32> = (1..size).chain((1..size).map(|_| 0)).collect();
    let star = world.graph(&index, &edges, Reorder::Keep)?.unwrap();
    assert_eq!(star.shape().size(), size);
    let told: Vec<(u32, u32)> = (1..size).flat_map(|rank| [(0, rank), (rank, 0)]).collect();
    let told = if world.rank() == size / 2 { &told[..] } else { &[] };
    let same = world.dist_graph(told, Reorder::Keep)?;
    assert_eq!((star.sources(), star.destinations()), (same.sources(), same.destinations()));
    let mut heard = vec![0; star.sources().len()];
    star.neighbour_allgather(&[world.rank()], &mut heard)?;
    let ranks: Vec<u32> = star.sources().iter().filter_map(|link| link.rank).collect();
    assert_eq!(heard, ranks);
    Ok(())
}

/// Ranks are numbered so that partners share a node; every message still arrives.
pub(super) fn placed(world: &World, _: u64) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    // Partners far apart in the world: 0 with size/2 and so on, tied a hundred times as strongly as
    // neighbours in the ring.
    let half = size / 2;
    let partner = if rank < half { Some(rank + half) } else { rank.checked_sub(half) };
    let partner = partner.filter(|partner| *partner < 2 * half && rank < 2 * half);
    let mut out = vec![Edge { rank: (rank + 1) % size, weight: 1 }];
    let mut into = vec![Edge { rank: (rank + size - 1) % size, weight: 1 }];
    let strong = partner.map(|rank| Edge { rank, weight: 100 });
    out.extend(strong);
    into.extend(strong);
    let crossing = |reorder| -> Result<u64, Error> {
        let graph = world.dist_graph_adjacent(&into, &out, reorder)?;
        assert_eq!(graph.world_rank(graph.rank()), rank);
        let mut heard = vec![u32::MAX; graph.sources().len()];
        graph.neighbour_allgather(&[graph.rank()], &mut heard)?;
        let ranks: Vec<u32> = graph.sources().iter().filter_map(|link| link.rank).collect();
        assert_eq!(heard, ranks);
        let away =
            |link: &&Link| world.node_of(graph.world_rank(link.rank.unwrap())) != world.node();
        let weight = graph.destinations().iter().filter(away).map(|link| u64::from(link.weight));
        let mut sum = [weight.sum::<u64>()];
        world.allreduce(&mut sum, Op::Sum)?;
        Ok(sum[0])
    };
    let (kept, placed) = (crossing(Reorder::Keep)?, crossing(Reorder::Allow)?);
    assert!(placed <= kept, "{placed} after, {kept} before");
    if size.is_multiple_of(2) && (0..size).all(|rank| world.node_of(rank) == rank / 2) {
        assert!(placed <= u64::from(size), "every pair fits a node: {placed}");
    }
    Ok(())
}

/// Every mistake is the same error on every rank, and the next call works.
pub(super) fn mistakes(world: &World, _: u64) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    let grid = |dims: &[u32]| world.cartesian(dims, &[true], Reorder::Keep).unwrap_err();
    assert_eq!(
        grid(&[size + 1]),
        TopologyError::TooManyRanks { needed: u64::from(size) + 1, size }.into()
    );
    if size > 1 {
        let what = "dimensions, periods and reordering";
        let expected = TopologyError::Disagreement { rank: size - 1, what };
        assert_eq!(grid(&[1 + u32::from(rank == size - 1)]), expected.into());
    }
    // The last rank expects two edges from rank 0.
    let last = size - 1;
    let sources = if rank == last { vec![0, 0] } else { vec![] };
    let destinations = if rank == 0 { vec![last] } else { vec![] };
    let edges = world.dist_graph_adjacent(&sources, &destinations, Reorder::Keep).unwrap_err();
    assert_eq!(
        edges.to_string(),
        format!(
            "edges from rank 0 to rank {last}: rank 0 lists 1 as destinations, rank {last} lists 2 \
             as sources"
        )
    );
    let named = if rank == last { vec![(0, size)] } else { vec![] };
    let named = world.dist_graph(&named, Reorder::Allow).unwrap_err();
    assert_eq!(named, TopologyError::NoSuchRank { by: last, rank: size, size }.into());
    let one_way = world.graph(&[1, 1], &[1], Reorder::Keep).unwrap_err();
    let expected = TopologyError::OneWay { from: 0, to: 1, there: 1, back: 0 };
    assert_eq!(one_way, expected.into());
    graphs(world, 0)
}
