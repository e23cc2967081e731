//! One rank's block of the grid. No messages here.
//!
//! ```text
//!        ┌──────────────────┐                 A step:
//!        │ frame            │                   1. pack      edges are copied out (halo.rs)
//!        │  ┌────────────┐  │                   2. interior  needs nothing of the frame: runs
//!        │  │ rim        │  │                                while the edges travel
//!        │  │  ┌──────┐  │  │                   3. unpack    what came goes to the frame (halo.rs)
//!        │  │  │inter-│  │  │                   4. mirror    at insulated borders
//!        │  │  │ ior  │  │  │                   5. rim
//!        │  │  └──────┘  │  │                   6. advance   next becomes current
//!        │  └────────────┘  │
//!        └──────────────────┘
//! ```
//!
//! The cells lie in one array with a frame of one cell around them; a volume has it in all three
//! dimensions, a plane in two. The frame holds copies of the neighbours' cells, or at the border of
//! the grid a constant temperature, or copies of the outermost cells through which no heat flows.

use crate::config::Boundary;
use crate::decompose::Decomposition;
use crate::field::{Extent, Field};
use crate::stencil::{Rows, Stencil, largest_difference};

/// A rank's part of the field, now and one step later, and what lies around it.
///
/// The arrays are public so that an exchange can read `current` while `next` is being computed.
#[derive(Debug, Clone)]
pub struct Block {
    /// Where the cells are in the arrays.
    pub shape: Shape,
    /// The temperatures now. Inner cells are only read during a step.
    pub current: Vec<f64>,
    /// The temperatures one step later.
    pub next: Vec<f64>,
    /// How a step is computed.
    pub stencil: Stencil,
    /// α·dt in cells².
    pub ratio: f64,
    /// Sides, two a dimension, that need a copy of the outermost cells.
    mirrored: [[bool; 2]; 3],
}

/// How the cells of a block lie in its arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Cells without the frame.
    pub extent: Extent,
    /// Width of the frame in each dimension: 1, or 0 where there is none.
    pub frame: [usize; 3],
}

impl Shape {
    fn new(extent: Extent, stencil: Stencil) -> Shape {
        Shape { extent, frame: [1, 1, usize::from(stencil == Stencil::Seven)] }
    }

    /// Cells along columns, rows and planes, without the frame.
    pub fn inner(&self) -> [usize; 3] {
        let Extent { width, height, depth } = self.extent;
        [width, height, depth]
    }

    /// The same with the frame.
    pub fn outer(&self) -> [usize; 3] {
        let inner = self.inner();
        [0, 1, 2].map(|d| inner[d] + 2 * self.frame[d])
    }

    /// Place in the array of the cell at (0, y, z) of the block.
    #[inline]
    fn row(&self, y: usize, z: usize) -> usize {
        let [width, height, _] = self.outer();
        ((z + self.frame[2]) * height + y + self.frame[1]) * width + self.frame[0]
    }

    /// Every row of the block: its y and z, and the place of its first cell.
    fn rows(self) -> impl Iterator<Item = (usize, usize, usize)> {
        let Extent { height, depth, width } = self.extent;
        let planes = if width == 0 { 0 } else { depth };
        (0..planes).flat_map(move |z| (0..height).map(move |y| (y, z, self.row(y, z))))
    }
}

impl Block {
    /// A block at the start, of `rank`'s tile of the grid. It may be empty.
    pub fn new(
        field: &Field,
        (grid, rank): (&Decomposition, u32),
        stencil: Stencil,
        ratio: f64,
        boundary: Boundary,
    ) -> Block {
        let shape = Shape::new(field.extent(), stencil);
        // A fixed frame is written here once: nothing ever arrives there.
        let outside = match boundary {
            Boundary::Fixed(temperature) => temperature,
            Boundary::Insulated => 0.0,
        };
        let mut current = vec![outside; shape.outer().iter().product()];
        for (y, z, start) in shape.rows() {
            current[start..][..shape.extent.width].copy_from_slice(field.row(y, z));
        }
        let mirrored = [0, 1, 2].map(|dimension| {
            [-1, 1].map(|step| {
                let mut direction = [0; 3];
                direction[dimension] = step;
                boundary == Boundary::Insulated
                    && shape.frame[dimension] > 0
                    && grid.neighbour(rank, direction).is_none()
            })
        });
        Block { shape, next: current.clone(), current, stencil, ratio, mirrored }
    }

