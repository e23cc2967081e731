//! Persistent exchanges in bytes: what is set up once and finishes by itself from its start.
//!
//! `setup.rs` puts the two ends of each edge together, `tables.rs` says what ranks tell each other
//! meanwhile, `relays.rs` combines what goes from node to node, `rounds.rs` starts and waits,
//! `mail.rs` is what goes by letter, `messages.rs` what goes by messages, `staged.rs` is for
//! buffers in ordinary memory, `dense.rs` for collectives of all ranks. On them stands
//! `letters.rs`: exchanges that are not set up, but made again and again.

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
