//! `hikyaku simulate`: runs a program on a simulated machine.
//!
//! ```text
//!   arguments ──► Setting: machine, ranks, payload, seed        one line on what is invalid
//!                    │
//!                    ├── built-in program ──► programs.rs ──► job ──► watch.rs ──► RunOutcome
//!                    │                            │ trace
//!                    │                            └──► story.rs ──► exhibit.rs: page, SVG, JSON
//!                    └── -- ./program     ──► processes.rs
//!   start      the cost of starting so many ranks ──► start.rs
//!   --sweep    every collective on every machine ──► sweep/
//!   --what-if  a question of reproduce::what_if  ──► question.rs
//! ```

mod arguments;
mod exhibit;
mod outcome;
mod processes;
mod programs;
mod question;
mod setting;
mod start;
mod story;
mod sweep;
mod watch;

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use hikyaku_launch::available_memory;
use hikyaku_report::{Cell, Unit};
use hikyaku_sim::SimError;
use hikyaku_sim::engine::Simulation;
use hikyaku_sim::job::{self, Payload};

use arguments::BuiltinProgram;
pub(crate) use arguments::SimulateArguments;
use outcome::RunOutcome;
use setting::{INTERRUPTED, MEMORY_LATENCY, MOST_RANKS, Setting, SettingError};
use watch::{RunWatch, STEPS};

use crate::exit::{USAGE, print, say};
use crate::simulated::{SimulatedRank, chosen, estimates, message_costs};

/// The exit code of a failed program.
const FAILED: u8 = 3;

/// Runs the simulation of a command line.
pub(crate) fn run(arguments: &SimulateArguments) -> ExitCode {
    if let (Some(name), []) = (arguments.processes.first(), &arguments.command[..]) {
        return refuse(&SettingError::OfProcesses(name));
    }
    if let Some((argument, with)) = arguments.first_idle() {
        return refuse(&SettingError::Idle(argument, with));
    }
    if let Some(name) = &arguments.what_if {
        return question::run(name, &arguments.output);
    }
    if arguments.sweep {
        return sweep::run(arguments);
    }
    if let Some(BuiltinProgram::Start(costs)) = &arguments.program {
        return start::run(arguments, costs);
    }
    let setting = match Setting::new(arguments) {
        Ok(setting) => setting,
        Err(error) => return refuse(&error),
    };
    match (&arguments.program, &arguments.command[..]) {
        (Some(program), []) => run_built_in(&setting, program),
        (None, []) => refuse(&SettingError::Missing("PROGRAM, or -- COMMAND")),
        (_, command) => processes::run(&setting, command, &arguments.processes),
    }
}

fn refuse(error: &SettingError) -> ExitCode {
    say(error);
    ExitCode::from(USAGE)
}

/// Checks that the arrays of all ranks have room: otherwise the kernel would end this process, or
/// others.
fn check_memory(setting: &Setting, program: &BuiltinProgram) -> Result<(), SettingError> {
    let ranks = setting.job.ranks;
    let held = match setting.job.payload {
        Payload::Carried => program.held(ranks),
        Payload::LengthsOnly => 0,
    };
    match available_memory().filter(|free| *free < held) {
        None => Ok(()),
        Some(free) => {
            let in_words = |bytes: u64| Unit::Bytes.format(bytes as f64);
            let (program, needed, free) = (program.name(), in_words(held), in_words(free));
            Err(SettingError::Memory { program, ranks, needed, free })
        }
    }
}

