//! The errors of a persistent exchange, with the rank at fault.

use hikyaku_nic::fabric::{QueueError, QueueFault};
use thiserror::Error;

/// Why a persistent exchange could not be made, started or completed.
///
/// Mistakes of the program: `NoSuchRank`, `Range`, `Overlap`, `Started`, `NotStarted`, `Length`,
/// `Resized`.
/// Mistakes that two ranks share: `Edges`, `Sizes`. Another rank's mistakes: `Elsewhere`, `Freed`.
/// A lack of resources is no error: the exchange then uses messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PersistentError {
    /// A neighbour is not a rank of the job.
    #[error("{what} {place} is rank {rank}, which does not exist: there are {size}")]
    NoSuchRank {
        /// The list: "source" or "destination".
        what: &'static str,
        /// The index in the list.
        place: usize,
        /// The requested rank.
        rank: u32,
        /// The number of ranks.
        size: u32,
    },
    /// The range lies outside the buffer.
    #[error(
        "{what} {place} has elements {start} to {end} (exclusive) of a buffer of {length} elements"
    )]
    Range {
        /// The list: "source" or "destination".
        what: &'static str,
        /// The index in the list.
        place: usize,
        /// The first element.
        start: usize,
        /// The element after the last.
        end: usize,
        /// The number of elements in the buffer.
        length: usize,
    },
    /// Two edges would write the same elements, or one would write elements that another sends.
    #[error("source {first} and {what} {second} share elements of one buffer")]
    Overlap {
        /// The index in the list of sources.
        first: usize,
        /// The list of the other edge: "source" or "destination".
        what: &'static str,
        /// Its index in that list.
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
        /// The source of the edges.
        source_rank: u32,
        /// The number of edges at the source.
        sent: u64,
        /// The destination of the edges.
        rank: u32,
        /// The number of edges at the destination.
        expected: u64,
    },
    /// The two ends of an edge disagree on its size.
    #[error(
        "rank {source_rank} sends {sent} bytes along edge {edge} to rank {rank}, which expects \
         {expected}: neighbours disagree about the size"
    )]
    Sizes {
        /// The sender.
        source_rank: u32,
        /// Bytes it sends.
        sent: u64,
        /// The index of the edge among those between the two.
        edge: usize,
        /// The receiver.
        rank: u32,
        /// Bytes it expects.
        expected: u64,
    },
    /// Another rank could not take part; its own error says why.
    #[error("rank {rank} could not set the exchange up: its own error says why")]
    Elsewhere {
        /// That rank.
        rank: u32,
    },
    /// It was started and not waited for: its buffers still belong to the exchange.
    #[error("the exchange is in flight: wait for it first")]
    Started,
    /// It was not started.
    #[error("the exchange was not started")]
    NotStarted,
    /// A buffer is shorter than when the exchange was made.
    #[error("a buffer of {given} elements was given, the exchange's edges need {needed}")]
    Length {
        /// The number of elements that it has.
        given: usize,
        /// The number of elements that it needs.
        needed: usize,
    },
    /// The length of a buffer has changed since the operation was made.
    #[error(
        "a buffer has {given} bytes, and had {needed} when the operation was made: make a new one"
    )]
    Resized {
        /// The bytes that it has.
        given: usize,
        /// The bytes that it must have.
        needed: usize,
    },
    /// A neighbour freed its end while data was in flight.
    #[error("rank {rank} freed its end of the exchange while it was in flight")]
    Freed {
        /// That rank.
        rank: u32,
    },
    /// A queue has stopped.
    #[error("command queue of rank {rank} stands still: {fault}")]
    Stopped {
        /// The owner of the queue.
        rank: u32,
        /// The reason.
        fault: QueueFault,
    },
    /// An earlier round failed, and with it the exchange.
    #[error("an earlier round of the exchange failed: make a new one")]
    Failed,
}
