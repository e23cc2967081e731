//! Starts the ranks of a job on this machine, passes their input and output, and sees them off.
//!
//! This is what `hikyaku run` does; other front ends use the same [`Launch`]. Programs that are
//! ranks do not need this crate.
//!
//! What it promises:
//!
//! - **Nothing is left.** However the job ends, every rank is gone and what it started is killed
//!   when [`Launch::run`] returns; if the launcher itself is killed, the kernel kills the ranks.
//! - **The first failure ends the job** within two seconds, is named in one line, and its exit code
//!   is the job's.
//! - **Lines stay whole**, and bytes stay bytes.
//! - **Nothing beyond this machine is asked**: no network, no host name, no `/etc/hosts`.
//!
//! One thread supervises (`engine`); what it decides is in pure modules (`supervisor`, `lines`,
//! `placement`, `ending`), what it holds in small ones that each own one kind of thing:
//!
//! ```text
//!   engine ─┬─ supervisor   when the job is over and why         (pure)
//!           ├─ outputs ── lines (pure), sink                     where ranks' output goes
//!           ├─ interrupts   signals to the launcher
//!           ├─ orphans      descendants that left their group
//!           └─ crew         the ranks, as a trait
//!               ├─ local ─┬─ ranks       processes; killed and reaped on drop
//!               │         ├─ spawn       fork, set up, exec: the one unsafe block
//!               │         ├─ placement   which CPUs              (pure)
//!               │         ├─ stdin       standard input of rank 0
//!               │         ├─ intake ── lines (pure)              what ranks write
//!               │         └─ memory      the job's shared memory, as a trait
//!               └─ hosts    those of other machines, by daemons that have a local crew each
//! ```
//!
//! [`processes`] runs the same jobs in virtual time, on a simulated machine.

mod crew;
mod ending;
mod engine;
pub mod hosts;
mod intake;
mod interrupts;
mod lines;
mod local;
mod memory;
mod mpi;
mod orphans;
mod outputs;
mod placement;
pub mod processes;
mod programs;
mod ranks;
mod sink;
mod spawn;
mod stdin;
mod supervisor;
#[cfg(test)]
mod tests;

use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    io::{self, ErrorKind},
    path::Path,
    time::Duration,
};

use hikyaku_shm::{Job, JobConfig, JobError, limits_on};
use rustix::{
    fs::{Access, access},
    process::{Resource, Rlimit, setrlimit},
    thread::{CpuSet, sched_getaffinity},
};
use thiserror::Error;

use self::{
    engine::{Engine, Prepared},
    local::{Local, Start},
};
pub use self::{hosts::OnHosts, memory::JobMemory, placement::Bind, programs::Program};
pub use hikyaku_nic::{fabric::FullPolicy, plan::LandingPlan, ring::LongStores};

/// The most ranks of one job. A rank takes three descriptors and a process of the launcher's, so
/// that at this number the usual limits of one machine (32768 processes, some ten thousand open
/// files) are near; a larger number is a slip of the finger.
pub const MAX_RANKS: u32 = 4096;

/// Descriptors a rank takes in the launcher: its end and its two streams.
const FILES_PER_RANK: u64 = 3;

/// Descriptors that the launcher opens beside, at most: its own waiting (1), the ranks' output (6),
/// signals (8), a terminal as input (3), and what a start takes for a moment (6).
const FILES_BESIDE: u64 = 24;

