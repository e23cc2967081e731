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
//! A program writes a chain of [`QueueCommand`]s and then has nothing more to do. Each command runs
//! when the commands before it have run and, in session mode, when arrivals have released its slot.
//! The fabric decides which rank runs it; over shared memory it is the rank that made it runnable.
//!
//! A command fails if its memory, rank or queue does not exist. It then changes nothing and stops
//! its queue, whose completions end with the reason, [`QueueFault`].

use thiserror::Error;

use super::{Combining, PeerFailure, Port, Rank};
use crate::ring::{Descriptor, QueueFull, ReleaseError};

/// Index of a command queue of one rank.
pub type QueueId = u32;

/// The address of a rank's command queue, for other ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct QueueAddress {
    /// The rank that owns the queue.
    pub rank: Rank,
    /// The queue's index.
    pub queue: QueueId,
    /// The use of that index: the old address of a destroyed queue is invalid.
    pub generation: u16,
}

/// The condition under which a queue's commands run (TF-04).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueMode {
    /// They run once written. Releases have no effect.
    Normal,
    /// They run once written and released.
    Session {
        /// Slots that are released at the start (paper 002's session offset).
        offset: u32,
    },
}

/// One command of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueCommand {
    /// Nothing (paper 002: RDMA NOP).
    Nop,
    /// Copies from the region of the queue's owner to another rank's, then notifies a queue there.
    Put(QueuePut),
    /// Combines elements of the region of the queue's owner. The paper's queues have no such
    /// command.
    Combine(QueueCombine),
}

/// A combination of elements of the owner's region, by their offsets: `into` becomes `left ∘
/// right`. `into` may equal `left` or `right`; the ranges overlap in no other way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueCombine {
    /// Offset of the left operands.
    pub left: u64,
    /// Offset of the right operands.
    pub right: u64,
    /// Offset of the results.
    pub into: u64,
    /// Bytes of each: whole elements, at most [`QueueCombine::MOST`].
    pub length: u64,
    /// The operation and the element type.
    pub combining: Combining,
}

impl QueueCombine {
    /// Limit of bytes of one command: the rank that runs it has other work too.
    pub const MOST: u64 = 16 << 20;
}

/// The steps of a [`QueueCommand::Put`], in this order. With a length of zero it is paper 002's
/// READY-TO-RECV without `notify`, its END-OF-DATA with `notify`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuePut {
    /// Source of the bytes: an offset in the region of the queue's owner.
    pub from: u64,
    /// Destination of the bytes: an offset in the region of the destination's rank.
    pub at: u64,
    /// The number of bytes; may be zero.
    pub length: u64,
    /// The queue to notify. It may belong to the owner, and may be the same queue (TF-22).
    pub to: QueueAddress,
    /// Whether the queue counts an arrival.
    pub notify: bool,
    /// By how much that queue's scheduling pointer advances: paper 002's sps (TF-02).
    pub release: u32,
}

impl QueuePut {
    /// A put without payload that advances a scheduling pointer: READY-TO-RECV.
    pub fn ready(to: QueueAddress, release: u32) -> QueuePut {
        QueuePut { from: 0, at: 0, length: 0, to, notify: false, release }
    }
}

/// The state of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueState {
    /// Commands ever written: the write pointer.
    pub written: u64,
    /// Commands ever run: the read pointer.
    pub executed: u64,
    /// How far the scheduling pointer is ahead of the read pointer; it may be ahead of the write
    /// pointer too (TF-03). Unused in normal mode. It is read after `executed` and counts from
    /// there: a command within the lead is released and may be running, one beyond is not.
    pub ahead: i32,
    /// Notified puts that have arrived at this queue (TF-05).
    pub arrivals: u64,
    /// Why the queue has stopped for good, if it has.
    pub fault: Option<QueueFault>,
}

