//! The message that a receive gets: order, tags, wildcards, communicators.

use hikyaku::{ANY_SOURCE, ANY_TAG, Error, MsgError, Received, World};
use hikyaku_jobs::Random;
use hikyaku_jobs::pattern::{check, fill, key, message};

use super::{around, is_first, partner};

/// Lengths on all sides of every change of protocol: inline, one packet, several packets,
/// rendezvous, larger than any ring.
const LENGTHS: [usize; 14] = [
    0, 1, 40, 41, 100, 4_095, 8_192, 20_000, 65_535, 65_536, 65_537, 200_000, 1_048_579, 3_145_728,
];

/// All ranks send to the next and receive from the previous at once.
pub(super) fn ring(world: &World, seed: u64) -> Result<(), Error> {
    let (next, previous) = around(world, 1);
    for (tag, length) in LENGTHS.into_iter().enumerate() {
        let named = |rank: u32| key(seed, &[u64::from(rank), tag as u64]);
        let data = message(named(world.rank()), length);
        let mut heard = vec![0; length];
        let tag = tag as i32;
        let received = world.sendrecv(&data, next, tag, &mut heard, previous, tag)?;
        assert_eq!(received, Received { source: previous, tag, bytes: length as u64 });
        check(named(previous), &heard);
    }
    Ok(())
}

/// Blocking sends and receives only; each rank adds its number to a circulating sum.
pub(super) fn token(world: &World, _: u64) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    if size == 1 {
        return Ok(());
    }
    let (next, previous) = around(world, 1);
    let mut sum = [0u64];
    for round in 0..20 {
        if rank > 0 {
            world.recv(&mut sum, previous, round)?;
        }
        sum[0] += u64::from(rank);
        world.send(&sum, next, round)?;
        if rank == 0 {
            world.recv(&mut sum, previous, round)?;
            let once = u64::from(size * (size - 1) / 2);
            assert_eq!(sum[0], once * (round as u64 + 1));
        }
    }
    Ok(())
}

const TOKEN: i32 = 1000;
const EAGER_LENGTHS: [usize; 3] = [8, 5_000, 60_000];

/// A token makes the ranks send one after the other while rank 0 is outside the library: it then
/// finds the messages in that order (MPI promises less, this library does not).
pub(super) fn wildcards_in_order(world: &World, seed: u64) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    if size == 1 {
        return Ok(());
    }
    let (next, previous) = around(world, 1);
    if rank > 0 {
        world.recv::<u8>(&mut [], previous, TOKEN)?;
        for (tag, length) in EAGER_LENGTHS.into_iter().enumerate() {
            let data = message(key(seed, &[u64::from(rank), tag as u64]), length);
            world.send(&data, 0, tag as i32)?;
        }
        return world.send::<u8>(&[], next, TOKEN);
    }
    world.send::<u8>(&[], next, TOKEN)?;
    world.recv::<u8>(&mut [], previous, TOKEN)?;
    let mut heard = vec![0; 60_000];
    let expect = |source: u32, tag: usize, received: Received| {
        let length = EAGER_LENGTHS[tag];
        assert_eq!(received, Received { source, tag: tag as i32, bytes: length as u64 });
    };
    // The middle messages of all, then everything of the last rank, then the rest.
    for source in 1..size {
        let received = world.recv(&mut heard, ANY_SOURCE, 1)?;
        expect(source, 1, received);
        check(key(seed, &[u64::from(source), 1]), &heard[..5_000]);
    }
    for tag in [0, 2] {
        expect(size - 1, tag, world.recv(&mut heard, size - 1, ANY_TAG)?);
    }
    for source in 1..size - 1 {
        for tag in [0, 2] {
            expect(source, tag, world.recv(&mut heard, ANY_SOURCE, ANY_TAG)?);
            check(key(seed, &[u64::from(source), tag as u64]), &heard[..EAGER_LENGTHS[tag]]);
        }
    }
    Ok(())
}

/// Messages that each stream sends at once.
const STREAM: usize = 24;

