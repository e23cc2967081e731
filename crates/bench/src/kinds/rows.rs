//! The program of paper 001's Figs. 7 and 8, as in its Figs. 9 to 12.
//!
//! ```text
//!   for k in rounds
//!     for j over all rows, each of which is a shared variable
//!       if j has this rank's parity of this k        the other parity in the next k
//!         acquire(j, WLOCK); write the row; release(j)
//!     barrier
//! ```
//!
//! From the second round on each acquire moves the row and its ownership from the other node. The
//! figure is the time of one round; the first is not timed. The paper counts rows as bytes of
//! doubles from 4 to 32 KiB, and 1,024 to 8,192 of them.

use std::hint::black_box;

use hikyaku::shared::{Parts as Division, Protocol, SharedOptions};
use hikyaku::{Shared, World};

use super::{Bare, FigureKind, MeasuredForm, MeasuredPoint, PartCounts};
use crate::arguments::BenchSettings;
use crate::control::{BlockAnswer, BlockCommand, Verb};
use crate::plan::Schedule;
use crate::rank::{self, RankError};

/// The numbers of rows in the paper.
const ROWS: [u32; 4] = [1024, 2048, 4096, 8192];

/// The lengths of rows in the paper, bytes.
const SIZES: [u64; 4] = [4 << 10, 8 << 10, 16 << 10, 32 << 10];

/// The rounds of a block. They are long, and the array is made anew for each block.
const SCHEDULE: Schedule = Schedule { batches: 4, repetitions: 1 };

/// A point per number of rows and size of a row.
pub(crate) fn points(settings: &BenchSettings) -> Vec<MeasuredPoint> {
    let sizes = if settings.sizes.is_empty() { &SIZES[..] } else { &settings.sizes };
    let counts = if settings.rows.is_empty() { &ROWS[..] } else { &settings.rows };
    let point = |rows: u32, bytes: u64| {
        let bytes = bytes.next_multiple_of(8).max(8);
        // The ranks have half of the rows each, at the same time.
        let half = rows.div_ceil(2);
        let parts = PartCounts { lines: half, copies: f64::from(half), ..PartCounts::default() };
        let by = |protocol| MeasuredForm::by(protocol, "", Verb::Rows(protocol));
        let ours = Protocol::ALL.map(by).into();
        let point = MeasuredPoint::new(FigureKind::Rows, 2, bytes, Bare::Parts(parts));
        MeasuredPoint { apart: true, window: rows, fixed: Some(SCHEDULE), ours, ..point }
    };
    counts.iter().flat_map(|rows| sizes.iter().map(|bytes| point(*rows, *bytes))).collect()
}

/// Every rank writes the rows of its parity; a repetition is a round.
pub(crate) fn serve(
    world: &World,
    command: &BlockCommand,
    by: Protocol,
) -> Result<BlockAnswer, RankError> {
    let (rows, columns) = (u64::from(command.window), command.bytes.div_ceil(8).max(1));
    let options =
        SharedOptions { parts: Division::Rows(1), protocol: Some(by), ..SharedOptions::default() };
    let array = world.shared_with::<f64>("bench", &[rows, columns], options)?;
    let (rank, size) = (u64::from(world.rank()), u64::from(world.size()));
    let mut round = 0;
    let mut one_round = || -> Result<(), hikyaku::Error> {
        for row in (0..rows).filter(|row| (row + round) % size == rank) {
            let mut guard = array.part(row)?.write()?;
            let value = guard[0] + 1.0;
            black_box(&mut guard).fill(value);
        }
        round += 1;
        world.barrier()
    };
    one_round()?;
    let answer = rank::whole(world, command, one_round);
    let rounds = u64::from(command.batches) * command.repetitions + 1;
    check(&array, rows, rounds as f64)?;
    world.barrier()?;
    answer
}

/// Each row has the value of its last writer, at both its ends (FG-20).
fn check(array: &Shared<f64>, rows: u64, expected: f64) -> Result<(), RankError> {
    for row in 0..rows {
        let guard = array.part(row)?.read()?;
        let ends = [guard.first(), guard.last()];
        if ends != [Some(&expected); 2] {
            let found = format!("row {row} holds {ends:?} and not {expected}, its last value");
            return Err(RankError::Command(found));
        }
    }
    Ok(())
}
