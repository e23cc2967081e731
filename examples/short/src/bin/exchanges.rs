//! Exchanges that are made once and started many times (MPI_Neighbor_alltoallv_init): a ring in
//! which every rank passes on the data it received. An exchange keeps the buffers it was made with,
//! and from `start` on it needs nothing of its ranks. A loop that uses other buffers in one
//! iteration has a second exchange for them. Both may be in flight, and each is waited for
//! separately.

use hikyaku::persistent::{Exchange, Neighbours};
use hikyaku::{Error, World};

const LENGTH: usize = 1_000;
const ITERATIONS: u32 = 100;

fn ring(world: &World) -> Result<Exchange<u32>, Error> {
    let (rank, size) = (world.rank(), world.size());
    let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);
    let (out, into) = (world.alloc(LENGTH)?, world.alloc(LENGTH)?);
    world.exchange_init(&Neighbours::even(&[left], &[right], LENGTH), out, into)
}

/// Copies the received data to the next outgoing data, plus one.
fn pass_on(exchange: &mut Exchange<u32>) -> Result<(), Error> {
    let (out, into) = exchange.buffers()?;
    out.iter_mut().zip(into).for_each(|(out, came)| *out = *came + 1);
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let world = World::init()?;
    let (mut usual, mut other) = (ring(&world)?, ring(&world)?);
    for iteration in 0..ITERATIONS {
        pass_on(&mut usual)?;
        usual.start()?;
        if iteration == 10 {
            // Started later, waited for earlier: the first one progresses by itself meanwhile.
            pass_on(&mut other)?;
            other.start()?;
            other.wait()?;
        }
        usual.wait()?;
    }
    let (_, came) = usual.buffers()?;
    let (_, once) = other.buffers()?;
    println!("rank {}: {} steps, and {} by the other exchange", world.rank(), came[0], once[0]);
    Ok(())
}
