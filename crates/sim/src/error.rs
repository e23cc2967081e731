//! The errors of a simulation. Each is one line that names the place and the remedy.

use std::fmt;

use hikyaku_nic::time::Time;

use crate::engine::{TaskId, TaskName};

/// The reasons why a run ended before its program did.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// No event is left, but tasks still wait. The program is at fault.
    #[error("deadlock at {at}: {}", Listing(stuck))]
    Deadlock {
        /// The time of the last event.
        at: Time,
        /// The tasks that wait, in the order of their start.
        stuck: Vec<Stuck>,
    },
    /// The run was stopped from outside. It can be continued.
    #[error("stopped at {at} of virtual time")]
    Stopped {
        /// The virtual time of the stop.
        at: Time,
    },
    /// The clock has reached its end at 2^64 picoseconds.
    #[error("virtual time ends after 213 days, at {at} something was due later; scale times down")]
    EndOfTime {
        /// The time of the last event.
        at: Time,
    },
    /// A message was addressed to a rank that does not exist. The program is at fault.
    #[error("rank {from} sends to rank {to}, but the job has ranks 0 to {}", size - 1)]
    NoSuchRank {
        /// The sender.
        from: u32,
        /// The rank that was addressed.
        to: u32,
        /// The number of ranks.
        size: u32,
    },
    /// More messages are in flight or unexpected than the job's limit allows.
    #[error("{limit} messages are in flight or were never received; raise the job's `in_flight`")]
    TooManyMessages {
        /// The limit.
        limit: usize,
    },
    /// The simulated machine has no such facility.
    #[error("the simulated machine cannot {what}")]
    Unsupported {
        /// The missing facility.
        what: &'static str,
    },
    /// The job does not fit the machine.
    #[error("{ranks} ranks, {per_node} to a node, need {needed} nodes; the network has {nodes}")]
    TooManyRanks {
        /// Ranks of the job.
        ranks: u32,
        /// Ranks per node.
        per_node: u32,
        /// Nodes needed.
        needed: u32,
        /// Nodes of the machine.
        nodes: u32,
    },
}

/// A task that waits in a deadlock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stuck {
    /// The task.
    pub id: TaskId,
    /// Its name.
    pub name: TaskName,
    /// The object of the wait, to be read after "waits for".
    pub waits_for: String,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} waits for {}", self.name, self.waits_for)
    }
}

/// The first few tasks that wait, and the number of the others.
struct Listing<'s>(&'s [Stuck]);

/// The number of tasks that one line names. The error has all of them.
const NAMED: usize = 8;

impl fmt::Display for Listing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, stuck) in self.0.iter().take(NAMED).enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{stuck}")?;
        }
        match self.0.len().saturating_sub(NAMED) {
            0 => Ok(()),
            more => write!(f, ", and {more} more"),
        }
    }
}
