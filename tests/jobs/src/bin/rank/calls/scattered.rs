//! Scattered data from all to all (MPI_Alltoallw), in its three forms: the transposition of a
//! matrix of which each rank has some rows.

use hikyaku::{Cause, CollError, Error, Layout, MsgError, World, join};

/// The sides of the square block that goes from one rank to another, in elements.
const SIDES: [usize; 4] = [0, 1, 9, 60];

/// The element of the whole matrix at a row and column.
fn element(row: usize, column: usize) -> f64 {
    (row * 10_000 + column) as f64
}

/// A rank's rows of the matrix, `side` of them, or of its transpose.
fn rows(world: &World, side: usize, transposed: bool) -> Vec<f64> {
    let (first, width) = (world.rank() as usize * side, world.size() as usize * side);
    let rows = first..first + side;
    let row = |row| (0..width).map(move |column| (row, column));
    rows.flat_map(row)
        .map(|(r, c)| if transposed { element(c, r) } else { element(r, c) })
        .collect()
}

/// The block of a rank's rows that belongs to each rank, row by row.
fn blocks(size: u32, side: usize) -> Vec<Layout> {
    let size = size as usize;
    (0..size).map(|peer| Layout::vector(peer * side, side, side, size * side)).collect()
}

/// The same, column by column.
fn columns(size: u32, side: usize) -> Vec<Layout> {
    let size = size as usize;
    let column = |peer: usize| {
        let at = |column: usize, row: usize| (row * size * side + peer * side + column, 1);
        let all = (0..side).flat_map(|column| (0..side).map(move |row| at(column, row)));
        Layout::indexed(&all.collect::<Vec<_>>())
    };
    (0..size).map(column).collect()
}

/// Blocking, into another array and in place.
pub(super) fn blocking(world: &World, _: u64) -> Result<(), Error> {
    let size = world.size();
    for side in SIDES {
        let (parts, places) = (blocks(size, side), columns(size, side));
        let (matrix, transposed) = (rows(world, side, false), rows(world, side, true));
        let mut into = vec![0.0; matrix.len()];
        world.alltoallw(&matrix, &parts, &mut into, &places)?;
        assert_eq!(into, transposed);
        // From columns into rows: the same result.
        into.fill(0.0);
        world.alltoallw(&matrix, &places, &mut into, &parts)?;
        assert_eq!(into, transposed);
        let mut both = matrix;
        world.alltoallw_in_place(&mut both, &parts)?;
        world.alltoallw_in_place(&mut both, &parts)?;
        assert_eq!(both, rows(world, side, false), "twice in place changes nothing");
    }
    Ok(())
}

/// Bytes, with another length between each two ranks, including zero, and gaps everywhere.
pub(super) fn counts(world: &World, seed: u64) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    let length = |from: u32, to: u32| (seed as usize + (from * 7 + to * 3) as usize) % 5 * 300;
    let value = |from: u32, to: u32| (from * 16 + to + 1) as u8;
    let lay = |length: &dyn Fn(u32) -> usize| {
        let mut end = 3;
        let mut next = |peer: u32| {
            let start = end;
            end = start + length(peer) + 2;
            Layout::from(start..start + length(peer))
        };
        // Some of them in reverse order.
        let all: Vec<Layout> = (0..size).rev().map(&mut next).collect();
        (all.into_iter().rev().collect::<Vec<_>>(), end)
    };
    let (parts, end) = lay(&|to| length(rank, to));
    let mut data = vec![0; end];
    for (to, part) in (0..).zip(&parts) {
        part.unpack(&vec![value(rank, to); part.len()], &mut data)?;
    }
    let (places, end) = lay(&|from| length(from, rank));
    let (mut into, mut expected) = (vec![0xEE_u8; end], vec![0xEE; end]);
    world.alltoallw(&data, &parts, &mut into, &places)?;
    for (from, place) in (0..).zip(&places) {
        place.unpack(&vec![value(from, rank); place.len()], &mut expected)?;
    }
    assert_eq!(into, expected);
    Ok(())
}

