//! Datatypes: where the data of a message lies in memory (MPI 5.0 chapter 5).
//!
//! A datatype is a list of basic values with displacements, the *type map*, and two bounds that
//! say how far one element is from the next. No type map is ever written out. A [`Datatype`] is a
//! tree of its constructors; a commit flattens it to a [`Program`], loops over blocks of bytes; a
//! [`Cursor`] packs and unpacks by the program, in pieces that end at any byte.
//!
//! ```text
//!   Basic ──► Datatype ──────────► Program ────────► Cursor
//!   basic.rs  make.rs, array.rs    program.rs        copy.rs, by the walk of walk.rs
//!             tree.rs              (commit)          pack, unpack, external32
//!               │
//!               └─► contents.rs, elements.rs: what a program asks of a type
//! ```
//!
//! Nothing here knows handles, constants or communicators: names of MPI's constants are enums, and
//! the binary interfaces translate them. Counts, displacements and strides have 64 bits.
//!
//! Invariants:
//!
//! - A type is immutable. What it is made of lives as long as it does.
//! - Every size and displacement of a type fits 64 bits: the constructors have checked it.
//! - Packing allocates nothing and keeps nothing but a packed offset.
//! - The memory of a type and of its program grows with the arguments it was made with.

mod array;
mod basic;
mod contents;
mod copy;
mod elements;
mod error;
mod external32;
mod make;
mod program;
mod tree;
mod walk;

pub use basic::{Basic, Class, LeafKind, Pair, TypeClass};
pub use contents::{
    Combiner, Contents, DistributedDimension, Distribution, Envelope, Integer, Order, Width,
};
pub use copy::{Cursor, external_size, pack, pack_external, packed_size, unpack, unpack_external};
pub use error::DatatypeError;
pub use program::Program;
pub use tree::{Datatype, MAX_DEPTH};
