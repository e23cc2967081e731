//! The ranks under test: `rank PROGRAM [WORDS]`.
//!
//! An assertion that fails ends the rank with code 101, which ends the job. An error that a
//! program does not expect is printed in one line with the rank, as programs do, and gives code 1.

#![allow(clippy::unwrap_used)]

mod apart;
mod bits;
mod calls;
mod carried;
mod closing;
mod combined;
mod crowded;
mod ends;
mod flood;
mod forked;
mod halves;
mod keepers;
mod landing;
mod large;
mod lone;
mod mixed;
mod offloaded;
mod polling;
mod protected;
mod ring;
mod scribbled;
mod staged;
mod strict;
mod survivors;
mod traffic;
mod variables;
mod victims;
mod waits;

use std::process::ExitCode;
use std::time::Duration;

use hikyaku::{Error, Op, World};
use hikyaku_jobs::process::{job_memory, own_memory};
use hikyaku_jobs::torture::{self, Plan, Verdict};

/// A program's word as a number.
fn number(word: Option<&String>) -> u64 {
    word.unwrap().parse().unwrap()
}

fn run(world: &World, words: &[String]) -> Result<ExitCode, Error> {
    let word = |at: usize| words.get(at);
    match words[0].as_str() {
        "agree" => agree(world)?,
        "weigh" => weigh(world)?,
        "apart" => apart::run(world, word(1).unwrap(), number(word(2)))?,
        "until-told" => apart::until_told(world, word(1).unwrap())?,
        "wait-for" => apart::wait_for(world, number(word(1)) as u32)?,
        "divided" => {
            calls::run_divided(world, number(word(1)), word(2).map_or("", String::as_str))?;
        }
        "calls" => calls::run(world, number(word(1)), word(2).map_or("", String::as_str))?,
        "bits" => bits::run(world, words)?,
        "closing" => closing::run(world, number(word(1)))?,
        "crowded" => crowded::run(world, words)?,
        "broadcasts" => crowded::broadcasts(world, number(word(1)), number(word(2)) as usize)?,
        "until-a-death" => crowded::until_a_death(world, number(word(1)) as usize)?,
        "leave" => crowded::leave(world)?,
        "polling" => polling::run(world)?,
        "halves" => halves::run(world)?,
        "hold" => crowded::hold(world, word(1).unwrap())?,
        "wait-in" => crowded::wait_in(world, word(1).unwrap())?,
        name if name.starts_with("flood") => flood::run(world, words)?,
        name if name.starts_with("landing-") => landing::run(world, words)?,
        "large" => large::run(world, number(word(1)))?,
        "huge" => large::huge(world)?,
        "large-until-a-death" => large::until_a_death(world)?,
        "copies" => large::copies(world)?,
        "carried" => carried::run(world)?,
        "one-from-shared" => large::one_from_shared(world, number(word(1)) as usize)?,
        "to-one" => large::to_one(world)?,
        "lone" => lone::run(world, number(word(1)) as usize)?,
        "lone-broadcast" => lone::broadcast(world, number(word(1)) as usize)?,
        "offloaded" => offloaded::run(world)?,
        name if name.starts_with("combined") => combined::run(world, words)?,
        "protected" => protected::run(world, word(1).unwrap())?,
        "mixed" => {
            mixed::run(world, number(word(1)), number(word(2)), number(word(3)) as usize)?;
        }
        "hand-off" => variables::hand_over(world)?,
        "queue" => variables::queue(world)?,
        "rows" => variables::rows(world, word(1).unwrap(), [2, 3].map(|at| number(word(at))))?,
        "crossed" => variables::crossed(world)?,
        "hurry" => variables::hurry(world)?,
        "abandoned" => variables::abandoned(world)?,
        "random-variables" => variables::random(world, number(word(1)))?,
        "victim" => victims::run(world, word(1).unwrap(), number(word(2)))?,
        "keep" => keepers::run(world)?,
        "survive" => survivors::run(world)?,
        "recover" => survivors::recover(world)?,
        "deadlock" => world.recv(&mut [0u8], 1 - world.rank(), 7).map(drop)?,
        "spin" => while world.iprobe(hikyaku::ANY_SOURCE, 7)?.is_none() {},
        "spin-beside" => spin_beside(world)?,
        "end" => return ends::run(world, word(1).unwrap()),
        "forked" => return forked::run(world),
        "ring" => ring::run(world, number(word(1)))?,
        "scribbled" => {
            scribbled::run(world, number(word(1)), number(word(2)), word(3).unwrap())?;
        }
        "staged-beside" => staged::beside(world)?,
        "staged" => staged::run(world, number(word(1)) as usize)?,
        "strict" => return strict::run(world),
        "torture" => torture(world, number(word(1)), number(word(2)) as u32)?,
        "waits" => waits::run(world)?,
        "traffic" => traffic::run(world, number(word(1)), number(word(2)))?,
        other => panic!("there is no program {other}"),
    }
    Ok(ExitCode::SUCCESS)
}

/// The first rank polls for a message that never arrives, the others wait for one.
fn spin_beside(world: &World) -> Result<(), Error> {
    match world.rank() {
        0 => while world.iprobe(hikyaku::ANY_SOURCE, 7)?.is_none() {},
        _ => world.recv(&mut [0u8], 0, 7).map(drop)?,
    }
    Ok(())
}

/// The minimal job: all ranks meet, and agree on one sum.
fn agree(world: &World) -> Result<(), Error> {
    world.barrier()?;
    let mut sum = [u64::from(world.rank())];
    world.allreduce(&mut sum, Op::Sum)?;
    let ranks = u64::from(world.size());
    assert_eq!(sum, [ranks * (ranks - 1) / 2]);
    Ok(())
}

/// Prints how much memory the job has once all have agreed, bytes: the memory that ranks share, and
/// each one's own pages and page tables.
fn weigh(world: &World) -> Result<(), Error> {
    agree(world)?;
    let mut bytes = [own_memory("RssAnon") + own_memory("VmPTE")];
    world.allreduce(&mut bytes, Op::Sum)?;
    if world.rank() == 0 {
        println!("{}", bytes[0] + job_memory());
    }
    Ok(())
}

/// Acquires shared variables at random; prints how often it wrote, read, was refused and cancelled.
fn torture(world: &World, seed: u64, turns: u32) -> Result<(), Error> {
    let plan = Plan { turns, elements: 700, patience: Duration::from_secs(60) };
    let verdict = torture::run(world, seed, plan)?;
    assert_eq!(verdict.broken, None, "by the seed {seed}");
    let Verdict { writes, reads, refused, dropped, .. } = verdict;
    println!("{writes} {reads} {refused} {dropped}");
    Ok(())
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let world = match World::init() {
        Ok(world) => world,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    run(&world, &words).unwrap_or_else(|error| {
        eprintln!("rank {}: {error}", world.rank());
        ExitCode::FAILURE
    })
}
