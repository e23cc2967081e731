//! `hikyaku simulate`: a program on a machine that is not there.
//!
//! ```text
//!   Arguments ──► Setting: machine, ranks, payload, seed        one line on what makes no sense
//!                    │
//!                    ├── built-in program ──► programs.rs ──► Job ──► watch.rs ──► Outcome
//!                    │                            │ trace
//!                    │                            └──► story.rs ──► exhibit.rs: page, SVG, JSON
//!                    └── -- ./program     ──► processes.rs
//!   --sweep    every collective on every machine ──► sweep/
//!   --what-if  a question of reproduce::what_if  ──► question.rs
//! ```

mod arguments;
mod exhibit;
mod outcome;
mod processes;
mod programs;
mod question;
mod story;
mod sweep;
mod watch;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use hikyaku::{Time, UnknownChoice};
use hikyaku_sim::SimError;
use hikyaku_sim::engine::Simulation;
use hikyaku_sim::job::{self, JobConfig, MemoryPath, Payload};
use hikyaku_sim::machine::Machine;
use hikyaku_sim::network::Rate;
use thiserror::Error;

pub(crate) use arguments::Arguments;
use arguments::Program;
use exhibit::Exhibit;
use outcome::Outcome;
use watch::{STEPS, Watch};

use crate::exit::{USAGE, print, say};
use crate::machine::{LoadError, load};

/// The program failed.
const FAILED: u8 = 3;

/// Interrupted, as shells count: 128 and the number of the signal.
const INTERRUPTED: u8 = 130;

/// The most ranks of a job; their tasks would fill some gigabytes.
const MOST_RANKS: u32 = 1 << 20;

/// Messages between ranks of a node: what a cache line and a copy take on a present-day host.
/// Machine files say nothing of it, and the report names it where it is used.
const MEMORY_LATENCY: Time = Time::from_nanoseconds(200);
const MEMORY_RATE: f64 = 10e9;

