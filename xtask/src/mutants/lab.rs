//! Builds mutants in a copy of the tree and judges them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use super::build::{self, Program, blame, faults};
use super::judge::{self, Limits, Test, cover, in_parallel};
use super::pick::{Mutant, Picked};
use super::results::{Judgement, MutantResults, MutantVerdict};
use super::switch::{self, Edited, Numbered, Place};
use super::{MutantsError, SETTINGS, at, package, read, run, write};
use crate::workspace::{self, WorkspaceMember};

/// The crates whose tests judge those below them, besides their own, because they run jobs.
const ABOVE: &[&str] = &["jobs", "cli"];

/// The place where the mutants of some crates are built.
pub(super) struct Lab<'a> {
    /// The tree that is changed.
    pub(super) tree: PathBuf,
    /// The crates that have the mutants.
    pub(super) crates: &'a [String],
}

impl Lab<'_> {
    /// All mutants of the crates. The copy must be equal to the tree.
    pub(super) fn list(&self) -> Result<Vec<Mutant>, MutantsError> {
        let mut command = Command::new("cargo-mutants");
        command.args(["mutants", "--list", "--json"]).current_dir(&self.tree);
        command.args(self.crates.iter().map(|name| format!("--package={}", package(name))));
        let listed = run(command.stdout(Stdio::piped()))?;
        match listed.status.success() {
            true => Ok(serde_json::from_slice(&listed.stdout)?),
            false => Err(MutantsError::Cargo("mutants --list")),
        }
    }

    /// Judges the mutants that are `due` and records the `results`.
    pub(super) fn judge(
        &self,
        due: &[Picked<'_>],
        limits: Limits,
        results: &mut MutantResults,
    ) -> Result<(), MutantsError> {
        let judges = self.judges()?;
        let plan = Plan::new(self, due)?;
        let switched = plan.switched()?;
        let results = Mutex::new(results);
        let note = |number: usize, judgement| {
            let Picked { mutant, key } = &due[number];
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            results.note(key, &mutant.name, judgement)
        };
        println!("{} of them have a switch; the others are built one by one", switched.len());
        let programs = self.build(&judges)?.ok_or(MutantsError::Cargo("test --no-run"))?;
        if judges.contains(&package("cli")) {
            self.build_libraries()?;
        }
        let tests = cover(&programs, limits)?;
        in_parallel(&Vec::from_iter(&switched), |&&number| {
            let reach = tests.iter().filter(|test| test.reaches.contains(&number));
            note(number, judge::judge(number, &reach.collect::<Vec<_>>(), limits)?)
        })?;
        for number in (0..due.len()).filter(|number| !switched.contains(number)) {
            note(number, plan.judge_alone(number, &tests, limits)?)?;
        }
        Ok(())
    }

    /// The packages whose tests judge: the crates, and those above them.
    fn judges(&self) -> Result<Vec<String>, MutantsError> {
        let arguments = ["metadata", "--no-deps", "--offline", "--format-version=1"];
        let (is_ok, output) = self.cargo(&arguments, &[])?;
        if !is_ok {
            return Err(MutantsError::Cargo("metadata"));
        }
        Ok(judges(&workspace::parse(&output, &self.tree)?, self.crates))
    }

    /// Builds the test programs of the packages; `None` if they do not compile.
    fn build(&self, packages: &[String]) -> Result<Option<Vec<Program>>, MutantsError> {
        let arguments = ["test", "--locked", "--no-run", "--message-format=json"];
        let (is_ok, output) = self.cargo(&arguments, packages)?;
        if !is_ok {
            faults(&output).iter().for_each(|fault| eprintln!("{}", fault.message));
        }
        Ok(is_ok.then(|| build::programs(&output)))
    }

    /// Builds the libraries that tests of `cli` need. The tests would build them themselves, which
    /// takes minutes that no test has.
    fn build_libraries(&self) -> Result<(), MutantsError> {
        let mut command = Command::new(self.tree.join("scripts/mpi.sh"));
        command.env("CARGO_TARGET_DIR", self.tree.with_file_name("build")).envs(SETTINGS);
        match run(&mut command)?.status.success() {
            true => Ok(()),
            false => Err(MutantsError::Cargo("build of scripts/mpi.sh")),
        }
    }

    /// Runs cargo in the copy. Returns whether it succeeded, and its output.
    fn cargo(
        &self,
        arguments: &[&str],
        packages: &[String],
    ) -> Result<(bool, String), MutantsError> {
        let mut command = Command::new("cargo");
        command
            .args(arguments)
            .args(packages.iter().map(|package| format!("--package={package}")))
            .current_dir(&self.tree)
            .env("CARGO_TARGET_DIR", self.tree.with_file_name("build"))
            .envs(SETTINGS)
            .stdout(Stdio::piped());
        let done = run(&mut command)?;
        Ok((done.status.success(), String::from_utf8_lossy(&done.stdout).into_owned()))
    }
}

/// The packages whose tests judge mutants of `crates`.
fn judges(members: &[WorkspaceMember], crates: &[String]) -> Vec<String> {
    let mut above: BTreeSet<String> = crates.iter().map(|name| package(name)).collect();
    loop {
        let uses =
            |member: &&WorkspaceMember| member.dependencies.iter().any(|d| above.contains(&d.name));
        let more = members.iter().filter(uses).map(|member| member.name.clone());
        let more: BTreeSet<String> = more.filter(|name| !above.contains(name)).collect();
        if more.is_empty() {
            let all = super::CRATES.iter().chain(ABOVE).map(|name| package(name));
            return all.filter(|name| above.contains(name)).collect();
        }
        above.extend(more);
    }
}

