//! Ranks as a grid of up to three dimensions over a cube.

use std::ops::Range;

/// How many ranks divide each dimension of a cube. The last dimension of ranks varies fastest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grid {
    pub(crate) ranks: [usize; 3],
    side: usize,
}

impl Grid {
    /// `ranks` ranks as slabs, pencils or blocks, as square as possible: 256 are 1 x 256 x 1,
    /// 1 x 16 x 16, or 4 x 8 x 8, the paper's partition. `None`: they do not divide the cube.
    pub(crate) fn new(dimensions: usize, ranks: u32, side: usize) -> Option<Grid> {
        if !ranks.is_power_of_two() {
            return None;
        }
        let doublings = ranks.trailing_zeros() as usize;
        // The dimensions are halved in this order.
        let order = match dimensions {
            1 => &[1][..],
            2 => &[1, 2],
            3 => &[1, 2, 0],
            _ => return None,
        };
        let mut grid = Grid { ranks: [1; 3], side };
        for dimension in order.iter().cycle().take(doublings) {
            grid.ranks[*dimension] *= 2;
        }
        grid.ranks.iter().all(|ranks| *ranks <= side).then_some(grid)
    }

    /// The place of a rank.
    pub(crate) fn place(&self, rank: u32) -> [usize; 3] {
        let (rank, [_, y, z]) = (rank as usize, self.ranks);
        [rank / (y * z), rank / z % y, rank % z]
    }

    /// The rank of a place.
    pub(crate) fn rank(&self, [x, y, z]: [usize; 3]) -> u32 {
        ((x * self.ranks[1] + y) * self.ranks[2] + z) as u32
    }

    /// How many cells a rank has along a dimension.
    pub(crate) fn cells(&self, dimension: usize) -> usize {
        self.side / self.ranks[dimension]
    }

    /// The cells of the place `at` along a dimension.
    pub(crate) fn range(&self, dimension: usize, at: usize) -> Range<usize> {
        let cells = self.cells(dimension);
        at * cells..(at + 1) * cells
    }
}
