//! Command queues that a port runs by itself: paper 002's session-mode CQ.
//!
//! ```text
//!   rank A                                      rank B
//!   queue (3)  RTR ──── release 2 ────────────► queue (1): two more slots of it may run
//!              SD  ◄─── waits for B's RTR       RTR, SD
//!               └────── payload ──────────────► memory of B's region
//!                       then notify ──────────► arrivals + 1
//!                       then release
//! ```
//!
//! A program writes a chain of [`QueueCommand`]s and has nothing further to do: each command runs
//! when the ones before it have, and, in session mode, when arrivals have released its slot. Who
//! runs it is the fabric's affair; over shared memory it is whoever made it runnable.
//!
//! A command that cannot be done (its memory, rank or queue does not exist) changes nothing and
//! stops its queue: the queue's completions end with the reason, [`QueueFault`].

use thiserror::Error;

use super::{PeerFailure, Rank};
use crate::ring::{Descriptor, QueueFull, ReleaseError};

/// Index of a command queue of one rank.
pub type QueueId = u32;

/// A command queue of a rank, as others name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct QueueAddress {
    /// Whose queue.
    pub rank: Rank,
    /// Which of its queues.
    pub queue: QueueId,
    /// Which use of that number: a queue that was destroyed is not found by its old address.
    pub generation: u16,
}

/// What makes a queue's commands run (TF-04).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueMode {
    /// That they are written. Releases do nothing.
    Normal,
    /// That they are written and released.
    Session {
        /// Slots that are released from the start (paper 002's session offset).
        offset: u32,
    },
}

/// One command of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueCommand {
    /// Nothing (paper 002: RDMA NOP).
    Nop,
    /// Copies from the queue's owner's region to another rank's, then tells a queue there.
    Put(QueuePut),
}

/// What a [`QueueCommand::Put`] does, in this order. With a length of zero and without `notify`
/// it is paper 002's READY-TO-RECV; with a length of zero and `notify` its END-OF-DATA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuePut {
    /// Where the bytes come from: an offset in the region of the queue's owner.
    pub from: u64,
    /// Where they go: an offset in the region of the destination's rank.
    pub at: u64,
    /// How many bytes; may be none.
    pub length: u64,
    /// The queue that is addressed. It may be the owner's own, also the very same (TF-22).
    pub to: QueueAddress,
    /// Whether an arrival is counted there.
    pub notify: bool,
    /// By how much its scheduling pointer advances: paper 002's sps (TF-02).
    pub release: u32,
}

impl QueuePut {
    /// A put without payload that advances a scheduling pointer: READY-TO-RECV.
    pub fn ready(to: QueueAddress, release: u32) -> QueuePut {
        QueuePut { from: 0, at: 0, length: 0, to, notify: false, release }
    }
}

/// What a queue has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueState {
    /// Commands ever written: the write pointer.
    pub written: u64,
    /// Commands ever run: the read pointer.
    pub executed: u64,
    /// How far the scheduling pointer is ahead of the read pointer (TF-03: it may be ahead of the
    /// write pointer too). Meaningless in normal mode. It is read after `executed` and counts from
    /// there: a command between the two is released and may be running, one beyond is not.
    pub ahead: i32,
    /// Notified puts that have arrived at this queue (TF-05).
    pub arrivals: u64,
    /// Why it stands still, if it does for good.
    pub fault: Option<QueueFault>,
}

/// A command has run, or will not (TF-05).
///
/// Commands run in order and nothing runs after one that failed. So the read pointer and the fault
/// say all that a ring of records would: this is read off them, costs the interface nothing and
/// cannot overflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// Which command: counted from 0 over the life of the queue.
    pub index: u64,
    /// Whether it did what it says.
    pub outcome: Result<(), QueueFault>,
}

