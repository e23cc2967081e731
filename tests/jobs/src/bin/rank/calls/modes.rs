//! Synchronous and ready sends, and probing before receiving.

use hikyaku::{ANY_SOURCE, ANY_TAG, Error, Received, World};
use hikyaku_jobs::pattern::{check, key, message};

use super::{around, is_first, partner};

/// A synchronous send ends when its receive has matched, and no earlier (MPI 5.0 §3.4).
pub(super) fn synchronous(world: &World, seed: u64) -> Result<(), Error> {
    let Some(partner) = partner(world) else { return Ok(()) };
    for (round, length) in [0, 8, 5_000, 100_000, 1_000_000].into_iter().enumerate() {
        let name = key(seed, &[round as u64]);
        if is_first(world) {
            world.ssend(&message(name, length), partner, 1)?;
            world.send::<u8>(&[], partner, 2)?;
            continue;
        }
        assert_eq!(world.probe(partner, 1)?.bytes, length as u64);
        for _ in 0..1_000 {
            assert_eq!(world.iprobe(partner, 2)?, None, "the send ended before it matched");
        }
        let mut heard = vec![0; length];
        world.recv(&mut heard, partner, 1)?;
        check(name, &heard);
        world.recv::<u8>(&mut [], partner, 2)?;
    }
    Ok(())
}

/// A ready send to a posted receive is an ordinary send; without one it is delivered and counted.
pub(super) fn ready(world: &World, seed: u64) -> Result<(), Error> {
    let Some(partner) = partner(world) else { return Ok(()) };
    let before = world.statistics().ready_unposted;
    for (round, length) in [0, 40, 5_000, 100_000].into_iter().enumerate() {
        let (name, mut heard) = (key(seed, &[round as u64, 1]), vec![0; length]);
        if is_first(world) {
            world.recv::<u8>(&mut [], partner, 2)?;
            world.rsend(&message(name, length), partner, 1)?;
            continue;
        }
        world.scope(|scope| {
            let receive = scope.irecv(&mut heard, partner, 1)?;
            world.send::<u8>(&[], partner, 2)?;
            receive.wait()
        })?;
        check(name, &heard);
        let unposted = world.statistics().ready_unposted;
        assert_eq!(unposted, before, "a receive of {length} bytes was posted before the send");
    }
    if is_first(world) {
        // Not before the other rank has read its statistics.
        world.recv::<u8>(&mut [], partner, 2)?;
        world.rsend(&[5u64], partner, 3)?;
        return world.send::<u8>(&[], partner, 4);
    }
    let mut heard = [0u64];
    world.send::<u8>(&[], partner, 2)?;
    world.recv::<u8>(&mut [], partner, 4)?;
    world.recv(&mut heard, partner, 3)?;
    assert_eq!((heard, world.statistics().ready_unposted), ([5], before + 1));
    Ok(())
}

/// A probe describes the message that the receive gets, however often it is repeated.
pub(super) fn probe(world: &World, seed: u64) -> Result<(), Error> {
    let (next, previous) = around(world, 1);
    assert_eq!(world.iprobe(ANY_SOURCE, ANY_TAG)?, None);
    world.barrier()?;
    for (tag, length) in [0, 16, 4_000, 80_000, 1_000_000].into_iter().enumerate() {
        let named = |rank: u32| key(seed, &[u64::from(rank), tag as u64, 3]);
        let (data, tag) = (message(named(world.rank()), length), tag as i32);
        world.scope(|scope| {
            scope.isend(&data, next, tag)?;
            let found = world.probe(ANY_SOURCE, ANY_TAG)?;
            assert_eq!(found, Received { source: previous, tag, bytes: length as u64 });
            assert_eq!(found.count::<u64>(), length / 8);
            assert_eq!(world.iprobe(previous, ANY_TAG)?, Some(found));
            assert_eq!(world.iprobe(previous, tag + 1)?, None);
            let mut heard = vec![0; found.count::<u8>()];
            assert_eq!(world.recv(&mut heard, found.source, found.tag)?, found);
            check(named(previous), &heard);
            assert_eq!(world.iprobe(previous, tag)?, None);
            scope.wait_all()
        })?;
        // All messages of this tag arrive before any of the next.
        world.barrier()?;
    }
    Ok(())
}