/// A command has run, or will never run (TF-05).
///
/// Commands run in order, and none runs after a failed one. So the read pointer and the fault
/// contain all the information of a ring of records. Completions are derived from them: this costs
/// the interface nothing and cannot overflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// The number of the command, counted from 0 over the life of the queue.
    pub index: u64,
    /// Success, or why the command did not run.
    pub outcome: Result<(), QueueFault>,
}

/// Why a queue has stopped for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum QueueFault {
    /// The words of a slot are not a valid command.
    #[error("command {index} of the queue is invalid")]
    Malformed {
        /// The command's index.
        index: u32,
    },
    /// The destination is not a rank of this job.
    #[error("command {index} of the queue names a rank that does not exist")]
    NoSuchRank {
        /// The command's index.
        index: u32,
    },
    /// The rank has no such queue open.
    #[error("command {index} of the queue names a queue of rank {rank} that is not open")]
    NoSuchQueue {
        /// The command's index.
        index: u32,
        /// The queue's owner.
        rank: Rank,
    },
    /// The bytes are outside the region of the owner or the destination.
    #[error("command {index} of the queue names bytes outside the memory of rank {rank}")]
    OutOfBounds {
        /// The command's index.
        index: u32,
        /// The memory's owner.
        rank: Rank,
    },
    /// The destination's scheduling pointer would lead by more than its limit.
    #[error("command {index} of the queue releases more than rank {rank} can count")]
    TooFarAhead {
        /// The command's index.
        index: u32,
        /// The queue's owner.
        rank: Rank,
    },
    /// The fabric could not copy.
    #[error("command {index} of the queue could not be copied to rank {rank}")]
    Refused {
        /// The command's index.
        index: u32,
        /// The destination.
        rank: Rank,
    },
    /// Its owner abandoned the queue because a rank is missing.
    #[error("it was abandoned because rank {rank} is gone")]
    Abandoned {
        /// The missing rank.
        rank: Rank,
    },
    /// The queue's owner has finished with it, after this many rounds.
    #[error("its owner is done with it, after {rounds} rounds")]
    Retired {
        /// The number of rounds, modulo 2^32.
        rounds: u32,
    },
    /// The rank that ran the command died meanwhile; whether the command took effect is unknown.
    #[error("it was being run when {0}")]
    RunnerDied(PeerFailure),
}

const MALFORMED: u64 = 1;
const NO_SUCH_RANK: u64 = 2;
const NO_SUCH_QUEUE: u64 = 3;
const OUT_OF_BOUNDS: u64 = 4;
const TOO_FAR_AHEAD: u64 = 5;
const REFUSED: u64 = 6;
const ABANDONED: u64 = 7;
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
            QueueFault::Abandoned { rank } => (ABANDONED, rank, 0),
            QueueFault::Retired { rounds } => (RETIRED, 0, rounds),
            // Derived from the runner's rank and the registry, never written.
            QueueFault::RunnerDied(failure) => (ABANDONED, failure.rank, 0),
        };
        code << 56 | u64::from(rank & 0xff_ffff) << 32 | u64::from(index)
    }

    /// The fault that a word of a queue stands for, if any.
    pub(crate) fn from_word(word: u64) -> Option<QueueFault> {
        let (index, rank) = (word as u32, (word >> 32) as u32 & 0xff_ffff);
        Some(match word >> 56 {
            0 if word == 0 => return None,
            NO_SUCH_RANK => QueueFault::NoSuchRank { index },
            NO_SUCH_QUEUE => QueueFault::NoSuchQueue { index, rank },
            OUT_OF_BOUNDS => QueueFault::OutOfBounds { index, rank },
            TOO_FAR_AHEAD => QueueFault::TooFarAhead { index, rank },
            REFUSED => QueueFault::Refused { index, rank },
            ABANDONED => QueueFault::Abandoned { rank },
            RETIRED => QueueFault::Retired { rounds: index },
            _ => QueueFault::Malformed { index },
        })
    }
}

