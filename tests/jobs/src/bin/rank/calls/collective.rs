//! Barrier, broadcast, allreduce and gather against their definitions.

use hikyaku::{CollError, Error, Op, Operation, World};
use hikyaku_jobs::Random;
use hikyaku_jobs::pattern::{check, key, message};

/// No rank leaves a barrier before all have arrived: the ranks of a host have one clock.
pub(super) fn barrier(world: &World, _: u64) -> Result<(), Error> {
    for _ in 0..20 {
        let came = world.now().picoseconds();
        world.barrier()?;
        let left = world.now().picoseconds();
        let mut last = [came];
        world.allreduce(&mut last, Op::Max)?;
        assert!(last[0] <= left, "left at {left}, the last came at {}", last[0]);
    }
    Ok(())
}

/// From every root, with every protocol.
pub(super) fn broadcast(world: &World, seed: u64) -> Result<(), Error> {
    for root in 0..world.size() {
        for length in [0, 1, 1_000, 70_000, 1_000_000] {
            let name = key(seed, &[u64::from(root), length as u64]);
            let mut data =
                if world.rank() == root { message(name, length) } else { vec![0; length] };
            world.broadcast(&mut data, root)?;
            check(name, &data);
        }
    }
    Ok(())
}

/// Integers are exact; floating-point sums have the same bits everywhere and every time, although
/// they depend on the order.
pub(super) fn allreduce(world: &World, seed: u64) -> Result<(), Error> {
    let (rank, size) = (i64::from(world.rank()), i64::from(world.size()));
    let mut numbers = [rank + 1, -rank, 1];
    world.allreduce(&mut numbers, Op::Sum)?;
    assert_eq!(numbers, [size * (size + 1) / 2, -size * (size - 1) / 2, size]);
    let (mut least, mut most, mut product) = ([rank], [rank], [2i64]);
    world.allreduce(&mut least, Op::Min)?;
    world.allreduce(&mut most, Op::Max)?;
    world.allreduce(&mut product, Op::Product)?;
    assert_eq!((least, most, product), ([0], [size - 1], [1 << size]));
    let mut nothing: [f32; 0] = [];
    world.allreduce(&mut nothing, Op::Sum)?;
    for length in [1, 8, 9, 5_000, 100_000] {
        let mut random = Random::new(key(seed, &[rank as u64, length as u64]));
        let value = |_| {
            let magnitude = f64::from(random.below(60) as u32) - 30.0;
            (random.draw() as i64) as f64 * magnitude.exp2()
        };
        let mine: Vec<f64> = (0..length).map(value).collect();
        let sum = || -> Result<Vec<f64>, Error> {
            let mut sum = mine.clone();
            world.allreduce(&mut sum, Op::Sum)?;
            Ok(sum)
        };
        let (first, again) = (bits(&sum()?), bits(&sum()?));
        assert_eq!(first, again, "the same sum twice");
        if let Some(all) = world.gather(&first, 0)? {
            let mut ranks = all.chunks(length);
            assert!(ranks.all(|theirs| theirs == first), "ranks have different bits");
        }
    }
    Ok(())
}

fn bits(numbers: &[f64]) -> Vec<u64> {
    numbers.iter().map(|number| number.to_bits()).collect()
}

/// Equal blocks of all ranks at all ranks.
pub(super) fn allgather(world: &World, seed: u64) -> Result<(), Error> {
    for length in [0, 1, 14, 1_000, 70_000, 300_000] {
        let block = |rank: u32| message(key(seed, &[u64::from(rank), length as u64]), length);
        let mut all = vec![0; length * world.size() as usize];
        world.allgather(&block(world.rank()), &mut all)?;
        assert!((0..world.size()).flat_map(block).eq(all));
    }
    Ok(())
}

/// Ranks of one node that make different calls are told whose call differs, and continue together.
/// Duplicates beyond the number of shared lines do the same by messages.
pub(super) fn disagreement(world: &World, _: u64) -> Result<(), Error> {
    let rank = world.rank();
    if world.nodes() == 1 && world.size() > 1 {
        let mut numbers = vec![1u64; if rank == 1 { 2 } else { 1 }];
        let error = world.allreduce(&mut numbers, Op::Sum).unwrap_err();
        let Error::Collective(CollError::Differ { one, other }) = error else { panic!("{error}") };
        assert!([one, other].iter().all(|it| it.call.operation() == Operation::Allreduce));
        assert!((one.rank == 1) != (rank == 1) && other.rank == rank);
        assert_eq!(one.call.length() + other.call.length(), 24);
    }
    if world.size() == 2 {
        // Each rank only sends, so both are done: one of the next calls reports it. On shared lines
        // it is a call that uses the lines as well.
        world.reduce(&mut [1u64], Op::Sum, 1 - rank)?;
        let sum = || world.allreduce(&mut [1u64], Op::Sum);
        let next = || [world.scan(&mut [1u64], Op::Sum), world.barrier(), sum()];
        let errors: Vec<Error> = (0..5).flat_map(|_| next()).filter_map(Result::err).collect();
        assert!((1..=2).contains(&errors.len()), "{errors:?}");
        for error in errors {
            let Error::Collective(CollError::Differ { one, other }) = error else {
                panic!("{error}")
            };
            assert!([one, other].iter().all(|it| it.call.operation() == Operation::Reduce));
            assert_ne!(one.rank, other.rank);
        }
    }
    let more: Vec<World> = (0..10).map(|_| world.duplicate()).collect();
    for (number, world) in (0..).zip(&more) {
        let mut sum = [u64::from(rank) + number];
        world.allreduce(&mut sum, Op::Sum)?;
        let ranks = u64::from(world.size());
        assert_eq!(sum, [ranks * (ranks - 1) / 2 + ranks * number]);
        world.barrier()?;
    }
    Ok(())
}

/// Equal blocks in rank order at every root.
pub(super) fn gather(world: &World, _: u64) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    for root in 0..size {
        for length in [0, 1, 10_000] {
            let gathered = world.gather(&vec![rank; length], root)?;
            let expected = || (0..size).flat_map(|rank| vec![rank; length]).collect();
            assert_eq!(gathered, (rank == root).then(expected));
        }
    }
    Ok(())
}

/// Unequal blocks are reported as unequal.
pub(super) fn unequal_gather(world: &World, _: u64) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    let uneven = world.gather(&vec![0u16; if rank == 2 { 5 } else { 3 }], 0);
    let expected = Error::UnequalBlocks { rank: 2, given: 10, root: 0, expected: 6 };
    if rank == 0 && size > 2 {
        assert_eq!(uneven, Err(expected));
    } else {
        assert!(uneven.is_ok());
    }
    Ok(())
}

/// Blocks of any lengths, including zero.
pub(super) fn gather_blocks(world: &World, seed: u64) -> Result<(), Error> {
    let length = |rank: u32, root: u32| {
        let mut random = Random::new(key(seed, &[u64::from(rank), u64::from(root)]));
        random.pick(&[0, 1, 100, 5_000, 150_000])
    };
    for root in 0..world.size() {
        let mine = message(u64::from(world.rank()), length(world.rank(), root));
        let Some(blocks) = world.gatherv(&mine, root)? else {
            assert_ne!(world.rank(), root);
            continue;
        };
        assert_eq!((world.rank(), blocks.len()), (root, world.size() as usize));
        for (rank, block) in (0..).zip(&blocks) {
            assert_eq!(block.len(), length(rank, root));
            check(u64::from(rank), block);
        }
    }
    Ok(())
}
