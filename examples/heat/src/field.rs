//! A box of temperatures without gaps, a plane or a stack of planes, and how it is cut into blocks.
//!
//! The grid is cut into blocks whose sizes differ by at most one cell in each direction. Of all
//! ways to write the number of ranks as a product, the one with the fewest cells on inner faces is
//! taken: those are the cells that travel in every step. Where no product fits (17 ranks, 4 × 4
//! cells), as many ranks as possible get a block. The others get an empty tile: they take part in
//! the collective calls and have nothing else to do.

use std::ops::Range;

use hikyaku::Layout;

/// The most cells a grid may have: 1 GiB of temperatures, of which rank 0 holds a few copies.
pub const MAX_CELLS: usize = 1 << 27;

/// Cells along columns, rows and planes. A plane has a depth of 1.
pub type Size = [usize; 3];

/// A step from a block to one that touches it, along columns, rows and planes: -1, 0 or 1 each.
pub type Direction = [i8; 3];

/// A box of temperatures.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// How large it is.
    pub size: Size,
    /// Row after row, and plane after plane: as many as the size says.
    pub cells: Vec<f64>,
}

impl Field {
    /// A field with the same temperature everywhere.
    pub fn filled(size: Size, value: f64) -> Field {
        Field { size, cells: vec![value; size.iter().product()] }
    }

    /// A field computed cell by cell from column, row and plane.
    pub fn from_fn(size: Size, at: impl Fn(Size) -> f64) -> Field {
        let mut field = Field::filled(size, 0.0);
        for index in 0..field.cells.len() {
            field.cells[index] = at(field.place(index));
        }
        field
    }

    /// The part of the field that `tile` covers, as a field of its own.
    pub fn cut(&self, tile: &Tile) -> Field {
        let mut part = Field::filled(tile.size(), 0.0);
        let layout = box_of(self.size, tile.clone().0);
        layout.pack(&self.cells, &mut part.cells).expect("a tile lies in its field");
        part
    }

    /// Writes `cells` where `tile` lies: the inverse of [`Field::cut`].
    ///
    /// # Panics
    /// If `cells` is not as long as the tile is large.
    pub fn paste(&mut self, tile: &Tile, cells: &[f64]) {
        let layout = box_of(self.size, tile.clone().0);
        layout.unpack(cells, &mut self.cells).expect("a tile is pasted whole");
    }

    /// Column, row and plane of the first cell whose bits differ from the other field's; `None` if
    /// all are equal. Bits, not values: 0 and -0 differ, and a NaN equals itself.
    ///
    /// # Panics
    /// If the fields differ in size.
    pub fn first_difference(&self, other: &Field) -> Option<Size> {
        assert_eq!(self.size, other.size);
        let mut pairs = self.cells.iter().zip(&other.cells);
        Some(self.place(pairs.position(|(a, b)| a.to_bits() != b.to_bits())?))
    }

    /// Column, row and plane of a cell.
    pub fn place(&self, index: usize) -> Size {
        let [width, height, _] = self.size;
        [index % width, index / width % height, index / width / height]
    }
}

/// The cells of a part of an array of this size.
pub fn box_of(size: Size, part: [Range<usize>; 3]) -> Layout {
    let ([width, height, depth], [x, y, z]) = (size, part);
    // Arrays are described from the slowest dimension to the fastest.
    Layout::subarray(&[depth, height, width], &[z, y, x]).expect("a box lies in its array")
}

/// A rank's box of the grid: its columns, rows and planes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tile(pub [Range<usize>; 3]);

impl Tile {
    /// How large it is. The tile of a rank without a block has no cells.
    pub fn size(&self) -> Size {
        self.0.each_ref().map(Range::len)
    }
}

/// How a grid is divided among ranks. Every rank computes it for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decomposition {
    size: Size,
    /// Blocks along columns, rows and planes.
    pub blocks: Size,
    ranks: u32,
}

impl Decomposition {
    /// Divides a grid of at least one cell among at least one rank.
    pub fn new(size: Size, ranks: u32) -> Decomposition {
        let best = |blocks| best_product(size, blocks);
        let blocks = (1..=ranks as usize).rev().find_map(best).unwrap_or([1; 3]);
        Decomposition { size, blocks, ranks }
    }

