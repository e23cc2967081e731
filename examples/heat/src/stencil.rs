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

use serde::Deserialize;

use crate::decompose::Direction;

/// Which neighbours a cell is computed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
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

/// A row of cells that are to be computed, and what lies around it. Each slice begins one cell
/// before the row and ends one after it.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// The row itself.
    pub here: &'a [f64],
    /// The row above.
    pub north: &'a [f64],
    /// The row below.
    pub south: &'a [f64],
    /// In a volume, the row in the plane before and the one in the plane behind.
    pub planes: Option<(&'a [f64], &'a [f64])>,
}

const FIVE: [Direction; 4] = [[0, -1, 0], [0, 1, 0], [-1, 0, 0], [1, 0, 0]];
const NINE: [Direction; 8] =
    [[0, -1, 0], [0, 1, 0], [-1, 0, 0], [1, 0, 0], [-1, -1, 0], [1, -1, 0], [-1, 1, 0], [1, 1, 0]];
const SEVEN: [Direction; 6] = [[0, 0, -1], [0, 0, 1], [0, -1, 0], [0, 1, 0], [-1, 0, 0], [1, 0, 0]];

impl Stencil {
    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Stencil::Five => "5-point",
            Stencil::Nine => "9-point",
            Stencil::Seven => "7-point",
        }
    }

    /// Where cells come from that are needed: the directions in which blocks exchange.
    pub fn directions(self) -> &'static [Direction] {
        match self {
            Stencil::Five => &FIVE,
            Stencil::Nine => &NINE,
            Stencil::Seven => &SEVEN,
        }
    }

    /// The largest ratio for which errors do not grow from step to step, as one over a number:
    /// 2 / (largest eigenvalue of the stencil). The nine-point stencil's is 16/3, at the finest
    /// checkerboard.
    pub fn stability(self) -> (f64, &'static str) {
        match self {
            Stencil::Five => (0.25, "1/(4 alpha)"),
            Stencil::Nine => (0.375, "3/(8 alpha)"),
            Stencil::Seven => (1.0 / 6.0, "1/(6 alpha)"),
        }
    }

    /// Computes a row of new temperatures.
    #[inline]
    pub fn apply(self, ratio: f64, rows: &Rows<'_>, out: &mut [f64]) {
        match (self, rows.planes) {
            (Stencil::Five, _) => five(ratio, rows, out),
            (Stencil::Nine, _) => nine(ratio, rows, out),
            (Stencil::Seven, Some(planes)) => seven(ratio, rows, planes, out),
            (Stencil::Seven, None) => unreachable!("a volume has planes before and behind"),
        }
    }
}

/// The row's cells, and those before and after each: slices of one length, so that no bounds checks
/// are left in the loops and they vectorise.
#[inline(always)]
fn three(row: &[f64], count: usize) -> (&[f64], &[f64], &[f64]) {
    (&row[..count], &row[1..][..count], &row[2..][..count])
}

fn five(ratio: f64, rows: &Rows<'_>, out: &mut [f64]) {
    let n = out.len();
    let (west, here, east) = three(rows.here, n);
    let (north, south) = (&rows.north[1..][..n], &rows.south[1..][..n]);
    for i in 0..n {
        let sides = (north[i] + south[i]) + (west[i] + east[i]);
        out[i] = here[i] + ratio * (sides - 4.0 * here[i]);
    }
}

fn nine(ratio: f64, rows: &Rows<'_>, out: &mut [f64]) {
    let n = out.len();
    let (west, here, east) = three(rows.here, n);
    let (north_west, north, north_east) = three(rows.north, n);
    let (south_west, south, south_east) = three(rows.south, n);
    let ratio = ratio / 6.0;
    for i in 0..n {
        let sides = (north[i] + south[i]) + (west[i] + east[i]);
        let corners = (north_west[i] + north_east[i]) + (south_west[i] + south_east[i]);
        out[i] = here[i] + ratio * (4.0 * sides + corners - 20.0 * here[i]);
    }
}

