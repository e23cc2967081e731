//! The words of remote operations: what is read, written or changed at another rank, by which key,
//! and how both sides learn that it has been done.
//!
//! ```text
//!   requester                                   target
//!   ---------                                   ------
//!   Command::put    key, offset, payload ─────► segment table ─► bytes ─► notification
//!   Command::put    register key, payload ────► address register ─► segment table ─► bytes
//!   Command::get    key, offset, length  ─────► segment table ─► bytes ─┐
//!        own region ◄────────────────────────────────────────────────────┘
//!   Command::atomic key, offset, operand ─────► segment table ─► one word changed
//!        old value ◄───────────────────────────────────────────┘
//!   completion: an event or a word in the requester's region, after the reply
//! ```
//!
//! These are the protocols of paper 003, Table 1 (remote DMA with and without address register,
//! remote read, atomic add, swap, comp&swap), with the fetching operations of MPI 5.0 §12.3.4
//! beside them. None of them needs the target's processor (CJ-03, CJ-11).

use std::fmt;
use std::ops::BitOr;

use thiserror::Error;

use super::{Command, Operation, Rank, RemoteAddress};

/// A context of one rank: what paper 003 calls a cid. Segments and address registers belong to a
/// context, and a key of one opens nothing in another (CJ-05).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContextId(pub u8);

impl fmt::Display for ContextId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The name of a segment, or of an address register, of some rank: what verbs calls an rkey.
///
/// It is a value, to be sent to whoever may use it. The target checks it at each use: a key
/// outlives what it names, but opens nothing any more, since the generation has moved on. It is
/// no secret: it protects against stale and wrong addresses, not against guessing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// Whose table it is in.
    pub context: ContextId,
    /// Which entry of it, or which address register.
    pub index: u8,
    /// Which use of that entry, counted from 1; of a register: which use of the context.
    pub generation: u32,
}

impl Key {
    /// The key as one word, to be sent.
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index) << 8 | u64::from(self.context.0)
    }

    /// The key in a word; `None` if it is none. What the key opens is another question.
    pub fn from_bits(bits: u64) -> Option<Key> {
        let context = ContextId(bits as u8);
        let key = Key { context, index: (bits >> 8) as u8, generation: (bits >> 32) as u32 };
        (key.to_bits() == bits).then_some(key)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Key { context, index, generation } = self;
        write!(f, "{context}:{index}:{generation}")
    }
}

/// What a key allows.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rights(u8);

impl Rights {
    /// To copy bytes out of the segment.
    pub const READ: Rights = Rights(1);
    /// To store bytes in it: put, also through an address register, and notification words.
    pub const WRITE: Rights = Rights(2);
    /// To change words of it by [`Atomic`] operations.
    pub const ATOMIC: Rights = Rights(4);
    /// All of them.
    pub const ALL: Rights = Rights(7);

    /// Whether all of `wanted` is allowed.
    pub fn contains(self, wanted: Rights) -> bool {
        self.0 & wanted.0 == wanted.0
    }

    /// The rights as bits.
    pub fn bits(self) -> u8 {
        self.0
    }

    /// The rights among these bits.
    pub fn from_bits(bits: u8) -> Rights {
        Rights(bits & Rights::ALL.0)
    }
}

impl BitOr for Rights {
    type Output = Rights;

    fn bitor(self, other: Rights) -> Rights {
        Rights(self.0 | other.0)
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [(Rights::READ, "read"), (Rights::WRITE, "write"), (Rights::ATOMIC, "atomic")];
        let mut first = true;
        for (_, name) in names.iter().filter(|(right, _)| self.contains(*right)) {
            f.write_str(if first { "" } else { "+" })?;
            f.write_str(name)?;
            first = false;
        }
        f.write_str(if first { "none" } else { "" })
    }
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rights({self})")
    }
}

/// The integers that atomic operations work on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Integer {
    /// 32 bits without sign.
    U32,
    /// 32 bits with sign.
    I32,
    /// 64 bits without sign.
    U64,
    /// 64 bits with sign.
    I64,
}

impl Integer {
    /// Its size, bytes; it has to be aligned to that.
    pub fn size(self) -> u64 {
        match self {
            Integer::U32 | Integer::I32 => 4,
            Integer::U64 | Integer::I64 => 8,
        }
    }

    /// The bits of it that count.
    pub fn truncate(self, value: u64) -> u64 {
        if self.size() == 4 { u64::from(value as u32) } else { value }
    }
}

