//! Many random programs: jobs of many seeds, and the reduction of a failing one.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use hikyaku_launch::processes::Machine;

use super::{Kept, Program};
use crate::{End, Job};

/// The programs to run, and where.
#[derive(Debug, Clone)]
pub struct Many {
    /// The seed of the first; the others follow.
    pub first: u64,
    /// How many.
    pub count: u64,
    /// The file of a machine; then they run in virtual time.
    pub machine: Option<PathBuf>,
    /// Whether faults are injected at the ranks' ports.
    pub faults: bool,
    /// Kinds of steps that are left out.
    pub without: Vec<String>,
    /// Time limit of one program, after which it counts as hanging.
    pub timeout: Duration,
    /// How many jobs run at a time.
    pub at_once: usize,
    /// How many runs may be used to reduce a failing program.
    pub shrinking: usize,
    /// The folder of `launch`, `simulate` and `generated`.
    pub programs: PathBuf,
}

/// A program that failed.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// The kind of failure.
    pub class: Class,
    /// The fewest steps that were found to fail.
    pub kept: Kept,
    /// The output of the smallest job.
    pub said: String,
    /// The command that runs it again.
    pub command: String,
}

/// The kind of a program's failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Ranks wait for ever.
    Hang,
    /// A value is wrong, or the library panicked.
    Panic,
    /// A call failed that must succeed.
    Error,
    /// Another failure.
    Other,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { seed, class, said, command, .. } = self;
        writeln!(f, "seed {seed}: {class:?}\n  {command}")?;
        said.lines().take(40).try_for_each(|line| writeln!(f, "    {line}"))
    }
}

impl Many {
    /// `count` programs from this seed on, in real time.
    pub fn new(programs: PathBuf, first: u64, count: u64) -> Many {
        Many {
            first,
            count,
            machine: None,
            faults: false,
            without: Vec::new(),
            // In virtual time a program whose ranks poll continually switches processes 12,000
            // times: 0.1 s, or 20 s if each switch costs another program's time slice.
            timeout: Duration::from_secs(120),
            at_once: 2,
            shrinking: 40,
            programs,
        }
    }

    /// Runs them all; `told` is called with each failure.
    pub fn run(&self, told: &(dyn Fn(&Failure) + Sync)) -> BTreeMap<Class, Vec<u64>> {
        let (next, failed) = (Mutex::new(self.first), Mutex::new(BTreeMap::new()));
        let end = self.first.saturating_add(self.count);
        let work = || loop {
            let seed = {
                let mut next = next.lock().unwrap();
                let seed = *next;
                if seed >= end {
                    return;
                }
                *next += 1;
                seed
            };
            if let Some(failure) = self.one(seed) {
                told(&failure);
                let mut failed = failed.lock().unwrap();
                failed.entry(failure.class).or_insert_with(Vec::new).push(seed);
            }
        };
        thread::scope(|scope| {
            (0..self.at_once).for_each(|_| _ = scope.spawn(work));
        });
        failed.into_inner().unwrap()
    }

    /// Runs these steps of the program of a seed.
    pub fn only(&self, seed: u64, steps: &[u32]) -> Option<Failure> {
        let kept = Kept { steps: Some(steps.to_vec()), without: self.without.clone() };
        let (class, said) = self.attempt(seed, &kept)?;
        let command = self.command(seed, &kept);
        Some(Failure { seed, class, kept, said, command })
    }

    /// Runs the program of a seed, and reduces it if it fails.
    pub fn one(&self, seed: u64) -> Option<Failure> {
        let all = Kept { steps: None, without: self.without.clone() };
        let (class, said) = self.attempt(seed, &all)?;
        let mut smallest =
            Smallest { many: self, seed, class, kept: all, said, left: self.shrinking };
        smallest.find();
        let Smallest { kept, said, .. } = smallest;
        let command = self.command(seed, &kept);
        Some(Failure { seed, class, kept, said, command })
    }

    /// The kept part of a seed's program.
    pub fn program(&self, seed: u64, kept: &Kept) -> Program {
        Program::from_seed(seed, self.nodes()).only(kept)
    }

    /// The number of the machine's nodes.
    fn nodes(&self) -> Option<u32> {
        let file = self.machine.as_ref()?;
        let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
        Some(Machine::parse("machine", &text).unwrap().nodes)
    }

    fn words(&self, seed: u64, kept: &Kept) -> Vec<String> {
        let mut words = vec![seed.to_string()];
        if let Some(nodes) = self.nodes() {
            words.extend(["--virtual".to_owned(), nodes.to_string()]);
        }
        if let Some(steps) = &kept.steps {
            let steps: Vec<String> = steps.iter().map(u32::to_string).collect();
            words.extend(["--keep".to_owned(), steps.join(",")]);
        }
        if !kept.without.is_empty() {
            words.extend(["--without".to_owned(), kept.without.join(",")]);
        }
        words
    }

