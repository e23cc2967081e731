//! `libmpi_abi.so.1`: the binary interface of MPI 5.0 (chapter 20).
//!
//! Its numbers are those of `hikyaku-mpi`, so nothing is converted: a handle is a pointer whose
//! value is the number.

// Exports the functions of `hikyaku.h`, so that an MPI program can use shared variables as the same
// rank.
use hikyaku_c as _;

mod dialect;

// The functions that the build script generates from the table.
include!(concat!(env!("OUT_DIR"), "/functions.rs"));
