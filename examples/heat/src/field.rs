//! A rectangle of temperatures, row after row without gaps.
//!
//! Invariant: `cells.len() == width * height`. There are no ghost cells: what lies outside a block
//! is kept beside it ([`crate::block::Halo`]), so a row is always one contiguous slice that can be
//! sent as it is.

use crate::decompose::Tile;

/// The most cells a grid may have: 1 GiB of temperatures, of which rank 0 holds a few copies.
pub const MAX_CELLS: usize = 1 << 27;

/// A grid of temperatures in row-major order.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    width: usize,
    height: usize,
    cells: Vec<f64>,
}

impl Field {
    /// A field with the same temperature everywhere.
    pub fn filled(width: usize, height: usize, value: f64) -> Field {
        Field { width, height, cells: vec![value; width * height] }
    }

    /// A field of the given rows; `None` unless there are exactly `width * height` cells.
    pub fn from_cells(width: usize, height: usize, cells: Vec<f64>) -> Option<Field> {
        (width.checked_mul(height) == Some(cells.len())).then_some(Field { width, height, cells })
    }

    /// A field computed cell by cell from column `x` and row `y`.
    pub fn from_fn(width: usize, height: usize, at: impl Fn(usize, usize) -> f64) -> Field {
        let cells = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        Field { width, height, cells: cells.map(|(x, y)| at(x, y)).collect() }
    }

    /// Cells in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// All cells, row after row.
    pub fn cells(&self) -> &[f64] {
        &self.cells
    }

    /// All cells, to be written.
    pub fn cells_mut(&mut self) -> &mut [f64] {
        &mut self.cells
    }

    /// One row.
    #[inline]
    pub fn row(&self, y: usize) -> &[f64] {
        &self.cells[y * self.width..][..self.width]
    }

    /// One row, to be written.
    #[inline]
    pub fn row_mut(&mut self, y: usize) -> &mut [f64] {
        &mut self.cells[y * self.width..][..self.width]
    }

    /// Packs column `x` into `into`, top to bottom.
    pub fn copy_column(&self, x: usize, into: &mut [f64]) {
        for (cell, row) in into.iter_mut().zip(self.cells.chunks_exact(self.width)) {
            *cell = row[x];
        }
    }

    /// The part of the field that `tile` covers, as a field of its own.
    pub fn cut(&self, tile: &Tile) -> Field {
        let rows = tile.y..tile.y + tile.height;
        let cells = rows.flat_map(|y| &self.row(y)[tile.x..tile.x + tile.width]).copied().collect();
        Field { width: tile.width, height: tile.height, cells }
    }

    /// Writes `cells`, row after row, where `tile` lies: the inverse of [`Field::cut`].
    ///
    /// # Panics
    /// If `cells` is not as long as the tile is large.
    pub fn paste(&mut self, tile: &Tile, cells: &[f64]) {
        assert_eq!(cells.len(), tile.cells(), "a tile is pasted whole");
        if cells.is_empty() {
            return;
        }
        for (y, row) in (tile.y..).zip(cells.chunks_exact(tile.width)) {
            self.row_mut(y)[tile.x..tile.x + tile.width].copy_from_slice(row);
        }
    }

    /// Lowest and highest temperature; `(0, 0)` of an empty field.
    pub fn range(&self) -> (f64, f64) {
        let Some(&first) = self.cells.first() else { return (0.0, 0.0) };
        self.cells.iter().fold((first, first), |(low, high), &cell| (low.min(cell), high.max(cell)))
    }

    /// Column and row of the first cell whose bits differ from the other field's; `None` if there
    /// is none. Bits, not values: 0 and -0 differ, and a NaN equals itself.
    ///
    /// # Panics
    /// If the fields differ in size.
    pub fn first_difference(&self, other: &Field) -> Option<(usize, usize)> {
        assert_eq!((self.width, self.height), (other.width, other.height));
        let mut pairs = self.cells.iter().zip(&other.cells);
        let index = pairs.position(|(a, b)| a.to_bits() != b.to_bits())?;
        Some((index % self.width, index / self.width))
    }

    /// The field averaged over squares, so that no side is longer than `limit` cells: for pictures.
    pub fn shrink_to(&self, limit: usize) -> Field {
        let step = self.width.max(self.height).div_ceil(limit.max(1)).max(1);
        if step == 1 {
            return self.clone();
        }
        let (width, height) = (self.width.div_ceil(step), self.height.div_ceil(step));
        Field::from_fn(width, height, |x, y| {
            let columns = x * step..((x + 1) * step).min(self.width);
            let rows = y * step..((y + 1) * step).min(self.height);
            let count = (columns.len() * rows.len()) as f64;
            let sum: f64 = rows.map(|y| self.row(y)[columns.clone()].iter().sum::<f64>()).sum();
            sum / count
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(width: usize, height: usize) -> Field {
        Field::from_fn(width, height, |x, y| (y * width + x) as f64)
    }

    #[test]
    fn cut_and_paste_are_inverse() {
        let field = numbered(5, 4);
        let tile = Tile { x: 1, y: 2, width: 3, height: 2 };
        let part = field.cut(&tile);
        assert_eq!(part.cells(), [11.0, 12.0, 13.0, 16.0, 17.0, 18.0]);
        let mut other = Field::filled(5, 4, 0.0);
        other.paste(&tile, part.cells());
        assert_eq!(other.cut(&tile), part);
        assert_eq!(other.cells().iter().filter(|cell| **cell != 0.0).count(), 6);
    }

    #[test]
    fn a_column_is_packed_from_top_to_bottom() {
        let mut column = [0.0; 3];
        numbered(4, 3).copy_column(3, &mut column);
        assert_eq!(column, [3.0, 7.0, 11.0]);
    }

    #[test]
    fn the_comparison_sees_single_bits() {
        let field = numbered(4, 3);
        let mut other = field.clone();
        assert_eq!(field.first_difference(&other), None);
        other.row_mut(2)[1] = f64::from_bits(9.0_f64.to_bits() + 1);
        assert_eq!(field.first_difference(&other), Some((1, 2)));
        other.row_mut(0)[0] = -0.0;
        assert_eq!(field.first_difference(&other), Some((0, 0)));
    }

    #[test]
    fn the_wrong_number_of_cells_is_no_field() {
        assert!(Field::from_cells(2, 3, vec![0.0; 5]).is_none());
        assert!(Field::from_cells(usize::MAX, 2, vec![0.0; 6]).is_none());
        assert!(Field::from_cells(2, 3, vec![0.0; 6]).is_some());
    }

    #[test]
    fn shrinking_averages_and_keeps_ragged_ends() {
        let small = numbered(5, 2).shrink_to(3);
        assert_eq!((small.width(), small.height()), (3, 1));
        assert_eq!(small.cells(), [3.0, 5.0, 6.5]);
        assert_eq!(numbered(3, 3).shrink_to(3), numbered(3, 3));
    }

    #[test]
    fn the_range_covers_all_cells() {
        assert_eq!(numbered(4, 3).range(), (0.0, 11.0));
        assert_eq!(Field::filled(0, 0, 1.0).range(), (0.0, 0.0));
    }
}