/// Long and short messages of one stream, received in the order in which they were sent however
/// differently they travel (MPI 5.0 §3.5): from ordinary and from shared memory, into both.
pub(super) fn no_overtaking(world: &World, seed: u64) -> Result<(), Error> {
    let mut distances = vec![0, 1, 2, world.size() - 1];
    distances.retain(|distance| *distance < world.size());
    distances.dedup();
    for distance in distances {
        let (to, from) = around(world, distance);
        let lengths = |rank: u32| {
            let mut random = Random::new(key(seed, &[u64::from(rank), 77]));
            (0..STREAM).map(|_| random.pick(&LENGTHS)).collect::<Vec<usize>>()
        };
        let (mine, theirs) = (lengths(world.rank()), lengths(from));
        let named = |rank: u32, at: usize| key(seed, &[u64::from(rank), at as u64, 5]);
        let ordinary: Vec<Vec<u8>> = mine
            .iter()
            .enumerate()
            .map(|(at, length)| message(named(world.rank(), at), *length))
            .collect();
        let longest = LENGTHS.into_iter().max().unwrap();
        let (mut shared, mut into_shared) = (world.alloc(longest)?, world.alloc(longest)?);
        fill(named(world.rank(), STREAM), &mut shared);
        let mut heard = vec![0; longest];
        world.scope(|scope| {
            for data in &ordinary {
                scope.isend(data, to, 3)?;
            }
            scope.isend(&shared, to, 3)?;
            for (at, length) in theirs.iter().copied().chain([longest]).enumerate() {
                let into = if at % 3 == 2 { &mut into_shared[..] } else { &mut heard[..] };
                let received = world.recv(into, from, 3)?;
                assert_eq!(received.bytes, length as u64, "message {at}");
                check(named(from, at), &into[..length]);
            }
            scope.wait_all()
        })?;
    }
    Ok(())
}

/// The same envelope on another communicator is another message (MPI 5.0 §7.2).
pub(super) fn duplicates_are_apart(world: &World, _: u64) -> Result<(), Error> {
    let (other, third) = (world.duplicate(), world.duplicate());
    let (next, previous) = around(world, 1);
    let mut heard = [0u32];
    for (communicator, value) in [(&third, 3), (&other, 2), (world, 1)] {
        communicator.send(&[value], next, 9)?;
    }
    for (communicator, value) in [(world, 1), (&other, 2), (&third, 3)] {
        let received = communicator.recv(&mut heard, ANY_SOURCE, ANY_TAG)?;
        assert_eq!((received.source, heard), (previous, [value]));
    }
    let mut sums = [[1u64], [10], [100]];
    other.allreduce(&mut sums[1], hikyaku::Op::Sum)?;
    world.allreduce(&mut sums[0], hikyaku::Op::Sum)?;
    third.allreduce(&mut sums[2], hikyaku::Op::Sum)?;
    let size = u64::from(world.size());
    assert_eq!(sums, [[size], [10 * size], [100 * size]]);
    Ok(())
}

/// A rank may send to itself: the receive first, or a message short enough to wait.
pub(super) fn to_itself(world: &World, seed: u64) -> Result<(), Error> {
    let own = world.rank();
    for length in [0, 40, 5_000, 65_536] {
        let data = message(key(seed, &[length as u64]), length);
        world.send(&data, own, 1)?;
        let mut heard = vec![0; length];
        world.recv(&mut heard, ANY_SOURCE, 1)?;
        assert_eq!(heard, data);
    }
    let (data, mut heard) = (message(seed, 2_000_000), vec![0; 2_000_000]);
    world.scope(|scope| {
        let receive = scope.irecv(&mut heard, own, 2)?;
        scope.isend(&data, own, 2)?.wait()?;
        receive.wait()
    })?;
    check(seed, &heard);
    let waits = Err(Error::Message(MsgError::WaitsForItself { rank: own }));
    assert_eq!(world.send(&data, own, 2), waits);
    assert_eq!(world.recv(&mut heard, own, 2).map(|_| ()), waits);
    assert_eq!(world.ssend(&[1u8], own, 2), waits);
    // Nothing of this is left that another rank's message could match.
    if let Some(partner) = partner(world) {
        if is_first(world) {
            world.send(&[7u8], partner, 2)?;
        } else {
            world.recv(&mut heard, partner, 2)?;
            assert_eq!(heard[0], 7);
        }
    }
    Ok(())
}
