//! A plane of temperatures without gaps, and how it is cut into blocks.
//!
//! The grid is cut into blocks whose sizes differ by at most one cell in each direction. Of all
//! ways to write the number of ranks as a product, the one with the fewest cells on inner edges is
//! taken: those are the cells that travel in every step. Where no product fits (17 ranks, 4 × 4
//! cells), as many ranks as possible get a block. The others get an empty tile: they take part in
//! the collective calls and have nothing else to do.

use std::ops::Range;

use hikyaku::Layout;

/// The most cells a grid may have: 1 GiB of temperatures, of which rank 0 holds a few copies.
pub const MAX_CELLS: usize = 1 << 27;

/// Cells along columns and rows, or the column and the row of a cell.
pub type Size = [usize; 2];

/// A step from a block to one beside it, along columns and rows: -1, 0 or 1 each.
pub type Direction = [isize; 2];

/// A rank's box of the grid: its columns and its rows. That of a rank without a block is empty.
pub type Tile = [Range<usize>; 2];

/// A plane of temperatures.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Its size.
    pub size: Size,
    /// Row after row: as many cells as the size gives.
    pub cells: Vec<f64>,
}

impl Field {
    /// A field with the same temperature everywhere.
    pub fn filled(size: Size, value: f64) -> Field {
        Field { size, cells: vec![value; size[0] * size[1]] }
    }

    /// A field computed cell by cell from column and row.
    pub fn from_fn([width, height]: Size, at: impl Fn(Size) -> f64) -> Field {
        let cells = (0..width * height).map(|index| at([index % width, index / width]));
        Field { size: [width, height], cells: cells.collect() }
    }

    /// The part of the field that `tile` covers, as a field of its own.
    pub fn cut(&self, tile: &Tile) -> Field {
        let mut part = Field::filled(tile.each_ref().map(Range::len), 0.0);
        let layout = box_of(self.size, tile.clone());
        layout.pack(&self.cells, &mut part.cells).expect("a tile lies in its field");
        part
    }

    /// Writes `cells` where `tile` lies: the inverse of [`Field::cut`].
    ///
    /// # Panics
    /// If `cells` is not as long as the tile is large.
    pub fn paste(&mut self, tile: &Tile, cells: &[f64]) {
        let layout = box_of(self.size, tile.clone());
        layout.unpack(cells, &mut self.cells).expect("a tile is pasted whole");
    }

    /// Column and row of the first cell whose bits differ from the other field's; `None` if all are
    /// equal. Bits, not values: 0 and -0 differ, and a NaN equals itself.
    ///
    /// # Panics
    /// If the fields differ in size.
    pub fn first_difference(&self, other: &Field) -> Option<Size> {
        assert_eq!(self.size, other.size);
        let mut pairs = self.cells.iter().zip(&other.cells);
        let index = pairs.position(|(a, b)| a.to_bits() != b.to_bits())?;
        Some([index % self.size[0], index / self.size[0]])
    }
}

/// The cells of a part of an array of this size.
pub fn box_of([width, height]: Size, [columns, rows]: [Range<usize>; 2]) -> Layout {
    // Arrays are described from the slowest dimension to the fastest.
    Layout::subarray(&[height, width], &[rows, columns]).expect("a box lies in its array")
}

/// How a grid is divided among ranks. Every rank computes it for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decomposition {
    /// Size of the grid, cells.
    pub size: Size,
    /// Blocks along columns and rows.
    pub blocks: Size,
    ranks: u32,
}

impl Decomposition {
    /// Divides a grid of at least one cell among at least one rank.
    pub fn new(size: Size, ranks: u32) -> Decomposition {
        let best = |blocks| best_product(size, blocks);
        let blocks = (1..=ranks as usize).rev().find_map(best).unwrap_or([1, 1]);
        Decomposition { size, blocks, ranks }
    }

    /// The tiles of all ranks, by rank. They cover every cell exactly once.
    pub fn tiles(&self) -> impl Iterator<Item = Tile> + '_ {
        (0..self.ranks).map(|rank| self.tile(rank))
    }

    /// The cells of one rank: none if there are more ranks than blocks.
    pub fn tile(&self, rank: u32) -> Tile {
        let Some(place) = self.place(rank) else { return [0..0, 0..0] };
        let cut = |d: usize, index| self.size[d] * index / self.blocks[d];
        [0, 1].map(|d| cut(d, place[d])..cut(d, place[d] + 1))
    }

    /// The rank whose tile lies in this direction of another's; `None` beyond the edge of the grid.
    pub fn neighbour(&self, rank: u32, [right, down]: Direction) -> Option<u32> {
        let ([column, row], [columns, rows]) = (self.place(rank)?, self.blocks);
        let column = column.checked_add_signed(right).filter(|column| *column < columns)?;
        let row = row.checked_add_signed(down).filter(|row| *row < rows)?;
        Some((row * columns + column) as u32)
    }

    /// Column and row of a rank's block among the blocks: ranks count along columns, then rows.
    fn place(&self, rank: u32) -> Option<Size> {
        let ([columns, rows], block) = (self.blocks, rank as usize);
        (block < columns * rows).then_some([block % columns, block / columns])
    }
}

