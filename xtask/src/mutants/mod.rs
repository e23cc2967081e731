//! `cargo xtask mutants`: how many changes of a crate's code do its own tests detect?
//!
//! cargo-mutants changes one thing at a time (an operator, a function's result, an arm of a match)
//! and runs the tests. There are about ten thousand mutants and a build for each, so one in ten is
//! run: which, `pick` says. What is never worth a run stands in `.cargo/mutants.toml`.
//!
//! ```text
//!   tree ──► copy ──► list ──► pick ──► quick: --lib ──► all: --tests ──► Score
//!                                         │  caught        │
//!                                         └── results.json ┘
//! ```
//!
//! The unit tests judge each mutant first: they are built and run in seconds. Only what they miss
//! meets all tests of the crate. Both stages change a copy of the tree in place, so that a mutant
//! rebuilds its crate and nothing else. Each verdict is kept in `results`: a run that ended early
//! goes on where it was.
//!
//! Each program of tests runs in a PID namespace of its own with limited memory: a mutant of code
//! that ends processes ends no other's, and one that allocates without end fails alone.

mod copy;
mod pick;
mod results;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::{fs, io};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use pick::Picked;
pub use pick::{Mutant, pick};
use results::MutantResults;

/// The crates whose tests are tested.
const CRATES: &[&str] = &["nic", "shm", "msg", "coll", "rank", "dsm", "world", "launch"];

/// The crates whose tests judge a crate beside its own: what `rank` does, programs of `world` see,
/// and also what `dsm` does.
fn other_judges(name: &str) -> &'static [&'static str] {
    match name {
        "rank" | "dsm" => &["world"],
        _ => &[],
    }
}

/// Where everything that is built and written goes.
const FOLDER: &str = "target/mutants";

/// What gives a program processes of its own.
const NAMESPACE: &[&str] =
    &["unshare", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// What limits its memory and ends it with the first test that fails: others may then hang, or take
/// minutes. The shell is the first process of the namespace: to that one the kernel delivers no
/// signal which it does not handle, and tests send themselves some.
const LIMITS: &[&str] =
    &["prlimit", "--data=4294967296", "--core=0", "sh", "-c", UNTIL_FAILURE, "sh"];

/// `kill -1` means all processes of the namespace but the first and the one that calls it.
const UNTIL_FAILURE: &str = r#"{ "$@"; echo "ended $?"; } |
    { sed -u '/ \.\.\. FAILED$/q1; /^ended [^0]/q1'; code=$?; kill -KILL -1 2>&-; exit $code; }"#;

/// Tests that took one second may take this many: others load the machine, and a mutant that ran
/// out of time is not known to be caught.
const TIMES_AS_LONG: &str = "3";

/// Which tests judge a mutant, in the order in which they do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum TestStage {
    /// The unit tests of the crate.
    Quick,
    /// All its tests, and those of crates above that are about it too.
    All,
}

impl TestStage {
    /// The folder of the stage, what cargo is to build, and the least time of its tests, seconds.
    const fn means(self) -> (&'static str, &'static str, &'static str) {
        match self {
            TestStage::Quick => ("quick", "--cargo-arg=--lib", "60"),
            TestStage::All => ("all", "--cargo-arg=--tests", "90"),
        }
    }
}

