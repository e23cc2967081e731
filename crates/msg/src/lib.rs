//! Point-to-point messages over any network interface.
//!
//! This crate turns a [`Port`](hikyaku_nic::fabric::Port) into send and receive with tags,
//! communicator contexts and wildcards. It reads no clock, environment, file or random source and
//! starts no thread: only the port has a clock and can wait. So the same code runs over shared
//! memory, in one process and in virtual time.
//! one process and in virtual time.
//!
//! ```text
//!   send ─► envelope ─► eager: packets ─────────────► landing ring ─► posted receive? ─► buffer
//!              │                                                        │ none
//!              │                                                        ▼
//!              │                                             unexpected queue (the ring itself)
//!              └──────► rendezvous: RTS ──► matched ──► read the sender's memory, FIN
//!                                             └───────► CTS ──► DATA packets ──► buffer
//! ```
//!
//! - [`Engine`]: one rank's state; blocking calls, requests, probe, cancel.
//! - [`ContextEndpoint`]: the same operations as futures, for one communicator context.
//! - [`Layout`]: the elements of a slice that form a message.
//!
//! Invariants kept here and nowhere else:
//!
//! - Messages between two ranks match in the order of their posts (MPI 5.0 §3.5).
//! - An unexpected message stays in its source's landing ring (IP-24). It is copied to ordinary
//!   memory only when this rank waits for a message that its source has no room to send.
//! - Memory is bounded: credit limits the unmatched messages of a source, and
//!   [`EngineConfig::unmatched_bytes`] those in ordinary memory of a rank.
//! - A peer's packet is checked before use. An invalid packet is dropped and counted; it never
//!   panics and never reaches past a buffer.
//! - Nothing waits for a departed rank: its requests end with an error.

mod buffer;
mod config;
mod credit;
mod ended;
mod endpoint;
mod engine;
mod envelope;
mod error;
mod future;
mod late;
mod layout;
mod line;
mod members;
mod notes;
mod outbox;
mod parcel;
mod posted;
mod protocol;
mod request;
mod statistics;
mod tally;
mod traffic;
mod unexpected;
mod ways;

#[cfg(test)]
mod testing;

pub use buffer::{PACKET, Pieces, RecvBuffer, Scattered, SendBuffer};

pub use config::{EngineConfig, SenderChoice};
pub use endpoint::ContextEndpoint;
pub use engine::{Blocked, CancelOutcome, Engine, MEMORY_SLEEP, Pace, Wanted, end_of_doze};
pub use envelope::{Envelope, Received, Selector, SendMode};
pub use error::MsgError;
pub use future::{
    RecvFuture, ScatteredFuture, SendFuture, as_one, block_on, block_on_for, drive, join, join_all,
};
pub use layout::{Layout, LayoutError};
pub use members::Members;
pub use notes::{Answerer, NOTE_MOST};
pub use request::RequestId;
pub use statistics::Statistics;
pub use tally::WayTally;
pub use ways::{LongMessages, NotAWay, Way};
