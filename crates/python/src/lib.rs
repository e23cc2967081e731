//! The native half of the Python package `hikyaku`: [`hikyaku::World`] for an interpreter.
//!
//! ```text
//!   import hikyaku            python/hikyaku/*.py   objects, allocated results, spawn
//!        |
//!   hikyaku._native           this crate            arrays as bytes, waiting, lifetimes
//!        |
//!   hikyaku (crates/world)
//! ```
//!
//! Four things differ from a Rust program, each in its own file:
//!
//! - **Threads.** A rank is one thread, and Python objects may be used and collected on any. So a
//!   Python object owns nothing of the rank: it holds a number, and `rank.rs` keeps the things
//!   themselves in a table of the rank's thread.
//! - **Waiting.** A call that waits lets other Python threads run and lets signals through, so that
//!   Ctrl-C ends it: `wait.rs`.
//! - **MPI.** In an mpi4py program this is the same rank as MPI's, which other threads may use at
//!   any time: `gate.rs`.
//! - **Memory.** An array that is sent or received into belongs to Python: `array.rs`. Job memory
//!   that is exposed as an array belongs to the job: `memory.rs`.

mod array;
mod collective;
mod element;
mod error;
mod exchange;
mod gate;
mod launch;
mod memory;
mod number;
mod rank;
mod request;
mod shared;
mod shown;
mod wait;
mod window;
mod world;

use pyo3::prelude::*;

/// The module that `hikyaku/__init__.py` builds on.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::error::{Error, PeerError};
    #[pymodule_export]
    use crate::exchange::Exchange;
    #[pymodule_export]
    use crate::launch::{die_with_parent, launch};
    #[pymodule_export]
    use crate::memory::Memory;
    #[pymodule_export]
    use crate::rank::{forked, leave};
    #[pymodule_export]
    use crate::request::Request;
    #[pymodule_export]
    use crate::shared::{Access, Shared};
    #[pymodule_export]
    use crate::window::Window;
    #[pymodule_export]
    use crate::world::{Received, WorkEnd, World};
}