/// Why no mutants were run.
#[derive(Debug, Error)]
pub enum MutantsError {
    /// An argument is unknown or incomplete.
    #[error("unknown argument {0}; mutants [--quick] [--again] [--share N] [--seed N] \
        [{crates}]...",
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
    /// A file cannot be read or written.
    #[error("cannot use {path}: {source}")]
    File {
        /// Which file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Git cannot say which files the tree has.
    #[error("git ls-files failed in {0}; the tree to be changed is copied from a git checkout")]
    Git(PathBuf),
}

/// What is asked for on the command line.
#[derive(Debug, PartialEq, Eq)]
pub struct MutantsRequest {
    crates: Vec<String>,
    share: u64,
    seed: u64,
    /// Whether survivors of earlier runs meet the tests once more.
    again: bool,
    /// Whether the unit tests alone judge. What they miss is due at a later run without this.
    quick: bool,
}

impl MutantsRequest {
    /// Reads `[--quick] [--again] [--share N] [--seed N] [CRATE...]`.
    ///
    /// # Errors
    /// If an argument is none of these.
    pub fn parse(arguments: &[&str]) -> Result<MutantsRequest, MutantsError> {
        let crates = Vec::new();
        let mut request = MutantsRequest { crates, share: 10, seed: 1, again: false, quick: false };
        let mut rest = arguments.iter();
        while let Some(&argument) = rest.next() {
            let unknown = || MutantsError::Argument(argument.to_string());
            let mut number = || rest.next().and_then(|n| n.parse().ok()).ok_or_else(unknown);
            match argument {
                "--again" => request.again = true,
                "--quick" => request.quick = true,
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
        let folder = root.join(FOLDER);
        let tree = folder.join("tree");
        copy::refresh(root, &tree)?;
        for name in &self.crates {
            let lab = Lab { name, tree: &tree, folder: folder.join(name) };
            self.run_crate(&lab)?;
        }
        Ok(())
    }

    fn run_crate(&self, lab: &Lab<'_>) -> Result<(), MutantsError> {
        let all = lab.list()?;
        let picked = pick(&all, self.share, self.seed);
        let mut results = MutantResults::load(&lab.folder.join("results.json"))?;
        for stage in [TestStage::Quick, TestStage::All] {
            lab.harvest(stage, &mut results)?;
        }
        if self.again {
            results.forget_survivors();
        }
        let judges =
            if self.quick { &[TestStage::Quick][..] } else { &[TestStage::Quick, TestStage::All] };
        for &stage in judges {
            let due: Vec<&Picked<'_>> =
                picked.iter().filter(|picked| results.is_due(&picked.key, stage)).collect();
            if !due.is_empty() {
                lab.test(stage, &all, &due)?;
                lab.harvest(stage, &mut results)?;
            }
        }
        let score = results.score(picked.iter().map(|picked| picked.key.as_str()));
        let (name, seed) = (lab.name, self.seed);
        println!("{name}: {} of {} mutants (seed {seed}): {score}", score.all(), all.len());
        Ok(())
    }
}

/// Where the mutants of one crate are run.
struct Lab<'a> {
    name: &'a str,
    /// The tree that is changed.
    tree: &'a Path,
    /// Where its results are.
    folder: PathBuf,
}

impl Lab<'_> {
    /// All mutants of the crate.
    fn list(&self) -> Result<Vec<Mutant>, MutantsError> {
        let mut command = self.cargo_mutants();
        let listed = run(command.args(["--list", "--json"]).stdout(Stdio::piped()))?;
        match listed.status.success() {
            true => Ok(serde_json::from_slice(&listed.stdout)?),
            false => Err(MutantsError::Failed(self.name.to_string())),
        }
    }

