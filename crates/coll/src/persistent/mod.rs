//! Persistent exchanges with neighbours as programs of command queues (paper 002).
//!
//! [`QueueProgram`] says what one queue does in a round, for any number of neighbours; [`plan()`]
//! gives the edges of a rank to queues. Both are arithmetic over counts: who runs the queues, and
//! what memory their commands name, is the caller's affair.

mod plan;
mod program;

pub use plan::{PlanError, QueueLimits, Scheme, plan};
pub use program::{QueueProgram, QueueStep};

#[cfg(test)]
mod tests;
