//! Tests for programs written for MPI: the header, the compilers, the launchers, the benchmark, and
//! the libraries by tests in C. `scripts/mpi.sh` builds them beside the launcher under test.

#![allow(clippy::unwrap_used)]

mod bench;
mod bits;
mod compilers;
mod coverage;
mod crowded;
mod ends;
mod examples;
mod gone;
mod hangs;
mod header;
mod launchers;
mod one_rank;
mod programs;
mod progress;
mod shared_heap;
mod support;
mod threads;
mod wrong;