/// Why a queue stands still for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum QueueFault {
    /// The words of a slot are no command.
    #[error("command {index} of the queue makes no sense")]
    Malformed {
        /// Which command.
        index: u32,
    },
    /// The destination is not a rank of this job.
    #[error("command {index} of the queue names a rank that does not exist")]
    NoSuchRank {
        /// Which command.
        index: u32,
    },
    /// The rank has no such queue open, or no longer.
    #[error("command {index} of the queue names a queue of rank {rank} that is not open")]
    NoSuchQueue {
        /// Which command.
        index: u32,
        /// Whose queue.
        rank: Rank,
    },
    /// The bytes are outside of a region, the owner's or the destination's.
    #[error("command {index} of the queue names bytes outside the memory of rank {rank}")]
    OutOfBounds {
        /// Which command.
        index: u32,
        /// Whose memory.
        rank: Rank,
    },
    /// The scheduling pointer of the destination would lead by more than it can.
    #[error("command {index} of the queue releases more than rank {rank} can count")]
    TooFarAhead {
        /// Which command.
        index: u32,
        /// Whose queue.
        rank: Rank,
    },
    /// The fabric could not copy.
    #[error("command {index} of the queue could not be copied to rank {rank}")]
    Refused {
        /// Which command.
        index: u32,
        /// To whom.
        rank: Rank,
    },
    /// Its owner gave the queue up because it misses a rank.
    #[error("it was given up because rank {rank} is gone")]
    GivenUp {
        /// Who is missing.
        rank: Rank,
    },
    /// Its owner is done with it, after so many rounds of whatever it was used for.
    #[error("its owner is done with it, after {rounds} rounds")]
    Retired {
        /// How many, modulo 2^32.
        rounds: u32,
    },
    /// Who ran it died while doing so; whether the command took effect is not known.
    #[error("it was being run when {0}")]
    RunnerDied(PeerFailure),
}

const MALFORMED: u64 = 1;
const NO_SUCH_RANK: u64 = 2;
const NO_SUCH_QUEUE: u64 = 3;
const OUT_OF_BOUNDS: u64 = 4;
const TOO_FAR_AHEAD: u64 = 5;
const REFUSED: u64 = 6;
const GIVEN_UP: u64 = 7;
const RETIRED: u64 = 8;

#[cfg_attr(loom, expect(dead_code, reason = "only hosts run queues"))]
impl QueueFault {
    /// The fault as a word of a queue: code (8) | rank (24) | command (32). Not zero.
    pub(crate) fn to_word(self) -> u64 {
        let (code, rank, index) = match self {
            QueueFault::Malformed { index } => (MALFORMED, 0, index),
            QueueFault::NoSuchRank { index } => (NO_SUCH_RANK, 0, index),
            QueueFault::NoSuchQueue { index, rank } => (NO_SUCH_QUEUE, rank, index),
            QueueFault::OutOfBounds { index, rank } => (OUT_OF_BOUNDS, rank, index),
            QueueFault::TooFarAhead { index, rank } => (TOO_FAR_AHEAD, rank, index),
            QueueFault::Refused { index, rank } => (REFUSED, rank, index),
            QueueFault::GivenUp { rank } => (GIVEN_UP, rank, 0),
            QueueFault::Retired { rounds } => (RETIRED, 0, rounds),
            // Read off the runner's rank and the registry, never written.
            QueueFault::RunnerDied(failure) => (GIVEN_UP, failure.rank, 0),
        };
        code << 56 | u64::from(rank & 0xff_ffff) << 32 | u64::from(index)
    }

    /// The fault that a word of a queue says; `None`: none.
    pub(crate) fn from_word(word: u64) -> Option<QueueFault> {
        let (index, rank) = (word as u32, (word >> 32) as u32 & 0xff_ffff);
        Some(match word >> 56 {
            0 if word == 0 => return None,
            NO_SUCH_RANK => QueueFault::NoSuchRank { index },
            NO_SUCH_QUEUE => QueueFault::NoSuchQueue { index, rank },
            OUT_OF_BOUNDS => QueueFault::OutOfBounds { index, rank },
            TOO_FAR_AHEAD => QueueFault::TooFarAhead { index, rank },
            REFUSED => QueueFault::Refused { index, rank },
            GIVEN_UP => QueueFault::GivenUp { rank },
            RETIRED => QueueFault::Retired { rounds: index },
            _ => QueueFault::Malformed { index },
        })
    }
}

