//! Every collective in its three forms: blocking, in a scope, persistent.
//!
//! A rank's data is made from its number and the place; a 2 × 2 matrix product represents an
//! operation for which the order of the ranks matters.

use hikyaku::persistent::PersistentError;
use hikyaku::{
    Cause, CollError, Collective, Commutative, Error, MsgError, Op, Ordered, Reducer, World,
};

const LENGTHS: [usize; 4] = [0, 1, 130, 20_000];

/// The number at a place of a rank's data for another rank.
fn number(from: u32, to: u32, at: usize) -> u64 {
    (u64::from(from) + 1) * 1_000_003 + u64::from(to) * 7919 + at as u64
}

fn data(from: u32, to: u32, length: usize) -> Vec<u64> {
    (0..length).map(|at| number(from, to, at)).collect()
}

/// A length that differs from rank to rank.
fn count(rank: u32, length: usize) -> usize {
    length * (rank as usize % 3) / 2
}

fn sums(ranks: std::ops::Range<u32>, to: u32, length: usize) -> Vec<u64> {
    (0..length).map(|at| ranks.clone().map(|from| number(from, to, at)).sum()).collect()
}

fn flat(world: &World, part: impl Fn(u32) -> Vec<u64>) -> Vec<u64> {
    (0..world.size()).flat_map(part).collect()
}

type Matrix = [u32; 4];

fn matrix(rank: u32) -> Matrix {
    [rank + 2, 3 * rank + 1, rank * rank, 5]
}

fn product(left: &[Matrix], right: &mut [Matrix]) {
    for ([a, b, c, d], right) in left.iter().zip(right) {
        let [e, f, g, h] = *right;
        let cell =
            |x: &u32, y: u32, z: &u32, w: u32| x.wrapping_mul(y).wrapping_add(z.wrapping_mul(w));
        *right = [cell(a, e, b, g), cell(a, f, b, h), cell(c, e, d, g), cell(c, f, d, h)];
    }
}

fn products(ranks: std::ops::Range<u32>) -> Matrix {
    let mut result = [matrix(ranks.end - 1)];
    for rank in (ranks.start..ranks.end - 1).rev() {
        product(&[matrix(rank)], &mut result);
    }
    result[0]
}

/// Reductions to one rank, to all, to parts, and scans.
pub(super) fn reductions(world: &World, _: u64) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    for (root, length) in (0..size).zip(LENGTHS.into_iter().cycle()) {
        let mut all = data(rank, 0, length);
        world.reduce(&mut all, Op::Sum, root)?;
        assert!(rank != root || all == sums(0..size, 0, length));
        let mut one = [matrix(rank)];
        world.reduce(&mut one, Ordered(product), root)?;
        assert!(rank != root || one == [products(0..size)]);
    }
    for length in LENGTHS {
        let mut up_to = data(rank, 0, length);
        world.scan(&mut up_to, Op::Sum)?;
        assert_eq!(up_to, sums(0..rank + 1, 0, length));
        let mut before = data(rank, 0, length);
        world.exscan(&mut before, Op::Sum)?;
        let expected = if rank == 0 { data(0, 0, length) } else { sums(0..rank, 0, length) };
        assert_eq!(before, expected);
        let (mut parts, mut mine) = (flat(world, |to| data(rank, to, length)), vec![0; length]);
        world.reduce_scatter_block(&mut parts, &mut mine, Op::Sum)?;
        assert_eq!(mine, sums(0..size, rank, length));
        let counts: Vec<usize> = (0..size).map(|to| count(to, length)).collect();
        let mut parts = flat(world, |to| data(rank, to, counts[to as usize]));
        let mut mine = vec![0; counts[rank as usize]];
        world.reduce_scatter(&mut parts, &mut mine, &counts, Op::Sum)?;
        assert_eq!(mine, sums(0..size, rank, mine.len()));
    }
    Ok(())
}

