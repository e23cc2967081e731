//! Windows: put, get and atomic operations by rank and index.

use hikyaku::{Advance, ContextError, Error, PostError, WindowError, World};
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

/// Puts through an address register land where the target points it: data of all ranks side by
/// side, whole, in the order of each sender; then where it is pointed next.
pub(super) fn cj_03_receivers_choose_the_place(world: &World, seed: u64) -> Result<(), Error> {
    const PUTS: u32 = 12;
    let (rank, size) = (world.rank(), world.size());
    let length = |from: u32, put: u32| 3 + ((from * 7 + put * 1_013) % 6_000) as usize;
    let name = |from, to, put| key(seed, &[u64::from(from), u64::from(to), u64::from(put)]);
    let all = (0..size).flat_map(|from| (0..PUTS).map(move |put| length(from, put))).sum();
    let window = world.window::<u8>(all)?;
    let unset = window.put_through((rank + 1) % size, 1, &[1]).unwrap_err();
    assert!(unset.to_string().contains("its address register 1 is not set"), "{unset}");
    world.barrier()?;
    for register in [0, 2] {
        window.set_address_register(register, Some((0, Advance::ByLength)))?;
        world.barrier()?;
        let mut bytes = Vec::new();
        for put in 0..PUTS {
            for to in (0..size).map(|to| (to + rank) % size) {
                bytes.resize(length(rank, put), 0);
                fill(name(rank, to, put), &mut bytes);
                // The first bytes say whose it is.
                bytes[..3].copy_from_slice(&[rank as u8, put as u8, register]);
                window.put_through(to, register, &bytes)?;
            }
        }
        world.barrier()?;
        assert_eq!(window.address_register(register)?, Some(all));
        let found = window.local()?;
        let (mut at, mut next) = (0, vec![0; size as usize]);
        while at < all {
            let (from, put) = (u32::from(found[at]), u32::from(found[at + 1]));
            assert_eq!((put, found[at + 2]), (next[from as usize], register), "rank {from}");
            next[from as usize] += 1;
            bytes.resize(length(from, put), 0);
            fill(name(from, rank, put), &mut bytes);
            assert!(found[at + 3..at + bytes.len()] == bytes[3..], "rank {from}, put {put}");
            at += bytes.len();
        }
        assert_eq!(next, vec![PUTS; size as usize]);
        let full = window.put_through((rank + 1) % size, register, &[1]).unwrap_err();
        let (index, count, elements) = (all, 1, all as u64);
        let expected = WindowError::Outside { rank: (rank + 1) % size, index, count, elements };
        assert_eq!(full, expected.into());
        world.barrier()?;
    }
    // One that holds is pointed at the next place by its owner alone.
    let (next, previous) = around(world, 1);
    for round in 0..4 {
        window.set_address_register(1, Some((round, Advance::Hold)))?;
        world.sendrecv(&[0u8], previous, 1, &mut [0u8], next, 1)?;
        window.put_through(next, 1, &[round as u8 + 1])?;
        world.barrier()?;
    }
    assert_eq!(window.local()?[..4], [1, 2, 3, 4]);
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
            window.put_through(partner, 0, &[1]).unwrap_err(),
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
