//! A heat-equation solver: the program to read first to see what writing for hikyaku is like.
//!
//! The grid is cut into blocks, one a rank. In every step a rank sends the edges of its block to
//! its neighbours, computes the interior, while they travel if the exchange allows it, and finishes
//! with the edges that came from the other side. Every so many steps all ranks agree on the largest
//! change, and stop when it is small enough. The result is bitwise the serial program's, whatever
//! the number of ranks.
//!
//! ```text
//!   config ─► exchange ─► exchange ─► exchange ─► files, report
//!   rank 0    blocks out   every      blocks in   rank 0 writes
//!   reads                  step
//! ```
//!
//! All message passing is in [`exchange`] and in what it uses of [`kit::exchange`], all arithmetic
//! of a step in [`serial`]. Nothing else knows that there is more than one process.

pub mod block;
pub mod config;
pub mod exchange;
pub mod field;
pub mod files;
pub mod report;
pub mod serial;

/// The program: how its lines begin.
pub const HEAT: kit::program::ExampleProgram = kit::program::ExampleProgram("heat");
