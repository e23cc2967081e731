//! Shared by the larger examples. Each of them is an iteration over neighbours: a command line that
//! all ranks read and rank 0 answers, an exchange in every step, and a page on the use of time.
//!
//! [`exchange`] is the part to read for message passing: one exchange, blocking, non-blocking and
//! persistent.

pub mod exchange;
pub mod program;
pub mod times;
