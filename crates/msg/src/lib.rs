//! Point-to-point messages over any network interface.
//!
//! This crate turns a [`Port`](hikyaku_nic::fabric::Port) into send and receive with tags,
//! communicator contexts and wildcards. It reads no clock, environment, file or random source and
//! starts no thread: time and waiting come from the port alone, so the same code runs over shared
//! memory, in one process and in virtual time.
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
//! - [`Endpoint`]: the same as futures, for one communicator context.
//! - [`Layout`]: which elements of a slice a message is made of.
//!
//! Invariants kept here and nowhere else:
//!
//! - Messages between two ranks match in the order of their posts (MPI 5.0 §3.5).
//! - An unexpected message stays in its source's landing ring (IP-24). It is copied to ordinary
//!   memory only when this rank waits for something that its source cannot send for want of room.
//! - Memory is bounded: a source may have so many unmatched messages and no more by its credit, and
//!   a rank what [`EngineConfig::unmatched_bytes`] says of them in ordinary memory.
//! - What a peer's packet says is checked before it is used. A packet that makes no sense is
//!   dropped and counted; it never panics and never reaches past a buffer.
//! - Nothing waits for a rank that is gone: its requests end with an error.

mod buffer;
mod config;
mod credit;
mod endpoint;
mod engine;
mod envelope;
mod error;
mod future;
mod layout;
mod line;
mod notes;
mod outbox;
mod parcel;
mod posted;
mod protocol;
mod request;
mod statistics;
mod unexpected;

#[cfg(test)]
mod testing;

pub use buffer::{RecvBuffer, SendBuffer};
pub use config::EngineConfig;
pub use endpoint::Endpoint;
pub use engine::{Blocked, CancelOutcome, Engine};
pub use envelope::{Envelope, Received, Selector, SendMode};
pub use error::MsgError;
pub use future::{RecvFuture, SendFuture, as_one, block_on, block_on_for, join, join_all};
pub use layout::{Layout, LayoutError};
pub use notes::NOTE_MOST;
pub use request::RequestId;
pub use statistics::Statistics;
