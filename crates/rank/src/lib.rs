//! One rank of a job, in bytes: what every front end stands on.
//!
//! ```text
//!   world (Rust), later mpi        types, scopes, guards, names
//!            |
//!          rank                    Communicator: who, which context; its collectives' book
//!            |                     Rank: the engine, operations in flight, waiting
//!          coll                    persistent: exchanges that finish by themselves
//!            |
//!           msg
//! ```
//!
//! A front end adds types and names, and nothing else. What two of them need is here or below.
//! [`RankPort`] is the only port that anything above this crate knows.

mod communicator;
mod contexts;
mod create;
mod error;
pub mod persistent;
mod port;
mod rank;
mod rest;
mod tasks;
mod unmatched;
mod waiting;

pub use communicator::Communicator;
pub use create::CreationError;
pub use error::{Error, InitError};
pub use hikyaku_shm::{AttachError, JobError, Process, View};
pub use port::RankPort;
pub use rank::{Observer, Rank};
pub use rest::Rest;
pub use tasks::{Task, TaskId, Tasks};
pub use unmatched::{NotALimit, UnmatchedLimit};
pub use waiting::{LOOK_AGAIN, drive};
