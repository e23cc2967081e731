//! A cube of numbers whose first two dimensions are exchanged, as between the steps of a Fourier
//! transform (paper 004 §3.6). A rank has a block of x, y, z before and one of y, x, z after.
//!
//! ```text
//!   before, at place (p, q, r)          after
//!   x of part p, y of part q, z of r    y of part p, x of part q, z of r
//!
//!   each line of x is cut at the parts of the ranks that need it: a put for each piece, which
//!   stays in one piece at its rank, where it is turned
//! ```
//!
//! With slabs the pieces are shortest and go to all ranks. Pencils are the rule that gives the
//! paper's Table 1, blocks are its "3-D array on 3-D processors".

use std::ops::Range;

use hikyaku::Error;

use crate::exchange::{Exchange, Put};
use crate::grid::Grid;

/// The number at a place of the cube; all numbers differ.
fn number([x, y, z]: [usize; 3], side: usize) -> f64 {
    ((z * side + y) * side + x) as f64
}

/// The place within a block of these ranges, the first of which is contiguous.
fn within([x, y, z]: [usize; 3], ranges: &[Range<usize>; 3]) -> usize {
    let [along, across, up] = ranges;
    ((z - up.start) * across.len() + y - across.start) * along.len() + x - along.start
}

/// Transposes once; returns whether the result is that of one rank alone.
pub(crate) fn run(exchange: &mut Exchange<'_>, grid: &Grid, side: usize) -> Result<bool, Error> {
    let world = exchange.world;
    let [p, q, r] = grid.place(world.rank());
    let before = [grid.range(0, p), grid.range(1, q), grid.range(2, r)];
    // The block of a rank afterwards, still with x contiguous.
    let after = |[p, q, r]: [usize; 3]| [grid.range(1, q), grid.range(0, p), grid.range(2, r)];
    let [xs, ys, zs] = before.clone();
    let mut block = Vec::with_capacity(xs.len() * ys.len() * zs.len());
    for z in zs.clone() {
        for y in ys.clone() {
            block.extend(xs.clone().map(|x| number([x, y, z], side)));
        }
    }
    let data = world.window::<f64>(block.len())?;
    let mut puts: Vec<Put<'_>> = Vec::new();
    for z in zs.clone() {
        for y in ys.clone() {
            let row = y / grid.cells(0);
            // Beginning after itself, so that not all send to the same rank at once.
            for step in 1..=grid.ranks[1] {
                let column = (q + step) % grid.ranks[1];
                let (place, part) = ([row, column, r], grid.range(1, column));
                let piece = part.start.max(xs.start)..part.end.min(xs.end);
                if !piece.is_empty() {
                    let here = within([piece.start, y, z], &before);
                    let there = within([piece.start, y, z], &after(place));
                    puts.push((grid.rank(place), there, &block[here..here + piece.len()]));
                }
            }
        }
    }
    // The same pieces in the other direction: the ranks whose blocks have parts of this rank's.
    let mine = after([p, q, r]);
    let meets = |one: &Range<usize>, other: &Range<usize>| {
        one.start.max(other.start) < one.end.min(other.end)
    };
    let mut sources = Vec::new();
    for row in (0..grid.ranks[0]).filter(|row| meets(&grid.range(0, *row), &mine[0])) {
        let columns = (0..grid.ranks[1]).filter(|column| meets(&grid.range(1, *column), &mine[1]));
        sources.extend(columns.map(|column| grid.rank([row, column, r])));
    }
    world.barrier()?;
    exchange.step(&data, &puts, &sources)?;
    let landed = data.local()?;
    let turned = turn(&landed, &mine);
    world.barrier()?;
    Ok(turned == alone(side, &mine))
}

/// Turns a block so that y is contiguous.
fn turn(block: &[f64], ranges: &[Range<usize>; 3]) -> Vec<f64> {
    let [xs, ys, zs] = ranges;
    let mut turned = Vec::with_capacity(block.len());
    for z in zs.clone() {
        for x in xs.clone() {
            turned.extend(ys.clone().map(|y| block[within([x, y, z], ranges)]));
        }
    }
    turned
}

/// The contents of such a block after one rank alone has transposed the whole cube.
fn alone(side: usize, [xs, ys, zs]: &[Range<usize>; 3]) -> Vec<f64> {
    let mut cube = vec![0.0; side.pow(3)];
    for (at, cell) in cube.iter_mut().enumerate() {
        let (y, x, z) = (at % side, at / side % side, at / side / side);
        *cell = number([x, y, z], side);
    }
    let mut block = Vec::new();
    for z in zs.clone() {
        for x in xs.clone() {
            block.extend_from_slice(&cube[(z * side + x) * side..][ys.clone()]);
        }
    }
    block
}
