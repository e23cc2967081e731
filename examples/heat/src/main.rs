//! The command line: `hikyaku run -n 4 -- heat CONFIG.toml`.
//!
//! Rank 0 reads, writes and talks to people; the others compute. Exit codes: 0 done; 1 the check
//! failed, a result could not be written, or another rank failed; 2 bad input, said in one line on
//! the standard error stream before any other rank ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use heat::block::{BlockHalo, FieldBlock};
use heat::config::{HeatPlan, Input};
use heat::exchange::{self, Solved};
use heat::field::{Decomposition, Field};
use heat::report::{HeatRun, HeatSolution};
use heat::{files, serial};
use hikyaku::{Error, World};
use hikyaku_report::Unit;
use kit::exchange::{ExchangeKind, NeighbourExchange};
use kit::program::{BAD_INPUT, ExampleProgram, FAILED, ROOT};
use kit::times::Times;

const HEAT: ExampleProgram = ExampleProgram("heat");

/// Solves the heat equation on as many ranks as it is started with.
///
/// `hikyaku run -n 4 -- heat demo.toml` runs it on 4 ranks; without `hikyaku run` it is one.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// What to compute (TOML; README.md lists the keys)
    config: PathBuf,
    /// Where final.png and final.npy are written
    #[arg(long, value_name = "DIR", default_value = "heat-output")]
    output: PathBuf,
    /// Write a page with pictures and times
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Run the serial program as well and compare bit for bit
    #[arg(long)]
    check: bool,
    /// Make this many steps at most, whatever the configuration says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..1 << 63))]
    steps: Option<u64>,
    /// How ranks exchange edges; several, separated by commas, are run one after the other
    #[arg(
        long,
        value_name = "KIND",
        value_enum,
        value_delimiter = ',',
        default_value = "nonblocking"
    )]
    exchange: Vec<ExchangeKind>,
}

fn main() -> ExitCode {
    HEAT.run(run)
}

/// The whole run as each rank sees it.
fn run(world: &World, args: &Args) -> Result<ExitCode, Error> {
    let input = (world.rank() == ROOT).then(|| prepare(args)).flatten();
    let Some(plan) = exchange::announce(world, input.as_ref().map(|input| &input.plan))? else {
        return Ok(ExitCode::from(BAD_INPUT));
    };

    let grid = Decomposition::new(plan.size, world.size());
    let start = exchange::distribute(world, &grid, input.as_ref().map(|input| &input.field))?;
    let (mut field, mut solutions, mut same) = (None, Vec::new(), true);
    for kind in &args.exchange {
        let solved = solve(world, &plan, &grid, &start, *kind)?;
        let Some((solution, end)) = solved else { continue }; // not rank 0
        solutions.push(solution);
        let first = field.get_or_insert_with(|| end.clone());
        if let Some([x, y, z]) = first.first_difference(&end) {
            let kind = kind.name();
            HEAT.complain(&format!(
                "the {kind} exchange differs in row {y}, column {x}, plane {z}"
            ));
            same = false;
        }
    }
    let (Some(input), Some(field)) = (input, field) else {
        return Ok(ExitCode::SUCCESS); // not rank 0
    };
    let config = args.config.clone();
    let passed = finish(args, HeatRun { config, input, grid, field, solutions, check: None });
    Ok(ExitCode::from(if passed && same { 0 } else { FAILED }))
}

/// One solution: all ranks from the first step to the last. Rank 0 gets the field.
fn solve(
    world: &World,
    plan: &HeatPlan,
    grid: &Decomposition,
    start: &Field,
    kind: ExchangeKind,
) -> Result<Option<(HeatSolution, Field)>, Error> {
    let mut block = FieldBlock::new(start, (grid, world.rank()), plan);
    let halo = BlockHalo::new(&block, grid, world.rank());
    let mut exchange = NeighbourExchange::new(world, kind, &exchange::neighbours(&halo))?;
    world.barrier()?; // all start together, so that nobody's first step waits for the reading
    let began = Instant::now();
    let mut observe = |step, change| {
        if world.rank() == ROOT && is_tenth(step, plan.steps) {
            HEAT.complain(&progress(step, plan.steps, change));
        }
    };
    let solved = exchange::solve(world, plan, (&mut block, &halo), &mut exchange, &mut observe)?;
    let elapsed = began.elapsed();
    let field = exchange::collect(world, grid, plan, &block)?;
    let Solved { steps, change, split } = solved;
    let times = Times::gather(world, kind, steps, &split, elapsed)?;
    let solution = times.map(|times| HeatSolution { times, change });
    Ok(solution.zip(field))
}