/// A job to be run: which program, how many times, and how.
#[derive(Debug, Clone)]
pub struct Launch {
    /// How many ranks, 1 to [`MAX_RANKS`]; may be more than there are CPUs.
    pub ranks: u32,
    /// The program each rank runs; searched in `PATH` unless it has a slash.
    pub program: OsString,
    /// Its arguments, the same for every rank.
    pub args: Vec<OsString>,
    /// Programs that the ranks run instead, if they do not all run the same: see
    /// [`Launch::of_programs`].
    pub programs: Vec<Program>,
    /// How ranks are tied to CPUs.
    pub bind: Bind,
    /// Splits this machine into virtual nodes of so many ranks, whose ranks do not use the memory
    /// of other nodes' ranks directly. `None`: one node.
    pub ranks_per_node: Option<u32>,
    /// Whether each line of output starts with `[rank] `.
    pub label: bool,
    /// How long the job may take; then it is ended and the outcome says what each rank waits in.
    pub timeout: Option<Duration>,
    /// How long the other ranks may go on by themselves after one has failed, before they are asked
    /// to end. Longer than half a second is for jobs that can do without a rank.
    pub grace: Duration,
    /// Whether this process exists for the job alone, as `hikyaku run` does. The launch then
    /// catches the signals that people send to end the job, and adopts and ends descendants that
    /// left their rank's process group. Otherwise both are left to the program it is part of.
    pub owns_process: bool,
    /// How ranks store long messages in each other's memory. `None`: as is faster on this machine,
    /// which takes a millisecond or two to measure.
    pub long_stores: Option<LongStores>,
    /// What happens to a message that finds no room in its receiver's rings. Jobs on several hosts
    /// stall.
    pub full: FullPolicy,
    /// Which sources have a landing ring of their own at which rank. `None`: up to 16 ranks all
    /// have. For jobs of one machine.
    pub plan: Option<LandingPlan>,
    /// Variables that ranks have beyond this process's own.
    pub variables: Vec<(String, String)>,
    /// Where the ranks run. `None`: on this machine.
    pub hosts: Option<OnHosts>,
}

/// How a job ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The exit code a launcher should give: 0, or the first failing rank's code (128 + the signal
    /// that killed it), 128 + the signal that ended the launch, or 124 if time ran out.
    pub code: i32,
    /// Why, in one line, if it was not success.
    pub reason: Option<String>,
    /// More lines, one a rank: what each was waiting in when the time was up. Before them one that
    /// says so, if `reason` is another.
    pub details: Vec<String>,
    /// What the ranks have counted of their long messages, as words. Ranks that were killed have
    /// told nothing. Empty for jobs of several hosts.
    pub counts: Vec<u64>,
}

impl Launch {
    /// A job of so many ranks of a program without arguments, everything else by default.
    pub fn new(ranks: u32, program: impl Into<OsString>) -> Launch {
        Launch {
            ranks,
            program: program.into(),
            args: Vec::new(),
            programs: Vec::new(),
            bind: Bind::default(),
            ranks_per_node: None,
            label: false,
            timeout: None,
            grace: supervisor::GRACE,
            owns_process: false,
            long_stores: None,
            full: FullPolicy::Stall,
            plan: None,
            variables: Vec::new(),
            hosts: None,
        }
    }

    /// Lets programs written for MPI find hikyaku, if its libraries lie beside this launcher.
    pub fn offer_mpi(&mut self) {
        let launcher = std::env::current_exe().unwrap_or_default();
        self.variables.extend(mpi::variables(&launcher, |name| std::env::var(name).ok()));
    }

    /// Sets a variable of the ranks' environment, such as `HIKYAKU_SHARED` to `udp`.
    pub fn set(&mut self, variable: impl Into<String>, value: impl ToString) {
        self.variables.push((variable.into(), value.to_string()));
    }

    /// Runs the job; returns when it has ended.
    ///
    /// Standard input goes to rank 0; output comes out of this process's standard output and
    /// error. Blocks the calling thread, which the ranks do not survive.
    ///
    /// # Errors
    /// The job could not be started; nothing runs then.
    pub fn run(&self) -> Result<Outcome, LaunchError> {
        self.check()?;
        if let Some(hosts) = &self.hosts {
            return hosts::run(self, hosts);
        }
        let ranks_per_node = self.ranks_per_node.unwrap_or(self.ranks).min(self.ranks);
        let long_stores = self.long_stores;
        let config = JobConfig { long_stores, ..JobConfig::new(self.ranks, ranks_per_node) };
        let job = Job::create(&self.landing(config))?;
        let outcome = self.run_in(&job)?;
        Ok(Outcome { counts: job.counts(), ..outcome })
    }

