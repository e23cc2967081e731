//! `hikyaku plan`: the landing rings that each rank needs, from a trace of `hikyaku run --trace`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

use clap::Args;
use hikyaku_nic::plan::{Budget, Growth, LandingPlan, PlanError, TraceError, TrafficTrace};
use hikyaku_nic::units;
use hikyaku_report::{Cell, Table, Unit};
use thiserror::Error;

use crate::exit::{PrintError, USAGE, print, say};
use crate::input::{self, BY_PROGRAM};

/// Plan landing rings from a trace, as the first run of a program gives it.
///
/// A rank's busiest sources get a landing ring each; all others share one. Prints what that takes
/// beside a ring for every pair of ranks, at the traced size and at others, and writes a file for
/// 'hikyaku run --plan'. Without a budget every source that used a ring gets one.
#[derive(Debug, Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct PlanArguments {
    /// Traces of one program: the first is planned, all of them tell how its partners grow
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<PathBuf>,

    /// Bytes of each landing ring, a power of two
    #[arg(long, value_name = "SIZE", value_parser = units::size, default_value = "64K")]
    #[arg(allow_negative_numbers = true)]
    ring: u64,

    /// Use at most so much memory a rank for landing rings
    #[arg(long, value_name = "SIZE", value_parser = units::size, conflicts_with = "shared")]
    #[arg(allow_negative_numbers = true)]
    memory: Option<u64>,

    /// Let at most so many percent of a rank's packets meet a ring that another source may fill
    #[arg(long, value_name = "PERCENT", value_parser = percent, allow_negative_numbers = true)]
    shared: Option<f64>,

    /// Write the plan to this file
    #[arg(short, long, value_name = "PLAN")]
    output: Option<PathBuf>,
}

const DETAILS: &str = "\
What is printed:
  rings      landing rings of the rank with the most: those of its busiest sources, and one that
             all others share
  may wait   packets that land in a ring which other sources may have filled. A source alone in a
             ring waits for nobody else, and neither do sources of which all that they ever send has
             room in it together.

Exit code:
  0      the plan is printed, and written if that was asked for
  1      a file cannot be read or written
  2      a trace is none, or such rings cannot be

Examples:
  Trace a run, plan half a MiB a rank, and run with that:
      hikyaku run -n 64 --trace solver.trace -- ./solver
      hikyaku plan solver.trace --memory 512K --output solver.plan
      hikyaku run -n 64 --plan solver.plan -- ./solver

  At most one packet in a hundred may wait for another source's:
      hikyaku plan solver.trace --shared 1

  How partners grow, from runs of three sizes:
      hikyaku plan solver-64.trace solver-16.trace solver-4.trace
";

/// Numbers of ranks for the extrapolation.
const SIZES: [u64; 5] = [64, 1024, 4096, 16_384, 100_000];

