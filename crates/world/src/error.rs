//! The errors of this crate, and whose fault they are.

use std::fmt;

use hikyaku_coll::CollError;
use hikyaku_coll::topology::TopologyError;
use hikyaku_dsm::driver::SharedError;
use hikyaku_msg::{LayoutError, MsgError};
use hikyaku_nic::fabric::{ContextError, PostError};
use hikyaku_nic::region::RegionError;
use hikyaku_rank::CreationError;
use hikyaku_rank::persistent::PersistentError;
pub use hikyaku_rank::{InitError, LandingError, WindowError};
use thiserror::Error;

/// Why a call of [`crate::World`] failed. `Debug` prints the same line as `Display`, since
/// Rust prints that for an error that `main` returns.
#[derive(Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// A message failed: [`MsgError`] says whose fault that is.
    #[error(transparent)]
    Message(#[from] MsgError),
    /// A collective operation failed for another reason: ranks disagree, one of them abandoned it,
    /// or an argument is invalid.
    #[error(transparent)]
    Collective(CollError<MsgError>),
    /// A communicator of some ranks could not be made.
    #[error(transparent)]
    Creation(#[from] CreationError),
    /// There is no memory for a shared buffer.
    #[error(transparent)]
    Memory(#[from] RegionError),
    /// An access to another rank's part of a window was refused.
    #[error(transparent)]
    Remote(#[from] PostError),
    /// This rank has no room for another window.
    #[error(transparent)]
    Context(#[from] ContextError),
    /// A window could not be made, or an access to it is wrong.
    #[error(transparent)]
    Window(#[from] WindowError),
    /// The messages of a rank cannot land in the requested ring.
    #[error(transparent)]
    Landing(#[from] LandingError),
    /// A message is not a whole number of elements of the receive's type.
    #[error(
        "the message of {bytes} bytes from rank {source_rank} is not a whole number of elements \
         of {element} bytes: sender and receiver disagree on the type"
    )]
    PartialElement {
        /// Length of the message, bytes.
        bytes: u64,
        /// Size of an element, bytes.
        element: usize,
        /// The sender.
        source_rank: u32,
    },
    /// Ranks gave one collective operation buffers of different lengths.
    #[error(
        "rank {rank} gave {given} bytes to the gather where rank {root} expects {expected}: use \
         gatherv for blocks of different lengths"
    )]
    UnequalBlocks {
        /// The rank whose block differs.
        rank: u32,
        /// Bytes it gave.
        given: u64,
        /// The root.
        root: u32,
        /// Bytes of the root's own block.
        expected: u64,
    },
    /// A persistent operation was started, or its buffers asked for, while it is in flight.
    #[error("the persistent {operation} is in flight: wait for it first")]
    InFlight {
        /// The operation.
        operation: &'static str,
    },
    /// A topology cannot be made or queried.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// A persistent exchange could not be made, started or completed.
    #[error(transparent)]
    Persistent(#[from] PersistentError),
    /// A shared variable could not be made, found or acquired.
    #[error(transparent)]
    Shared(#[from] SharedError),
    /// A layout does not fit its buffer.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The ends of an edge disagree about the amount of data on it. Reported by the receiving end;
    /// the data is lost.
    #[error(
        "rank {source_rank} sent {sent} bytes along edge {edge} to rank {rank}, which expects \
         {expected}: neighbours disagree about the size"
    )]
    UnequalEdge {
        /// Place of the edge among the sources of the rank that receives.
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
    /// The number of blocks is not the number of edges.
    #[error("{given} blocks were given for {edges} {what}")]
    WrongBlocks {
        /// The edges: sources or destinations.
        what: &'static str,
        /// Blocks given.
        given: usize,
        /// Edges there are.
        edges: usize,
    },
    /// A buffer cannot be divided evenly among edges.
    #[error("a buffer of {elements} elements cannot be divided evenly among {edges} {what}")]
    UnevenBlocks {
        /// The edges: sources or destinations.
        what: &'static str,
        /// Elements of the buffer.
        elements: usize,
        /// Edges there are.
        edges: usize,
    },
    /// More bytes were asked for than can be counted.
    #[error("{elements} elements of {element} bytes are more than this machine can address")]
    TooLarge {
        /// How many elements.
        elements: usize,
        /// Size of one, bytes.
        element: usize,
    },
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<CollError<MsgError>> for Error {
    fn from(error: CollError<MsgError>) -> Error {
        match error {
            CollError::Message(error) => Error::Message(error),
            other => Error::Collective(other),
        }
    }
}

impl From<hikyaku_rank::Error> for Error {
    fn from(error: hikyaku_rank::Error) -> Error {
        match error {
            hikyaku_rank::Error::Message(error) => Error::Message(error),
            hikyaku_rank::Error::Collective(error) => Error::Collective(error),
            hikyaku_rank::Error::Creation(error) => Error::Creation(error),
            hikyaku_rank::Error::Memory(error) => Error::Memory(error),
            hikyaku_rank::Error::Remote(error) => Error::Remote(error),
            hikyaku_rank::Error::Context(error) => Error::Context(error),
            hikyaku_rank::Error::Window(error) => Error::Window(error),
            hikyaku_rank::Error::Landing(error) => Error::Landing(error),
            hikyaku_rank::Error::TooLarge { elements, element } => {
                Error::TooLarge { elements, element }
            }
            hikyaku_rank::Error::Persistent(error) => Error::Persistent(error),
            hikyaku_rank::Error::Topology(error) => Error::Topology(error),
            hikyaku_rank::Error::UnequalEdge { edge, source_rank, sent, rank, expected } => {
                Error::UnequalEdge { edge, source_rank, sent, rank, expected }
            }
        }
    }
}

impl From<hikyaku_dsm::driver::Error> for Error {
    #[cold]
    fn from(error: hikyaku_dsm::driver::Error) -> Error {
        match error {
            hikyaku_dsm::driver::Error::Rank(error) => error.into(),
            hikyaku_dsm::driver::Error::Shared(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::{NotASeed, Protocol, UnknownProtocol};

    #[test]
    fn what_is_wrong_with_the_environment_names_the_variable() {
        let of = |error: InitError| error.to_string();
        let given = || "tcp".to_owned();
        assert_eq!(
            of(InitError::of(Protocol::VARIABLE)(UnknownProtocol { given: given() })),
            "HIKYAKU_SHARED: `tcp` is no protocol of shared variables: there are direct, fagus \
             and udp"
        );
        let faults = InitError::of(NotASeed::VARIABLE)(NotASeed { given: given() });
        assert_eq!(
            of(faults),
            "HIKYAKU_SHARED_FAULTS: `tcp` is no seed: give a whole number, by which faults are \
             drawn"
        );
    }
}
