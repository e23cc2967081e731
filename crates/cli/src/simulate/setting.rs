//! The checked settings of a simulation: the job and the machine.

use std::path::PathBuf;

use hikyaku::{Operation, Time};
use hikyaku_sim::job::{JobConfig, MemoryPath, Payload};
use hikyaku_sim::machine::Machine;
use hikyaku_sim::network::Rate;
use thiserror::Error;

use crate::simulated::algorithms;

use super::arguments::SimulateArguments;
use super::exhibit::Exhibit;
use crate::machine::{MachineLoadError, load};

/// The exit code after an interrupt, as shells count: 128 and the number of the signal.
pub(super) const INTERRUPTED: u8 = 130;

/// The maximum number of ranks of a job; their tasks would fill some gigabytes.
pub(super) const MOST_RANKS: u32 = 1 << 20;

/// Costs of messages between ranks of a node: about those of a cache line and a copy on a
/// present-day host. Machine files do not state them; the report names them when they are used.
pub(super) const MEMORY_LATENCY: Time = Time::from_nanoseconds(200);
const MEMORY_RATE: f64 = 10e9;

/// The reason why a command line cannot be executed; the user's mistake.
#[derive(Debug, Error)]
pub(super) enum SettingError {
    /// An option that the rest of the command line needs is missing.
    #[error("{0} is missing: see hikyaku simulate --help")]
    Missing(&'static str),
    /// An option for processes was given without processes.
    #[error("{0} is only for programs that run as processes: those after `--`")]
    OfProcesses(&'static str),
    /// An argument would be ignored.
    #[error("{0} has no effect with {1}: leave it out")]
    Idle(&'static str, &'static str),
    /// An invalid number of ranks.
    #[error("{0} ranks: a simulated job has from 1 to {MOST_RANKS}")]
    Ranks(u32),
    /// An invalid number of ranks per node.
    #[error("no rank on a node: --ranks-per-node must be at least 1")]
    NoneToANode,
    /// The machine's shape cannot grow to this number of nodes.
    #[error("{machine} cannot be made larger for {nodes} nodes: {why}")]
    Nodes {
        /// The machine.
        machine: String,
        /// The number of nodes asked for.
        nodes: u32,
        /// The reason.
        why: String,
    },
    /// The ranks do not fit.
    #[error(
        "{ranks} ranks, {per_node} to a node, need {needed} nodes, {machine} has {nodes}; \
         --nodes {needed} simulates a larger one"
    )]
    TooManyRanks {
        /// The machine.
        machine: String,
        /// The number of ranks.
        ranks: u32,
        /// The number of ranks per node.
        per_node: u32,
        /// The number of nodes needed.
        needed: u32,
        /// The machine's number of nodes.
        nodes: u32,
    },
    /// The ranks' arrays need more memory than there is.
    #[error(
        "{program} among {ranks} ranks holds {needed} at one time, {free} are free: \
         --lengths-only simulates it without contents"
    )]
    Memory {
        /// The program's name.
        program: &'static str,
        /// The number of ranks.
        ranks: u32,
        /// The memory that all ranks together need.
        needed: String,
        /// The memory that is available.
        free: String,
    },
    /// The machine cannot be loaded.
    #[error(transparent)]
    Machine(#[from] MachineLoadError),
    /// No machine runs the operation by this algorithm.
    #[error("no machine runs {} by `{name}`: there are {}", .operation.name(),
        algorithms(*.operation).collect::<Vec<_>>().join(", "))]
    Algorithm {
        /// The operation.
        operation: Operation,
        /// The given name.
        name: String,
    },
    /// The timeline's form is unknown.
    #[error("{0}: a timeline is a page (.html) or a picture (.svg)")]
    Form(PathBuf),
}

/// The checked settings of a simulation.
#[derive(Debug)]
pub(super) struct Setting {
    /// The machine, enlarged if requested.
    pub(super) machine: Machine,
    /// The job, without the costs of its interface.
    pub(super) job: JobConfig,
    /// The seed of all random numbers.
    pub(super) seed: u64,
    /// The files to write about the run.
    pub(super) exhibit: Exhibit,
}

impl Setting {
    pub(super) fn new(arguments: &SimulateArguments) -> Result<Setting, SettingError> {
        let file = arguments.machine.as_deref().ok_or(SettingError::Missing("--machine FILE"))?;
        let ranks = arguments.ranks.ok_or(SettingError::Missing("-n RANKS"))?;
        let mut machine = load(file)?;
        if let Some(nodes) = arguments.nodes {
            let name = machine.name.clone();
            let refuse = |why: String| SettingError::Nodes { machine: name, nodes, why };
            machine = machine.with_nodes(nodes).map_err(refuse)?;
        }
        let per_node = arguments.ranks_per_node;
        if per_node == 0 {
            return Err(SettingError::NoneToANode);
        }
        if !(1..=MOST_RANKS).contains(&ranks) {
            return Err(SettingError::Ranks(ranks));
        }
        let (needed, nodes) = (ranks.div_ceil(per_node), machine.nodes);
        if needed > nodes {
            let machine = machine.name;
            return Err(SettingError::TooManyRanks { machine, ranks, per_node, needed, nodes });
        }
        let payload = if arguments.lengths_only { Payload::LengthsOnly } else { Payload::Carried };
        let memory =
            MemoryPath { latency: MEMORY_LATENCY, rate: Rate::bytes_per_second(MEMORY_RATE) };
        let job = JobConfig { ranks_per_node: per_node, payload, memory, ..JobConfig::new(ranks) };
        let exhibit = Exhibit::new(arguments.trace.clone(), arguments.timeline.clone());
        let exhibit = exhibit.map_err(SettingError::Form)?;
        Ok(Setting { machine, job, seed: arguments.seed, exhibit })
    }
}