/// The reason why there is no plan.
#[derive(Debug, Error)]
enum PlanFailure {
    #[error(transparent)]
    Load(#[from] TraceLoadError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error("cannot write the plan {}: {error}", file.display())]
    Write { file: PathBuf, error: io::Error },
    #[error(transparent)]
    Print(#[from] PrintError),
}

/// The reason why a trace or a plan cannot be loaded.
#[derive(Debug, Error)]
pub(crate) enum TraceLoadError {
    #[error("cannot read {}: {error}", file.display())]
    Read { file: PathBuf, error: io::Error },
    #[error("{}, {error}", file.display())]
    Wrong { file: PathBuf, error: TraceError },
}

/// Reads a trace or a plan.
pub(crate) fn load<T: FromStr<Err = TraceError>>(file: &Path) -> Result<T, TraceLoadError> {
    let text = input::read(file, BY_PROGRAM);
    let text = text.map_err(|error| TraceLoadError::Read { file: file.into(), error })?;
    text.parse().map_err(|error| TraceLoadError::Wrong { file: file.into(), error })
}

/// Plans, prints, and writes the plan.
pub(crate) fn run(arguments: &PlanArguments) -> ExitCode {
    match plan(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(PlanFailure::Print(error)) => error.end(),
        Err(error) => {
            say(format_args!("plan: {error}"));
            match error {
                PlanFailure::Load(TraceLoadError::Wrong { .. }) | PlanFailure::Plan(_) => {
                    ExitCode::from(USAGE)
                }
                _ => ExitCode::FAILURE,
            }
        }
    }
}

fn plan(arguments: &PlanArguments) -> Result<(), PlanFailure> {
    let load = |file: &PathBuf| load::<TrafficTrace>(file);
    let traces: Vec<TrafficTrace> = arguments.traces.iter().map(load).collect::<Result<_, _>>()?;
    let budget = match (arguments.memory, arguments.shared) {
        (Some(memory), _) => Budget::Memory(memory),
        (None, Some(part)) => Budget::Shared(part),
        (None, None) => Budget::Partners,
    };
    let plans = Plans::of(&traces, arguments.ring, budget)?;
    let parts = [plans.heading(), plans.rings().to_text(), plans.growth(budget)];
    print(parts.join("\n").trim_end())?;
    if let Some(file) = &arguments.output {
        let written = fs::write(file, plans.planned[0].to_string());
        written.map_err(|error| PlanFailure::Write { file: file.clone(), error })?;
    }
    Ok(())
}

/// The plans for several traces; those for the first trace are printed.
struct Plans<'t> {
    traces: &'t [TrafficTrace],
    ring: u64,
    /// Plans with a ring for each source that used one.
    partners: Vec<LandingPlan>,
    /// Plans within the budget.
    planned: Vec<LandingPlan>,
}

impl Plans<'_> {
    fn of(traces: &[TrafficTrace], ring: u64, budget: Budget) -> Result<Plans<'_>, PlanError> {
        let by = |budget| -> Result<Vec<_>, _> {
            traces.iter().map(|trace| LandingPlan::of(trace, ring, budget)).collect()
        };
        Ok(Plans { traces, ring, partners: by(Budget::Partners)?, planned: by(budget)? })
    }

    /// A description of the trace.
    fn heading(&self) -> String {
        let trace = &self.traces[0];
        let total = trace.total();
        let partners = trace.partners();
        let most = partners.iter().max().unwrap_or(&0);
        let least = partners.iter().min().unwrap_or(&0);
        let number = |count: u64| Cell::number(count as f64, Unit::Number).display();
        let mut text = format!(
            "{} ranks, {} messages of {}, {} of which found no room at once\n\
             partners by messages of the program itself: {least} to {most} a rank\n",
            trace.ranks(),
            number(total.messages),
            Cell::number(total.bytes as f64, Unit::Bytes).display(),
            number(total.held_up),
        );
        let missing: Vec<u32> = trace.missing().collect();
        if let [first, ..] = missing[..] {
            let count = missing.len();
            text += &format!("rows of {count} ranks are missing, the first is rank {first}\n");
        }
        if trace.beyond().messages > 0 {
            let beyond = number(trace.beyond().messages);
            text += &format!("{beyond} messages to rare partners are left out of the trace\n");
        }
        text
    }

    /// The memory that rings take at the traced size.
    fn rings(&self) -> Table {
        let trace = &self.traces[0];
        let mut table = Table::new(
            format!("Landing rings of {}", Cell::number(self.ring as f64, Unit::Bytes).display()),
            [
                "rings",
                "most",
                "memory of that rank",
                "of all ranks",
                "of a ring a pair",
                "may wait",
            ],
        );
        let ranks = u64::from(trace.ranks());
        let mut row = |name: &str, most: u64, all: u64, shared: f64| {
            let bytes = |rings: u64| self.memory_of(rings);
            let part = all as f64 / (ranks * ranks) as f64;
            table.push([
                Cell::from(name),
                Cell::number(most as f64, Unit::Number),
                bytes(most),
                bytes(all),
                Cell::number(part, Unit::Fraction),
                Cell::number(shared, Unit::Fraction),
            ]);
        };
        row("one a pair", ranks, ranks * ranks, 0.0);
        for (name, plan) in [("one a partner", &self.partners[0]), ("planned", &self.planned[0])] {
            let estimate = plan.estimate(trace);
            row(name, estimate.rings.into(), estimate.all_rings, estimate.shared);
        }
        table
    }

    /// The memory of so many rings.
    fn memory_of(&self, rings: u64) -> Cell {
        Cell::number(rings as f64 * self.ring as f64, Unit::Bytes)
    }

    /// The busiest rank's number of rings at other sizes.
    fn growth(&self, budget: Budget) -> String {
        let private = |plans: &[LandingPlan]| {
            let count = |plan: &LandingPlan| (plan.ranks(), plan.most_rings() - 1);
            Growth::through(&plans.iter().map(count).collect::<Vec<_>>())
        };
        let (partners, planned) = (private(&self.partners), private(&self.planned));
        let known = match self.sizes().len() {
            1 => "as many at any size: traces of other sizes would tell".to_owned(),
            sizes => format!("{partners} of N ranks, by {sizes} sizes"),
        };
        let mut table = Table::new(
            format!("Rings of the busiest rank at other sizes; partners that use rings: {known}"),
            ["ranks", "one a pair", "one a partner", "memory", "planned", "memory"],
        );
        let most = match budget {
            Budget::Memory(bytes) => bytes / self.ring,
            _ => u64::MAX,
        };
        for ranks in SIZES {
            let one = partners.partners(ranks) + 1;
            let other = (planned.partners(ranks) + 1).min(most);
            let number = |rings: u64| Cell::number(rings as f64, Unit::Number);
            let bytes = |rings: u64| self.memory_of(rings);
            table.push([
                number(ranks),
                bytes(ranks),
                number(one),
                bytes(one),
                number(other),
                bytes(other),
            ]);
        }
        table.to_text()
    }

    /// The different numbers of ranks of the traces.
    fn sizes(&self) -> Vec<u32> {
        let mut sizes: Vec<u32> = self.traces.iter().map(TrafficTrace::ranks).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }
}

/// Parses a percentage as a fraction.
fn percent(text: &str) -> Result<f64, &'static str> {
    let percent: f64 = text.trim_end_matches('%').parse().map_err(|_| "not a number of percent")?;
    match (0.0..=100.0).contains(&percent) {
        true => Ok(percent / 100.0),
        false => Err("the percentage must be from 0 to 100"),
    }
}
