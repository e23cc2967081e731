//! One exchange between buffers in ordinary memory, of parts of a given length, around a ring.

use hikyaku::persistent::Neighbours;
use hikyaku::{Error, World};

/// Each rank sends `length` elements both ways, once.
pub(crate) fn run(world: &World, length: usize) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    let (right, left) = ((rank + 1) % size, (rank + size - 1) % size);
    let neighbours = Neighbours::even(&[left, right], &[right, left], length);
    let mut exchange = world.staged_exchange_init::<u64>(&neighbours)?;
    let contents = |rank: u32, side: u64| {
        (0..length as u64).map(move |at| u64::from(rank) << 32 | side << 31 | at)
    };
    let data: Vec<u64> = contents(rank, 0).chain(contents(rank, 1)).collect();
    let mut heard = vec![0; 2 * length];
    exchange.start_from(&data)?;
    exchange.wait_into(&mut heard)?;
    // A rank's first part goes to its right.
    assert!(heard.iter().copied().eq(contents(left, 0).chain(contents(right, 1))));
    exchange.free()?;
    world.barrier()
}

/// Rank 0 waits in an exchange for rank 1, which waits for a barrier that rank 0 has started: the
/// barrier progresses while rank 0 waits.
pub(crate) fn beside(world: &World) -> Result<(), Error> {
    let (rank, other) = (world.rank(), world.duplicate());
    let with: &[u32] = [&[1][..], &[0], &[]][rank.min(2) as usize];
    let mut exchange = world.staged_exchange_init::<u64>(&Neighbours::even(with, with, 4))?;
    let (data, mut heard) = (vec![u64::from(rank); 4], vec![9; 4]);
    let (data, heard_from) = (&data[..with.len() * 4], &mut heard[..with.len() * 4]);
    other.scope(|scope| {
        let barrier = scope.ibarrier();
        if rank != 0 {
            barrier.wait()?;
        }
        exchange.start_from(data)?;
        exchange.wait_into(heard_from)
    })?;
    assert!(rank > 1 || heard == [1 - u64::from(rank); 4], "{heard:?}");
    exchange.free()?;
    world.barrier()
}
