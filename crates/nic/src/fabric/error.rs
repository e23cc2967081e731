//! The errors of operations: why one failed, and who is at fault.

use thiserror::Error;

use super::{Fault, Name, Rank, RingId};

/// Why a post took nothing. The caller may retry: a failed post has no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PostError {
    /// There is no room at the moment. Retry after `poll` or `park`.
    #[error("no room at rank {destination} now ({cause:?}): try again after polling")]
    Full {
        /// The rank without room.
        destination: Rank,
        /// The full resource, and its policy.
        cause: FullCause,
    },
    /// The destination is not a rank of this job.
    #[error("rank {rank} does not exist: this job has ranks 0 to {}", .size.saturating_sub(1))]
    NoSuchRank {
        /// The rank asked for.
        rank: Rank,
        /// The number of ranks.
        size: u32,
    },
    /// The receiver has no ring for this source (IP-25): use put, or have it set its table.
    #[error("rank {destination} has no landing ring for messages from rank {source_rank}")]
    Unmapped {
        /// The receiver.
        destination: Rank,
        /// The sender, whose source-table entry is unset.
        source_rank: Rank,
    },
    /// The named ring does not exist at the receiver.
    #[error("rank {destination} has no landing ring {ring}")]
    NoSuchRing {
        /// The receiver.
        destination: Rank,
        /// The ring asked for.
        ring: RingId,
    },
    /// A message that needs a single record is longer than its ring.
    #[error(
        "a message of {length} bytes does not fit a landing ring of {limit} bytes: \
             send it with a record per packet"
    )]
    TooLarge {
        /// Length of the message, bytes.
        length: u64,
        /// Size of the ring, bytes.
        limit: u64,
    },
    /// Several sources share the ring: a message of several packets needs a record for each.
    #[error(
        "ring {ring} of rank {destination} is shared: a message of several packets needs a \
             record per packet there"
    )]
    SharedRing {
        /// The receiver.
        destination: Rank,
        /// The ring.
        ring: RingId,
    },
    /// The address is outside the target's registered memory. Nothing was written.
    #[error(
        "bytes {offset}..{} are outside what rank {rank} has registered",
        .offset.saturating_add(*.length)
    )]
    OutOfBounds {
        /// The owner of the memory.
        rank: Rank,
        /// First byte asked for.
        offset: u64,
        /// The number of bytes.
        length: u64,
    },
    /// The target's tables do not allow the access. Nothing was read or written.
    #[error("rank {rank} does not allow that: {fault}")]
    Protection {
        /// The owner of the tables.
        rank: Rank,
        /// The reason for the refusal.
        fault: Fault,
    },
    /// An integer or a notification word that is not aligned to its size. Nothing was changed.
    #[error("offset {offset} at rank {rank} is not aligned to the {size} bytes of its word")]
    Misaligned {
        /// The owner of the memory.
        rank: Rank,
        /// The offset asked for.
        offset: u64,
        /// The alignment it needs, bytes.
        size: u64,
    },
    /// A logical number beyond the node table of its context.
    #[error("the context has members 0 to {}, not {logical}", .members.saturating_sub(1))]
    NoSuchMember {
        /// The number asked for.
        logical: u32,
        /// The number of members.
        members: u32,
    },
    /// The destination is gone.
    #[error("{0}")]
    PeerFailed(PeerFailure),
    /// This fabric does not support the operation; see its [`Capabilities`](super::Capabilities).
    #[error("this fabric cannot {0}")]
    Unsupported(&'static str),
    /// The operating system refused.
    #[error("the operating system refused to copy from or to rank {rank} (error {code})")]
    Refused {
        /// The other rank.
        rank: Rank,
        /// The error number.
        code: i32,
    },
}

/// The resource that was full, and how its policy reacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FullCause {
    /// The landing ring is full and stalls: the receiver was notified, the sender waits.
    RingStalled,
    /// The landing ring is full and refused (a NACK): send again later.
    RingRefused,
    /// The status ring is full and stalls.
    StatusStalled,
    /// The status ring is full and refused.
    StatusRefused,
    /// The receiver granted no further messages.
    Credit,
    /// The limit of commands with unpolled completion events is reached (CJ-12).
    Outstanding,
    /// Other ranks moved the target's address register at each attempt to reserve a place.
    Register,
}

/// How much of a chain was taken before a command failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("command {done} of the chain was not taken: {error}")]
pub struct ChainError {
    /// Commands taken whole, in order from the first.
    pub done: usize,
    /// Payload bytes of the next command that were taken as well.
    pub bytes: usize,
    /// Why the next command was not taken.
    pub error: PostError,
}

/// How a rank ended that did not leave in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
#[error("rank {rank}{}{} {}{cause}", process(*.pid), .host.as_place(), .cause.verb())]
pub struct PeerFailure {
    /// The rank that is gone.
    pub rank: Rank,
    /// Its process id; 0 where the fabric has none.
    pub pid: u32,
    /// The host it ran on, in a job of several.
    pub host: Name,
    /// The cause of its end.
    pub cause: DeathCause,
}

