//! `libmpi.so.12`: the binary interface of MPICH 3 to 5 and of those that keep to it.
//!
//! A handle is an `int`. Predefined ones have numbers of their own, and so have ranks, tags, levels
//! and errors; `dialect` has the tables.

mod dialect;
#[allow(non_snake_case, non_upper_case_globals)]
mod extra;
mod functions;
