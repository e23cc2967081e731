//! Matrix Market files, as far as a symmetric system needs them.
//!
//! Format: <https://math.nist.gov/MatrixMarket/formats.html>. A banner, comments, a line with rows,
//! columns and entries, then a line an entry: row, column, value, counted from 1.
//!
//! ```text
//!   %%MatrixMarket matrix coordinate real symmetric
//!   % comment
//!   3 3 4
//!   1 1  2.0
//!   2 1 -1.0         of a symmetric matrix the lower triangle only
//!   ...
//! ```
//!
//! Read are coordinate files of real or integer numbers, symmetric or general; a general one has
//! to be symmetric all the same. Whatever is wrong is said in one line with its place.

use std::fmt;

use thiserror::Error;

use crate::csr::Csr;

/// The most rows of a matrix: vectors of them are held whole by rank 0.
pub const MAX_ROWS: u64 = 1 << 28;

/// Why a file is not taken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MatrixError {
    /// Something is wrong with a line.
    #[error("line {line}: {reason}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// Lines are missing.
    #[error("the file ends after {found} of {expected} entries")]
    TooShort {
        /// Entries that are there.
        found: u64,
        /// Entries that the size line promises.
        expected: u64,
    },
    /// There is no size line, or nothing at all.
    #[error("the file ends before its size line")]
    NoSize,
    /// An entry of a general matrix differs from the one across the diagonal.
    #[error(
        "the matrix is not symmetric: row {row}, column {column} has {here:e}, and the entry \
         across the diagonal {there:e}",
        here = .entries.0.value(), there = .entries.1.value()
    )]
    NotSymmetric {
        /// Row, from 1.
        row: usize,
        /// Column, from 1.
        column: usize,
        /// The two entries.
        entries: (Bits, Bits),
    },
}

/// A number that can be compared whatever it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bits(u64);

impl Bits {
    fn of(value: f64) -> Bits {
        Bits(value.to_bits())
    }

    fn value(self) -> f64 {
        f64::from_bits(self.0)
    }
}

/// Reads a symmetric matrix from the text of a file; both triangles are in the result.
///
/// # Errors
/// The file is malformed, holds something else than a square symmetric matrix of numbers, or is
/// larger than it says.
pub fn parse(text: &str) -> Result<Csr, MatrixError> {
    let mut lines = (1..).zip(text.lines());
    let symmetric = banner(lines.next())?;
    let mut lines = lines.filter(|(_, text)| {
        let text = text.trim_ascii();
        !text.is_empty() && !text.starts_with('%')
    });
    let (line, size) = lines.next().ok_or(MatrixError::NoSize)?;
    let (rows, expected) = size_line(line, size)?;
    // The number of entries is only what the file claims: memory grows with what it has.
    let mut entries: Vec<(u32, u32, f64)> = Vec::new();
    let mut found = 0;
    for (line, text) in lines {
        if found == expected {
            let reason = format!("there are more entries than the {expected} of the size line");
            return Err(MatrixError::Line { line, reason });
        }
        found += 1;
        let (row, column, value) = entry(line, text, rows)?;
        if symmetric && column > row {
            let reason = format!(
                "row {}, column {} lies above the diagonal: of a symmetric matrix the lower \
                 triangle is given",
                row + 1,
                column + 1
            );
            return Err(MatrixError::Line { line, reason });
        }
        entries.push((row, column, value));
        if symmetric && column < row {
            entries.push((column, row, value));
        }
    }
    if found < expected {
        return Err(MatrixError::TooShort { found, expected });
    }
    let matrix = Csr::from_entries(rows as usize, entries).map_err(|(row, column)| {
        let reason = format!("row {}, column {} is given twice", row + 1, column + 1);
        // The lines were sorted: the place is lost, the entry is not.
        MatrixError::Line { line: last_line_of(text, row, column), reason }
    })?;
    if !symmetric {
        check_symmetry(&matrix)?;
    }
    Ok(matrix)
}

/// Whether the banner says that only the lower triangle follows.
fn banner(first: Option<(usize, &str)>) -> Result<bool, MatrixError> {
    let wrong = |reason: String| MatrixError::Line { line: 1, reason };
    let words: Vec<String> = first
        .map(|(_, text)| text.split_ascii_whitespace().map(str::to_ascii_lowercase).collect())
        .unwrap_or_default();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ["%%matrixmarket", object, format, field, symmetry] = words[..] else {
        return Err(wrong("it is no Matrix Market file: its first line is not the banner".into()));
    };
    if (object, format) != ("matrix", "coordinate") {
        return Err(wrong(format!(
            "it holds a {} {}: only `matrix coordinate` is read",
            printable(object),
            printable(format)
        )));
    }
    if !matches!(field, "real" | "integer") {
        let field = printable(field);
        return Err(wrong(format!("its entries are {field}: only real and integer are read")));
    }
    match symmetry {
        "symmetric" => Ok(true),
        "general" => Ok(false),
        other => Err(wrong(format!(
            "it is {}: only symmetric and general matrices are read",
            printable(other)
        ))),
    }
}

