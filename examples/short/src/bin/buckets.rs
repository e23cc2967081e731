//! A receiver chooses where data lands (paper 003: address registers). Every rank draws numbers and
//! gives each to the rank that sorts its range. Nobody counts them first or asks for a place: each
//! rank points a register at the begin of its part, and every put moves the register on.

use hikyaku::{Advance, Op, World};

const NUMBERS: u32 = 1000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let world = World::init()?;
    let (rank, size) = (world.rank(), world.size());
    let mut buckets = vec![Vec::new(); size as usize];
    let mut sums = [0, 0];
    let mut number = u64::from(rank) + 1;
    for _ in 0..NUMBERS {
        number = number * 48_271 % 0x7fff_ffff;
        let bucket = number * u64::from(size) / 0x7fff_ffff;
        buckets[bucket as usize].push(number);
        sums[0] += number;
    }

    let mine = world.window::<u64>((NUMBERS * size) as usize)?;
    mine.set_address_register(0, Some((0, Advance::ByLength)))?;
    world.barrier()?;
    for (owner, numbers) in (0..size).zip(&buckets) {
        mine.put_through(owner, 0, numbers)?;
    }
    world.barrier()?;

    let count = mine.address_register(0)?.unwrap_or(0);
    let mut sorted = mine.local()?;
    sorted.truncate(count);
    sorted.sort_unstable();
    sums[1] = sorted.iter().sum();
    world.allreduce(&mut sums, Op::Sum)?;
    assert_eq!(sums[0], sums[1], "every number has arrived once");
    let least = sorted.first().copied().unwrap_or_default();
    println!("rank {rank}: {count} numbers from {least} on");
    world.barrier()?;
    Ok(())
}
