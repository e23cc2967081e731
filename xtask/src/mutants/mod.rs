//! `cargo xtask mutants`: how many changes of a crate's code do its own tests detect?
//!
//! cargo-mutants changes one thing at a time (an operator, a function's result, an arm of a match)
//! and runs the tests. There are about ten thousand mutants and a build for each, so one in ten is
//! run: which, `pick` says. What is never worth a run stands in `.cargo/mutants.toml`.
//!
//! ```text
//!   cargo mutants --list ──► pick ──► cargo mutants --re … ──► outcomes.json ──► Score
//! ```
//!
//! Each program of tests runs in a PID namespace of its own with limited memory: a mutant of code
//! that ends processes ends no other's, and one that allocates without end fails alone.

mod pick;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::{fmt, fs, io};

use serde::Deserialize;
use thiserror::Error;

pub use pick::{Mutant, pick};

/// The crates whose tests are tested.
const CRATES: &[&str] = &["nic", "shm", "msg", "coll", "dsm", "world", "launch"];

/// Where everything that is built and written goes.
const FOLDER: &str = "target/mutants";

/// What gives a program processes of its own.
const NAMESPACE: &[&str] =
    &["unshare", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// What limits its memory. The shell is the first process of the namespace: to that one the kernel
/// delivers no signal which it does not handle, and tests send themselves some.
const LIMITS: &[&str] =
    &["prlimit", "--data=4294967296", "--core=0", "sh", "-c", "\"$@\"; exit $?", "sh"];

/// A test that took one second may take this many, and never less than [`LEAST_SECONDS`]: others
/// load the machine, and a mutant that ran out of time is not known to be caught.
const TIMES_AS_LONG: &str = "8";
const LEAST_SECONDS: &str = "90";

/// Why no mutants were run.
#[derive(Debug, Error)]
pub enum MutantsError {
    /// An argument is unknown or incomplete.
    #[error("unknown argument {0}; mutants [--share N] [--seed N] [{crates}]...",
        crates = CRATES.join("|"))]
    Argument(String),
    /// A program cannot be started.
    #[error("cannot start {program}: {source}; `make mutants` installs what is needed")]
    Start {
        /// What was to be started.
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
    /// cargo-mutants failed.
    #[error("cargo mutants failed on {0}; see its lines above")]
    Failed(String),
    /// The list of mutants cannot be read.
    #[error("cargo mutants answered in an unknown form: {0}; adapt xtask/src/mutants/pick.rs")]
    Form(#[from] serde_json::Error),
    /// A result cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// What was to be read.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// What is asked for on the command line.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    crates: Vec<String>,
    share: u64,
    seed: u64,
}

impl Request {
    /// Reads `[--share N] [--seed N] [CRATE...]`.
    ///
    /// # Errors
    /// If an argument is none of these.
    pub fn parse(arguments: &[&str]) -> Result<Request, MutantsError> {
        let mut request = Request { crates: Vec::new(), share: 10, seed: 1 };
        let mut rest = arguments.iter();
        while let Some(&argument) = rest.next() {
            let unknown = || MutantsError::Argument(argument.to_string());
            let mut number = || rest.next().and_then(|n| n.parse().ok()).ok_or_else(unknown);
            match argument {
                "--share" => request.share = number()?,
                "--seed" => request.seed = number()?,
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

    /// Runs the mutants of each crate in the tree at `root` and prints what became of them.
    ///
    /// # Errors
    /// If cargo-mutants cannot be run, or the crate's tests fail without any mutant.
    pub fn run(&self, root: &Path) -> Result<(), MutantsError> {
        let mut namespace = Command::new(NAMESPACE[0]);
        if !run(namespace.args(&NAMESPACE[1..]).arg("true"))?.status.success() {
            return Err(MutantsError::Namespace);
        }
        for name in &self.crates {
            let all = list(root, name)?;
            let picked = pick(&all, self.share, self.seed);
            let score = test(root, name, &picked)?;
            // cargo-mutants 27.1 adds all deletions of fields to those that it is asked for.
            println!(
                "{name}: {} of {} mutants (seed {}): {score}",
                score.all(),
                all.len(),
                self.seed
            );
        }
        Ok(())
    }
}

/// All mutants of a crate.
fn list(root: &Path, name: &str) -> Result<Vec<Mutant>, MutantsError> {
    let listed = run(cargo_mutants(root, name).args(["--list", "--json"]).stdout(Stdio::piped()))?;
    match listed.status.success() {
        true => Ok(serde_json::from_slice(&listed.stdout)?),
        false => Err(MutantsError::Failed(name.to_string())),
    }
}

/// Runs the crate's tests on each of the picked mutants.
fn test(root: &Path, name: &str, picked: &[&Mutant]) -> Result<Score, MutantsError> {
    if picked.is_empty() {
        return Ok(Score::default());
    }
    let folder = root.join(FOLDER).join(name);
    let failed = |path: &Path, source| MutantsError::Read { path: path.to_path_buf(), source };
    fs::create_dir_all(&folder).map_err(|source| failed(&folder, source))?;
    let mut command = cargo_mutants(root, name);
    command
        .args(["--jobs=1", "--cap-lints=true", "--output"])
        .arg(&folder)
        .args(["--timeout-multiplier", TIMES_AS_LONG, "--minimum-test-timeout", LEAST_SECONDS])
        .args(["--cargo-arg=--tests", "--cargo-arg=--config"])
        .arg(format!("--cargo-arg=target.'cfg(unix)'.runner={:?}", [NAMESPACE, LIMITS].concat()));
    for mutant in picked {
        command.arg(format!("--re=^{}$", escaped(&mutant.name)));
    }
    // 2: some were missed; 3: some timed out. Everything else is no result.
    if !matches!(run(&mut command)?.status.code(), Some(0 | 2 | 3)) {
        return Err(MutantsError::Failed(name.to_string()));
    }
    Score::read(|file| {
        let path = folder.join("mutants.out").join(file);
        // What a test writes need not be text.
        let bytes = fs::read(&path).map_err(|source| failed(&path, source))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    })
}

/// `cargo mutants` of one crate, with everything that it writes below [`FOLDER`].
fn cargo_mutants(root: &Path, name: &str) -> Command {
    let folder = root.join(FOLDER);
    let mut command = Command::new("cargo-mutants");
    command
        .args(["mutants", "--package", &package(name)])
        .current_dir(root)
        .env("TMPDIR", &folder)
        .env("CARGO_TARGET_DIR", folder.join("build"))
        // Nobody reads a mutant in a debugger.
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        // The first failure is enough: to look for the smallest would take the test's time away.
        .env("PROPTEST_MAX_SHRINK_ITERS", "0")
        .stdout(Stdio::inherit());
    command
}

/// The package of a crate: that of `world` has the name of the whole.
fn package(name: &str) -> String {
    if name == "world" { "hikyaku".to_string() } else { format!("hikyaku-{name}") }
}

/// Runs a command to its end; its errors are shown, and its output where that is not piped.
fn run(command: &mut Command) -> Result<Output, MutantsError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stderr(Stdio::inherit()).output();
    output.map_err(|source| MutantsError::Start { program, source })
}

/// `text` as a regular expression that matches it alone.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if r"\.+*?()|[]{}^$#&-~".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// What became of the mutants: their names by outcome.
#[derive(Debug, Default)]
struct Score {
    caught: Vec<String>,
    missed: Vec<String>,
    timed_out: Vec<String>,
    unviable: Vec<String>,
}

impl Score {
    /// How many were run.
    fn all(&self) -> usize {
        [&self.caught, &self.missed, &self.timed_out, &self.unviable].map(Vec::len).iter().sum()
    }

    /// Reads the outcomes that cargo-mutants has written. One that ran out of time is caught if a
    /// test had failed before: others of the same program may hang.
    fn read(text: impl Fn(&str) -> Result<String, MutantsError>) -> Result<Score, MutantsError> {
        let read: Outcomes = serde_json::from_str(&text("outcomes.json")?)?;
        let mut score = Score::default();
        for outcome in read.outcomes {
            let Scenario::Mutant(Mutant { name, .. }) = outcome.scenario else { continue };
            let list = match outcome.summary {
                Summary::CaughtMutant => &mut score.caught,
                Summary::MissedMutant => &mut score.missed,
                Summary::Timeout if text(&outcome.log_path)?.contains(" ... FAILED") => {
                    &mut score.caught
                }
                Summary::Timeout => &mut score.timed_out,
                Summary::Unviable => &mut score.unviable,
                Summary::Other => continue,
            };
            list.push(name);
        }
        Ok(score)
    }
}

/// `outcomes.json` of cargo-mutants.
#[derive(Deserialize)]
struct Outcomes {
    outcomes: Vec<Outcome>,
}

#[derive(Deserialize)]
struct Outcome {
    scenario: Scenario,
    summary: Summary,
    log_path: String,
}

#[derive(Deserialize)]
enum Scenario {
    Baseline,
    Mutant(Mutant),
}

#[derive(Deserialize)]
enum Summary {
    CaughtMutant,
    MissedMutant,
    Timeout,
    Unviable,
    /// Of the baseline.
    #[serde(other)]
    Other,
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [caught, missed, timed_out] =
            [&self.caught, &self.missed, &self.timed_out].map(Vec::len);
        write!(f, "{caught} caught, {missed} missed, {timed_out} timed out, ")?;
        write!(f, "{} unviable", self.unviable.len())?;
        // What does not compile says nothing of the tests.
        if let Some(share) = (100 * caught).checked_div(caught + missed + timed_out) {
            write!(f, "; {share} % caught")?;
        }
        self.missed.iter().try_for_each(|name| write!(f, "\n  missed: {name}"))?;
        self.timed_out.iter().try_for_each(|name| write!(f, "\n  timed out: {name}"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    #[test]
    fn arguments_come_in_any_order() {
        let request = Request::parse(&["coll", "--seed", "7", "nic", "--share", "40"]).unwrap();
        let crates = vec!["coll".to_string(), "nic".to_string()];
        assert_eq!(request, Request { crates, share: 40, seed: 7 });
        let all = Request::parse(&[]).unwrap();
        assert_eq!((all.crates.len(), all.share, all.seed), (CRATES.len(), 10, 1));
    }

    #[test]
    fn bad_arguments_are_refused_by_name() {
        for (arguments, named) in [
            (&["python"][..], "python"),
            (&["--share"], "--share"),
            (&["--share", "0"], "--share 0"),
            (&["--seed", "x"], "--seed"),
        ] {
            let error = Request::parse(arguments).unwrap_err().to_string();
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

    #[test]
    fn a_name_matches_itself_only() {
        let name = "a/b.rs:1:2: replace <impl X for &Y>::f -> Option<[u8]> with {a|b}(-1)";
        assert_eq!(
            escaped(name),
            r"a/b\.rs:1:2: replace <impl X for \&Y>::f \-> Option<\[u8\]> with \{a\|b\}\(\-1\)"
        );
    }

    #[test]
    fn a_timeout_is_caught_only_if_a_test_failed() {
        let outcome = |number: u32, summary: &str| {
            let log_path = format!("log/{number}");
            let mutant = json!({ "name": number.to_string(), "file": "a.rs" });
            json!({ "scenario": { "Mutant": mutant }, "summary": summary, "log_path": log_path })
        };
        let outcomes = json!({ "outcomes": [
            json!({ "scenario": "Baseline", "summary": "Success", "log_path": "log/0" }),
            outcome(1, "CaughtMutant"), outcome(2, "CaughtMutant"), outcome(3, "MissedMutant"),
            outcome(4, "Timeout"), outcome(5, "Timeout"), outcome(6, "Unviable"),
        ] });
        let score = Score::read(|file| match file {
            "outcomes.json" => Ok(outcomes.to_string()),
            "log/4" => Ok("test a ... ok\ntest b ... FAILED\n".to_string()),
            "log/5" => Ok("test a ... ok\n".to_string()),
            other => panic!("nobody needs {other}"),
        });
        let score = score.unwrap();
        assert_eq!(score.all(), 6);
        assert_eq!(
            score.to_string(),
            "3 caught, 1 missed, 1 timed out, 1 unviable; 60 % caught\n  missed: 3\n  timed out: 5"
        );
        assert_eq!(Score::default().to_string(), "0 caught, 0 missed, 0 timed out, 0 unviable");
    }
}
