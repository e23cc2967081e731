//! `libmpi.so.12`: the binary interface of MPICH 3 to 5 and of those that keep to it.
//!
//! A handle is an `int`. Predefined ones have numbers of their own, and so have ranks, tags, levels
//! and errors; `dialect` has the tables.

// The functions of `hikyaku.h`, so that an MPI program can have shared variables: the same rank.
use hikyaku_c as _;

mod dialect;
#[allow(non_snake_case, non_upper_case_globals)]
mod extra;

// The functions, written from the table by the build script.
include!(concat!(env!("OUT_DIR"), "/functions.rs"));
