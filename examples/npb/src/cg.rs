//! CG: products of a matrix in square blocks and a vector.
//!
//! Each product sums partial results within a row of blocks, in steps of a butterfly, and then
//! exchanges them with the block across the diagonal, so that a column has its next operand.

use hikyaku::{Error, World};

use crate::side;

/// Entries of the vector that a column of blocks has.
const LENGTH: usize = 175;
const PRODUCTS: usize = 3;

/// An entry of the matrix.
fn entry(row: usize, column: usize) -> u64 {
    ((row * 31 + column * 17) % 10) as u64
}

pub(crate) fn run(world: &World) -> Result<bool, Error> {
    let (side, rank) = (side(world.size()), world.rank() as usize);
    let (row, column) = (rank / side, rank % side);
    let across = (column * side + row) as u32;
    let mut vector: Vec<u64> = (column * LENGTH..(column + 1) * LENGTH).map(first).collect();
    let mut other = vec![0; LENGTH];
    for _ in 0..PRODUCTS {
        let mut sum = product(row * LENGTH..(row + 1) * LENGTH, column * LENGTH, &vector);
        let mut step = 1;
        while step < side {
            let partner = (row * side + (column ^ step)) as u32;
            world.sendrecv(&sum, partner, 0, &mut other, partner, 0)?;
            sum.iter_mut().zip(&other).for_each(|(sum, other)| *sum = sum.wrapping_add(*other));
            step *= 2;
        }
        match across == rank as u32 {
            true => vector.copy_from_slice(&sum),
            false => _ = world.sendrecv(&sum, across, 1, &mut vector, across, 1)?,
        }
    }
    let expected = alone(side * LENGTH);
    Ok(vector == expected[column * LENGTH..(column + 1) * LENGTH])
}

/// An entry of the first vector.
fn first(at: usize) -> u64 {
    at as u64 % 7 + 1
}

/// These rows of the matrix, from a column on, times a part of the vector.
fn product(rows: std::ops::Range<usize>, from: usize, vector: &[u64]) -> Vec<u64> {
    let times = |row: usize| {
        let terms = (from..).zip(vector).map(|(column, x)| entry(row, column).wrapping_mul(*x));
        terms.fold(0, u64::wrapping_add)
    };
    rows.map(times).collect()
}

/// The result of one rank alone.
fn alone(order: usize) -> Vec<u64> {
    let vector: Vec<u64> = (0..order).map(first).collect();
    (0..PRODUCTS).fold(vector, |vector, _| product(0..order, 0, &vector))
}
