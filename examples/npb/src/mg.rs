//! MG: a multigrid V-cycle on a periodic grid in cubes of ranks.
//!
//! A level of n points a side gives each block n / side of them. On levels with fewer points than
//! blocks only every second block (or fourth, ...) has one, and its neighbours are that far away:
//! partners that a rank has on no finer level.

use hikyaku::{Error, World};

/// Points along a side of a block on the finest level.
const POINTS: usize = 8;

/// A periodic cube of points, or a block of one with its neighbours' faces.
struct PointGrid {
    side: usize,
    points: Vec<u64>,
}

impl PointGrid {
    fn new(side: usize, from: [usize; 3]) -> PointGrid {
        let at = |index: usize| {
            let [x, y, z] = place(side, index);
            ((from[0] + x) * 5 + (from[1] + y) * 3 + (from[2] + z) * 7) as u64 % 19
        };
        PointGrid { side, points: (0..side.pow(3)).map(at).collect() }
    }

    fn at(&self, [x, y, z]: [usize; 3]) -> u64 {
        self.points[(z * self.side + y) * self.side + x]
    }

    /// The outermost points of one direction, on the side of the origin or the other.
    fn face(&self, direction: usize, far: bool) -> Vec<u64> {
        let layer = if far { self.side - 1 } else { 0 };
        let point = |across: usize| self.at(on_layer(self.side, across, direction, layer));
        (0..self.side * self.side).map(point).collect()
    }

    /// Adds to each point its six neighbours. `faces` are those beyond the block, by direction:
    /// on the side of the origin and on the other.
    fn smooth(&mut self, faces: &[[Vec<u64>; 2]; 3]) {
        let side = self.side;
        let sum = |index: usize| {
            let at = place(side, index);
            let mut sum = self.points[index];
            for direction in 0..3 {
                let (mut across, layer) = (at, at[direction]);
                across.swap(direction, 2);
                let across = across[1] * side + across[0];
                let near = |other: usize| {
                    let mut near = at;
                    near[direction] = other;
                    self.at(near)
                };
                let [below, above] = &faces[direction];
                let low = layer.checked_sub(1).map_or_else(|| below[across], near);
                let high = if layer + 1 < side { near(layer + 1) } else { above[across] };
                sum = sum.wrapping_add(low).wrapping_add(high);
            }
            sum
        };
        self.points = (0..side.pow(3)).map(sum).collect();
    }

    /// Every second point.
    fn coarse(&self) -> PointGrid {
        let side = self.side / 2;
        let points = (0..side.pow(3)).map(|index| self.at(place(side, index).map(|at| 2 * at)));
        PointGrid { side, points: points.collect() }
    }

    /// Adds the points of a coarser grid to every second one.
    fn refine(&mut self, coarse: &PointGrid) {
        for (index, value) in coarse.points.iter().enumerate() {
            let [x, y, z] = place(coarse.side, index).map(|at| 2 * at);
            let point = &mut self.points[(z * self.side + y) * self.side + x];
            *point = point.wrapping_add(*value);
        }
    }
}

fn place(side: usize, index: usize) -> [usize; 3] {
    [index % side, index / side % side, index / (side * side)]
}

/// A point of a layer.
fn on_layer(side: usize, across: usize, direction: usize, layer: usize) -> [usize; 3] {
    let mut at = [across % side, across / side, layer];
    at.swap(direction, 2);
    at
}

/// A rank's block, and its place among the others.
struct BlockPlace<'w> {
    world: &'w World,
    /// Blocks along a side.
    side: usize,
    at: [usize; 3],
}

impl BlockPlace<'_> {
    /// The faces of the neighbours of a block, on a level where only every `stride`-th has one.
    fn faces(&self, grid: &PointGrid, stride: usize) -> Result<[[Vec<u64>; 2]; 3], Error> {
        let mut faces = [const { [Vec::new(), Vec::new()] }; 3];
        for (direction, faces) in faces.iter_mut().enumerate() {
            let neighbour = |step: usize| {
                let mut at = self.at;
                at[direction] = (at[direction] + step) % self.side;
                ((at[2] * self.side + at[1]) * self.side + at[0]) as u32
            };
            let (below, above) = (neighbour(self.side - stride), neighbour(stride));
            let (low, high) = (grid.face(direction, false), grid.face(direction, true));
            *faces = [vec![0; low.len()], vec![0; low.len()]];
            let [from_below, from_above] = faces;
            self.world.sendrecv(&high, above, 0, from_below, below, 0)?;
            self.world.sendrecv(&low, below, 1, from_above, above, 1)?;
        }
        Ok(faces)
    }

    /// A V-cycle from this level down and back up. Without a coarser level, or a point on it, a
    /// rank has nothing to do there.
    fn cycle(&self, grid: &mut PointGrid, stride: usize) -> Result<(), Error> {
        grid.smooth(&self.faces(grid, stride)?);
        let points = grid.side * self.side / stride;
        if points > 2 {
            let stride = if grid.side == 1 { 2 * stride } else { stride };
            let active = self.at.iter().all(|at| at.is_multiple_of(stride));
            let mut coarse = match grid.side {
                1 => PointGrid { side: 1, points: grid.points.clone() },
                _ => grid.coarse(),
            };
            if active {
                self.cycle(&mut coarse, stride)?;
                grid.refine(&coarse);
            }
        }
        grid.smooth(&self.faces(grid, stride)?);
        Ok(())
    }
}

pub(crate) fn run(world: &World) -> Result<bool, Error> {
    let side = (1..).find(|side: &usize| side.pow(3) >= world.size() as usize).unwrap_or(1);
    let at = place(side, world.rank() as usize);
    let from = at.map(|at| at * POINTS);
    let mut block = PointGrid::new(POINTS, from);
    BlockPlace { world, side, at }.cycle(&mut block, 1)?;
    let mut whole = PointGrid::new(side * POINTS, [0; 3]);
    alone(&mut whole);
    let right = |index: usize| {
        let [x, y, z] = place(POINTS, index);
        whole.at([from[0] + x, from[1] + y, from[2] + z]) == block.points[index]
    };
    Ok((0..POINTS.pow(3)).all(right))
}

/// The result of one rank alone.
fn alone(grid: &mut PointGrid) {
    let around = |grid: &mut PointGrid| {
        let faces = std::array::from_fn(|direction| {
            [grid.face(direction, true), grid.face(direction, false)]
        });
        grid.smooth(&faces);
    };
    around(grid);
    if grid.side > 2 {
        let mut coarse = grid.coarse();
        alone(&mut coarse);
        grid.refine(&coarse);
    }
    around(grid);
}