/// Why a command line cannot be carried out; the user's mistake.
#[derive(Debug, Error)]
pub(crate) enum SettingError {
    /// An option that the rest of the command line needs.
    #[error("{0} is missing: see hikyaku simulate --help")]
    Missing(&'static str),
    /// A number of ranks that makes no sense.
    #[error("{0} ranks: a simulated job has from 1 to {MOST_RANKS}")]
    Ranks(u32),
    /// A number of ranks to a node that makes no sense.
    #[error("no rank to a node: --ranks-per-node takes a number from 1 on")]
    NoneToANode,
    /// Larger than shapes grow.
    #[error("{machine} cannot be made larger for {nodes} nodes: {why}")]
    Nodes {
        /// The machine.
        machine: String,
        /// How many were asked for.
        nodes: u32,
        /// What stands against it.
        why: String,
    },
    /// The ranks do not fit.
    #[error(
        "{ranks} ranks, {per_node} to a node, need {needed} nodes, {machine} has {nodes}; \
         --nodes {needed} simulates a larger one"
    )]
    TooManyRanks {
        /// The machine.
        machine: String,
        /// Ranks.
        ranks: u32,
        /// Ranks to a node.
        per_node: u32,
        /// Nodes that this takes.
        needed: u32,
        /// Nodes that there are.
        nodes: u32,
    },
    /// The machine file.
    #[error(transparent)]
    Machine(#[from] LoadError),
    /// The algorithm.
    #[error(transparent)]
    Choice(#[from] UnknownChoice),
    /// A form of timeline that there is not.
    #[error("{0}: a timeline is a page (.html) or a picture (.svg)")]
    Form(PathBuf),
}

/// What to simulate a job on, checked.
#[derive(Debug)]
pub(crate) struct Setting {
    /// The machine, enlarged if that was asked for.
    pub(crate) machine: Machine,
    /// The job, without the costs of its interface.
    pub(crate) job: JobConfig,
    /// What random numbers follow from.
    pub(crate) seed: u64,
    /// What to write of what happened.
    pub(crate) exhibit: Exhibit,
}

impl Setting {
    fn new(arguments: &Arguments) -> Result<Setting, SettingError> {
        let file = arguments.machine.as_deref().ok_or(SettingError::Missing("--machine FILE"))?;
        let ranks = arguments.ranks.ok_or(SettingError::Missing("-n RANKS"))?;
        let mut machine = load(file)?;
        if let Some(nodes) = arguments.nodes {
            let name = machine.name.clone();
            let refuse = |why: String| SettingError::Nodes { machine: name, nodes, why };
            machine = machine.with_nodes(nodes).map_err(refuse)?;
        }
        let per_node = arguments.ranks_per_node;
        if per_node == 0 {
            return Err(SettingError::NoneToANode);
        }
        if !(1..=MOST_RANKS).contains(&ranks) {
            return Err(SettingError::Ranks(ranks));
        }
        let (needed, nodes) = (ranks.div_ceil(per_node), machine.nodes);
        if needed > nodes {
            let machine = machine.name;
            return Err(SettingError::TooManyRanks { machine, ranks, per_node, needed, nodes });
        }
        let payload = if arguments.lengths_only { Payload::LengthsOnly } else { Payload::Carried };
        let memory =
            MemoryPath { latency: MEMORY_LATENCY, rate: Rate::bytes_per_second(MEMORY_RATE) };
        let job = JobConfig { ranks_per_node: per_node, payload, memory, ..JobConfig::new(ranks) };
        let exhibit = Exhibit::new(arguments.trace.clone(), arguments.timeline.clone());
        let exhibit = exhibit.map_err(SettingError::Form)?;
        Ok(Setting { machine, job, seed: arguments.seed, exhibit })
    }
}

/// Simulates what the command line says.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    if let Some(name) = &arguments.what_if {
        return question::run(name, &arguments.output);
    }
    if arguments.sweep {
        return sweep::run(arguments);
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

/// Runs a built-in program and prints what came of it.
fn run_built_in(setting: &Setting, program: &Program) -> ExitCode {
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
        Ended::Right => ExitCode::SUCCESS,
        Ended::Interrupted => {
            say(format_args!("interrupted: the report covers the run up to then"));
            ExitCode::from(INTERRUPTED)
        }
        Ended::Failed(why) => {
            say(why);
            ExitCode::from(FAILED)
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Ended {
    Right,
    Interrupted,
    Failed(String),
}

/// Runs a program to its end, or as far as it gets.
fn simulate(setting: &Setting, program: &Program) -> Result<(Outcome, Ended), SettingError> {
    let Setting { machine, job: config, seed, exhibit } = setting;
    let before = resident();
    let simulation = Simulation::new(*seed);
    let sync = machine.synchronisation(&simulation, config.ranks.div_ceil(config.ranks_per_node));
    let parts = programs::Job { ranks: config.ranks, seed: *seed, payload: config.payload, sync };
    let maker = programs::maker(program, parts)?;
    exhibit.prepare(&simulation);
    let installed = machine.install(&simulation);
    let job = job::Job::new(&simulation, *config, installed.carrier);
    let job = job.expect("that the ranks fit the machine was checked");
    let results = job.launch(maker);
    let mut watch = Watch::start();
    let ran = simulation.run_observed(STEPS, |progress| watch.observe(progress, job.in_flight()));
    watch.finish();
    let report = job.progress(&results);
    let mut outcome = Outcome {
        title: title(setting, program),
        end: report.iter().map(|(end, _, _)| *end).max().unwrap_or_default(),
        ranks: report.iter().map(|(end, usage, _)| (*end, *usage)).collect(),
        totals: job.totals(),
        events: simulation.events(),
        seconds: watch.seconds(),
        grown: resident().saturating_sub(before),
        checked: config.payload == Payload::Carried,
        notes: notes(setting),
        shown: Ok(()),
    };
    let links = installed.network.map(|_| installed.topology);
    let page = |timeline: &_| exhibit::page(&outcome.facts(), timeline);
    let shown = exhibit.show(&simulation.trace(), &outcome.title, links.as_deref(), page);
    outcome.shown = shown;
    let wrong = report.into_iter().find_map(|(_, _, answer)| answer?.err());
    let ended = match (ran.map_err(|error| job.explain(error)), wrong) {
        (Err(SimError::Stopped { .. }), _) if watch.interrupted() => Ended::Interrupted,
        (_, Some(wrong)) => Ended::Failed(wrong),
        (Err(error), None) => Ended::Failed(error.to_string()),
        (Ok(()), None) => Ended::Right,
    };
    Ok((outcome, ended))
}

fn title(setting: &Setting, program: &Program) -> String {
    let Setting { machine, job, seed, .. } = setting;
    let (name, ranks, topology) = (program.name(), job.ranks, machine.topology().name());
    format!("{name}, {ranks} ranks on {} ({topology}), seed {seed}", machine.name)
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

/// Bytes of memory that the process has now (Linux); 0 where that cannot be read.
fn resident() -> u64 {
    let text = fs::read_to_string(Path::new("/proc/self/statm")).unwrap_or_default();
    let pages = text.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}
