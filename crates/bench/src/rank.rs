//! The ranks' side of every kind: timed batches of calls, and their errors.

use std::io;
use std::time::{Duration, Instant};

use hikyaku::{Error, World};
use thiserror::Error;

use super::control::{BlockAnswer, BlockCommand};

/// The tag of every message of the benchmark.
pub(crate) const TAG: i32 = 7;

/// Why a rank could not continue.
#[derive(Debug, Error)]
pub(crate) enum RankError {
    /// The conductor cannot be reached or has gone.
    #[error("a rank cannot talk to its conductor: {0}")]
    Control(#[from] io::Error),
    /// There is no job to join.
    #[error("a rank cannot start: {0}")]
    Init(#[from] hikyaku::InitError),
    /// The library refused.
    #[error("a rank cannot go on: {0}")]
    World(#[from] Error),
    /// An invalid command.
    #[error("{0}")]
    Command(String),
}

/// Runs the batches of `command` after a barrier; `batch` returns the time that counts.
pub(crate) fn batches(
    world: &World,
    command: &BlockCommand,
    mut batch: impl FnMut() -> Result<Duration, Error>,
) -> Result<BlockAnswer, RankError> {
    world.barrier()?;
    let mut nanoseconds = Vec::with_capacity(command.batches as usize);
    for _ in 0..command.batches {
        nanoseconds.push(u64::try_from(batch()?.as_nanos()).unwrap_or(u64::MAX));
    }
    Ok(BlockAnswer::Times { nanoseconds })
}

/// The batches of a measurement in which all time counts; `body` is one repetition.
pub(crate) fn whole(
    world: &World,
    command: &BlockCommand,
    mut body: impl FnMut() -> Result<(), Error>,
) -> Result<BlockAnswer, RankError> {
    batches(world, command, || {
        let start = Instant::now();
        for _ in 0..command.repetitions {
            body()?;
        }
        Ok(start.elapsed())
    })
}
