//! Starts the ranks of a job on this machine, passes their input and output, and ends them.
//!
//! `hikyaku run` is built on this crate, and other front ends use the same [`Launch`]. Programs
//! that run as ranks do not need it.
//!
//! Guarantees:
//!
//! - **Nothing is left.** However the job ends, when [`Launch::run`] returns every rank has ended
//!   and its descendants are killed. If the launcher itself is killed, the kernel kills the ranks.
//! - **The first failure ends the job** within two seconds. One line names it, and its exit code is
//!   the job's.
//! - **Lines stay whole**, and bytes are not changed.
//! - **No other service is needed**: no network, no host name, no `/etc/hosts`.
//!
//! One thread supervises (`engine`). Decisions are in pure modules (`supervisor`, `lines`,
//! `placement`, `ending`), resources in small ones that each own one kind of thing:
//!
//! ```text
//!   engine ─┬─ supervisor   when the job is over and why         (pure)
//!           ├─ outputs ── lines (pure), sink                     where ranks' output goes
//!           ├─ events        a set of descriptors to wait for
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
mod error;
mod events;
mod heap;
pub mod hosts;
mod intake;
mod interrupts;
mod launch;
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

use hikyaku_shm::{Job, JobConfig};

use self::{
    engine::{JobEngine, Prepared},
    local::{LocalRanks, Start, allow_files},
    placement::allowed_cpus,
};
pub use self::{
    error::LaunchError,
    heap::HeapError,
    hosts::OnHosts,
    launch::{JobOutcome, Launch, MAX_RANKS},
    memory::JobMemory,
    placement::Bind,
    programs::Program,
};
pub use hikyaku_nic::{fabric::FullPolicy, plan::LandingPlan, ring::LongStores};
pub use hikyaku_shm::available_memory;

impl Launch {
    /// Runs the job until it has ended.
    ///
    /// Standard input goes to rank 0. The ranks' output goes to this process's standard output and
    /// error. Blocks the calling thread; if that thread ends, the kernel kills the ranks.
    ///
    /// # Errors
    /// The job could not be started. No rank runs then.
    pub fn run(&self) -> Result<JobOutcome, LaunchError> {
        self.check()?;
        if let Some(hosts) = &self.hosts {
            return hosts::run(self, hosts);
        }
        let ranks_per_node = self.ranks_per_node.unwrap_or(self.ranks).min(self.ranks);
        let long_stores = self.long_stores;
        let config = JobConfig { long_stores, ..JobConfig::new(self.ranks, ranks_per_node) };
        let job = Job::create(&self.landing(config))?;
        let outcome = self.run_in(&job)?;
        Ok(JobOutcome { counts: job.counts(), ..outcome })
    }

    /// Runs the job in existing memory.
    pub(crate) fn run_in(&self, memory: &dyn JobMemory) -> Result<JobOutcome, LaunchError> {
        let files = allow_files(self.ranks)?;
        let prepare = |source| LaunchError::System { what: "prepare the launch", source };
        let prepared = Prepared::new(self).map_err(prepare)?;
        let interactive = [0, 1].map(|stream| prepared.outputs.is_interactive(stream));
        let mut crew = LocalRanks::new(memory, 0, interactive).map_err(prepare)?;
        let (programs, allowed) = (&self.all_programs()[..], &allowed_cpus()[..]);
        let (count, stdin, variables) = (self.ranks, None, &[][..]);
        let beside = (0, 0);
        let start =
            Start { launch: self, programs, count, stdin, files, beside, allowed, variables };
        crew.start(start, || prepared.is_ending())?;
        let started = crew.started();
        JobEngine::new(self, prepared, crew, started).map_err(prepare)?.run()
    }
}
