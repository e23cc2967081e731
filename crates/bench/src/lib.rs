//! `hikyaku bench` as a library: the speed of messages here, as a ratio to the limits of the bare
//! hardware at the same moment, and on request to other libraries.
//!
//! The program measures itself: the conductor (this process) starts itself as ranks with
//! `hikyaku run`, one to a core if there are enough, and sends them commands over a Unix socket.
//! Machines drift during a measurement, so the bare hardware is measured directly before and after
//! every block of about 50 ms, between the same two cores. The first figure reported is the median
//! of the ratios formed block by block.
//!
//! Reading order: `arguments` and `plan` (pure), `kinds` (the measurements, and the ranks' side of
//! them), `hardware` (the bare measurements), `control`, `rank` and `buffers` (the protocol, the
//! ranks that follow it, and their buffers), `job`, `peers` and `conductor` (which programs are
//! started, and when), `results` and `present` (the results and their output).

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod arguments;
mod plan;

mod hardware;
mod kinds;
mod machine;
mod processor;

mod buffers;
mod control;
mod rank;
mod serve;

mod job;
mod peers;
mod rivals;
mod scratch;

mod conductor;
mod present;
mod results;

use std::env;
use std::fmt::Display;
use std::fs;
use std::io;
use std::path::PathBuf;

use indicatif::ProgressBar;
use thiserror::Error;

pub use arguments::BenchArguments;
use arguments::{Api, ArgumentError, BenchSettings, Other, PeerKind, Role};
use conductor::{BenchRun, Contestant, RunFindings};
use machine::MachineDescription;
use peers::{PeerError, Tools};
use plan::NearFar;
use results::{BenchResults, Figure, SCHEMA};
use rivals::{Rival, RivalKind};
use scratch::ScratchFolder;

/// The outputs of a benchmark.
#[derive(Clone, Copy)]
pub struct Console<'c> {
    /// Prints a text and a newline on standard output.
    pub print: &'c dyn Fn(&str) -> io::Result<()>,
    /// Prints one line on standard error.
    pub say: &'c dyn Fn(&dyn Display),
}

/// Why there is no result, or an incomplete one. The text is one line.
#[derive(Debug, Error)]
pub enum BenchFailure {
    /// The command line is invalid.
    #[error("{0}")]
    Usage(String),
    /// Standard output cannot be written; the files were written.
    #[error("cannot write standard output: {0}")]
    Output(io::Error),
    /// The machine or a program refused.
    #[error("{0}")]
    Refused(String),
}

impl From<BenchError> for BenchFailure {
    fn from(error: BenchError) -> BenchFailure {
        match error {
            BenchError::Arguments(error) => BenchFailure::Usage(error.to_string()),
            BenchError::Output(error) => BenchFailure::Output(error),
            error => BenchFailure::Refused(error.to_string()),
        }
    }
}