/// A program's own operations, in the order of the ranks if that matters.
pub(super) fn own_operations(world: &World, _: u64) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    let mut all = [matrix(rank)];
    world.allreduce(&mut all, Ordered(product))?;
    assert_eq!(all, [products(0..size)]);
    let mut up_to = [matrix(rank)];
    world.scan(&mut up_to, Ordered(product))?;
    assert_eq!(up_to, [products(0..rank + 1)]);
    let mut seen = vec![1u64 << (rank % 64); 70_000];
    let or = Commutative(|left: &[u64], right: &mut [u64]| {
        left.iter().zip(right).for_each(|(left, right)| *right |= left);
    });
    assert!(Reducer::<u64>::is_commutative(&or));
    world.allreduce(&mut seen, or)?;
    assert!(seen.iter().all(|seen| *seen == (0..size).fold(0, |all, r| all | 1 << (r % 64))));
    Ok(())
}

/// From one rank, to one, to all, from all.
pub(super) fn movements(world: &World, _: u64) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    for (root, length) in (0..size).zip(LENGTHS.into_iter().cycle()) {
        let at_root = rank == root;
        let mut all = vec![0; if at_root { size as usize * length } else { 0 }];
        world.gather_into(&data(rank, 0, length), &mut all, root)?;
        assert!(!at_root || all == flat(world, |from| data(from, 0, length)));
        let place = |from| vec![0; count(from, length)];
        let mut places: Vec<Vec<u64>> =
            if at_root { (0..size).map(place).collect() } else { Vec::new() };
        let blocks = places.iter_mut().map(Vec::as_mut_slice).collect();
        world.gatherv_into(&data(rank, 0, count(rank, length)), blocks, root)?;
        let expected = (0..size).map(|from| data(from, 0, count(from, length)));
        assert!(!at_root || expected.eq(places));

        let all = if at_root { flat(world, |to| data(root, to, length)) } else { Vec::new() };
        let mut mine = vec![0; length];
        world.scatter(&all, &mut mine, root)?;
        assert_eq!(mine, data(root, rank, length));
        let parts: Vec<Vec<u64>> = (0..size).map(|to| data(root, to, count(to, length))).collect();
        let parts: Vec<&[u64]> = parts.iter().map(Vec::as_slice).collect();
        let mut mine = vec![0; count(rank, length)];
        world.scatterv(if at_root { &parts } else { &[] }, &mut mine, root)?;
        assert_eq!(mine, data(root, rank, mine.len()));
    }
    Ok(())
}

/// From all to all.
pub(super) fn all_to_all(world: &World, _: u64) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    for length in LENGTHS {
        let mut all = vec![0; size as usize * length];
        world.allgather(&data(rank, 0, length), &mut all)?;
        let expected = flat(world, |from| data(from, 0, length));
        assert_eq!(all, expected);
        all.iter_mut().for_each(|number| *number = 0);
        all[rank as usize * length..][..length].copy_from_slice(&data(rank, 0, length));
        world.allgather_in_place(&mut all)?;
        assert_eq!(all, expected);
        let counts: Vec<usize> = (0..size).map(|from| count(from, length)).collect();
        let mut all = vec![0; counts.iter().sum()];
        world.allgatherv(&data(rank, 0, counts[rank as usize]), &mut all, &counts)?;
        assert_eq!(all, flat(world, |from| data(from, 0, counts[from as usize])));

        let length = length / 10;
        let out = flat(world, |to| data(rank, to, length));
        let mut into = vec![0; out.len()];
        world.alltoall(&out, &mut into)?;
        let expected = flat(world, |from| data(from, rank, length));
        assert_eq!(into, expected);
        let mut both = out;
        world.alltoall_in_place(&mut both)?;
        assert_eq!(both, expected);
        let count = |from: u32, to: u32| count(from * 5 + to, length);
        let parts: Vec<Vec<u64>> = (0..size).map(|to| data(rank, to, count(rank, to))).collect();
        let parts: Vec<&[u64]> = parts.iter().map(Vec::as_slice).collect();
        let mut into: Vec<Vec<u64>> = (0..size).map(|from| vec![0; count(from, rank)]).collect();
        world.alltoallv(&parts, into.iter_mut().map(Vec::as_mut_slice).collect())?;
        assert!((0..size).map(|from| data(from, rank, count(from, rank))).eq(into));
    }
    Ok(())
}

