//! Exchanges between neighbours: a different message on every edge, for any graph.

use std::ops::Range;

use hikyaku::persistent::PersistentError;
use hikyaku::topology::{Cartesian, Link, Neighbourhood, Reorder, dims_create};
use hikyaku::{Error, Layout, World};
use hikyaku_jobs::Random;
use hikyaku_jobs::pattern::{check, key, message};

use super::{is_first, partner};

/// In a grid block s arrives as block s ^ 1, even if both neighbours are one rank: dimensions of 1
/// and 2 ranks that wrap around. Beyond borders nothing is touched.
pub(super) fn opposite_blocks(world: &World, _: u64) -> Result<(), Error> {
    for periods in [[true, true, false], [false, true, true]] {
        let mut dims = [0; 3];
        dims_create(world.size(), &mut dims)?;
        let grid = world.cartesian(&dims, &periods, Reorder::Allow)?;
        let grid = grid.unwrap();
        let out: Vec<[u32; 2]> = (0..6).map(|slot| [grid.rank(), slot]).collect();
        let mut into = [[u32::MAX; 2]; 6];
        grid.neighbour_alltoall(&out, &mut into)?;
        let mut later = [[u32::MAX; 2]; 6];
        world.scope(|scope| scope.ineighbour_alltoall(&grid, &out, &mut later)?.wait())?;
        for (slot, link) in (0..).zip(grid.sources()) {
            let expected = link.rank.map_or([u32::MAX; 2], |rank| [rank, slot ^ 1]);
            assert_eq!((into[slot as usize], later[slot as usize]), (expected, expected));
        }
    }
    Ok(())
}

/// A random graph with parallel edges, self loops and isolated ranks.
fn random_graph(world: &World, seed: u64) -> Result<Neighbourhood, Error> {
    let mut random = Random::new(seed);
    let size = world.size() as usize;
    let mut rank = || random.below(size) as u32;
    let edges: Vec<(u32, u32)> = (0..3 * size).map(|_| (rank(), rank())).collect();
    let reorder = if seed.is_multiple_of(2) { Reorder::Allow } else { Reorder::Keep };
    // Each rank names some of them.
    let own = edges.into_iter().skip(world.rank() as usize).step_by(size);
    world.dist_graph(&own.collect::<Vec<_>>(), reorder)
}

/// The key and length of the message on an edge, which both ends know.
fn edge_message(seed: u64, from: u32, to: u32, link: &Link) -> (u64, usize) {
    let key = key(seed, &[u64::from(from), u64::from(to), u64::from(link.channel)]);
    let sizes = [0, 1, 40, 41, 1_000, 9_000, 70_000, 300_000];
    (key, Random::new(key).pick(&sizes))
}

/// Messages of all edges, one after the other, and their ranges.
fn messages(
    links: &[Link],
    name: impl Fn(&Link) -> (u64, usize),
    filled: bool,
) -> (Vec<u8>, Vec<Range<usize>>) {
    let (mut bytes, mut ranges) = (Vec::new(), Vec::new());
    for link in links {
        let (key, length) = name(link);
        let start = bytes.len();
        bytes.extend(if filled { message(key, length) } else { vec![0; length] });
        ranges.push(start..bytes.len());
    }
    (bytes, ranges)
}

fn outgoing(graph: &Neighbourhood, seed: u64) -> (Vec<u8>, Vec<Range<usize>>) {
    let rank = graph.rank();
    messages(graph.destinations(), |link| edge_message(seed, rank, link.rank.unwrap(), link), true)
}

fn incoming(graph: &Neighbourhood, seed: u64) -> (Vec<u8>, Vec<Range<usize>>) {
    let rank = graph.rank();
    messages(graph.sources(), |link| edge_message(seed, link.rank.unwrap(), rank, link), false)
}