/// Runs a built-in program and prints its outcome.
fn run_built_in(setting: &Setting, program: &BuiltinProgram) -> ExitCode {
    if let Err(error) = check_memory(setting, program) {
        return refuse(&error);
    }
    if let Err(error) = setting.exhibit.begin(std::iter::empty()) {
        say(&error);
        return ExitCode::FAILURE;
    }
    let (outcome, ended) = match simulate(setting, program) {
        Ok(ended) => ended,
        Err(error) => return refuse(&error),
    };
    let printed = print(outcome.to_text().trim_end());
    if let Err(error) = &outcome.shown {
        say(error);
        return ExitCode::FAILURE;
    }
    if let Err(error) = printed {
        return error.end();
    }
    match ended {
        RunEnd::Right => ExitCode::SUCCESS,
        RunEnd::Interrupted => {
            say(format_args!("interrupted: the report covers the run up to then"));
            ExitCode::from(INTERRUPTED)
        }
        RunEnd::Failed(why) => {
            say(why);
            ExitCode::from(FAILED)
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum RunEnd {
    Right,
    Interrupted,
    Failed(String),
}

/// Runs a program to its end, or until it fails or is interrupted.
fn simulate(
    setting: &Setting,
    program: &BuiltinProgram,
) -> Result<(RunOutcome, RunEnd), SettingError> {
    let Setting { machine, job: config, seed, exhibit } = setting;
    let before = resident();
    let simulation = Simulation::new(*seed);
    let sync = machine.synchronisation(&simulation, config.ranks.div_ceil(config.ranks_per_node));
    let chooses = program.collective().is_some_and(|(_, how)| how.algorithm.is_none());
    let costs = (chooses && config.ranks_per_node == 1)
        .then(|| message_costs(machine, config.ranks))
        .flatten()
        .map(Arc::new);
    let parts = programs::ProgramJob {
        ranks: config.ranks,
        seed: *seed,
        payload: config.payload,
        sync: sync.clone(),
        costs: costs.clone(),
    };
    let maker = programs::maker(program, parts)?;
    exhibit.prepare(&simulation);
    let installed = machine.install(&simulation);
    let job = job::Job::new(&simulation, *config, installed.carrier);
    let job = job.expect("the ranks were checked to fit the machine");
    let of_rank = SimulatedRank::<()>::new(job.rank(0)).with_sync(sync).with_costs(costs);
    let choice = chooses.then(|| choice(&of_rank, program)).flatten();
    let results = job.launch(maker);
    let mut watch = RunWatch::start();
    let ran = simulation.run_observed(STEPS, |progress| watch.observe(progress, job.in_flight()));
    watch.finish();
    let report = job.progress(&results);
    let wrong = report.iter().find_map(|(_, _, answer)| answer.as_ref()?.as_ref().err().cloned());
    let ended = match (ran.map_err(|error| job.explain(error)), wrong) {
        (Err(SimError::Stopped { .. }), _) if watch.interrupted() => RunEnd::Interrupted,
        (_, Some(wrong)) => RunEnd::Failed(wrong),
        (Err(error), None) => RunEnd::Failed(error.to_string()),
        (Ok(()), None) => RunEnd::Right,
    };
    let mut outcome = RunOutcome {
        title: title(setting, program),
        end: report.iter().map(|(end, _, _)| *end).max().unwrap_or_default(),
        ranks: report.iter().map(|(end, usage, _)| (*end, *usage)).collect(),
        totals: job.totals(),
        events: simulation.events(),
        seconds: watch.seconds(),
        grown: resident().saturating_sub(before),
        answer: match ended {
            RunEnd::Right if config.payload == Payload::Carried => "right",
            RunEnd::Right => "not checked: lengths only",
            RunEnd::Interrupted => "none: interrupted",
            RunEnd::Failed(_) => "none: failed",
        },
        notes: choice.into_iter().chain(notes(setting)).collect(),
        shown: Ok(()),
    };
    let links = installed.network.map(|_| installed.topology);
    let page = |timeline: &_| exhibit::page(&outcome.facts(), timeline);
    let shown = exhibit.show(&simulation.trace(), &outcome.title, links.as_deref(), page);
    outcome.shown = shown;
    Ok((outcome, ended))
}

fn title(setting: &Setting, program: &BuiltinProgram) -> String {
    let Setting { machine, job, seed, .. } = setting;
    let (name, ranks, topology) = (program.name(), job.ranks, machine.topology().name());
    format!("{name}, {ranks} ranks on {} ({topology}), seed {seed}", machine.name)
}

/// The algorithm that the ranks of a collective choose, and the reason.
fn choice(rank: &SimulatedRank<()>, program: &BuiltinProgram) -> Option<String> {
    let (operation, how) = program.collective()?;
    let by = chosen(rank, operation, how.size as usize);
    let mut estimates = estimates(rank, operation, how.size as usize);
    estimates.sort_by(|one, other| one.1.total_cmp(&other.1));
    if !estimates.iter().any(|(name, _)| *name == by) {
        return Some(format!("Algorithm: {by}, as the table says (--algorithm names another)."));
    }
    let each: Vec<String> = estimates
        .into_iter()
        .map(|(name, time)| format!("{name} {}", Cell::number(time, Unit::Seconds).display()))
        .collect();
    let each = each.join(", ");
    Some(format!(
        "Algorithm: {by}; by the costs of messages on this machine: {each} (--algorithm names \
         another)."
    ))
}

fn notes(setting: &Setting) -> Vec<String> {
    let mut notes = Vec::new();
    if setting.job.ranks_per_node > 1 {
        notes.push(format!(
            "Messages within a node: {MEMORY_LATENCY} and {} (assumed; machine files state none).",
            setting.job.memory.rate
        ));
    }
    notes
}

/// The process's current resident memory in bytes (Linux); 0 if it cannot be read.
fn resident() -> u64 {
    let text = fs::read_to_string(Path::new("/proc/self/statm")).unwrap_or_default();
    let pages = text.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}