    /// Renews an insulated frame: no heat flows where the cell outside is as warm as the one
    /// inside. Whole faces, frame included, dimension after dimension: so corners outside a
    /// border get what the neighbour along the border has there.
    pub fn mirror(&mut self) {
        if self.shape.extent.cells() == 0 {
            return;
        }
        let outer = self.shape.outer();
        for (dimension, sides) in self.mirrored.into_iter().enumerate() {
            let (frame, length) = (self.shape.frame[dimension], outer[dimension]);
            let [low, high] = sides;
            if low {
                copy_face(&mut self.current, outer, dimension, (frame, 0));
            }
            if high {
                copy_face(&mut self.current, outer, dimension, (length - 1 - frame, length - 1));
            }
        }
    }

    /// Computes the cells that do not touch the frame. Takes the parts of the block that it needs,
    /// so that it can run while others are lent to an exchange.
    pub fn interior(shape: Shape, stencil: Stencil, ratio: f64, current: &[f64], next: &mut [f64]) {
        let Some(count) = shape.extent.width.checked_sub(2) else { return };
        for (_, _, start) in shape.rows().filter(|&(y, z, _)| !on_rim(&shape, y, z)) {
            row_of(shape, stencil, ratio, current, next, start + 1..start + 1 + count);
        }
    }

    /// Computes the cells along the frame, once it is there.
    pub fn rim(&mut self) {
        let Block { shape, stencil, ratio, current, next, .. } = self;
        let width = shape.extent.width;
        for (y, z, start) in shape.rows() {
            let mut compute = |range| row_of(*shape, *stencil, *ratio, current, next, range);
            if on_rim(shape, y, z) {
                compute(start..start + width);
            } else {
                compute(start..start + 1);
                if width > 1 {
                    compute(start + width - 1..start + width);
                }
            }
        }
    }

    /// The largest change of a cell from `current` to `next`.
    pub fn largest_change(&self) -> f64 {
        let width = self.shape.extent.width;
        let change = |(_, _, start): (usize, usize, usize)| {
            let row = start..start + width;
            largest_difference(&self.current[row.clone()], &self.next[row])
        };
        self.shape.rows().map(change).fold(0.0, f64::max)
    }

    /// Makes `next` the current field; the old one becomes scratch.
    pub fn advance(&mut self) {
        std::mem::swap(&mut self.current, &mut self.next);
    }

    /// The field as it is now, without the frame.
    pub fn field(&self) -> Field {
        let mut field = Field::filled(self.shape.extent, 0.0);
        for (y, z, start) in self.shape.rows() {
            field.row_mut(y, z).copy_from_slice(&self.current[start..][..self.shape.extent.width]);
        }
        field
    }
}

/// Whether all cells of a row touch the frame.
fn on_rim(shape: &Shape, y: usize, z: usize) -> bool {
    let Extent { height, depth, .. } = shape.extent;
    let plane = shape.frame[2] > 0 && (z == 0 || z + 1 == depth);
    plane || y == 0 || y + 1 == height
}

/// Computes the cells of a row at these places of the arrays.
#[inline]
fn row_of(
    shape: Shape,
    stencil: Stencil,
    ratio: f64,
    current: &[f64],
    next: &mut [f64],
    range: std::ops::Range<usize>,
) {
    let [width, height, _] = shape.outer();
    // One cell more on either side.
    let around = |from: usize| &current[from - 1..][..range.len() + 2];
    let plane = width * height;
    let planes =
        (shape.frame[2] > 0).then(|| (around(range.start - plane), around(range.start + plane)));
    let rows = Rows {
        here: around(range.start),
        north: around(range.start - width),
        south: around(range.start + width),
        planes,
    };
    stencil.apply(ratio, &rows, &mut next[range.clone()]);
}

