//! `cargo xtask mutants`: how many changes of a crate's code do the tests detect?
//!
//! cargo-mutants lists the changes: an operator, a function's result, an arm of a match. There are
//! about thirteen thousand, so one in ten is made, chosen by `pick`. Changes that are never worth a
//! run are listed in `.cargo/mutants.toml`.
//!
//! ```text
//!   tree ──► copy ──► list ──► pick ──► switch ──► check ──► build ──► cover ──► judge ──► Score
//!                                 ▲                 │ not that way                │
//!                                 │                 └──► one build for each ──────┤
//!                                 └─────────────── verdicts.json ◄────────────────┘
//! ```
//!
//! A build for each mutant would take a minute, and a run a day. So all mutants are built at once,
//! each behind a `switch` that an environment variable turns on. A mutant meets only the tests that
//! reach its switch, each in a process of its own, and the first that fails is enough. Each verdict
//! is kept in `results`: an interrupted run continues later.
//!
//! Each test runs in a PID namespace of its own with limited memory: a mutant of code that ends
//! processes cannot end those of others, and one that allocates without end fails alone.

mod build;
mod copy;
mod judge;
mod lab;
mod pick;
mod results;
mod switch;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::{fs, io};

use thiserror::Error;

use judge::{Limits, NAMESPACE};
use lab::Lab;
pub use pick::{Genre, Mutant, Picked, Point, Span, pick};
use results::MutantResults;

/// The crates whose tests are tested.
const CRATES: &[&str] = &["nic", "shm", "msg", "coll", "rank", "dsm", "world", "launch"];

/// The folder of all build products and results.
const FOLDER: &str = "target/mutants";

/// The build settings in the copy, also for tests that build something: no mutant is debugged, and
/// its style does not matter.
const SETTINGS: [(&str, &str); 2] =
    [("CARGO_PROFILE_DEV_DEBUG", "0"), ("RUSTFLAGS", "--cap-lints=allow")];

/// Why no mutants were run.
#[derive(Debug, Error)]
pub enum MutantsError {
    /// An argument is unknown or incomplete.
    #[error("unknown argument {0}; mutants [--again] [--share N] [--seed N] \
        [--seconds N] [--patience N] [{crates}]...",
        crates = CRATES.join("|"))]
    Argument(String),
    /// A program cannot be started.
    #[error("cannot start {program}: {source}; `make mutants` installs what is needed")]
    Start {
        /// The program.
        program: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The system does not let a program have its own processes.
    #[error(
        "unshare cannot make a PID namespace, without which a mutant may kill processes of \
        others; allow user namespaces or run as root"
    )]
    Namespace,
    /// cargo failed.
    #[error("cargo {0} failed in the copy of the tree; see its lines above")]
    Cargo(&'static str),
    /// The compiler refuses the copy, and no mutant can be blamed.
    #[error("the copy does not compile, and no mutant is where the error is: {0}")]
    Blameless(String),
    /// The list of mutants cannot be read.
    #[error(
        "the answer of cargo or cargo mutants has an unknown form: {0}; adapt xtask/src/mutants"
    )]
    Form(#[from] serde_json::Error),
    /// A file cannot be read or written.
    #[error("cannot use {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Git cannot say which files the tree has.
    #[error("git ls-files failed in {0}; the tree to be changed is copied from a git checkout")]
    Git(PathBuf),
}

/// A request of the command line.
#[derive(Debug, PartialEq, Eq)]
pub struct MutantsRequest {
    crates: Vec<String>,
    share: u64,
    seed: u64,
    /// Whether survivors of earlier runs are tested once more.
    again: bool,
    limits: Limits,
}

impl MutantsRequest {
    /// Reads `[--again] [--share N] [--seed N] [--seconds N] [--patience N] [CRATE...]`.
    ///
    /// # Errors
    /// If an argument is none of these.
    pub fn parse(arguments: &[&str]) -> Result<MutantsRequest, MutantsError> {
        let limits = Limits { seconds: 60, patience: 4 };
        let mut request =
            MutantsRequest { crates: Vec::new(), share: 10, seed: 1, again: false, limits };
        let mut rest = arguments.iter();
        while let Some(&argument) = rest.next() {
            let unknown = || MutantsError::Argument(argument.to_string());
            let mut number = || {
                let number = rest.next().and_then(|n| n.parse::<u32>().ok());
                number.ok_or_else(unknown)
            };
            match argument {
                "--again" => request.again = true,
                "--share" => request.share = number()?.into(),
                "--seed" => request.seed = number()?.into(),
                "--seconds" => request.limits.seconds = number()?,
                "--patience" => request.limits.patience = number()?,
                name if CRATES.contains(&name) => request.crates.push(name.to_string()),
                _ => return Err(unknown()),
            }
        }
        if request.share == 0 {
            return Err(MutantsError::Argument("--share 0".to_string()));
        }
        if request.crates.is_empty() {
            request.crates = CRATES.iter().map(ToString::to_string).collect();
        }
        Ok(request)
    }