/// What is done to one integer, undivided. Sums wrap around.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AtomicOp {
    /// Nothing: the value is read as one (MPI_NO_OP).
    Load,
    /// The operand is added (paper 003: atomic add).
    Add,
    /// The operand takes its place (paper 003: swap).
    Swap,
    /// The operand takes its place if it equals `expected` (paper 003: comp&swap). The old value
    /// says whether it did.
    CompareSwap {
        /// What must be there.
        expected: u64,
    },
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
    /// The smaller of the two, by the integer's sign.
    Min,
    /// The larger of the two, by the integer's sign.
    Max,
}

/// An atomic operation on an integer in another rank's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Atomic {
    /// Where the integer is; aligned to its size.
    pub target: RemoteAddress,
    /// What it is.
    pub integer: Integer,
    /// What is done to it.
    pub operation: AtomicOp,
    /// The other operand; of a 32-bit integer the low half counts.
    pub operand: u64,
    /// Where the old value goes: an offset in the requester's own region, aligned like the target.
    /// `None`: nowhere, or into the completion event.
    pub result: Option<u64>,
}

/// A read of another rank's memory into the requester's own region (paper 003: remote read).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Get {
    /// Where to read; the rank in it is the command's destination.
    pub from: RemoteAddress,
    /// Where it goes: an offset in the requester's own region, bytes.
    pub into: u64,
    /// How many bytes.
    pub length: u64,
}

/// How the *requester* learns that its command has been done: for a read or an atomic operation
/// when the reply is in its memory, for others when the payload is in the target's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reply {
    /// Not at all.
    #[default]
    None,
    /// By [`Event::Completed`](super::Event::Completed), with the command's header. At most
    /// [`Capabilities::outstanding`](super::Capabilities::outstanding) such commands may be
    /// without their event having been polled (paper 003's rrid and its counter, CJ-12): beyond
    /// that `post` answers full.
    Event,
    /// By [`Event::Completed`](super::Event::Completed) if nothing was done, and else not at all:
    /// for commands of which [`post`](super::Port::post) does not answer for each, such as those of
    /// a multicast. Counts among the outstanding as [`Reply::Event`] does.
    Failure,
    /// By an 8-byte store in the requester's own region (paper 003: the pattern at `ntf`, CJ-10).
    Word {
        /// Offset in the region; 8-byte aligned.
        offset: u64,
        /// What is stored there.
        value: u64,
    },
}

impl Reply {
    /// Whether an event tells of a failure.
    #[cfg_attr(loom, expect(dead_code, reason = "only hosts execute commands"))]
    pub(crate) fn tells_failure(self) -> bool {
        matches!(self, Reply::Event | Reply::Failure)
    }
}

/// A command with [`Reply::Event`] has been done, or one with that or [`Reply::Failure`] came to
/// nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completed {
    /// To which rank it was posted.
    pub destination: Rank,
    /// [`Command::protocol`] as posted.
    pub protocol: u8,
    /// [`Command::header`] as posted.
    pub header: u64,
    /// Of an atomic operation the old value, of others how many bytes went over; or why nothing
    /// has been done.
    pub outcome: Result<u64, super::PostError>,
}

/// Whether an address register moves on with what lands through it.
///
/// Paper 003 does not say, so both are here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Advance {
    /// It stays until its rank sets it anew: every put lands at the same place.
    #[default]
    Hold,
    /// By the length of each put, in one step with taking the place: puts of several ranks lie
    /// side by side in the order in which they took their places. One that does not fit in what
    /// is left of the segment is refused as out of bounds and moves nothing.
    ByLength,
}

/// What an address register says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegisterValue {
    /// A segment of the register's context.
    pub segment: Key,
    /// Where in it the next put lands, bytes.
    pub offset: u64,
    /// Whether that moves on.
    pub advance: Advance,
}

/// One member of a node table: where a logical number leads (CJ-04).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Member {
    /// The rank of the job: paper 003's physical node.
    pub rank: Rank,
    /// Its context for this purpose; members need not agree on one number.
    pub context: ContextId,
}

