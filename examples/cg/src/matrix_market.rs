//! Reads the Matrix Market files of symmetric systems.
//!
//! Format: <https://math.nist.gov/MatrixMarket/formats.html>. A banner, comments, a line with rows,
//! columns and entries, then a line an entry: row, column, value, counted from 1.
//!
//! ```text
//!   %%MatrixMarket matrix coordinate real symmetric
//!   % comment
//!   3 3 4
//!   1 1  2.0
//!   2 1 -1.0         only the lower triangle of a symmetric matrix
//!   ...
//! ```
//!
//! It reads coordinate files of real or integer numbers, symmetric or general. The matrix of a
//! general file must be symmetric too. Every error is one line with the place and the cause. The
//! reader of the crate `sprs` is not used: its error is "Bad matrix market file.", and it reserves
//! memory for the number of entries that a file claims to have.

use crate::csr::Csr;

/// The most rows of a matrix: rank 0 holds whole vectors.
pub const MAX_ROWS: u64 = 1 << 28;

/// Reads a symmetric matrix from the text of a file; both triangles are in the result.
///
/// # Errors
/// The file is malformed, is not a square symmetric matrix of numbers, or is larger than it states.
pub fn parse(text: &str) -> Result<Csr, String> {
    let mut lines = (1..).zip(text.lines());
    let at = |line: usize| move |reason: String| format!("line {line}: {reason}");
    let symmetric = banner(lines.next().map_or("", |(_, text)| text)).map_err(at(1))?;
    let mut lines = lines.filter(|(_, text)| {
        let text = text.trim_ascii();
        !text.is_empty() && !text.starts_with('%')
    });
    let (line, size) = lines.next().ok_or("the file ends before its size line")?;
    let (rows, expected) = size_line(size).map_err(at(line))?;
    // The file only claims this number of entries: memory grows with the entries it has.
    let mut entries: Vec<(u32, u32, f64)> = Vec::new();
    let mut found = 0;
    for (line, text) in lines {
        if found == expected {
            let reason = format!("there are more entries than the {expected} of the size line");
            return Err(at(line)(reason));
        }
        found += 1;
        let (row, column, value) = entry(text, rows, symmetric).map_err(at(line))?;
        entries.push((row, column, value));
        if symmetric && column < row {
            entries.push((column, row, value));
        }
    }
    if found < expected {
        return Err(format!("the file ends after {found} of {expected} entries"));
    }
    let matrix = Csr::from_entries(rows as usize, entries).map_err(|(row, column)| {
        format!("row {}, column {} is given twice", row + 1, column + 1)
    })?;
    for row in 0..matrix.rows() {
        for (column, here) in matrix.row(row) {
            let across = matrix.get(column as usize, row as u32);
            if across != here {
                return Err(format!(
                    "the matrix is not symmetric: row {}, column {} has {here:e}, and the entry \
                     across the diagonal {across:e}",
                    row + 1,
                    column + 1
                ));
            }
        }
    }
    Ok(matrix)
}

/// Whether the banner announces the lower triangle only.
fn banner(line: &str) -> Result<bool, String> {
    let words: Vec<_> = line.split_ascii_whitespace().map(str::to_ascii_lowercase).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ["%%matrixmarket", object, format, field, symmetry] = words[..] else {
        return Err("it is no Matrix Market file: its first line is not the banner".into());
    };
    match (object, format, field, symmetry) {
        ("matrix", "coordinate", "real" | "integer", "symmetric") => Ok(true),
        ("matrix", "coordinate", "real" | "integer", "general") => Ok(false),
        _ => Err(format!(
            "{} is not read: only coordinate matrices, real or integer, symmetric or general",
            printable(&words[1..].join(" "))
        )),
    }
}

/// The number of rows, equal to that of columns, and the number of entries.
fn size_line(text: &str) -> Result<(u64, u64), String> {
    let numbers = text.split_ascii_whitespace().map(|word| word.parse().ok());
    let numbers: Option<Vec<u64>> = numbers.collect();
    let Some(&[rows, columns, entries]) = numbers.as_deref() else {
        return Err("the size line needs three numbers: rows, columns, entries".into());
    };
    if rows != columns {
        return Err(format!("{rows} rows and {columns} columns: it must be square"));
    }
    if rows == 0 || rows > MAX_ROWS {
        return Err(format!("{rows} rows: there must be 1 to {MAX_ROWS}"));
    }
    Ok((rows, entries))
}

/// Row and column, from 0, and value of an entry.
fn entry(text: &str, rows: u64, symmetric: bool) -> Result<(u32, u32, f64), String> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let &[row, column, value] = words.as_slice() else {
        return Err("an entry needs three numbers: row, column, value".into());
    };
    let place = |name: &str, word: &str| match word.parse::<u64>() {
        Ok(number) if (1..=rows).contains(&number) => Ok(number as u32 - 1),
        _ => Err(format!("{name} {} is not one of 1 to {rows}", printable(word))),
    };
    let (row, column) = (place("row", row)?, place("column", column)?);
    if symmetric && column > row {
        return Err(format!(
            "row {}, column {} lies above the diagonal: of a symmetric matrix the lower triangle \
             is given",
            row + 1,
            column + 1
        ));
    }
    match value.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok((row, column, number)),
        _ => Err(format!("{} is no finite number", printable(value))),
    }
}

/// Words from a file for an error line: short, without control characters.
fn printable(word: &str) -> String {
    word.chars().take(48).map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    const BANNER: &str = "%%MatrixMarket matrix coordinate real symmetric\n";

    fn complaint(text: &str) -> String {
        let error = parse(text).unwrap_err();
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
        assert!(
            banner("matrix array real general").contains("matrix array real general is not read")
        );
        assert!(
            banner("matrix coordinate complex general").contains("complex general is not read")
        );
        assert!(banner("matrix coordinate pattern symmetric").contains("is not read: only"));
        assert!(banner("matrix coordinate real hermitian").contains("real hermitian is not read"));
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
        assert_eq!(after("2 2 2\n2 1 1\n2 1 1\n"), "row 1, column 2 is given twice");
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
            // A number that is cut is a shorter number: only then is it a different matrix.
            prop_assert!(result.is_err() || cut + 2 >= text.len());
        }
    }
}
