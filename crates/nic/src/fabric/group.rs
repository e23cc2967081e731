//! Groups: sets of ranks that one command reaches, and that wait for each other.
//!
//! A group is a list of ranks, registered once under a small number that later commands name: the
//! multicast and sync header tables of paper 003 §4.9. Here a group also has *rounds*: its members
//! exchange a few words through control lines ([`crate::ring::ControlLines`]), or more through
//! their multicast areas, written once and read by all.
//!
//! ```text
//!   join ─► sync / synced                 barriers, several ids at a time      (any nodes)
//!        ─► add × ─► counted              barriers by counters                 (any nodes)
//!        ─► multicast                     one command, every member            (any nodes)
//!        ─► contribute ─► contribution × ─► finish_round       rounds          (one node)
//! ```
//!
//! Every member goes through the same rounds in the same order, and contributes to a round if it
//! has data for it.

use thiserror::Error;

use super::{
    Atomic, ChainError, Command, Completed, Key, Operation, PeerFailure, Port, PostError,
    REGISTERS, Rank, RemoteAddress, Reply, Space,
};
use crate::ring::Said;

/// How many barriers of one group may be in progress at once: the sync ids of paper 003, 7 bits.
pub const SYNC_IDS: u32 = 128;

/// Most members of a group that uses sync ids (CJ-15): the sync routing map of paper 003 has 64
/// bits. Larger sets synchronise by multicast and atomic add.
pub const SYNC_MEMBERS: usize = 64;

/// The last round at which a group can start. A control line counts to 2^54, far beyond it, so no
/// group reaches that limit.
pub const LAST_FIRST: u64 = 1 << 53;

/// The number of groups that can be negotiated at once with different channels in their offers.
pub const OFFERS: u32 = 4;

/// A joined group: its offset in the header tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GroupId(pub(crate) u32);

impl GroupId {
    /// The channel: a number that every rank reserves for groups, the same at each member.
    pub fn channel(self) -> u32 {
        self.0
    }
}

/// A registered group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisteredGroup {
    pub(crate) members: Vec<Rank>,
    pub(crate) place: usize,
    pub(crate) registers: Vec<Key>,
    pub(crate) area_bytes: usize,
}

impl RegisteredGroup {
    /// The group's ranks, in the order of the registration.
    #[inline]
    pub fn members(&self) -> &[Rank] {
        &self.members
    }

    /// This rank's index among the members.
    #[inline]
    pub fn place(&self) -> usize {
        self.place
    }

    /// Bytes of each member's multicast area: the longest contribution if the area is empty.
    pub fn area_bytes(&self) -> usize {
        self.area_bytes
    }

    /// The keys of the contexts where multicast puts find each member's address registers. Empty
    /// until they are set.
    pub fn registers(&self) -> &[Key] {
        &self.registers
    }

    /// The command as addressed to the member at `place`.
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
            // Each receiver decides whether a put lands; the sender gets a report of each refusal.
            Reply::None if operation.is_remote() => Reply::Failure,
            reply => reply,
        };
        Ok(Command { operation, destination, reply, ..*command })
    }
}

/// Posts one command to every other member of a group, in order. Starts at index `done`; `bytes` of
/// that member's payload were taken already.
///
/// If a member's tables refuse a put or an atomic operation, `tell` reports that and the other
/// members are served. `tell` returns whether it was able to report.
pub(crate) fn multicast_by<P: GroupPort>(
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
        match post(port, &one.rest(from)) {
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

/// A member's contribution to a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contribution {
    pub(crate) said: Said,
}

impl Contribution {
    /// The word of the contribution.
    #[inline]
    pub fn word(&self) -> u64 {
        self.said.word
    }

    /// Bytes of payload.
    #[inline]
    pub fn len(&self) -> usize {
        self.said.length as usize
    }

    /// Whether the payload is empty.
    pub fn is_empty(&self) -> bool {
        self.said.length == 0
    }
}

/// The channels that a rank has free for a group, while the members agree on one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelOffer {
    /// A bit for each channel, from channel 0 on.
    pub channels: u64,
    /// The smallest first round that is valid on all of them.
    pub first: u64,
}

impl ChannelOffer {
    /// Bytes of an offer as it is sent.
    pub const BYTES: usize = 16;

    /// The common part of two offers: their channels, and a first round that is valid for both.
    #[must_use]
    pub fn and(self, other: ChannelOffer) -> ChannelOffer {
        let channels = self.channels & other.channels;
        ChannelOffer { channels, first: self.first.max(other.first) }
    }

    /// The channel to join if all members have made this offer; `None`: it has no channel.
    pub fn channel(self) -> Option<u32> {
        (self.channels != 0).then(|| self.channels.trailing_zeros())
    }

