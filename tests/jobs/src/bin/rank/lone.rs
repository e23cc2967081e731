//! One message or broadcast among ranks without other work: its cost in virtual time.

use std::time::Duration;

use hikyaku::{Error, World};
use hikyaku_jobs::pattern::{check, message};

/// A message of `length` bytes from rank 0 to rank 1, which waits for it; rank 0 prints the time of
/// the send, rank 1 that of the arrival.
pub(crate) fn run(world: &World, length: usize) -> Result<(), Error> {
    let mut data = message(1, length);
    if world.rank() == 0 {
        world.compute(Duration::from_millis(1));
        println!("sent {}", world.now().picoseconds());
        return world.send(&data, 1, 0);
    }
    data.fill(0);
    world.recv(&mut data, 0, 0)?;
    println!("had {}", world.now().picoseconds());
    check(1, &data);
    Ok(())
}

/// A broadcast of `length` bytes by rank 0 to all others, which wait for it; rank 0 prints the time
/// of the start, the others that of the arrival.
pub(crate) fn broadcast(world: &World, length: usize) -> Result<(), Error> {
    let mut data = message(1, length);
    // The first call agrees on how the others are done.
    world.broadcast(&mut data, 0)?;
    world.compute(Duration::from_millis(1));
    if world.rank() == 0 {
        println!("sent {}", world.now().picoseconds());
    } else {
        data.fill(0);
    }
    world.broadcast(&mut data, 0)?;
    println!("had {}", world.now().picoseconds());
    check(1, &data);
    Ok(())
}
