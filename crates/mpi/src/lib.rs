//! MPI on hikyaku without a binary interface: one file per chapter of MPI 5.0, on top of one rank
//! of a job that transfers bytes.
//!
//! ```text
//!   libmpi_abi.so.1   libmpi.so.12        names, and a dialect: constants, widths, layouts
//!            \            /
//!             functions                   written from hikyaku-mpi-table
//!             functions                   generated from hikyaku-mpi-table
//!        call, Mpi<D>: a method a function
//!        call, Mpi<D>: one method per function
//!        communicators intercommunicators groups topology collectives operations
//!        messages buffered requests generalised
//!                  |
//!        rank  coll  msg
//! ```
//!
//! Only `raw` dereferences pointers of a program; `arguments` groups the arguments that the
//! standard lists separately; `slots` gives the objects their handles; `runtime` holds the state of
//! the process and is the boundary that no panic crosses.

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

pub use arguments::{BlockTypes, Blocks, Elements, Operands};
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