    /// The command line that runs it again; with `--show` appended it prints the program.
    fn command(&self, seed: u64, kept: &Kept) -> String {
        let Program { ranks, per_node, .. } = self.program(seed, kept);
        let (launcher, mut before) = match &self.machine {
            None => ("launch", String::new()),
            Some(machine) => ("simulate", format!("SIMULATE_MACHINE={} ", machine.display())),
        };
        before += &format!("HIKYAKU_LONG_MESSAGES={} ", way(seed));
        if self.faults {
            before += &format!("HIKYAKU_FAULTS={seed} ");
        }
        let (words, limit) = (self.words(seed, kept).join(" "), self.timeout.as_secs());
        format!("{before}{launcher} {ranks} {per_node} {limit} ./generated {words}")
    }

    /// Runs it once: `None` if it passes.
    fn attempt(&self, seed: u64, kept: &Kept) -> Option<(Class, String)> {
        let program = self.program(seed, kept);
        let path = |name: &str| self.programs.join(name).to_string_lossy().into_owned();
        let launcher = path(if self.machine.is_some() { "simulate" } else { "launch" });
        let mut words = self.words(seed, kept);
        words.extend(["--tell".to_owned(), (self.timeout.as_secs_f64() * 0.8).to_string()]);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let grace = self.timeout.as_secs_f64().to_string();
        let mut job = Job::new(&launcher, &path("generated"), program.ranks, &words)
            .ranks_per_node(program.per_node)
            .timeout(self.timeout)
            .variable("HIKYAKU_JOBS_GRACE", &grace);
        if let Some(machine) = &self.machine {
            job = job.variable("SIMULATE_MACHINE", &machine.to_string_lossy());
        }
        if self.faults {
            job = job.variable("HIKYAKU_FAULTS", &seed.to_string());
        }
        job = job.variable("HIKYAKU_LONG_MESSAGES", way(seed));
        let start = Instant::now();
        let end = job.run();
        let class = class(&program, &end, start.elapsed() >= self.timeout)?;
        let End { code, stdout, stderr } = end;
        Some((class, format!("code {code:?}\n{stdout}{stderr}")))
    }
}

/// The ways of long messages.
pub const WAYS: [&str; 5] = ["auto", "ring", "read", "both", "put"];

/// The way of a program's long messages.
fn way(seed: u64) -> &'static str {
    WAYS[(seed % WAYS.len() as u64) as usize]
}

/// The class of a job's end; `None`: good.
fn class(program: &Program, end: &End, late: bool) -> Option<Class> {
    const KILLED: i32 = 128 + 9;
    const STUCK: i32 = 3;
    match end.code {
        _ if end.stderr.contains("panicked") => Some(Class::Panic),
        Some(124 | STUCK) => Some(Class::Hang),
        _ if late => Some(Class::Hang),
        Some(KILLED) if program.kills() => None,
        Some(0) if !program.kills() => None,
        Some(1) => Some(Class::Error),
        Some(134) => Some(Class::Panic),
        _ => Some(Class::Other),
    }
}

/// Searches for the fewest steps that fail in the same way.
struct Smallest<'m> {
    many: &'m Many,
    seed: u64,
    class: Class,
    kept: Kept,
    said: String,
    /// Runs that may still be made.
    left: usize,
}

impl Smallest<'_> {
    fn find(&mut self) {
        let program = self.many.program(self.seed, &self.kept);
        let mut steps: Vec<u32> = program.all_steps().iter().map(|step| step.number).collect();
        // Halves, quarters and so on, down to single steps, are removed if it fails without them.
        let mut size = steps.len().div_ceil(2);
        while size > 0 && self.left > 0 {
            let mut at = 0;
            while at < steps.len() && self.left > 0 {
                let end = (at + size).min(steps.len());
                let fewer = [&steps[..at], &steps[end..]].concat();
                if self.fails(&fewer) {
                    steps = fewer;
                } else {
                    at = end;
                }
            }
            size = if size == 1 { 0 } else { size.div_ceil(2) };
        }
    }

    /// Whether the program with these steps fails, in one of two runs; a hang is detected sooner.
    fn fails(&mut self, steps: &[u32]) -> bool {
        let many = Many { timeout: self.many.timeout / 4, ..self.many.clone() };
        let kept = Kept { steps: Some(steps.to_vec()), without: self.kept.without.clone() };
        for _ in 0..2.min(self.left) {
            self.left -= 1;
            if let Some((class, said)) = many.attempt(self.seed, &kept)
                && class == self.class
            {
                (self.kept, self.said) = (kept, said);
                return true;
            }
        }
        false
    }
}
