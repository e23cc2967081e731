//! Conjugate gradients on a sparse matrix: irregular neighbours, and what a solver needs besides.
//!
//! Rows are dealt out in blocks of equal work. To multiply, a rank needs entries of the vector that
//! belong to others; which ones, and from whom, follows from the matrix alone. So the ranks form a
//! distributed graph once, and every iteration exchanges along it, while each rank multiplies with
//! the entries that it has.
//!
//! ```text
//!   matrix_market ─► csr ─► partition ─► local ─► solver ─► report
//!   rank 0 reads            blocks out   what is   every     rank 0 checks against serial,
//!                                        mine      rank      writes
//! ```
//!
//! Nothing but [`exchange`] and [`solver`] knows that there is more than one process.

pub mod csr;
pub mod exchange;
pub mod local;
pub mod matrix_market;
pub mod partition;
pub mod report;
pub mod serial;
pub mod solver;
