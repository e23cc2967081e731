//! One rank's block of the grid, and its edges with each neighbour. No messages here.
//!
//! ```text
//!        ┌──────────────────┐                 A step:
//!        │ frame            │                   1. pack      edges are copied out
//!        │  ┌────────────┐  │                   2. interior  needs nothing of the frame: runs
//!        │  │ rim        │  │                                while the edges travel
//!        │  │  ┌──────┐  │  │                   3. unpack    what arrived goes to the frame
//!        │  │  │inter-│  │  │                   4. rim
//!        │  │  │ ior  │  │  │                   5. advance   next becomes current
//!        │  │  └──────┘  │  │
//!        │  └────────────┘  │
//!        └──────────────────┘
//! ```
//!
//! The cells lie in one array with a frame of one cell around them. The frame holds copies of the
//! neighbours' cells, or at the border of the grid a constant temperature, or copies of the
//! outermost cells, through which no heat flows.

use std::ops::Range;

use hikyaku::Layout;

use crate::config::HeatPlan;
use crate::field::{Decomposition, Direction, Field, Size, box_of};
use crate::serial::{largest_difference, step_row};

/// A rank's part of the field, now and one step later, and its surroundings.
#[derive(Debug, Clone)]
pub struct FieldBlock {
    /// Cells without the frame.
    size: Size,
    /// The temperatures now, with the frame. Inner cells are only read during a step.
    current: Vec<f64>,
    /// The temperatures one step later.
    next: Vec<f64>,
    /// α·dt in cells².
    ratio: f64,
    /// The exchange with the neighbours. All edges are packed into one buffer, one after the other,
    /// and arrive in another in the same order.
    pub edges: Vec<BlockEdge>,
    /// At insulated borders: cells of the rim, and those of the frame that are copies of them.
    mirrors: Vec<[Layout; 2]>,
}

/// The exchange with one neighbour: as many cells both ways.
#[derive(Debug, Clone)]
pub struct BlockEdge {
    /// The neighbour.
    pub rank: u32,
    /// Its range in a buffer. The last number of the range belongs to the exchange.
    pub range: Range<usize>,
    /// Cells of this block that the neighbour needs, and cells of the frame that the neighbour
    /// provides.
    cells: [Layout; 2],
}

impl FieldBlock {
    /// The block of `rank`'s tile of the grid at the start. It may be empty.
    pub fn new(field: &Field, grid: &Decomposition, rank: u32, plan: &HeatPlan) -> FieldBlock {
        let size = field.size;
        // A frame of constant temperature is written here once: nothing ever arrives there.
        let mut current = vec![plan.frame.unwrap_or(0.0); (size[0] + 2) * (size[1] + 2)];
        let inner = region(size, [0, 0], 0);
        inner.unpack(&field.cells, &mut current).expect("the field has the block's size");
        let (mut edges, mut mirrors, mut start) = (Vec::new(), Vec::new(), 0);
        for direction in [[0, -1], [0, 1], [-1, 0], [1, 0]] {
            let cells = [0, 1].map(|outside| region(size, direction, outside));
            if let Some(rank) = grid.neighbour(rank, direction) {
                let range = start..start + cells[0].len() + 1;
                start = range.end;
                edges.push(BlockEdge { rank, range, cells });
            } else if plan.frame.is_none() {
                mirrors.push(cells);
            }
        }
        let next = current.clone();
        FieldBlock { size, current, next, ratio: plan.ratio(), edges, mirrors }
    }

    /// Copies the cells that the neighbours need out of the block.
    pub fn pack(&self, out: &mut [f64]) {
        for BlockEdge { range, cells: [rim, _], .. } in &self.edges {
            let place = &mut out[range.start..range.end - 1];
            rim.pack(&self.current, place).expect("the edge was laid out for these cells");
        }
    }

    /// Copies the neighbours' cells, and at insulated borders the rim, into the frame.
    pub fn unpack(&mut self, heard: &[f64]) {
        for BlockEdge { range, cells: [_, frame], .. } in &self.edges {
            let edge = &heard[range.start..range.end - 1];
            frame.unpack(edge, &mut self.current).expect("the edge was laid out for them");
        }
        for [rim, frame] in &self.mirrors {
            let mut cells = vec![0.0; rim.len()];
            rim.pack(&self.current, &mut cells).expect("as many cells");
            frame.unpack(&cells, &mut self.current).expect("as many cells");
        }
    }

    /// Computes the cells that do not touch the frame.
    pub fn interior(&mut self) {
        let [columns, rows] = self.size.map(|length| 1..length.saturating_sub(1));
        self.compute(columns, rows);
    }

    /// Computes the cells along the frame, once the frame has arrived.
    pub fn rim(&mut self) {
        let [width, height] = self.size;
        let [first_column, first_row] = self.size.map(|length| 0..length.min(1));
        let [last_column, last_row] =
            self.size.map(|length| length.saturating_sub(1).max(1)..length);
        let between = first_row.end..last_row.start.min(height);
        self.compute(0..width, first_row);
        self.compute(first_column, between.clone());
        self.compute(last_column, between);
        self.compute(0..width, last_row);
    }

    /// Computes these cells.
    fn compute(&mut self, columns: Range<usize>, rows: Range<usize>) {
        let FieldBlock { size, current, next, ratio, .. } = self;
        let width = size[0] + 2;
        for start in rows.map(|row| (row + 1) * width + columns.start + 1) {
            let around = [start - width, start - 1, start + width].map(|from| &current[from..]);
            step_row(*ratio, around, &mut next[start..start + columns.len()]);
        }
    }