/// Many at once within a scope, with messages between them, waited for in another order by every
/// second rank, or not at all.
pub(super) fn in_flight(world: &World, _: u64) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    let (next, previous) = super::around(world, 1);
    for length in LENGTHS {
        let root = length as u32 % size;
        let (out, mut into) = (data(rank, 0, length), vec![0; length]);
        let (mut sum, mut up_to) = (out.clone(), out.clone());
        let mut all = vec![0; size as usize * length];
        let mut from_root = if rank == root { data(root, 9, length) } else { vec![0; length] };
        world.scope(|scope| {
            let first = scope.ibarrier();
            let receive = scope.irecv(&mut into, previous, 5)?;
            let second = scope.iallreduce(&mut sum, Op::Sum);
            let third = scope.iallgather(&out, &mut all);
            scope.isend(&out, next, 5)?;
            let fourth = scope.ibroadcast(&mut from_root, root);
            // The scope waits for this one.
            let _ = scope.iscan(&mut up_to, Op::Sum);
            let mut order = [first, second, third, fourth];
            if rank % 2 == 1 {
                order.reverse();
            }
            receive.wait()?;
            order.into_iter().try_for_each(Collective::wait)
        })?;
        assert_eq!(into, data(previous, 0, length));
        assert_eq!(sum, sums(0..size, 0, length));
        assert_eq!(all, flat(world, |from| data(from, 0, length)));
        assert_eq!(from_root, data(root, 9, length));
        assert_eq!(up_to, sums(0..rank + 1, 0, length));
    }
    Ok(())
}

/// Every other operation in a scope gives the result of the blocking one.
pub(super) fn in_a_scope(world: &World, _: u64) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    let (length, root) = (100, size - 1);
    let total = size as usize * length;
    let counts: Vec<usize> = (0..size).map(|to| count(to, length)).collect();
    let (mine, out) = (data(rank, 0, length), flat(world, |to| data(rank, to, length)));
    let own = counts[rank as usize];
    let (mut reduced, mut before) = (mine.clone(), mine.clone());
    let (mut gathered, mut scattered) = (vec![0; total], vec![0; length]);
    let mut gathered_v = vec![0; counts.iter().sum()];
    let (mut allgathered, mut allgathered_v) = (vec![0; total], gathered_v.clone());
    allgathered[rank as usize * length..][..length].copy_from_slice(&mine);
    let (mut swapped, mut replaced) = (vec![0; total], out.clone());
    let (mut parts, mut block) = (out.clone(), vec![0; length]);
    let mut parts_v = flat(world, |to| data(rank, to, counts[to as usize]));
    let (mut block_v, mut scattered_v) = (vec![0; own], vec![0; own]);
    let mut swapped_v = vec![0; total];
    let cut = |all: &[u64]| -> Vec<Vec<u64>> { all.chunks(length).map(<[u64]>::to_vec).collect() };
    let to_each = cut(&out);
    let from_root: Vec<Vec<u64>> =
        (0..size).map(|to| data(root, to, counts[to as usize])).collect();
    world.scope(|scope| {
        let _ = scope.ireduce(&mut reduced, Op::Sum, root);
        let _ = scope.iexscan(&mut before, Op::Sum);
        let _ = scope.igather_into(&mine, &mut gathered, root);
        let mut rest = &mut gathered_v[..];
        let mut blocks = Vec::new();
        for count in &counts {
            let (block, after) = rest.split_at_mut(*count);
            blocks.push(block);
            rest = after;
        }
        let _ = scope.igatherv_into(&mine[..own], blocks, root);
        let _ = scope.iscatter(&out, &mut scattered, root);
        let parts_of_root = from_root.iter().map(Vec::as_slice).collect();
        let _ = scope.iscatterv(parts_of_root, &mut scattered_v, root);
        let _ = scope.iallgather_in_place(&mut allgathered);
        let _ = scope.iallgatherv(&mine[..own], &mut allgathered_v, counts.clone());
        let _ = scope.ialltoall(&out, &mut swapped);
        let _ = scope.ialltoall_in_place(&mut replaced);
        let places = swapped_v.chunks_mut(length).collect();
        let _ = scope.ialltoallv(to_each.iter().map(Vec::as_slice).collect(), places);
        let _ = scope.ireduce_scatter(&mut parts_v, &mut block_v, counts.clone(), Op::Sum);
        scope.ireduce_scatter_block(&mut parts, &mut block, Op::Sum).wait()
    })?;
    let all_v = flat(world, |from| data(from, 0, counts[from as usize]));
    if rank == root {
        assert_eq!(reduced, sums(0..size, 0, length));
        assert_eq!(gathered, flat(world, |from| data(from, 0, length)));
        assert_eq!(gathered_v, all_v);
    }
    assert_eq!(before, if rank == 0 { mine } else { sums(0..rank, 0, length) });
    assert_eq!((scattered, scattered_v), (data(root, rank, length), data(root, rank, own)));
    assert_eq!(allgathered, flat(world, |from| data(from, 0, length)));
    assert_eq!(allgathered_v, all_v);
    let expected = flat(world, |from| data(from, rank, length));
    assert_eq!((&swapped, &replaced, &swapped_v), (&expected, &expected, &expected));
    assert_eq!((block, block_v), (sums(0..size, rank, length), sums(0..size, rank, own)));
    Ok(())
}

