//! What can go wrong with a persistent exchange, and whose fault it is.

use hikyaku_nic::fabric::{QueueError, QueueFault};
use thiserror::Error;

/// Why a persistent exchange could not be made, started or completed.
///
/// The program's own mistakes: `NoSuchRank`, `Range`, `Overlap`, `Started`, `NotStarted`, `Length`,
/// `Resized`.
/// Mistakes that two ranks share: `Edges`, `Sizes`. Another rank's: `Elsewhere`, `Freed`. Want of
/// resources is no error: then an exchange goes by messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PersistentError {
    /// A neighbour is not a rank of the job.
    #[error("{what} {place} is rank {rank}, which does not exist: there are {size}")]
    NoSuchRank {
        /// Which list: "source" or "destination".
        what: &'static str,
        /// Place in the list.
        place: usize,
        /// The rank asked for.
        rank: u32,
        /// How many there are.
        size: u32,
    },
    /// Elements that the buffer does not have.
    #[error(
        "{what} {place} has elements {start} to {end} (exclusive) of a buffer of {length} elements"
    )]
    Range {
        /// Which list: "source" or "destination".
        what: &'static str,
        /// Place in the list.
        place: usize,
        /// The first element.
        start: usize,
        /// The element after the last.
        end: usize,
        /// Elements of the buffer.
        length: usize,
    },
    /// Two edges would write the same elements, or one would write what another sends.
    #[error("source {first} and {what} {second} share elements of one buffer")]
    Overlap {
        /// Place in the list of sources.
        first: usize,
        /// The list of the other: "source" or "destination".
        what: &'static str,
        /// Its place in that list.
        second: usize,
    },
    /// A command queue could not be used.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// The two ends of edges disagree on how many there are.
    #[error(
        "rank {source_rank} has {sent} edges to rank {rank}, which has {expected} edges from it: \
         the topology's ends disagree"
    )]
    Edges {
        /// Where the edges begin.
        source_rank: u32,
        /// How many begin there.
        sent: u64,
        /// Where they end.
        rank: u32,
        /// How many end there.
        expected: u64,
    },
    /// The two ends of an edge disagree on its size.
    #[error(
        "rank {source_rank} sends {sent} bytes along edge {edge} to rank {rank}, which expects \
         {expected}: neighbours disagree about the size"
    )]
    Sizes {
        /// Who sends.
        source_rank: u32,
        /// Bytes it sends.
        sent: u64,
        /// Place of the edge among those between the two.
        edge: usize,
        /// Who receives.
        rank: u32,
        /// Bytes it expects.
        expected: u64,
    },
    /// Another rank could not take part; its own error says why.
    #[error("rank {rank} could not set the exchange up: its own error says why")]
    Elsewhere {
        /// Which.
        rank: u32,
    },
    /// It was started and has not been waited for: its buffers are not the program's.
    #[error("the exchange is in flight: wait for it first")]
    Started,
    /// It was not started.
    #[error("the exchange was not started")]
    NotStarted,
    /// A buffer is shorter than when the exchange was made.
    #[error("a buffer of {given} elements was given, the exchange's edges need {needed}")]
    Length {
        /// Elements it has.
        given: usize,
        /// Elements it must have.
        needed: usize,
    },
    /// A buffer has another length than when the operation was made.
    #[error(
        "a buffer has {given} bytes, and had {needed} when the operation was made: make a new one"
    )]
    Resized {
        /// Bytes it has.
        given: usize,
        /// Bytes it must have.
        needed: usize,
    },
    /// A neighbour freed its end while data was under way.
    #[error("rank {rank} freed its end of the exchange while it was in flight")]
    Freed {
        /// Which.
        rank: u32,
    },
    /// A queue stands still.
    #[error("command queue of rank {rank} stands still: {fault}")]
    Stopped {
        /// Whose queue.
        rank: u32,
        /// Why.
        fault: QueueFault,
    },
    /// An earlier round failed, and with it the exchange.
    #[error("an earlier round of the exchange failed: make a new one")]
    Failed,
}
