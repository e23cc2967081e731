//! Datatypes: the layout of a message's data in memory (MPI 5.0 chapter 5).
//!
//! A datatype is a list of basic values with displacements, the *type map*, and two bounds that
//! define the distance between elements. A type map is never written out. A [`Datatype`] is a tree
//! of its constructors; a commit flattens it to a [`Program`], loops over blocks of bytes; a
//! [`Cursor`] executes the program to pack and unpack, in pieces that end at any byte.
//!
//! ```text
//!   Basic ──► Datatype ──────────► Program ────────► Cursor
//!   basic.rs  make.rs, array.rs    program.rs        copy.rs, by the walk of walk.rs
//!             tree.rs              (commit)          pack, unpack, external32
//!               │
//!               └─► contents.rs, elements.rs: queries about a type
//! ```
//!
//! No code here knows handles, constants or communicators: MPI's named constants are enums, and
//! the binary interfaces translate them. Counts, displacements and strides have 64 bits.
//!
//! Invariants:
//!
//! - A type is immutable, and keeps the types of which it is made alive.
//! - Every size and displacement of a type fits 64 bits: the constructors have checked it.
//! - Packing allocates nothing, and its only state is a packed offset.
//! - The memory of a type and of its program grows with the arguments of its constructors.

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
