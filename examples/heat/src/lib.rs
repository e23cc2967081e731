//! A heat-equation solver: the first program to read to see how to write for hikyaku.
//!
//! The grid is cut into blocks, one per rank. In every step a rank sends the edges of its block to
//! its neighbours, computes the interior (meanwhile, if the exchange allows it), and finishes with
//! the edges that it has received. From time to time all ranks agree on the largest change, and
//! stop when it is small enough. The result is bitwise that of the serial program, for any number
//! of ranks.
//!
//! ```text
//!   config ─► exchange ─► exchange ─► exchange ─► files, report
//!   rank 0    blocks out   every      blocks in   rank 0 writes
//!   reads                  step
//! ```
//!
//! All message passing is in [`exchange`] and in the parts of [`kit::exchange`] that it uses, all
//! arithmetic of a step in [`serial`]. Nothing else knows that there is more than one process.

pub mod block;
pub mod config;
pub mod exchange;
pub mod field;
pub mod files;
pub mod report;
pub mod serial;

/// The program, with the name that begins its lines.
pub const HEAT: kit::program::ExampleProgram = kit::program::ExampleProgram("heat");
