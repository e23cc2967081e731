//! Shared variables among unreceived messages, and among ranks that wait for something else or
//! leave: a protocol's traffic must not queue behind the program's messages.

use hikyaku::persistent::{Neighbour, Neighbours};
use hikyaku::{Error, World};

use crate::number;

/// `WHAT COUNT LENGTH ROUNDS`: every rank sends COUNT messages, acquires the variable ROUNDS times,
/// and only then receives.
pub(crate) fn run(world: &World, words: &[String]) -> Result<(), Error> {
    let (me, size) = (world.rank(), world.size());
    let (next, previous) = ((me + 1) % size, (me + size - 1) % size);
    let (what, count) = (&words[1][..], number(words.get(2)) as usize);
    let (length, rounds) = (number(words.get(3)) as usize, number(words.get(4)));
    let x = world.shared::<u64>("x", &[1])?;
    let senders = if what == "send" { size as usize } else { 1 };
    let receives = match what {
        "ring" => count,
        "send" if me == 0 => count * senders,
        _ => 0,
    };
    let (out, mut into) = (vec![me as u8; length], vec![vec![u8::MAX; length]; receives]);
    let (mut all, mut cast) = (vec![u8::MAX; length * size as usize], vec![me as u8; length]);
    world.barrier()?;
    world.scope(|scope| {
        match what {
            "send" => (0..count).try_for_each(|_| scope.isend(&out, 0, 1).map(drop))?,
            "ring" => (0..count).try_for_each(|_| scope.isend(&out, next, 1).map(drop))?,
            "gather" => drop(scope.iallgather(&out, &mut all)),
            "bcast" => drop(scope.ibroadcast(&mut cast, 0)),
            other => panic!("there is no {other}"),
        }
        for _ in 0..rounds {
            x.write()?[0] += 1;
        }
        for (at, buffer) in into.iter_mut().enumerate() {
            let from = if what == "send" { (at % senders) as u32 } else { previous };
            scope.irecv(buffer, from, 1)?;
        }
        scope.wait_all()
    })?;
    for (at, buffer) in into.iter().enumerate() {
        let from = if what == "send" { (at % senders) as u32 } else { previous };
        assert!(buffer.iter().all(|byte| *byte == from as u8));
    }
    if what == "gather" {
        let mut parts = all.chunks(length).enumerate();
        assert!(parts.all(|(from, part)| part.iter().all(|byte| *byte == from as u8)));
    }
    if what == "bcast" {
        assert!(cast.iter().all(|byte| *byte == 0));
    }
    world.barrier()?;
    assert_eq!(x.read()?[0], rounds * u64::from(size));
    Ok(())
}

/// `ROUNDS LENGTH`: writes a variable and broadcasts, repeatedly.
pub(crate) fn broadcasts(world: &World, rounds: u64, length: usize) -> Result<(), Error> {
    let x = world.shared::<u64>("x", &[4])?;
    let mut data = vec![0_u64; length];
    for round in 0..rounds {
        x.write()?[0] += 1;
        let root = (round % u64::from(world.size())) as u32;
        if world.rank() == root {
            data.fill(round + 1);
        }
        world.broadcast(&mut data, root)?;
        assert!(data.iter().all(|value| *value == round + 1));
    }
    world.barrier()?;
    assert_eq!(x.read()?[0], rounds * u64::from(world.size()));
    println!("{}", world.rank());
    Ok(())
}

/// `LENGTH`: the same until a rank has died, which every other rank prints. A rank that is told by
/// one call leaves, and ranks that wait in the other call are told too.
pub(crate) fn until_a_death(world: &World, length: usize) -> Result<(), Error> {
    match broadcasts(world, u64::MAX, length) {
        Ok(()) => unreachable!("it does not end by itself"),
        Err(error) => println!("{} {error}", world.rank()),
    }
    Ok(())
}

