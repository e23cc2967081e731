//! Groups: sets of ranks that one command reaches, and that wait for each other.
//!
//! What paper 003 §4.9 registers in its multicast and sync header tables: a list of ranks, once,
//! for a small number that later commands name. Here a group also has *rounds*, in which its
//! members exchange a few words through shared control lines ([`crate::ring::ControlLines`]) or
//! more through their multicast areas, written once and read by all.
//!
//! ```text
//!   join ─► sync / synced                 barriers, several ids at a time      (any nodes)
//!        ─► multicast                     one command, every member            (any nodes)
//!        ─► contribute ─► contribution × ─► finish_round       rounds          (one node)
//! ```
//!
//! Every member goes through the same rounds in the same order, contributing in those in which it
//! has something to say.

use thiserror::Error;

use super::{
    Atomic, ChainError, Command, Completed, Key, Operation, PeerFailure, Port, PostError,
    REGISTERS, Rank, RemoteAddress, Reply, Space,
};
use crate::ring::{Place, Said};

/// How many barriers of one group may be in progress: the sync ids of paper 003, 7 bits.
pub const SYNC_IDS: u32 = 128;

/// Most members of a group that uses sync ids (CJ-15): the sync routing map of paper 003 has 64
/// bits. Larger sets synchronise by multicast and atomic add.
pub const SYNC_MEMBERS: usize = 64;

/// The last round that a group can start at: far enough from where the count of a control line
/// ends, 2^56, that none gets there.
pub const LAST_FIRST: u64 = 1 << 55;

/// A group that was joined: the offset into the header tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GroupId(pub(crate) u32);

impl GroupId {
    /// The channel: one of the places for groups that every rank has, the same at each member.
    pub fn channel(self) -> u32 {
        self.0
    }
}

/// What was registered of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    pub(crate) members: Vec<Rank>,
    pub(crate) place: usize,
    pub(crate) registers: Vec<Key>,
    pub(crate) area_bytes: usize,
}

impl Group {
    /// Its ranks, in the order in which they were given.
    #[inline]
    pub fn members(&self) -> &[Rank] {
        &self.members
    }

    /// This rank's place among them.
    #[inline]
    pub fn place(&self) -> usize {
        self.place
    }

    /// Bytes of each member's multicast area: the longest contribution, if nothing else is there.
    pub fn area_bytes(&self) -> usize {
        self.area_bytes
    }

    /// In whose contexts multicast puts find each member's address registers. Empty until it was
    /// told.
    pub fn registers(&self) -> &[Key] {
        &self.registers
    }

    /// A command as it is for the member at `place`.
    fn addressed<'a>(&self, place: usize, command: &Command<'a>) -> Result<Command<'a>, PostError> {
        let (rank, destination) = (self.members[place], self.members[place]);
        let operation = match command.operation {
            Operation::Put(RemoteAddress {
                space: Space::Register(Key { index, .. }),
                offset,
                ..
            }) => {
                if index >= REGISTERS {
                    return Err(PostError::Unsupported("put through a fourth address register"));
                }
                let Some(key) = self.registers.get(place) else {
                    let what = "multicast a put without the keys of the members' address registers";
                    return Err(PostError::Unsupported(what));
                };
                let space = Space::Register(Key { index, ..*key });
                Operation::Put(RemoteAddress { rank, space, offset })
            }
            Operation::Put(_) => {
                let what = "multicast a put to anything but address registers";
                return Err(PostError::Unsupported(what));
            }
            Operation::Get(_) => return Err(PostError::Unsupported("multicast a get")),
            Operation::Atomic(atomic) => {
                let target = RemoteAddress { rank, ..atomic.target };
                Operation::Atomic(Atomic { target, ..atomic })
            }
            Operation::Send | Operation::Nop => command.operation,
        };
        let reply = match command.reply {
            // Whether a put lands is each receiver's affair: the sender is told of those at which
            // it did not.
            Reply::None if operation.is_remote() => Reply::Failure,
            reply => reply,
        };
        Ok(Command { operation, destination, reply, ..*command })
    }
}

