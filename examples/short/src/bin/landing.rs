//! Control of landing rings (paper 000: receiver-managed landing). Rank 0 receives from all others:
//! often from rank 1, rarely from the rest. So it gives rank 1 a landing ring of its own, in which
//! no message waits for room because of others, and takes it back when rank 1 is done. With more
//! than 16 ranks, or by `hikyaku run --rings 1`, ranks share rings at first; with fewer each has
//! its own anyway.

use hikyaku::{Error, LandingError, World};

const REPORTS: usize = 100;

/// Rank 0's part: it directs sources, and receives.
fn hear(world: &World) -> Result<(), Error> {
    let landing = world.landing();
    let ring = landing.give(1)?;
    world.barrier()?;
    let mut report = [0u32; 256];
    for _ in 0..REPORTS {
        world.recv(&mut report, 1, 0)?;
    }
    let own = landing.ring(ring).expect("the ring that was given");
    println!("rank {:?} alone has landed {} B in its ring", own.sources, own.landed);
    // This works with messages in flight: a change loses nothing, and no message overtakes another.
    match landing.share(1) {
        Ok(ring) => {
            let sharing = landing.ring(ring).expect("it is there").sources.len();
            println!("rank 1 shares a ring again: with {} others", sharing - 1);
        }
        Err(Error::Landing(LandingError::NoneShared)) => println!("each rank keeps its ring"),
        Err(error) => return Err(error),
    }
    world.barrier()?;
    for rank in 1..world.size() {
        world.recv(&mut report, rank, 1)?;
        assert_eq!(report, [rank; 256]);
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let world = World::init()?;
    let (rank, size) = (world.rank(), world.size());
    if rank == 0 && size > 1 {
        hear(&world)?;
    } else {
        world.barrier()?;
        let report = [rank; 256];
        for _ in 0..if rank == 1 { REPORTS } else { 0 } {
            world.send(&report, 0, 0)?;
        }
        world.barrier()?;
        if rank > 0 {
            world.send(&report, 0, 1)?;
        }
    }
    Ok(())
}
