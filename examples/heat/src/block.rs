//! One rank's block of the grid, and what it exchanges with which neighbour. No messages here.
//!
//! ```text
//!        ┌──────────────────┐                 A step:
//!        │ frame            │                   1. pack      edges are copied out
//!        │  ┌────────────┐  │                   2. interior  needs nothing of the frame: runs
//!        │  │ rim        │  │                                while the edges travel
//!        │  │  ┌──────┐  │  │                   3. unpack    what arrived goes to the frame
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

use std::ops::Range;

use hikyaku::Layout;

use crate::config::{Boundary, HeatPlan};
use crate::field::{Decomposition, Direction, Field, Size, box_of};
use crate::stencil::{Stencil, largest_difference};

/// A rank's part of the field, now and one step later, and what lies around it.
#[derive(Debug, Clone)]
pub struct FieldBlock {
    /// Cells without the frame.
    pub size: Size,
    /// The temperatures now, with the frame. Inner cells are only read during a step.
    pub current: Vec<f64>,
    /// The temperatures one step later.
    next: Vec<f64>,
    stencil: Stencil,
    ratio: f64,
    /// Width of the frame in each dimension: 1, or 0 where there is none.
    frame: Size,
    /// Sides, two a dimension, that need a copy of the outermost cells.
    mirrored: [[bool; 2]; 3],
}

impl FieldBlock {
    /// A block at the start, of `rank`'s tile of the grid. It may be empty.
    pub fn new(field: &Field, (grid, rank): (&Decomposition, u32), plan: &HeatPlan) -> FieldBlock {
        let HeatPlan { stencil, ratio, boundary, .. } = *plan;
        let frame = [1, 1, usize::from(stencil == Stencil::Seven)];
        // A fixed frame is written here once: nothing ever arrives there.
        let outside = match boundary {
            Boundary::Fixed(temperature) => temperature,
            Boundary::Insulated => 0.0,
        };
        let mirrored = [0, 1, 2].map(|d| {
            [-1, 1].map(|step| {
                let mut direction = [0; 3];
                direction[d] = step;
                let border = frame[d] > 0 && grid.neighbour(rank, direction).is_none();
                boundary == Boundary::Insulated && border
            })
        });
        let size = field.size;
        let mut block = FieldBlock {
            size,
            current: Vec::new(),
            next: Vec::new(),
            stencil,
            ratio,
            frame,
            mirrored,
        };
        block.current = vec![outside; block.outer().iter().product()];
        let inner = block.region([0; 3], false);
        inner.unpack(&field.cells, &mut block.current).expect("the field has the block's size");
        block.next.clone_from(&block.current);
        block
    }

    /// Renews an insulated frame: no heat flows where the cell outside is as warm as the one
    /// inside. Whole faces, frame included, dimension after dimension: so corners outside a
    /// border get what the neighbour along the border has there.
    pub fn mirror(&mut self) {
        if self.size.contains(&0) {
            return;
        }
        let outer = self.outer();
        for (d, [low, high]) in self.mirrored.into_iter().enumerate() {
            let (frame, length) = (self.frame[d], outer[d]);
            let mut copy = |from: usize, to: usize| {
                let stride: usize = outer[..d].iter().product();
                for face in self.current.chunks_exact_mut(stride * length) {
                    face.copy_within(from * stride..(from + 1) * stride, to * stride);
                }
            };
            if low {
                copy(frame, 0);
            }
            if high {
                copy(length - 1 - frame, length - 1);
            }
        }
    }

    /// Computes the cells that do not touch the frame.
    pub fn interior(&mut self) {
        let Some(count) = self.size[0].checked_sub(2) else { return };
        for (start, _) in self.rows().filter(|(_, on_rim)| !on_rim) {
            self.compute(start + 1..start + 1 + count);
        }
    }

