//! A job to run, and its outcome.

use std::{ffi::OsString, time::Duration};

use hikyaku_nic::{fabric::FullPolicy, plan::LandingPlan, ring::LongStores};
use hikyaku_shm::JobConfig;

use super::{Bind, HeapError, LaunchError, OnHosts, Program, heap, mpi, supervisor};

/// The maximum number of ranks of one job. The launcher needs three descriptors and a process per
/// rank. At this number the usual limits of one machine (32768 processes, some ten thousand open
/// files) are near; a larger number is probably a typing error.
pub const MAX_RANKS: u32 = 4096;

/// A job to run: the program, the number of ranks, and the settings.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The number of ranks, 1 to [`MAX_RANKS`]. There may be more ranks than CPUs.
    pub ranks: u32,
    /// The program each rank runs; searched in `PATH` unless it has a slash.
    pub program: OsString,
    /// Its arguments, the same for every rank.
    pub args: Vec<OsString>,
    /// Programs that the ranks run instead if they do not all run the same one: see
    /// [`Launch::of_programs`].
    pub programs: Vec<Program>,
    /// How ranks are bound to CPUs.
    pub bind: Bind,
    /// Splits this machine into virtual nodes of so many ranks, whose ranks do not use the memory
    /// of other nodes' ranks directly. `None`: one node.
    pub ranks_per_node: Option<u32>,
    /// Whether each line of output starts with `[rank] `.
    pub label: bool,
    /// The job's time limit. When it expires, the job is ended and the outcome reports what each
    /// rank waits in.
    pub timeout: Option<Duration>,
    /// How long the other ranks may continue after one has failed, before they are asked to end. A
    /// value above half a second is for jobs that can continue without a rank.
    pub grace: Duration,
    /// Whether this process exists for the job alone, as `hikyaku run` does. The launch then
    /// catches the signals that end the job, and adopts and ends descendants that left their rank's
    /// process group. Otherwise the surrounding program is responsible for both.
    pub owns_process: bool,
    /// How ranks store long payloads in each other's memory. `None`: each rank measures which way
    /// is faster for each peer.
    pub long_stores: Option<LongStores>,
    /// The policy for a message for which the receiver's rings have no room. Jobs on several hosts
    /// always stall.
    pub full: FullPolicy,
    /// Which sources have a landing ring of their own at which rank. `None`: `rings` decides. For
    /// jobs of one machine.
    pub plan: Option<LandingPlan>,
    /// The number of landing rings per rank at the start, 1 to the number of ranks: source `s`
    /// uses ring `s % rings`. `None`: one per rank for up to 16 ranks, else 8. For jobs of one
    /// machine.
    pub rings: Option<u32>,
    /// Whether sources keep these rings unless the receiving program assigns others. If not, ranks
    /// give frequent sources rings of their own. For jobs of one machine.
    pub keeps_rings: bool,
    /// Environment variables of the ranks beyond those of this process.
    pub variables: Vec<(String, String)>,
    /// The hosts on which the ranks run. `None`: this machine.
    pub hosts: Option<OnHosts>,
}

/// How a job ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobOutcome {
    /// The launcher's exit code: 0, or the first failing rank's code (128 + the signal that killed
    /// it), 128 + the signal that ended the launch, or 124 after a timeout.
    pub code: i32,
    /// The reason in one line, unless the job succeeded.
    pub reason: Option<String>,
    /// One more line per rank: what it waited in when the time was up. If `reason` is not the
    /// timeout, the first line reports it.
    pub details: Vec<String>,
    /// The ranks' counters of long messages, as words. Killed ranks have reported nothing. Empty
    /// for jobs on several hosts.
    pub counts: Vec<u64>,
}

impl Launch {
    /// A job of `ranks` ranks of a program without arguments, with default settings.
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

    /// Lets MPI programs find hikyaku's libraries, if they are beside this launcher.
    pub fn offer_mpi(&mut self) {
        let launcher = std::env::current_exe().unwrap_or_default();
        self.variables.extend(mpi::variables(&launcher, |name| std::env::var(name).ok()));
    }

    /// Places large allocations of the ranks' programs in memory that the ranks of a node share.
    ///
    /// # Errors
    /// The library for this is not beside this launcher, or cannot be preloaded into the program.
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

    /// Adds the settings of the landing rings to `config`: plan, number, and policy when full.
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
