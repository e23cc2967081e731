//! What to simulate, and on what, checked.

use std::path::PathBuf;

use hikyaku::{Time, UnknownChoice};
use hikyaku_sim::job::{JobConfig, MemoryPath, Payload};
use hikyaku_sim::machine::Machine;
use hikyaku_sim::network::Rate;
use thiserror::Error;

use super::arguments::SimulateArguments;
use super::exhibit::Exhibit;
use crate::machine::{MachineLoadError, load};

/// Interrupted, as shells count: 128 and the number of the signal.
pub(super) const INTERRUPTED: u8 = 130;

/// The most ranks of a job; their tasks would fill some gigabytes.
pub(super) const MOST_RANKS: u32 = 1 << 20;

/// Messages between ranks of a node: what a cache line and a copy take on a present-day host.
/// Machine files say nothing of it, and the report names it where it is used.
pub(super) const MEMORY_LATENCY: Time = Time::from_nanoseconds(200);
const MEMORY_RATE: f64 = 10e9;

/// Why a command line cannot be carried out; the user's mistake.
#[derive(Debug, Error)]
pub(super) enum SettingError {
    /// An option that the rest of the command line needs.
    #[error("{0} is missing: see hikyaku simulate --help")]
    Missing(&'static str),
    /// An option of processes, with what is none.
    #[error("{0} is for programs of processes: those after `--`")]
    OfProcesses(&'static str),
    /// An invalid number of ranks.
    #[error("{0} ranks: a simulated job has from 1 to {MOST_RANKS}")]
    Ranks(u32),
    /// An invalid number of ranks to a node.
    #[error("no rank to a node: --ranks-per-node takes a number from 1 on")]
    NoneToANode,
    /// Larger than shapes grow.
    #[error("{machine} cannot be made larger for {nodes} nodes: {why}")]
    Nodes {
        /// The machine.
        machine: String,
        /// How many were asked for.
        nodes: u32,
        /// What stands against it.
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
        /// Ranks.
        ranks: u32,
        /// Ranks to a node.
        per_node: u32,
        /// Nodes that this takes.
        needed: u32,
        /// Nodes that there are.
        nodes: u32,
    },
    /// The machine file.
    #[error(transparent)]
    Machine(#[from] MachineLoadError),
    /// The algorithm.
    #[error(transparent)]
    Choice(#[from] UnknownChoice),
    /// A form of timeline that there is not.
    #[error("{0}: a timeline is a page (.html) or a picture (.svg)")]
    Form(PathBuf),
}

/// What to simulate a job on, checked.
#[derive(Debug)]
pub(super) struct Setting {
    /// The machine, enlarged if that was asked for.
    pub(super) machine: Machine,
    /// The job, without the costs of its interface.
    pub(super) job: JobConfig,
    /// What random numbers follow from.
    pub(super) seed: u64,
    /// What to write of what happened.
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
