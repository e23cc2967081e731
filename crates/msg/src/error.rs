//! Errors of messages, grouped by whose fault they are.

use hikyaku_nic::fabric::{GroupError, Name, PeerFailure, Port, PostError, Rank};
use thiserror::Error;

/// Why an operation failed.
///
/// The program's own mistakes: `Truncated` (with the sender), `NoSuchRank`, `InvalidTag`,
/// `InvalidLength`, `WaitsForItself`, `NoSuchRequest`, `Forked`. A peer's end: `PeerFailed`,
/// `PeerLeft`, `Abandoned`. Requested: `Cancelled`. The machine's: `Fabric`, `Malformed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum MsgError {
    /// The message is longer than the buffer. It is consumed; the buffer holds its first bytes.
    #[error(
        "the message of {sent} bytes from rank {source_rank} with tag {tag} does not fit the \
         buffer of {room} bytes: its first {room} bytes were received"
    )]
    Truncated {
        /// Length of the message, bytes.
        sent: u64,
        /// Length of the buffer, bytes.
        room: u64,
        /// The sender.
        source_rank: Rank,
        /// Its tag.
        tag: i32,
    },
    /// A rank that this operation needs has died. A receive from any source needs every rank.
    #[error("{0}")]
    PeerFailed(PeerFailure),
    /// A rank that this operation needs has left the job, with nothing from it in flight.
    #[error(
        "rank {rank}{} has left the job: nothing further comes from it or is taken by it",
        .host.as_place()
    )]
    PeerLeft {
        /// The rank.
        rank: Rank,
        /// The host it ran on, in a job of several hosts.
        host: Name,
    },
    /// The sender abandoned the message before all of it was delivered.
    #[error("rank {source_rank} abandoned its message with tag {tag} before it was delivered")]
    Abandoned {
        /// The sender.
        source_rank: Rank,
        /// The tag.
        tag: i32,
    },
    /// A blocking call could be completed only by this rank itself.
    #[error(
        "rank {rank} waits for a message to itself that nobody else can send or receive: post the \
         receive first, without blocking"
    )]
    WaitsForItself {
        /// This rank.
        rank: Rank,
    },
    /// There is no such rank.
    #[error("rank {rank} does not exist: there are ranks 0 to {}", .size.saturating_sub(1))]
    NoSuchRank {
        /// The rank asked for.
        rank: Rank,
        /// How many ranks there are.
        size: u32,
    },
    /// Not all ranks of this communicator know it: one of them failed while it was created.
    #[error("this communicator has no messages: a rank of it failed while it was made")]
    Unmade,
    /// Tags start at 0.
    #[error("tag {tag} is not valid: tags are 0 to {}", i32::MAX)]
    InvalidTag {
        /// The tag asked for.
        tag: i32,
    },
    /// The buffers passed to one operation do not fit each other.
    #[error("a buffer has {given} bytes where this operation needs {needed}")]
    InvalidLength {
        /// Bytes it has.
        given: u64,
        /// Bytes it must have.
        needed: u64,
    },
    /// The request was cancelled before it took effect.
    #[error("the operation was cancelled")]
    Cancelled,
    /// The result of the request was already taken, or the request is another engine's.
    #[error("there is no such request: it was already completed")]
    NoSuchRequest,
    /// The calling process is a forked child of the rank's process.
    #[error(
        "this process was forked from rank {rank} and is not a rank itself: only the process that \
         joined the job may call"
    )]
    Forked {
        /// The rank whose process forked it.
        rank: Rank,
    },
    /// Packets of the message contradict each other; the sender is broken or is not hikyaku.
    #[error("packets of a message from rank {source_rank} contradict each other: it was dropped")]
    Malformed {
        /// The source that the packets claim.
        source_rank: Rank,
    },
    /// The fabric refused permanently.
    #[error(transparent)]
    Fabric(#[from] PostError),
    /// A collective action of ranks with shared lines failed.
    #[error(transparent)]
    Group(GroupError),
}

impl MsgError {
    /// A rank that an operation of this port needs has left the job.
    pub fn left(rank: Rank, port: &impl Port) -> MsgError {
        MsgError::PeerLeft { rank, host: port.host_name(rank) }
    }
}

impl From<GroupError> for MsgError {
    fn from(error: GroupError) -> MsgError {
        match error {
            GroupError::PeerFailed(failure) => MsgError::PeerFailed(failure),
            GroupError::PeerLeft { rank } => MsgError::PeerLeft { rank, host: Name::NONE },
            other => MsgError::Group(other),
        }
    }
}
