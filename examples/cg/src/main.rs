//! The command line: `hikyaku run -n 4 -- cg MATRIX.mtx`.
//!
//! Rank 0 reads, checks and prints; the others compute. Exit codes: 0 done; 1 it did not converge,
//! the check failed, the page could not be written, or another rank failed; 2 bad input, reported
//! in one line on the standard error stream before any other rank ends.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use cg::csr::Csr;
use cg::exchange::{self, Load, Product};
use cg::local::Local;
use cg::partition::Partition;
use cg::report::{self, SerialComparison, Solution, SolverRun};
use cg::solver::{self, Limits};
use cg::{matrix_market, serial};
use clap::Parser;
use hikyaku::{Error, World};
use kit::exchange::ExchangeKind;
use kit::program::{BAD_INPUT, ExampleProgram, FAILED, ROOT, read_file};
use kit::times::{Stopwatch, Times};

const CG: ExampleProgram = ExampleProgram("cg");

/// Longest file that is read, bytes.
const MAX_BYTES: u64 = 4 << 30;

/// Solves a sparse symmetric positive definite system on as many ranks as it is started with.
///
/// The right side is the matrix times a known vector. `hikyaku run -n 4 -- cg mesh.mtx` runs it on
/// 4 ranks; without `hikyaku run` it is one.
#[derive(Debug, Parser)]
#[command(version)]
struct CgArgs {
    /// The matrix, a Matrix Market coordinate file
    matrix: PathBuf,
    /// Stop when the residual is so small relative to the right side
    #[arg(long, value_name = "NUMBER", default_value = "1e-10", value_parser = tolerance)]
    tolerance: f64,
    /// Make this many iterations at most
    #[arg(long, value_name = "N", default_value = "10000")]
    iterations: u64,
    /// How ranks exchange entries; several, separated by commas, are run one after the other
    #[arg(
        long,
        value_name = "KIND",
        value_enum,
        value_delimiter = ',',
        default_value = "nonblocking"
    )]
    exchange: Vec<ExchangeKind>,
    /// Run the serial solver as well and compare
    #[arg(long)]
    check: bool,
    /// Write a page about the run
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

fn tolerance(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if number > 0.0 && number < 1.0 => Ok(number),
        _ => Err("it must be a number between 0 and 1".into()),
    }
}

fn main() -> ExitCode {
    CG.run(run)
}

/// The whole run, on each rank.
fn run(world: &World, args: &CgArgs) -> Result<ExitCode, Error> {
    let matrix = if world.rank() == ROOT { read(&args.matrix) } else { None };
    let partition = matrix.as_ref().map(|matrix| Partition::new(matrix, world.size()));
    let Some(partition) = exchange::announce(world, partition.as_ref())? else {
        return Ok(ExitCode::from(BAD_INPUT));
    };
    let rows = exchange::distribute(world, &partition, matrix.as_ref())?;
    let local = Local::new(&rows, &partition, world.rank());
    let loads = exchange::loads(world, &local)?;
    let mut solved = Vec::new();
    for kind in &args.exchange {
        match solve(world, args, &partition, &local, *kind)? {
            Some(one) => solved.push(one),
            None => return not_positive_definite(world),
        }
    }
    let (Some(matrix), Some(loads)) = (matrix, loads) else {
        return Ok(ExitCode::SUCCESS); // not rank 0
    };
    Ok(finish(args, &matrix, &loads, solved.into_iter().flatten().collect()))
}

/// An entry of the known solution.
fn exact(row: usize) -> f64 {
    1.0 + (row % 7) as f64 / 10.0
}

/// One solution, from the first iteration to the last on all ranks. The inner value is rank 0's:
/// the report and the vector. `None`, on every rank: the matrix is not positive definite.
#[expect(clippy::type_complexity, reason = "two reasons for nothing, each once")]
fn solve(
    world: &World,
    args: &CgArgs,
    partition: &Partition,
    local: &Local,
    kind: ExchangeKind,
) -> Result<Option<Option<(Solution, Vec<f64>)>>, Error> {
    let mut product = Product::new(world, kind, local)?;
    let x: Vec<f64> = partition.rows(world.rank()).map(exact).collect();
    let mut b = vec![0.0; x.len()];
    product.multiply(&x, &mut b, &mut Stopwatch::start())?;
    let limits = Limits { tolerance: args.tolerance, iterations: args.iterations };
    world.barrier()?;
    let began = Instant::now();
    let outcome = solver::solve(world, &mut product, &b, limits)?;
    let elapsed = began.elapsed();
    let Some(outcome) = outcome else { return Ok(None) };
    let x = exchange::collect(world, &outcome.x)?;
    let iterations = outcome.residuals.len() as u64 - 1;
    let times = Times::gather(world, kind, iterations, &outcome.split, elapsed)?;
    let residuals = outcome.residuals;
    let solution = times.map(|times| Solution { times, residuals, check: None });
    Ok(Some(solution.zip(x)))
}

