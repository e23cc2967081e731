//! The protocols, as values: given the last answer, they return the next step.
//!
//! ```text
//!   request(Write) ──► next ──► Access(word, operation) ──► the driver performs it
//!                      next(old value) ──► ... ──► Wait ──► the driver polls later
//!                      next(0) ──► ... ──► Entered
//!   release ──► next ──► ... ──► Released
//! ```
//!
//! [`Direct`] is driven like this, and needs no help of another rank. [`Mailbox`] holds the paper's
//! two protocols, in which owners answer messages. It returns the messages to send.
//!
//! The protocols know words, nodes and copies, but not memory, messages or time. The same value is
//! driven over shared memory, over a simulated machine, and through every interleaving by the
//! explorer in `tests/`.

mod action;
pub mod direct;
pub mod mailbox;

pub use action::{Action, EntryResult, Patience, Refusal, WordOp};
pub use direct::{Direct, Free, Left};
pub use mailbox::{
    Account, Copyset, Effect, LETTER_MOST, Letter, Mailbox, MailboxMessage, Style, Want,
};
