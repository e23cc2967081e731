//! Remote operations: puts, gets and atomic operations on another rank's memory, their keys, and
//! the completion reports for both sides.
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

use super::{Command, Operation, Port, PostError, Rank, RemoteAddress};
use crate::region::{RegionBuffer, RegionError};

/// A context of one rank: paper 003's cid. Segments and address registers belong to a context, and
/// a key of one context is invalid in another (CJ-05).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContextId(pub u8);

impl fmt::Display for ContextId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The name of a segment or of an address register of some rank: the rkey of verbs.
///
/// It is a value, sent to the ranks that may use it. The target checks it at each use. A key may
/// outlive its segment; then it is invalid, because the generation has advanced. A key is not
/// secret: it protects against stale and wrong addresses, not against guessing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// The context whose table it belongs to.
    pub context: ContextId,
    /// The index of the table entry or of the address register.
    pub index: u8,
    /// The number of the use of that entry, counted from 1. For a register: of the context.
    pub generation: u32,
}

impl Key {
    /// The key as one word, to send.
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index) << 8 | u64::from(self.context.0)
    }

    /// Decodes a key; `None` if invalid. Only the target's table decides whether it grants access.
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

/// The accesses that a key allows.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rights(u8);

impl Rights {
    /// Copying bytes out of the segment.
    pub const READ: Rights = Rights(1);
    /// Storing bytes in it: puts, also through an address register, and notification words.
    pub const WRITE: Rights = Rights(2);
    /// Changing words in it by [`Atomic`] operations.
    pub const ATOMIC: Rights = Rights(4);
    /// All rights.
    pub const ALL: Rights = Rights(7);

    /// Whether all of `wanted` is granted.
    pub fn contains(self, wanted: Rights) -> bool {
        self.0 & wanted.0 == wanted.0
    }

    /// The rights as bits.
    pub fn bits(self) -> u8 {
        self.0
    }

    /// The rights in these bits.
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
    /// Its size, bytes, which is also its alignment.
    pub fn size(self) -> u64 {
        match self {
            Integer::U32 | Integer::I32 => 4,
            Integer::U64 | Integer::I64 => 8,
        }
    }

    /// Keeps the low bits of `value` that the integer has.
    pub fn truncate(self, value: u64) -> u64 {
        if self.size() == 4 { u64::from(value as u32) } else { value }
    }
}

/// The atomic change of one integer. Sums wrap around.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AtomicOp {
    /// No change: the integer is read atomically (MPI_NO_OP).
    Load,
    /// The operand is added (paper 003: atomic add).
    Add,
    /// The operand replaces the integer (paper 003: swap).
    Swap,
    /// The operand replaces the integer if that equals `expected` (paper 003: comp&swap). The old
    /// value shows whether it did.
    CompareSwap {
        /// The value it must have.
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
    /// The address of the integer; aligned to its size.
    pub target: RemoteAddress,
    /// Its type.
    pub integer: Integer,
    /// The change.
    pub operation: AtomicOp,
    /// The other operand; a 32-bit integer uses the low half.
    pub operand: u64,
    /// Where to store the old value: an offset in the requester's own region, aligned like the
    /// target. `None`: only in the completion event, if there is one.
    pub result: Option<u64>,
}

/// A read of another rank's memory into the requester's own region (paper 003: remote read).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Get {
    /// The source address; its rank is the command's destination.
    pub from: RemoteAddress,
    /// The destination: an offset in the requester's own region, bytes.
    pub into: u64,
    /// The number of bytes.
    pub length: u64,
}

/// How the *requester* learns that its command is complete. A read or an atomic operation is
/// complete when the reply is in its memory, others when the payload is in the target's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reply {
    /// It does not learn of it.
    #[default]
    None,
    /// By [`Event::Completed`](super::Event::Completed), with the command's header. At most
    /// [`Capabilities::outstanding`](super::Capabilities::outstanding) such commands may have an
    /// unpolled event (paper 003's rrid and its counter, CJ-12). Beyond that `post` returns full.
    Event,
    /// By [`Event::Completed`](super::Event::Completed) on failure, and no event on success. For
    /// commands whose [`post`](super::Port::post) does not return a result for each, as in a
    /// multicast. Counts as outstanding, like [`Reply::Event`].
    Failure,
    /// By an 8-byte store in the requester's own region (paper 003: the pattern at `ntf`, CJ-10).
    Word {
        /// Offset in the region; 8-byte aligned.
        offset: u64,
        /// The value to store.
        value: u64,
    },
}