/// A rank that waits in any blocking call advances the collectives in flight.
pub(super) fn progress_within_other_calls(world: &World, _: u64) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    if size == 1 {
        return Ok(());
    }
    for (turn, length) in (0..6).zip(LENGTHS.into_iter().cycle()) {
        let mut sum = data(rank, 0, length);
        let mut heard = vec![[0]; size as usize];
        world.scope(|scope| {
            let mut all = scope.iallreduce(&mut sum, Op::Sum);
            if rank != 0 {
                // Ends only if rank 0 does its part, within its other calls.
                all.wait()?;
                return world.send(&[rank], 0, 8);
            }
            for (from, heard) in (0..).zip(&mut heard).skip(1) {
                match turn {
                    0 => drop(world.recv(heard, from, 8)?),
                    1 => drop(scope.irecv(heard, from, 8)?.wait()?),
                    2 => drop(world.block_on(world.recv_async(heard, from, 8))?),
                    3 => assert_eq!(world.probe(from, 8)?.bytes, 4),
                    4 => while world.iprobe(from, 8)?.is_none() {},
                    _ => loop {
                        match all.test()? {
                            Ok(()) => return Ok(()),
                            Err(again) => all = again,
                        }
                    },
                }
            }
            all.wait()
        })?;
        // Messages that were not received yet.
        for from in 1..size {
            if rank == 0 && turn > 2 {
                world.recv(&mut [0], from, 8)?;
            }
        }
        assert_eq!(sum, sums(0..size, 0, length));
    }
    Ok(())
}

/// Started many times with other data, several at a time and in any order.
pub(super) fn persistent(world: &World, _: u64) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    let length = 700;
    let total = size as usize * length;
    let mut sum = world.allreduce_init(vec![0u64; length], Op::Sum);
    let mut all = world.allgather_init(vec![0u64; length], world.alloc::<u64>(total)?);
    let mut barrier = world.barrier_init();
    let mut part = world.scatter_init(vec![0u64; total], vec![0; length], 0);
    for turn in 0..20 {
        sum.buffers_mut()?.copy_from_slice(&data(rank, turn, length));
        all.buffers_mut()?.0.copy_from_slice(&data(rank, turn, length));
        part.buffers_mut()?.0.copy_from_slice(&flat(world, |to| data(turn, to, length)));
        if (rank + turn).is_multiple_of(2) {
            sum.start()?;
            all.start()?;
            part.start()?;
            barrier.start()?;
        } else {
            barrier.start()?;
            part.start()?;
            all.start()?;
            sum.start()?;
        }
        // A test loop until the end would keep ranks without a processor of their own waiting.
        if !all.test()? {
            all.wait()?;
        }
        sum.wait()?;
        barrier.wait()?;
        part.wait()?;
        assert_eq!(sum.buffers()?, &sums(0..size, turn, length));
        assert_eq!(all.buffers()?.1[..], flat(world, |from| data(from, turn, length)));
        assert_eq!(part.buffers()?.1, data(turn, rank, length));
    }
    Ok(())
}

