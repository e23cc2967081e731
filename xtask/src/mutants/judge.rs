//! The tests that reach a mutant, and their verdict on it.
//!
//! Each test runs once alone, without a mutant, and records the numbers of the switches that it
//! reaches. A mutant is then judged by the tests that reach its switch, the fastest first, each in
//! a process of its own, until one fails. A mutant that no test reaches has survived without a run.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::build::Program;
use super::results::{Judgement, MutantVerdict};
use super::switch::{MUTANT, REACHED};
use super::{MutantsError, SETTINGS, at, read, run};

/// The command that gives a test its own processes.
pub(super) const NAMESPACE: &[&str] =
    &["unshare", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// The command that limits its memory. The shell is the first process of the namespace, because the
/// kernel delivers to that process no signal that it does not handle, and tests send themselves
/// some. Its first argument is the process number before that of the test: tests name folders by
/// their number, and those of two namespaces would be the same.
const LIMITS: &[&str] = &["prlimit", "--data=4294967296", "--core=0", "sh", "-c", AT_NUMBER, "sh"];

const AT_NUMBER: &str = r#"echo "$1" >/proc/sys/kernel/ns_last_pid; shift; "$@"; exit $?"#;

/// How many tests run at a time.
const JOBS: usize = 2;

/// The time that a test may take longer than without a mutant, besides the factor.
const SLACK: Duration = Duration::from_secs(5);

/// A test that runs this long is a long one.
const LONG_SECONDS: f64 = 1.0;

/// The number of tests that time out which suffices for a verdict.
const TIMED_OUT: usize = 2;

/// How long tests may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// The tests of one mutant together, by their times without it.
    pub(super) seconds: u32,
    /// The factor by which a test may be slower than without a mutant.
    pub(super) patience: u32,
}

/// A test, and its properties from a run without a mutant.
#[derive(Debug, Clone)]
pub(super) struct Test {
    pub(super) program: Program,
    pub(super) name: String,
    pub(super) seconds: f64,
    /// The switches that it reaches.
    pub(super) reaches: BTreeSet<usize>,
}

impl Test {
    /// Program and name.
    pub(super) fn label(&self) -> String {
        format!("{} {}", self.program.name, self.name)
    }

    /// Runs it with the variable set to the value.
    fn run(&self, (variable, value): (&str, &str), limit: Duration) -> Result<End, MutantsError> {
        let output = Scratch::new()?;
        let stdout = File::create(&output.path).map_err(at(&output.path))?;
        let stderr = stdout.try_clone().map_err(at(&output.path))?;
        let mut command = Command::new("timeout");
        command
            // Its namespace ends with `unshare`, and with it all processes that the test has
            // started.
            .args(["--foreground", "--signal=KILL", &format!("{:.3}", limit.as_secs_f64())])
            .args([NAMESPACE, LIMITS].concat())
            // From 300 on, as the kernel does; 32,768 is the least of its limits.
            .arg((300 + output.number * 16 % 32_000).to_string())
            .arg(&self.program.path)
            .args(["--exact", &self.name, "--test-threads=1"])
            .current_dir(&self.program.folder)
            .env("CARGO_MANIFEST_DIR", &self.program.folder)
            // The first failure suffices: a search for the smallest would use up the test's time.
            .env("PROPTEST_MAX_SHRINK_ITERS", "0")
            .env_remove("RUST_BACKTRACE")
            .envs(SETTINGS)
            .env(variable, value)
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr);
        let start = Instant::now();
        let failed = |source| MutantsError::Start { program: "timeout".to_string(), source };
        let is_ok = command.status().map_err(failed)?.success();
        if start.elapsed() >= limit {
            return Ok(End::TimedOut);
        }
        // A mutant that ends at once has passed no test.
        let has_passed = is_ok && read(&output.path)?.contains("test result: ok");
        Ok(if has_passed { End::Passed } else { End::Failed })
    }
}

/// How a test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Passed,
    Failed,
    TimedOut,
}