/// Copies the cells at one place along a dimension to another, for all places along the others.
fn copy_face(cells: &mut [f64], outer: [usize; 3], dimension: usize, (from, to): (usize, usize)) {
    let stride: usize = outer[..dimension].iter().product();
    let span = stride * outer[dimension];
    for face in cells.chunks_exact_mut(span) {
        face.copy_within(from * stride..(from + 1) * stride, to * stride);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::halo::{Edge, Halo};
    use crate::serial;

    /// Copies the edges of all blocks to their neighbours' frames, as messages would.
    fn exchange_all(blocks: &mut [Block], halos: &[Halo]) {
        let pack = |(block, halo): (&Block, &Halo)| {
            let mut out = vec![0.0; halo.numbers()];
            halo.pack(&block.current, &mut out);
            out
        };
        let sent: Vec<Vec<f64>> = blocks.iter().zip(halos).map(pack).collect();
        for (rank, (block, halo)) in (0..).zip(blocks.iter_mut().zip(halos)) {
            let mut heard = vec![f64::NAN; halo.numbers()];
            for (edge, range) in halo.edges().iter().zip(halo.ranges()) {
                let there = &halos[edge.rank as usize];
                let back = edge.direction.map(|step| -step);
                let is_back = |other: &Edge| other.rank == rank && other.direction == back;
                let from = there.ranges()[there.edges().iter().position(is_back).unwrap()].clone();
                heard[range].copy_from_slice(&sent[edge.rank as usize][from]);
            }
            halo.unpack(&heard, &mut block.current);
            block.mirror();
        }
    }

    /// The field after `steps` steps of `ranks` blocks, and the largest change of the last one.
    fn in_blocks(
        start: &Field,
        ranks: u32,
        steps: u64,
        (stencil, boundary): (Stencil, Boundary),
    ) -> (Field, f64) {
        let grid = Decomposition::new(start.extent(), ranks);
        let block =
            |rank| Block::new(&start.cut(&grid.tile(rank)), (&grid, rank), stencil, 0.15, boundary);
        let mut blocks: Vec<Block> = (0..ranks).map(block).collect();
        let halos: Vec<Halo> =
            (0..).zip(&blocks).map(|(rank, block)| Halo::new(block, &grid, rank)).collect();
        let mut change = 0.0;
        for _ in 0..steps {
            exchange_all(&mut blocks, &halos);
            for block in &mut blocks {
                let Block { shape, stencil, ratio, ref current, ref mut next, .. } = *block;
                Block::interior(shape, stencil, ratio, current, next);
                block.rim();
            }
            change = blocks.iter().map(Block::largest_change).fold(0.0, f64::max);
            blocks.iter_mut().for_each(Block::advance);
        }
        let mut field = Field::filled(start.extent(), f64::NAN);
        for (tile, block) in grid.tiles().zip(&blocks) {
            field.paste(&tile, block.field().cells());
        }
        (field, change)
    }

    fn rough(extent: impl Into<Extent>) -> Field {
        let at = |x, y, z| ((x * 37 + y * 101 + z * 53) % 89) as f64 / 7.0 - 3.3;
        Field::from_fn(extent, at)
    }

    fn compare(start: &Field, stencil: Stencil, ranks: std::ops::RangeInclusive<u32>) {
        for boundary in [Boundary::Insulated, Boundary::Fixed(1.7)] {
            let mut serial = serial::Serial::new(start, stencil, 0.15, boundary);
            let mut expected_change = 0.0;
            for _ in 0..25 {
                expected_change = serial.step();
            }
            for ranks in ranks.clone() {
                let (field, change) = in_blocks(start, ranks, 25, (stencil, boundary));
                let what = format!("{:?} on {ranks}, {stencil:?}, {boundary:?}", start.extent());
                assert_eq!(field.first_difference(serial.field()), None, "{what}");
                assert_eq!(change.to_bits(), expected_change.to_bits(), "{what}");
            }
        }
    }

    #[test]
    fn blocks_of_planes_compute_bitwise_what_the_serial_program_does() {
        for size in [(1, 1), (1, 6), (6, 1), (2, 3), (3, 3), (16, 9), (31, 33)] {
            compare(&rough(size), Stencil::Five, 1..=9);
            compare(&rough(size), Stencil::Nine, 1..=9);
        }
    }

    #[test]
    fn blocks_of_volumes_compute_bitwise_what_the_serial_program_does() {
        for size in [[1, 1, 1], [1, 1, 5], [2, 2, 2], [5, 4, 3], [9, 8, 7]] {
            compare(&rough(size), Stencil::Seven, 1..=12);
        }
    }

    #[test]
    fn an_empty_block_does_nothing() {
        let grid = Decomposition::new((1, 1), 2);
        let empty = Field::filled((0, 0), 0.0);
        let mut block = Block::new(&empty, (&grid, 1), Stencil::Five, 0.2, Boundary::Insulated);
        block.mirror();
        Block::interior(block.shape, block.stencil, 0.2, &block.current, &mut block.next);
        block.rim();
        assert_eq!((block.largest_change(), block.field().cells().len()), (0.0, 0));
    }
}
