//! Messages whose length exceeds 31 bits, and messages that the kernel copies, or refuses to copy.

use std::pin::pin;
use std::task::{Context, Waker};

use hikyaku::{Error, MsgError, World};
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

/// One message from shared memory; prints whether its receiver copied it from there. Ranks with too
/// few processors do so from a smaller length on than others.
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

/// Bytes of a huge message, and of one during which a rank dies.
const HUGE: usize = 64 << 20;
const LESS: usize = HUGE - 8;
const KILLED_IN: usize = 16 << 20;

/// How often an operation is polled before it is abandoned.
const POLLS: [usize; 3] = [1, 3, 20];

const MARK: u8 = 0xa5;

/// Huge messages: to the own rank, into half the room, cancelled, and abandoned by either end after
/// some polls. Arrived messages are whole, and the next message arrives.
pub(crate) fn huge(world: &World) -> Result<(), Error> {
    let (rank, mut data, mut heard) = (world.rank(), vec![0; HUGE], vec![0; HUGE]);
    fill(u64::from(rank), &mut data);
    world.scope(|scope| {
        let heard = scope.irecv(&mut heard, rank, 1)?;
        scope.isend(&data, rank, 1)?.wait()?;
        heard.wait()
    })?;
    check(u64::from(rank), &heard);
    if rank == 0 {
        world.send(&data, 1, 2)?;
        let taken = world.scope(|scope| scope.isend(&data, 1, 3)?.cancel())?;
        world.send(&[u8::from(taken.is_some())], 1, 4)?;
        for polls in POLLS {
            poll(world.send_async(&data, 1, 5), polls);
            world.send(&data[..LESS], 1, 5)?;
            world.send(&data, 1, 6)?;
        }
        return world.send(&data[..8], 1, 7);
    }
    heard.fill(MARK);
    let (half, rest) = heard.split_at_mut(HUGE / 2);
    let (sent, room) = (HUGE as u64, half.len() as u64);
    let truncated = MsgError::Truncated { sent, room, source_rank: 0, tag: 2 };
    assert_eq!(world.recv(half, 0, 2), Err(truncated.into()));
    check(0, half);
    assert!(rest.iter().all(|byte| *byte == MARK), "beyond the room");
    let mut is_there = [0u8];
    world.recv(&mut is_there, 0, 4)?;
    if is_there == [1] {
        assert_eq!(whole(world, &mut heard, 3)?, HUGE);
    }
    assert_eq!(world.iprobe(0, 3)?, None);
    for polls in POLLS {
        // An abandoned message may have been matched by then, or be whole. The other one follows.
        let abandoned = Error::from(MsgError::Abandoned { source_rank: 0, tag: 5 });
        while match whole(world, &mut heard, 5) {
            Ok(length) => length != LESS,
            Err(error) => error == abandoned || panic!("{error}"),
        } {}
        world.probe(0, 6)?;
        poll(world.recv_async(&mut heard, 0, 6), polls);
    }
    world.recv(&mut heard[..8], 0, 7)?;
    check(0, &heard[..8]);
    Ok(())
}

/// Receives a message of rank 0, which has sent the first `length` bytes of its data.
fn whole(world: &World, heard: &mut [u8], tag: i32) -> Result<usize, Error> {
    heard.fill(MARK);
    let length = world.recv(heard, 0, tag)?.bytes as usize;
    check(0, &heard[..length]);
    Ok(length)
}

/// Polls an operation `polls` times, unless it completes, and abandons it.
fn poll(operation: impl Future, polls: usize) {
    let (mut operation, mut context) = (pin!(operation), Context::from_waker(Waker::noop()));
    let mut is_over = || operation.as_mut().poll(&mut context).is_ready();
    let _ = (0..polls).any(|_| is_over());
}

/// Messages of rank 0 to rank 1 until one of them dies. The other prints how many were whole.
pub(crate) fn until_a_death(world: &World) -> Result<(), Error> {
    let (rank, mut data) = (world.rank(), vec![0; KILLED_IN]);
    for number in 0.. {
        let outcome = match rank {
            0 => {
                fill(number, &mut data);
                world.send(&data, 1, 0)
            }
            _ => world.recv(&mut data, 0, 0).map(|received| {
                assert_eq!(received.bytes, KILLED_IN as u64);
                check(number, &data);
            }),
        };
        if let Err(error) = outcome {
            let is_death = matches!(error, Error::Message(MsgError::PeerFailed(_)));
            println!("{rank} {number} {}", if is_death { "told" } else { "wrong" });
            return Ok(());
        }
    }
    Ok(())
}

/// Long messages of all ranks to the first at the same time, after many short ones, so that rings
/// are used up at odd places; ranks leave as soon as their part is sent.
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
