//! Commands: the requests of a program to its interface.

use super::{Atomic, Get, Key, PostError, Rank, Reply, RingId};

/// The operation that a command requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Land the payload where the *receiving* interface decides (paper 000: IPUSH).
    Send,
    /// Write the payload to the address the sender names (paper 000: PUSH; 003: remote DMA).
    Put(RemoteAddress),
    /// Copy the target's bytes into the requester's own region (paper 003: remote read).
    Get(Get),
    /// Change one integer of the target atomically (paper 003: atomic add, swap, comp&swap).
    Atomic(Atomic),
    /// Do nothing (paper 002: RDMA NOP).
    Nop,
}

impl Operation {
    /// Whether it accesses memory that the sender names, which the target's tables may refuse.
    pub(crate) fn is_remote(&self) -> bool {
        matches!(self, Operation::Put(_) | Operation::Get(_) | Operation::Atomic(_))
    }
}

/// Whether a message of several packets leaves one status record per packet or only one (paper 000
/// §3.3, the one-bit flag of the packet header).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Granularity {
    /// A record per packet. Shared rings need this, and the receiver can start early.
    #[default]
    PerPacket,
    /// One record when the whole message has landed. Refused on shared rings, where another
    /// source's packets may lie between (IP-08).
    PerMessage,
}

/// How a [`Operation::Send`] finds its landing ring.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Route {
    /// The receiver's source table chooses it, indexed with the sender's rank (paper 000 Fig. 1).
    #[default]
    Table,
    /// The sender names the ring: the table-less variant (paper 000 Fig. 2, IP-14).
    Ring(RingId),
}

/// How the target learns of a put, a get or an atomic operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Notification {
    /// It does not learn of it: the receiver polls the data itself.
    #[default]
    None,
    /// A record in the target's status ring, yielded by `poll` as
    /// [`Event::Notified`](super::Event::Notified).
    Status,
    /// An 8-byte store of `value` at `address` (paper 003: the `ntf` word), after the payload.
    Word {
        /// The address of the word; 8-byte aligned.
        address: RemoteAddress,
        /// The value to store.
        value: u64,
    },
}

/// Memory of a rank, as another rank names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RemoteAddress {
    /// The rank that owns the memory.
    pub rank: Rank,
    /// The address space of `offset`.
    pub space: Space,
    /// Byte offset in a region or segment, or virtual address in the process.
    pub offset: u64,
}

/// The address space a [`RemoteAddress`] is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Space {
    /// The rank's registered region: memory allocated through the fabric. Reached by one copy.
    Region,
    /// The process's own virtual memory. Reached through the kernel, where the kernel allows it.
    Process,
    /// A segment of the rank, by its key; `offset` counts from the segment's start. Checked
    /// against the rank's segment table (paper 003 §4.7, CJ-06).
    Segment(Key),
    /// `offset` bytes after the position in an address register of the rank, for puts only (paper
    /// 003: remote DMA with address register). A register that advances takes offset 0.
    Register(Key),
}

/// One request to the interface: what paper 003 calls a parcel header, paper 004 a TCW, verbs a
/// work request.
#[derive(Debug, Clone, Copy)]
pub struct Command<'a> {
    /// The operation.
    pub operation: Operation,
    /// The target rank.
    pub destination: Rank,
    /// Opaque to the interface; carried in the record. The layer above multiplexes by it.
    pub protocol: u8,
    /// Opaque to the interface; carried in the record. Match bits, or an id of the layer above.
    pub header: u64,
    /// The bytes of this post.
    pub payload: &'a [u8],
    /// Length of the whole message, bytes. Equal to `payload.len()` unless sent in parts.
    pub total: u64,
    /// The offset of `payload` in the message, bytes.
    pub offset: u64,
    /// Whether each packet or the whole message leaves a record.
    pub granularity: Granularity,
    /// How its landing ring is chosen. A message inside its status record needs no ring: it arrives
    /// whatever the table says.
    pub route: Route,
    /// Whether this send consumes one of the receiver's credits
    /// ([`Port::grant`](super::Port::grant)).
    pub credited: bool,
    /// Whether this send may overtake earlier posts to the same rank that wait for room. Only whole
    /// messages inside their status records may, and other sends wait behind them. Only a fabric
    /// that accepts sends before it knows whether there is room can use this.
    pub passes: bool,
    /// How the target learns of a put, a get or an atomic operation.
    pub notification: Notification,
    /// How the requester learns that the command is complete.
    pub reply: Reply,
}

impl<'a> Command<'a> {
    /// The rest of the command, after `taken` bytes of its payload.
    #[inline]
    #[must_use]
    pub fn rest(self, taken: usize) -> Command<'a> {
        Command {
            payload: &self.payload[taken..],
            offset: self.offset + taken as u64,
            credited: self.credited && taken == 0,
            ..self
        }
    }

    /// Posts the whole command, in as many parts as `post` requires.
    ///
    /// # Errors
    /// The number of payload bytes that were taken, and why no more were.
    pub fn post_whole(
        &self,
        mut post: impl FnMut(&Command<'_>) -> Result<usize, PostError>,
    ) -> Result<(), (usize, PostError)> {
        let mut taken = post(self).map_err(|error| (0, error))?;
        while taken < self.payload.len() && self.operation != Operation::Nop {
            taken += post(&self.rest(taken)).map_err(|error| (taken, error))?;
        }
        Ok(())
    }

    /// A whole message, landed by the receiver's source table.
    #[inline]
    pub fn send(destination: Rank, protocol: u8, header: u64, payload: &'a [u8]) -> Command<'a> {
        Command {
            operation: Operation::Send,
            destination,
            protocol,
            header,
            payload,
            total: payload.len() as u64,
            offset: 0,
            granularity: Granularity::PerPacket,
            route: Route::Table,
            credited: false,
            passes: false,
            notification: Notification::None,
            reply: Reply::None,
        }
    }

    /// A write to memory the sender names.
    #[inline]
    pub fn put(target: RemoteAddress, payload: &'a [u8]) -> Command<'a> {
        Command { operation: Operation::Put(target), ..Command::send(target.rank, 0, 0, payload) }
    }

    /// A command that completes without effect.
    pub fn nop(destination: Rank) -> Command<'a> {
        Command { operation: Operation::Nop, ..Command::send(destination, 0, 0, &[]) }
    }
}
