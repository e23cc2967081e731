//! SP and BT: sweeps over a grid in multi-partition. Each rank has as many cells as there are ranks
//! along a side, on a diagonal, so that in every sweep all ranks have a cell to work on. The
//! successors of a rank's cells in x, in y and in z belong to one rank each. SP sends 5 values a
//! point, BT 30: with blocks of the factorisation besides the unknowns.
//!
//! ```text
//!   rank (row, column) has for each k the cell  x = column + k, y = row - k, z = k  (modulo side)
//!   successor in x: (row, column + 1)   in y: (row + 1, column)   in z: (row + 1, column - 1)
//! ```

use hikyaku::{Error, World};

use crate::side;

/// Points of a cell along a side.
const POINTS: usize = 4;
/// Points of a face.
const FACE: usize = POINTS * POINTS;

/// A point of the grid before anything is computed.
fn first<const VALUES: usize>([x, y, z]: [usize; 3]) -> [u64; VALUES] {
    std::array::from_fn(|value| ((x * 3 + y * 5 + z * 7 + value) % 13) as u64)
}

/// A cube of points.
struct PointCube<const VALUES: usize> {
    side: usize,
    points: Vec<[u64; VALUES]>,
}

impl<const VALUES: usize> PointCube<VALUES> {
    /// The cube of `side` points a side whose first point is `from`.
    fn new(side: usize, from: [usize; 3]) -> PointCube<VALUES> {
        let at = |index: usize| {
            let [x, y, z] = place(side, index);
            first([from[0] + x, from[1] + y, from[2] + z])
        };
        PointCube { side, points: (0..side.pow(3)).map(at).collect() }
    }

    /// Adds to each point the sum of the points behind it in one direction, starting with `face`.
    /// `forward` is away from the origin. Returns the face for the next cell.
    fn sweep(&mut self, direction: usize, forward: bool, face: Vec<u64>) -> Vec<u64> {
        let side = self.side;
        let mut sums = face;
        for layer in 0..side {
            let layer = if forward { layer } else { side - 1 - layer };
            for (across, sum) in sums.chunks_exact_mut(VALUES).enumerate() {
                let mut at = [across % side, across / side, 0];
                at[2] = layer;
                at.swap(2, direction);
                let point = &mut self.points[(at[2] * side + at[1]) * side + at[0]];
                for (value, sum) in point.iter_mut().zip(sum) {
                    *value = value.wrapping_add(*sum);
                    *sum = *value;
                }
            }
        }
        sums
    }
}

fn place(side: usize, index: usize) -> [usize; 3] {
    [index % side, index / side % side, index / (side * side)]
}

pub(crate) fn run<const VALUES: usize>(world: &World) -> Result<bool, Error> {
    let (side, rank) = (side(world.size()), world.rank() as usize);
    let (row, column) = (rank / side, rank % side);
    let places: Vec<[usize; 3]> =
        (0..side).map(|k| [(column + k) % side, (row + side - k) % side, k]).collect();
    let mut cells: Vec<PointCube<VALUES>> =
        places.iter().map(|place| PointCube::new(POINTS, place.map(|at| at * POINTS))).collect();
    let rank_at = |row: usize, column: usize| ((row % side) * side + column % side) as u32;
    let back = side - 1;
    let successors =
        [rank_at(row, column + 1), rank_at(row + 1, column), rank_at(row + 1, column + back)];
    let predecessors =
        [rank_at(row, column + back), rank_at(row + back, column), rank_at(row + back, column + 1)];
    for (direction, forward) in sweeps() {
        let (from, to) = match forward {
            true => (predecessors[direction], successors[direction]),
            false => (successors[direction], predecessors[direction]),
        };
        for step in 0..side {
            let layer = if forward { step } else { side - 1 - step };
            let k = places.iter().position(|place| place[direction] == layer);
            let cell = &mut cells[k.expect("a diagonal meets every layer")];
            let mut face = vec![0; FACE * VALUES];
            if step > 0 {
                world.recv(&mut face, from, direction as i32)?;
            }
            let face = cell.sweep(direction, forward, face);
            if step + 1 < side {
                world.send(&face, to, direction as i32)?;
            }
        }
    }
    let grid = alone::<VALUES>(side * POINTS);
    let right = |(place, cell): (&[usize; 3], &PointCube<VALUES>)| {
        (0..POINTS.pow(3)).all(|index| {
            let [x, y, z] = self::place(POINTS, index);
            let at = [place[0] * POINTS + x, place[1] * POINTS + y, place[2] * POINTS + z];
            grid.points[(at[2] * grid.side + at[1]) * grid.side + at[0]] == cell.points[index]
        })
    };
    Ok(places.iter().zip(&cells).all(right))
}

/// All sweeps: each direction there and back.
fn sweeps() -> impl Iterator<Item = (usize, bool)> {
    (0..3).flat_map(|direction| [(direction, true), (direction, false)])
}

/// The result of one rank alone.
fn alone<const VALUES: usize>(side: usize) -> PointCube<VALUES> {
    let mut grid = PointCube::new(side, [0; 3]);
    for (direction, forward) in sweeps() {
        grid.sweep(direction, forward, vec![0; side * side * VALUES]);
    }
    grid
}
