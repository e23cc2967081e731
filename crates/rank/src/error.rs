//! What can go wrong, and whose fault it is.

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

/// Why a call did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// A message went wrong: [`MsgError`] says whose fault that is.
    #[error(transparent)]
    Message(#[from] MsgError),
    /// A collective operation went wrong otherwise: ranks disagree, one of them abandoned it, or an
    /// argument is not what it must be.
    #[error(transparent)]
    Collective(CollError<MsgError>),
    /// A communicator could not be made.
    #[error(transparent)]
    Creation(#[from] CreationError),
    /// There is no memory in this rank's region.
    #[error(transparent)]
    Memory(#[from] RegionError),
    /// The fabric refused a command.
    #[error(transparent)]
    Remote(#[from] PostError),
    /// This rank has no room for another window.
    #[error(transparent)]
    Context(#[from] ContextError),
    /// A window could not be made, or an access to it is wrong.
    #[error(transparent)]
    Window(#[from] WindowError),
    /// More bytes were asked for than can be counted.
    #[error("{elements} elements of {element} bytes are more than this machine can address")]
    TooLarge {
        /// How many elements.
        elements: usize,
        /// Size of one, bytes.
        element: usize,
    },
    /// A source cannot land where it was to.
    #[error(transparent)]
    Landing(#[from] LandingError),
    /// A persistent exchange could not be made, started or completed.
    #[error(transparent)]
    Persistent(#[from] PersistentError),
    /// A topology cannot be made or asked.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// The ends of an edge disagree about how much goes along it. Told by the end that receives;
    /// the data is gone.
    #[error(
        "rank {source_rank} sent {sent} bytes along edge {edge} to rank {rank}, which expects \
         {expected}: neighbours disagree about the size"
    )]
    UnequalEdge {
        /// Place of the edge among the sources of the rank that receives.
        edge: usize,
        /// Who sent, as a rank of the topology.
        source_rank: u32,
        /// Bytes it sent.
        sent: u64,
        /// This rank, as a rank of the topology.
        rank: u32,
        /// Bytes it expects.
        expected: u64,
    },
}

/// Why a window could not be made, or not be accessed so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WindowError {
    /// Another rank could not make its part of a window; its own error says why.
    #[error("rank {rank} could not make its part of the window: there is none at any rank")]
    Refused {
        /// The rank.
        rank: u32,
    },
    /// A rank has given its part of the window back, and is still there.
    #[error("rank {rank} has closed its part of the window: a barrier before that keeps it")]
    Closed {
        /// The rank.
        rank: u32,
    },
    /// The memory of a protected window did not get from one rank to another.
    #[error("the window's memory cannot be shared with rank {rank}: {reason}")]
    NotHanded {
        /// The other rank.
        rank: u32,
        /// Why.
        reason: HandError,
    },
    /// Elements that a rank's part of a window does not have.
    #[error(
        "elements {index}..{} are not within the {elements} elements of rank {rank}'s part of the \
         window",
        .index.saturating_add(*.count)
    )]
    Outside {
        /// Whose part.
        rank: u32,
        /// The first element asked for.
        index: usize,
        /// How many.
        count: usize,
        /// Elements of that part.
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
