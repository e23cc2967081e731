//! `libmpi_abi.so.1`: the binary interface of MPI 5.0 (chapter 20).
//!
//! Its numbers are those of `hikyaku-mpi`, so nothing is turned into anything: a handle is a
//! pointer whose value is the number.

// The functions of `hikyaku.h`, so that an MPI program can have shared variables: the same rank.
use hikyaku_c as _;

mod dialect;

// The functions, written from the table by the build script.
include!(concat!(env!("OUT_DIR"), "/functions.rs"));