    /// Runs mutants of the crates in the tree at `root` and prints their verdicts.
    ///
    /// # Errors
    /// If cargo or cargo-mutants cannot be run, or a file cannot be written.
    pub fn run(&self, root: &Path) -> Result<(), MutantsError> {
        let mut namespace = Command::new(NAMESPACE[0]);
        if !run(namespace.args(&NAMESPACE[1..]).arg("true"))?.status.success() {
            return Err(MutantsError::Namespace);
        }
        let folder = root.join(FOLDER);
        let lab = Lab { tree: folder.join("tree"), crates: &self.crates };
        copy::refresh(root, &lab.tree)?;
        let all = lab.list()?;
        let picked = pick(&all, self.share, self.seed);
        let mut results = MutantResults::load(&folder.join("verdicts.json"))?;
        let is_due = |picked: &&Picked<'_>| results.is_due(&picked.key, self.again);
        let due: Vec<Picked<'_>> = picked.iter().filter(is_due).cloned().collect();
        if !due.is_empty() {
            lab.judge(&due, self.limits, &mut results)?;
        }
        for name in &self.crates {
            let is_here = |mutant: &Mutant| mutant.file.starts_with(&format!("crates/{name}/"));
            let here = picked.iter().filter(|picked| is_here(picked.mutant));
            let score = results.score(here.map(|picked| picked.key.as_str()));
            let (count, seed) = (all.iter().filter(|mutant| is_here(mutant)).count(), self.seed);
            println!("{name}: {} of {count} mutants (seed {seed}): {score}", score.all());
        }
        Ok(())
    }
}

/// The package of a crate: that of `world` has the name of the whole project.
fn package(name: &str) -> String {
    if name == "world" { "hikyaku".to_string() } else { format!("hikyaku-{name}") }
}

/// Runs a command to its end. Its errors are shown, and so is its output unless it is piped.
fn run(command: &mut Command) -> Result<Output, MutantsError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stderr(Stdio::inherit()).output();
    output.map_err(|source| MutantsError::Start { program, source })
}

/// Adds the file to an error.
fn at(path: &Path) -> impl FnOnce(io::Error) -> MutantsError {
    let path = path.to_path_buf();
    move |source| MutantsError::File { path, source }
}

fn make_folder(path: &Path) -> Result<(), MutantsError> {
    fs::create_dir_all(path).map_err(at(path))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), MutantsError> {
    fs::write(path, bytes).map_err(at(path))
}

/// The contents of a file as text. A test may write bytes that are not text.
fn read(path: &Path) -> Result<String, MutantsError> {
    let bytes = fs::read(path).map_err(at(path))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn arguments_come_in_any_order() {
        let arguments =
            ["coll", "--seed", "7", "--again", "nic", "--seconds", "9", "--share", "40"];
        let crates = vec!["coll".to_string(), "nic".to_string()];
        let limits = Limits { seconds: 9, patience: 4 };
        let expected = MutantsRequest { crates, share: 40, seed: 7, again: true, limits };
        assert_eq!(MutantsRequest::parse(&arguments).unwrap(), expected);
        let crates = CRATES.iter().map(ToString::to_string).collect();
        let limits = Limits { seconds: 60, patience: 2 };
        let all = MutantsRequest { crates, share: 10, seed: 1, again: false, limits };
        assert_eq!(MutantsRequest::parse(&["--patience", "2"]).unwrap(), all);
    }

    #[test]
    fn bad_arguments_are_refused_by_name() {
        for (arguments, named) in [
            (&["python"][..], "python"),
            (&["--share"], "--share"),
            (&["--share", "0"], "--share 0"),
            (&["--seed", "x"], "--seed"),
            (&["--seconds", "-1"], "--seconds"),
        ] {
            let error = MutantsRequest::parse(arguments).unwrap_err().to_string();
            assert!(error.starts_with(&format!("unknown argument {named};")), "{error}");
        }
    }

    #[test]
    fn each_crate_has_its_package() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for name in CRATES {
            let path = root.join(format!("crates/{name}/Cargo.toml"));
            let manifest = fs::read_to_string(&path).unwrap();
            assert!(manifest.contains(&format!("\nname = \"{}\"\n", package(name))), "{name}");
        }
    }
}
