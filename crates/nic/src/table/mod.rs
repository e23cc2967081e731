//! Tables: which ranks may be named, and which of their memory accessed (paper 003 §4.7).
//!
//! ```text
//!   sender                                  target
//!   ------                                  ------
//!   node     logical number → rank, cid     context   which contexts are open; address registers
//!                                           segment   key → bytes of the region, rights
//! ```
//!
//! The sender's tables are in its own memory. The target's are in its segment of shared memory,
//! where the process that executes a command reads them; behind them is the owner's book, which no
//! other rank reaches. Everything here is plain data over atomics: only the tables themselves are
//! accessed. The source table of paper 000 and the credits are with the rings, in
//! [`crate::segment`].

pub mod context;
pub mod node;
pub mod segment;

pub use context::{ContextBook, ContextLine, PutRefusal, SharedContexts};
pub use node::NodeTable;
pub use segment::{Extent, Leaving, SegmentEntry};
