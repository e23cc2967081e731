//! Random programs that are right by construction, and what runs many of them.
//!
//! From a seed every rank derives the same [`Program`]: data, a list of steps that says who does
//! what. Each rank runs its part of every step over the public API and checks each value it gets
//! against what the plan says.
//!
//! ```text
//!   seed ──► draw.rs ──► Program (plan.rs) ──► run.rs, on every rank
//!                                                ├─ messages.rs   point to point
//!                                                ├─ calls.rs      collectives, their data
//!                                                │    └─ forms.rs   their three forms
//!                                                ├─ memory.rs     windows, shared variables
//!                                                └─ edges.rs      exchanges, topologies
//!   many.rs: jobs of many seeds, for real, in virtual time; makes those that fail smaller
//! ```
//!
//! Why no program of these waits for ever: within a step, ranks do what is theirs of one common
//! list in its order, and whatever does not fit that (wildcards, unmatched messages) is started
//! without waiting. So the first thing in the list that is not done can always be done, also if no
//! message is ever buffered. And every step is right by itself, so a program stays right when steps
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
