//! A box of temperatures without gaps: a plane, or a stack of planes.
//!
//! Invariant: there are as many cells as the extent says. There are no ghost cells: what is
//! around a block is [`crate::block`]'s. Cells lie row after row, and plane after plane.

use crate::decompose::Tile;

/// The most cells a grid may have: 1 GiB of temperatures, of which rank 0 holds a few copies.
pub const MAX_CELLS: usize = 1 << 27;

/// How large a box is, cells. A plane has a depth of 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Cells in a row.
    pub width: usize,
    /// Rows in a plane.
    pub height: usize,
    /// Planes.
    pub depth: usize,
}

impl Extent {
    /// How many cells there are.
    pub fn cells(&self) -> usize {
        self.width * self.height * self.depth
    }

    /// Whether there is more than one plane.
    pub fn is_volume(&self) -> bool {
        self.depth > 1
    }
}

impl From<(usize, usize)> for Extent {
    /// A plane of this width and height.
    fn from((width, height): (usize, usize)) -> Extent {
        Extent { width, height, depth: 1 }
    }
}

impl From<[usize; 3]> for Extent {
    /// Width, height and depth.
    fn from([width, height, depth]: [usize; 3]) -> Extent {
        Extent { width, height, depth }
    }
}

/// A box of temperatures.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    extent: Extent,
    cells: Vec<f64>,
}

impl Field {
    /// A field with the same temperature everywhere.
    pub fn filled(extent: impl Into<Extent>, value: f64) -> Field {
        let extent = extent.into();
        Field { extent, cells: vec![value; extent.cells()] }
    }

    /// A field of the given cells; `None` unless there are exactly as many as it needs.
    pub fn from_cells(extent: impl Into<Extent>, cells: Vec<f64>) -> Option<Field> {
        let extent = extent.into();
        let plane = extent.width.checked_mul(extent.height)?;
        (plane.checked_mul(extent.depth) == Some(cells.len())).then_some(Field { extent, cells })
    }

    /// A field computed cell by cell from column, row and plane.
    pub fn from_fn(extent: impl Into<Extent>, at: impl Fn(usize, usize, usize) -> f64) -> Field {
        let extent = extent.into();
        let mut cells = Vec::with_capacity(extent.cells());
        for z in 0..extent.depth {
            for y in 0..extent.height {
                cells.extend((0..extent.width).map(|x| at(x, y, z)));
            }
        }
        Field { extent, cells }
    }

    /// Its size.
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// All cells, row after row and plane after plane.
    pub fn cells(&self) -> &[f64] {
        &self.cells
    }

    /// All cells, to be written.
    pub fn cells_mut(&mut self) -> &mut [f64] {
        &mut self.cells
    }

    /// One row of a plane.
    #[inline]
    pub fn row(&self, y: usize, z: usize) -> &[f64] {
        let Extent { width, height, .. } = self.extent;
        &self.cells[(z * height + y) * width..][..width]
    }

    /// One row of a plane, to be written.
    #[inline]
    pub fn row_mut(&mut self, y: usize, z: usize) -> &mut [f64] {
        let Extent { width, height, .. } = self.extent;
        &mut self.cells[(z * height + y) * width..][..width]
    }

    /// The part of the field that `tile` covers, as a field of its own.
    pub fn cut(&self, tile: &Tile) -> Field {
        let Tile { at: [x, y, z], extent } = *tile;
        let mut cells = Vec::with_capacity(extent.cells());
        for z in z..z + extent.depth {
            for y in y..y + extent.height {
                cells.extend_from_slice(&self.row(y, z)[x..x + extent.width]);
            }
        }
        Field { extent, cells }
    }

