//! Small calls, one after the other: the calls that a rank can make in a second.

use hikyaku::{Error, Op, World};

/// Each rank passes eight bytes to the next, `rounds` times; every tenth time all add up.
pub(crate) fn run(world: &World, rounds: u64) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let mut token = [u64::from(rank)];
    for round in 1..=rounds {
        let mut heard = [0];
        world.sendrecv(&token, next, 1, &mut heard, previous, 1)?;
        token = [heard[0] + 1];
        if round % 10 == 0 {
            let mut sum = token;
            world.allreduce(&mut sum, Op::Sum)?;
            let ranks = u64::from(size);
            assert_eq!(sum[0], ranks * (ranks - 1) / 2 + ranks * round);
        }
    }
    Ok(())
}
