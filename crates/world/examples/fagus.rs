//! The program of paper 001's Figs. 7 and 8, and the cost of a hand-off.
//!
//! ```console
//! $ cargo build --release --example fagus
//! $ hikyaku run -n 2 --ranks-per-node 1 -- target/release/examples/fagus 1024,8192 4,32
//! $ hikyaku run -n 2 --ranks-per-node 1 -- target/release/examples/fagus hand-off
//! $ hikyaku simulate -m dimmnet1 -n 2 -- target/release/examples/fagus 64 4,32 direct,fagus
//! ```
//!
//! Rows of an array are variables. In every round each of two ranks writes the rows of one parity,
//! in the next round those of the other, with a barrier between. From the second round on each
//! acquire moves the row and its ownership. Prints one line of CSV for each given number of
//! variables, size (KiB) and protocol (all, or those that the last word names). `hand-off` times a
//! strict alternation with 4 KiB, and acquires whose owner computes for a millisecond.

use std::error::Error;
use std::hint::black_box;

use hikyaku::World;
use hikyaku::shared::{Parts, Protocol, SharedOptions};

/// Rounds that move every row, after the first.
const ROUNDS: u64 = 4;

/// Turns of the alternation.
const TURNS: u64 = 200;

/// Computing time of an owner, nanoseconds.
const COMPUTING: u64 = 1_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let world = World::init()?;
    let words: Vec<String> = std::env::args().skip(1).collect();
    let hands_over = words.first().is_some_and(|word| word == "hand-off");
    let protocols: Vec<Protocol> = match words.get(if hands_over { 1 } else { 2 }) {
        Some(names) => names.split(',').map(str::parse).collect::<Result<_, _>>()?,
        None => Protocol::ALL.to_vec(),
    };
    if hands_over {
        return hand_over(&world, &protocols);
    }
    let numbers = |at: usize, default: &str| -> Result<Vec<u64>, std::num::ParseIntError> {
        let given = words.get(at).map_or(default, String::as_str);
        given.split(',').map(str::parse).collect()
    };
    let (counts, sizes) = (numbers(0, "1024")?, numbers(1, "4")?);
    if world.rank() == 0 {
        println!("protocol,variables,kib,seconds,messages,remote,bytes");
    }
    for variables in &counts {
        for kib in &sizes {
            for protocol in &protocols {
                figure_8(&world, *protocol, *variables, *kib)?;
            }
        }
    }
    Ok(())
}

/// The program of the figure.
fn figure_8(
    world: &World,
    protocol: Protocol,
    variables: u64,
    kib: u64,
) -> Result<(), Box<dyn Error>> {
    let (rank, size) = (u64::from(world.rank()), u64::from(world.size()));
    let columns = (kib << 10) / 8;
    let options = SharedOptions {
        parts: Parts::Rows(1),
        protocol: Some(protocol),
        ..SharedOptions::default()
    };
    let array = world.shared_with::<f64>("array", &[variables, columns], options)?;
    let mut started = world.now();
    let mut before = array.traffic();
    for round in 0..=ROUNDS {
        for row in (0..variables).filter(|row| (row + round) % size == rank) {
            let mut guard = array.part(row)?.write()?;
            let value = guard[0] + 1.0;
            black_box(&mut guard).fill(value);
        }
        world.barrier()?;
        if round == 0 {
            (started, before) = (world.now(), array.traffic());
        }
    }
    let after = array.traffic();
    let seconds = (world.now() - started).nanoseconds() as f64 * 1e-9;
    for row in 0..variables {
        assert_eq!(array.part(row)?.read()?[0], (ROUNDS + 1) as f64, "row {row} (FG-20)");
    }
    let mut all = [
        after.messages - before.messages,
        after.remote - before.remote,
        after.bytes - before.bytes,
    ];
    world.allreduce(&mut all, hikyaku::Op::Sum)?;
    if rank == 0 {
        let [messages, remote, bytes] = all;
        println!("{protocol},{variables},{kib},{seconds:.6},{messages},{remote},{bytes}");
    }
    Ok(())
}

/// Times of one acquire of 4 KiB that the other rank has written last, with an owner that is idle
/// (waits in a call) and with one that computes.
fn hand_over(world: &World, protocols: &[Protocol]) -> Result<(), Box<dyn Error>> {
    for protocol in protocols.iter().copied() {
        let options = SharedOptions { protocol: Some(protocol), ..SharedOptions::default() };
        let shared = world.shared_with::<u64>("hand-off", &[512], options)?;
        for computes in [false, true] {
            let mut times = Vec::new();
            for turn in 0..TURNS {
                let asks = turn % 2 == u64::from(world.rank());
                world.barrier()?;
                if asks {
                    let started = world.now();
                    let mut guard = shared.write()?;
                    times.push((world.now() - started).nanoseconds());
                    guard.fill(turn);
                } else if computes {
                    let until = world.now().nanoseconds() + COMPUTING;
                    while world.now().nanoseconds() < until {}
                }
                world.barrier()?;
            }
            times.sort_unstable();
            if world.rank() == 0 {
                let owner = if computes { "computing" } else { "waiting" };
                println!("{protocol},{owner},{} ns", times[times.len() / 2]);
            }
        }
    }
    Ok(())
}
