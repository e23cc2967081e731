//! A job to be run, and how it ended.

use std::{ffi::OsString, time::Duration};

use hikyaku_nic::{fabric::FullPolicy, plan::LandingPlan, ring::LongStores};
use hikyaku_shm::JobConfig;

use super::{Bind, HeapError, LaunchError, OnHosts, Program, heap, mpi, supervisor};

/// The most ranks of one job. A rank takes three descriptors and a process of the launcher's, so
/// that at this number the usual limits of one machine (32768 processes, some ten thousand open
/// files) are near; a larger number is a slip of the finger.
pub const MAX_RANKS: u32 = 4096;

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
    /// How ranks store long payloads in each other's memory. `None`: as is faster for each peer,
    /// which they measure.
    pub long_stores: Option<LongStores>,
    /// What happens to a message that its receiver's rings have no room for. Jobs on several hosts
    /// stall.
    pub full: FullPolicy,
    /// Which sources have a landing ring of their own at which rank. `None`: as `rings` says. For
    /// jobs of one machine.
    pub plan: Option<LandingPlan>,
    /// How many landing rings sources start in at each rank, 1 to the number of ranks: source `s`
    /// in ring `s % rings`. `None`: as many as ranks up to 16, and 8 with more. For jobs of one
    /// machine.
    pub rings: Option<u32>,
    /// Whether sources stay there unless the receiving program directs them elsewhere. If not,
    /// ranks give frequent sources rings of their own. For jobs of one machine.
    pub keeps_rings: bool,
    /// Variables that ranks have beyond this process's own.
    pub variables: Vec<(String, String)>,
    /// Where the ranks run. `None`: on this machine.
    pub hosts: Option<OnHosts>,
}

/// How a job ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobOutcome {
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
            rings: None,
            keeps_rings: false,
            variables: Vec::new(),
            hosts: None,
        }
    }

    /// Lets programs written for MPI find hikyaku, if its libraries lie beside this launcher.
    pub fn offer_mpi(&mut self) {
        let launcher = std::env::current_exe().unwrap_or_default();
        self.variables.extend(mpi::variables(&launcher, |name| std::env::var(name).ok()));
    }

    /// Has large allocations of the ranks' programs made in memory that the ranks of a node share.
    ///
    /// # Errors
    /// The library for that is not beside this launcher, or the program cannot have it.
    pub fn share_heap(&mut self) -> Result<(), HeapError> {
        let launcher = std::env::current_exe().unwrap_or_default();
        let variable = heap::variable(&launcher, &self.program, |name| std::env::var(name).ok())?;
        self.variables.push(variable);
        Ok(())
    }

    /// Sets a variable of the ranks' environment, such as `HIKYAKU_SHARED` to `udp`.
    pub fn set(&mut self, variable: impl Into<String>, value: impl ToString) {
        self.variables.push((variable.into(), value.to_string()));
    }

    /// The sizes of a job with its landing rings: as planned, and what they do when they are full.
    pub(crate) fn landing(&self, config: JobConfig) -> JobConfig {
        let config = config.when_full(self.full);
        let config = match (&self.plan, self.rings) {
            (Some(plan), _) => config.planned(plan.clone()),
            (None, Some(rings)) => config.starting_in(rings),
            (None, None) => config,
        };
        if self.keeps_rings { config.keeping_rings() } else { config }
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
        if let Some(rings) = self.rings
            && !(1..=self.ranks).contains(&rings)
        {
            return Err(LaunchError::Rings { ranks: self.ranks, rings });
        }
        if let Some(hosts) = &self.hosts {
            let places = hosts.places.iter().map(|(_, count)| u64::from(*count)).sum();
            let fits =
                places == u64::from(self.ranks) && hosts.places.iter().all(|(_, count)| *count > 0);
            if !fits {
                return Err(LaunchError::Places { ranks: self.ranks, places });
            }
        }
        match self.ranks_per_node {
            Some(0) => Err(LaunchError::EmptyNodes),
            _ => Ok(()),
        }
    }
}