/// One command to every other member of a group, in the order of their places, by `post`. Starts
/// at place `done` of which `bytes` were taken already.
///
/// What a member's tables refuse of a put or an atomic operation is told by `tell`, and the others
/// are served; `tell` answers whether it could.
pub(crate) fn multicast_by<P: Port + ?Sized>(
    port: &mut P,
    group: GroupId,
    command: &Command<'_>,
    (mut done, mut bytes): (usize, usize),
    mut post: impl FnMut(&mut P, &Command<'_>) -> Result<usize, PostError>,
    mut tell: impl FnMut(&mut P, Completed) -> bool,
) -> Result<(), ChainError> {
    let fail = |done, bytes, error| Err(ChainError { done, bytes, error });
    loop {
        let Some(registered) = port.group(group) else {
            let error = PostError::Unsupported("multicast to a group that was not joined");
            return fail(done, bytes, error);
        };
        if done >= registered.members.len() {
            return Ok(());
        }
        if done == registered.place {
            (done, bytes) = (done + 1, 0);
            continue;
        }
        let one = match registered.addressed(done, command) {
            Ok(one) => one,
            Err(error) => return fail(done, bytes, error),
        };
        let length = one.payload.len();
        let from = bytes.min(length);
        let rest = Command {
            payload: &one.payload[from..],
            offset: one.offset + from as u64,
            credited: one.credited && from == 0,
            ..one
        };
        match post(port, &rest) {
            Ok(taken) => bytes = from + taken,
            Err(error @ PostError::Full { .. }) => return fail(done, from, error),
            Err(error) => {
                let Command { destination, protocol, header, operation, .. } = one;
                let completed = Completed { destination, protocol, header, outcome: Err(error) };
                if !operation.is_remote() || !tell(port, completed) {
                    return fail(done, from, error);
                }
                bytes = length;
            }
        }
        if bytes >= length || one.operation == Operation::Nop {
            (done, bytes) = (done + 1, 0);
        }
    }
}

/// What a member said in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contribution {
    pub(crate) said: Said,
}

impl Contribution {
    /// The word that came with it.
    #[inline]
    pub fn word(&self) -> u64 {
        self.said.word
    }

    /// Bytes of payload.
    #[inline]
    pub fn len(&self) -> usize {
        self.said.length as usize
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.said.length == 0
    }

    /// Whether it came in the control line itself.
    pub fn is_inline(&self) -> bool {
        self.said.place == Place::Line
    }
}

/// Why something was not done with a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum GroupError {
    /// This fabric has no groups, or not for this.
    #[error("this fabric cannot {0}")]
    Unsupported(&'static str),
    /// Not joined, or left.
    #[error("there is no group on channel {channel}: join it first")]
    NoSuchGroup {
        /// The channel asked for.
        channel: u32,
    },
    /// The job's layout has fewer channels.
    #[error("there is no channel {channel} for groups: this job has {channels}")]
    NoSuchChannel {
        /// The channel asked for.
        channel: u32,
        /// How many there are.
        channels: u32,
    },
    /// The channel has a group, or its last one's members have not all finished.
    #[error("channel {channel} is in use: leave its group first, or take another")]
    ChannelInUse {
        /// The channel asked for.
        channel: u32,
    },
    /// A member is not a rank of this job.
    #[error("member {rank} does not exist: this job has ranks 0 to {}", .size.saturating_sub(1))]
    NoSuchRank {
        /// The rank asked for.
        rank: Rank,
        /// How many ranks there are.
        size: u32,
    },
    /// The list of members names a rank twice, or not this one.
    #[error("a group of rank {rank} has to name it, and everybody, exactly once")]
    Members {
        /// The rank that joins.
        rank: Rank,
    },
    /// The first round lies before what was said on the channel already, or is no count of rounds.
    #[error("rounds on channel {channel} cannot start at {first}: from {least} to {LAST_FIRST}")]
    FirstRound {
        /// The channel.
        channel: u32,
        /// What was asked for.
        first: u64,
        /// The least that is possible.
        least: u64,
    },
    /// Rounds need shared memory.
    #[error("rank {rank} is on another node: rounds are for the ranks of one node")]
    OtherNode {
        /// The rank.
        rank: Rank,
    },
    /// Sync ids are for small groups.
    #[error("{members} ranks cannot share a sync id (at most {limit}): use multicast and atomics")]
    TooMany {
        /// How many members.
        members: usize,
        /// How many are possible.
        limit: usize,
    },
    /// There are 128.
    #[error("there is no sync id {id}: there are {SYNC_IDS}")]
    NoSuchSyncId {
        /// The id asked for.
        id: u32,
    },
    /// The last barrier with this id has not been seen complete by this rank.
    #[error("sync id {id} is in progress: see it complete, or take another")]
    SyncInProgress {
        /// The id.
        id: u32,
    },
    /// There is no such member.
    #[error("the group has no member {place}: it has {members}")]
    NoSuchMember {
        /// The place asked for.
        place: usize,
        /// How many members there are.
        members: usize,
    },
    /// A member contributes to a round once.
    #[error("this rank has contributed to the round already: finish it first")]
    Contributed,
    /// A contribution does not fit the multicast area.
    #[error("a contribution of {length} bytes does not fit (at most {limit}): give it in parts")]
    TooLarge {
        /// Its length, bytes.
        length: usize,
        /// What fits, bytes.
        limit: usize,
    },
    /// No room now: members have yet to read earlier contributions. Try again after parking.
    #[error("members have not read earlier contributions yet: try again")]
    Full,
    /// A member died before it did its part.
    #[error("{0}")]
    PeerFailed(PeerFailure),
    /// A member left the job before it did its part.
    #[error("rank {rank} has left the job without taking part")]
    PeerLeft {
        /// The rank.
        rank: Rank,
    },
    /// A member's line made no sense; its process is broken.
    #[error("rank {rank} contributed nonsense: its process is broken or is not hikyaku")]
    Malformed {
        /// The rank.
        rank: Rank,
    },
}