    /// The offer as it is sent.
    pub fn to_bytes(self) -> [u8; ChannelOffer::BYTES] {
        let mut bytes = [0; ChannelOffer::BYTES];
        bytes[..8].copy_from_slice(&self.channels.to_le_bytes());
        bytes[8..].copy_from_slice(&self.first.to_le_bytes());
        bytes
    }

    /// Decodes an offer that was received; bytes of another length offer nothing.
    pub fn of_bytes(bytes: &[u8]) -> ChannelOffer {
        let (words, _) = bytes.as_chunks();
        match *words {
            [channels, first] => ChannelOffer {
                channels: u64::from_le_bytes(channels),
                first: u64::from_le_bytes(first),
            },
            _ => ChannelOffer { channels: 0, first: 0 },
        }
    }
}

/// Why an operation on a group failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum GroupError {
    /// The group was not joined, or was left.
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
        /// The number of channels.
        channels: u32,
    },
    /// The channel has a group, or its last group has members that have not finished.
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
        /// The number of ranks.
        size: u32,
    },
    /// The list of members repeats a rank, or lacks this one.
    #[error("a group of rank {rank} has to name it, and everybody, exactly once")]
    Members {
        /// The rank that joins.
        rank: Rank,
    },
    /// The channel has used the first round already, or it exceeds [`LAST_FIRST`].
    #[error("rounds on channel {channel} cannot start at {first}: from {least} to {LAST_FIRST}")]
    FirstRound {
        /// The channel.
        channel: u32,
        /// The first round asked for.
        first: u64,
        /// The smallest valid one.
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
        /// The number of members.
        members: usize,
        /// The limit.
        limit: usize,
    },
    /// There are 128 sync ids.
    #[error("there is no sync id {id}: there are {SYNC_IDS}")]
    NoSuchSyncId {
        /// The id asked for.
        id: u32,
    },
    /// This rank has not seen the last barrier with this id complete.
    #[error("sync id {id} is in progress: see it complete, or take another")]
    SyncInProgress {
        /// The id.
        id: u32,
    },
    /// The group has no such member.
    #[error("the group has no member {place}: it has {members}")]
    NoSuchMember {
        /// The index asked for.
        place: usize,
        /// The number of members.
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
        /// The limit, bytes.
        limit: usize,
    },
    /// The machine has no memory left for the multicast area.
    #[error("the machine has no memory for {wanted} bytes of a group's area (error {code})")]
    NoMemory {
        /// Bytes of the area.
        wanted: u64,
        /// The operating system's error number.
        code: i32,
    },
    /// No room now: some members have not read earlier contributions yet. Retry after parking.
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
    /// A member's line was invalid; its process is broken.
    #[error("rank {rank} contributed nonsense: its process is broken or is not hikyaku")]
    Malformed {
        /// The rank.
        rank: Rank,
    },
}

/// A port whose rank can join others to groups.
pub trait GroupPort: Port {
    /// Declares that the posts until the next call form one chain, or that they do not any more.
    /// For a caller that does not have the commands side by side. Each command is executed like a
    /// single one. In virtual time they cost as much as a chain; elsewhere this has no effect.
    fn set_chained(&mut self, is_open: bool) {
        let _ = is_open;
    }

    /// Registers a set of ranks that contains this one (paper 003 §4.9), on one of the job's
    /// channels: every member takes the same channel, the same list and the same `first`.
    ///
    /// Rounds and barriers are counted from `first` on. `first` is 0 on an unused channel, else at
    /// least the largest value that [`GroupPort::leave`] returned to a member.
    ///
    /// # Errors
    /// [`GroupError`]; nothing was registered.
    fn join(&mut self, channel: u32, ranks: &[Rank], first: u64) -> Result<GroupId, GroupError>;

    /// The channels that this rank could join now and has not offered already: for members that do
    /// not know each other's free channels. Each member offers some. All can join the lowest
    /// channel that all have offered, from the largest of their first rounds on.
    ///
    /// Several groups may be negotiated at once, in another order at each rank. So an offer has
    /// only the free channels whose number modulo [`OFFERS`] equals that of `like`, if there are
    /// any.
    fn offer(&mut self, like: u32) -> ChannelOffer;

    /// Ends an offer: its channels can be offered again.
    fn withdraw(&mut self, offer: ChannelOffer);

    /// Skips rounds that other ranks have begun on some channels (one bit each) and that this rank
    /// does not know of, because its own operation there has failed. The rank counts as having
    /// finished them, and its lines never show one of them. Call this for channels on which this
    /// rank is in no group: those of an offer before it is withdrawn, or of a group it left.
    fn pass_over(&mut self, channels: u64);

    /// Leaves a group. Returns this rank's smallest valid `first` of the channel's next group.
    ///
    /// # Errors
    /// The group was not joined.
    fn leave(&mut self, group: GroupId) -> Result<u64, GroupError>;

