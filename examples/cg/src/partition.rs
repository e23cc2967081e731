//! The assignment of rows to ranks.
//!
//! Blocks of consecutive rows with about equally many entries, which are the work. A rank may have
//! no rows.

use std::ops::Range;

use crate::csr::Csr;

/// The blocks of all ranks, as the first row of each and the number of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    starts: Vec<u64>,
}

impl Partition {
    /// Divides a matrix among `ranks` ranks, at least one.
    pub fn new(matrix: &Csr, ranks: u32) -> Partition {
        let (rows, entries) = (matrix.rows(), matrix.entries() + matrix.rows());
        let mut row = 0;
        let start = |rank: u32| {
            // Rows without entries have a cost too: each row counts as one more entry.
            let share = (entries as u128 * u128::from(rank) / u128::from(ranks)) as usize;
            while row < rows && matrix.entries_before(row) + row < share {
                row += 1;
            }
            row as u64
        };
        let mut starts: Vec<u64> = (0..ranks).map(start).collect();
        starts.push(rows as u64);
        Partition { starts }
    }

    /// A partition from received numbers.
    pub fn from_starts(starts: Vec<u64>) -> Partition {
        Partition { starts }
    }

    /// The partition as numbers, for sending.
    pub fn starts(&self) -> &[u64] {
        &self.starts
    }

    /// The rows of a rank.
    pub fn rows(&self, rank: u32) -> Range<usize> {
        self.starts[rank as usize] as usize..self.starts[rank as usize + 1] as usize
    }

    /// The owner of a row.
    pub fn owner(&self, row: usize) -> u32 {
        let after = self.starts.partition_point(|start| *start <= row as u64);
        // Ranks without rows start where the next one does: the last of them owns the row.
        (after - 1).min(self.starts.len() - 2) as u32
    }

    /// The total number of rows.
    pub fn size(&self) -> usize {
        self.starts.last().map_or(0, |end| *end as usize)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_row_has_one_owner_and_work_is_shared(
            lengths in prop::collection::vec(0u32..6, 1..40), ranks in 1u32..12,
        ) {
            let entries = (0..).zip(&lengths).flat_map(|(row, length)| {
                (0..*length).map(move |column| (row, column, 1.0))
            });
            let matrix = Csr::from_entries(lengths.len(), entries.collect()).unwrap();
            let partition = Partition::new(&matrix, ranks);
            let mut next = 0;
            let all = matrix.entries() + matrix.rows();
            for rank in 0..ranks {
                let rows = partition.rows(rank);
                prop_assert_eq!(rows.start, next);
                next = rows.end;
                let work: usize = rows.clone().map(|row| lengths[row] as usize + 1).sum();
                prop_assert!(work <= all.div_ceil(ranks as usize) + 6, "{} of {}", work, all);
                for row in rows {
                    prop_assert_eq!(partition.owner(row), rank);
                }
            }
            prop_assert_eq!((next, partition.size()), (lengths.len(), lengths.len()));
        }
    }
}
