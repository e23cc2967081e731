//! Windows: put, get and atomic operations by rank and index.

use hikyaku::{ContextError, Error, PostError, WindowError, World};
use hikyaku_jobs::pattern::{check, fill, key};

use super::{around, is_first, partner};

/// Every rank writes to every other and reads it back, on any node.
pub(super) fn put_and_get(world: &World, seed: u64) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    let length = 3_000;
    let window = world.window::<u8>(length * size as usize)?;
    let part = |of: u32| length * of as usize;
    let mut bytes = vec![0; length];
    for target in 0..size {
        fill(key(seed, &[u64::from(rank), u64::from(target)]), &mut bytes);
        window.put(target, part(rank), &bytes)?;
    }
    world.barrier()?;
    for source in 0..size {
        for target in [rank, around(world, 1).0] {
            window.get(target, part(source), &mut bytes)?;
            check(key(seed, &[u64::from(source), u64::from(target)]), &bytes);
        }
    }
    assert_eq!(window.local()?.len(), window.len());
    world.barrier()
}

/// Parts may have any size; an access out of bounds is an error, and nothing is written.
pub(super) fn bounds(world: &World, _: u64) -> Result<(), Error> {
    let (next, _) = around(world, 1);
    let window = world.window::<u32>(world.rank() as usize)?;
    let elements = next as usize;
    assert_eq!(window.len_of(next)?, elements);
    window.put(next, elements, &[])?;
    for (index, count) in [(elements, 1), (0, elements + 1), (usize::MAX, 1)] {
        let error = window.put(next, index, &vec![7; count]).unwrap_err();
        let elements = elements as u64;
        let expected: Error = WindowError::Outside { rank: next, index, count, elements }.into();
        assert_eq!(error, expected);
        assert_eq!(window.get(next, index, &mut vec![0; count]), Err(expected));
    }
    let missing = PostError::NoSuchMember { logical: world.size(), members: world.size() };
    assert_eq!(window.put(world.size(), 0, &[]), Err(Error::Remote(missing)));
    world.barrier()?;
    assert!(window.local()?.iter().all(|element| *element == 0));
    world.barrier()
}

/// A counter, a lock and extremes, with all ranks at one element.
pub(super) fn atomics(world: &World, _: u64) -> Result<(), Error> {
    const ROUNDS: i64 = 100;
    let (rank, size) = (i64::from(world.rank()), i64::from(world.size()));
    let home = world.size() - 1;
    let window = world.window::<i64>(8)?;
    if world.rank() == home {
        window.put(home, 4, &[i64::MAX, i64::MIN])?;
    }
    world.barrier()?;
    for _ in 0..ROUNDS {
        window.fetch_add(home, 0, 1)?;
        while window.compare_swap(home, 1, 0, rank + 1)? != 0 {
            std::thread::yield_now();
        }
        let sum = window.load(home, 2)?;
        window.put(home, 2, &[sum + 1])?;
        assert_eq!(window.swap(home, 1, 0)?, rank + 1);
    }
    window.fetch_or(home, 3, 1 << (rank % 60))?;
    window.fetch_min(home, 4, -rank)?;
    window.fetch_max(home, 5, rank - 7)?;
    window.fetch_xor(home, 6, rank)?;
    world.barrier()?;
    let mut found = [0; 8];
    window.get(home, 0, &mut found)?;
    let marks = (0..size).fold(0, |marks, rank| marks | 1 << (rank % 60));
    let mixed = (0..size).fold(0, |mixed, rank| mixed ^ rank);
    let [total, lock, sum, bits, least, most, xor, _] = found;
    assert_eq!([total, lock, sum], [size * ROUNDS, 0, size * ROUNDS]);
    assert_eq!([bits, least, most, xor], [marks, 1 - size, size - 8, mixed]);
    assert_eq!(window.fetch_and(home, 7, 0)?, 0);
    world.barrier()
}

/// Data before word, in every round.
pub(super) fn signals(world: &World, seed: u64) -> Result<(), Error> {
    let (next, previous) = around(world, 1);
    let data = world.window::<u8>(2 * 5_000)?;
    let signal = world.window::<u64>(2)?;
    for round in 1..=50u64 {
        let start = 5_000 * (round as usize % 2);
        let length = (round as usize * 977) % 5_000;
        let mut bytes = vec![0; length];
        fill(key(seed, &[u64::from(world.rank()), round]), &mut bytes);
        data.put_signal(next, start, &bytes, &signal, 0, round)?;
        assert_eq!(signal.wait(0, previous, |value| value >= round)?, round);
        let mut bytes = vec![0; length];
        data.get(world.rank(), start, &mut bytes)?;
        check(key(seed, &[u64::from(previous), round]), &bytes);
        // It has been read: the previous rank may overwrite it.
        signal.swap(previous, 1, round)?;
        signal.wait(1, next, |value| value >= round)?;
    }
    world.barrier()
}

/// A window that its owner dropped is an error for the others, and its memory is free again.
pub(super) fn dropped(world: &World, _: u64) -> Result<(), Error> {
    let Some(partner) = partner(world) else {
        drop(world.window::<u64>(1)?);
        return world.barrier();
    };
    let window = world.window::<u64>(1000)?;
    world.barrier()?;
    if is_first(world) {
        drop(window);
        world.send(&[1u8], partner, 1)?;
        world.recv(&mut [0u8], partner, 1)?;
    } else {
        world.recv(&mut [0u8], partner, 1)?;
        for error in [
            window.put(partner, 0, &[1]).unwrap_err(),
            window.load(partner, 0).unwrap_err(),
            window.get(partner, 0, &mut [0]).unwrap_err(),
        ] {
            assert_eq!(error, WindowError::Closed { rank: partner }.into());
        }
        world.send(&[1u8], partner, 1)?;
    }
    Ok(())
}

/// Windows are made and dropped many times; if one rank has no room, no rank gets one.
pub(super) fn many(world: &World, _: u64) -> Result<(), Error> {
    for _ in 0..100 {
        let window = world.window::<u64>(1)?;
        window.fetch_add(world.rank(), 0, 1)?;
        assert_eq!(window.local()?, [1]);
    }
    // Only rank 0 has no memory for it.
    let length = if world.rank() == 0 { usize::MAX / 64 } else { 1 };
    let error = world.window::<u64>(length).unwrap_err();
    match world.rank() {
        0 => assert!(matches!(error, Error::Memory(_)), "{error}"),
        _ => assert_eq!(error, WindowError::Refused { rank: 0 }.into()),
    }
    let mut windows = Vec::new();
    let error = loop {
        match world.window::<u64>(1) {
            Ok(window) => windows.push(window),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Context(ContextError::NoContextFree { .. })), "{error}");
    Ok(())
}
