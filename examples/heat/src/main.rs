//! The command line: `hikyaku run -n 4 -- heat CONFIG.toml`.
//!
//! Rank 0 reads, writes and talks to people; the others compute. Exit codes: 0 done; 1 the check
//! failed, a result could not be written, or another rank failed; 2 bad input, said in one line on
//! the standard error stream before any other rank ends.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use std::{fs, io};

use clap::Parser;
use heat::block::Block;
use heat::config::Input;
use heat::decompose::Decomposition;
use heat::exchange::{self, Exchange, Kind, ROOT};
use heat::field::Field;
use heat::report::{self, Run, Solution};
use heat::solver::{self, Outcome, Plan};
use heat::{files, serial};
use hikyaku::{Error, World};
use hikyaku_report::Unit;

const FAILED: u8 = 1;
const BAD_INPUT: u8 = 2;

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
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// How ranks exchange edges; several, separated by commas, are run one after the other
    #[arg(
        long,
        value_name = "KIND",
        value_enum,
        value_delimiter = ',',
        default_value = "nonblocking"
    )]
    exchange: Vec<Kind>,
}

fn main() -> ExitCode {
    let world = match World::init() {
        Ok(world) => world,
        Err(error) => {
            complain(&format!("cannot join the job: {error}"));
            return ExitCode::from(FAILED);
        }
    };
    run(&world).unwrap_or_else(|error| {
        complain(&format!("rank {}: {error}", world.rank()));
        ExitCode::from(FAILED)
    })
}

/// The whole run as each rank sees it.
fn run(world: &World) -> Result<ExitCode, Error> {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return answer_usage(world, &error),
    };
    let input = (world.rank() == ROOT).then(|| prepare(&args)).flatten();
    let Some(plan) = exchange::announce(world, input.as_ref().map(|input| &input.plan))? else {
        return Ok(ExitCode::from(BAD_INPUT));
    };

    let grid = Decomposition::new(plan.extent, world.size());
    let start = exchange::distribute(world, &grid, input.as_ref().map(|input| &input.field))?;
    let (mut field, mut solutions, mut same) = (None, Vec::new(), true);
    for kind in &args.exchange {
        let solved = solve(world, &plan, &grid, &start, *kind)?;
        let Some((solution, end)) = solved else { continue }; // not rank 0
        solutions.push(solution);
        let first = field.get_or_insert_with(|| end.clone());
        if let Some([x, y, z]) = first.first_difference(&end) {
            let kind = kind.name();
            complain(&format!("the {kind} exchange differs in row {y}, column {x}, plane {z}"));
            same = false;
        }
    }
    let (Some(input), Some(field)) = (input, field) else {
        return Ok(ExitCode::SUCCESS); // not rank 0
    };
    Ok(Done { args, grid, input, field, solutions, same }.finish())
}

