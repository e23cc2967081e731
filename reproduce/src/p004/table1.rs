//! Table 1: messages of the transposition of a three-dimensional array.
//!
//! A processor at place (p, q, r) of a grid has part p of x, part q of y and part r of z. When x
//! and y are exchanged, each of its lines is cut at the boundaries of the new owners' parts. Two
//! rules give all 13 rows: pencils of 8-byte elements on 1 x 16 x 16 processors (digest H1), and
//! blocks of 4-byte elements on 4 x 8 x 8 (H2), the paper's "three-dimensional array on
//! three-dimensional processors".

use hikyaku_report::{Cell, Table, Unit};

use crate::{Check, ExperimentOutcome, Machines};

/// How an array is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mapping {
    /// Processors along x, y and z. The number along y is a multiple of the number along x.
    pub(super) grid: [u32; 3],
    element_bytes: u64,
    /// The array of the first row.
    first: [u64; 3],
}

/// Each processor has whole lines of x (digest H1).
pub(super) const PENCILS: Mapping =
    Mapping { grid: [1, 16, 16], element_bytes: 8, first: [16, 16, 16] };
/// Each processor has a block, on the partition's own grid (digest H2).
pub(super) const BLOCKS: Mapping =
    Mapping { grid: [4, 8, 8], element_bytes: 4, first: [16, 16, 32] };
/// The same on all 2,048 compute nodes, with the same amount of data on each.
#[cfg(test)]
pub(super) const WHOLE_MACHINE: Mapping =
    Mapping { grid: [8, 16, 16], element_bytes: 4, first: [32, 32, 64] };

/// An array, and the messages of its transposition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TransposedArray {
    /// Elements along each dimension.
    pub(super) extent: [u64; 3],
    pub(super) mapping: Mapping,
}

impl TransposedArray {
    /// Bytes a processor holds.
    pub(super) fn local_bytes(self) -> u64 {
        let processors: u32 = self.mapping.grid.iter().product();
        let elements: u64 = self.extent.iter().product();
        self.mapping.element_bytes * elements / u64::from(processors)
    }

    /// Bytes of a message.
    pub(super) fn message_bytes(self) -> u64 {
        self.mapping.element_bytes * self.extent[0] / u64::from(self.mapping.grid[1])
    }

    /// The lines of a processor, each of which is cut into messages.
    pub(super) fn lines(self) -> u64 {
        let [_, across, up] = self.mapping.grid.map(u64::from);
        self.extent[1] / across * (self.extent[2] / up)
    }

    /// The number of messages of a line.
    pub(super) fn pieces(self) -> u32 {
        self.mapping.grid[1] / self.mapping.grid[0]
    }

    /// The number of messages of a processor, including those to itself.
    pub(super) fn messages(self) -> u64 {
        self.lines() * u64::from(self.pieces())
    }
}

/// The arrays of the 13 rows. The dimensions are doubled in turn, the contiguous one (N1) second.
/// With pencils the first array is a cube of 16.
pub(super) fn arrays(mapping: Mapping) -> Vec<TransposedArray> {
    let mut extent = mapping.first;
    let mut arrays = vec![TransposedArray { extent, mapping }];
    for dimension in [1, 0, 2].into_iter().cycle().take(12) {
        extent[dimension] *= 2;
        arrays.push(TransposedArray { extent, mapping });
    }
    arrays
}

/// data/PU, data/MSG, #MSG as printed.
const PRINTED: [[u64; 3]; 13] = [
    [128, 8, 16],
    [256, 8, 32],
    [512, 16, 32],
    [1024, 16, 64],
    [2048, 16, 128],
    [4096, 32, 128],
    [8192, 32, 256],
    [16384, 32, 512],
    [32768, 64, 512],
    [65536, 64, 1024],
    [131072, 64, 2048],
    [262144, 128, 2048],
    [524288, 128, 4096],
];

/// Generates the rows and compares them.
pub fn run_item(_: &Machines) -> ExperimentOutcome {
    outcome(&arrays(PENCILS))
}

fn outcome(arrays: &[TransposedArray]) -> ExperimentOutcome {
    let header = ["array", "data/PU", "data/MSG", "#MSG"];
    let mut table = Table::new("Messages of the transposition", header);
    let mut agree = 0;
    for (array, printed) in arrays.iter().zip(PRINTED) {
        let row = [array.local_bytes(), array.message_bytes(), array.messages()];
        agree += usize::from(row == printed);
        let [n1, n2, n3] = array.extent;
        table.push([
            Cell::from(format!("{n1} x {n2} x {n3}")),
            Cell::number(row[0] as f64, Unit::Number),
            Cell::number(row[1] as f64, Unit::Number),
            Cell::number(row[2] as f64, Unit::Number),
        ]);
    }
    ExperimentOutcome {
        statement:
            "13 rows of data per processor, data per message and messages, from 128 B in 16 \
                    messages of 8 B to 512 KB in 4,096 of 128 B."
                .into(),
        setup: "The generator of figure 9's messages, from the array's extent.".into(),
        checks: vec![
            Check::within(
                "rows that agree in all three numbers",
                13.0,
                agree as f64,
                Unit::Number,
                0.0,
            )
            .calibrated("the rule of the arrays was looked for in view of the table"),
        ],
        tables: vec![table],
        charts: Vec::new(),
        notes: vec![
            "The paper does not print the arrays; this rule gives all rows and runs from the cube \
             of 16 to that of 256. Another one (4-byte elements in blocks) gives the same table; \
             figure 9 runs both."
                .into(),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cp_11_the_generator_gives_all_13_rows() {
        assert!(run_item(&Machines::stored()).passes());
        assert_eq!(arrays(PENCILS)[12].extent, [256; 3]);
    }

    #[test]
    fn cp_11_blocks_on_the_partitions_own_grid_give_the_same_rows() {
        for mapping in [BLOCKS, WHOLE_MACHINE] {
            assert!(outcome(&arrays(mapping)).passes(), "{mapping:?}");
        }
        assert_eq!(arrays(BLOCKS)[2].extent, [32; 3]);
    }

    #[test]
    fn another_rule_of_the_arrays_misses_the_table() {
        let mut arrays = arrays(PENCILS);
        // A variant in which the contiguous dimension doubles first.
        arrays[1].extent = [32, 16, 16];
        assert!(!outcome(&arrays).passes());
    }
}
