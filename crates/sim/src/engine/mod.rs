//! The engine: a clock, the events to come, and tasks that wait for them.
//!
//! ```text
//!          +-----------------------  Sim  -----------------------+
//!          |  now    EventQueue (time, first in first out)       |
//!          |              | pop                                  |
//!          |              v                                      |
//!          |   Wake(task)   Component(id, word)   Call(closure)  |
//!          |      |               |                     |        |
//!          |      v               v                     |        |
//!          |   ready tasks    networks, interfaces <----+        |
//!          |      |               |                              |
//!          |      +-- poll        +--> at(time, event), wake(..) |
//!          +-----------------------------------------------------+
//! ```
//!
//! Two ways to describe what happens in time, for two kinds of code:
//!
//! - *Tasks* are async functions: programs of ranks, and units of a modelled interface that read as
//!   a list of steps (`unit.next().await; sim.delay(clocks).await; ...`). [`Sim::spawn`].
//! - *Components* are state machines for what happens millions of times: an event carries one word,
//!   costs no allocation and no poll. The networks are components. [`Sim::register`].
//!
//! Determinism, as a list of rules: time is an integer number of picoseconds; among equals the
//! event scheduled first comes first; tasks woken by an event run before the next event, in the
//! order in which they were woken; random numbers come from one seed ([`Random`]); nothing reads a
//! clock, the environment or the address of anything. So two runs are the same run, and
//! [`Trace`]'s digest says so in one number.
//!
//! A run ends when nothing is left to happen. If tasks still wait then, that is a deadlock of the
//! program and an error that lists who waits for what ([`SimError::Deadlock`]).
//!
//! [`SimError::Deadlock`]: crate::SimError::Deadlock

mod kernel;
mod queue;
mod random;
mod sync;
mod task;
mod trace;

pub(crate) use kernel::BATCH;
pub use kernel::{Component, ComponentId, Delay, Progress, Sim, Simulation, Stage};
pub use queue::EventQueue;
pub use random::Random;
pub use sync::{Mailbox, Receive, Server, Signal, Wait};
pub use task::{TaskId, TaskName, Wakeup};
pub use trace::{Record, RecordKind, Trace};