impl Reply {
    /// Whether an event reports a failure.
    pub fn tells_failure(self) -> bool {
        matches!(self, Reply::Event | Reply::Failure)
    }
}

/// A command with [`Reply::Event`] is complete or has failed, or one with [`Reply::Failure`] has
/// failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completed {
    /// The rank it was posted to.
    pub destination: Rank,
    /// [`Command::protocol`] as posted.
    pub protocol: u8,
    /// [`Command::header`] as posted.
    pub header: u64,
    /// The old value of an atomic operation, the bytes transferred by any other; or the error.
    pub outcome: Result<u64, super::PostError>,
}

/// Whether an address register advances past the data that lands through it.
///
/// Paper 003 does not say, so both variants are here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Advance {
    /// It stays until its rank sets it: every put lands at the same place.
    #[default]
    Hold,
    /// It advances by the length of each put, in the same step that reserves the place. Puts of
    /// several ranks lie side by side in the order of their reservations. A put that does not fit
    /// the rest of the segment is refused as out of bounds and does not advance it.
    ByLength,
}

/// The value of an address register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegisterValue {
    /// A segment of the register's context.
    pub segment: Key,
    /// The offset in the segment where the next put lands, bytes.
    pub offset: u64,
    /// Whether that offset advances.
    pub advance: Advance,
}

/// One member of a node table: the rank and context of a logical number (CJ-04).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Member {
    /// The rank of the job: paper 003's physical node.
    pub rank: Rank,
    /// Its context for this purpose; members may use different context numbers.
    pub context: ContextId,
}

/// Why a target's tables refused an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Fault {
    /// There is no such entry, or it has no registered segment.
    #[error("its context {} has no segment {}: nothing is registered there", .0.context, .0.index)]
    NoSuchSegment(Key),
    /// The context is not open or has no such register.
    #[error("its context {} is not open, or has no address register {}", .0.context, .0.index)]
    NoSuchRegister(Key),
    /// The entry has been reused for something else.
    #[error("the key {0} is stale: it was taken back and its place used again")]
    Stale(Key),
    /// The segment does not grant the access.
    #[error("the segment allows {granted}, not {wanted}")]
    Rights {
        /// The access that the operation needs.
        wanted: Rights,
        /// The access that the segment grants.
        granted: Rights,
    },
    /// The address register is not set.
    #[error("its address register {} is not set", .0.index)]
    RegisterUnset(Key),
}

/// Why a change to a rank's own contexts, segments or registers failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ContextError {
    /// All contexts are open.
    #[error("all {contexts} contexts of this rank are open: close one first")]
    NoContextFree {
        /// The number of contexts.
        contexts: u32,
    },
    /// The context is not open.
    #[error("context {0} is not open")]
    NotOpen(ContextId),
    /// The context has segments.
    #[error("context {context} still has {segments} segments: deregister them first")]
    InUse {
        /// The context.
        context: ContextId,
        /// Segments registered or being taken back.
        segments: usize,
    },
    /// The context's segment table is full.
    #[error("context {context} has all of its {segments} segments registered")]
    NoSegmentFree {
        /// The context.
        context: ContextId,
        /// Entries of its table.
        segments: u32,
    },
    /// The bytes are outside the memory that peers can reach.
    #[error("{length} bytes at {offset} are not within this rank's region of {region} bytes")]
    NotInRegion {
        /// First byte.
        offset: u64,
        /// The number of bytes.
        length: u64,
        /// Bytes of the region.
        region: u64,
    },
    /// The segment would have no rights.
    #[error("a segment needs at least one right")]
    NoRights,
    /// The key does not name a registered segment.
    #[error("the key {0} names nothing that is registered")]
    NoSuchSegment(Key),
    /// A peer is within an access: the memory is not free yet. Retry.
    #[error("rank {rank} is in the middle of an access to the segment: ask again")]
    Busy {
        /// The peer.
        rank: Rank,
    },
    /// There are three registers.
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
    /// A member of a node table would be invalid.
    #[error(
        "member {index} would be context {} of rank {}, which cannot be",
        .member.context,
        .member.rank
    )]
    BadMember {
        /// Its logical number.
        index: usize,
        /// The invalid member.
        member: Member,
    },
}

