//! The errors of shared variables, and their causes.

use crate::{Mark, PartsError};
use thiserror::Error;

use super::options::Protocol;

/// The reasons why a call on shared variables failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// A message, a collective operation, memory or a command failed.
    #[error(transparent)]
    Rank(hikyaku_rank::Error),
    /// A shared variable could not be made, found or acquired.
    #[error(transparent)]
    Shared(#[from] SharedError),
}

impl<E> From<E> for Error
where
    hikyaku_rank::Error: From<E>,
{
    fn from(error: E) -> Error {
        Error::Rank(error.into())
    }
}

/// Why a shared variable could not be made, found or acquired.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SharedError {
    /// Ranks make different variables.
    #[error(
        "rank {rank} made the shared variable with the {what} {theirs} where rank 0 made it with \
         {ours}: every rank makes the same variables in the same order"
    )]
    Mismatch {
        /// The rank whose call differs from rank 0's.
        rank: u32,
        /// The argument that differs.
        what: &'static str,
        /// That rank's value.
        theirs: String,
        /// Rank 0's value.
        ours: String,
    },
    /// The communicator does not have all ranks of the job.
    #[error(
        "the shared variable `{name}` cannot be of some ranks only: make it with a communicator of \
         all ranks of the job"
    )]
    SomeRanks {
        /// The variable.
        name: String,
    },
    /// A variable of that name exists.
    #[error("there is a shared variable `{name}` already: drop it first, or find it by its name")]
    Exists {
        /// The name.
        name: String,
    },
    /// No variable of that name exists.
    #[error("there is no shared variable `{name}`: there is {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The existing variables.
        known: String,
    },
    /// The variable's elements are of another type.
    #[error("the shared variable `{name}` has elements of {element}, not of {wanted}")]
    WrongElement {
        /// The variable.
        name: String,
        /// Its element type.
        element: String,
        /// The requested type.
        wanted: String,
    },
    /// The variable's shape or its division into parts is invalid.
    #[error("the shared variable `{name}` cannot be: {error}")]
    Parts {
        /// The variable.
        name: String,
        /// The reason.
        error: PartsError,
    },
    /// The control region is full.
    #[error(
        "the shared variable `{name}` needs {wanted} sync variables, of which {free} are free: the \
         control region holds {most}"
    )]
    TooMany {
        /// The variable.
        name: String,
        /// The number of sync variables that it needs, one for each part.
        wanted: u64,
        /// The number of free sync variables.
        free: u64,
        /// The total number of sync variables.
        most: u64,
    },
    /// Another interface of this process has shared variables and serves them.
    #[error(
        "the shared variable `{name}` cannot be made: shared variables of this process belong to \
         another interface, hikyaku.h or Python: use one of both"
    )]
    OtherInterface {
        /// The variable.
        name: String,
    },
    /// There are more ranks than a protocol can name.
    #[error("shared variables by `{protocol}` are for at most {most} ranks: this job has {ranks}")]
    TooManyRanks {
        /// The protocol.
        protocol: Protocol,
        /// Ranks of the job.
        ranks: u32,
        /// The maximum number of ranks.
        most: u32,
    },
    /// The socket cannot be opened.
    #[error("the shared variable `{name}` needs a UDP socket on 127.0.0.1: {error}")]
    Socket {
        /// The variable.
        name: String,
        /// The system's error.
        error: String,
    },
    /// Another rank could not make its part; its own error gives the reason.
    #[error("rank {rank} could not make its part of the shared variable `{name}`")]
    Refused {
        /// The variable.
        name: String,
        /// The rank.
        rank: u32,
    },
    /// Another rank did not learn of all parts of the variable, so no rank makes it.
    #[error(
        "rank {rank} abandoned the shared variable `{name}`, so that no rank has it: its own \
         error says why"
    )]
    Abandoned {
        /// The variable.
        name: String,
        /// The rank.
        rank: u32,
    },
    /// This rank already holds the variable.
    #[error("{variable} is held by this rank already: let it go before it is acquired again")]
    Recursive {
        /// The variable, and the part.
        variable: String,
    },
    /// The variable has no such part.
    #[error("the shared variable `{name}` has parts 0 to {}, not {part}", .parts - 1)]
    NoSuchPart {
        /// The variable.
        name: String,
        /// The requested part.
        part: u64,
        /// The number of parts.
        parts: u64,
    },
    /// A rank died while it held the variable.
    #[error("{variable} is lost: rank {victim} {how}")]
    Lost {
        /// The variable, and the part.
        variable: String,
        /// The rank that died.
        victim: u32,
        /// A description of the loss.
        how: &'static str,
    },
    /// The variable's words hold values that no rank writes.
    #[error(
        "{variable} is lost: a process has overwritten its words in the job's shared memory, \
         perhaps through a stray pointer"
    )]
    Overwritten {
        /// The variable, and the part.
        variable: String,
    },
}

impl SharedError {
    pub(super) fn lost(variable: String, mark: Mark) -> SharedError {
        let how = match mark.stale {
            true => "died with the only copy of its newest contents",
            false => "died while it may have been writing it",
        };
        SharedError::Lost { variable, victim: mark.victim, how }
    }
}