/// Rank 0 owns a variable, which the others read meanwhile, and leaves. They wait for it in a
/// barrier and are told, and the contents still exist.
pub(crate) fn leave(world: &World) -> Result<(), Error> {
    let (x, y) = (world.shared::<u64>("x", &[1000])?, world.shared::<u64>("y", &[1])?);
    for shared in [&x, &y] {
        if world.rank() == 0 {
            shared.write()?.fill(7);
        }
    }
    world.barrier()?;
    let read = (world.rank() > 0).then(|| y.read()).transpose()?;
    world.barrier()?;
    if world.rank() == 0 {
        return Ok(());
    }
    let error = world.barrier().unwrap_err();
    println!("{} {error}", world.rank());
    assert!(read.is_some_and(|read| read[0] == 7));
    for shared in [&x, &y] {
        let mut contents = shared.write()?;
        assert!(contents[0] >= 7 && contents.iter().all(|value| *value == contents[0]));
        contents.iter_mut().for_each(|value| *value += 1);
    }
    Ok(())
}

/// Rank 0 owns a variable and waits in this way for rank 1, which has to write it first.
pub(crate) fn wait_in(world: &World, way: &str) -> Result<(), Error> {
    let (me, other) = (world.rank(), 1 - world.rank());
    let (x, y) = (world.shared::<u64>("x", &[1])?, world.shared::<u64>("y", &[1])?);
    let window = world.window::<u64>(1)?;
    let (large, mut into) = (vec![0_u8; 1 << 20], vec![0_u8; 1 << 20]);
    let edge = || vec![Neighbour { rank: other, elements: 0..1 }];
    let neighbours = Neighbours { sources: edge(), destinations: edge(), ..Neighbours::default() };
    let mut exchange = world.staged_exchange_init::<u64>(&neighbours)?;
    if me == 0 {
        x.write()?[0] = 1;
    }
    let held = (me == 1 && way == "variable").then(|| y.write()).transpose()?;
    world.barrier()?;
    if me == 1 {
        x.write()?[0] += 1;
        drop(held);
    }
    match (way, me) {
        ("send", 0) | ("receive", 1) => world.send(&large, other, 1)?,
        ("send" | "receive", _) => drop(world.recv(&mut into, other, 1)?),
        ("probe", 0) => {
            world.probe(1, 1)?;
            world.recv(&mut into, 1, 1)?;
        }
        ("probe", _) => world.send(&[1_u8], 0, 1)?,
        ("barrier", _) => world.barrier()?,
        ("requests", _) => world.scope(|scope| {
            scope.irecv(&mut into, other, 1)?;
            scope.isend(&large, other, 1)?;
            scope.wait_all()
        })?,
        ("variable", 0) => y.write()?[0] += 1,
        ("window", 0) => drop(window.wait(0, 1, |value| value == 1)?),
        ("window", _) => drop(window.fetch_add(0, 0, 1)?),
        ("exchange", _) => {
            exchange.start_from(&[u64::from(me)])?;
            let mut heard = [9];
            exchange.wait_into(&mut heard)?;
            assert_eq!(heard, [u64::from(other)]);
        }
        ("making", _) => drop(world.shared::<u64>("z", &[1])?),
        ("variable" | "leaving", _) => {}
        (way, _) => panic!("there is no way {way}"),
    }
    if way == "leaving" {
        return Ok(());
    }
    world.barrier()?;
    assert_eq!(x.read()?[0], 2);
    Ok(())
}

/// `WAY`: rank 0 holds a variable and waits for rank 1, which waits for the variable.
pub(crate) fn hold(world: &World, way: &str) -> Result<(), Error> {
    let x = world.shared::<u64>("held", &[1])?;
    let mut guard = (world.rank() == 0).then(|| x.write()).transpose()?;
    if way == "read" && guard.take().is_some() {
        let _read = x.read()?;
        world.barrier()?;
        return world.recv(&mut [0_u8], 1, 7).map(drop);
    }
    world.barrier()?;
    match (way, world.rank()) {
        (_, 0) => drop(world.recv(&mut [0_u8], 1, 7)?),
        ("async", _) => drop(world.block_on(x.write_async())?),
        ("look", _) => {
            let mut turn = x.ask_read()?;
            while turn.look()?.is_none() {
                turn.rest();
            }
        }
        _ => drop(x.write()?),
    }
    Ok(())
}