    /// Runs the tests of `stage` on each mutant of `due`. cargo-mutants writes what became of each
    /// when it is known, which [`Lab::harvest`] reads also after a run that was ended.
    fn test(
        &self,
        stage: TestStage,
        all: &[Mutant],
        due: &[&Picked<'_>],
    ) -> Result<(), MutantsError> {
        let (folder, what, least_seconds) = stage.means();
        let folder = self.folder.join(folder);
        let out = folder.join("mutants.out");
        make_folder(&out)?;
        let keys: BTreeMap<&str, &str> =
            due.iter().map(|picked| (picked.mutant.name.as_str(), picked.key.as_str())).collect();
        write(&folder.join("keys.json"), &serde_json::to_vec_pretty(&keys)?)?;
        // cargo-mutants 27.1 adds all deletions of fields to those that an expression names. What
        // an earlier run has caught it does leave out, so all others are written down as caught.
        let others = all.iter().map(|mutant| mutant.name.as_str());
        let others: Vec<&str> = others.filter(|name| !keys.contains_key(name)).collect();
        write(&out.join("caught.txt"), others.join("\n").as_bytes())?;
        let above = if stage == TestStage::All { other_judges(self.name) } else { &[] };
        let judges = [&[self.name], above].concat();
        let mut command = self.cargo_mutants();
        command
            .args(judges.iter().map(|name| format!("--test-package={}", package(name))))
            .args(["--in-place", "--iterate", "--shuffle", "--cap-lints=true", what, "--output"])
            .arg(&folder)
            .args(["--timeout-multiplier", TIMES_AS_LONG])
            .args(["--minimum-test-timeout", least_seconds, "--cargo-arg=--config"])
            .arg(format!(
                "--cargo-arg=target.'cfg(unix)'.runner={:?}",
                [NAMESPACE, LIMITS].concat()
            ));
        // 2: some were missed; 3: some timed out. Everything else is no result.
        match run(&mut command)?.status.code() {
            Some(0 | 2 | 3) => Ok(()),
            _ => Err(MutantsError::Failed(self.name.to_string())),
        }
    }

    /// Adds what the last run of `stage` has written, if there was one, to the `results`.
    fn harvest(&self, stage: TestStage, results: &mut MutantResults) -> Result<(), MutantsError> {
        let folder = self.folder.join(stage.means().0);
        let out = folder.join("mutants.out");
        if !out.join("outcomes.json").exists() {
            // A run that was ended before its first verdict says of the mutants of another sample
            // that they were caught.
            return remove_folder(&out);
        }
        let keys: BTreeMap<String, String> =
            serde_json::from_str(&read(&folder.join("keys.json"))?)?;
        for (name, verdict) in results::outcomes(&read(&out.join("outcomes.json"))?)? {
            if let Some(key) = keys.get(&name) {
                results.note(key, &name, stage, verdict);
            }
        }
        results.save()?;
        // The logs stay, for whoever wants to know what a mutant did.
        let last = folder.join("last");
        remove_folder(&last)?;
        fs::rename(&out, &last).map_err(at(&last))
    }

    /// `cargo mutants` of the crate, with everything that it writes below [`FOLDER`].
    fn cargo_mutants(&self) -> Command {
        let mut command = Command::new("cargo-mutants");
        command
            .args(["mutants", "--package", &package(self.name)])
            .current_dir(self.tree)
            .env("CARGO_TARGET_DIR", self.tree.with_file_name("build"))
            // Nobody reads a mutant in a debugger.
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            // The first failure is enough: a search for the smallest would take the test's time.
            .env("PROPTEST_MAX_SHRINK_ITERS", "0")
            .stdout(Stdio::inherit());
        command
    }
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

/// Says at which file an error was.
fn at(path: &Path) -> impl FnOnce(io::Error) -> MutantsError {
    let path = path.to_path_buf();
    move |source| MutantsError::File { path, source }
}

fn make_folder(path: &Path) -> Result<(), MutantsError> {
    fs::create_dir_all(path).map_err(at(path))
}

/// Removes a folder, if it is there.
fn remove_folder(path: &Path) -> Result<(), MutantsError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(path)(error)),
        _ => Ok(()),
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), MutantsError> {
    fs::write(path, bytes).map_err(at(path))
}

/// The text of a file. What a test writes need not be text.
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
        let request =
            MutantsRequest::parse(&["coll", "--seed", "7", "--again", "nic", "--share", "40"])
                .unwrap();
        let crates = vec!["coll".to_string(), "nic".to_string()];
        let expected = MutantsRequest { crates, share: 40, seed: 7, again: true, quick: false };
        assert_eq!(request, expected);
        assert!(MutantsRequest::parse(&["--quick"]).unwrap().quick);
        let all = MutantsRequest::parse(&[]).unwrap();
        let crates = CRATES.iter().map(ToString::to_string).collect();
        assert_eq!(all, MutantsRequest { crates, share: 10, seed: 1, again: false, quick: false });
    }

    #[test]
    fn bad_arguments_are_refused_by_name() {
        for (arguments, named) in [
            (&["python"][..], "python"),
            (&["--share"], "--share"),
            (&["--share", "0"], "--share 0"),
            (&["--seed", "x"], "--seed"),
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
