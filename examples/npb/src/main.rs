//! The communication partners in six NAS Parallel Benchmarks: `hikyaku run -n 64 -- npb cg`.
//!
//! Each program computes a small problem with the benchmark's decomposition and messages, and
//! compares the result with that of one rank alone. The decompositions are those of the NPB 2
//! report (NAS-95-020); the arithmetic is not the benchmarks', and times mean nothing.
//!
//! ```text
//!   mg       4 x 4 x 4 blocks, periodic; at the coarsest level every second rank has a point left
//!   cg       8 x 8 blocks of the matrix: butterfly sums in a row, one partner across the diagonal
//!   is       all-to-all and reductions; one key to the next rank
//!   lu       8 x 8 pencils: wavefronts to the four neighbours
//!   sp, bt   multi-partition on 8 x 8: successor and predecessor in three directions
//! ```

mod cg;
mod is;
mod lu;
mod mg;
mod partition;

use std::process::ExitCode;

use hikyaku::{Error, Op, World};

/// A program: its name, the numbers of ranks it accepts, and the function that each rank runs,
/// which returns whether the result is right.
struct NasBenchmark {
    name: &'static str,
    ranks: RankNumbers,
    run: fn(&World) -> Result<bool, Error>,
}

/// Numbers of ranks that a decomposition accepts.
#[derive(Clone, Copy)]
enum RankNumbers {
    Any,
    /// The square of any number.
    Square,
    /// The square of a power of two.
    BinarySquare,
    /// The cube of a power of two.
    BinaryCube,
}

const PROGRAMS: [NasBenchmark; 6] = [
    NasBenchmark { name: "mg", ranks: RankNumbers::BinaryCube, run: mg::run },
    NasBenchmark { name: "cg", ranks: RankNumbers::BinarySquare, run: cg::run },
    NasBenchmark { name: "is", ranks: RankNumbers::Any, run: is::run },
    NasBenchmark { name: "lu", ranks: RankNumbers::Square, run: lu::run },
    NasBenchmark {
        name: "sp",
        ranks: RankNumbers::Square,
        run: |world| partition::run::<5>(world),
    },
    NasBenchmark {
        name: "bt",
        ranks: RankNumbers::Square,
        run: |world| partition::run::<30>(world),
    },
];

/// Exit code of an invalid command line.
const WRONG_USE: u8 = 2;

impl RankNumbers {
    fn takes(self, ranks: u32) -> bool {
        let side = side(ranks);
        let cube = (0..=10).any(|power| 1_u64 << (3 * power) == u64::from(ranks));
        match self {
            RankNumbers::Any => true,
            RankNumbers::Square => side * side == ranks as usize,
            RankNumbers::BinarySquare => side * side == ranks as usize && side.is_power_of_two(),
            RankNumbers::BinaryCube => cube,
        }
    }

    fn in_words(self) -> &'static str {
        match self {
            RankNumbers::Any => "any number of ranks",
            RankNumbers::Square => "1, 4, 9, 16, ... ranks",
            RankNumbers::BinarySquare => "1, 4, 16, 64, ... ranks",
            RankNumbers::BinaryCube => "1, 8, 64, ... ranks",
        }
    }
}

/// Ranks along a side of a square of them.
fn side(ranks: u32) -> usize {
    f64::from(ranks).sqrt() as usize
}

fn main() -> ExitCode {
    let name = std::env::args().nth(1).unwrap_or_default();
    let Some(program) = PROGRAMS.iter().find(|program| program.name == name) else {
        eprintln!("npb: `{name}` is no program: mg, cg, is, lu, sp or bt");
        return ExitCode::from(WRONG_USE);
    };
    match run(program) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("npb: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(program: &NasBenchmark) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let world = World::init()?;
    let (size, first) = (world.size(), world.rank() == 0);
    if !program.ranks.takes(size) {
        if first {
            eprintln!("npb: {} takes {}, not {size}", program.name, program.ranks.in_words());
        }
        world.barrier()?;
        return Ok(ExitCode::from(WRONG_USE));
    }
    let right = (program.run)(&world)?;
    let mut all = [u32::from(right)];
    world.allreduce(&mut all, Op::Sum)?;
    if first {
        println!("{}: {} of {size} ranks have the right result", program.name, all[0]);
    }
    Ok(if all[0] == size { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
