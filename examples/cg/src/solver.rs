//! Conjugate gradients over all ranks.
//!
//! Every rank has its rows of the matrix and its entries of the vectors. A product needs entries of
//! other ranks, a dot product a sum over all ranks; everything else is local. Sums have the same
//! bits on every rank, so all ranks stop in the same iteration without asking each other.

use hikyaku::{Error, World};
use kit::times::{Split, Stopwatch, TimePart};

use crate::exchange::{self, Product};
use crate::serial::dot;

/// The conditions for stopping.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// The norm of the residual relative to that of the right side.
    pub tolerance: f64,
    /// The most iterations.
    pub iterations: u64,
}

/// The result of a rank.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalSolution {
    /// Its entries of the solution.
    pub x: Vec<f64>,
    /// Norm of the residual relative to that of the right side, after each iteration; the first is
    /// that of a zero vector. The same on every rank.
    pub residuals: Vec<f64>,
    /// The use of its time.
    pub split: Split,
}

/// Solves `matrix · x = b` from zero, each rank for its rows. `None`, on every rank, if the
/// matrix turns out not to be positive definite.
///
/// # Errors
/// Another rank failed.
pub fn solve(
    world: &World,
    product: &mut Product<'_>,
    b: &[f64],
    limits: Limits,
) -> Result<Option<LocalSolution>, Error> {
    let mut watch = Stopwatch::start();
    let all = |a: &[f64], b: &[f64], watch: &mut Stopwatch| {
        let here = dot(a, b);
        watch.book(TimePart::Computing);
        let sum = exchange::sum(world, here);
        watch.book(TimePart::Reduction);
        sum
    };
    let mut x = vec![0.0; b.len()];
    let mut r = b.to_vec();
    let mut p = r.clone();
    let mut q = vec![0.0; b.len()];
    let mut rr = all(&r, &r, &mut watch)?;
    let norm = rr.sqrt();
    let mut residuals = vec![1.0];
    while norm > 0.0
        && residuals.len() as u64 <= limits.iterations
        && rr.sqrt() > limits.tolerance * norm
    {
        product.multiply(&p, &mut q, &mut watch)?;
        let pq = all(&p, &q, &mut watch)?;
        if pq <= 0.0 {
            return Ok(None);
        }
        let alpha = rr / pq;
        for (x, p) in x.iter_mut().zip(&p) {
            *x += alpha * p;
        }
        for (r, q) in r.iter_mut().zip(&q) {
            *r -= alpha * q;
        }
        let before = std::mem::replace(&mut rr, all(&r, &r, &mut watch)?);
        let beta = rr / before;
        for (p, r) in p.iter_mut().zip(&r) {
            *p = r + beta * *p;
        }
        residuals.push(rr.sqrt() / norm);
    }
    watch.book(TimePart::Computing);
    Ok(Some(LocalSolution { x, residuals, split: watch.split() }))
}