/// The way to write `blocks` as columns × rows with the shortest inner edges, if one fits the grid.
/// Ties go to fewer columns: rows are copied as they lie in memory.
fn best_product([width, height]: Size, blocks: usize) -> Option<Size> {
    let divisors = (1..=blocks).filter(|columns| blocks.is_multiple_of(*columns));
    let products = divisors.map(|columns| [columns, blocks / columns]);
    let fitting = products.filter(|[columns, rows]| *columns <= width && *rows <= height);
    fitting.min_by_key(|[columns, rows]| (columns - 1) * height + (rows - 1) * width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_and_paste_are_inverse() {
        let field = Field::from_fn([3, 4], |[x, y]| (10 * y + x) as f64);
        let tile = [1..3, 2..4];
        let part = field.cut(&tile);
        assert_eq!(part.cells, [21.0, 22.0, 31.0, 32.0]);
        let mut other = Field::filled([3, 4], 0.0);
        other.paste(&tile, &part.cells);
        assert_eq!(other.cut(&tile), part);
        assert_eq!(other.cells.iter().filter(|cell| **cell != 0.0).count(), 4);
        assert_eq!(field.first_difference(&other), Some([1, 0]));
    }

    #[test]
    fn the_comparison_sees_single_bits() {
        let field = Field::from_fn([4, 3], |[x, y]| (y * 4 + x) as f64);
        let mut other = field.clone();
        assert_eq!(field.first_difference(&other), None);
        other.cells[9] = f64::from_bits(9.0_f64.to_bits() + 1);
        assert_eq!(field.first_difference(&other), Some([1, 2]));
        other.cells[0] = -0.0;
        assert_eq!(field.first_difference(&other), Some([0, 0]));
    }

    const SIZES: [Size; 9] =
        [[1, 1], [1, 9], [9, 1], [2, 2], [4, 4], [7, 5], [13, 17], [64, 3], [100, 101]];

    #[test]
    fn tiles_cover_every_cell_once_and_differ_by_one_cell() {
        for size in SIZES {
            for ranks in 1..=17 {
                let grid = Decomposition::new(size, ranks);
                let mut owners = Field::filled(size, 0.0);
                for tile in grid.tiles() {
                    let more: Vec<f64> = owners.cut(&tile).cells.iter().map(|n| n + 1.0).collect();
                    owners.paste(&tile, &more);
                    if more.is_empty() {
                        continue;
                    }
                    for (d, range) in tile.into_iter().enumerate() {
                        assert!(range.len() - size[d] / grid.blocks[d] <= 1, "{size:?} on {ranks}");
                    }
                }
                assert_eq!(owners, Field::filled(size, 1.0), "{size:?} on {ranks}");
            }
        }
    }

    #[test]
    fn neighbours_name_each_other_and_touch() {
        for (size, ranks) in SIZES.into_iter().flat_map(|size| (1..=17).map(move |n| (size, n))) {
            let grid = Decomposition::new(size, ranks);
            for rank in 0..ranks {
                let here = grid.tile(rank);
                for direction in [[1, 0], [0, 1]] {
                    let Some(other) = grid.neighbour(rank, direction) else { continue };
                    assert_eq!(grid.neighbour(other, direction.map(|step| -step)), Some(rank));
                    let there = grid.tile(other);
                    for d in 0..2 {
                        match direction[d] {
                            0 => assert_eq!(there[d], here[d]),
                            _ => assert_eq!(there[d].start, here[d].end),
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn the_shape_follows_the_grid() {
        for (size, ranks, blocks, why) in [
            ([100, 100], 4, [2, 2], ""),
            ([100, 100], 2, [1, 2], "a tie: whole rows travel"),
            ([1000, 10], 4, [4, 1], ""),
            ([10, 1000], 6, [1, 6], ""),
            ([100, 100], 7, [1, 7], ""),
            ([4, 4], 17, [4, 4], "rank 16 has no block"),
            ([1, 3], 5, [1, 3], "ranks 3 and 4 have none"),
        ] {
            assert_eq!(Decomposition::new(size, ranks).blocks, blocks, "{size:?}: {why}");
        }
        let grid = Decomposition::new([4, 4], 17);
        assert_eq!(grid.tile(16), [0..0, 0..0]);
        assert_eq!(grid.neighbour(16, [0, -1]), None);
    }
}