/// One solution: all ranks from the first step to the last. Rank 0 gets the field.
fn solve(
    world: &World,
    plan: &Plan,
    grid: &Decomposition,
    start: &Field,
    kind: Kind,
) -> Result<Option<(Solution, Field)>, Error> {
    let place = (grid, world.rank());
    let mut block = Block::new(start, place, plan.stencil, plan.ratio, plan.boundary);
    let mut exchange = Exchange::new(world, kind, grid, &block)?;
    world.barrier()?; // all start together, so that nobody's first step waits for the reading
    let began = Instant::now();
    let outcome = solver::solve(world, plan, &mut block, &mut exchange, |step, change| {
        if world.rank() == ROOT && is_tenth(step, plan.steps) {
            complain(&progress(step, plan.steps, change));
        }
    })?;
    let elapsed = began.elapsed();
    let field = exchange::collect(world, grid, plan, &block)?;
    let splits = exchange::splits(world, &outcome.split)?;
    let solution = splits.map(|splits| Solution { exchange: kind, outcome, splits, elapsed });
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

/// A wrong command line: every rank sees the same, rank 0 says it. The others wait until it has,
/// because the first rank that fails makes the launcher end the job.
fn answer_usage(world: &World, error: &clap::Error) -> Result<ExitCode, Error> {
    if world.rank() == ROOT {
        if error.use_stderr() {
            let text = error.render().to_string();
            let lines = text.lines().map(str::trim).take_while(|line| !line.is_empty());
            let line = lines.collect::<Vec<_>>().join(" ");
            complain(&format!("{} (--help lists the options)", line.replacen("error: ", "", 1)));
        } else {
            // Help or version; if nobody reads it there is nothing to be done.
            let _ = error.print();
        }
    }
    world.barrier()?;
    Ok(ExitCode::from(if error.use_stderr() { BAD_INPUT } else { 0 }))
}

/// Reads the input and makes sure that results have a place to go to; on trouble says so, now,
/// while no other rank can have ended yet.
fn prepare(args: &Args) -> Option<Input> {
    let input = Input::read(&args.config, args.steps).and_then(|input| {
        make_directory(&args.output)?;
        let beside = args.report.as_deref().and_then(Path::parent);
        beside.filter(|path| !path.as_os_str().is_empty()).map_or(Ok(()), make_directory)?;
        Ok(input)
    });
    input.inspect_err(|error| complain(error)).ok()
}

fn make_directory(path: &Path) -> Result<(), String> {
    let reason = |error| format!("{}: cannot be made a directory: {error}", path.display());
    fs::create_dir_all(path).map_err(reason)
}

/// What rank 0 holds after the last step.
struct Done {
    args: Args,
    grid: Decomposition,
    input: Input,
    field: Field,
    solutions: Vec<Solution>,
    /// Whether all exchanges gave the same field.
    same: bool,
}

impl Done {
    /// Writes the results, checks them if asked to, and says what there is to say.
    fn finish(self) -> ExitCode {
        self.solutions.iter().for_each(|solution| say(&self.summary(solution)));
        let mut passed = self.same;
        let results = [
            ("final.png", files::encode_png(&self.field, self.input.range, 1)),
            ("final.npy", files::encode_npy(&self.field)),
        ];
        for (name, bytes) in results {
            passed &= write(&self.args.output.join(name), &bytes);
        }
        let check = self.args.check.then(|| {
            let began = Instant::now();
            let (expected, steps) = serial::solve(&self.input.field, &self.input.plan);
            (began.elapsed(), self.agrees(&expected, steps))
        });
        passed &= check.is_none_or(|(_, agrees)| agrees);
        if let Some(path) = &self.args.report {
            let Done { args, grid, input, field, solutions, .. } = &self;
            let run = Run { config: &args.config, input, grid, field, solutions, check };
            passed &= write(path, report::page(&run).as_bytes());
        }
        ExitCode::from(if passed { 0 } else { FAILED })
    }

    fn summary(&self, solution: &Solution) -> String {
        let Plan { extent, tolerance, .. } = self.input.plan;
        let Solution { exchange, outcome, splits, elapsed } = solution;
        let Outcome { steps, change, .. } = *outcome;
        format!(
            "heat: {} cells in {} blocks on {} ranks, {}: {steps} steps in {:.2} s, {} steps/s; \
             largest change {change:.1e}, {}",
            report::cells(extent).replace('×', "x"),
            self.grid.text().replace('×', "x"),
            splits.len(),
            exchange.name(),
            elapsed.as_secs_f64(),
            solution.rate(),
            if change <= tolerance { "steady" } else { "not steady yet" },
        )
    }

    /// Compares with the serial program's field and steps, and says how they compare.
    fn agrees(&self, expected: &Field, steps: u64) -> bool {
        let mut agrees = true;
        for solution in self.solutions.iter().filter(|solution| solution.outcome.steps != steps) {
            let made = solution.outcome.steps;
            complain(&format!("check: {made} steps were made, the serial program makes {steps}"));
            agrees = false;
        }
        match self.field.first_difference(expected) {
            None => say(&format!(
                "check: field is bitwise equal to the serial program's ({} cells)",
                Unit::Number.format(self.field.cells().len() as f64)
            )),
            Some([x, y, z]) => {
                complain(&format!(
                    "check: field differs from the serial program's, first in row {y}, column {x}, \
                     plane {z}: {:e} instead of {:e}",
                    self.field.row(y, z)[x],
                    expected.row(y, z)[x]
                ));
                agrees = false;
            }
        }
        agrees
    }
}

/// Writes a file and says so. Returns whether it is there.
fn write(path: &Path, bytes: &[u8]) -> bool {
    match fs::write(path, bytes) {
        Ok(()) => say(&format!("heat: wrote {}", path.display())),
        Err(error) => {
            complain(&format!("{}: cannot be written: {error}", path.display()));
            return false;
        }
    }
    true
}

/// A line of results. If nobody reads it, that is no reason to fail.
fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// A line about what went wrong, or how far the run is.
fn complain(line: &str) {
    let _ = writeln!(io::stderr(), "heat: {line}");
}
