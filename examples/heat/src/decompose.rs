//! Which rank computes which cells.
//!
//! The grid is cut into `columns × rows` blocks whose sizes differ by at most one cell in each
//! direction. Of all ways to write the number of ranks as a product, the one with the fewest cells
//! on inner edges is taken: those are the cells that travel in every step. Where no product fits
//! (17 ranks, 4 × 4 cells), as many ranks as possible get a block and the others an empty tile:
//! they take part in the collective calls and have nothing else to do.
//!
//! Invariant: the tiles of all ranks cover every cell exactly once.

use std::ops::Range;

/// How a grid is divided among ranks. Small and computed by every rank for itself: nobody has to
/// be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decomposition {
    width: usize,
    height: usize,
    columns: usize,
    rows: usize,
    ranks: u32,
}

/// A rank's rectangle of the grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tile {
    /// Column of its first cell in the grid.
    pub x: usize,
    /// Row of its first cell in the grid.
    pub y: usize,
    /// Cells in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

impl Tile {
    /// How many cells it has.
    pub fn cells(&self) -> usize {
        self.width * self.height
    }
}

/// The ranks on the four sides of a tile; `None` is the edge of the grid.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Neighbours {
    /// Above.
    pub north: Option<u32>,
    /// Below.
    pub south: Option<u32>,
    /// To the left.
    pub west: Option<u32>,
    /// To the right.
    pub east: Option<u32>,
}

impl Decomposition {
    /// Divides a grid of at least one cell among at least one rank.
    pub fn new(width: usize, height: usize, ranks: u32) -> Decomposition {
        let (columns, rows) = (1..=ranks as usize)
            .rev()
            .find_map(|blocks| best_product(width, height, blocks))
            .unwrap_or((1, 1));
        Decomposition { width, height, columns, rows, ranks }
    }

    /// Blocks side by side.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Blocks on top of each other.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The tiles of all ranks, by rank.
    pub fn tiles(&self) -> impl Iterator<Item = Tile> + '_ {
        (0..self.ranks).map(|rank| self.tile(rank))
    }

    /// The cells of one rank: none if there are more ranks than blocks.
    pub fn tile(&self, rank: u32) -> Tile {
        let Some((column, row)) = self.place(rank) else {
            return Tile { x: 0, y: 0, width: 0, height: 0 };
        };
        let x = share(self.width, self.columns, column);
        let y = share(self.height, self.rows, row);
        Tile { x: x.start, y: y.start, width: x.len(), height: y.len() }
    }

    /// Who lies around a rank's tile.
    pub fn neighbours(&self, rank: u32) -> Neighbours {
        let Some((column, row)) = self.place(rank) else { return Neighbours::default() };
        let columns = self.columns as u32;
        Neighbours {
            north: (row > 0).then(|| rank - columns),
            south: (row + 1 < self.rows).then(|| rank + columns),
            west: (column > 0).then(|| rank - 1),
            east: (column + 1 < self.columns).then(|| rank + 1),
        }
    }

    /// Column and row of a rank's block: ranks count along rows of blocks.
    fn place(&self, rank: u32) -> Option<(usize, usize)> {
        let block = rank as usize;
        (block < self.columns * self.rows).then_some((block % self.columns, block / self.columns))
    }
}

/// The way to write `blocks` as columns × rows with the shortest inner edges, if one fits the
/// grid. Ties go to fewer columns: rows are sent as they lie in memory, columns are packed.
fn best_product(width: usize, height: usize, blocks: usize) -> Option<(usize, usize)> {
    (1..=blocks.min(width))
        .filter(|columns| blocks.is_multiple_of(*columns))
        .map(|columns| (columns, blocks / columns))
        .filter(|&(_, rows)| rows <= height)
        .min_by_key(|&(columns, rows)| (columns - 1) * height + (rows - 1) * width)
}

/// The `index`-th of `parts` nearly equal parts of `0..length`.
fn share(length: usize, parts: usize, index: usize) -> Range<usize> {
    length * index / parts..length * (index + 1) / parts
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [(usize, usize); 9] =
        [(1, 1), (1, 9), (9, 1), (2, 2), (4, 4), (7, 5), (13, 17), (64, 3), (100, 101)];

    #[test]
    fn every_cell_belongs_to_exactly_one_rank() {
        for (width, height) in SIZES {
            for ranks in 1..=17 {
                let mut owners = vec![0; width * height];
                for tile in Decomposition::new(width, height, ranks).tiles() {
                    for y in tile.y..tile.y + tile.height {
                        for x in tile.x..tile.x + tile.width {
                            owners[y * width + x] += 1;
                        }
                    }
                }
                assert!(owners.iter().all(|n| *n == 1), "{width} x {height} on {ranks}");
            }
        }
    }

    #[test]
    fn block_sizes_differ_by_at_most_one_cell() {
        for (width, height) in SIZES {
            for ranks in 1..=17 {
                let grid = Decomposition::new(width, height, ranks);
                for tile in grid.tiles().filter(|tile| tile.cells() > 0) {
                    assert!(tile.width - width / grid.columns() <= 1);
                    assert!(tile.height - height / grid.rows() <= 1);
                }
            }
        }
    }

    #[test]
    fn neighbours_name_each_other_and_share_an_edge() {
        for (width, height) in SIZES {
            for ranks in 1..=17 {
                let grid = Decomposition::new(width, height, ranks);
                for rank in 0..ranks {
                    let (here, around) = (grid.tile(rank), grid.neighbours(rank));
                    if let Some(east) = around.east {
                        assert_eq!(grid.neighbours(east).west, Some(rank));
                        let there = grid.tile(east);
                        assert_eq!((there.x, there.y), (here.x + here.width, here.y));
                        assert_eq!(there.height, here.height);
                    }
                    if let Some(south) = around.south {
                        assert_eq!(grid.neighbours(south).north, Some(rank));
                        let there = grid.tile(south);
                        assert_eq!((there.x, there.y), (here.x, here.y + here.height));
                        assert_eq!(there.width, here.width);
                    }
                }
            }
        }
    }

    #[test]
    fn the_shape_follows_the_grid() {
        let shape = |width, height, ranks| {
            let grid = Decomposition::new(width, height, ranks);
            (grid.columns(), grid.rows())
        };
        assert_eq!(shape(100, 100, 4), (2, 2));
        assert_eq!(shape(100, 100, 2), (1, 2), "a tie: whole rows travel, nothing is packed");
        assert_eq!(shape(1000, 10, 4), (4, 1));
        assert_eq!(shape(10, 1000, 6), (1, 6));
        assert_eq!(shape(100, 100, 7), (1, 7));
    }

    #[test]
    fn ranks_without_a_block_are_idle() {
        let grid = Decomposition::new(4, 4, 17);
        assert_eq!((grid.columns(), grid.rows()), (4, 4));
        assert_eq!(grid.tile(16).cells(), 0);
        assert_eq!(grid.neighbours(16), Neighbours::default());
        let grid = Decomposition::new(1, 3, 5);
        assert_eq!(grid.tiles().filter(|tile| tile.cells() > 0).count(), 3);
    }
}
