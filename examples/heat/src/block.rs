//! One rank's block of the grid and the arithmetic of a step. No messages here.
//!
//! ```text
//!              halo.north                 A step:
//!            ┌────────────┐                 1. pack      edges to be sent; frame of the grid
//!            │ rim        │                 2. interior  needs nothing from outside: runs while
//!  halo.west │  ┌──────┐  │ halo.east                    the edges travel
//!            │  │inter-│  │                 3. rim       with what has arrived
//!            │  │ ior  │  │                 4. advance   next becomes current
//!            │  └──────┘  │
//!            └────────────┘
//!              halo.south
//! ```
//!
//! Why the field is bitwise the serial program's, however the grid is cut and in whatever order
//! the cells are computed: a new temperature is one expression ([`stencil`]) of five old ones, the
//! old ones are only read during a step, and the halo holds exact copies of the neighbours' cells.
//! So every cell gets the same operations on the same operands in the same order. Rust neither
//! reassociates floating-point sums nor fuses multiply and add on its own, and a vector lane rounds
//! like a scalar; the compiler may vectorise without changing a bit.

use crate::config::Boundary;
use crate::decompose::Neighbours;
use crate::field::Field;

/// The new temperature of a cell from its own and its neighbours': `ratio` is α·dt in cells².
#[inline(always)]
pub fn stencil(ratio: f64, here: f64, up: f64, down: f64, left: f64, right: f64) -> f64 {
    here + ratio * ((up + down) + (left + right) - 4.0 * here)
}

/// The cells just outside a block: copies of the neighbours' edges, or the frame of the grid.
#[derive(Debug, Clone)]
pub struct Halo {
    /// The row above.
    pub north: Vec<f64>,
    /// The row below.
    pub south: Vec<f64>,
    /// The column to the left.
    pub west: Vec<f64>,
    /// The column to the right.
    pub east: Vec<f64>,
}

/// The columns of a block in one piece each, to be sent. Rows are sent from where they lie.
#[derive(Debug, Clone)]
pub struct Packed {
    /// The first column.
    pub west: Vec<f64>,
    /// The last column.
    pub east: Vec<f64>,
}

/// A rank's part of the field: now, one step later, and what lies around it.
///
/// The parts are public so that an exchange can send from `current` and receive into `halo` while
/// `next` is being computed.
#[derive(Debug, Clone)]
pub struct Block {
    /// Whose blocks lie around this one.
    pub around: Neighbours,
    /// The temperatures now. Only read during a step.
    pub current: Field,
    /// The temperatures one step later.
    pub next: Field,
    /// What lies outside, now.
    pub halo: Halo,
    /// Edges to be sent.
    pub packed: Packed,
    /// α·dt in cells².
    pub ratio: f64,
    boundary: Boundary,
}

impl Block {
    /// A block at the start. `ratio` is α·dt in cells²; the block may be empty.
    pub fn new(field: Field, around: Neighbours, ratio: f64, boundary: Boundary) -> Block {
        // A fixed frame is written here once: nothing ever arrives there. An insulated one is
        // renewed by `pack`.
        let frame = match boundary {
            Boundary::Fixed(temperature) => temperature,
            Boundary::Insulated => 0.0,
        };
        let (row, column) = (vec![frame; field.width()], vec![frame; field.height()]);
        Block {
            around,
            next: field.clone(),
            halo: Halo { north: row.clone(), south: row, west: column.clone(), east: column },
            packed: Packed { west: vec![0.0; field.height()], east: vec![0.0; field.height()] },
            current: field,
            ratio,
            boundary,
        }
    }

    /// Packs the columns that neighbours need, and renews an insulated frame: no heat flows where
    /// the cell outside is as warm as the one inside.
    pub fn pack(&mut self) {
        let Block { around, current, halo, packed, boundary, .. } = self;
        let (width, height) = (current.width(), current.height());
        if width == 0 || height == 0 {
            return;
        }
        let insulated = *boundary == Boundary::Insulated;
        match around.west {
            Some(_) => current.copy_column(0, &mut packed.west),
            None if insulated => current.copy_column(0, &mut halo.west),
            None => {}
        }
        match around.east {
            Some(_) => current.copy_column(width - 1, &mut packed.east),
            None if insulated => current.copy_column(width - 1, &mut halo.east),
            None => {}
        }
        if insulated && around.north.is_none() {
            halo.north.copy_from_slice(current.row(0));
        }
        if insulated && around.south.is_none() {
            halo.south.copy_from_slice(current.row(height - 1));
        }
    }

    /// Computes the cells that do not touch the halo. Free of borrows of the rest of the block, so
    /// that it can run while the halo is being received.
    pub fn interior(ratio: f64, current: &Field, next: &mut Field) {
        for y in 1..current.height().saturating_sub(1) {
            let (up, row, down) = (current.row(y - 1), current.row(y), current.row(y + 1));
            middle_of_row(ratio, up, row, down, next.row_mut(y));
        }
    }