    /// Writes `cells`, row after row, where `tile` lies: the inverse of [`Field::cut`].
    ///
    /// # Panics
    /// If `cells` is not as long as the tile is large.
    pub fn paste(&mut self, tile: &Tile, cells: &[f64]) {
        let Tile { at: [x, y, z], extent } = *tile;
        assert_eq!(cells.len(), extent.cells(), "a tile is pasted whole");
        if cells.is_empty() {
            return;
        }
        for (index, row) in cells.chunks_exact(extent.width).enumerate() {
            let (y, z) = (y + index % extent.height, z + index / extent.height);
            self.row_mut(y, z)[x..x + extent.width].copy_from_slice(row);
        }
    }

    /// Lowest and highest temperature; `(0, 0)` of an empty field.
    pub fn range(&self) -> (f64, f64) {
        let Some(&first) = self.cells.first() else { return (0.0, 0.0) };
        self.cells.iter().fold((first, first), |(low, high), &cell| (low.min(cell), high.max(cell)))
    }

    /// Column, row and plane of the first cell whose bits differ from the other field's; `None` if
    /// there is none. Bits, not values: 0 and -0 differ, and a NaN equals itself.
    ///
    /// # Panics
    /// If the fields differ in size.
    pub fn first_difference(&self, other: &Field) -> Option<[usize; 3]> {
        assert_eq!(self.extent, other.extent);
        let mut pairs = self.cells.iter().zip(&other.cells);
        let index = pairs.position(|(a, b)| a.to_bits() != b.to_bits())?;
        Some(self.place(index))
    }

    /// Column, row and plane of a cell.
    pub fn place(&self, index: usize) -> [usize; 3] {
        let Extent { width, height, .. } = self.extent;
        [index % width, index / width % height, index / width / height]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(width: usize, height: usize) -> Field {
        Field::from_fn((width, height), |x, y, _| (y * width + x) as f64)
    }

    #[test]
    fn cut_and_paste_are_inverse() {
        let field = numbered(5, 4);
        let tile = Tile { at: [1, 2, 0], extent: (3, 2).into() };
        let part = field.cut(&tile);
        assert_eq!(part.cells(), [11.0, 12.0, 13.0, 16.0, 17.0, 18.0]);
        let mut other = Field::filled((5, 4), 0.0);
        other.paste(&tile, part.cells());
        assert_eq!(other.cut(&tile), part);
        assert_eq!(other.cells().iter().filter(|cell| **cell != 0.0).count(), 6);
    }

    #[test]
    fn boxes_are_cut_out_of_volumes() {
        let field = Field::from_fn([3, 4, 5], |x, y, z| (100 * z + 10 * y + x) as f64);
        let tile = Tile { at: [1, 2, 3], extent: [2, 1, 2].into() };
        let part = field.cut(&tile);
        assert_eq!(part.cells(), [321.0, 322.0, 421.0, 422.0]);
        let mut other = Field::filled([3, 4, 5], 0.0);
        other.paste(&tile, part.cells());
        assert_eq!(other.cut(&tile), part);
        assert_eq!(other.cells().iter().filter(|cell| **cell != 0.0).count(), 4);
        assert_eq!(field.first_difference(&other), Some([1, 0, 0]));
    }

    #[test]
    fn the_comparison_sees_single_bits() {
        let field = numbered(4, 3);
        let mut other = field.clone();
        assert_eq!(field.first_difference(&other), None);
        other.row_mut(2, 0)[1] = f64::from_bits(9.0_f64.to_bits() + 1);
        assert_eq!(field.first_difference(&other), Some([1, 2, 0]));
        other.row_mut(0, 0)[0] = -0.0;
        assert_eq!(field.first_difference(&other), Some([0, 0, 0]));
    }

    #[test]
    fn the_wrong_number_of_cells_is_no_field() {
        assert!(Field::from_cells((2, 3), vec![0.0; 5]).is_none());
        assert!(Field::from_cells((usize::MAX, 2), vec![0.0; 6]).is_none());
        assert!(Field::from_cells((2, 3), vec![0.0; 6]).is_some());
    }

    #[test]
    fn the_range_covers_all_cells() {
        assert_eq!(numbered(4, 3).range(), (0.0, 11.0));
        assert_eq!(Field::filled((0, 0), 1.0).range(), (0.0, 0.0));
    }
}
