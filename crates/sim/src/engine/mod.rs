//! The engine: a clock, future events, and tasks that wait for them.
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
//! There are two ways to describe activity in time, for two kinds of code:
//!
//! - *Tasks* are async functions: programs of ranks, and units of a modelled interface that read
//!   like a list of steps (`unit.next().await; sim.delay(clocks).await; ...`). [`Sim::spawn`].
//! - *Components* are state machines for events that occur millions of times. An event carries one
//!   word, and costs no allocation and no poll. The networks are components. [`Sim::register`].
//!
//! The rules of determinism: time is an integer number of picoseconds. Of the events due at the
//! same time, the one scheduled first comes first. Tasks woken by an event run before the next
//! event, in the order in which they were woken. Random numbers come from one seed ([`Random`]). No
//! code reads a clock, the environment or an address. So two runs are identical, and [`Trace`]'s
//! digest shows that in one number.
//!
//! A run ends when no event is left. If tasks still wait then, the program has a deadlock. The
//! error lists what each task waits for ([`SimError::Deadlock`]).
//!
//! [`SimError::Deadlock`]: crate::SimError::Deadlock

mod kernel;
mod queue;
mod sync;
mod task;
mod trace;

pub use hikyaku_nic::random::Random;
pub(crate) use kernel::BATCH;
pub use kernel::{Component, ComponentId, Delay, PrefetchStage, Progress, Sim, Simulation};
pub use queue::EventQueue;
pub use sync::{Mailbox, MailboxReceive, Server, Signal, SignalWait};
pub use task::{TaskId, TaskName, Wakeup};
pub use trace::{RecordKind, Trace, TraceRecord};