/// Whether a further tenth of the way is made with this step.
fn is_tenth(step: u64, of: u64) -> bool {
    let tenth = |step: u64| u128::from(step) * 10 / u128::from(of);
    tenth(step) > tenth(step - 1)
}

fn progress(step: u64, of: u64, change: Option<f64>) -> String {
    let percent = u128::from(step) * 100 / u128::from(of);
    let change = change.map_or(String::new(), |change| format!(", largest change {change:.1e}"));
    format!("{percent} %, {step} of {of} steps{change}")
}

/// Reads the input and makes the directories of the results. An error is printed now, while no
/// other rank can have ended yet.
fn prepare(args: &Args) -> Option<Input> {
    let input = Input::read(&args.config, args.steps).and_then(|input| {
        make_directory(&args.output)?;
        let beside = args.report.as_deref().and_then(Path::parent);
        beside.filter(|path| !path.as_os_str().is_empty()).map_or(Ok(()), make_directory)?;
        Ok(input)
    });
    input.inspect_err(|error| HEAT.complain(error)).ok()
}

fn make_directory(path: &Path) -> Result<(), String> {
    let reason = |error| format!("{}: cannot be made a directory: {error}", path.display());
    fs::create_dir_all(path).map_err(reason)
}

/// Writes the results, compares them if asked to, and prints what there is to say. Returns whether
/// all went well.
fn finish(args: &Args, mut run: HeatRun) -> bool {
    run.solutions.iter().for_each(|solution| HEAT.say(&summary(&run, solution)));
    let picture = files::encode_png(&run.field, run.input.range, 1);
    let mut passed = HEAT.write(&args.output.join("final.png"), picture);
    passed &= HEAT.write(&args.output.join("final.npy"), files::encode_npy(&run.field));
    if args.check {
        let began = Instant::now();
        let (expected, steps) = serial::solve(&run.input.field, &run.input.plan);
        let elapsed = began.elapsed();
        let agrees = agrees(&run, &expected, steps);
        run.check = Some((elapsed, agrees));
        passed &= agrees;
    }
    args.report.as_ref().is_none_or(|path| HEAT.write(path, run.page())) && passed
}

fn summary(run: &HeatRun, solution: &HeatSolution) -> String {
    let [cells, blocks] = run.sizes().map(|size| size.replace('×', "x"));
    let HeatSolution { times: Times { exchange, steps, splits, elapsed }, change } = solution;
    format!(
        "heat: {cells} cells in {blocks} blocks on {} ranks, {}: {steps} steps in {:.2} s, {} \
         steps/s; largest change {change:.1e}, {}",
        splits.len(),
        exchange.name(),
        elapsed.as_secs_f64(),
        solution.rate(),
        run.steadiness(solution),
    )
}

/// Compares with the serial program's field and steps, and says how they compare.
fn agrees(run: &HeatRun, expected: &Field, steps: u64) -> bool {
    let made = run.solutions.iter().map(|solution| solution.times.steps);
    let others: Vec<u64> = made.filter(|made| *made != steps).collect();
    for made in &others {
        HEAT.complain(&format!("check: {made} steps were made, the serial program makes {steps}"));
    }
    let Some([x, y, z]) = run.field.first_difference(expected) else {
        let cells = Unit::Number.format(expected.cells.len() as f64);
        HEAT.say(&format!("check: field is bitwise equal to the serial program's ({cells} cells)"));
        return others.is_empty();
    };
    let index = (z * expected.size[1] + y) * expected.size[0] + x;
    HEAT.complain(&format!(
        "check: field differs from the serial program's, first in row {y}, column {x}, plane {z}: \
         {:e} instead of {:e}",
        run.field.cells[index], expected.cells[index]
    ));
    false
}
