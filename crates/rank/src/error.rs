//! Errors, with the rank at fault.

use hikyaku_coll::CollError;
use hikyaku_coll::topology::TopologyError;
use hikyaku_msg::MsgError;
use hikyaku_nic::fabric::{ContextError, PostError};
use hikyaku_nic::region::RegionError;
use hikyaku_shm::HandError;
use thiserror::Error;

use crate::create::CreationError;
use crate::landing::LandingError;
use crate::persistent::PersistentError;

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// A message failed: [`MsgError`] has the rank at fault.
    #[error(transparent)]
    Message(#[from] MsgError),
    /// A collective operation failed for another reason: ranks disagree, one of them abandoned it,
    /// or an argument is invalid.
    #[error(transparent)]
    Collective(CollError<MsgError>),
    /// A communicator could not be made.
    #[error(transparent)]
    Creation(#[from] CreationError),
    /// This rank's region has not enough memory.
    #[error(transparent)]
    Memory(#[from] RegionError),
    /// The fabric refused a command.
    #[error(transparent)]
    Remote(#[from] PostError),
    /// This rank has no room for another window.
    #[error(transparent)]
    Context(#[from] ContextError),
    /// A window could not be made, or an access to it is invalid.
    #[error(transparent)]
    Window(#[from] WindowError),
    /// The size exceeds the address space.
    #[error("{elements} elements of {element} bytes are more than this machine can address")]
    TooLarge {
        /// The number of elements.
        elements: usize,
        /// The size of an element, in bytes.
        element: usize,
    },
    /// A source's ring cannot be placed as requested.
    #[error(transparent)]
    Landing(#[from] LandingError),
    /// A persistent exchange could not be made, started or completed.
    #[error(transparent)]
    Persistent(#[from] PersistentError),
    /// A topology cannot be made or queried.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// The ends of an edge disagree about its size. Reported by the receiving end; the data is
    /// lost.
    #[error(
        "rank {source_rank} sent {sent} bytes along edge {edge} to rank {rank}, which expects \
         {expected}: neighbours disagree about the size"
    )]
    UnequalEdge {
        /// The index of the edge among the receiver's sources.
        edge: usize,
        /// The sender, as a rank of the topology.
        source_rank: u32,
        /// Bytes it sent.
        sent: u64,
        /// This rank, as a rank of the topology.
        rank: u32,
        /// Bytes it expects.
        expected: u64,
    },
}

/// Why a window could not be made or accessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WindowError {
    /// Another rank could not make its part of a window; its own error says why.
    #[error("rank {rank} could not make its part of the window: there is none at any rank")]
    Refused {
        /// The rank.
        rank: u32,
    },
    /// A rank has freed its part of the window, and is still alive.
    #[error("rank {rank} has closed its part of the window: a barrier before that keeps it")]
    Closed {
        /// The rank.
        rank: u32,
    },
    /// The memory of a protected window could not be passed from one rank to another.
    #[error("the window's memory cannot be shared with rank {rank}: {reason}")]
    NotHanded {
        /// The other rank.
        rank: u32,
        /// The reason.
        reason: HandError,
    },
    /// The range lies outside a rank's part of a window.
    #[error(
        "elements {index}..{} are not within the {elements} elements of rank {rank}'s part of the \
         window",
        .index.saturating_add(*.count)
    )]
    Outside {
        /// The owner of the part.
        rank: u32,
        /// The first requested element.
        index: usize,
        /// The number of requested elements.
        count: usize,
        /// The number of elements in that part.
        elements: u64,
    },
}

impl From<CollError<MsgError>> for Error {
    fn from(error: CollError<MsgError>) -> Error {
        match error {
            CollError::Message(error) => Error::Message(error),
            other => Error::Collective(other),
        }
    }
}