    /// Runs the job in memory that is already there.
    pub(crate) fn run_in(&self, memory: &dyn JobMemory) -> Result<Outcome, LaunchError> {
        let files = allow_files(self.ranks)?;
        let prepare = |source| LaunchError::System { what: "prepare the launch", source };
        let prepared = Prepared::new(self).map_err(prepare)?;
        let interactive = [0, 1].map(|stream| prepared.outputs.is_interactive(stream));
        let mut crew = Local::new(memory, 0, interactive).map_err(prepare)?;
        let (programs, allowed) = (&self.all_programs()[..], &allowed_cpus()[..]);
        let (count, stdin, variables) = (self.ranks, None, &[][..]);
        let start = Start { launch: self, programs, count, stdin, files, allowed, variables };
        crew.start(start, || prepared.is_ending())?;
        let started = crew.started();
        Engine::new(self, prepared, crew, started).map_err(prepare)?.run()
    }

    /// The sizes of a job with its landing rings: as planned, and what they do when they are full.
    pub(crate) fn landing(&self, config: JobConfig) -> JobConfig {
        let config = config.when_full(self.full);
        match &self.plan {
            Some(plan) => config.planned(plan.clone()),
            None => config,
        }
    }

    pub(crate) fn check(&self) -> Result<(), LaunchError> {
        match self.ranks {
            0 => return Err(LaunchError::NoRanks),
            1..=MAX_RANKS => {}
            ranks => return Err(LaunchError::TooManyRanks { ranks }),
        }
        self.check_programs()?;
        if let Some(planned) = self.plan.as_ref().map(LandingPlan::ranks)
            && planned != self.ranks
        {
            return Err(LaunchError::Planned { ranks: self.ranks, planned });
        }
        if let Some(hosts) = &self.hosts {
            hosts.check(self.ranks)?;
        }
        match self.ranks_per_node {
            Some(0) => Err(LaunchError::EmptyNodes),
            _ => Ok(()),
        }
    }
}

