//! `libmpi_abi.so.1`: the binary interface of MPI 5.0 (chapter 20).
//!
//! Its numbers are those of `hikyaku-mpi`, so nothing is turned into anything: a handle is a
//! pointer whose value is the number.

mod dialect;
mod functions;
