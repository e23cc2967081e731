//! Tables: who may be named, and what of whose memory may be touched (paper 003 §4.7).
//!
//! ```text
//!   sender                                  target
//!   ------                                  ------
//!   node     logical number → rank, cid     context   which contexts are open; address registers
//!                                           segment   key → bytes of the region, rights
//! ```
//!
//! The sender's tables lie in its own memory. The target's lie in its segment of shared memory,
//! where whoever carries a command out looks into them; behind them is the owner's book, which
//! nobody else reaches. Everything here is plain data over atomics: no memory is touched but the
//! tables themselves. The source table of paper 000 and the credits are with the rings, in
//! [`crate::segment`].

pub mod context;
pub mod node;
pub mod segment;

pub use context::{Book, ContextLine, Refusal, Shared};
pub use node::NodeTable;
pub use segment::{Extent, Leaving, SegmentEntry};
