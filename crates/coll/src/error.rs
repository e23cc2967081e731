//! The errors of collective operations, with the rank at fault.

use thiserror::Error;

use crate::group::Group;
use crate::signature::Signature;

/// The error of an operation of a group.
pub type Failure<G> = CollError<<G as Group>::Error>;

/// The error of a collective operation; `E` is the error of one message.
///
/// Mistakes of the program: `NoSuchRoot`, `Length`, `Uneven`, `Outside`, `NotInPlace`,
/// `Unsuitable`. A disagreement between ranks: `Differ`. A failure that another rank reported:
/// `Abandoned`.
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
        /// The requested root.
        root: u32,
        /// The number of ranks.
        size: u32,
    },
    /// The buffers of one call do not fit each other.
    #[error("{operation}: {what} has {given} where {needed} are needed")]
    Length {
        /// The operation.
        operation: &'static str,
        /// The argument, and its counted unit.
        what: &'static str,
        /// Its actual number.
        given: u64,
        /// The required number.
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
        /// The argument.
        what: &'static str,
        /// Its whole elements.
        elements: u64,
        /// The number of ranks.
        size: u32,
    },
    /// A layout reaches beyond its array.
    #[error(
        "{operation}: the layout for rank {peer} reaches to byte {end} of an array of {length}"
    )]
    Outside {
        /// The operation.
        operation: &'static str,
        /// The rank that the part belongs to.
        peer: u32,
        /// One past the last byte of the layout.
        end: u64,
        /// Bytes of the array.
        length: u64,
    },
    /// A rank other than the root has left out its part, as already in place.
    #[error("{operation}: rank {rank} is not the root {root}, so it must give a part of its own")]
    NotInPlace {
        /// The operation.
        operation: &'static str,
        /// The rank.
        rank: u32,
        /// The root.
        root: u32,
    },
    /// Ranks made different calls.
    #[error(
        "rank {} called {} where rank {} called {}: all ranks call the same operations in the same \
         order, with arguments that fit", .one.rank, .one.call, .other.rank, .other.call
    )]
    Differ {
        /// A rank and its call.
        one: Caller,
        /// Another rank, with a different call.
        other: Caller,
    },
    /// Another rank could not or would not do its part.
    #[error("{operation}: rank {peer} abandoned it: {cause}")]
    Abandoned {
        /// The operation.
        operation: &'static str,
        /// The rank that abandoned it.
        peer: u32,
        /// The reason.
        cause: Cause,
    },
    /// The algorithm that the caller named cannot do this.
    #[error("{operation} by {algorithm} {reason}: choose another algorithm or none")]
    Unsuitable {
        /// The operation.
        operation: &'static str,
        /// The algorithm.
        algorithm: &'static str,
        /// The missing requirement.
        reason: &'static str,
    },
    /// A message failed.
    #[error(transparent)]
    Message(#[from] E),
}

/// A rank and its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// The rank.
    pub rank: u32,
    /// Its call.
    pub call: Signature,
}

/// The reason that a rank reports to the others when it abandons an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Cause {
    /// Its own call was wrong, or it had an error of another kind.
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
    /// Its messages are not from this call. In contrast to [`Cause::Differ`] its call is not known:
    /// it has not answered, and tags and letters have no room for a call's arguments.
    #[error("it called another collective, or with another root, reduction or type")]
    OtherCall,
    /// Ranks made different calls.
    #[error(
        "rank {} called {} where rank {} called {}", .one.rank, .one.call, .other.rank, .other.call
    )]
    Differ {
        /// A rank and its call.
        one: Caller,
        /// Another rank, with a different call.
        other: Caller,
    },
}

impl Cause {
    /// The maximum length of [`Cause::to_bytes`].
    pub const MOST_BYTES: usize = 32;

    /// The encoding for other ranks: kind and rank, then a rank and a word for each of two calls.
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

    /// Decodes what another rank sent; `None` if it is malformed.
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
