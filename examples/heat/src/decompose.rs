//! Which rank computes which cells.
//!
//! The grid is cut into blocks whose sizes differ by at most one cell in each direction. Of all
//! ways to write the number of ranks as a product, the one with the fewest cells on inner faces is
//! taken: those are the cells that travel in every step. Where no product fits (17 ranks, 4 × 4
//! cells), as many ranks as possible get a block and the others an empty tile: they take part in
//! the collective calls and have nothing else to do.
//!
//! Invariant: the tiles of all ranks cover every cell exactly once.

use std::ops::Range;

use crate::field::Extent;

/// How a grid is divided among ranks. Small and computed by every rank for itself: nobody has to
/// be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decomposition {
    extent: Extent,
    blocks: [usize; 3],
    ranks: u32,
}

/// A rank's box of the grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tile {
    /// Column, row and plane of its first cell in the grid.
    pub at: [usize; 3],
    /// Its size; a rank without a block has one without cells.
    pub extent: Extent,
}

/// A step from a block to one that touches it, along columns, rows and planes: -1, 0 or 1 each.
pub type Direction = [i8; 3];

impl Decomposition {
    /// Divides a grid of at least one cell among at least one rank.
    pub fn new(extent: impl Into<Extent>, ranks: u32) -> Decomposition {
        let extent = extent.into();
        let best = |blocks| best_product(extent, blocks);
        let blocks = (1..=ranks as usize).rev().find_map(best).unwrap_or([1; 3]);
        Decomposition { extent, blocks, ranks }
    }

    /// Blocks along columns, rows and planes.
    pub fn blocks(&self) -> [usize; 3] {
        self.blocks
    }

    /// The blocks as people write them: `2 × 2`, or `2 × 2 × 3` of a volume.
    pub fn text(&self) -> String {
        let [columns, rows, planes] = self.blocks;
        if self.extent.is_volume() {
            format!("{columns} × {rows} × {planes}")
        } else {
            format!("{columns} × {rows}")
        }
    }

    /// The tiles of all ranks, by rank.
    pub fn tiles(&self) -> impl Iterator<Item = Tile> + '_ {
        (0..self.ranks).map(|rank| self.tile(rank))
    }

    /// The cells of one rank: none if there are more ranks than blocks.
    pub fn tile(&self, rank: u32) -> Tile {
        let Some(place) = self.place(rank) else {
            return Tile { at: [0; 3], extent: [0; 3].into() };
        };
        let Extent { width, height, depth } = self.extent;
        let shares = [0, 1, 2].map(|d| share([width, height, depth][d], self.blocks[d], place[d]));
        let extent = shares.clone().map(|share| share.len()).into();
        Tile { at: shares.map(|share| share.start), extent }
    }

    /// The rank whose tile lies in this direction of another's; `None` beyond the edge of the grid.
    pub fn neighbour(&self, rank: u32, direction: Direction) -> Option<u32> {
        let place = self.place(rank)?;
        let mut there = 0;
        for dimension in (0..3).rev() {
            let at = place[dimension].checked_add_signed(isize::from(direction[dimension]))?;
            if at >= self.blocks[dimension] {
                return None;
            }
            there = there * self.blocks[dimension] + at;
        }
        Some(there as u32)
    }

    /// Place of a rank's block among the blocks: ranks count along rows of blocks, then rows, then
    /// planes.
    fn place(&self, rank: u32) -> Option<[usize; 3]> {
        let [columns, rows, planes] = self.blocks;
        let block = rank as usize;
        let place = [block % columns, block / columns % rows, block / columns / rows];
        (place[2] < planes).then_some(place)
    }
}

/// The way to write `blocks` as columns × rows × planes with the smallest inner faces, if one fits
/// the grid. Ties go to fewer columns: rows are copied as they lie in memory.
fn best_product(extent: Extent, blocks: usize) -> Option<[usize; 3]> {
    let Extent { width, height, depth } = extent;
    let factors = |of: usize| (1..=of).filter(move |factor| of.is_multiple_of(*factor));
    let products = factors(blocks).flat_map(|columns| {
        let rest = blocks / columns;
        factors(rest).map(move |rows| [columns, rows, rest / rows])
    });
    products
        .filter(|&[columns, rows, planes]| columns <= width && rows <= height && planes <= depth)
        .min_by_key(|&[columns, rows, planes]| {
            (columns - 1) * height * depth
                + (rows - 1) * width * depth
                + (planes - 1) * width * height
        })
}

