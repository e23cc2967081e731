//! One rank of a job, in bytes: the base of every front end.
//!
//! ```text
//!   world (Rust), mpi              types, scopes, guards, names
//!            |     \
//!            |     dsm             shared variables
//!            |     /
//!          rank                    Communicator: ranks, contexts, the collectives' book
//!            |                     Rank: the engine, operations in flight, waiting
//!          coll                    Intercommunicator: two groups that exchange messages
//!            |                     Window: memory that all ranks access
//!            |                     persistent: exchanges that complete by themselves
//!           msg                    init: settings from the environment
//! ```
//!
//! A front end adds types and names, and nothing else. Code that two of them need is here or below.
//! [`RankPort`] is the only port that code above this crate uses.

mod communicator;
mod contexts;
mod copies;
mod create;
mod error;
mod far;
mod frequent;
mod init;
mod intercommunicator;
mod landing;
mod launchers;
mod near;
pub mod persistent;
mod port;
mod protected;
mod rank;
mod share;
mod spare;
mod tasks;
mod threads;
pub mod topology;
mod waiting;
mod window;

pub use communicator::{Communicator, EndReason};
pub use create::CreationError;
pub use error::{Error, WindowError};
pub use far::FarMemory;

pub use frequent::RingMoves;
pub use hikyaku_ofi::Error as FarError;
pub use hikyaku_shm::{
    AttachError, ForkedProcess, HandError, JobError, SharedHeap, View, own_host_name,
};
pub use init::{Foreign, InitError, NotALimit, NotASeed, UnmatchedLimit, from_environment};
pub use intercommunicator::{Bridge, GroupExchange, GroupTurn, Intercommunicator};
pub use landing::LandingError;
pub use launchers::LauncherError;
pub use port::RankPort;
pub use protected::Access;
pub use rank::{Observer, Rank};
pub use share::{MOST_WORDS, heard_own};
pub use spare::{NotASwitch, ProgressThread, SpareThread};
pub use tasks::{Task, TaskId, Tasks};
pub use threads::{Gate, Inside};
pub use waiting::{PollingRest, WorkEnd};
pub use window::ByteWindow;
