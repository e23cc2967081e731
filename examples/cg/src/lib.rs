//! Conjugate gradients on a sparse matrix: irregular neighbours, and the rest of a solver.
//!
//! Rows are distributed in blocks of equal work. To multiply, a rank needs entries of the vector
//! that belong to other ranks; the matrix alone determines which ones, and whose. So the ranks form
//! a distributed graph once, and every iteration exchanges along it, while each rank multiplies
//! with its own entries.
//!
//! ```text
//!   matrix_market ─► csr ─► partition ─► local ─► solver ─► report
//!   rank 0 reads            blocks out   what is   every     rank 0 checks against serial,
//!                                        mine      rank      writes
//! ```
//!
//! Only [`exchange`] and [`solver`] know that there is more than one process.

pub mod csr;
pub mod exchange;
pub mod local;
pub mod matrix_market;
pub mod partition;
pub mod report;
pub mod serial;
pub mod solver;
