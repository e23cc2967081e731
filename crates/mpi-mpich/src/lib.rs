//! `libmpi.so.12`: the binary interface of MPICH 3 to 5 and of compatible libraries.
//!
//! A handle is an `int`. Predefined handles, ranks, tags, levels and errors have numbers of their
//! own; `dialect` has the tables.

// Exports the functions of `hikyaku.h`, so that an MPI program can use shared variables as the same
// rank.
use hikyaku_c as _;

mod dialect;
#[allow(non_snake_case, non_upper_case_globals)]
mod extra;

// The functions that the build script generates from the table.
include!(concat!(env!("OUT_DIR"), "/functions.rs"));