/// Why a call on a queue failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum QueueError {
    /// All queues of this rank are in use (TF-19).
    #[error("all {queues} command queues of this rank are in use: destroy one, or use fewer")]
    NoneFree {
        /// The number of queues.
        queues: u32,
    },
    /// The requested number of slots is not possible.
    #[error("a command queue of {wanted} slots cannot be: this job's have 1 to {limit}")]
    Slots {
        /// Slots asked for.
        wanted: u32,
        /// The limit, given by the queue's memory.
        limit: u32,
    },
    /// The queue is not open.
    #[error("rank {rank} has no command queue {queue} open")]
    NoSuchQueue {
        /// The queue's owner.
        rank: Rank,
        /// The queue's index.
        queue: QueueId,
    },
    /// The chain does not fit now.
    #[error(transparent)]
    Full(#[from] QueueFull),
    /// Slots could not be released.
    #[error(transparent)]
    Release(#[from] ReleaseError),
    /// Commands of the queue have not run yet, or are running.
    #[error("command queue {queue} still has commands to run: wait for them first")]
    Busy {
        /// The queue's index.
        queue: QueueId,
    },
    /// The queue has stopped for good.
    #[error("command queue {queue} stands still: {fault}")]
    Failed {
        /// The queue's index.
        queue: QueueId,
        /// The reason.
        fault: QueueFault,
    },
}

const NOP: u64 = 0;
const PUT: u64 = 1;
const COMBINE: u64 = 2;
const NOTIFY: u64 = 1 << 8;

#[cfg_attr(loom, expect(dead_code, reason = "only hosts run queues"))]
impl QueueCommand {
    /// The encoded command, as it lies in a slot:
    ///
    /// ```text
    ///   word 0   rank (32) | generation (16) | notify (8) | operation (8)
    ///   word 1   release (32) | queue (32)
    ///   word 2   from      word 3   at      word 4   length      words 5 to 7   0
    ///
    ///   word 0   0 (40) | combination (16) | operation (8)
    ///   word 1   into      word 2   left    word 3   right       word 4   length
    /// ```
    #[inline]
    pub(crate) fn encode(self) -> Descriptor {
        let put = match self {
            QueueCommand::Nop => return Descriptor([NOP; 8]),
            QueueCommand::Put(put) => put,
            QueueCommand::Combine(QueueCombine { left, right, into, length, combining }) => {
                let first = u64::from(combining.code()) << 8 | COMBINE;
                return Descriptor([first, into, left, right, length, 0, 0, 0]);
            }
        };
        let QueuePut { from, at, length, to, notify, release } = put;
        let notify = if notify { NOTIFY } else { 0 };
        let first = u64::from(to.rank) << 32 | u64::from(to.generation) << 16 | notify | PUT;
        let second = u64::from(release) << 32 | u64::from(to.queue);
        Descriptor([first, second, from, at, length, 0, 0, 0])
    }

    /// Decodes the command in a slot, which any process may have written; `None` if invalid.
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
            COMBINE => {
                let (into, left, right) = (second, from, at);
                let combining = Combining::of_code((first >> 8) as u16)?;
                let valid =
                    length.is_multiple_of(combining.width() as u64) && length <= QueueCombine::MOST;
                let combine = QueueCombine { left, right, into, length, combining };
                valid.then_some(QueueCommand::Combine(combine))
            }
            _ => None,
        }
    }

    /// The number of bytes that the command writes.
    #[inline]
    pub(crate) fn length(&self) -> u64 {
        match self {
            QueueCommand::Nop => 0,
            QueueCommand::Put(put) => put.length,
            QueueCommand::Combine(combine) => combine.length,
        }
    }
}

/// A port with command queues.
pub trait QueuePort: Port {
    /// The number of queues that this rank can still create, and the limit of slots of each.
    fn free_queues(&self) -> (u32, u32);

    /// Takes one of this rank's command queues into use. It is empty.
    ///
    /// # Errors
    /// [`QueueError::NoneFree`], [`QueueError::Slots`], or the fabric has no queues.
    fn create_queue(&mut self, mode: QueueMode, slots: u32) -> Result<QueueAddress, QueueError>;