/// Why a job could not be run.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// Zero ranks were asked for.
    #[error("a job needs at least one rank")]
    NoRanks,
    /// More ranks were asked for than one machine can be expected to hold.
    #[error("{ranks} ranks are too many: one machine takes at most {MAX_RANKS}")]
    TooManyRanks {
        /// How many were asked for.
        ranks: u32,
    },
    /// More ranks were asked for than run in virtual time.
    #[error(
        "{ranks} processes are too many in virtual time: at most {} run",
        crate::processes::MAX_RANKS
    )]
    TooManyVirtual {
        /// How many were asked for.
        ranks: u32,
    },
    /// Nodes of zero ranks were asked for.
    #[error("a node needs at least one rank")]
    EmptyNodes,
    /// The landing rings are planned for another number of ranks.
    #[error(
        "the plan is for {planned} ranks and the job has {ranks}: plan from a trace of as many"
    )]
    Planned {
        /// How many ranks the job has.
        ranks: u32,
        /// How many the plan has.
        planned: u32,
    },
    /// The program cannot be executed, and that is not the machine's fault.
    #[error("cannot run {program:?}: {reason}")]
    Program {
        /// As it was given.
        program: OsString,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The system would not start another process.
    #[error("cannot start rank {rank}, {program:?}: {source}")]
    Spawn {
        /// Which rank; those before it were started, and have been ended.
        rank: u32,
        /// The program.
        program: OsString,
        /// What the system said.
        source: io::Error,
    },
    /// The limit on open files is too low for so many ranks.
    #[error(
        "{ranks} ranks need {needed} open files and the limit is {limit}: raise it (ulimit -n) \
             or run fewer ranks"
    )]
    Files {
        /// How many ranks.
        ranks: u32,
        /// Descriptors they need in the launcher.
        needed: u64,
        /// The hard limit.
        limit: u64,
    },
    /// The places on the hosts are not as many as the ranks.
    #[error("{ranks} ranks cannot run on hosts with {places} places")]
    Places {
        /// How many ranks.
        ranks: u32,
        /// How many places.
        places: u64,
    },
    /// A host could not start its ranks.
    #[error("{}{reason}", if host.is_empty() { String::new() } else { format!("host {host}: ") })]
    Host {
        /// The host, if the reason does not name it.
        host: String,
        /// What it says.
        reason: String,
        /// The exit code that goes with it.
        code: i32,
    },
    /// The job's shared memory could not be had.
    #[error(transparent)]
    Memory(#[from] JobError),
    /// Another system call failed.
    #[error("cannot {what}: {source}")]
    System {
        /// What it was for.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl LaunchError {
    /// The exit code a launcher should give: 2 if something else must be asked for, 1 if the
    /// machine has refused.
    pub fn code(&self) -> i32 {
        match self {
            LaunchError::NoRanks
            | LaunchError::TooManyRanks { .. }
            | LaunchError::TooManyVirtual { .. }
            | LaunchError::EmptyNodes
            | LaunchError::Planned { .. }
            | LaunchError::Places { .. }
            | LaunchError::Program { .. } => 2,
            LaunchError::Host { code, .. } => *code,
            LaunchError::Spawn { .. }
            | LaunchError::Files { .. }
            | LaunchError::Memory(_)
            | LaunchError::System { .. } => 1,
        }
    }

    /// Sorts out what `exec` found wrong with the program from what the system would not do.
    fn of_spawn(rank: u32, program: &OsStr, error: io::Error) -> LaunchError {
        let path = Path::new(program);
        let is_path = program.as_encoded_bytes().contains(&b'/');
        let reason = match error.kind() {
            ErrorKind::NotFound if program.is_empty() => "its name is empty",
            ErrorKind::NotFound if !is_path => "there is no such program in PATH",
            ErrorKind::NotFound if path.exists() => "its interpreter or loader does not exist",
            ErrorKind::NotFound => "there is no such file",
            ErrorKind::PermissionDenied if path.is_dir() => "it is a directory",
            ErrorKind::PermissionDenied if !is_executable(program) => "it is not executable",
            ErrorKind::NotADirectory => "a part of its path is not a directory",
            ErrorKind::InvalidInput => "its name or an argument contains a zero byte",
            ErrorKind::ArgumentListTooLong => "its arguments are too long",
            ErrorKind::ExecutableFileBusy => "it is being written to",
            _ if error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()) => {
                "it is neither a program nor a script"
            }
            _ => return LaunchError::Spawn { rank, program: program.into(), source: error },
        };
        LaunchError::Program { program: program.into(), reason }
    }
}

/// Whether the program may be executed, so that something else was refused.
fn is_executable(program: &OsStr) -> bool {
    let may = |path: &Path| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    if program.as_encoded_bytes().contains(&b'/') {
        return may(Path::new(program));
    }
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| may(&folder.join(program)))
}

/// Makes sure that the launcher may open what it needs. Gives the limits to restore in the ranks if
/// they had to be raised.
fn allow_files(ranks: u32) -> Result<Option<Rlimit>, LaunchError> {
    let before = limits_on(Resource::Nofile);
    let needed = open_files() + FILES_BESIDE + u64::from(ranks) * FILES_PER_RANK;
    if before.current.is_none_or(|current| current >= needed) {
        return Ok(None);
    }
    if let Some(limit) = before.maximum.filter(|&limit| limit < needed) {
        return Err(LaunchError::Files { ranks, needed, limit });
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), ..before }).map_err(|error| {
        LaunchError::System { what: "raise the limit on open files", source: error.into() }
    })?;
    Ok(Some(before))
}

/// How many files this process has open; where `/proc` does not tell, standard input, output and
/// error and the job's memory.
fn open_files() -> u64 {
    fs::read_dir("/proc/self/fd").map_or(4, |files| files.count() as u64)
}

/// The CPUs this process may run on, in order; none if the system does not say.
fn allowed_cpus() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}
