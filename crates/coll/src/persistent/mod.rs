//! Persistent exchanges with neighbours, and dense collectives, as programs of command queues
//! (paper 002).
//!
//! [`QueueProgram`] is the work of one queue in a round, for any number of neighbours.
//! [`combine()`] derives the ranks' edges when the data of a node's ranks for another node shall be
//! one put. [`CombinedRank::plan`] assigns a rank's edges to queues. [`TreePlace`] has the programs
//! of dense collectives. All of this is arithmetic over counts: the caller runs the queues and
//! provides the memory that their commands name.

mod combined;
mod plan;
mod program;
mod tree;

pub use combined::{
    Channel, CombinedRank, EdgePut, InEdge, IncomingEnd, NodeRank, OutEdge, PutSource, Relay,
    combine,
};
pub use plan::{PlanError, QueueLimits, Scheme, UnknownScheme};
pub use program::{QueueProgram, QueueStep};
pub use tree::{TreePlace, TreeUpward};

#[cfg(test)]
mod tests;