    /// Frees a queue. Puts that still name it fail.
    ///
    /// # Errors
    /// It is in use, or has failed. A failed queue stays taken, because puts may still arrive.
    fn destroy_queue(&mut self, queue: QueueId) -> Result<(), QueueError>;

    /// Writes a chain of commands into a queue, rings its doorbell once, and runs runnable ones.
    ///
    /// # Errors
    /// The chain does not fit, or the queue has stopped. Nothing was written.
    fn post_queue(&mut self, queue: QueueId, chain: &[QueueCommand]) -> Result<(), QueueError>;

    /// Runs the next `count` slots again: the commands written one queue length ago. A repeated
    /// pattern is written once.
    ///
    /// # Errors
    /// As [`QueuePort::post_queue`].
    fn repeat_queue(&mut self, queue: QueueId, count: u32) -> Result<(), QueueError>;

    /// Releases slots of a queue of this or another rank, and runs the commands that are runnable.
    /// It acts as a put without payload that is not in a queue itself.
    ///
    /// # Errors
    /// There is no such queue, or its scheduling pointer would lead by more than its limit.
    fn release_queue(&mut self, queue: QueueAddress, slots: u32) -> Result<(), QueueError>;

    /// Runs the runnable commands of any rank's queue, unless another rank does. For waiting ranks.
    fn help_queue(&mut self, queue: QueueAddress);

    /// The state of a queue of any rank.
    ///
    /// # Errors
    /// There is no such queue.
    fn queue_state(&mut self, queue: QueueAddress) -> Result<QueueState, QueueError>;

    /// Frees a queue whose end other ranks may not have detected yet. It accepts releases until its
    /// scheduling pointer is ahead by `lead`, which every session reaches. Meanwhile it reports
    /// after how many `rounds` its owner finished. Then it is destroyed.
    fn retire_queue(&mut self, queue: QueueId, rounds: u64, lead: u32);

    /// Stops a queue of this rank for good because `missing` is gone, and wakes the ranks in `tell`
    /// so that they poll it.
    fn abandon_queue(&mut self, queue: QueueId, missing: Rank, tell: &[Rank]);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::{Arithmetic, NumberType};
    use super::*;

    #[test]
    fn commands_survive_their_slots() {
        let to = QueueAddress { rank: 0xfe_dcba, queue: 77, generation: 0x3fff };
        let ready = QueuePut::ready(to, u32::MAX);
        let data = QueuePut { from: u64::MAX, at: 3, length: 1 << 40, notify: true, ..ready };
        let combine = combine_of(24);
        for command in
            [QueueCommand::Nop, QueueCommand::Put(ready), QueueCommand::Put(data), combine]
        {
            assert_eq!(QueueCommand::decode(command.encode()), Some(command));
        }
        for nonsense in [
            Descriptor([2; 8]),
            Descriptor([3; 8]),
            combine_of(25).encode(),
            combine_of(QueueCombine::MOST + 8).encode(),
        ] {
            assert_eq!(QueueCommand::decode(nonsense), None);
        }
    }

    fn combine_of(length: u64) -> QueueCommand {
        let combining =
            Combining::new(Arithmetic::Max, NumberType::F64).expect("floats have a largest");
        QueueCommand::Combine(QueueCombine { left: 1, right: 2, into: 3, length, combining })
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
            QueueFault::Abandoned { rank },
            QueueFault::Retired { rounds: 0 },
        ] {
            assert_eq!(QueueFault::from_word(fault.to_word()), Some(fault));
        }
        assert_eq!(QueueFault::from_word(0), None);
        assert!(matches!(QueueFault::from_word(1), Some(QueueFault::Malformed { .. })));
    }

    #[test]
    fn a_nop_alone_has_no_bytes() {
        let to = QueueAddress { rank: 1, queue: 2, generation: 3 };
        let put = QueuePut { length: 1 << 40, ..QueuePut::ready(to, 1) };
        let commands = [QueueCommand::Nop, QueueCommand::Put(put), combine_of(16)];
        assert_eq!(commands.map(|command| command.length()), [0, 1 << 40, 16]);
    }
}