/// A file that is removed with its value.
struct Scratch {
    path: PathBuf,
    /// How many there were before it.
    number: usize,
}

impl Scratch {
    fn new() -> Result<Scratch, MutantsError> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("xtask-mutants-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        File::create(&path).map_err(at(&path))?;
        Ok(Scratch { path, number })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Other programs may empty the temporary folder.
        let _ = fs::remove_file(&self.path);
    }
}

/// The names of a program's tests.
fn names(program: &Program) -> Result<Vec<String>, MutantsError> {
    let mut command = Command::new(&program.path);
    command.args(["--list", "--format", "terse"]).current_dir(&program.folder);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let listed = run(&mut command)?;
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(String::from).collect())
}

/// Runs each test once without a mutant and records the switches that it reaches. A test that
/// fails, or that takes longer than one mutant's tests may take, is printed and left out.
pub(super) fn cover(programs: &[Program], limits: Limits) -> Result<Vec<Test>, MutantsError> {
    let mut tests = Vec::new();
    for program in programs {
        let all = names(program)?.into_iter().map(|name| Test {
            program: program.clone(),
            name,
            seconds: 0.0,
            reaches: BTreeSet::new(),
        });
        tests.extend(all);
    }
    println!("{} tests run once without a mutant", tests.len());
    let covered = in_parallel(&tests, |test| {
        let reached = Scratch::new()?;
        let path = &reached.path;
        let start = Instant::now();
        let limit = Duration::from_secs(limits.seconds.into());
        let end = test.run((REACHED, &path.to_string_lossy()), limit)?;
        if end != End::Passed {
            println!("  left out, {end:?} without a mutant: {}", test.label());
            return Ok(None);
        }
        let seconds = start.elapsed().as_secs_f64();
        let reaches = read(path)?.lines().filter_map(|line| line.parse().ok()).collect();
        Ok(Some(Test { seconds, reaches, ..test.clone() }))
    })?;
    Ok(covered.into_iter().flatten().collect())
}

/// Judges the mutant of this number by `tests`.
pub(super) fn judge(
    number: usize,
    tests: &[&Test],
    limits: Limits,
) -> Result<Judgement, MutantsError> {
    verdict(&chosen(tests, limits.seconds), |test| {
        let limit = SLACK + Duration::from_secs_f64(test.seconds) * limits.patience;
        test.run((MUTANT, &number.to_string()), limit)
    })
}

/// The tests for one mutant in the order of their runs: the fastest first. The short ones take at
/// most half of the time, so that a mutant reached by a thousand tests meets long ones too.
fn chosen<'a>(tests: &[&'a Test], seconds: u32) -> Vec<&'a Test> {
    let mut sorted = tests.to_vec();
    sorted.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let (all, mut spent) = (f64::from(seconds), 0.0);
    sorted.retain(|test| {
        let most = if test.seconds < LONG_SECONDS { all / 2.0 } else { all };
        let fits = spent + test.seconds <= most;
        spent += if fits { test.seconds } else { 0.0 };
        fits
    });
    sorted
}

/// The verdict of `tests`, each run by `run`. A failure must occur twice, because tests also fail
/// on a loaded machine.
fn verdict(
    tests: &[&Test],
    mut run: impl FnMut(&Test) -> Result<End, MutantsError>,
) -> Result<Judgement, MutantsError> {
    let mut slow = Vec::new();
    for (before, test) in tests.iter().enumerate() {
        let end = match run(test)? {
            End::Failed => run(test)?,
            end => end,
        };
        let met = before + 1;
        match end {
            End::Passed => {}
            End::Failed => {
                let (verdict, by) = (MutantVerdict::Caught, vec![test.label()]);
                return Ok(Judgement { verdict, by, met });
            }
            End::TimedOut => {
                slow.push(test.label());
                if slow.len() == TIMED_OUT {
                    return Ok(Judgement { verdict: MutantVerdict::TimedOut, by: slow, met });
                }
            }
        }
    }
    let verdict = if slow.is_empty() { MutantVerdict::Missed } else { MutantVerdict::TimedOut };
    Ok(Judgement { verdict, by: slow, met: tests.len() })
}

