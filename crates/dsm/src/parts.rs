//! The division of an array into variables: whole, by rows or by tiles. Each is acquired alone.
//!
//! ```text
//!   Whole          Rows(2)             Tiles(2, 3)
//!   | a a a a |    | a a a a | 0       | a a a | b |      tiles lie one after the other in memory,
//!   | a a a a |    | a a a a |         | a a a | b |      each of them row by row
//!   | a a a a |    | b b b b | 1       | c c c | d |
//! ```

use std::fmt;

use thiserror::Error;

/// The division of an array into parts. Each part is a variable of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Parts {
    /// One part.
    #[default]
    Whole,
    /// This many rows (indices of the first dimension) per part; the last part may have fewer.
    Rows(u64),
    /// This many rows and columns per part of a two-dimensional array; the parts at the far edges
    /// may have fewer.
    Tiles(u64, u64),
}

impl fmt::Display for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Parts::Whole => f.write_str("one part"),
            Parts::Rows(rows) => write!(f, "parts of {rows} rows"),
            Parts::Tiles(rows, columns) => write!(f, "tiles of {rows} x {columns}"),
        }
    }
}

/// The place and shape of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartExtent {
    /// The index of the part's first element in memory.
    pub start: u64,
    /// The number of elements.
    pub length: u64,
    /// The part's first index along each dimension of the array.
    pub origin: Vec<u64>,
    /// The shape of the part.
    pub shape: Vec<u64>,
}

/// The reasons why an array cannot be divided.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PartsError {
    /// The array has no elements.
    #[error("an array of shape {0:?} has no elements")]
    Empty(Vec<u64>),
    /// The array has more elements than can be counted.
    #[error("an array of shape {0:?} has more elements than can be counted")]
    TooLarge(Vec<u64>),
    /// A part would have no rows or no columns.
    #[error("{0} cannot be: a part has at least one row and one column")]
    NoRows(Parts),
    /// Tiles need an array of two dimensions.
    #[error("an array of {0} dimensions has no tiles: it takes two")]
    NotTwo(usize),
}

/// An array and its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Division {
    shape: Vec<u64>,
    parts: Parts,
    elements: u64,
}

impl Division {
    /// Divides an array of this shape. A shape without dimensions is one element.
    ///
    /// # Errors
    /// [`PartsError`].
    pub fn new(shape: &[u64], parts: Parts) -> Result<Division, PartsError> {
        let product = |all: u64, length: &u64| all.checked_mul(*length);
        let elements = shape.iter().try_fold(1, product);
        let elements = elements.ok_or_else(|| PartsError::TooLarge(shape.to_vec()))?;
        if elements == 0 {
            return Err(PartsError::Empty(shape.to_vec()));
        }
        match parts {
            Parts::Rows(0) | Parts::Tiles(0, _) | Parts::Tiles(_, 0) => {
                return Err(PartsError::NoRows(parts));
            }
            Parts::Tiles(..) if shape.len() != 2 => return Err(PartsError::NotTwo(shape.len())),
            _ => {}
        }
        Ok(Division { shape: shape.to_vec(), parts, elements })
    }

    /// The shape of the array.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// The division into parts.
    pub fn parts(&self) -> Parts {
        self.parts
    }

    /// The number of elements of the array.
    pub fn elements(&self) -> u64 {
        self.elements
    }

    /// The number of parts.
    pub fn count(&self) -> u64 {
        match self.parts {
            Parts::Whole => 1,
            Parts::Rows(rows) => self.rows().div_ceil(rows),
            Parts::Tiles(rows, columns) => {
                self.rows().div_ceil(rows) * self.shape[1].div_ceil(columns)
            }
        }
    }

    fn rows(&self) -> u64 {
        self.shape.first().copied().unwrap_or(1)
    }

    /// The first element in memory and the length of a part. The part must exist.
    #[inline]
    pub fn extent(&self, index: u64) -> (u64, u64) {
        match self.parts {
            Parts::Whole => (0, self.elements),
            _ => self.part(index).map_or((0, 0), |part| (part.start, part.length)),
        }
    }

    /// The place and shape of a part; `None` if no part has this index.
    pub fn part(&self, index: u64) -> Option<PartExtent> {
        if index >= self.count() {
            return None;
        }
        let mut part = PartExtent {
            start: 0,
            length: self.elements,
            origin: vec![0; self.shape.len()],
            shape: self.shape.clone(),
        };
        let cut = |along: u64, size: u64, all: u64| {
            let from = along * size;
            (from, size.min(all - from))
        };
        match self.parts {
            Parts::Whole => {}
            Parts::Rows(rows) => {
                let row = self.elements / self.rows();
                let (from, count) = cut(index, rows, self.rows());
                (part.start, part.length) = (from * row, count * row);
                // An array without dimensions has one row, and no index along it.
                if let (Some(origin), Some(length)) =
                    (part.origin.first_mut(), part.shape.first_mut())
                {
                    (*origin, *length) = (from, count);
                }
            }
            Parts::Tiles(rows, columns) => {
                let across = self.shape[1].div_ceil(columns);
                let (top, height) = cut(index / across, rows, self.shape[0]);
                let (left, width) = cut(index % across, columns, self.shape[1]);
                part.start = top * self.shape[1] + left * height;
                part.length = height * width;
                part.origin = vec![top, left];
                part.shape = vec![height, width];
            }
        }
        Some(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_array_once_and_in_order() {
        let cases = [
            (vec![7, 5], Parts::Whole),
            (vec![7, 5], Parts::Rows(2)),
            (vec![7, 5], Parts::Rows(100)),
            (vec![7, 5], Parts::Tiles(2, 3)),
            (vec![4, 6], Parts::Tiles(2, 3)),
            (vec![3, 4, 5], Parts::Rows(1)),
            (vec![], Parts::Rows(1)),
        ];
        for (shape, parts) in cases {
            let division = Division::new(&shape, parts).unwrap();
            let mut at = 0;
            for index in 0..division.count() {
                let part = division.part(index).unwrap();
                assert_eq!(part.start, at, "{shape:?} {parts} {index}");
                assert_eq!(part.shape.iter().product::<u64>(), part.length);
                at += part.length;
            }
            assert_eq!(at, division.elements());
            assert_eq!(division.part(division.count()), None);
        }
    }

    #[test]
    fn impossible_divisions_are_errors() {
        let error = |shape: &[u64], parts| Division::new(shape, parts).unwrap_err();
        assert_eq!(error(&[3, 0], Parts::Whole), PartsError::Empty(vec![3, 0]));
        assert!(matches!(error(&[1 << 40, 1 << 40], Parts::Whole), PartsError::TooLarge(_)));
        assert_eq!(error(&[3], Parts::Rows(0)), PartsError::NoRows(Parts::Rows(0)));
        assert_eq!(error(&[3], Parts::Tiles(1, 1)), PartsError::NotTwo(1));
    }
}
