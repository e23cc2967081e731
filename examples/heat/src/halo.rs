//! What a block exchanges with which neighbour, and where it lies. No messages here.
//!
//! Edges are packed into one buffer, one after the other, and arrive in another in the same order:
//! a message is one contiguous range on either side, whatever the shape of the edge. Each edge is
//! followed by one number that belongs to the exchange and not to the field.

use std::ops::Range;

use hikyaku::Layout;

use crate::block::{Block, Shape};
use crate::decompose::{Decomposition, Direction};

/// What is exchanged with one neighbour: as many cells both ways.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// The neighbour.
    pub rank: u32,
    /// Where it lies.
    pub direction: Direction,
    /// Cells of this block that the neighbour needs.
    send: Layout,
    /// Cells of this block's frame that it gives.
    receive: Layout,
}

/// All edges of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Halo {
    edges: Vec<Edge>,
}

impl Halo {
    /// The edges of a rank's block.
    pub fn new(block: &Block, grid: &Decomposition, rank: u32) -> Halo {
        let directions = block.stencil.directions().iter();
        let edges = directions.filter_map(|&direction| {
            let rank = grid.neighbour(rank, direction)?;
            let [send, receive] =
                [false, true].map(|outside| region(&block.shape, direction, outside));
            Some(Edge { rank, direction, send, receive })
        });
        Halo { edges: edges.collect() }
    }

    /// The edges, in the order in which they lie in buffers.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// How many numbers go out, and come in.
    pub fn numbers(&self) -> usize {
        self.edges.iter().map(|edge| edge.send.len() + 1).sum()
    }

    /// Where each edge lies in a buffer. The last number of a range is the exchange's.
    pub fn ranges(&self) -> Vec<Range<usize>> {
        let mut end = 0;
        let range = |edge: &Edge| {
            let start = end;
            end += edge.send.len() + 1;
            start..end
        };
        self.edges.iter().map(range).collect()
    }

    /// Copies what the neighbours need out of a block's cells, one edge after the other.
    pub fn pack(&self, cells: &[f64], mut out: &mut [f64]) {
        for edge in &self.edges {
            let (place, rest) = out.split_at_mut(edge.send.len());
            edge.send.pack(cells, place).expect("the edge was laid out for these cells");
            out = &mut rest[1..];
        }
    }

    /// Copies what the neighbours gave into the frame around a block's cells.
    pub fn unpack(&self, mut heard: &[f64], cells: &mut [f64]) {
        for edge in &self.edges {
            let (place, rest) = heard.split_at(edge.receive.len());
            edge.receive.unpack(place, cells).expect("the edge was laid out for these cells");
            heard = &rest[1..];
        }
    }
}

/// The cells along one side, edge or corner of a block: those within, or those of the frame.
fn region(shape: &Shape, direction: Direction, outside: bool) -> Layout {
    let (inner, outer) = (shape.inner(), shape.outer());
    // Arrays are described from the slowest dimension to the fastest.
    let part = [2, 1, 0].map(|d| {
        let (frame, length) = (shape.frame[d], inner[d]);
        match (direction[d], outside) {
            (0, _) => frame..frame + length,
            (-1, false) => frame..2 * frame,
            (-1, true) => 0..frame,
            (_, false) => length..length + frame,
            (_, true) => length + frame..length + 2 * frame,
        }
    });
    let sizes = [outer[2], outer[1], outer[0]];
    Layout::subarray(&sizes, &part).expect("an edge of a block is a part of its array")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Boundary;
    use crate::field::Field;
    use crate::stencil::Stencil;

    fn halo(size: [usize; 3], ranks: u32, rank: u32, stencil: Stencil) -> (Block, Halo) {
        let grid = Decomposition::new(size, ranks);
        let field = Field::from_fn(grid.tile(rank).extent, |x, y, z| (100 * z + 10 * y + x) as f64);
        let block = Block::new(&field, (&grid, rank), stencil, 0.1, Boundary::Insulated);
        let halo = Halo::new(&block, &grid, rank);
        (block, halo)
    }

    #[test]
    fn a_block_in_the_middle_has_all_edges_and_packs_its_rim() {
        let (block, halo) = halo([9, 9, 1], 9, 4, Stencil::Nine);
        let mut out = vec![0.0; halo.numbers()];
        halo.pack(&block.current, &mut out);
        let edges: Vec<(u32, &[f64])> = halo
            .edges()
            .iter()
            .zip(halo.ranges())
            .map(|(edge, at)| (edge.rank, &out[at.start..at.end - 1]))
            .collect();
        assert_eq!(edges[0], (1, &[0.0, 1.0, 2.0][..]));
        assert_eq!(edges[1], (7, &[20.0, 21.0, 22.0][..]));
        assert_eq!(edges[2], (3, &[0.0, 10.0, 20.0][..]));
        assert_eq!(edges[3], (5, &[2.0, 12.0, 22.0][..]));
        let corners: Vec<(u32, f64)> = edges[4..].iter().map(|(rank, at)| (*rank, at[0])).collect();
        assert_eq!(corners, [(0, 0.0), (2, 2.0), (6, 20.0), (8, 22.0)]);
    }

    #[test]
    fn what_arrives_goes_to_the_frame_and_nowhere_else() {
        for (size, stencil) in [([9, 9, 1], Stencil::Nine), ([6, 6, 6], Stencil::Seven)] {
            let ranks = if stencil == Stencil::Nine { 9 } else { 27 };
            let (mut block, halo) = halo(size, ranks, ranks / 2, stencil);
            let before = block.field();
            halo.unpack(&vec![-1.0; halo.numbers()], &mut block.current);
            assert_eq!(block.field(), before);
            let written = block.current.iter().filter(|cell| **cell == -1.0).count();
            assert_eq!(written, halo.numbers() - halo.edges().len());
        }
    }

    #[test]
    fn ranks_without_a_block_have_no_edges() {
        let (_, halo) = halo([1, 1, 1], 2, 1, Stencil::Five);
        assert_eq!((halo.edges().len(), halo.numbers()), (0, 0));
    }
}