/// The number of rows, which is that of columns, and of entries.
fn size_line(line: usize, text: &str) -> Result<(u64, u64), MatrixError> {
    let wrong = |reason: String| MatrixError::Line { line, reason };
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let numbers: Option<Vec<u64>> = words.iter().map(|word| word.parse().ok()).collect();
    let Some(&[rows, columns, entries]) = numbers.as_deref() else {
        return Err(wrong("the size line needs three numbers: rows, columns, entries".into()));
    };
    if rows != columns {
        return Err(wrong(format!("{rows} rows and {columns} columns: it must be square")));
    }
    if rows == 0 || rows > MAX_ROWS {
        return Err(wrong(format!("{rows} rows: there must be 1 to {MAX_ROWS}")));
    }
    Ok((rows, entries))
}

/// Row and column, from 0, and value of an entry.
fn entry(line: usize, text: &str, rows: u64) -> Result<(u32, u32, f64), MatrixError> {
    let wrong = |reason: String| MatrixError::Line { line, reason };
    let mut words = text.split_ascii_whitespace();
    let (Some(row), Some(column), Some(value), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(wrong("an entry needs three numbers: row, column, value".into()));
    };
    let place = |name: &str, word: &str| match word.parse::<u64>() {
        Ok(number) if (1..=rows).contains(&number) => Ok(number as u32 - 1),
        _ => Err(wrong(format!("{name} {} is not one of 1 to {rows}", printable(word)))),
    };
    let (row, column) = (place("row", row)?, place("column", column)?);
    match value.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok((row, column, number)),
        _ => Err(wrong(format!("{} is no finite number", printable(value)))),
    }
}

/// The last line that gives an entry, on either side of the diagonal.
fn last_line_of(text: &str, row: u32, column: u32) -> usize {
    let is_it = |line: &str| {
        let mut words = line.split_ascii_whitespace().map(str::parse::<u64>);
        let (row, column) = (u64::from(row) + 1, u64::from(column) + 1);
        match (words.next(), words.next()) {
            (Some(Ok(r)), Some(Ok(c))) => (r, c) == (row, column) || (r, c) == (column, row),
            _ => false,
        }
    };
    text.lines().collect::<Vec<_>>().iter().rposition(|line| is_it(line)).map_or(0, |at| at + 1)
}

fn check_symmetry(matrix: &Csr) -> Result<(), MatrixError> {
    for row in 0..matrix.rows() {
        for (column, value) in matrix.row(row) {
            let across = matrix.get(column as usize, row as u32);
            if across != value {
                return Err(MatrixError::NotSymmetric {
                    row: row + 1,
                    column: column as usize + 1,
                    entries: (Bits::of(value), Bits::of(across)),
                });
            }
        }
    }
    Ok(())
}

