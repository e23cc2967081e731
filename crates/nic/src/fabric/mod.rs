//! The boundary between a program's side of the interface and the transport of its messages.
//!
//! A *fabric* is an implementation: loopback (one process), `shm` (one host, in real or in virtual
//! time), or the port of `rank`, which adds other hosts through `ofi`. Opening it gives each rank a
//! [`Port`]. Everything above (`msg`, and through it the whole system) sees only what is in this
//! folder.
//!
//! ```text
//!   sender                                      receiver
//!   ------                                      --------
//!   post(Command::send) ──► source table ──► landing ring ──► status ring ──► poll() = Landed
//!        "IPUSH": no remote address; the receiving interface chooses where it lands
//!   post(Command::put)  ──► the address it names ─────────► (notification) ──► poll() = Notified
//!        "PUSH": the sender names the address; get and atomic operations do so too (`remote`)
//! ```
//!
//! Rules that hold for every fabric, and that the conformance suite (`tests/conformance`) checks:
//!
//! - A payload is borrowed only for the call: when `post` returns, the buffer is the caller's.
//! - Full is a normal answer. `post` never blocks and never buffers without bound.
//! - Between one sender and one ring, records appear in the order of the posts; `poll` yields the
//!   records of all sources in the order in which they arrived.
//! - Commands to one destination take effect in the order of the posts.
//! - A command that its target's tables do not allow writes nothing and is an error at its sender.
//! - A record is visible only after its payload; a notification only after what it announces.
//! - No call hangs: `park` returns, at the latest, at its deadline or when a peer dies.

mod arithmetic;
mod command;
mod copy;
mod error;
mod event;
mod group;
mod mail;
mod port;
mod queue;
mod remote;
mod state;

pub use arithmetic::{Arithmetic, Combining, NumberType};
pub use command::{Command, Granularity, Notification, Operation, RemoteAddress, Route, Space};
pub use copy::{CopyPort, JointCopy, LentAddress};
pub use error::{ChainError, DeathCause, FullCause, PeerFailure, PostError, TableError};
pub use event::{Event, Inline, Landed, Landing, Notified, RingSlice};
#[cfg_attr(loom, expect(unused_imports, reason = "only hosts multicast"))]
pub(crate) use group::multicast_by;
pub use group::{
    ChannelOffer, Contribution, GroupError, GroupId, GroupPort, LAST_FIRST, OFFERS,
    RegisteredGroup, SYNC_IDS, SYNC_MEMBERS,
};
pub use mail::{MailEnd, MailboxAddress, MailboxId, MailboxPort};
pub use port::{Port, RingPort};
pub use queue::{
    Completion, QueueAddress, QueueCombine, QueueCommand, QueueError, QueueFault, QueueId,
    QueueMode, QueuePort, QueuePut, QueueState,
};
pub use remote::{
    Advance, Atomic, AtomicOp, Completed, ContextError, ContextId, Fault, Get, Integer, Key,
    Member, MemoryPort, REGISTERS, RegisterValue, Reply, Rights,
};
pub use state::{
    Activity, Capabilities, DropCause, DroppedPackets, FullPolicy, Name, PeerState, RingState,
    Short, Unmatched, Wait, Wake,
};

/// A process of the job, `0..size` (MPI 5.0 §2.7; paper 000's "process ID").
pub type Rank = u32;

/// Index of a landing ring of one rank (paper 000: the address of an AMT entry).
pub type RingId = u32;

/// Payload bytes that fit the status record itself: a 64-byte line less the stamp, the header and
/// the arrival time (design decision 2).
pub const INLINE_BYTES: usize = 40;

/// Payload bytes that fit status records alone: the first record's, and those of four more records,
/// which hold a stamp and otherwise only payload.
pub const SHORT_BYTES: usize = INLINE_BYTES + 4 * 56;
