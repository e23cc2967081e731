//! The network interface of hikyaku, as pure data structures over memory with atomics.
//!
//! The receive controller of paper 000 (source table → landing ring → tail → status record) and the
//! command queues of papers 002 to 004 are written here once, without I/O, clock or thread. They
//! are *hosted* elsewhere: by the sending process over shared memory, by the progress engine over
//! libfabric, by a modelled interface in the simulator.
//!
//! ```text
//!   fabric     the boundary: Port, Command, Event            (start reading here)
//!   wire       the 64-byte status record and its stamp
//!   ring       status ring, landing ring, ledger, command queue
//!   table      contexts, segments, nodes, address registers: access control
//!   doorbell   how a rank sleeps and is woken
//!   segment    the layout of one rank's rings and tables in memory that peers can reach
//!   hosted     a Port over such segments, given a Host (clock, waking, waiting)
//!   region     memory of a rank that peers name by offset
//!   loopback   the reference fabric: all ranks in one process
//!   layer      fabrics that wrap a fabric: the fault injector
//!   random     seeded random numbers, and the one mixer of words
//!   plan       landing rings planned from the messages that each rank has sent to each other
//! ```
//!
//! Any process with a stray pointer may overwrite the shared memory. That may corrupt payload but
//! never makes a wait endless: each loop over shared words is bounded by a count or a clock, each
//! index and length read from them is checked, and each wait for them can be announced to an
//! observer ([`fabric::Port::announce_wait`]). `tests/hostile.rs` tests this, `tests/jobs` whole
//! jobs.
//!
//! Under `--cfg loom` only the rings, tables and doorbells are built, on loom's atomics, for the
//! models in `tests/loom*.rs`.

pub mod by_rank;
pub mod doorbell;
pub mod fabric;
pub mod plan;
pub mod random;
pub mod time;
pub mod units;
pub mod wire;

pub mod ring;
pub mod sync;
pub mod table;
pub mod threads;

#[cfg(not(loom))]
pub mod hosted;
#[cfg(not(loom))]
pub mod layer;
#[cfg(not(loom))]
pub mod loopback;
pub mod region;
#[cfg(not(loom))]
pub mod segment;
