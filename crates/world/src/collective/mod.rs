//! The collectives, in the three forms that MPI has.
//!
//! ```text
//!   blocking.rs     world.allreduce(&mut data, op)                     runs it to its end
//!   nonblocking.rs  scope.iallreduce(&mut data, op) -> Collective      leaves it in flight
//!   persistent.rs   world.allreduce_init(data, op) -> Persistent       starts it again and again
//!                          \              |              /
//!   operations.rs           CollectiveRanks::allreduce, the only form that handles bytes
//!                                         |
//!                              coll::allreduce, the algorithms
//! ```
//!
//! Every rank of the communicator calls the same ones in the same order (MPI 5.0 §6.12). Operations
//! in flight make progress during calls of this library (`rank/src/tasks.rs`).
//!
//! The three lists of signatures stay, although they name the same operations, because the forms
//! borrow differently: a blocking call borrows buffers for itself, a nonblocking one for its scope,
//! a persistent one owns them. And `rustdoc` shows a method only if it is written.

mod blocking;
#[cfg(test)]
mod long_tests;
mod nonblocking;
mod operations;
mod persistent;
#[cfg(test)]
mod session_tests;

pub use nonblocking::{Collective, CollectiveFuture};
pub(crate) use operations::CollectiveRanks;
pub use persistent::{Buffer, Persistent};