/// The `index`-th of `parts` nearly equal parts of `0..length`.
fn share(length: usize, parts: usize, index: usize) -> Range<usize> {
    length * index / parts..length * (index + 1) / parts
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [[usize; 3]; 12] = [
        [1, 1, 1],
        [1, 9, 1],
        [9, 1, 1],
        [2, 2, 1],
        [4, 4, 1],
        [7, 5, 1],
        [13, 17, 1],
        [64, 3, 1],
        [100, 101, 1],
        [2, 2, 2],
        [5, 4, 6],
        [1, 2, 30],
    ];

    #[test]
    fn every_cell_belongs_to_exactly_one_rank() {
        for size in SIZES {
            let [width, height, depth] = size;
            for ranks in 1..=17 {
                let mut owners = vec![0; width * height * depth];
                for Tile { at: [x, y, z], extent } in Decomposition::new(size, ranks).tiles() {
                    for z in z..z + extent.depth {
                        for y in y..y + extent.height {
                            for x in x..x + extent.width {
                                owners[(z * height + y) * width + x] += 1;
                            }
                        }
                    }
                }
                assert!(owners.iter().all(|n| *n == 1), "{size:?} on {ranks}");
            }
        }
    }

    #[test]
    fn block_sizes_differ_by_at_most_one_cell() {
        for size in SIZES {
            for ranks in 1..=17 {
                let grid = Decomposition::new(size, ranks);
                let blocks = grid.blocks();
                for tile in grid.tiles().filter(|tile| tile.extent.cells() > 0) {
                    let Extent { width, height, depth } = tile.extent;
                    for (d, length) in [width, height, depth].into_iter().enumerate() {
                        assert!(length - size[d] / blocks[d] <= 1, "{size:?} on {ranks}");
                    }
                }
            }
        }
    }

    #[test]
    fn neighbours_name_each_other_and_touch() {
        for size in SIZES {
            for ranks in 1..=17 {
                let grid = Decomposition::new(size, ranks);
                for rank in 0..ranks {
                    let here = grid.tile(rank);
                    for direction in [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [-1, 1, 0]] {
                        let Some(other) = grid.neighbour(rank, direction) else { continue };
                        let back = direction.map(|step: i8| -step);
                        assert_eq!(grid.neighbour(other, back), Some(rank));
                        let there = grid.tile(other);
                        let Extent { width, height, depth } = here.extent;
                        let Extent { width: w, height: h, depth: d } = there.extent;
                        for (dim, (mine, theirs)) in
                            [(width, w), (height, h), (depth, d)].into_iter().enumerate()
                        {
                            let expected = match direction[dim] {
                                1 => here.at[dim] + mine,
                                0 => here.at[dim],
                                _ => here.at[dim] - theirs,
                            };
                            assert_eq!(there.at[dim], expected);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn the_shape_follows_the_grid() {
        let shape = |size: [usize; 3], ranks| Decomposition::new(size, ranks).blocks();
        assert_eq!(shape([100, 100, 1], 4), [2, 2, 1]);
        assert_eq!(shape([100, 100, 1], 2), [1, 2, 1], "a tie: whole rows travel");
        assert_eq!(shape([1000, 10, 1], 4), [4, 1, 1]);
        assert_eq!(shape([10, 1000, 1], 6), [1, 6, 1]);
        assert_eq!(shape([100, 100, 1], 7), [1, 7, 1]);
        assert_eq!(shape([50, 50, 50], 8), [2, 2, 2]);
        assert_eq!(shape([50, 50, 50], 2), [1, 1, 2], "planes lie together in memory");
        assert_eq!(shape([400, 10, 10], 6), [6, 1, 1]);
        assert_eq!(Decomposition::new((100, 100), 4).text(), "2 × 2");
        assert_eq!(Decomposition::new([50, 50, 50], 8).text(), "2 × 2 × 2");
    }

    #[test]
    fn ranks_without_a_block_are_idle() {
        let grid = Decomposition::new((4, 4), 17);
        assert_eq!(grid.blocks(), [4, 4, 1]);
        assert_eq!(grid.tile(16).extent.cells(), 0);
        assert_eq!(grid.neighbour(16, [0, -1, 0]), None);
        let grid = Decomposition::new((1, 3), 5);
        assert_eq!(grid.tiles().filter(|tile| tile.extent.cells() > 0).count(), 3);
    }
}
