//! The time of a round of a persistent exchange with each scheme: a command queue for each
//! neighbour (FAST), one for all (MRC), and the traffic between nodes combined into one put.
//! Neighbours are all ranks of the other nodes, or the eight around in a plane of which a node is a
//! row.
//!
//! `hikyaku simulate -m fx100-tofu2 -n 16 --ranks-per-node 4 -- target/release/schemes`

use hikyaku::persistent::{Neighbours, Scheme};
use hikyaku::{Error, Op, World};

const ROUNDS: u32 = 20;

/// The ranks of all other nodes.
fn others(world: &World) -> Vec<u32> {
    (0..world.size()).filter(|rank| world.node_of(*rank) != world.node()).collect()
}

/// The eight around, in rows of as many ranks as a node has; the plane is closed both ways.
fn around(world: &World) -> Vec<u32> {
    let row = world.size() / world.nodes();
    let rows = world.size() / row;
    let (y, x) = (world.rank() / row, world.rank() % row);
    let steps = (0..9).filter(|step| *step != 4);
    let rank = |step: u32| (y + rows + step / 3 - 1) % rows * row + (x + row + step % 3 - 1) % row;
    steps.map(rank).collect()
}

/// Microseconds of a round with edges of `bytes` bytes, of the slowest rank.
fn round(world: &World, neighbours: &[u32], scheme: Scheme, bytes: usize) -> Result<f64, Error> {
    // Data that leaves to one side arrives from the other.
    let from: Vec<u32> = neighbours.iter().rev().copied().collect();
    let mut edges = Neighbours::even(&from, neighbours, bytes);
    edges.scheme = Some(scheme);
    let buffer = || world.alloc::<u8>(neighbours.len() * bytes);
    let mut exchange = world.exchange_init(&edges, buffer()?, buffer()?)?;
    exchange.outgoing_mut()?.fill(world.rank() as u8);
    world.barrier()?;
    let begin = world.now();
    for _ in 0..ROUNDS {
        exchange.start()?;
        exchange.wait()?;
    }
    let took = (world.now().nanoseconds() - begin.nanoseconds()) as f64;
    let came = exchange.incoming()?;
    assert!(came.chunks(bytes).zip(&from).all(|(block, rank)| block == vec![*rank as u8; bytes]));
    exchange.free()?;
    let mut longest = [took / f64::from(ROUNDS) / 1000.0];
    world.allreduce(&mut longest, Op::Max)?;
    Ok(longest[0])
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let world = World::init()?;
    if !world.size().is_multiple_of(world.nodes()) {
        return Err("every node must have as many ranks".into());
    }
    for (name, neighbours) in [("others", others(&world)), ("around", around(&world))] {
        for bytes in [8, 256, 4096] {
            let mut line = format!("{name}: {} edges of {bytes} B:", neighbours.len());
            for scheme in [Scheme::Fast, Scheme::Mrc, Scheme::Combined] {
                let took = round(&world, &neighbours, scheme, bytes)?;
                line += &format!(" {scheme:?} {took:.2} us").to_lowercase();
            }
            if world.rank() == 0 {
                println!("{line}");
            }
        }
    }
    Ok(())
}