fn check_all(graph: &Neighbourhood, seed: u64, into: &[u8], ranges: &[Range<usize>]) {
    for (link, range) in graph.sources().iter().zip(ranges) {
        let (key, length) = edge_message(seed, link.rank.unwrap(), graph.rank(), link);
        assert_eq!(range.len(), length);
        check(key, &into[range.clone()]);
    }
}

/// Different sizes on all edges, including zero; several calls one after the other.
pub(super) fn random_graphs(world: &World, seed: u64) -> Result<(), Error> {
    for graph_seed in seed..seed + 4 {
        let graph = random_graph(world, graph_seed)?;
        for call in 0..7 {
            let seed = key(graph_seed, &[call]);
            let (out, sends) = outgoing(&graph, seed);
            let (mut into, receives) = incoming(&graph, seed);
            graph.neighbour_alltoallv(&out, &sends, &mut into, &receives)?;
            check_all(&graph, seed, &into, &receives);
        }
        let mine = [graph.rank(); 100];
        let mut all = vec![u32::MAX; 100 * graph.sources().len()];
        graph.neighbour_allgather(&mine, &mut all)?;
        let backwards: Vec<Range<usize>> =
            (0..graph.sources().len()).rev().map(|edge| 100 * edge..100 * (edge + 1)).collect();
        let mut reversed = all.clone();
        graph.neighbour_allgatherv(&mine, &mut reversed, &backwards)?;
        for (edge, link) in graph.sources().iter().enumerate() {
            assert_eq!(all[100 * edge..][..100], [link.rank.unwrap(); 100]);
            assert_eq!(reversed[backwards[edge].clone()], [link.rank.unwrap(); 100]);
        }
    }
    Ok(())
}

/// A field with a frame: rows are contiguous, columns and corners are not.
const WIDTH: usize = 7;
const HEIGHT: usize = 5;

/// The layouts of a field's rim: the cells sent to north, south, west, east, and the places of the
/// cells received from there.
fn rim() -> (Vec<Layout>, Vec<Layout>) {
    let row = |y| Layout::contiguous(y * WIDTH + 1, WIDTH - 2);
    let column = |x| Layout::vector(WIDTH + x, HEIGHT - 2, 1, WIDTH);
    let out = vec![row(1), row(HEIGHT - 2), column(1), column(WIDTH - 2)];
    (out, vec![row(0), row(HEIGHT - 1), column(0), column(WIDTH - 1)])
}

fn value(rank: u32, x: usize, y: usize) -> u64 {
    u64::from(rank) << 32 | (y * WIDTH + x) as u64
}

/// A rank's field, its frame empty.
fn field(rank: u32) -> Vec<u64> {
    let inner = |x, y| (1..WIDTH - 1).contains(&x) && (1..HEIGHT - 1).contains(&y);
    let cell = |at| {
        let (x, y) = (at % WIDTH, at / WIDTH);
        if inner(x, y) { value(rank, x, y) } else { u64::MAX }
    };
    (0..WIDTH * HEIGHT).map(cell).collect()
}

/// The field after the exchange.
fn with_frame(grid: &Neighbourhood<Cartesian>) -> Vec<u64> {
    let mut expected = field(grid.rank());
    let mut put = |slot: usize, x: usize, y: usize, there: (usize, usize)| {
        if let Some(rank) = grid.sources()[slot].rank {
            expected[y * WIDTH + x] = value(rank, there.0, there.1);
        }
    };
    for x in 1..WIDTH - 1 {
        put(0, x, 0, (x, HEIGHT - 2));
        put(1, x, HEIGHT - 1, (x, 1));
    }
    for y in 1..HEIGHT - 1 {
        put(2, 0, y, (WIDTH - 2, y));
        put(3, WIDTH - 1, y, (1, y));
    }
    expected
}

fn square(world: &World, periodic: bool) -> Result<Neighbourhood<Cartesian>, Error> {
    let mut dims = [0, 0];
    dims_create(world.size(), &mut dims)?;
    Ok(world.cartesian(&dims, &[periodic, true], Reorder::Keep)?.unwrap())
}

