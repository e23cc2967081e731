//! MPI on hikyaku, apart from any binary interface: a file a chapter of MPI 5.0, on one rank of a
//! job in bytes.
//!
//! ```text
//!   libmpi_abi.so.1   libmpi.so.12        names, and a dialect: constants, widths, layouts
//!            \            /
//!             functions                   written from hikyaku-mpi-table
//!                  |
//!        call, Mpi<D>: a method a function
//!        environment sessions abi errors attributes info datatypes
//!        communicators intercommunicators groups topology collectives operations
//!        messages buffered requests generalised
//!                  |
//!        rank  coll  msg
//! ```
//!
//! `raw` follows the pointers of a program and nothing else does; `arguments` keeps together what
//! the standard has one by one; `slots` gives the objects their handles; `runtime` holds the state
//! of the process and is the boundary that no panic crosses.

mod abi;
mod arguments;
mod at_once;
mod attributes;
mod buffered;
mod callbacks;
mod collectives;
mod communicators;
pub mod datatype;
mod datatypes;
mod dialect;
mod environment;
mod errors;
mod failure;
mod generalised;
mod groups;
mod info;
mod intercommunicators;
mod long_double;
mod messages;
mod operations;
mod progress;
mod raw;
mod requests;
mod runtime;
mod sessions;
mod slots;
mod topology;
mod types;

pub use arguments::{Blocks, Elements, Operands};
pub use communicators::Comm;
pub use dialect::{
    ANY_SOURCE, ANY_TAG, Dialect, Handle, Object, PROC_NULL, ROOT, Status, UNDEFINED,
};
pub use environment::{aint_add, aint_diff, wtick, wtime};
pub use errors::Handling;
pub use failure::{CallSide, CalledFunction, Class, Failure};
pub use groups::Group;
pub use info::Info;
pub use operations::{Op, Predefined};
pub use raw::{
    Buffer, HandleAt, Handles, HandlesAt, NumberAt, Numbers, NumbersAt, Out, StatusesAt, Text,
    TextAt, Texts, status_of,
};
pub use runtime::{FromInt, Mpi, Scope, call, from_int, to_int, unsupported};
pub use sessions::Session;
pub use topology::Exchange;
pub use types::Type;