fn seven(ratio: f64, rows: &Rows<'_>, planes: (&[f64], &[f64]), out: &mut [f64]) {
    let n = out.len();
    let (west, here, east) = three(rows.here, n);
    let (north, south) = (&rows.north[1..][..n], &rows.south[1..][..n]);
    let (before, behind) = (&planes.0[1..][..n], &planes.1[1..][..n]);
    for i in 0..n {
        let sides = (north[i] + south[i]) + (west[i] + east[i]) + (before[i] + behind[i]);
        out[i] = here[i] + ratio * (sides - 6.0 * here[i]);
    }
}

/// The largest |a - b|. In eight lanes, because one running maximum is a chain of dependent
/// compares; the order does not matter to a maximum.
pub fn largest_difference(a: &[f64], b: &[f64]) -> f64 {
    let larger = |most: f64, a: f64, b: f64| {
        let change = (a - b).abs();
        if change > most { change } else { most }
    };
    let (a, b) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest = a.remainder().iter().zip(b.remainder());
    let rest = rest.fold(0.0, |most, (&a, &b)| larger(most, a, b));
    let mut lanes = [0.0; 8];
    for (a, b) in a.zip(b) {
        for (lane, (&a, &b)) in lanes.iter_mut().zip(a.iter().zip(b)) {
            *lane = larger(*lane, a, b);
        }
    }
    lanes.into_iter().fold(rest, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_difference_is_found_wherever_it_is() {
        for length in [1, 7, 8, 9, 24, 31] {
            for place in 0..length {
                let (a, mut b) = (vec![1.0; length], vec![1.5; length]);
                b[place] = -2.0;
                assert_eq!(largest_difference(&a, &b), 3.0);
            }
        }
        assert_eq!(largest_difference(&[], &[]), 0.0);
    }

    #[test]
    fn every_direction_has_its_opposite() {
        for stencil in [Stencil::Five, Stencil::Nine, Stencil::Seven] {
            let directions = stencil.directions();
            for direction in directions {
                assert!(directions.contains(&direction.map(|step| -step)));
            }
        }
    }

    /// A parabola's Laplacian is 2 a dimension everywhere, for every stencil.
    #[test]
    fn the_stencils_are_laplacians() {
        let square = |d: f64| (0..7).map(|x| f64::from(x * x) + d).collect::<Vec<f64>>();
        let (row, side) = (square(0.0), square(1.0));
        let rows = Rows { here: &row, north: &side, south: &side, planes: Some((&side, &side)) };
        for (stencil, laplacian) in
            [(Stencil::Five, 4.0), (Stencil::Nine, 4.0), (Stencil::Seven, 6.0)]
        {
            let mut out = [0.0; 5];
            stencil.apply(0.125, &rows, &mut out);
            for (new, old) in out.iter().zip(&row[1..]) {
                assert!((new - old - 0.125 * laplacian).abs() < 1e-12, "{stencil:?}");
            }
        }
    }

    /// At the limit the finest wave does not decay, beyond it it grows.
    #[test]
    fn the_limits_of_stability_are_where_the_finest_wave_stands() {
        for stencil in [Stencil::Five, Stencil::Nine, Stencil::Seven] {
            let wave: Vec<f64> = (0..9).map(|x| if x % 2 == 0 { 1.0 } else { -1.0 }).collect();
            let other: Vec<f64> = wave.iter().map(|value| -value).collect();
            let rows =
                Rows { here: &wave, north: &other, south: &other, planes: Some((&other, &other)) };
            let mut out = [0.0; 7];
            stencil.apply(stencil.stability().0, &rows, &mut out);
            // Sides alternate; the corners of the checkerboard are as the cell itself.
            for (new, old) in out.iter().zip(&wave[1..]) {
                assert!((new + old).abs() < 1e-12, "{stencil:?}: {new} from {old}");
            }
        }
    }
}