/// The other operations, started twice each.
pub(super) fn persistent_of_every_kind(world: &World, _: u64) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    let (length, root) = (30, size / 2);
    let total = size as usize * length;
    let counts = vec![length; size as usize];
    let mine = || data(rank, 0, length);
    let out = || flat(world, |to| data(rank, to, length));
    let cut =
        |all: Vec<u64>| -> Vec<Vec<u64>> { all.chunks(length).map(<[u64]>::to_vec).collect() };
    let all_mine = || flat(world, |from| data(from, 0, length));
    let for_me = || flat(world, |from| data(from, rank, length));

    let mut broadcast = world.broadcast_init(mine(), root);
    let mut reduce = world.reduce_init(mine(), Op::Sum, root);
    let mut gather = world.gather_into_init(mine(), vec![0; total], root);
    let mut gatherv = world.gatherv_into_init(mine(), cut(vec![0; total]), root);
    let mut scatterv = world.scatterv_init(cut(out()), vec![0; length], root);
    let mut allgather = world.allgather_in_place_init(all_mine());
    let mut allgatherv = world.allgatherv_init(mine(), vec![0; total], counts.clone());
    let mut alltoall = world.alltoall_init(out(), vec![0; total]);
    let mut replace = world.alltoall_in_place_init(out());
    let mut alltoallv = world.alltoallv_init(cut(out()), cut(vec![0; total]));
    let mut part = world.reduce_scatter_init(out(), vec![0; length], counts, Op::Sum);
    let mut block = world.reduce_scatter_block_init(out(), vec![0; length], Op::Sum);
    let mut scan = world.scan_init(mine(), Op::Sum);
    let mut exscan = world.exscan_init(mine(), Op::Sum);
    for _ in 0..2 {
        reduce.buffers_mut()?.copy_from_slice(&mine());
        scan.buffers_mut()?.copy_from_slice(&mine());
        exscan.buffers_mut()?.copy_from_slice(&mine());
        replace.buffers_mut()?.copy_from_slice(&out());
        part.buffers_mut()?.0.copy_from_slice(&out());
        block.buffers_mut()?.0.copy_from_slice(&out());
        broadcast.start()?;
        reduce.start()?;
        gather.start()?;
        gatherv.start()?;
        scatterv.start()?;
        allgather.start()?;
        allgatherv.start()?;
        alltoall.start()?;
        replace.start()?;
        alltoallv.start()?;
        part.start()?;
        block.start()?;
        scan.start()?;
        exscan.start()?;
        exscan.wait()?;
        scan.wait()?;
        block.wait()?;
        part.wait()?;
        alltoallv.wait()?;
        replace.wait()?;
        alltoall.wait()?;
        allgatherv.wait()?;
        allgather.wait()?;
        scatterv.wait()?;
        gatherv.wait()?;
        gather.wait()?;
        reduce.wait()?;
        broadcast.wait()?;
        assert_eq!(broadcast.buffers()?, &data(root, 0, length));
        if rank == root {
            assert_eq!(reduce.buffers()?, &sums(0..size, 0, length));
            assert_eq!(gather.buffers()?.1, all_mine());
            assert_eq!(gatherv.buffers()?.1.concat(), all_mine());
        }
        assert_eq!(scatterv.buffers()?.1, data(root, rank, length));
        assert_eq!(allgather.buffers()?, &all_mine());
        assert_eq!(allgatherv.buffers()?.1, all_mine());
        assert_eq!(alltoall.buffers()?.1, for_me());
        assert_eq!(replace.buffers()?, &for_me());
        assert_eq!(alltoallv.buffers()?.1.concat(), for_me());
        assert_eq!(part.buffers()?.1, sums(0..size, rank, length));
        assert_eq!(block.buffers()?.1, sums(0..size, rank, length));
        assert_eq!(scan.buffers()?, &sums(0..rank + 1, 0, length));
        let before = if rank == 0 { mine() } else { sums(0..rank, 0, length) };
        assert_eq!(exscan.buffers()?, &before);
    }
    Ok(())
}

