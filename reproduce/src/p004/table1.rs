//! Table 1: messages of the transposition of a three-dimensional array.
//!
//! The rule that gives all 13 rows (digest H1): elements of 8 bytes, 16 x 16 processors, each with
//! N1 x (N2 / 16) x (N3 / 16) of the array; exchanging N1 and N2 within groups of 16 sends, for
//! each of the local lines, a run of N1 / 16 elements to each of the 16.

use hikyaku_report::{Cell, Table, Unit};

use crate::{Check, ExperimentOutcome, Machines};

/// Processors along each side.
pub(super) const SIDE: u32 = 16;
const ELEMENT_BYTES: u64 = 8;

/// An array, and what its transposition sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TransposedArray {
    /// Elements along each dimension.
    pub(super) extent: [u64; 3],
}

impl TransposedArray {
    /// Bytes a processor holds.
    pub(super) fn local_bytes(self) -> u64 {
        let [n1, n2, n3] = self.extent;
        ELEMENT_BYTES * n1 * n2 * n3 / u64::from(SIDE * SIDE)
    }

    /// Bytes of a message.
    pub(super) fn message_bytes(self) -> u64 {
        ELEMENT_BYTES * self.extent[0] / u64::from(SIDE)
    }

    /// Lines of a processor, each of which is cut into messages for all 16 of its group.
    pub(super) fn lines(self) -> u64 {
        let [_, n2, n3] = self.extent;
        n2 * n3 / u64::from(SIDE * SIDE)
    }

    /// Messages of a processor, those to itself included.
    pub(super) fn messages(self) -> u64 {
        self.lines() * u64::from(SIDE)
    }
}

/// The arrays of the 13 rows: from a cube of 16 on, one dimension doubles after the other, the
/// contiguous one (N1) second.
pub(super) fn arrays() -> Vec<TransposedArray> {
    let mut extent = [16_u64; 3];
    let mut arrays = vec![TransposedArray { extent }];
    for dimension in [1, 0, 2].into_iter().cycle().take(12) {
        extent[dimension] *= 2;
        arrays.push(TransposedArray { extent });
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
    outcome(&arrays())
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
             of 16 to that of 256. Another one (4-byte elements in blocks) gives the same table."
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
        assert_eq!(arrays()[12].extent, [256; 3]);
    }

    #[test]
    fn another_rule_of_the_arrays_misses_the_table() {
        let mut arrays = arrays();
        // As if the contiguous dimension had been the first to double.
        arrays[1].extent = [32, 16, 16];
        assert!(!outcome(&arrays).passes());
    }
}
