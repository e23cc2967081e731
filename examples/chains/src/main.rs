//! Two programs of many short messages: `hikyaku run -n 8 -- chains transpose 3 16`.
//!
//! `crystal` is molecular dynamics of atoms that stay near their places, `transpose` the exchange
//! of two dimensions of an array, as between the steps of a Fourier transform. Ranks divide one,
//! two or three dimensions. All data that a rank sends in a step is one chain of puts (paper 004's
//! TCW chain) into memory that was named before, or with `each` as many single puts. The result is
//! compared bit by bit with the result of one rank alone.

mod crystal;
mod exchange;
mod grid;
mod transpose;

use std::process::ExitCode;

use hikyaku::{Error, Op, World};

use exchange::{Exchange, Tally};
use grid::Grid;

/// Exit code of an invalid command line.
const WRONG_USE: u8 = 2;

const USE: &str = "chains (crystal | transpose) DIMENSIONS SIDE [each]; the ranks divide 1, 2 or 3 \
                   dimensions of SIDE, and all are powers of two";

/// The command line.
struct Job {
    run: fn(&mut Exchange<'_>, &Grid, usize) -> Result<bool, Error>,
    name: &'static str,
    dimensions: usize,
    side: usize,
    /// Whether to put one by one.
    each: bool,
}

fn job() -> Option<Job> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (name, run): (_, fn(&mut Exchange<'_>, &Grid, usize) -> _) = match *words.first()? {
        "crystal" => ("crystal", crystal::run),
        "transpose" => ("transpose", transpose::run),
        _ => return None,
    };
    let each = match words.get(3) {
        None => false,
        Some(&"each") => true,
        Some(_) => return None,
    };
    let (dimensions, side) = (words.get(1)?.parse().ok()?, words.get(2)?.parse().ok()?);
    Some(Job { run, name, dimensions, side, each })
}

fn main() -> ExitCode {
    let Some(job) = job().filter(|job| job.side.is_power_of_two()) else {
        eprintln!("{USE}");
        return ExitCode::from(WRONG_USE);
    };
    match run(&job) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("chains: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(job: &Job) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let world = World::init()?;
    let (size, first) = (world.size(), world.rank() == 0);
    let Some(grid) = Grid::new(job.dimensions, size, job.side) else {
        if first {
            eprintln!("{USE}");
        }
        world.barrier()?;
        return Ok(ExitCode::from(WRONG_USE));
    };
    let mut exchange = Exchange::new(&world, job.each)?;
    let right = (job.run)(&mut exchange, &grid, job.side)?;
    let Tally { exchanges, puts, bytes, nanoseconds } = exchange.tally();
    let mut all = [u64::from(right)];
    world.allreduce(&mut all, Op::Sum)?;
    // A rank that keeps its own block sends nothing.
    let mut most = [puts / exchanges, bytes / puts.max(1), nanoseconds / exchanges];
    world.allreduce(&mut most, Op::Max)?;
    if first {
        let ([x, y, z], [puts, bytes, nanoseconds]) = (grid.ranks, most);
        println!(
            "{} on {x} x {y} x {z}: {} of {size} ranks have the right result",
            job.name, all[0]
        );
        println!("{puts} puts of {bytes} B in an exchange: {nanoseconds} ns");
    }
    Ok(if all[0] == u64::from(size) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