/// The frame of a field sent from and received into the field itself, blocking and not.
pub(super) fn layouts(world: &World, _: u64) -> Result<(), Error> {
    let (sends, receives) = rim();
    for periodic in [true, false] {
        let grid = square(world, periodic)?;
        let (out, expected) = (field(grid.rank()), with_frame(&grid));
        for _ in 0..6 {
            let mut into = out.clone();
            grid.neighbour_alltoallw(&out, &sends, &mut into, &receives)?;
            assert_eq!(into, expected);
        }
        let mut into = out.clone();
        world.scope(|scope| {
            scope.ineighbour_alltoallw(&grid, &out, &sends, &mut into, &receives)?;
            Ok(())
        })?;
        assert_eq!(into, expected, "nobody waited: the end of the scope does");
        // All into one place: the last edge's value stays, however late the others arrive.
        let mut one = [u64::MAX];
        let places = vec![Layout::contiguous(0, 1); 4];
        let firsts = vec![Layout::contiguous(WIDTH + 1, 1); 4];
        grid.neighbour_alltoallw(&out, &firsts, &mut one, &places)?;
        let last = grid.sources().iter().rev().find_map(|link| link.rank).unwrap();
        assert_eq!(one, [value(last, 1, 1)]);
    }
    let grid = square(world, true)?;
    let few = grid.neighbour_alltoallw(&[0u8], &[], &mut [0u8], &[]).unwrap_err();
    assert_eq!(few, Error::WrongBlocks { what: "destinations", given: 0, edges: 4 });
    let far = vec![Layout::contiguous(1, 1); 4];
    let far = grid.neighbour_alltoallw(&[0u8], &far, &mut [0u8], &far).unwrap_err();
    assert_eq!(far.to_string(), "a layout reaches to element 2 of a buffer of 1 elements");
    let uneven = grid.neighbour_alltoall(&[0u8; 4], &mut [0u8; 5]).unwrap_err();
    assert_eq!(uneven, Error::UnevenBlocks { what: "sources", elements: 5, edges: 4 });
    Ok(())
}

/// Set up once, with layouts and ranges, on grids, on random graphs and with ranks left out.
pub(super) fn persistent(world: &World, seed: u64) -> Result<(), Error> {
    let (sends, receives) = rim();
    for periodic in [true, false] {
        let grid = square(world, periodic)?;
        let mut exchange = grid.neighbour_alltoallw_init::<u64>(&sends, &receives)?;
        for round in 0..5 {
            let later = |cells: Vec<u64>| -> Vec<u64> {
                cells.into_iter().map(|cell| cell.wrapping_add(round << 32)).collect()
            };
            let mut cells = later(field(grid.rank()));
            exchange.start_from(&cells)?;
            exchange.wait_into(&mut cells)?;
            assert_eq!(cells, later(with_frame(&grid)), "round {round}");
        }
    }
    for graph_seed in seed..seed + 3 {
        let graph = random_graph(world, graph_seed)?;
        let (out, sends) = outgoing(&graph, seed);
        let (mut into, receives) = incoming(&graph, seed);
        let mut exchange = graph.neighbour_alltoallv_init::<u8>(&sends, &receives)?;
        for _ in 0..3 {
            into.fill(0);
            exchange.start_from(&out)?;
            exchange.wait_into(&mut into)?;
            check_all(&graph, seed, &into, &receives);
        }
        exchange.free()?;
    }
    // The last rank has no part in the grid, and none in the exchange.
    let rest = world.size().saturating_sub(1).max(1);
    if let Some(ring) = world.cartesian(&[rest], &[true], Reorder::Keep)? {
        let blocks = [Layout::contiguous(0, 1), Layout::contiguous(1, 1)];
        let mut exchange = ring.neighbour_alltoallw_init::<u32>(&blocks, &blocks)?;
        let mut heard = [u32::MAX; 2];
        exchange.start_from(&[10 * ring.rank(), 10 * ring.rank() + 1])?;
        exchange.wait_into(&mut heard)?;
        let [from_left, from_right] =
            [0, 1].map(|side| ring.sources()[side].rank.unwrap() * 10 + 1 - side as u32);
        assert_eq!(heard, [from_left, from_right]);
    }
    let grid = square(world, true)?;
    let wrong = is_first(world);
    let blocks = vec![Layout::contiguous(0, 1); if wrong { 3 } else { 4 }];
    let error = grid.neighbour_alltoallw_init::<u32>(&blocks, &blocks).unwrap_err();
    let own = Error::WrongBlocks { what: "destinations", given: 3, edges: 4 };
    let others = PersistentError::Elsewhere { rank: 0 };
    assert_eq!(error, if wrong { own } else { others.into() });
    Ok(())
}

