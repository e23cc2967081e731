//! Persistent exchanges in bytes: set up once, each completes by itself after its start.
//!
//! `setup.rs` matches the two ends of each edge, with the announcements in `tables.rs`; `relays.rs`
//! combines data from node to node; `rounds.rs` starts and waits. `mail.rs` has the data in
//! letters, `messages.rs` the data in messages, `staged.rs` buffers in ordinary memory, `dense.rs`
//! collectives of all ranks. `letters.rs` builds on them: exchanges that are not set up, but
//! repeated.

mod dense;
mod error;
mod letters;
mod mail;
mod messages;
mod relays;
mod rounds;
mod setup;
mod staged;
mod tables;

pub use dense::{DenseCall, DenseOperation, DenseRounds};
pub use error::PersistentError;
pub use letters::{Correspondence, EdgeBlocks, Letters, NEIGHBOURS, is_long};
pub use mail::{ExchangeSink, ExchangeSource};
pub use rounds::Rounds;
pub use setup::{Checked, EdgeEnd, Places, Terms, Use, set_up};
pub use staged::StagedRounds;