/// Why a call on a queue did not do what was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum QueueError {
    /// The fabric has no command queues.
    #[error("this fabric has no command queues")]
    Unsupported,
    /// All queues of this rank are in use (TF-19).
    #[error("all {queues} command queues of this rank are in use: destroy one, or use fewer")]
    NoneFree {
        /// How many there are.
        queues: u32,
    },
    /// A queue cannot be that long.
    #[error("a command queue of {wanted} slots cannot be: this job's have 1 to {limit}")]
    Slots {
        /// Slots asked for.
        wanted: u32,
        /// Slots there are memory for.
        limit: u32,
    },
    /// There is no such queue, or no longer.
    #[error("rank {rank} has no command queue {queue} open")]
    NoSuchQueue {
        /// Whose queue.
        rank: Rank,
        /// Which.
        queue: QueueId,
    },
    /// The chain does not fit now.
    #[error(transparent)]
    Full(#[from] QueueFull),
    /// Slots could not be released.
    #[error(transparent)]
    Release(#[from] ReleaseError),
    /// Commands of the queue have not run yet, or somebody is running them.
    #[error("command queue {queue} still has commands to run: wait for them first")]
    Busy {
        /// Which.
        queue: QueueId,
    },
    /// The queue stands still for good.
    #[error("command queue {queue} stands still: {fault}")]
    Failed {
        /// Which.
        queue: QueueId,
        /// Why.
        fault: QueueFault,
    },
}

const NOP: u64 = 0;
const PUT: u64 = 1;
const NOTIFY: u64 = 1 << 8;

#[cfg_attr(loom, expect(dead_code, reason = "only hosts run queues"))]
impl QueueCommand {
    /// The command as it waits in a slot:
    ///
    /// ```text
    ///   word 0   rank (32) | generation (16) | notify (8) | operation (8)
    ///   word 1   release (32) | queue (32)
    ///   word 2   from      word 3   at      word 4   length      words 5 to 7   0
    /// ```
    #[inline]
    pub(crate) fn encode(self) -> Descriptor {
        let QueueCommand::Put(put) = self else { return Descriptor([NOP; 8]) };
        let QueuePut { from, at, length, to, notify, release } = put;
        let notify = if notify { NOTIFY } else { 0 };
        let first = u64::from(to.rank) << 32 | u64::from(to.generation) << 16 | notify | PUT;
        let second = u64::from(release) << 32 | u64::from(to.queue);
        Descriptor([first, second, from, at, length, 0, 0, 0])
    }

    /// The command in a slot, which anybody may have written; `None` if it is none.
    #[inline]
    pub(crate) fn decode(descriptor: Descriptor) -> Option<QueueCommand> {
        let [first, second, from, at, length, ..] = descriptor.0;
        match first & 0xff {
            NOP => Some(QueueCommand::Nop),
            PUT => {
                let generation = (first >> 16) as u16;
                let to =
                    QueueAddress { rank: (first >> 32) as u32, queue: second as u32, generation };
                let notify = first & NOTIFY != 0;
                let release = (second >> 32) as u32;
                Some(QueueCommand::Put(QueuePut { from, at, length, to, notify, release }))
            }
            _ => None,
        }
    }

    /// Payload bytes.
    #[inline]
    pub(crate) fn length(&self) -> u64 {
        match self {
            QueueCommand::Nop => 0,
            QueueCommand::Put(put) => put.length,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn commands_survive_their_slots() {
        let to = QueueAddress { rank: 0xfe_dcba, queue: 77, generation: 0x3fff };
        let ready = QueuePut::ready(to, u32::MAX);
        let data = QueuePut { from: u64::MAX, at: 3, length: 1 << 40, notify: true, ..ready };
        for command in [QueueCommand::Nop, QueueCommand::Put(ready), QueueCommand::Put(data)] {
            assert_eq!(QueueCommand::decode(command.encode()), Some(command));
        }
        assert_eq!(QueueCommand::decode(Descriptor([2; 8])), None);
    }

    #[test]
    fn faults_survive_their_word() {
        let (index, rank) = (u32::MAX, 0xff_fffe);
        for fault in [
            QueueFault::Malformed { index },
            QueueFault::NoSuchRank { index },
            QueueFault::NoSuchQueue { index, rank },
            QueueFault::OutOfBounds { index, rank },
            QueueFault::TooFarAhead { index, rank },
            QueueFault::Refused { index, rank },
            QueueFault::GivenUp { rank },
            QueueFault::Retired { rounds: 0 },
        ] {
            assert_eq!(QueueFault::from_word(fault.to_word()), Some(fault));
        }
        assert_eq!(QueueFault::from_word(0), None);
        assert!(matches!(QueueFault::from_word(1), Some(QueueFault::Malformed { .. })));
    }
}
