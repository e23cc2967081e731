//! Jobs in virtual time: ranks that run one at a time, and whoever conducts them.
//!
//! The job's memory, the rings and the ports are those of any job. What differs is that a rank
//! hands the processor over where it would wait, and that what it sends is carried by the
//! conductor, in its own process:
//!
//! ```text
//!   rank's process                      memory                     conductor's process
//!   --------------                      ------                     -------------------
//!   post ── appends with its time ────► log of the rank
//!   park ── turn = conductor's ───────► line ── futex ───────────► takes the deeds out of the log,
//!     sleeps                                                       lets time pass; at an arrival
//!                                       segments ◄──────────────── posts as the source
//!     goes on ◄──────────── futex ───── line ◄──────────────────── turn = the rank's
//! ```
//!
//! Nothing here knows of simulated time beyond carrying it: when anything happens is the
//! conductor's business ([`Stage`]).
//!
//! ```text
//!   line       one rank's control words: whose turn, requests, times, costs
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
pub use line::{CostBySize, Costs, Tally};
pub use stage::{Handed, Stage};

pub(crate) use interface::not_an_interfaces;
pub(crate) use line::{TurnLine, Way, line_bytes, log_at};
pub(crate) use rank::Conducted;
