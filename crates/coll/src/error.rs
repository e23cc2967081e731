//! What can go wrong with a collective operation, and whose fault it is.

use thiserror::Error;

use crate::group::Group;

/// The error of an operation of a group.
pub type Failure<G> = CollError<<G as Group>::Error>;

/// Why a collective operation did not do what was asked; `E` is the error of one message.
///
/// The program's own mistakes: `NoSuchRoot`, `Length`, `Uneven`, `NotInPlace`, `Unsuitable`. A
/// disagreement between ranks: `Mismatch`, `OtherCall`. Something that another rank met and told:
/// `GaveUp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CollError<E> {
    /// The root is not a rank of the group.
    #[error(
        "{operation}: rank {root} cannot be the root: there are ranks 0 to {}",
        .size.saturating_sub(1)
    )]
    NoSuchRoot {
        /// The operation.
        operation: &'static str,
        /// The root asked for.
        root: u32,
        /// How many ranks there are.
        size: u32,
    },
    /// The buffers given to one call do not fit each other.
    #[error("{operation}: {what} has {given} where {needed} are needed")]
    Length {
        /// The operation.
        operation: &'static str,
        /// Which argument, and what of it is counted.
        what: &'static str,
        /// How many it has.
        given: u64,
        /// How many it must have.
        needed: u64,
    },
    /// An array cannot be divided evenly among the ranks.
    #[error(
        "{operation}: {what} has {elements} elements, which cannot be divided evenly among {size} \
         ranks"
    )]
    Uneven {
        /// The operation.
        operation: &'static str,
        /// Which argument.
        what: &'static str,
        /// Its whole elements.
        elements: u64,
        /// How many ranks there are.
        size: u32,
    },
    /// A layout reaches beyond its array.
    #[error(
        "{operation}: the layout for rank {peer} reaches to byte {end} of an array of {length}"
    )]
    Outside {
        /// The operation.
        operation: &'static str,
        /// Whose part it is.
        peer: u32,
        /// One past the last byte of the layout.
        end: u64,
        /// Bytes of the array.
        length: u64,
    },
    /// A rank other than the root said that its part is in its place already.
    #[error("{operation}: rank {rank} is not the root {root}, so it must give a part of its own")]
    NotInPlace {
        /// The operation.
        operation: &'static str,
        /// The rank.
        rank: u32,
        /// The root.
        root: u32,
    },
    /// Ranks gave counts that do not fit each other.
    #[error(
        "{operation}: rank {peer} sent {sent} bytes where rank {rank} expects {expected}: the \
         counts given by the two do not fit"
    )]
    Mismatch {
        /// The operation.
        operation: &'static str,
        /// Who sent.
        peer: u32,
        /// This rank.
        rank: u32,
        /// Bytes that came.
        sent: u64,
        /// Bytes that had to come.
        expected: u64,
    },
    /// A rank called something else, or the same with another size so that another algorithm was
    /// chosen.
    #[error(
        "{operation} by {algorithm}: rank {peer} is in {other}: all ranks must call the same \
         operations in the same order with counts that fit"
    )]
    OtherCall {
        /// The operation.
        operation: &'static str,
        /// The algorithm it runs by.
        algorithm: &'static str,
        /// The other rank.
        peer: u32,
        /// Its operation and algorithm.
        other: OtherCall,
    },
    /// Another rank could not or would not do its part.
    #[error("{operation}: rank {peer} gave up: {cause}")]
    GaveUp {
        /// The operation.
        operation: &'static str,
        /// The rank.
        peer: u32,
        /// Why.
        cause: Cause,
    },
    /// The algorithm that was asked for by name cannot do this.
    #[error("{operation} by {algorithm} {reason}: choose another algorithm or none")]
    Unsuitable {
        /// The operation.
        operation: &'static str,
        /// The algorithm.
        algorithm: &'static str,
        /// What it lacks.
        reason: &'static str,
    },
    /// A message went wrong.
    #[error(transparent)]
    Message(#[from] E),
}

/// The name of an operation and algorithm of another rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{operation} by {algorithm}")]
pub struct OtherCall {
    /// The operation.
    pub operation: &'static str,
    /// The algorithm.
    pub algorithm: &'static str,
}

/// What a rank that gives an operation up tells the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Cause {
    /// Its call was wrong in itself, or an error that has no other name.
    #[error("its own call failed there")]
    Failed,
    /// It dropped the operation before it was complete.
    #[error("it dropped the operation before it was complete")]
    Dropped,
    /// A rank that it needs is gone.
    #[error("rank {rank} is gone")]
    Gone {
        /// The rank.
        rank: u32,
    },
    /// It got a message of the wrong length.
    #[error("rank {peer} sent it {sent} bytes where it expects {expected}")]
    Mismatch {
        /// Who sent.
        peer: u32,
        /// Bytes that came.
        sent: u64,
        /// Bytes that had to come.
        expected: u64,
    },
    /// It found a rank in another operation.
    #[error("rank {peer} is in another operation or algorithm")]
    OtherCall {
        /// The rank.
        peer: u32,
    },
}