/// The results of `work` for all items, [`JOBS`] at a time, in the order of the items. The first
/// error ends all.
pub(super) fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R, MutantsError> + Sync,
) -> Result<Vec<R>, MutantsError> {
    let next = AtomicUsize::new(0);
    let job = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return Ok(done) };
            match work(item) {
                Ok(result) => done.push((index, result)),
                Err(error) => {
                    next.store(items.len(), Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
    };
    let mut all = Vec::new();
    thread::scope(|scope| {
        let jobs: Vec<_> = (0..JOBS).map(|_| scope.spawn(job)).collect();
        for job in jobs {
            all.extend(job.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        Ok::<(), MutantsError>(())
    })?;
    all.sort_by_key(|(index, _)| *index);
    Ok(all.into_iter().map(|(_, result)| result).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn test(name: &str, seconds: f64) -> Test {
        let (folder, path) = (PathBuf::from("/"), PathBuf::from("/bin/true"));
        let program = Program { folder, name: "dsm/lib/dsm".to_string(), path };
        Test { program, name: name.to_string(), seconds, reaches: BTreeSet::new() }
    }

    #[test]
    fn fast_tests_come_first_and_leave_time_for_long_ones() {
        let tests: Vec<Test> = [3.0, 0.9, 0.5, 2.0, 0.8, 9.0, 0.9]
            .iter()
            .enumerate()
            .map(|(i, &seconds)| test(&i.to_string(), seconds))
            .collect();
        let tests: Vec<&Test> = tests.iter().collect();
        let names = |seconds| {
            chosen(&tests, seconds).iter().map(|test| test.name.as_str()).collect::<String>()
        };
        assert_eq!(names(60), "2416305");
        // Three short ones take 2.2 of 2.5 s; of the long ones one fits.
        assert_eq!(names(5), "2413");
        assert_eq!(names(0), "");
    }

    /// The judgement of tests that end like this, in this order and with these repetitions.
    fn judged(tests: usize, ends: &[End]) -> Judgement {
        let tests: Vec<Test> = (0..tests).map(|i| test(&i.to_string(), 0.1)).collect();
        let mut ends = ends.iter().copied();
        let judgement =
            verdict(&tests.iter().collect::<Vec<_>>(), |_| Ok(ends.next().unwrap())).unwrap();
        assert_eq!(ends.next(), None, "a test was not run");
        judgement
    }

    #[test]
    fn tests_run_until_one_fails_twice_or_two_time_out() {
        use End::{Failed, Passed, TimedOut};
        for (tests, ends, verdict, by, met) in [
            (0, &[][..], MutantVerdict::Missed, &[][..], 0),
            (2, &[Passed, Passed], MutantVerdict::Missed, &[], 2),
            (3, &[Passed, Failed, Failed], MutantVerdict::Caught, &["1"], 2),
            (2, &[Failed, Passed, Passed], MutantVerdict::Missed, &[], 2),
            (2, &[TimedOut, Passed], MutantVerdict::TimedOut, &["0"], 2),
            (3, &[TimedOut, TimedOut], MutantVerdict::TimedOut, &["0", "1"], 2),
            (2, &[TimedOut, Failed, Failed], MutantVerdict::Caught, &["1"], 2),
        ] {
            let by = by.iter().map(|name| format!("dsm/lib/dsm {name}")).collect();
            assert_eq!(judged(tests, ends), Judgement { verdict, by, met });
        }
    }

    #[test]
    fn parallel_work_keeps_its_order_and_ends_with_an_error() {
        let items: Vec<usize> = (0..100).collect();
        assert_eq!(in_parallel(&items, |&i| Ok(2 * i)).unwrap()[99], 198);
        let fails = |&i: &usize| match i {
            7 => Err(MutantsError::Namespace),
            _ => Ok(i),
        };
        assert!(in_parallel(&items, fails).is_err());
    }
}