/// Why a benchmark has no result at all.
#[derive(Debug, Error)]
enum BenchError {
    /// The command line is invalid.
    #[error("{0}")]
    Arguments(#[from] ArgumentError),
    /// The path of this program is unknown.
    #[error("cannot find this program's own file, to start it as ranks: {0}")]
    Executable(io::Error),
    /// Interrupts cannot be watched.
    #[error("cannot watch for interrupts: {0}")]
    Signals(io::Error),
    /// There is no place for temporary files.
    #[error("cannot make a directory for temporary files (see TMPDIR): {0}")]
    Scratch(io::Error),
    /// A report cannot be written.
    #[error("cannot write {}: {source}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Standard output cannot be written.
    #[error("cannot write standard output: {0}")]
    Output(io::Error),
    /// There is no figure of this library.
    #[error("nothing could be measured: {0}")]
    Nothing(String),
    /// A rank failed.
    #[error("{0}")]
    Rank(#[from] rank::RankError),
}

/// Runs `hikyaku bench` in a program that serves as its own launcher and its own ranks: it starts
/// its own file as `hikyaku run` and as `hikyaku bench --role rank`.
///
/// # Errors
/// [`BenchFailure`]: nothing could be measured, or not everything could be written.
pub fn run(arguments: &BenchArguments, console: Console<'_>) -> Result<(), BenchFailure> {
    Ok(dispatch(arguments, console)?)
}

fn dispatch(arguments: &BenchArguments, console: Console<'_>) -> Result<(), BenchError> {
    let settings = arguments.settings()?;
    match (arguments.role, &arguments.control) {
        (Some(Role::Nothing), _) => Ok(()),
        (Some(Role::Start), _) => Ok(serve::start_only()?),
        (Some(Role::Rank), Some(control)) => Ok(serve::serve(control)?),
        (Some(Role::Rank), None) => Err(ArgumentError::NoControl.into()),
        (None, _) => conduct(arguments, &settings, console),
    }
}

/// Measures, writes and prints.
fn conduct(
    arguments: &BenchArguments,
    settings: &BenchSettings,
    console: Console<'_>,
) -> Result<(), BenchError> {
    let say_all = |notes: &[String]| {
        notes.iter().for_each(|note| (console.say)(&format_args!("bench: {note}")));
    };
    let executable = env::current_exe().map_err(BenchError::Executable)?;
    scratch::remove_when_interrupted().map_err(BenchError::Signals)?;
    // The peers' programs live here until the last of them has been started.
    let scratch = ScratchFolder::new().map_err(BenchError::Scratch)?;
    let mut contestants = vec![Contestant::Hikyaku(executable.clone())];
    let mut notes = Vec::new();
    let directories = peers::search_path(&arguments.peer_dir);
    let own = (arguments.api == Api::Mpi).then(|| built(peers::own(&executable), &scratch));
    let others = arguments.against.iter();
    let others = others.flat_map(|other| contestants_of(*other, &directories, &scratch));
    for found in own.into_iter().chain(others) {
        match found {
            Ok(contestant) => contestants.push(contestant),
            Err(note) => notes.push(note),
        }
    }
    say_all(&notes);

    let mut figures = Vec::new();
    // Hidden where standard error is no terminal.
    let line = ProgressBar::new_spinner();
    let mut progress = |figure: &Figure| {
        let size = figure.bytes.map(|bytes| format!(", {bytes} bytes")).unwrap_or_default();
        line.set_message(format!("measured {}, {} ranks{size}", figure.kind.name(), figure.ranks));
        figures.push(figure.clone());
    };
    let found = BenchRun::new(settings, executable, contestants, &mut progress).run();
    line.finish_and_clear();
    say_all(&found.notes);
    let results = gather(settings, found, figures, notes);
    publish(arguments, &results, console)?;
    let measured = |figure: &Figure| figure.series.iter().any(|series| series.value.is_some());
    match results.figures.iter().any(measured) {
        true => Ok(()),
        false => Err(BenchError::Nothing(results.notes.join("; "))),
    }
}

/// A library with the comparison program built by its tools.
fn built(tools: Result<Tools, PeerError>, scratch: &ScratchFolder) -> Result<Contestant, String> {
    let built = tools.and_then(|tools| tools.build(scratch.path()));
    built.map(Contestant::Peer).map_err(|error| error.to_string())
}

/// The contestants to compare with, ready to be started, or why they cannot be.
fn contestants_of(
    other: Other,
    directories: &[PathBuf],
    scratch: &ScratchFolder,
) -> Vec<Result<Contestant, String>> {
    let rival = |kind| {
        let prepared = Rival::prepare(kind, directories, scratch.path());
        prepared.map(Contestant::Rival).map_err(|error| error.to_string())
    };
    let peer = |kind| built(peers::find(kind, directories), scratch);
    match other {
        Other::OpenMpi => vec![peer(PeerKind::OpenMpi)],
        Other::Mpich => vec![peer(PeerKind::Mpich)],
        // Python programs are compared with Python programs.
        Other::Python => vec![rival(RivalKind::Package), rival(RivalKind::Python)],
        Other::Mutex => vec![rival(RivalKind::Mutex)],
        Other::Redis => vec![rival(RivalKind::Redis)],
        Other::Limit => vec![rival(RivalKind::Limit)],
    }
}

fn gather(
    settings: &BenchSettings,
    found: RunFindings,
    figures: Vec<Figure>,
    mut notes: Vec<String>,
) -> BenchResults {
    notes.extend(found.notes);
    BenchResults {
        schema: SCHEMA,
        hikyaku: env!("CARGO_PKG_VERSION").to_owned(),
        machine: MachineDescription::describe(),
        cores: [found.cores.first, found.cores.second],
        line: NearFar::of(&found.lines),
        blocks: settings.blocks,
        block_milliseconds: u64::try_from(settings.block.as_millis()).unwrap_or(u64::MAX),
        contestants: found.contestants,
        figures,
        notes,
    }
}

fn publish(
    arguments: &BenchArguments,
    results: &BenchResults,
    console: Console<'_>,
) -> Result<(), BenchError> {
    let text = match arguments.json {
        true => serde_json::to_string_pretty(results).expect("results are numbers and names"),
        false => present::text(results).trim_end().to_owned(),
    };
    // The files are written even if standard output fails.
    let printed = (console.print)(&text);
    for (path, content) in arguments.report.iter().flat_map(|to| present::files(results, to)) {
        let written = fs::write(&path, content);
        written.map_err(|source| BenchError::Write { path: path.clone(), source })?;
        (console.say)(&format_args!("bench: wrote {}", path.display()));
    }
    printed.map_err(BenchError::Output)
}
