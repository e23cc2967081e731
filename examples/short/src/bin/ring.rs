//! A ring: every rank hears from the one before it, and all agree on a sum.

use hikyaku::{Op, World};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let world = World::init()?;
    let (rank, size) = (world.rank(), world.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let mut heard = [0];
    world.sendrecv(&[rank], next, 0, &mut heard, previous, 0)?;
    world.allreduce(&mut heard, Op::Sum)?;
    println!("rank {rank} of {size}: sum {}", heard[0]);
    Ok(())
}