/// Misuse of a persistent operation, and the effect of dropping one in flight on other ranks.
pub(super) fn persistent_mistakes(world: &World, _: u64) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    let mut sum = world.allreduce_init(vec![1u8; 4], Op::Sum);
    assert!(sum.wait().is_ok() && sum.test()?, "not started: nothing to wait for");
    sum.start()?;
    let in_flight = Error::InFlight { operation: "allreduce" };
    assert_eq!(sum.start(), Err(in_flight.clone()));
    assert_eq!(sum.buffers().err(), Some(in_flight.clone()));
    assert_eq!(sum.buffers_mut().err(), Some(in_flight));
    sum.wait()?;
    assert_eq!(sum.buffers()?, &[size as u8; 4]);

    // The last rank drops it in flight. A rank that needed more than its first message is told.
    let mut dropped = world.allreduce_init(vec![1u8; 4], Op::Sum);
    dropped.start()?;
    if rank == size - 1 && size > 1 {
        drop(dropped);
    } else {
        match dropped.wait() {
            Ok(()) => {}
            Err(Error::Collective(CollError::Abandoned { peer, cause, .. })) => {
                assert_eq!((peer, cause), (size - 1, Cause::Dropped));
            }
            // With session queues.
            Err(Error::Persistent(PersistentError::Freed { rank })) => assert_eq!(rank, size - 1),
            other => panic!("{other:?}"),
        }
    }
    Ok(())
}

/// One rank passes another length: an error at all ranks that need each other, with the sizes; the
/// world continues.
pub(super) fn mismatch(world: &World, _: u64) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    if size == 1 {
        return Ok(());
    }
    for length in [4, 5_000, 200_000] {
        let mut data = vec![1u8; length + usize::from(rank == size - 1)];
        let error = world.allreduce(&mut data, Op::Sum).unwrap_err();
        let (sent, expected) = match error {
            Error::Collective(CollError::Differ { one, other }) => {
                (one.call.length(), other.call.length())
            }
            other => panic!("{other}"),
        };
        assert!(sent.abs_diff(expected) <= 1 && sent > 0, "{error}");
        let mut sum = vec![1u8; length];
        world.allreduce(&mut sum, Op::Sum)?;
        assert_eq!(sum, vec![size as u8; length]);
    }
    Ok(())
}

/// A scope that fails abandons its collectives, which ends them at all ranks.
pub(super) fn abandoned(world: &World, _: u64) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    for length in LENGTHS {
        let mut sum = vec![0u16; length];
        let result = world.scope(|scope| {
            if rank == 0 && size > 1 {
                // Not polled to its end: rank 0 has only begun.
                let _ = scope.iallreduce(&mut sum, Op::Sum);
                return Err(Error::Message(MsgError::Cancelled));
            }
            scope.iallreduce(&mut sum, Op::Sum).wait()
        });
        match result {
            Err(Error::Message(MsgError::Cancelled)) => assert_eq!(rank, 0),
            Err(Error::Collective(CollError::Abandoned { peer, cause, .. })) => {
                assert_eq!((peer, cause), (0, Cause::Dropped));
            }
            // With two ranks, or for ranks whose part was done, rank 0's first messages were
            // sufficient.
            Ok(()) => {}
            other => panic!("{other:?}"),
        }
        world.barrier()?;
    }
    Ok(())
}

/// An array that cannot be divided among the ranks without cutting an element is refused, even if
/// its bytes could be divided.
pub(super) fn no_element_is_cut(world: &World, _: u64) -> Result<(), Error> {
    type Call<'c> = &'c dyn Fn(&mut [[u8; 24]]) -> Result<(), Error>;
    let size = world.size();
    if size == 1 {
        return Ok(());
    }
    let (data, mut into) = ([[1u8; 24]], [[0u8; 24]]);
    let calls: [Call<'_>; 4] = [
        &|into| world.alltoall(&data, into),
        &|into| world.alltoall_in_place(into),
        &|into| world.scatter(&data, &mut into[..0], world.rank()),
        &|into| {
            let first = Ordered(|_: &[[u8; 24]], _: &mut [[u8; 24]]| ());
            world.reduce_scatter_block(&mut data.clone(), &mut into[..0], first)
        },
    ];
    for call in calls {
        let line = call(&mut into).unwrap_err().to_string();
        // Every rank makes the mistake, and may be told of another's first.
        let own = format!("has 1 elements, which cannot be divided evenly among {size} ranks");
        assert!(line.ends_with(&own) || line.contains("its own call failed there"), "{line}");
        world.barrier()?;
    }
    assert_eq!(into, [[0; 24]]);
    Ok(())
}