    /// Computes the cells along the four edges, once the halo is there.
    pub fn rim(&mut self) {
        let Block { current, next, halo, ratio, .. } = self;
        let (width, height) = (current.width(), current.height());
        if width == 0 || height == 0 {
            return;
        }
        for y in 0..height {
            let up = if y == 0 { &halo.north } else { current.row(y - 1) };
            let down = if y + 1 == height { &halo.south } else { current.row(y + 1) };
            let (row, out) = (current.row(y), next.row_mut(y));
            if y == 0 || y + 1 == height {
                middle_of_row(*ratio, up, row, down, out);
            }
            let last = width - 1;
            let right = if last == 0 { halo.east[y] } else { row[1] };
            out[0] = stencil(*ratio, row[0], up[0], down[0], halo.west[y], right);
            if last > 0 {
                let (left, right) = (row[last - 1], halo.east[y]);
                out[last] = stencil(*ratio, row[last], up[last], down[last], left, right);
            }
        }
    }

    /// The largest change of a cell from `current` to `next`.
    pub fn largest_change(&self) -> f64 {
        largest_difference(self.current.cells(), self.next.cells())
    }

    /// Makes `next` the current field; the old one becomes scratch.
    pub fn advance(&mut self) {
        std::mem::swap(&mut self.current, &mut self.next);
    }
}

/// All cells of a row but the first and the last. Five slices of one length: no bounds checks are
/// left in the loop and it vectorises.
#[inline]
pub fn middle_of_row(ratio: f64, up: &[f64], row: &[f64], down: &[f64], out: &mut [f64]) {
    let Some(count) = row.len().checked_sub(2) else { return };
    let (up, down, out) = (&up[1..][..count], &down[1..][..count], &mut out[1..][..count]);
    let (left, here, right) = (&row[..count], &row[1..][..count], &row[2..][..count]);
    for i in 0..count {
        out[i] = stencil(ratio, here[i], up[i], down[i], left[i], right[i]);
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
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::decompose::Decomposition;
    use crate::serial;

    /// Copies the edges of all blocks to their neighbours' halos, as messages would.
    fn exchange_all(blocks: &mut [Block]) {
        blocks.iter_mut().for_each(Block::pack);
        for rank in 0..blocks.len() {
            let around = blocks[rank].around;
            let at = |rank: Option<u32>| rank.map(|rank| rank as usize);
            if let Some(north) = at(around.north) {
                let field = &blocks[north].current;
                blocks[rank].halo.north = field.row(field.height() - 1).to_vec();
            }
            if let Some(south) = at(around.south) {
                blocks[rank].halo.south = blocks[south].current.row(0).to_vec();
            }
            if let Some(west) = at(around.west) {
                blocks[rank].halo.west = blocks[west].packed.east.clone();
            }
            if let Some(east) = at(around.east) {
                blocks[rank].halo.east = blocks[east].packed.west.clone();
            }
        }
    }

    /// The field after `steps` steps of `ranks` blocks, and the largest change of the last one.
    fn in_blocks(start: &Field, ranks: u32, steps: u64, boundary: Boundary) -> (Field, f64) {
        let grid = Decomposition::new(start.width(), start.height(), ranks);
        let block = |rank: u32| {
            Block::new(start.cut(&grid.tile(rank)), grid.neighbours(rank), 0.23, boundary)
        };
        let mut blocks: Vec<Block> = (0..ranks).map(block).collect();
        let mut change = 0.0;
        for _ in 0..steps {
            exchange_all(&mut blocks);
            for block in &mut blocks {
                Block::interior(block.ratio, &block.current, &mut block.next);
                block.rim();
            }
            change = blocks.iter().map(Block::largest_change).fold(0.0, f64::max);
            blocks.iter_mut().for_each(Block::advance);
        }
        let mut field = Field::filled(start.width(), start.height(), f64::NAN);
        for (tile, block) in grid.tiles().zip(&blocks) {
            field.paste(&tile, block.current.cells());
        }
        (field, change)
    }

    fn rough(width: usize, height: usize) -> Field {
        Field::from_fn(width, height, |x, y| ((x * 37 + y * 101) % 89) as f64 / 7.0 - 3.3)
    }

    #[test]
    fn blocks_compute_bitwise_what_the_serial_program_does() {
        for boundary in [Boundary::Insulated, Boundary::Fixed(1.7)] {
            for (width, height) in [(1, 1), (1, 6), (6, 1), (2, 3), (3, 3), (16, 9), (31, 33)] {
                let start = rough(width, height);
                let mut serial = serial::Serial::new(&start, 0.23, boundary);
                let mut expected_change = 0.0;
                for _ in 0..25 {
                    expected_change = serial.step();
                }
                for ranks in 1..=9 {
                    let (field, change) = in_blocks(&start, ranks, 25, boundary);
                    let what = format!("{width} x {height} on {ranks}, {boundary:?}");
                    assert_eq!(field.first_difference(&serial.field()), None, "{what}");
                    assert_eq!(change.to_bits(), expected_change.to_bits(), "{what}");
                }
            }
        }
    }

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
    fn an_empty_block_does_nothing() {
        let empty = Field::filled(0, 0, 0.0);
        let mut block = Block::new(empty, Neighbours::default(), 0.2, Boundary::Insulated);
        block.pack();
        Block::interior(0.2, &block.current, &mut block.next);
        block.rim();
        assert_eq!(block.largest_change(), 0.0);
    }
}
