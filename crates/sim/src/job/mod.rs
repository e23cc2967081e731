//! Jobs: ranks as async tasks that exchange messages in virtual time.
//!
//! ```text
//!   program of a rank (async fn)
//!        |  send, recv, compute          Rank
//!        v
//!   matching, host's costs               Job        one per simulated job
//!        |  Parcel                          ^ departed, delivered
//!        v                                  |
//!   a modelled interface, or PlainInterface: packets    (trait Carrier)
//!        |  Packet                          ^
//!        v                                  |
//!   Network                                 |        wormhole, cut-through, LogGP
//!        +----------------------------------+
//! ```
//!
//! **A rank's own time.** The engine's clock is the time of the network; a rank's processor may be
//! further ahead. A call that only costs time (`compute`, the overhead of a send) moves the rank's
//! own time and schedules no event. The rank is held back only where it needs something from
//! others, that is where it waits for a message. So a message costs the engine its arrival and
//! nothing else. This is exact, not an approximation: the order of the receives and the order of
//! the arrivals decide the matching, not how the two interleave; and a message that the rank hands
//! to the network ahead of time is held until that time.
//!
//! A rank that never waits would run arbitrarily far ahead and fill memory with messages, so a
//! blocking send joins the engine's time every [`AHEAD`] messages.
//!
//! Matching is MPI's (MPI 5.0 §3.5): by source and tag, wildcards allowed, messages between two
//! ranks in order. A message is matched when its last byte has arrived.

mod carrier;
mod config;
mod matching;
mod plain;
mod rank;
mod receiving;
mod request;
mod state;

pub use carrier::{Carrier, Coming, Consignee, Multicast, Parcel};
pub use config::{HostCosts, JobConfig, MemoryPath, Payload};
pub use plain::{PacketFormat, PlainInterface};
pub use rank::{Content, Entered, Rank};
pub use request::{ReceivedMessage, RecvRequest, SendRequest, WaitAll};
pub use state::{ChainPlace, Job, JobReport, JobResults, Totals, Usage};

/// How many blocking sends a rank may be ahead of the engine.
pub const AHEAD: u32 = 64;