/// Mutants, by their numbers, and the texts that they change.
struct Plan<'a> {
    lab: &'a Lab<'a>,
    due: &'a [Picked<'a>],
    /// The unchanged texts by their names.
    sources: BTreeMap<String, String>,
}

impl Plan<'_> {
    fn new<'a>(lab: &'a Lab<'_>, due: &'a [Picked<'_>]) -> Result<Plan<'a>, MutantsError> {
        let files = due.iter().map(|picked| picked.mutant.file.clone());
        let mut sources = BTreeMap::new();
        for file in files.chain(lab.crates.iter().map(|name| library(name))) {
            let text = read(&lab.tree.join(&file))?;
            sources.insert(file, text);
        }
        Ok(Plan { lab, due, sources })
    }

    /// Inserts a switch for each mutant, and removes those that the compiler refuses until it
    /// refuses none. Returns the remaining ones.
    fn switched(&self) -> Result<BTreeSet<usize>, MutantsError> {
        println!("{} mutants; cargo reports those that do not compile as errors", self.due.len());
        let packages: Vec<String> = self.lab.crates.iter().map(|name| package(name)).collect();
        // With the tests of the crate's own modules, which use the code in other ways.
        let arguments = ["check", "--locked", "--lib", "--profile=test", "--keep-going", "--quiet"];
        let arguments = [&arguments[..], &["--message-format=json"]].concat();
        let mut live: BTreeSet<usize> = (0..self.due.len()).collect();
        loop {
            let places = self.edit(&live)?;
            live = places.values().flatten().map(|place| place.number).collect();
            let (is_ok, output) = self.lab.cargo(&arguments, &packages)?;
            if is_ok {
                return Ok(live);
            }
            let faults = faults(&output);
            let guilty: BTreeSet<usize> =
                faults.iter().filter_map(|fault| blame(fault, &places)).collect();
            if guilty.is_empty() {
                let first = faults.first().map_or("unknown", |fault| fault.message.as_str());
                return Err(MutantsError::Blameless(first.to_string()));
            }
            live = &live - &guilty;
        }
    }

    /// Writes the texts with switches for these mutants and returns the place of each.
    fn edit(&self, numbers: &BTreeSet<usize>) -> Result<BTreeMap<&str, Vec<Place>>, MutantsError> {
        let mut all = BTreeMap::new();
        for (file, source) in &self.sources {
            let here = numbers.iter().map(|&number| (number, self.due[number].mutant));
            let here: Vec<Numbered<'_>> = here.filter(|(_, mutant)| mutant.file == *file).collect();
            let Edited { text, places } = switch::switched(source, &here);
            self.put_into(file, text)?;
            all.insert(file.as_str(), places);
        }
        Ok(all)
    }

    /// Writes the changed text of a file; for a library, with the functions of the switches.
    fn put_into(&self, file: &str, mut text: String) -> Result<(), MutantsError> {
        if self.lab.crates.iter().any(|name| library(name) == file) {
            text.push_str(&switch::module(self.due.len()));
        }
        put(&self.lab.tree.join(file), &text)
    }

    /// Builds a mutant that has no switch and judges it by the tests of its own crate.
    fn judge_alone(
        &self,
        number: usize,
        tests: &[Test],
        limits: Limits,
    ) -> Result<Judgement, MutantsError> {
        let mutant = self.due[number].mutant;
        let file = &mutant.file;
        let path = self.lab.tree.join(file);
        let before = read(&path)?;
        let mut text = self.sources[file].clone();
        text.replace_range(mutant.bytes(&text), &mutant.replacement);
        self.put_into(file, text)?;
        let name = file.split('/').nth(1).unwrap_or_default();
        let programs = self.lab.build(&[package(name)])?;
        put(&path, &before)?;
        let Some(programs) = programs else {
            return Ok(Judgement { verdict: MutantVerdict::Unviable, by: Vec::new(), met: 0 });
        };
        let built = |test: &Test| {
            let program = programs.iter().find(|program| program.name == test.program.name)?;
            Some(Test { program: program.clone(), ..test.clone() })
        };
        let tests: Vec<Test> = tests.iter().filter_map(built).collect();
        judge::judge(number, &tests.iter().collect::<Vec<_>>(), limits)
    }
}

/// The file of a crate that holds its switches.
fn library(name: &str) -> String {
    format!("crates/{name}/src/lib.rs")
}

/// Writes a text unless the file has it: cargo rebuilds what is newer than its last build.
fn put(path: &Path, text: &str) -> Result<(), MutantsError> {
    if std::fs::read_to_string(path).map_err(at(path))? == text {
        return Ok(());
    }
    write(path, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::{Dependency, DependencyKind};

    #[test]
    fn crates_above_judge_too() {
        let member = |name: &str, dependencies: &[&str]| WorkspaceMember {
            name: name.to_string(),
            folder: String::new(),
            description: None,
            dependencies: dependencies
                .iter()
                .map(|name| Dependency { name: name.to_string(), kind: DependencyKind::Normal })
                .collect(),
        };
        let members = [
            member("hikyaku-jobs", &["hikyaku"]),
            member("hikyaku", &["hikyaku-dsm", "hikyaku-rank"]),
            member("hikyaku-dsm", &["hikyaku-nic"]),
            member("hikyaku-rank", &["hikyaku-nic"]),
            member("hikyaku-nic", &[]),
            member("heat", &["hikyaku"]),
        ];
        let above = |name: &str| judges(&members, &[name.to_string()]);
        assert_eq!(above("dsm"), ["hikyaku-dsm", "hikyaku", "hikyaku-jobs"]);
        assert_eq!(above("world"), ["hikyaku", "hikyaku-jobs"]);
        assert_eq!(above("nic").len(), 5);
    }
}
