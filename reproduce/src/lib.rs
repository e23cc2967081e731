//! The papers' tables and figures, run on simulated machines and compared with the printed values.
//!
//! ```text
//!   machines/*.toml ──► sim: interface models, networks ──► p000 .. p004: one experiment an item
//!                                                                 │
//!                    report.html + results/*.csv ◄── page ◄── ExperimentOutcome: checks, charts
//! ```
//!
//! One module per paper, one file per experiment; `what_if` goes beyond the papers. Results are
//! snapshots in the tree (`reproduce/results/`), so that a change of a model shows as a diff.
//!
//! No result is an input: constants come from machine files, each with its source. Each comparison
//! is a prediction, a calibration, an identity or a mismatch (`outcome.rs` defines them).
//! `sensitivity` halves and doubles every assumed constant.

#![forbid(unsafe_code)]

mod item;
mod outcome;
mod page;
pub mod sensitivity;

mod machines;
mod run;

pub mod p000;
pub mod p001;
pub mod p002;
pub mod p003;
pub mod p004;
pub mod what_if;

pub use item::{PaperItem, items, select};
pub use machines::{FILES, Machines};
pub use outcome::{Check, ExperimentOutcome, TOLERANCE, Verdict};
pub use page::{Report, Result};
pub use run::run;
