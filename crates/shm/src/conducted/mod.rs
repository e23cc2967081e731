//! Jobs in virtual time: ranks that run one at a time, and their conductor.
//!
//! The job's memory, the rings and the ports are those of any job. Two things differ: a rank yields
//! its turn where it would wait, and the conductor carries its sends, in its own process:
//!
//! ```text
//!   rank's process                      memory                     conductor's process
//!   --------------                      ------                     -------------------
//!   post ── appends with its time ────► log of the rank
//!   park ── turn = conductor's ───────► line ── futex ───────────► takes the deeds out of the log,
//!     sleeps                                                       lets time pass; at an arrival
//!                                       segments ◄──────────────── posts as the source
//!     continues ◄────────── futex ───── line ◄──────────────────── turn = the rank's
//! ```
//!
//! This code only carries simulated time: the conductor decides when each event happens
//! ([`Stage`]).
//!
//! ```text
//!   line       one rank's control words: the turn, requests, times, costs
//!   log        deeds as bytes
//!   rank       the rank's side: nic's Conductor
//!   stage      the conductor's side: gives turns, takes deeds
//!   interface  nic's Host for the ports that play the interfaces
//! ```

mod interface;
mod line;
mod log;
mod rank;
mod stage;

pub use interface::InterfaceHost;
pub use line::{CostBySize, LineCosts, Tally};
pub use stage::{Handed, Stage};

pub(crate) use line::{SendProgress, TurnLine, line_bytes, log_at};
pub(crate) use rank::Conducted;
