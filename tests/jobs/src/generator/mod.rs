//! Random programs that are correct by construction, and the code that runs many of them.
//!
//! From a seed every rank derives the same [`Program`]: data, a list of steps with the actions of
//! each rank. Each rank runs its part of every step over the public API and checks each value it
//! gets against the plan.
//!
//! ```text
//!   seed ──► draw.rs ──► Program (plan.rs) ──► run.rs, on every rank
//!                                                ├─ messages.rs   point to point
//!                                                ├─ calls.rs      collectives, their data
//!                                                │    └─ forms.rs   their three forms
//!                                                ├─ memory.rs     windows, shared variables
//!                                                └─ edges.rs      exchanges, topologies
//!   many.rs: jobs of many seeds, for real, in virtual time; reduces those that fail
//! ```
//!
//! No such program waits for ever, for this reason: within a step, ranks do their parts of one
//! common list in its order, and operations that do not fit that (wildcards, unmatched messages)
//! are started without waiting. So the first unfinished action in the list can always be done, even
//! if no message is ever buffered. And every step is correct by itself, so a program stays correct
//! when steps are left out: that is how a failing one is reduced.
//! are left out: that is how one that fails is made smaller.

pub mod many;

mod calls;
mod draw;
mod edges;
mod forms;
mod memory;
mod messages;
mod plan;
mod run;

pub use plan::{Kept, Program, Step};
pub use run::{End, run};
