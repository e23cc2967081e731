//! Persistent exchanges in bytes: what is set up once and finishes by itself from its start.
//!
//! `setup.rs` puts the two ends of each edge together, `tables.rs` says what ranks tell each other
//! meanwhile, `rounds.rs` starts and waits, `mail.rs` is what goes by letter.

mod error;
mod mail;
mod rounds;
mod setup;
mod tables;

pub use error::PersistentError;
pub use rounds::Rounds;
pub use setup::{Checked, End, Out, Places, Use, Wiring, set_up};