/// Ends the run when the sums of all ranks have shown that; rank 0 reports it before any rank ends.
fn not_positive_definite(world: &World) -> Result<ExitCode, Error> {
    if world.rank() == ROOT {
        CG.complain("the matrix is not positive definite: conjugate gradients need one that is");
    }
    world.barrier()?;
    Ok(ExitCode::from(BAD_INPUT))
}

/// Checks the solutions if requested, prints the results, and writes the page.
fn finish(
    args: &CgArgs,
    matrix: &Csr,
    loads: &[Load],
    solved: Vec<(Solution, Vec<f64>)>,
) -> ExitCode {
    let mut failed = false;
    let serial = args.check.then(|| solve_serially(args, matrix));
    let mut solutions = Vec::new();
    for (mut solution, x) in solved {
        CG.say(&summary(matrix, loads, &solution));
        if solution.residual() > args.tolerance {
            CG.complain(&format!("it has not converged to {:e}", args.tolerance));
            failed = true;
        }
        solution.check = serial.as_ref().map(|serial| check(args, matrix, &x, serial));
        if let Some(check) = &solution.check {
            CG.say(&verdict(check));
            failed |= !check.passed;
        }
        solutions.push(solution);
    }
    if let Some(path) = &args.report {
        let run = SolverRun { file: &args.matrix, matrix, loads, solutions: &solutions };
        failed |= !CG.write(path, report::page(&run));
    }
    ExitCode::from(if failed { FAILED } else { 0 })
}

fn summary(matrix: &Csr, loads: &[Load], solution: &Solution) -> String {
    format!(
        "cg: {} rows, {} entries on {} ranks, {}: {} iterations in {:.3} ms, \
         relative residual {:.1e}",
        matrix.rows(),
        matrix.entries(),
        loads.len(),
        solution.times.exchange.name(),
        solution.times.steps,
        solution.times.elapsed.as_secs_f64() * 1e3,
        solution.residual(),
    )
}

/// The right side, the serial solution, and its time.
type Serial = (Vec<f64>, Option<serial::SerialSolution>, Duration);

fn solve_serially(args: &CgArgs, matrix: &Csr) -> Serial {
    let x: Vec<f64> = (0..matrix.rows()).map(exact).collect();
    let mut b = vec![0.0; x.len()];
    matrix.multiply(&x, &mut b, false);
    let began = Instant::now();
    let solution = serial::solve(matrix, &b, args.tolerance, args.iterations);
    (b, solution, began.elapsed())
}

/// Compares within the bound of the tolerance: both residuals are small, so the matrix times the
/// difference of the solutions is at most twice as large.
fn check(
    args: &CgArgs,
    matrix: &Csr,
    x: &[f64],
    (b, serial, elapsed): &Serial,
) -> SerialComparison {
    let norm = serial::dot(b, b).sqrt().max(f64::MIN_POSITIVE);
    let image = |vector: &[f64]| {
        let mut image = vec![0.0; vector.len()];
        matrix.multiply(vector, &mut image, false);
        image
    };
    let distance = |a: &[f64], b: &[f64]| {
        let difference: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
        serial::dot(&difference, &difference).sqrt() / norm
    };
    let product = image(x);
    let residual = distance(&product, b);
    let serial = serial.as_ref();
    let difference = serial.map_or(f64::INFINITY, |serial| distance(&product, &image(&serial.x)));
    // By rounding, the maintained residual differs a little from the true one.
    let allowed = args.tolerance * 1.1 + 1e-13;
    SerialComparison {
        residual,
        difference,
        elapsed: *elapsed,
        residuals: serial.map_or_else(Vec::new, |serial| serial.residuals.clone()),
        passed: residual <= allowed && difference <= 2.0 * allowed,
    }
}

fn verdict(check: &SerialComparison) -> String {
    let SerialComparison { residual, difference, passed, residuals, elapsed } = check;
    format!(
        "check: the solution {} the serial solver's ({} iterations in {:.3} ms): true residual \
         {residual:.1e}, difference {difference:.1e}",
        if *passed { "agrees with" } else { "DIFFERS from" },
        residuals.len().saturating_sub(1),
        elapsed.as_secs_f64() * 1e3,
    )
}

/// Reads the matrix. An error is printed now, while no other rank can have ended yet.
fn read(path: &Path) -> Option<Csr> {
    let matrix = read_file(path, MAX_BYTES).and_then(|bytes| {
        // Comments may be in any encoding; the rest is ASCII.
        let matrix = matrix_market::parse(&String::from_utf8_lossy(&bytes));
        matrix.map_err(|error| format!("{}: {error}", path.display()))
    });
    matrix.inspect_err(|error| CG.complain(error)).ok()
}
