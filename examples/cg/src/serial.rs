//! The serial solver, as one would write it without any message passing, for comparison. Its matrix
//! is a list of entries per row in the order of a map, not the ranks' two matrices.

use std::collections::BTreeMap;

use crate::csr::Csr;

/// A solution and its residuals.
#[derive(Debug, Clone, PartialEq)]
pub struct SerialSolution {
    /// The vector.
    pub x: Vec<f64>,
    /// Norm of the residual relative to that of the right side, after each iteration; the first is
    /// that of a zero vector.
    pub residuals: Vec<f64>,
}

/// Solves `matrix · x = b` by conjugate gradients (Hestenes and Stiefel 1952) from zero. `None` if
/// the matrix turns out not to be positive definite.
pub fn solve(matrix: &Csr, b: &[f64], tolerance: f64, most: u64) -> Option<SerialSolution> {
    let rows: Vec<BTreeMap<u32, f64>> =
        (0..matrix.rows()).map(|row| matrix.row(row).collect()).collect();
    let multiply = |x: &[f64]| -> Vec<f64> {
        let dot = |row: &BTreeMap<u32, f64>| row.iter().map(|(c, v)| v * x[*c as usize]).sum();
        rows.iter().map(dot).collect()
    };
    let mut x = vec![0.0; b.len()];
    let mut r = b.to_vec();
    let mut p = r.clone();
    let mut rr = dot(&r, &r);
    let norm = rr.sqrt();
    let mut residuals = vec![1.0];
    if norm == 0.0 {
        return Some(SerialSolution { x, residuals });
    }
    while residuals.len() as u64 <= most && rr.sqrt() > tolerance * norm {
        let q = multiply(&p);
        let pq = dot(&p, &q);
        if pq <= 0.0 {
            return None;
        }
        let alpha = rr / pq;
        for i in 0..x.len() {
            x[i] += alpha * p[i];
            r[i] -= alpha * q[i];
        }
        let before = std::mem::replace(&mut rr, dot(&r, &r));
        for i in 0..x.len() {
            p[i] = r[i] + rr / before * p[i];
        }
        residuals.push(rr.sqrt() / norm);
    }
    Some(SerialSolution { x, residuals })
}

/// The dot product.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn it_ends_after_as_many_iterations_as_there_are_eigenvalues() {
        // Three rows, two different eigenvalues: 1 and 4.
        let entries = vec![(0, 0, 1.0), (1, 1, 4.0), (2, 2, 4.0)];
        let matrix = Csr::from_entries(3, entries).unwrap();
        let solution = solve(&matrix, &[1.0, 8.0, -4.0], 1e-12, 100).unwrap();
        assert_eq!(solution.residuals.len(), 3);
        for (x, expected) in solution.x.iter().zip([1.0, 2.0, -1.0]) {
            assert!((x - expected).abs() < 1e-12);
        }
    }

    #[test]
    fn a_matrix_that_is_not_positive_definite_is_noticed() {
        let matrix = Csr::from_entries(2, vec![(0, 0, 1.0), (1, 1, -1.0)]).unwrap();
        assert_eq!(solve(&matrix, &[1.0, 1.0], 1e-12, 100), None);
        let nothing = solve(&matrix, &[0.0, 0.0], 1e-12, 100).unwrap();
        assert_eq!((nothing.x, nothing.residuals), (vec![0.0; 2], vec![1.0]));
    }
}