    /// The largest change of a cell from `current` to `next`.
    pub fn largest_change(&self) -> f64 {
        let [width, height] = self.size;
        let changes = (1..=height).map(|row| {
            let row = row * (width + 2) + 1..(row + 1) * (width + 2) - 1;
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
        let inner = region(self.size, [0, 0], 0);
        inner.pack(&self.current, &mut field.cells).expect("the field has the block's size");
        field
    }
}

/// The cells along one side of a block of this size: those of the rim, or with `outside` 1 those of
/// the frame. Direction zero is the whole block.
fn region(size: Size, direction: Direction, outside: usize) -> Layout {
    let part = [0, 1].map(|d| match direction[d] {
        0 => 1..size[d] + 1,
        -1 => 1 - outside..2 - outside,
        _ => size[d] + outside..size[d] + outside + 1,
    });
    box_of(size.map(|length| length + 2), part)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::serial;

    fn plan(size: Size, frame: Option<f64>) -> HeatPlan {
        HeatPlan { size, dt: 0.15, steps: 25, frame, ..HeatPlan::default() }
    }

    fn buffer(block: &FieldBlock) -> Vec<f64> {
        vec![f64::NAN; block.edges.last().map_or(0, |edge| edge.range.end)]
    }

    /// Copies the edges of all blocks to their neighbours' frames, as messages would.
    fn exchange_all(blocks: &mut [FieldBlock]) {
        let pack = |block: &FieldBlock| {
            let mut out = buffer(block);
            block.pack(&mut out);
            out
        };
        let sent: Vec<Vec<f64>> = blocks.iter().map(pack).collect();
        let edges: Vec<Vec<BlockEdge>> = blocks.iter().map(|block| block.edges.clone()).collect();
        for (rank, block) in (0..).zip(blocks) {
            let mut heard = buffer(block);
            for edge in &block.edges {
                let other = edge.rank as usize;
                let there = edges[other].iter().find(|back| back.rank == rank).unwrap();
                heard[edge.range.clone()].copy_from_slice(&sent[other][there.range.clone()]);
            }
            block.unpack(&heard);
        }
    }

    /// The field after the plan's steps in `ranks` blocks, and the largest change of the last step.
    fn in_blocks(start: &Field, ranks: u32, plan: &HeatPlan) -> (Field, f64) {
        let grid = Decomposition::new(start.size, ranks);
        let block = |rank| FieldBlock::new(&start.cut(&grid.tile(rank)), &grid, rank, plan);
        let mut blocks: Vec<FieldBlock> = (0..ranks).map(block).collect();
        let mut change = 0.0;
        for _ in 0..plan.steps {
            exchange_all(&mut blocks);
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
        for size in [[1, 1], [1, 6], [6, 1], [2, 3], [3, 3], [16, 9], [31, 33]] {
            for frame in [None, Some(1.7)] {
                let rough = |[x, y]: Size| ((x * 37 + y * 101) % 89) as f64 / 7.0 - 3.3;
                let (start, plan) = (Field::from_fn(size, rough), plan(size, frame));
                let (mut before, mut expected) = (start.clone(), start.clone());
                for _ in 0..plan.steps {
                    std::mem::swap(&mut before, &mut expected);
                    serial::step(&plan, &before, &mut expected);
                }
                let largest = largest_difference(&before.cells, &expected.cells);
                for ranks in 1..=9 {
                    let (field, change) = in_blocks(&start, ranks, &plan);
                    let what = format!("{size:?} on {ranks}, {frame:?}");
                    assert_eq!(field.first_difference(&expected), None, "{what}");
                    assert_eq!(change.to_bits(), largest.to_bits(), "{what}");
                }
            }
        }
    }

    fn numbered(size: Size, ranks: u32, rank: u32) -> FieldBlock {
        let grid = Decomposition::new(size, ranks);
        let number = |[x, y]: Size| (10 * y + x) as f64;
        let tile = grid.tile(rank).each_ref().map(Range::len);
        FieldBlock::new(&Field::from_fn(tile, number), &grid, rank, &plan(size, None))
    }

    #[test]
    fn a_block_in_the_middle_has_all_edges_and_packs_its_rim() {
        let block = numbered([9, 9], 9, 4);
        let mut out = buffer(&block);
        block.pack(&mut out);
        let sent =
            |edge: &BlockEdge| (edge.rank, out[edge.range.start..edge.range.end - 1].to_vec());
        let sent: Vec<(u32, Vec<f64>)> = block.edges.iter().map(sent).collect();
        let expected = [
            (1, vec![0.0, 1.0, 2.0]),
            (7, vec![20.0, 21.0, 22.0]),
            (3, vec![0.0, 10.0, 20.0]),
            (5, vec![2.0, 12.0, 22.0]),
        ];
        assert_eq!(sent, expected);
    }

    #[test]
    fn what_arrives_goes_to_the_frame_and_nowhere_else() {
        let mut block = numbered([9, 9], 9, 4);
        let (before, numbers) = (block.field(), buffer(&block).len());
        block.unpack(&vec![-1.0; numbers]);
        assert_eq!(block.field(), before);
        let written = block.current.iter().filter(|cell| **cell == -1.0).count();
        assert_eq!(written, numbers - block.edges.len());
    }

    #[test]
    fn an_empty_block_has_no_edges_and_does_nothing() {
        let mut block = numbered([1, 1], 2, 1);
        assert!(block.edges.is_empty());
        block.interior();
        block.unpack(&[]);
        block.rim();
        assert_eq!((block.largest_change(), block.field().cells.len()), (0.0, 0));
    }
}