/// Address registers of a context (paper 003 §4.5: 0, 1 and 2).
pub const REGISTERS: u8 = 3;

impl<'a> Command<'a> {
    /// A put through this address register of each member of a group: for
    /// [`GroupPort::multicast`](super::GroupPort::multicast), which fills in rank and context.
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

/// A port with memory that its peers name by keys, and with the commands that reach theirs.
pub trait MemoryPort: Port {
    /// Allocates `bytes` of this rank's region, memory that peers reach by one copy.
    ///
    /// # Errors
    /// There is no region, or it has no room left.
    fn allocate(&mut self, bytes: usize) -> Result<RegionBuffer, RegionError>;

    /// Opens a context of this rank: an empty segment table, an empty node table and three address
    /// registers (paper 003 §4.7).
    ///
    /// # Errors
    /// All contexts are open.
    fn open_context(&mut self) -> Result<ContextId, ContextError>;

    /// Closes a context. Keys of its registers become invalid.
    ///
    /// # Errors
    /// It is not open, or has segments.
    fn close_context(&mut self, context: ContextId) -> Result<(), ContextError>;

    /// Fills the node table of a context: logical number `n` is `members[n]` from now on.
    ///
    /// # Errors
    /// The context is not open, or a member is invalid; nothing has changed.
    fn connect(&mut self, context: ContextId, members: &[Member]) -> Result<(), ContextError>;

    /// The member behind a logical number of a context (CJ-04).
    ///
    /// # Errors
    /// [`PostError::NoSuchMember`] if the number is beyond the node table. The node table of a
    /// closed context is empty.
    fn member(&self, context: ContextId, logical: u32) -> Result<Member, PostError>;

    /// Makes `length` bytes from `offset` of this rank's region a segment that holders of the key
    /// may access as `rights` say.
    ///
    /// The bytes must stay allocated until [`MemoryPort::deregister`] succeeds: the fabric does not
    /// know their owner.
    ///
    /// # Errors
    /// The context is not open, its table is full, or the bytes are not within the region.
    fn register(
        &mut self,
        context: ContextId,
        offset: u64,
        length: u64,
        rights: Rights,
    ) -> Result<Key, ContextError>;

    /// Deregisters a segment. The first call bars new accesses; the memory is free once a call
    /// returns `Ok`.
    ///
    /// # Errors
    /// [`ContextError::Busy`] while an earlier access of a peer is still running: call again, with
    /// [`Port::park`] in between. A peer known to be dead does not delay it.
    fn deregister(&mut self, key: Key) -> Result<(), ContextError>;

    /// [`Operation::Get`] into the caller's memory; complete on return. For fabrics on which the
    /// requester itself executes commands.
    ///
    /// # Errors
    /// As [`Port::post`].
    fn get(&mut self, from: RemoteAddress, into: &mut [u8]) -> Result<(), PostError>;

    /// [`Operation::Atomic`]: returns the old value; complete on return. For fabrics on which the
    /// requester itself executes commands.
    ///
    /// # Errors
    /// As [`Port::post`].
    fn fetch(&mut self, atomic: &Atomic) -> Result<u64, PostError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_round_trip_and_invalid_words_are_refused() {
        let key = Key { context: ContextId(255), index: 7, generation: u32::MAX };
        assert_eq!(Key::from_bits(key.to_bits()), Some(key));
        assert_eq!(Key::from_bits(1 << 16), None);
        assert_eq!(key.to_string(), "255:7:4294967295");
    }

    #[test]
    fn rights_print_by_name() {
        assert_eq!((Rights::READ | Rights::ATOMIC).to_string(), "read+atomic");
        assert_eq!(Rights::from_bits(0xf8).to_string(), "none");
        assert!(Rights::ALL.contains(Rights::READ | Rights::WRITE));
        assert!(!Rights::READ.contains(Rights::WRITE));
    }
}