/// A word from a file, fit for an error line: short, without control characters.
fn printable(word: &str) -> impl fmt::Display {
    word.chars().take(24).map(|c| if c.is_control() { '?' } else { c }).collect::<String>()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    const BANNER: &str = "%%MatrixMarket matrix coordinate real symmetric\n";

    fn complaint(text: &str) -> String {
        let error = parse(text).unwrap_err().to_string();
        assert!(!error.contains('\n'), "{error}");
        error
    }

    #[test]
    fn both_triangles_are_read() {
        let text = format!("{BANNER}% two\n\n 3 3 4\n1 1 2\n3 1 -1.5e0\n2 2 4\n%\n3 3 8\n");
        let matrix = parse(&text).unwrap();
        assert_eq!((matrix.rows(), matrix.entries()), (3, 5));
        assert_eq!((matrix.get(0, 2), matrix.get(2, 0), matrix.get(1, 0)), (-1.5, -1.5, 0.0));
        let general =
            "%%matrixmarket MATRIX Coordinate integer General\n2 2 3\n1 1 1\n1 2 5\n2 1 5";
        assert_eq!(parse(general).unwrap().get(0, 1), 5.0);
    }

    #[test]
    fn every_mistake_is_said_with_its_line() {
        let banner = |words: &str| complaint(&format!("%%MatrixMarket {words}\n1 1 0\n"));
        assert!(complaint("").starts_with("line 1: it is no Matrix Market file"));
        assert!(complaint("1 1 1\n").starts_with("line 1: it is no Matrix Market file"));
        assert!(banner("matrix array real general").contains("matrix array: only"));
        assert!(banner("matrix coordinate complex general").contains("entries are complex"));
        assert!(banner("matrix coordinate pattern symmetric").contains("entries are pattern"));
        assert!(banner("matrix coordinate real hermitian").contains("it is hermitian"));
        assert_eq!(complaint(BANNER), "the file ends before its size line");
        let after = |lines: &str| complaint(&format!("{BANNER}{lines}"));
        assert!(after("3 3\n").starts_with("line 2: the size line needs three numbers"));
        assert!(after("3 -3 1\n").starts_with("line 2: the size line needs three numbers"));
        assert_eq!(after("%\n3 4 1\n"), "line 3: 3 rows and 4 columns: it must be square");
        assert!(after("0 0 0\n").contains("there must be 1 to"));
        assert!(after("99999999999 99999999999 1\n").contains("there must be 1 to"));
        assert_eq!(after("2 2 2\n1 1 1\n"), "the file ends after 1 of 2 entries");
        assert_eq!(
            after("2 2 1\n1 1 1\n2 2 1\n"),
            "line 4: there are more entries than the 1 of the size line"
        );
        assert_eq!(after("2 2 1\n3 1 1\n"), "line 3: row 3 is not one of 1 to 2");
        assert_eq!(after("2 2 1\n1 0 1\n"), "line 3: column 0 is not one of 1 to 2");
        assert_eq!(after("2 2 1\n1 x 1\n"), "line 3: column x is not one of 1 to 2");
        assert_eq!(
            after("2 2 1\n1 1\n"),
            "line 3: an entry needs three numbers: row, column, value"
        );
        assert_eq!(after("2 2 1\n1 1 1 1\n"), after("2 2 1\n1 1\n"));
        assert_eq!(after("2 2 1\n1 1 nan\n"), "line 3: nan is no finite number");
        assert_eq!(after("2 2 1\n1 1 1e999\n"), "line 3: 1e999 is no finite number");
        assert!(after("2 2 1\n1 2 1\n").starts_with("line 3: row 1, column 2 lies above"));
        assert_eq!(after("2 2 2\n2 1 1\n2 1 1\n"), "line 4: row 1, column 2 is given twice");
        let general = BANNER.replace("symmetric", "general");
        assert_eq!(
            complaint(&format!("{general}2 2 2\n1 2 1\n2 1 3\n")),
            "the matrix is not symmetric: row 1, column 2 has 1e0, and the entry across the \
             diagonal 3e0"
        );
    }

    #[test]
    fn a_promise_of_entries_takes_no_memory() {
        let text = format!("{BANNER}5 5 18446744073709551615\n1 1 1\n");
        assert!(complaint(&text).starts_with("the file ends after 1 of 18446744073709551615"));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            rows in 1usize..9,
            entries in prop::collection::btree_map((0u32..9, 0u32..9), -1e9f64..1e9, 0..30),
        ) {
            let keep = |(row, column): &(u32, u32)| *row < rows as u32 && column <= row;
            let entries: Vec<_> = entries.into_iter().filter(|(place, _)| keep(place)).collect();
            let mut text = format!("{BANNER}{rows} {rows} {}\n", entries.len());
            for ((row, column), value) in &entries {
                text.push_str(&format!("{} {} {value:e}\n", row + 1, column + 1));
            }
            let matrix = parse(&text).unwrap();
            for ((row, column), value) in &entries {
                prop_assert_eq!(matrix.get(*row as usize, *column), *value);
                prop_assert_eq!(matrix.get(*column as usize, *row), *value);
            }
            let diagonal = entries.iter().filter(|((row, column), _)| row == column).count();
            prop_assert_eq!(matrix.entries(), 2 * entries.len() - diagonal);
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,80}", lines in "[0-9 .e%\\-\n]{0,120}") {
            let _ = parse(&text);
            let _ = parse(&format!("{BANNER}{lines}"));
            let _ = parse(&format!("{}{lines}", BANNER.replace("symmetric", "general")));
        }

        #[test]
        fn a_truncated_file_is_refused(cut in 0usize..100) {
            let text = format!("{BANNER}2 2 3\n1 1 2.5\n2 1 -1.25\n2 2 3.5");
            let cut = cut.min(text.len() - 1);
            let result = parse(&text[..cut]);
            // A number that is cut is a shorter number: then, and only then, it is another matrix.
            prop_assert!(result.is_err() || cut + 2 >= text.len());
        }
    }
}
