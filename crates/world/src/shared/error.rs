//! What can go wrong with shared variables, and whose fault it is.

use hikyaku_dsm::{Mark, PartsError};
use thiserror::Error;

use super::protocol::Protocol;

/// Why a shared variable could not be made, found or acquired.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SharedError {
    /// Ranks ask for different variables.
    #[error(
        "rank {rank} made the shared variable with the {what} {theirs} where rank 0 made it with \
         {ours}: every rank makes the same variables in the same order"
    )]
    Mismatch {
        /// Whose call differs from rank 0's.
        rank: u32,
        /// In what.
        what: &'static str,
        /// What that rank said.
        theirs: String,
        /// What rank 0 said.
        ours: String,
    },
    /// The job runs in virtual time, and the protocol does not.
    #[error(
        "the shared variable `{name}` is by `udp`, whose datagrams take no virtual time: choose \
         `direct` or `fagus`, or run the program with hikyaku run (hikyaku reproduce 001 simulates \
         udp)"
    )]
    VirtualTime {
        /// The variable.
        name: String,
    },
    /// There is one of that name.
    #[error("there is a shared variable `{name}` already: drop it first, or find it by its name")]
    Exists {
        /// The name.
        name: String,
    },
    /// There is none of that name.
    #[error("there is no shared variable `{name}`: there is {known}")]
    Unknown {
        /// The name.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// It has other elements than it is asked for with.
    #[error("the shared variable `{name}` has elements of {element}, not of {wanted}")]
    WrongElement {
        /// The variable.
        name: String,
        /// What it has.
        element: String,
        /// What was asked for.
        wanted: String,
    },
    /// Its shape and parts cannot be.
    #[error("the shared variable `{name}` cannot be: {error}")]
    Parts {
        /// The variable.
        name: String,
        /// Why.
        error: PartsError,
    },
    /// The control region has no room.
    #[error(
        "the shared variable `{name}` needs {wanted} sync variables, of which {free} are free: the \
         control region holds {most}"
    )]
    TooMany {
        /// The variable.
        name: String,
        /// Sync variables it needs, one a part.
        wanted: u64,
        /// Sync variables left.
        free: u64,
        /// All there are.
        most: u64,
    },
    /// There are more ranks than a protocol can name.
    #[error("shared variables by `{protocol}` are for at most {most} ranks: this job has {ranks}")]
    TooManyRanks {
        /// The protocol.
        protocol: Protocol,
        /// Ranks of the job.
        ranks: u32,
        /// Most ranks.
        most: u32,
    },
    /// There is no socket for it.
    #[error("the shared variable `{name}` needs a UDP socket on 127.0.0.1: {error}")]
    Socket {
        /// The variable.
        name: String,
        /// What the system says.
        error: String,
    },
    /// Another rank could not make its part; its own error says why.
    #[error("rank {rank} could not make its part of the shared variable `{name}`")]
    Refused {
        /// The variable.
        name: String,
        /// The rank.
        rank: u32,
    },
    /// Another rank could not hear of all parts of it: then no rank has it.
    #[error(
        "rank {rank} gave up making the shared variable `{name}`, so that no rank has it: its own \
         error says why"
    )]
    GivenUp {
        /// The variable.
        name: String,
        /// The rank.
        rank: u32,
    },
    /// This rank has it.
    #[error("{variable} is held by this rank already: let it go before it is acquired again")]
    Recursive {
        /// The variable, and the part.
        variable: String,
    },
    /// It has not so many parts.
    #[error("the shared variable `{name}` has parts 0 to {}, not {part}", .parts - 1)]
    NoSuchPart {
        /// The variable.
        name: String,
        /// The part asked for.
        part: u64,
        /// How many there are.
        parts: u64,
    },
    /// A rank died with it.
    #[error("{variable} is lost: rank {victim} {how}")]
    Lost {
        /// The variable, and the part.
        variable: String,
        /// Who died.
        victim: u32,
        /// With what of it.
        how: &'static str,
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
