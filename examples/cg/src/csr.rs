//! Sparse matrices by rows (compressed sparse rows).
//!
//! Invariants: `starts` has one number more than there are rows, does not decrease and ends with
//! the number of entries; within a row columns ascend.

/// A sparse matrix: the entries of a row are contiguous.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Csr {
    starts: Vec<usize>,
    columns: Vec<u32>,
    values: Vec<f64>,
}

impl Csr {
    /// A matrix of these entries: row, column, value.
    ///
    /// # Errors
    /// Row and column of an entry that occurs twice.
    pub fn from_entries(rows: usize, mut entries: Vec<(u32, u32, f64)>) -> Result<Csr, (u32, u32)> {
        entries.sort_unstable_by_key(|&(row, column, _)| (row, column));
        if let Some(twice) =
            entries.windows(2).find(|two| (two[0].0, two[0].1) == (two[1].0, two[1].1))
        {
            return Err((twice[0].0, twice[0].1));
        }
        let mut starts = vec![0; rows + 1];
        for (row, _, _) in &entries {
            starts[*row as usize + 1] += 1;
        }
        for row in 0..rows {
            starts[row + 1] += starts[row];
        }
        let (columns, values) =
            entries.into_iter().map(|(_, column, value)| (column, value)).unzip();
        Ok(Csr { starts, columns, values })
    }

    /// A matrix from its parts: entries per row, then columns and values row after row. `None` if
    /// they do not fit together.
    pub fn from_parts(lengths: &[u32], columns: Vec<u32>, values: Vec<f64>) -> Option<Csr> {
        let mut starts = vec![0];
        let mut end = 0;
        for length in lengths {
            end += *length as usize;
            starts.push(end);
        }
        (end == columns.len() && end == values.len()).then_some(Csr { starts, columns, values })
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// How many entries there are.
    pub fn entries(&self) -> usize {
        self.values.len()
    }

    /// How many entries are in all rows before a row.
    pub fn entries_before(&self, row: usize) -> usize {
        self.starts[row]
    }

    /// The entries of a row: column and value.
    pub fn row(&self, row: usize) -> impl Iterator<Item = (u32, f64)> + '_ {
        let range = self.starts[row]..self.starts[row + 1];
        self.columns[range.clone()].iter().copied().zip(self.values[range].iter().copied())
    }

    /// One entry; 0 if there is none.
    pub fn get(&self, row: usize, column: u32) -> f64 {
        let range = self.starts[row]..self.starts[row + 1];
        match self.columns[range.clone()].binary_search(&column) {
            Ok(at) => self.values[range.start + at],
            Err(_) => 0.0,
        }
    }

    /// The parts of some rows, for sending: entries per row, columns, values.
    pub fn parts(&self, rows: std::ops::Range<usize>) -> (Vec<u32>, &[u32], &[f64]) {
        let lengths = self.starts[rows.start..=rows.end].windows(2);
        let lengths = lengths.map(|ends| (ends[1] - ends[0]) as u32).collect();
        let range = self.starts[rows.start]..self.starts[rows.end];
        (lengths, &self.columns[range.clone()], &self.values[range])
    }

    /// `out = self · x`, or `out += self · x` if `add`.
    pub fn multiply(&self, x: &[f64], out: &mut [f64], add: bool) {
        for (out, ends) in out.iter_mut().zip(self.starts.windows(2)) {
            let (columns, values) =
                (&self.columns[ends[0]..ends[1]], &self.values[ends[0]..ends[1]]);
            let products = columns.iter().zip(values);
            let sum: f64 = products.map(|(column, value)| value * x[*column as usize]).sum();
            *out = if add { *out + sum } else { sum };
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn entries_are_found_whatever_their_order() {
        let entries = vec![(2, 1, 5.0), (0, 2, 3.0), (0, 0, 1.0)];
        let matrix = Csr::from_entries(3, entries).unwrap();
        assert_eq!((matrix.rows(), matrix.entries()), (3, 3));
        assert_eq!(matrix.row(0).collect::<Vec<_>>(), [(0, 1.0), (2, 3.0)]);
        assert_eq!((matrix.row(1).count(), matrix.get(2, 1), matrix.get(2, 0)), (0, 5.0, 0.0));
        let twice = Csr::from_entries(2, vec![(1, 1, 1.0), (0, 0, 1.0), (1, 1, 2.0)]);
        assert_eq!(twice, Err((1, 1)));
    }

    #[test]
    fn parts_make_the_matrix_again() {
        let entries = vec![(0, 0, 1.0), (0, 2, 3.0), (2, 1, 5.0)];
        let matrix = Csr::from_entries(3, entries).unwrap();
        let (lengths, columns, values) = matrix.parts(0..3);
        let again = Csr::from_parts(&lengths, columns.to_vec(), values.to_vec());
        assert_eq!(again, Some(matrix.clone()));
        let (lengths, columns, values) = matrix.parts(1..3);
        assert_eq!((lengths, columns, values), (vec![0, 1], &[1][..], &[5.0][..]));
        assert_eq!(Csr::from_parts(&[2], vec![1], vec![1.0]), None);
    }

    #[test]
    fn products_are_sums_over_rows() {
        let entries = vec![(0, 0, 2.0), (0, 1, 3.0), (1, 1, 4.0)];
        let matrix = Csr::from_entries(2, entries).unwrap();
        let mut out = [9.0; 2];
        matrix.multiply(&[1.0, 10.0], &mut out, false);
        assert_eq!(out, [32.0, 40.0]);
        matrix.multiply(&[1.0, 10.0], &mut out, true);
        assert_eq!(out, [64.0, 80.0]);
    }
}
