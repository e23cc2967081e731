//! Persistent collectives in virtual time: the work left for a wait after long computing.

use std::env;
use std::time::Duration;

use hikyaku::{Error, Op, Persistent, World};

/// Longer than any of them takes.
const LONG: Duration = Duration::from_millis(50);

/// Elements of each rank: more than shared lines have room for.
const LENGTH: usize = 3000;

/// Checks whether any rank has work left, against the variable `OFFLOADED`.
pub(crate) fn run(world: &World) -> Result<(), Error> {
    let (rank, size) = (u64::from(world.rank()), u64::from(world.size()));
    let root = world.size() / 2;
    let mut barrier = world.barrier_init();
    let mut broadcast = world.broadcast_init(vec![rank; LENGTH], root);
    let all = vec![0; LENGTH * size as usize];
    let mut allgather = world.allgather_init(vec![rank; LENGTH], all);
    let mut allreduce = world.allreduce_init(vec![rank; LENGTH], Op::Sum);
    let is_offloaded = env::var("OFFLOADED").is_ok();
    for _ in 0..3 {
        allreduce.buffers_mut()?.fill(rank);
        let left = [
            left(world, &mut barrier)?,
            left(world, &mut broadcast)?,
            left(world, &mut allgather)?,
            left(world, &mut allreduce)?,
        ];
        assert_eq!(left == [0; 4], is_offloaded, "ranks that have to wait, and for how long");
        assert_eq!(broadcast.buffers()?, &vec![u64::from(root); LENGTH]);
        let all = allgather.buffers()?.1.chunks(LENGTH);
        assert!(all.zip(0..size).all(|(block, rank)| block == vec![rank; LENGTH]));
        assert_eq!(allreduce.buffers()?, &vec![size * (size - 1) / 2; LENGTH]);
    }
    Ok(())
}

/// A round, with computing between its start and its wait: the longest wait of a rank, after one
/// poll, in nanoseconds, plus one if the poll has found it in flight.
fn left<B>(world: &World, operation: &mut Persistent<B>) -> Result<u64, Error> {
    world.barrier()?;
    operation.start()?;
    world.compute(LONG);
    let was_done = operation.test()?;
    let looked = world.now();
    operation.wait()?;
    let waited = world.now().nanoseconds() - looked.nanoseconds();
    let mut left = [waited + u64::from(!was_done)];
    world.allreduce(&mut left, Op::Max)?;
    Ok(left[0])
}
