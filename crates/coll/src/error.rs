//! What can go wrong with a collective operation, and whose fault it is.

use thiserror::Error;

use crate::group::Group;
use crate::signature::Signature;

/// The error of an operation of a group.
pub type Failure<G> = CollError<<G as Group>::Error>;

/// Why a collective operation did not do what was asked; `E` is the error of one message.
///
/// The program's own mistakes: `NoSuchRoot`, `Length`, `Uneven`, `NotInPlace`, `Unsuitable`. A
/// disagreement between ranks: `Differ`. Something that another rank met and told: `Abandoned`.
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
    /// Ranks did not call the same.
    #[error(
        "rank {} called {} where rank {} called {}: all ranks call the same operations in the same \
         order, with arguments that fit", .one.rank, .one.call, .other.rank, .other.call
    )]
    Differ {
        /// A rank and what it called.
        one: Caller,
        /// Another one, which called something else.
        other: Caller,
    },
    /// Another rank could not or would not do its part.
    #[error("{operation}: rank {peer} abandoned it: {cause}")]
    Abandoned {
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

/// A rank and its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// The rank.
    pub rank: u32,
    /// What it called.
    pub call: Signature,
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
    /// Its messages are not of this call.
    #[error("it called another collective, or with another root, reduction or type")]
    OtherCall,
    /// Ranks did not call the same.
    #[error(
        "rank {} called {} where rank {} called {}", .one.rank, .one.call, .other.rank, .other.call
    )]
    Differ {
        /// A rank and what it called.
        one: Caller,
        /// Another one, which called something else.
        other: Caller,
    },
}

impl Cause {
    /// Most bytes of [`Cause::to_bytes`].
    pub const MOST_BYTES: usize = 32;

    /// What other ranks are told: kind and rank, then a rank and a word for each of two calls.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (kind, rank, callers) = match *self {
            Cause::Failed => (0, 0, None),
            Cause::Dropped => (1, 0, None),
            Cause::Gone { rank } => (2, rank, None),
            Cause::Differ { one, other } => (3, 0, Some([one, other])),
            Cause::OtherCall => (4, 0, None),
        };
        let mut bytes = [u32::to_le_bytes(kind), u32::to_le_bytes(rank)].concat();
        for Caller { rank, call } in callers.into_iter().flatten() {
            bytes.extend(rank.to_le_bytes());
            bytes.extend(call.word(0).to_le_bytes());
        }
        bytes
    }

    /// What another rank has told; `None` if that is nonsense.
    pub fn from_bytes(bytes: &[u8]) -> Option<Cause> {
        let half = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let caller = |at: usize| {
            let word = bytes.get(at + 4..at + 12)?.try_into().ok()?;
            Some(Caller { rank: half(at)?, call: Signature::of_word(u64::from_le_bytes(word))? })
        };
        Some(match half(0)? {
            0 => Cause::Failed,
            1 => Cause::Dropped,
            2 => Cause::Gone { rank: half(4)? },
            3 => Cause::Differ { one: caller(8)?, other: caller(20)? },
            4 => Cause::OtherCall,
            _ => return None,
        })
    }
}
