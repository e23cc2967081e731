//! The arithmetic of a step: the new temperature of a cell from its own and its neighbours'.
//!
//! ```text
//!   five       . 1 .      nine     1  4 1       seven   as five, and the cells before and behind
//!   (planes)   1-4 1      (planes) 4-20 4 / 6   (volumes)
//!              . 1 .               1  4 1
//! ```
//!
//! Forward in time: `T += ratio · Laplacian`, with ratio = α·dt in cells². Why the field is bitwise
//! the serial program's, however the grid is cut and in whatever order cells are computed: a new
//! temperature is one expression of old ones, the old ones are only read during a step, and what
//! lies outside a block are exact copies of the neighbours' cells. So every cell gets the same
//! operations on the same operands in the same order. Rust neither reassociates floating-point
//! sums nor fuses multiply and add on its own, and a vector lane rounds like a scalar; the compiler
//! may vectorise without changing a bit.

use serde::{Deserialize, Serialize};

use crate::field::Direction;

/// Which neighbours a cell is computed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub enum Stencil {
    /// The four that share an edge, in a plane.
    #[serde(rename = "5-point")]
    Five,
    /// Also the four that share a corner: the error has no preferred direction.
    #[serde(rename = "9-point")]
    Nine,
    /// The six that share a face, in a volume.
    #[serde(rename = "7-point")]
    Seven,
}

const SIDES: [Direction; 4] = [[0, -1, 0], [0, 1, 0], [-1, 0, 0], [1, 0, 0]];
const CORNERS: [Direction; 4] = [[-1, -1, 0], [1, -1, 0], [-1, 1, 0], [1, 1, 0]];
const PLANES: [Direction; 2] = [[0, 0, -1], [0, 0, 1]];

impl Stencil {
    /// Its name, the largest ratio for which errors do not grow from step to step, and the formula
    /// of that limit: 2 / (largest eigenvalue of the stencil). The nine-point stencil's is 16/3, at
    /// the finest checkerboard.
    pub fn describe(self) -> (&'static str, f64, &'static str) {
        match self {
            Stencil::Five => ("5-point", 0.25, "1/(4 alpha)"),
            Stencil::Nine => ("9-point", 0.375, "3/(8 alpha)"),
            Stencil::Seven => ("7-point", 1.0 / 6.0, "1/(6 alpha)"),
        }
    }

    /// Where the cells come from that are needed: the directions in which blocks exchange.
    pub fn directions(self) -> impl Iterator<Item = Direction> {
        let more = match self {
            Stencil::Five => &[][..],
            Stencil::Nine => &CORNERS,
            Stencil::Seven => &PLANES,
        };
        SIDES.iter().chain(more).copied()
    }

    /// Computes a row of new temperatures. `around` gives the cells that lie in a direction of the
    /// row's, at least as many as the row has.
    #[inline]
    pub fn apply<'a>(self, ratio: f64, around: impl Fn(Direction) -> &'a [f64], out: &mut [f64]) {
        // Slices of one length leave no bounds checks in the loops, so that they vectorise.
        let n = out.len();
        let row = |direction| &around(direction)[..n];
        let (here, [north, south, west, east]) = (row([0; 3]), SIDES.map(row));
        match self {
            Stencil::Five => {
                for i in 0..n {
                    let sides = (north[i] + south[i]) + (west[i] + east[i]);
                    out[i] = here[i] + ratio * (sides - 4.0 * here[i]);
                }
            }
            Stencil::Nine => {
                let [north_west, north_east, south_west, south_east] = CORNERS.map(row);
                let ratio = ratio / 6.0;
                for i in 0..n {
                    let sides = (north[i] + south[i]) + (west[i] + east[i]);
                    let corners = (north_west[i] + north_east[i]) + (south_west[i] + south_east[i]);
                    out[i] = here[i] + ratio * (4.0 * sides + corners - 20.0 * here[i]);
                }
            }
            Stencil::Seven => {
                let [before, behind] = PLANES.map(row);
                for i in 0..n {
                    let sides =
                        (north[i] + south[i]) + (west[i] + east[i]) + (before[i] + behind[i]);
                    out[i] = here[i] + ratio * (sides - 6.0 * here[i]);
                }
            }
        }
    }
}

/// The largest |a - b|. In eight lanes, because one running maximum is a chain of dependent
/// compares; the order does not matter to a maximum.
pub fn largest_difference(a: &[f64], b: &[f64]) -> f64 {
    let larger = |most: f64, (a, b): (&f64, &f64)| {
        let change = (a - b).abs();
        if change > most { change } else { most }
    };
    let (a, b) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest = a.remainder().iter().zip(b.remainder()).fold(0.0, larger);
    let mut lanes = [0.0; 8];
    for (a, b) in a.zip(b) {
        for (lane, pair) in lanes.iter_mut().zip(a.iter().zip(b)) {
            *lane = larger(*lane, pair);
        }
    }
    lanes.into_iter().fold(rest, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Stencil; 3] = [Stencil::Five, Stencil::Nine, Stencil::Seven];

    #[test]
    fn the_largest_difference_is_found_wherever_it_is() {
        for length in [1, 7, 8, 9, 24, 31] {
            for place in 0..length {
                let (a, mut b) = (vec![1.0; length], vec![1.5; length]);
                b[place] = -2.0;
                assert_eq!(largest_difference(&a, &b), 3.0, "{place} of {length}");
            }
        }
        assert_eq!(largest_difference(&[], &[]), 0.0);
    }

    /// What a block sends in a direction, its neighbour receives from the opposite one.
    #[test]
    fn directions_come_in_opposite_pairs() {
        for stencil in ALL {
            for direction in stencil.directions() {
                assert!(stencil.directions().any(|it| it == direction.map(|step| -step)));
            }
        }
    }

    /// A parabola's Laplacian is 2 a dimension everywhere, for every stencil.
    #[test]
    fn the_stencils_are_laplacians() {
        let square = |d: f64| (0..7).map(|x| f64::from(x * x) + d).collect::<Vec<f64>>();
        let rows = [square(0.0), square(1.0)];
        let around =
            |[x, y, z]: Direction| &rows[usize::from(y != 0 || z != 0)][(1 + x) as usize..];
        for (stencil, laplacian) in ALL.into_iter().zip([4.0, 4.0, 6.0]) {
            let mut out = [0.0; 5];
            stencil.apply(0.125, around, &mut out);
            for (new, old) in out.iter().zip(&rows[0][1..]) {
                assert!((new - old - 0.125 * laplacian).abs() < 1e-12, "{stencil:?}");
            }
        }
    }

    /// At the limit the finest wave does not decay, beyond it it grows.
    #[test]
    fn the_limits_of_stability_are_where_the_finest_wave_stands() {
        let wave: Vec<f64> = (0..11).map(|x| if x % 2 == 0 { 1.0 } else { -1.0 }).collect();
        // Sides alternate; the corners of the checkerboard are as the cell itself.
        let around = |[x, y, z]: Direction| &wave[(2 + x + (y + z).abs()) as usize..];
        for stencil in ALL {
            let mut out = [0.0; 7];
            stencil.apply(stencil.describe().1, around, &mut out);
            for (new, old) in out.iter().zip(&wave[2..]) {
                assert!((new + old).abs() < 1e-12, "{stencil:?}: {new} from {old}");
            }
        }
    }
}
