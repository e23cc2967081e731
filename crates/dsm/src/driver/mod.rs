//! Shared variables at a rank, as bytes: the protocols, carried out over [`hikyaku_rank`].
//!
//! ```text
//!   Variables   create, vote     all ranks make a variable, or none; find it; keep its memory
//!   Variable    variable, asking enter a part: at once, or ask and wait; its contents; release
//!                  |        \
//!               direct    service     carry out what a protocol says, by atomics or by letters
//!                  |        /
//!               memory, contents      words and bytes of all ranks
//! ```
//!
//! The rest of this crate is values, which a simulated machine and an explorer drive as well. Only
//! this module has memory, messages and time.

mod asking;
mod contents;
mod create;
mod direct;
mod error;
mod faults;
mod memory;
mod options;
mod service;
mod variable;
mod vote;

pub use asking::Asking;
pub use contents::CopyContents;
pub use create::Variables;
pub use error::{Error, SharedError};
pub use faults::ProtocolFault;
pub use options::{Element, Protocol, Settings, SharedOptions, Traffic, UnknownProtocol};
pub use variable::Variable;