/// The process id in a sentence about its rank; empty if unknown, as for a rank of another host.
fn process(pid: u32) -> String {
    if pid == 0 { String::new() } else { format!(" (pid {pid})") }
}

/// The cause of a process's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum DeathCause {
    /// A signal, by number.
    #[error("killed by signal {0}")]
    Signal(i32),
    /// It exited with this code before it left the job.
    #[error("exited with code {0} before it left the job")]
    Exit(i32),
    /// The process is gone and the cause is unknown.
    #[error("it is gone, the reason is not known")]
    Unknown,
    /// Its messages were overwritten. It may be alive, but its messages cannot be trusted.
    #[error("has sent a message that was overwritten in the job's shared memory")]
    Overwritten,
    /// It has sent a packet from another host that no correct rank sends. It may be alive, but its
    /// further packets are ignored.
    #[error("has sent a packet that cannot be: nothing more is taken from it")]
    Malformed,
    /// It runs on another host and has dropped a send of this rank, because its tables have no
    /// landing ring for it. It is alive, but nothing more is sent to it.
    #[error("has no landing ring for what this rank sent it, which is lost")]
    Dropped,
    /// It runs on another host and cannot be reached any more; it may be alive. The value is the
    /// error number of the transport, or 0. Libfabric uses the system's error numbers up to 255.
    #[error("cannot be reached any more{}", reason(*.0))]
    Unreachable(i32),
}

/// The text for the number in [`DeathCause::Unreachable`].
fn reason(code: i32) -> String {
    match code {
        0 => String::new(),
        1..=255 => format!(": {}", std::io::Error::from_raw_os_error(code)),
        _ => format!(": error {code} of libfabric"),
    }
}

impl DeathCause {
    /// The words before the cause in a sentence about the rank.
    fn verb(self) -> &'static str {
        match self {
            DeathCause::Signal(_) | DeathCause::Exit(_) | DeathCause::Unknown => "died: ",
            DeathCause::Overwritten
            | DeathCause::Malformed
            | DeathCause::Dropped
            | DeathCause::Unreachable(_) => "",
        }
    }
}

/// Why a table could not be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TableError {
    /// The source is not a rank of this job.
    #[error("source {source_rank} is not a rank of this job of {size}")]
    NoSuchSource {
        /// The source asked for.
        source_rank: Rank,
        /// The number of ranks.
        size: u32,
    },
    /// The ring does not exist.
    #[error("there is no landing ring {ring}: this rank has {rings}")]
    NoSuchRing {
        /// The ring asked for.
        ring: RingId,
        /// The number of rings.
        rings: u32,
    },
    /// The ring is private and belongs to another source.
    #[error("landing ring {ring} is private to source {owner}")]
    Private {
        /// The ring asked for.
        ring: RingId,
        /// The source it belongs to.
        owner: Rank,
    },
    /// The ring was private to another source, which may still be within a post to it. Retry: a
    /// post takes microseconds, unless its process is stopped.
    #[error(
        "landing ring {ring} was source {source_rank}'s, which may be landing in it: try again"
    )]
    Unsettled {
        /// The ring asked for.
        ring: RingId,
        /// The source it belonged to.
        source_rank: Rank,
    },
    /// The machine has no memory for the ring, which is used for the first time.
    #[error("there is no memory for landing ring {ring}")]
    NoMemory {
        /// The ring asked for.
        ring: RingId,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_a_sentence_about_the_rank() {
        for (cause, text) in [
            (DeathCause::Signal(9), "rank 3 (pid 7) died: killed by signal 9"),
            (DeathCause::Exit(2), "rank 3 (pid 7) died: exited with code 2 before it left the job"),
            (DeathCause::Unknown, "rank 3 (pid 7) died: it is gone, the reason is not known"),
            (
                DeathCause::Overwritten,
                "rank 3 (pid 7) has sent a message that was overwritten in the job's shared memory",
            ),
            (
                DeathCause::Malformed,
                "rank 3 (pid 7) has sent a packet that cannot be: nothing more is taken from it",
            ),
            (
                DeathCause::Dropped,
                "rank 3 (pid 7) has no landing ring for what this rank sent it, which is lost",
            ),
            (DeathCause::Unreachable(0), "rank 3 (pid 7) cannot be reached any more"),
            (
                DeathCause::Unreachable(104),
                "rank 3 (pid 7) cannot be reached any more: \
                 Connection reset by peer (os error 104)",
            ),
            (
                DeathCause::Unreachable(265),
                "rank 3 (pid 7) cannot be reached any more: error 265 of libfabric",
            ),
        ] {
            let failure = PeerFailure { rank: 3, pid: 7, host: Name::NONE, cause };
            assert_eq!(failure.to_string(), text);
            let there = PeerFailure { host: Name::new("b"), ..failure };
            assert_eq!(there.to_string(), text.replace("(pid 7)", "(pid 7) on host b"));
            let unknown = PeerFailure { pid: 0, ..there };
            assert_eq!(unknown.to_string(), text.replace("(pid 7)", "on host b"));
        }
    }
}
