//! Persistent exchanges with neighbours, and dense collectives, as programs of command queues
//! (paper 002).
//!
//! [`QueueProgram`] says what one queue does in a round, for any number of neighbours; [`plan()`]
//! gives the edges of a rank to queues; [`TreePlace`] has the programs of dense collectives. All
//! are arithmetic over counts: who runs the queues, and what memory their commands name, is the
//! caller's affair.

mod plan;
mod program;
mod tree;

pub use plan::{PlanError, QueueLimits, Scheme, plan};
pub use program::{QueueProgram, QueueStep};
pub use tree::{TreePlace, TreeUpward};

#[cfg(test)]
mod tests;