/// Started, with computing meanwhile, then waited for or tested.
pub(super) fn in_a_scope(world: &World, seed: u64) -> Result<(), Error> {
    for graph_seed in seed..seed + 3 {
        let graph = random_graph(world, graph_seed)?;
        let (out, sends) = outgoing(&graph, seed);
        let (mut into, receives) = incoming(&graph, seed);
        world.scope(|scope| {
            let mut request =
                scope.ineighbour_alltoallv(&graph, &out, &sends, &mut into, &receives)?;
            while let Err(again) = request.test()? {
                request = again;
            }
            Ok(())
        })?;
        check_all(&graph, seed, &into, &receives);
        let mine = [graph.rank()];
        let mut all = vec![u32::MAX; graph.sources().len()];
        let blocks: Vec<Range<usize>> = (0..all.len()).map(|edge| edge..edge + 1).collect();
        world.scope(|scope| {
            let request = scope.ineighbour_allgatherv(&graph, &mine, &mut all, &blocks)?;
            scope.wait_all()?;
            // The scope has waited for it: there is nothing left to wait for.
            assert_eq!(request.wait().unwrap_err(), hikyaku::MsgError::NoSuchRequest.into());
            Ok(())
        })?;
        assert!(graph.sources().iter().zip(&all).all(|(link, heard)| link.rank == Some(*heard)));
    }
    Ok(())
}

/// Several exchanges of one communicator in flight, waited for from last to first.
pub(super) fn many_at_once(world: &World, _: u64) -> Result<(), Error> {
    let grid = square(world, true)?;
    let out: Vec<Vec<u32>> = (0..20).map(|call| vec![1000 * call + grid.rank(); 4]).collect();
    let mut into = vec![vec![u32::MAX; 4]; 20];
    world.scope(|scope| {
        let mut requests = Vec::new();
        for (out, into) in out.iter().zip(&mut into) {
            requests.push(scope.ineighbour_alltoall(&grid, out, into)?);
        }
        requests.into_iter().rev().try_for_each(|request| request.wait())
    })?;
    for (call, heard) in (0..).zip(&into) {
        for (link, heard) in grid.sources().iter().zip(heard) {
            assert_eq!(*heard, 1000 * call + link.rank.unwrap());
        }
    }
    Ok(())
}

/// Neighbours that disagree about the size: the receiver reports both; correct blocks arrive all
/// the same, and the next call is not disturbed.
pub(super) fn unequal_sizes(world: &World, _: u64) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    // Two edges to the next rank.
    let ring = world.dist_graph_adjacent(&[previous; 2], &[next; 2], Reorder::Keep)?;
    for length in [2usize, 20_000, 200_000] {
        // Rank 0 sends one element less on its second edge, and one more the next time.
        for wrong in [length - 1, length + 1, length] {
            let second = if rank == 0 { wrong } else { length };
            let out = vec![rank; length + second];
            let sends = [0..length, length..length + second];
            let receives = [0..length, length..2 * length];
            let expected = Error::UnequalEdge {
                edge: 1,
                source_rank: 0,
                sent: 4 * wrong as u64,
                rank,
                expected: 4 * length as u64,
            };
            let told = previous == 0 && wrong != length;
            let expected = if told { Err(expected) } else { Ok(()) };
            let mut into = vec![u32::MAX; 2 * length];
            let result = ring.neighbour_alltoallv(&out, &sends, &mut into, &receives);
            assert_eq!(result, expected);
            assert!(into[..length].iter().all(|heard| *heard == previous));
            let mut into = vec![u32::MAX; 2 * length];
            let result = world.scope(|scope| {
                scope.ineighbour_alltoallv(&ring, &out, &sends, &mut into, &receives)?.wait()
            });
            assert_eq!(result, expected);
            assert!(into[..length].iter().all(|heard| *heard == previous));
        }
    }
    Ok(())
}

