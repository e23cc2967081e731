//! The command line: `hikyaku run -n 4 -- heat CONFIG.toml`.
//!
//! Rank 0 reads, writes and prints; the others compute. Exit codes: 0 done; 1 the check failed, a
//! result could not be written, or another rank failed; 2 bad input, reported in one line on the
//! standard error stream before any other rank ends.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use heat::block::FieldBlock;
use heat::config::HeatPlan;
use heat::exchange;
use heat::field::{Decomposition, Field};
use heat::report::HeatRun;
use heat::{HEAT, files, serial};
use hikyaku::{Error, World};
use kit::exchange::ExchangeKind;
use kit::program::{BAD_INPUT, FAILED, ROOT};

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
    /// How ranks exchange edges
    #[arg(long, value_name = "KIND", value_enum, default_value = "nonblocking")]
    exchange: ExchangeKind,
}

fn main() -> ExitCode {
    HEAT.run(run)
}

/// The whole run, on each rank.
fn run(world: &World, args: &Args) -> Result<ExitCode, Error> {
    let input = if world.rank() == ROOT { prepare(args) } else { None };
    let Some(plan) = exchange::announce(world, input.as_ref().map(|(plan, _)| plan))? else {
        return Ok(ExitCode::from(BAD_INPUT));
    };
    let grid = Decomposition::new(plan.size, world.size());
    let start = exchange::scatter(world, &grid, input.as_ref().map(|(_, field)| field))?;
    let mut block = FieldBlock::new(&start, &grid, world.rank(), &plan);
    let (times, change) = exchange::solve(world, &plan, &mut block, args.exchange)?;
    let field = exchange::gather(world, &grid, &block.field())?;
    let (Some((_, start)), Some(times), Some(field)) = (input, times, field) else {
        return Ok(ExitCode::SUCCESS); // not rank 0
    };
    let config = args.config.clone();
    let run = HeatRun { config, plan, grid, start, field, times, change, check: None };
    Ok(ExitCode::from(if finish(args, run) { 0 } else { FAILED }))
}

/// Reads the input and makes the directory of the results. An error is printed now, while no other
/// rank can have ended yet.
fn prepare(args: &Args) -> Option<(HeatPlan, Field)> {
    let input = HeatPlan::read(&args.config).and_then(|input| {
        let made = fs::create_dir_all(&args.output);
        let path = args.output.display();
        made.map_err(|error| format!("{path}: cannot be made a directory: {error}"))?;
        Ok(input)
    });
    input.inspect_err(|error| HEAT.complain(error)).ok()
}

/// Writes the results, compares them if requested, and prints a summary. Returns whether everything
/// succeeded.
fn finish(args: &Args, mut run: HeatRun) -> bool {
    HEAT.say(&format!("heat: {}", run.summary()));
    let picture = files::encode_png(&run.field, run.plan.temperature);
    let mut passed = HEAT.write(&args.output.join("final.png"), picture);
    passed &= HEAT.write(&args.output.join("final.npy"), files::encode_npy(&run.field));
    if args.check {
        let began = Instant::now();
        let (expected, steps) = serial::solve(&run.start, &run.plan);
        let elapsed = began.elapsed();
        let difference = run.field.first_difference(&expected);
        let same = difference.is_none() && steps == run.times.steps;
        let verdict = if same { "is bitwise equal to" } else { "DIFFERS from" };
        HEAT.say(&format!("check: field {verdict} the serial program's ({steps} steps)"));
        if let Some([x, y]) = difference {
            HEAT.complain(&format!("check: the first difference is in row {y}, column {x}"));
        }
        run.check = Some((elapsed, same));
        passed &= same;
    }
    args.report.as_ref().is_none_or(|path| HEAT.write(path, run.page())) && passed
}
