//! A rank's rows, and the vector entries that it needs from each neighbour.
//!
//! The rows are kept as two matrices: one multiplies this rank's own entries of a vector, the other
//! multiplies entries of other ranks, which are numbered in the order of arrival. The first product
//! needs no other rank, so it can be computed while the entries are in transit.
//!
//! ```text
//!            own columns     others' columns           arrive as
//!   row i  [ . 3 . 1 . ]  [ 12 . . 40 41 . ]    ghosts: 12 | 40 41
//!                                                       from 1  from 3
//! ```
//!
//! Because the matrix is symmetric, a rank can compute which entries others need: those of its rows
//! that have an entry in the others' columns.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::csr::Csr;
use crate::partition::Partition;

/// The exchange with one neighbour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatrixNeighbour {
    /// Its rank.
    pub rank: u32,
    /// The entries of this rank that it needs, ascending.
    pub entries: Vec<u32>,
    /// Their range among all outgoing numbers. Each neighbour's entries are followed by one number
    /// that belongs to the exchange.
    pub sends: Range<usize>,
    /// The range of the neighbour's entries among all incoming numbers, likewise.
    pub receives: Range<usize>,
}

/// A rank's part of the matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct Local {
    /// The matrix for this rank's own entries.
    pub own: Csr,
    /// The matrix for the entries of others.
    pub others: Csr,
    /// The neighbours, ascending.
    pub neighbours: Vec<MatrixNeighbour>,
}

impl Local {
    /// The part of `rank`, from its rows of a symmetric matrix.
    pub fn new(rows: &Csr, partition: &Partition, rank: u32) -> Local {
        let mine = partition.rows(rank);
        let mut needed: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        let mut given: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for row in 0..rows.rows() {
            for (column, _) in rows.row(row).filter(|(c, _)| !mine.contains(&(*c as usize))) {
                let owner = partition.owner(column as usize);
                needed.entry(owner).or_default().push(column);
                given.entry(owner).or_default().push(row as u32);
            }
        }
        // The place at which each column of others arrives: owners ascend, and so do the columns of
        // each.
        let mut arrives: BTreeMap<u32, u32> = BTreeMap::new();
        let mut neighbours: Vec<MatrixNeighbour> = Vec::new();
        for ((rank, mut columns), (_, mut entries)) in needed.into_iter().zip(given) {
            columns.sort_unstable();
            columns.dedup();
            entries.dedup();
            let starts = neighbours.last().map(|last| [last.sends.end + 1, last.receives.end + 1]);
            let [sends, receives] = starts.unwrap_or_default();
            let sends = sends..sends + entries.len();
            let receives = receives..receives + columns.len();
            arrives.extend(columns.iter().copied().zip(receives.start as u32..));
            neighbours.push(MatrixNeighbour { rank, entries, sends, receives });
        }
        let (mut own, mut others) = (Vec::new(), Vec::new());
        for row in 0..rows.rows() {
            for (column, value) in rows.row(row) {
                match arrives.get(&column) {
                    Some(place) => others.push((row as u32, *place, value)),
                    None => own.push((row as u32, column - mine.start as u32, value)),
                }
            }
        }
        let part =
            |entries| Csr::from_entries(rows.rows(), entries).expect("a row has each column once");
        Local { own: part(own), others: part(others), neighbours }
    }

    /// How many rows the rank has.
    pub fn rows(&self) -> usize {
        self.own.rows()
    }

    /// Copies the entries of `x` that the neighbours need.
    pub fn pack(&self, x: &[f64], out: &mut [f64]) {
        for MatrixNeighbour { entries, sends, .. } in &self.neighbours {
            let pairs = out[sends.clone()].iter_mut().zip(entries);
            pairs.for_each(|(place, entry)| *place = x[*entry as usize]);
        }
    }

    /// The number of incoming numbers.
    pub fn received(&self) -> usize {
        self.neighbours.last().map_or(0, |last| last.receives.end + 1)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn part(matrix: &Csr, partition: &Partition, rank: u32) -> Local {
        let (lengths, columns, values) = matrix.parts(partition.rows(rank));
        let rows = Csr::from_parts(&lengths, columns.to_vec(), values.to_vec()).unwrap();
        Local::new(&rows, partition, rank)
    }

    proptest! {
        /// The product of all parts, with entries copied like messages, equals that of the matrix.
        #[test]
        fn parts_multiply_as_the_whole(
            rows in 1usize..20,
            pairs in prop::collection::btree_map((0u32..20, 0u32..20), -9.0f64..9.0, 0..60),
            ranks in 1u32..7,
        ) {
            let keep = |(r, c): &(u32, u32)| (*r as usize) < rows && c <= r;
            let lower = pairs.into_iter().filter(|(place, _)| keep(place));
            let both = lower.flat_map(|((r, c), v)| {
                let across = (r != c).then_some((c, r, v));
                [(r, c, v)].into_iter().chain(across)
            });
            let matrix = Csr::from_entries(rows, both.collect()).unwrap();
            let partition = Partition::new(&matrix, ranks);
            let x: Vec<f64> = (0..rows).map(|at| (at * at) as f64 + 0.5).collect();
            let mut expected = vec![0.0; rows];
            matrix.multiply(&x, &mut expected, false);
            let part = |rank| part(&matrix, &partition, rank);
            let parts: Vec<Local> = (0..ranks).map(part).collect();
            for (rank, local) in (0..).zip(&parts) {
                let mut ghosts = vec![f64::NAN; local.received()];
                for neighbour in &local.neighbours {
                    let there = &parts[neighbour.rank as usize];
                    let back = there.neighbours.iter().find(|back| back.rank == rank).unwrap();
                    prop_assert_eq!(back.entries.len(), neighbour.receives.len());
                    let first = partition.rows(neighbour.rank).start;
                    let values = back.entries.iter().map(|row| x[first + *row as usize]);
                    ghosts.splice(neighbour.receives.clone(), values);
                }
                let mine = partition.rows(rank);
                let mut out = vec![0.0; mine.len()];
                local.own.multiply(&x[mine.clone()], &mut out, false);
                local.others.multiply(&ghosts, &mut out, true);
                for (got, expected) in out.iter().zip(&expected[mine]) {
                    prop_assert!((got - expected).abs() <= 1e-9 * (1.0 + expected.abs()));
                }
            }
        }
    }
}