    /// A registered group.
    fn group(&self, group: GroupId) -> Option<&RegisteredGroup>;

    /// Posts one command to every other member of a group (CJ-14). The command's own destination is
    /// ignored. A send lands at each member as if posted to it alone. A put
    /// ([`Command::put_through`]) lands where the member's own address register points; the
    /// register advances if it is set to do so (paper 003 §4.9: "DMA with address register"). An
    /// atomic operation is executed at the same address of each member.
    ///
    /// A put or an atomic operation can fail at a member: outside the segment, a register unset or
    /// stale, a member gone. Then nothing is written at that member, and the other members are
    /// served. The sender gets an [`Event::Completed`](super::Event::Completed) with the member and
    /// the error, whatever reply it asked for.
    ///
    /// Begins at index `done`; `bytes` of that member's payload were taken already. Both are zero
    /// at first; a retry passes what the error returned.
    ///
    /// # Errors
    /// Returns how many members were reached, and how many bytes the next one has taken.
    fn multicast(
        &mut self,
        group: GroupId,
        command: &Command<'_>,
        done: usize,
        bytes: usize,
    ) -> Result<(), ChainError>;

    /// Enters the group's next round with a word and a payload that all members can read: up to
    /// [`LINE_BYTES`](crate::ring::LINE_BYTES) in a control line, more in the multicast area. The
    /// payload is the concatenation of the pieces.
    ///
    /// # Errors
    /// [`GroupError::Full`] while members still read the bytes that this would overwrite; park and
    /// retry. On any other error the group cannot do this.
    fn contribute(
        &mut self,
        group: GroupId,
        word: u64,
        payload: &[&[u8]],
    ) -> Result<(), GroupError>;

    /// The contribution of the member at `place` to this rank's current round. `None`: it has not
    /// contributed yet; park and poll again.
    ///
    /// # Errors
    /// The member is gone, or its contribution is invalid.
    fn contribution(
        &mut self,
        group: GroupId,
        place: usize,
    ) -> Result<Option<Contribution>, GroupError>;

    /// Returns, once every member including this one has contributed to this rank's current round,
    /// whether all the others contributed `word`. `None`: park and poll again, with the same word.
    /// A round to which all contribute should end with this.
    ///
    /// # Errors
    /// A member is gone and has not contributed.
    fn all_contributed(&mut self, group: GroupId, word: u64) -> Result<Option<bool>, GroupError>;

    /// Copies a contribution of this round from its byte `from` on, until `into` is full or the
    /// contribution ends. Returns the number of bytes copied.
    fn load_contribution(
        &mut self,
        group: GroupId,
        place: usize,
        contribution: &Contribution,
        from: usize,
        into: &mut [u8],
    ) -> usize;

    /// Ends the round for this rank, which reads no more of its contributions. Call it once a
    /// round, also after an error has ended the round.
    ///
    /// # Errors
    /// The group was not joined; or a member is gone that has not read this rank's contribution. In
    /// the second case the round has ended nevertheless.
    fn finish_round(&mut self, group: GroupId) -> Result<(), GroupError>;

    /// Enters the group's barrier of a sync id (paper 003: sends the sync packet). Does not wait.
    /// Barriers of different ids, [`SYNC_IDS`] per group, may be in progress at once.
    ///
    /// # Errors
    /// The id is in progress, or the group is too large.
    fn sync(&mut self, group: GroupId, id: u32) -> Result<(), GroupError>;

    /// Whether all members have entered the barrier of a sync id; park and poll again if not.
    ///
    /// # Errors
    /// A member is gone and has not entered the barrier.
    fn synced(&mut self, group: GroupId, id: u32) -> Result<bool, GroupError>;

    /// Adds one to the counter of the member at `place` (paper 003's atomic add), which may be this
    /// rank itself. No processor of the member is involved. In one round of counters, every member
    /// adds once to the counter of every member.
    ///
    /// # Errors
    /// The group was not joined, or has no such member.
    fn add(&mut self, group: GroupId, place: usize) -> Result<(), GroupError>;

    /// Adds one to the counters of all members by one command (CJ-15: groups larger than
    /// [`SYNC_MEMBERS`] synchronise by this).
    ///
    /// # Errors
    /// The group was not joined.
    fn add_to_all(&mut self, group: GroupId) -> Result<(), GroupError>;

    /// Whether this rank's counter has all additions of the first `rounds` rounds since it joined;
    /// park and poll again if not.
    ///
    /// # Errors
    /// A member is gone and has not made its additions.
    fn counted(&mut self, group: GroupId, rounds: u64) -> Result<bool, GroupError>;

    /// Whether a rank can be a member of this rank's groups: they share memory.
    fn reaches(&self, rank: Rank) -> bool;
}
