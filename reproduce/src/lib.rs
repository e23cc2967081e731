//! The papers' tables and figures, run on simulated machines and compared with what is printed.
//!
//! ```text
//!   machines/*.toml ──► sim: interface models, networks ──► p000 .. p004: one experiment an item
//!                                                                 │
//!                    report.html + results/*.csv ◄── page ◄── Outcome: checks, tables, charts
//! ```
//!
//! One module per paper, one file per experiment; `what_if` asks beyond the papers. Results are
//! snapshots in the tree (`reproduce/results/`), so that a change of a model shows as a diff.
//!
//! No result is an input: a constant comes from its machine file with its source, and where it was
//! fitted to a printed number, that number counts as calibration and not as reproduced. What fails
//! its criterion says so, with the reason.

#![forbid(unsafe_code)]

mod item;
mod outcome;
mod page;

mod machines;

pub mod p000;
pub mod p001;
pub mod p002;
pub mod p003;
pub mod p004;
pub mod what_if;

pub use item::{Item, items, select};
pub use machines::{FILES, machine};
pub use outcome::{Check, Outcome, TOLERANCE, Verdict};
pub use page::{Report, Result};
