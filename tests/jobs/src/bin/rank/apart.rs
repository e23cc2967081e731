//! Programs on several hosts, each checked against its expected result.
//!
//! With 0 rounds they continue until something fails.

use std::path::Path;
use std::time::{Duration, Instant};

use hikyaku::{ANY_SOURCE, Error, Op, World};
use hikyaku_jobs::net::now;

/// Runs `program` for this many rounds.
pub(crate) fn run(world: &World, program: &str, rounds: u64) -> Result<(), Error> {
    let mut round = 0;
    while rounds == 0 || round < rounds {
        match program {
            "ring" => super::ring::run(world, 20)?,
            "halo" => halo(world, round)?,
            "queue" => queue(world)?,
            "sums" => sums(world, round)?,
            "clocks" => clocks(world)?,
            other => panic!("there is no program {other}"),
        }
        round += 1;
    }
    if world.rank() == 0 {
        println!("right");
    }
    Ok(())
}

/// Cells of a rank's part. The edges of every tenth round are long messages.
fn cells(round: u64) -> (usize, usize) {
    if round % 10 == 9 { (30_000, 20_000) } else { (64, 1) }
}

/// A field on a circle, in parts: each cell becomes a sum of the cells `edge` beside it. Compared
/// with the whole, which each rank computes.
fn halo(world: &World, round: u64) -> Result<(), Error> {
    let (length, edge) = cells(round);
    let (rank, size) = (world.rank() as usize, world.size() as usize);
    let next = ((rank + 1) % size) as u32;
    let previous = ((rank + size - 1) % size) as u32;
    let mut whole: Vec<u64> = (0..(length * size) as u64).map(|cell| cell * cell + round).collect();
    let mut own = whole[rank * length..][..length].to_vec();
    for _ in 0..3 {
        let (mut left, mut right) = (vec![0; edge], vec![0; edge]);
        world.sendrecv(&own[length - edge..], next, 1, &mut left, previous, 1)?;
        world.sendrecv(&own[..edge], previous, 2, &mut right, next, 2)?;
        own = step(&[&left[..], &own, &right].concat(), edge);
        let around = [&whole[whole.len() - edge..], &whole, &whole[..edge]].concat();
        whole = step(&around, edge);
    }
    assert!(own == whole[rank * length..][..length], "rank {rank} in round {round}");
    Ok(())
}

/// The next field, from one that has `edge` cells more at each end.
fn step(field: &[u64], edge: usize) -> Vec<u64> {
    let sum = |at: usize| {
        field[at - edge].wrapping_add(field[at].wrapping_mul(3)).wrapping_add(field[at + edge])
    };
    (edge..field.len() - edge).map(sum).collect()
}

/// Rank 0 hands out numbers to idle ranks, and gets their squares.
fn queue(world: &World) -> Result<(), Error> {
    if world.rank() == 0 {
        hand_out(world)?;
    } else {
        work(world)?;
    }
    // No rank asks for work of the next round before this one is over.
    world.barrier()
}

fn work(world: &World) -> Result<(), Error> {
    let (mut word, mut task) = ([0u64; 2], [0u64]);
    loop {
        world.send(&word, 0, 3)?;
        world.recv(&mut task, 0, 4)?;
        if task == [0] {
            return Ok(());
        }
        word = [1, task[0] * task[0]];
    }
}

fn hand_out(world: &World) -> Result<(), Error> {
    const TASKS: u64 = 60;
    let others = u64::from(world.size()) - 1;
    let (mut sum, mut done) = (0, 0);
    for turn in 0..TASKS + others {
        let mut word = [0u64; 2];
        let worker = world.recv(&mut word, ANY_SOURCE, 3)?.source;
        (done, sum) = (done + word[0], sum + word[1]);
        let task = if turn < TASKS { turn + 1 } else { 0 };
        world.send(&[task], worker, 4)?;
    }
    assert_eq!((done, sum), (TASKS, TASKS * (TASKS + 1) * (2 * TASKS + 1) / 6));
    Ok(())
}

/// Collectives of a few lengths.
fn sums(world: &World, round: u64) -> Result<(), Error> {
    let (rank, size) = (u64::from(world.rank()), u64::from(world.size()));
    for length in [1, 1_000, 30_000] {
        let mut sum = vec![rank + round; length];
        world.allreduce(&mut sum, Op::Sum)?;
        assert!(sum.iter().all(|&it| it == size * (size - 1) / 2 + size * round));
    }
    world.barrier()
}

/// The delay of each rank after the one before.
const LATER: Duration = Duration::from_millis(5);

/// Ranks arrive one after another at a barrier, after which each times a broadcast by its own
/// clock, unrelated to the others'. All this happens after the last one has arrived.
fn clocks(world: &World) -> Result<(), Error> {
    let begun = Instant::now();
    while begun.elapsed() < LATER * world.rank() {
        std::thread::yield_now();
    }
    let came = now().as_nanos() as u64;
    world.barrier()?;
    let start = world.now();
    world.broadcast(&mut [7u8; 1024], 0)?;
    let measured = world.now() - start;
    let end = now().as_nanos() as u64;
    let mut last = [came];
    world.allreduce(&mut last, Op::Max)?;
    let (measured, since) = (measured.nanoseconds(), end - last[0]);
    assert!(measured <= since, "rank {}: {measured} ns, and {since} ns", world.rank());
    Ok(())
}

/// All programs run until a file exists, and continue correctly for a while. Then each rank waits
/// for something that never arrives.
pub(crate) fn until_told(world: &World, file: &str) -> Result<(), Error> {
    let (mut round, mut told) = (0, [0u8]);
    while told == [0] {
        halo(world, round)?;
        sums(world, round)?;
        if (world.rank(), round) == (0, 0) {
            println!("begun");
        }
        told[0] = u8::from(Path::new(file).exists());
        world.broadcast(&mut told, 0)?;
        round += 1;
    }
    for round in 0..20 {
        halo(world, round)?;
        sums(world, round)?;
    }
    if world.rank() == 0 {
        println!("right");
    }
    world.recv(&mut [0u8], (world.rank() + 1) % world.size(), 9).map(drop)
}

/// Every rank waits for `victim`, which waits for its neighbour; prints the error and its time.
pub(crate) fn wait_for(world: &World, victim: u32) -> Result<(), Error> {
    world.barrier()?;
    println!("waits {}", world.rank());
    let rank = world.rank();
    let source = if rank == victim { (rank + 1) % world.size() } else { victim };
    let told = world.recv(&mut [0u8], source, 9);
    println!("told {rank} {} {}", now().as_millis(), told.as_ref().err().unwrap());
    told.map(drop)
}