/// In a scope with others, and persistent, several starts of each.
pub(super) fn started(world: &World, _: u64) -> Result<(), Error> {
    let size = world.size();
    for side in SIDES {
        let (parts, places) = (blocks(size, side), columns(size, side));
        let (matrix, transposed) = (rows(world, side, false), rows(world, side, true));
        let (mut first, mut second) = (vec![0.0; matrix.len()], matrix.clone());
        let mut contiguous = vec![0.0; matrix.len()];
        world.scope(|scope| {
            // Layouts are needed for the call only.
            let one = scope.ialltoallw(&matrix, &parts.clone(), &mut first, &places.clone());
            let two = scope.ialltoallw_in_place(&mut second, &parts);
            let _ = scope.ialltoall(&matrix, &mut contiguous);
            two.wait()?;
            one.wait()
        })?;
        assert_eq!(first, transposed);
        // As futures, in an order that differs from rank to rank.
        first.fill(0.0);
        world.scope(|scope| {
            let one = scope.ialltoallw_in_place(&mut second, &parts).into_future();
            let two = scope.ialltoallw(&matrix, &parts, &mut first, &places).into_future();
            let (one, two) = match world.rank() % 2 {
                0 => world.block_on(join(one, two)),
                _ => world.block_on(join(two, one)),
            };
            one.and(two)
        })?;
        assert_eq!((&first, &second), (&transposed, &matrix));

        let empty = || vec![0.0; matrix.len()];
        let mut again = world.alltoallw_init(empty(), &parts, empty(), &places);
        let mut swap = world.alltoallw_in_place_init(matrix.clone(), &parts);
        for turn in [1.0, 2.0, 3.0] {
            let scaled = |rows: &[f64]| rows.iter().map(|x| x * turn).collect::<Vec<_>>();
            again.buffers_mut()?.0.copy_from_slice(&scaled(&matrix));
            again.start()?;
            swap.start()?;
            swap.wait()?;
            again.wait()?;
            assert_eq!(again.buffers()?.1, scaled(&transposed));
        }
        swap.start()?;
        swap.wait()?;
        assert_eq!(swap.buffers()?, &matrix, "four times in place");
    }
    Ok(())
}

/// One rank's layouts do not fit: an error at it or at a rank that detects it, and the world
/// continues.
pub(super) fn mistakes(world: &World, _: u64) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    let parts = blocks(size, 4);
    let (data, mut into) = (vec![1u8; 16 * size as usize], vec![0u8; 16 * size as usize]);
    let short = &into.len() - 1;
    let error = world.alltoallw(&data, &parts, &mut into[..short], &parts).unwrap_err();
    let line = error.to_string();
    let last = size - 1;
    // Every rank makes the mistake, and may be told of another's first.
    let own = format!("the layout for rank {last} reaches to byte {} of an array", short + 1);
    assert!(line.contains(&own) || line.contains("its own call failed there"), "{line}");
    if size == 1 {
        return Ok(());
    }
    let mut longer = parts.clone();
    if rank == last {
        longer[0] = Layout::from(0..17);
    }
    match world.alltoallw(&data, &longer, &mut into, &parts) {
        Err(Error::Collective(CollError::Differ { one, other })) => {
            assert_eq!((one.call.length(), other.call.length()), (17, 16));
        }
        // Rank 0 detected it when this rank's part was done.
        Ok(()) => assert_ne!(rank, 0),
        other => panic!("{other:?}"),
    }
    world.barrier()?;
    world.alltoallw(&data, &parts, &mut into, &parts)?;
    let dropped = world.scope(|scope| {
        let exchange = scope.ialltoallw(&data, &parts, &mut into, &parts);
        if rank == last {
            return Err(Error::Message(MsgError::Cancelled));
        }
        exchange.wait()
    });
    match dropped {
        Err(Error::Message(MsgError::Cancelled)) => assert_eq!(rank, last),
        Err(Error::Collective(CollError::Abandoned { peer, cause, .. })) => {
            assert_eq!((peer, cause), (last, Cause::Dropped));
        }
        // The elements that it sent before were sufficient.
        Ok(()) => {}
        other => panic!("{other:?}"),
    }
    world.barrier()
}