/// A scope that fails abandons its exchange, and a refused call counts: ranks stay in step, and
/// abandoned calls disturb nothing later.
pub(super) fn abandoned(world: &World, _: u64) -> Result<(), Error> {
    let partner = partner(world);
    let (sends, receives) =
        (partner.filter(|_| is_first(world)), partner.filter(|_| !is_first(world)));
    let (to, from) = (Vec::from_iter(sends), Vec::from_iter(receives));
    let pairs = world.dist_graph_adjacent(&from, &to, Reorder::Keep)?;
    let scattered = |edges: usize| vec![Layout::vector(0, 100_000, 1, 2); edges];
    let (out, mut into) = (vec![world.rank(); 200_000], vec![u32::MAX; 200_000]);
    // First the receivers abandon it and the senders are refused, then the reverse. The message is
    // announced, not sent, so that none of it is left behind.
    for abandons in [receives, sends] {
        if abandons.is_none() {
            let refused = pairs.neighbour_alltoallv(&out, &[0..1, 0..1], &mut into, &[]);
            let expected = Error::WrongBlocks { what: "destinations", given: 2, edges: to.len() };
            assert_eq!(refused, Err(expected));
        } else {
            let (sends, receives) = (scattered(to.len()), scattered(from.len()));
            let result: Result<(), Error> = world.scope(|scope| {
                scope.ineighbour_alltoallw(&pairs, &out, &sends, &mut into, &receives)?;
                Err(Error::TooLarge { elements: 1, element: 1 })
            });
            assert_eq!(result, Err(Error::TooLarge { elements: 1, element: 1 }));
        }
        world.barrier()?;
        assert!(into.iter().all(|heard| *heard == u32::MAX));
    }
    pairs.neighbour_alltoallw(&out, &scattered(to.len()), &mut into, &scattered(from.len()))?;
    let heard = into.iter().filter(|heard| **heard != u32::MAX);
    assert_eq!(heard.count(), 100_000 * from.len());
    Ok(())
}

/// With letters, a call that one rank leaves out, because its arguments are invalid, is an error of
/// the next call of its neighbours and itself, and then of theirs: no rank waits, and none takes
/// one call's elements for another's.
pub(super) fn left_out(world: &World, _: u64) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let ring = world.dist_graph_adjacent(&[previous], &[next], Reorder::Keep)?;
    let call = |number: u32| {
        let mut heard = [u32::MAX; 3];
        ring.neighbour_alltoall(&[number; 3], &mut heard).inspect(|()| {
            assert_eq!(heard, [number; 3]);
        })
    };
    (0..6).try_for_each(call)?;
    if rank == 0 {
        let refused = ring.neighbour_alltoallv(&[6u32; 3], &[], &mut [0u32; 3], &[]);
        let expected = Error::WrongBlocks { what: "destinations", given: 0, edges: 1 };
        assert_eq!(refused, Err(expected));
    }
    let first = if rank == 0 { 7 } else { 6 };
    if size == 1 {
        return call(first);
    }
    // The error passes from neighbour to neighbour. Without room for letters, messages carry it.
    let by_letter = (0..size).all(|other| world.node_of(other) == world.node_of(rank));
    if by_letter {
        let fails = (first..first + size + 2).find(|number| call(*number).is_err());
        assert!(fails.is_some(), "rank {rank} is told nothing");
    }
    Ok(())
}
