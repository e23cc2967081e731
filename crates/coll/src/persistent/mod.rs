//! Persistent exchanges with neighbours, and dense collectives, as programs of command queues
//! (paper 002).
//!
//! [`QueueProgram`] says what one queue does in a round, for any number of neighbours;
//! [`combine()`] says what edges ranks have, where what those of a node send to another is to be
//! one put; [`CombinedRank::plan`] gives a rank's edges to queues; [`TreePlace`] has the programs
//! of dense collectives. All are arithmetic over counts: who runs the queues, and what memory their
//! commands name, is the caller's affair.

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