    /// The tiles of all ranks, by rank. They cover every cell exactly once.
    pub fn tiles(&self) -> impl Iterator<Item = Tile> + '_ {
        (0..self.ranks).map(|rank| self.tile(rank))
    }

    /// The cells of one rank: none if there are more ranks than blocks.
    pub fn tile(&self, rank: u32) -> Tile {
        let Some(place) = self.place(rank) else { return Tile([const { 0..0 }; 3]) };
        let cut = |d: usize, index| self.size[d] * index / self.blocks[d];
        Tile([0, 1, 2].map(|d| cut(d, place[d])..cut(d, place[d] + 1)))
    }

    /// The rank whose tile lies in this direction of another's; `None` beyond the edge of the grid.
    pub fn neighbour(&self, rank: u32, direction: Direction) -> Option<u32> {
        let place = self.place(rank)?;
        let there = (0..3).rev().try_fold(0, |there, d| {
            let at = place[d].checked_add_signed(isize::from(direction[d]))?;
            (at < self.blocks[d]).then_some(there * self.blocks[d] + at)
        });
        there.map(|rank| rank as u32)
    }

    /// Place of a rank's block among the blocks: ranks count along columns, then rows, then planes.
    fn place(&self, rank: u32) -> Option<Size> {
        let [columns, rows, planes] = self.blocks;
        let block = rank as usize;
        let place = [block % columns, block / columns % rows, block / columns / rows];
        (place[2] < planes).then_some(place)
    }
}

/// The way to write `blocks` as columns × rows × planes with the smallest inner faces, if one fits
/// the grid. Ties go to fewer columns: rows are copied as they lie in memory.
fn best_product(size: Size, blocks: usize) -> Option<Size> {
    let factors = |of: usize| (1..=of).filter(move |factor| of.is_multiple_of(*factor));
    let products = factors(blocks).flat_map(|columns| {
        let rest = blocks / columns;
        factors(rest).map(move |rows| [columns, rows, rest / rows])
    });
    let [width, height, depth] = size;
    products.filter(|of| of.iter().zip(size).all(|(blocks, cells)| *blocks <= cells)).min_by_key(
        |&[columns, rows, planes]| {
            (columns - 1) * height * depth
                + (rows - 1) * width * depth
                + (planes - 1) * width * height
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_and_paste_are_inverse() {
        let field = Field::from_fn([3, 4, 5], |[x, y, z]| (100 * z + 10 * y + x) as f64);
        let tile = Tile([1..3, 2..3, 3..5]);
        let part = field.cut(&tile);
        assert_eq!(part.cells, [321.0, 322.0, 421.0, 422.0]);
        let mut other = Field::filled([3, 4, 5], 0.0);
        other.paste(&tile, &part.cells);
        assert_eq!(other.cut(&tile), part);
        assert_eq!(other.cells.iter().filter(|cell| **cell != 0.0).count(), 4);
        assert_eq!(field.first_difference(&other), Some([1, 0, 0]));
    }

    #[test]
    fn the_comparison_sees_single_bits() {
        let field = Field::from_fn([4, 3, 1], |[x, y, _]| (y * 4 + x) as f64);
        let mut other = field.clone();
        assert_eq!(field.first_difference(&other), None);
        other.cells[9] = f64::from_bits(9.0_f64.to_bits() + 1);
        assert_eq!(field.first_difference(&other), Some([1, 2, 0]));
        other.cells[0] = -0.0;
        assert_eq!(field.first_difference(&other), Some([0, 0, 0]));
    }

    const SIZES: [Size; 12] = [
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
                    for (d, length) in tile.size().into_iter().enumerate() {
                        assert!(length - size[d] / grid.blocks[d] <= 1, "{size:?} on {ranks}");
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
                let Tile(here) = grid.tile(rank);
                for direction in [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [-1, 1, 0]] {
                    let Some(other) = grid.neighbour(rank, direction) else { continue };
                    assert_eq!(grid.neighbour(other, direction.map(|step| -step)), Some(rank));
                    let Tile(there) = grid.tile(other);
                    for d in 0..3 {
                        match direction[d] {
                            1 => assert_eq!(there[d].start, here[d].end),
                            0 => assert_eq!(there[d], here[d]),
                            _ => assert_eq!(there[d].end, here[d].start),
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn the_shape_follows_the_grid() {
        for (size, ranks, blocks, why) in [
            ([100, 100, 1], 4, [2, 2, 1], ""),
            ([100, 100, 1], 2, [1, 2, 1], "a tie: whole rows travel"),
            ([1000, 10, 1], 4, [4, 1, 1], ""),
            ([10, 1000, 1], 6, [1, 6, 1], ""),
            ([100, 100, 1], 7, [1, 7, 1], ""),
            ([50, 50, 50], 8, [2, 2, 2], ""),
            ([50, 50, 50], 2, [1, 1, 2], "planes lie together in memory"),
            ([400, 10, 10], 6, [6, 1, 1], ""),
            ([4, 4, 1], 17, [4, 4, 1], "rank 16 has no block"),
            ([1, 3, 1], 5, [1, 3, 1], "ranks 3 and 4 have none"),
        ] {
            assert_eq!(Decomposition::new(size, ranks).blocks, blocks, "{size:?}: {why}");
        }
        let grid = Decomposition::new([4, 4, 1], 17);
        assert_eq!(grid.tile(16).size(), [0; 3]);
        assert_eq!(grid.neighbour(16, [0, -1, 0]), None);
    }
}
