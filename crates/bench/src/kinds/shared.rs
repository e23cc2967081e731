//! Shared variables: acquiring an unlocked one, and handing one over between two ranks.
//!
//! A hand-off is a strict alternation: each rank acquires the variable for writing, and if the
//! other wrote last it copies new contents into it and releases it. The limit is the time of two
//! threads that only spin on a flag and copy as many bytes to one place alternately.

use std::hint::black_box;

use hikyaku::shared::{ReadGuard, WriteGuard};
use hikyaku::{Error, Shared, World};

use super::{Bare, FigureKind, MeasuredForm, MeasuredPoint};
use crate::arguments::BenchSettings;
use crate::control::{BlockAnswer, BlockCommand, Verb};
use crate::rank::{self, RankError};

const SIZES: [u64; 3] = [8, 4 << 10, 64 << 10];

/// The point of an unlocked variable, and one hand-off per size.
pub(crate) fn points(settings: &BenchSettings) -> Vec<MeasuredPoint> {
    let sizes = sizes(settings);
    let ours = vec![
        MeasuredForm::heap("write", Verb::FreeWrite),
        MeasuredForm::heap("read", Verb::FreeRead),
    ];
    let free = MeasuredPoint { ours, ..MeasuredPoint::new(FigureKind::Acquire, 2, 0, Bare::LINE) };
    let turns = MeasuredForm::heap("", Verb::SharedTurns);
    let point = |bytes: &u64| MeasuredPoint {
        ours: vec![turns],
        ..MeasuredPoint::new(FigureKind::HandOver, 2, *bytes, Bare::Turns)
    };
    std::iter::once(free).chain(sizes.iter().map(point)).collect()
}

/// The requested sizes, in whole elements of eight bytes.
pub(crate) fn sizes(settings: &BenchSettings) -> Vec<u64> {
    let sizes = if settings.sizes.is_empty() { &SIZES[..] } else { &settings.sizes };
    sizes.iter().map(|bytes| bytes.next_multiple_of(8).max(8)).collect()
}

fn variable(world: &World, command: &BlockCommand) -> Result<Shared<u64>, RankError> {
    Ok(world.shared::<u64>("bench", &[command.bytes.div_ceil(8).max(1)])?)
}

/// Rank 0 acquires and releases; the others are idle.
pub(crate) fn serve_free(
    world: &World,
    command: &BlockCommand,
    acquire: impl Fn(&Shared<u64>) -> Result<(), Error>,
) -> Result<BlockAnswer, RankError> {
    let shared = variable(world, command)?;
    let first = world.rank() == 0;
    let answer = rank::whole(world, command, || if first { acquire(&shared) } else { Ok(()) });
    world.barrier()?;
    answer
}

pub(crate) fn write(shared: &Shared<u64>) -> Result<(), Error> {
    change(&mut shared.write()?);
    Ok(())
}

pub(crate) fn read(shared: &Shared<u64>) -> Result<(), Error> {
    look(&shared.read()?);
    Ok(())
}

/// The access to a variable that has been acquired for writing.
pub(super) fn change(guard: &mut WriteGuard<u64>) {
    black_box(guard)[0] += 1;
}

/// The access to one acquired for reading.
pub(super) fn look(guard: &ReadGuard<u64>) {
    black_box(guard[0]);
}

/// Ranks 0 and 1 write alternately; a repetition is one turn of each.
pub(crate) fn serve_turns(world: &World, command: &BlockCommand) -> Result<BlockAnswer, RankError> {
    take_turns(world, command, &variable(world, command)?)
}

/// Strict alternation of ranks 0 and 1.
pub(crate) fn take_turns(
    world: &World,
    command: &BlockCommand,
    shared: &Shared<u64>,
) -> Result<BlockAnswer, RankError> {
    let mut own = vec![0; shared.shape()[0] as usize];
    let rank = u64::from(world.rank());
    let answer = rank::whole(world, command, || match rank {
        0 | 1 => turn(rank, shared, &mut own),
        _ => Ok(()),
    });
    world.barrier()?;
    answer
}

#[inline]
fn turn(rank: u64, shared: &Shared<u64>, own: &mut [u64]) -> Result<(), Error> {
    loop {
        let mut guard = shared.write()?;
        let number = guard[0];
        if number % 2 == rank {
            own[0] = number + 1;
            guard.copy_from_slice(own);
            return Ok(());
        }
    }
}