    /// Computes the cells along the frame, once it is there.
    pub fn rim(&mut self) {
        let width = self.size[0];
        for (start, on_rim) in self.rows() {
            if on_rim || width == 1 {
                self.compute(start..start + width);
            } else {
                self.compute(start..start + 1);
                self.compute(start + width - 1..start + width);
            }
        }
    }

    /// The largest change of a cell from `current` to `next`.
    pub fn largest_change(&self) -> f64 {
        let changes = self.rows().map(|(start, _)| {
            let row = start..start + self.size[0];
            largest_difference(&self.current[row.clone()], &self.next[row])
        });
        changes.fold(0.0, f64::max)
    }

    /// Makes `next` the current field; the old one becomes scratch.
    pub fn advance(&mut self) {
        std::mem::swap(&mut self.current, &mut self.next);
    }

    /// The field as it is now, without the frame.
    pub fn field(&self) -> Field {
        let mut field = Field::filled(self.size, 0.0);
        let inner = self.region([0; 3], false);
        inner.pack(&self.current, &mut field.cells).expect("the field has the block's size");
        field
    }

    /// The size with the frame.
    fn outer(&self) -> Size {
        [0, 1, 2].map(|d| self.size[d] + 2 * self.frame[d])
    }

    /// Where the first cell of every row lies, and whether all cells of the row touch the frame.
    fn rows(&self) -> impl Iterator<Item = (usize, bool)> + use<> {
        let ([_, height, depth], frame) = (self.size, self.frame);
        let [width, outer_height, _] = self.outer();
        let planes = if self.size[0] == 0 { 0 } else { depth };
        (0..planes).flat_map(move |z| {
            let outermost = frame[2] > 0 && (z == 0 || z + 1 == depth);
            (0..height).map(move |y| {
                let row = (z + frame[2]) * outer_height + y + frame[1];
                (row * width + frame[0], outermost || y == 0 || y + 1 == height)
            })
        })
    }

    /// Computes the cells of a row at these places of the arrays.
    #[inline]
    fn compute(&mut self, range: Range<usize>) {
        let [width, height, _] = self.outer().map(|length| length as isize);
        let FieldBlock { current, next, .. } = self;
        let around = |direction: Direction| {
            let [x, y, z] = direction.map(isize::from);
            &current[range.start.wrapping_add_signed((z * height + y) * width + x)..]
        };
        self.stencil.apply(self.ratio, around, &mut next[range.clone()]);
    }

    /// The cells along one side, edge or corner of a block: those within, or those of the frame.
    /// Direction zero is all of the block.
    fn region(&self, direction: Direction, outside: bool) -> Layout {
        let part = [0, 1, 2].map(|d| {
            let (frame, length) = (self.frame[d], self.size[d]);
            match (direction[d], outside) {
                (0, _) => frame..frame + length,
                (-1, false) => frame..2 * frame,
                (-1, true) => 0..frame,
                (_, false) => length..length + frame,
                (_, true) => length + frame..length + 2 * frame,
            }
        });
        box_of(self.outer(), part)
    }
}

/// What is exchanged with one neighbour: as many cells both ways.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockEdge {
    /// The neighbour.
    pub rank: u32,
    /// Where it lies.
    pub direction: Direction,
    /// Where the edge lies in a buffer. The last number of the range is the exchange's.
    pub range: Range<usize>,
    /// Cells of this block that the neighbour needs.
    send: Layout,
    /// Cells of this block's frame that it gives.
    receive: Layout,
}

/// All edges of a block. They are packed into one buffer, one after the other, and arrive in
/// another in the same order: a message is one contiguous range on either side, whatever the shape
/// of the edge. Each edge is followed by one number that belongs to the exchange, not to the field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockHalo(pub Vec<BlockEdge>);

