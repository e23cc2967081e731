//! Shared variables that travel with their locks: entry consistency, as in Midway and in paper
//! 001's Fagus.
//!
//! A variable is an array bound to a lock. Acquiring the lock brings the newest contents, and moves
//! data only if the local copy is old. A protocol decides a rank's next operation. It is a value
//! and performs no operation itself.
//!
//! ```text
//!   protocol/   what to do next: direct, fagus, udp     word       the words, bit by bit
//!   geometry    where the words are                     departed   who is gone
//!   parts       how an array is divided among variables  state      the paper's four states
//!   link        reliable messages over lossy datagrams    driver     all this at a rank of a job
//! ```
//!
//! The paper's names: WLOCK, RLOCK, CLEAN and DIRTY are [`CopyState`]; the owner is the node of the
//! newest contents; the LLCM is the control region.

pub mod departed;
pub mod driver;
pub mod geometry;
pub mod link;
pub mod parts;
pub mod protocol;
pub mod state;
pub mod word;

pub use departed::Departed;
pub use geometry::{Geometry, Word, WordPlace};
pub use parts::{Division, PartExtent, Parts, PartsError};
pub use protocol::{
    Account, Copyset, Effect, LETTER_MOST, Letter, Mailbox, MailboxMessage, Style, Want,
};
pub use protocol::{Action, Direct, EntryResult, Free, Left, Patience, Refusal, WordOp};
pub use state::CopyState;
pub use word::{AccessKind, Mark};
