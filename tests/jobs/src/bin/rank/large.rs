//! Messages whose length does not fit 31 bits, and messages the kernel copies, or will not.

use hikyaku::{Error, World};
use hikyaku_jobs::pattern::{check, fill, message};

/// One message of `length` bytes from rank 0 to rank 1, every word of it checked.
pub(crate) fn run(world: &World, length: u64) -> Result<(), Error> {
    let length = usize::try_from(length).unwrap();
    let mut data = vec![0u8; length];
    if world.rank() == 0 {
        fill(3, &mut data);
        return world.send(&data, 1, 0);
    }
    let received = world.recv(&mut data, 0, 0)?;
    assert_eq!(received.bytes, length as u64);
    check(3, &data);
    assert_eq!(world.statistics().bytes_received, length as u64);
    Ok(())
}

/// Long messages around a ring; each rank prints how many of them it read out of the sender's
/// memory, and how many both ends copied.
pub(crate) fn copies(world: &World) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    for length in [100_000, 1_000_000, 5_000_001] {
        let mut heard = vec![0; length];
        let data = message(u64::from(rank), length);
        world.sendrecv(&data, next, 0, &mut heard, previous, 0)?;
        check(u64::from(previous), &heard);
    }
    let statistics = world.statistics();
    println!("{} {}", statistics.direct_reads, statistics.joint_copies);
    Ok(())
}

/// One message from memory that ranks share; says whether its receiver copied it out of there.
/// Ranks that have too few processors do so from a smaller length on than others.
pub(crate) fn one_from_shared(world: &World, length: usize) -> Result<(), Error> {
    let mut shared = world.alloc(length)?;
    if world.rank() == 0 {
        fill(5, &mut shared);
        return world.send(&shared, 1, 0);
    }
    world.recv(&mut shared, 0, 0)?;
    check(5, &shared);
    println!("{}", world.statistics().direct_reads);
    Ok(())
}

/// Long messages of all ranks to the first at the same time, after many short ones, so that rings
/// are used up at odd places; ranks leave as soon as their part is away.
pub(crate) fn to_one(world: &World) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    for round in 0..150 {
        let mut heard = vec![0; 2056];
        let mine = message(u64::from(rank) << 32 | round, 2056);
        world.sendrecv(&mine, next, 0, &mut heard, previous, 0)?;
        check(u64::from(previous) << 32 | round, &heard);
    }
    for length in [70_001, 1 << 19] {
        let blocks = world.gatherv(&message(u64::from(rank), length + rank as usize), 0)?;
        for (from, block) in blocks.iter().flatten().enumerate() {
            assert_eq!(block.len(), length + from);
            check(from as u64, block);
        }
    }
    Ok(())
}