impl BlockHalo {
    /// The edges of a rank's block.
    pub fn new(block: &FieldBlock, grid: &Decomposition, rank: u32) -> BlockHalo {
        let mut end = 0;
        let edges = block.stencil.directions().filter_map(|direction| {
            let rank = grid.neighbour(rank, direction)?;
            let [send, receive] = [false, true].map(|outside| block.region(direction, outside));
            let start = end;
            end += send.len() + 1;
            Some(BlockEdge { rank, direction, range: start..end, send, receive })
        });
        BlockHalo(edges.collect())
    }

    /// How many numbers go out, and come in.
    pub fn numbers(&self) -> usize {
        self.0.last().map_or(0, |edge| edge.range.end)
    }

    /// Copies what the neighbours need out of a block.
    pub fn pack(&self, block: &FieldBlock, out: &mut [f64]) {
        for BlockEdge { send, range, .. } in &self.0 {
            let place = &mut out[range.start..range.end - 1];
            send.pack(&block.current, place).expect("the edge was laid out for these cells");
        }
    }

    /// Copies what the neighbours gave into the frame around a block.
    pub fn unpack(&self, heard: &[f64], block: &mut FieldBlock) {
        for BlockEdge { receive, range, .. } in &self.0 {
            let edge = &heard[range.start..range.end - 1];
            receive.unpack(edge, &mut block.current).expect("the edge was laid out for them");
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::serial;

    fn plan(size: Size, stencil: Stencil, boundary: Boundary) -> HeatPlan {
        let (ratio, steps, tolerance, check_every) = (0.15, 25, 0.0, 100);
        HeatPlan { size, stencil, ratio, boundary, steps, tolerance, check_every }
    }

    /// Copies the edges of all blocks to their neighbours' frames, as messages would.
    fn exchange_all(blocks: &mut [FieldBlock], halos: &[BlockHalo]) {
        let pack = |(block, halo): (&FieldBlock, &BlockHalo)| {
            let mut out = vec![0.0; halo.numbers()];
            halo.pack(block, &mut out);
            out
        };
        let sent: Vec<Vec<f64>> = blocks.iter().zip(halos).map(pack).collect();
        for (rank, (block, halo)) in (0..).zip(blocks.iter_mut().zip(halos)) {
            let mut heard = vec![f64::NAN; halo.numbers()];
            for edge in &halo.0 {
                let back = edge.direction.map(|step| -step);
                let is_back = |other: &&BlockEdge| other.rank == rank && other.direction == back;
                let there = halos[edge.rank as usize].0.iter().find(is_back).unwrap();
                let cells = &sent[edge.rank as usize][there.range.clone()];
                heard[edge.range.clone()].copy_from_slice(cells);
            }
            halo.unpack(&heard, block);
            block.mirror();
        }
    }

    /// The field after the plan's steps of `ranks` blocks, and the largest change of the last one.
    fn in_blocks(start: &Field, ranks: u32, plan: &HeatPlan) -> (Field, f64) {
        let grid = Decomposition::new(start.size, ranks);
        let block = |rank| FieldBlock::new(&start.cut(&grid.tile(rank)), (&grid, rank), plan);
        let mut blocks: Vec<FieldBlock> = (0..ranks).map(block).collect();
        let halos: Vec<BlockHalo> =
            (0..).zip(&blocks).map(|(rank, block)| BlockHalo::new(block, &grid, rank)).collect();
        let mut change = 0.0;
        for _ in 0..plan.steps {
            exchange_all(&mut blocks, &halos);
            for block in &mut blocks {
                block.interior();
                block.rim();
            }
            change = blocks.iter().map(FieldBlock::largest_change).fold(0.0, f64::max);
            blocks.iter_mut().for_each(FieldBlock::advance);
        }
        let mut field = Field::filled(start.size, f64::NAN);
        for (tile, block) in grid.tiles().zip(&blocks) {
            field.paste(&tile, &block.field().cells);
        }
        (field, change)
    }

    #[test]
    fn blocks_compute_bitwise_what_the_serial_program_does() {
        let planes =
            [[1, 1, 1], [1, 6, 1], [6, 1, 1], [2, 3, 1], [3, 3, 1], [16, 9, 1], [31, 33, 1]];
        let volumes = [[1, 1, 1], [1, 1, 5], [2, 2, 2], [5, 4, 3], [9, 8, 7]];
        for (stencil, sizes, most) in [
            (Stencil::Five, &planes[..], 9),
            (Stencil::Nine, &planes, 9),
            (Stencil::Seven, &volumes, 12),
        ] {
            for (size, boundary) in sizes
                .iter()
                .flat_map(|size| [Boundary::Insulated, Boundary::Fixed(1.7)].map(|b| (*size, b)))
            {
                let rough = |[x, y, z]: Size| ((x * 37 + y * 101 + z * 53) % 89) as f64 / 7.0 - 3.3;
                let (start, plan) = (Field::from_fn(size, rough), plan(size, stencil, boundary));
                let mut serial = serial::Serial::new(&start, &plan);
                let expected = (0..plan.steps).map(|_| serial.step()).last().unwrap();
                for ranks in 1..=most {
                    let (field, change) = in_blocks(&start, ranks, &plan);
                    let what = format!("{size:?} on {ranks}, {stencil:?}, {boundary:?}");
                    assert_eq!(field.first_difference(serial.field()), None, "{what}");
                    assert_eq!(change.to_bits(), expected.to_bits(), "{what}");
                }
            }
        }
    }

    fn numbered(size: Size, ranks: u32, rank: u32, stencil: Stencil) -> (FieldBlock, BlockHalo) {
        let grid = Decomposition::new(size, ranks);
        let number = |[x, y, z]: Size| (100 * z + 10 * y + x) as f64;
        let field = Field::from_fn(grid.tile(rank).size(), number);
        let block =
            FieldBlock::new(&field, (&grid, rank), &plan(size, stencil, Boundary::Insulated));
        let halo = BlockHalo::new(&block, &grid, rank);
        (block, halo)
    }

    #[test]
    fn a_block_in_the_middle_has_all_edges_and_packs_its_rim() {
        let (block, halo) = numbered([9, 9, 1], 9, 4, Stencil::Nine);
        let mut out = vec![0.0; halo.numbers()];
        halo.pack(&block, &mut out);
        let sent =
            |edge: &BlockEdge| (edge.rank, out[edge.range.start..edge.range.end - 1].to_vec());
        let sent: Vec<(u32, Vec<f64>)> = halo.0.iter().map(sent).collect();
        let expected = [
            (1, vec![0.0, 1.0, 2.0]),
            (7, vec![20.0, 21.0, 22.0]),
            (3, vec![0.0, 10.0, 20.0]),
            (5, vec![2.0, 12.0, 22.0]),
            (0, vec![0.0]),
            (2, vec![2.0]),
            (6, vec![20.0]),
            (8, vec![22.0]),
        ];
        assert_eq!(sent, expected);
    }

    #[test]
    fn what_arrives_goes_to_the_frame_and_nowhere_else() {
        for (size, stencil, ranks) in
            [([9, 9, 1], Stencil::Nine, 9), ([6, 6, 6], Stencil::Seven, 27)]
        {
            let (mut block, halo) = numbered(size, ranks, ranks / 2, stencil);
            let before = block.field();
            halo.unpack(&vec![-1.0; halo.numbers()], &mut block);
            assert_eq!(block.field(), before);
            let written = block.current.iter().filter(|cell| **cell == -1.0).count();
            assert_eq!(written, halo.numbers() - halo.0.len());
        }
    }

    #[test]
    fn an_empty_block_has_no_edges_and_does_nothing() {
        let (mut block, halo) = numbered([1, 1, 1], 2, 1, Stencil::Five);
        assert_eq!((halo.0.len(), halo.numbers()), (0, 0));
        block.mirror();
        block.interior();
        block.rim();
        assert_eq!((block.largest_change(), block.field().cells.len()), (0.0, 0));
    }
}