/// Why a target's tables did not let an access through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Fault {
    /// There is no such entry, or nothing is registered in it.
    #[error("its context {} has no segment {}: nothing is registered there", .0.context, .0.index)]
    NoSuchSegment(Key),
    /// The context is not open or has no such register.
    #[error("its context {} is not open, or has no address register {}", .0.context, .0.index)]
    NoSuchRegister(Key),
    /// The entry is in use again for something else.
    #[error("the key {0} is stale: it was taken back and its place used again")]
    Stale(Key),
    /// The segment does not allow that.
    #[error("the segment allows {granted}, not {wanted}")]
    Rights {
        /// What the operation needs.
        wanted: Rights,
        /// What the segment allows.
        granted: Rights,
    },
    /// The address register points nowhere.
    #[error("its address register {} is not set", .0.index)]
    RegisterUnset(Key),
}

/// Why a rank's own contexts, segments or registers could not be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ContextError {
    /// All are open.
    #[error("all {contexts} contexts of this rank are open: close one first")]
    NoContextFree {
        /// How many there are.
        contexts: u32,
    },
    /// It is not open.
    #[error("context {0} is not open")]
    NotOpen(ContextId),
    /// It has segments.
    #[error("context {context} still has {segments} segments: deregister them first")]
    InUse {
        /// The context.
        context: ContextId,
        /// Segments registered or being taken back.
        segments: usize,
    },
    /// Its table is full.
    #[error("context {context} has all of its {segments} segments registered")]
    NoSegmentFree {
        /// The context.
        context: ContextId,
        /// Entries of its table.
        segments: u32,
    },
    /// The bytes are not memory that peers reach.
    #[error("{length} bytes at {offset} are not within this rank's region of {region} bytes")]
    NotInRegion {
        /// First byte.
        offset: u64,
        /// How many.
        length: u64,
        /// Bytes of the region.
        region: u64,
    },
    /// A segment that allows nothing.
    #[error("a segment needs at least one right")]
    NoRights,
    /// The key names nothing that is registered now.
    #[error("the key {0} names nothing that is registered")]
    NoSuchSegment(Key),
    /// A peer is in the middle of an access: the memory is not free yet. Ask again.
    #[error("rank {rank} is in the middle of an access to the segment: ask again")]
    Busy {
        /// The peer.
        rank: Rank,
    },
    /// There are three.
    #[error("there is no address register {0}: a context has {count}", count = REGISTERS)]
    NoSuchRegister(u8),
    /// A register can point into its own context and segment only.
    #[error("offset {offset} is not within the segment {segment} of this context")]
    BadRegisterValue {
        /// The segment.
        segment: Key,
        /// The offset asked for.
        offset: u64,
    },
    /// A node table would name something that cannot be.
    #[error(
        "member {index} would be context {} of rank {}, which cannot be",
        .member.context,
        .member.rank
    )]
    BadMember {
        /// Its logical number.
        index: usize,
        /// What it would be.
        member: Member,
    },
    /// This fabric has none.
    #[error("this fabric has no contexts")]
    Unsupported,
}

/// Address registers of a context (paper 003 §4.5: 0, 1 and 2).
pub const REGISTERS: u8 = 3;

impl<'a> Command<'a> {
    /// A put through this address register of each member of a group: for
    /// [`Port::multicast`](super::Port::multicast), which fills in the rank and the context.
    pub fn put_through(register: u8, payload: &'a [u8]) -> Command<'a> {
        let key = Key { context: ContextId(0), index: register, generation: 0 };
        Command::put(
            RemoteAddress { rank: 0, space: super::Space::Register(key), offset: 0 },
            payload,
        )
    }
}

impl Command<'static> {
    /// A read of `length` bytes at `from` to offset `into` of this rank's own region.
    pub fn get(from: RemoteAddress, into: u64, length: u64) -> Command<'static> {
        let operation = Operation::Get(Get { from, into, length });
        Command { operation, ..Command::nop(from.rank) }
    }

    /// An atomic operation.
    pub fn atomic(atomic: Atomic) -> Command<'static> {
        Command { operation: Operation::Atomic(atomic), ..Command::nop(atomic.target.rank) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_a_word_and_nonsense_is_none() {
        let key = Key { context: ContextId(255), index: 7, generation: u32::MAX };
        assert_eq!(Key::from_bits(key.to_bits()), Some(key));
        assert_eq!(Key::from_bits(1 << 16), None);
        assert_eq!(key.to_string(), "255:7:4294967295");
    }

    #[test]
    fn rights_are_told_by_name() {
        assert_eq!((Rights::READ | Rights::ATOMIC).to_string(), "read+atomic");
        assert_eq!(Rights::from_bits(0xf8).to_string(), "none");
        assert!(Rights::ALL.contains(Rights::READ | Rights::WRITE));
        assert!(!Rights::READ.contains(Rights::WRITE));
    }
}
