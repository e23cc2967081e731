//! `hikyaku simulate --sweep`: every collective with every algorithm on every machine, and the
//! points where the choice of algorithm is wrong.
//!
//! ```text
//!   machine x operation x ranks x bytes ──► one run for each algorithm ──► SweepPoint: times
//!                                                │ too much to simulate: omitted, and all larger
//!                                                ▼
//!                         terminal: where the choice costs most   CSV: every run   page: plots
//! ```
//!
//! Runs carry lengths only, one rank per node, each on a machine of its own, so that every run
//! begins at rest. Algorithms that need features that the machine's model does not have (multicast,
//! remote addition, barriers in switches), or that do not suit a number of ranks, are skipped.

mod present;
mod run;

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use hikyaku::Operation;
use hikyaku_reproduce::FILES;
use hikyaku_sim::machine::Machine;

use super::arguments::SimulateArguments;
use super::watch::RunWatch;
use super::{INTERRUPTED, MOST_RANKS, SettingError};
use crate::exit::{USAGE, begin_results, print, say, say_as_it_is};
use crate::machine::load;

/// The default numbers of ranks and sizes of parts.
const RANKS: [u32; 4] = [8, 64, 512, 4096];
const SIZES: [u64; 4] = [8, 1 << 10, 32 << 10, 1 << 20];

/// The page's file name.
const PAGE: &str = "sweep.html";

/// The runs to do.
#[derive(Debug)]
struct SweepPlan {
    machines: Vec<Machine>,
    ranks: Vec<u32>,
    sizes: Vec<u64>,
    seed: u64,
    /// Limits on messages and events, after which a run is abandoned.
    most_messages: u64,
    most_events: u64,
}

/// One operation on one machine with one number of ranks and bytes.
#[derive(Debug, Clone, PartialEq)]
struct SweepPoint {
    machine: String,
    operation: Operation,
    ranks: u32,
    bytes: u64,
    /// The time of each algorithm that completed.
    times: Vec<Timed>,
    /// The algorithm that is chosen by default, whether or not it completed.
    chosen: Option<&'static str>,
    /// Algorithms that exceeded a limit.
    abandoned: Vec<&'static str>,
}

/// The cost of an algorithm.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Timed {
    algorithm: &'static str,
    /// Virtual time.
    seconds: f64,
    messages: u64,
}

impl SweepPoint {
    /// The fastest algorithm; among equals, the first of the operation's list.
    fn best(&self) -> Option<&Timed> {
        self.times.iter().min_by(|one, other| one.seconds.total_cmp(&other.seconds))
    }

    /// The time of the choice divided by that of the fastest.
    fn loss(&self) -> Option<f64> {
        let chosen = self.times.iter().find(|timed| Some(timed.algorithm) == self.chosen)?;
        let best = self.best()?;
        (best.seconds > 0.0).then(|| chosen.seconds / best.seconds)
    }
}

/// Runs the sweep and writes the results.
pub(super) fn run(arguments: &SimulateArguments) -> ExitCode {
    let plan = match plan(arguments) {
        Ok(plan) => plan,
        Err(error) => {
            say(error);
            return ExitCode::from(USAGE);
        }
    };
    let cannot_write = |error: io::Error| {
        say(format_args!("cannot write to {}: {error}", arguments.output.display()));
        ExitCode::FAILURE
    };
    if let Err(error) = begin_results(&arguments.output, PAGE) {
        return cannot_write(error);
    }
    let watch = RunWatch::start();
    let ran = run::points(&plan, &watch, &mut |line| {
        say_as_it_is(format_args!("{line}\n"));
    });
    let points = match ran {
        Ok(points) => points,
        Err(error) => {
            say(format_args!("cannot start a thread of the sweep: {error}"));
            return ExitCode::FAILURE;
        }
    };
    if let Err(error) = write(&points, &arguments.output) {
        return cannot_write(error);
    }
    if let Err(error) = print(found(&points, &arguments.output)) {
        return error.end();
    }
    match watch.interrupted() {
        false => ExitCode::SUCCESS,
        true => {
            say("interrupted: the results cover what had run");
            ExitCode::from(INTERRUPTED)
        }
    }
}

fn plan(arguments: &SimulateArguments) -> Result<SweepPlan, SettingError> {
    let machines: Result<Vec<Machine>, _> = match &arguments.machine {
        Some(file) => load(file).map(|machine| vec![machine]),
        None => FILES.iter().map(|(name, _)| load(Path::new(name))).collect(),
    };
    let ranks = arguments.ranks.map_or(RANKS.to_vec(), |ranks| vec![ranks]);
    if let Some(&wrong) = ranks.iter().find(|ranks| !(1..=MOST_RANKS).contains(*ranks)) {
        return Err(SettingError::Ranks(wrong));
    }
    let sizes = match &arguments.sizes[..] {
        [] => SIZES.to_vec(),
        sizes => sizes.to_vec(),
    };
    let (most_messages, most_events) = (arguments.most_messages, arguments.most_events);
    Ok(SweepPlan {
        machines: machines?,
        ranks,
        sizes,
        seed: arguments.seed,
        most_messages,
        most_events,
    })
}

/// Writes the page and the CSV.
fn write(points: &[SweepPoint], output: &Path) -> io::Result<()> {
    fs::write(output.join("sweep.csv"), present::runs(points).to_csv())?;
    fs::write(output.join(PAGE), present::page(points))
}

/// The text for a terminal: the wrong choices, and the path of the page.
fn found(points: &[SweepPoint], output: &Path) -> String {
    let losses = present::losses(points, present::MOST_LISTED).to_text();
    let (summary, page) = (present::summary(points), output.join(PAGE));
    format!("{}\n\n{summary}\npage: {}", losses.trim_end(), page.display())
}
