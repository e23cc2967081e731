//! Shared variables between two (virtual) nodes, by each of the protocols.
//!
//! *apart* is a free variable, acquired repeatedly by one rank. *travel* is the hand-off of
//! [`super::shared`] between nodes: a strict alternation, in which the owner is always in a call,
//! waiting for its next turn. *owner* is one acquisition at a time, from an owner that waits in a
//! barrier, and from one that computes:
//!
//! ```text
//!   owner   barrier | compute 200 us, or wait at once .................. | barrier
//!   asker   barrier | compute 100 us | write(), copy, let go | wait .... | barrier
//!                                    |<------- owner ------->|
//! ```
//!
//! The asker computes first in both, so that it enters the library equally cold. Computing is
//! polling a clock, with pauses: beside a loop without pauses the other virtual processor was
//! slower at all work, even at additions, which has nothing to do with the library.
//!
//! The least cost is a cache line and one copy of data that the other core has just written: with
//! `direct` the asker reads it, with the others it is stored where the asker finds it.

use std::hint::{black_box, spin_loop};
use std::time::{Duration, Instant};

use hikyaku::shared::Parts::Rows;
use hikyaku::shared::{Part, Protocol, SharedOptions};
use hikyaku::{Error, Shared, World};

use super::{Bare, FigureKind, MeasuredForm, MeasuredPoint, PartCounts, shared};
use crate::arguments::BenchSettings;
use crate::control::{BlockAnswer, BlockCommand, Home, Verb};
use crate::rank::{self, RankError};

/// Computing time of an owner.
const COMPUTE: Duration = Duration::from_micros(200);

/// The time after which it is asked.
const AHEAD: Duration = Duration::from_micros(100);

/// Pauses between two readings of the clock.
const PAUSES: u32 = 16;

/// The unreported time of a turn of each rank, nanoseconds: an owner that computes twice.
const UNREPORTED: u64 = 400_000;

/// The names of the owner's forms in tables.
pub(crate) const WAITS: &str = "owner waits";
pub(crate) const COMPUTES: &str = "owner computes";

/// The free variable, and two points per size.
pub(crate) fn points(settings: &BenchSettings) -> Vec<MeasuredPoint> {
    let sizes = shared::sizes(settings);
    let travel = |bytes: &u64| {
        let by = |protocol| MeasuredForm::by(protocol, "", Verb::Travel(protocol));
        MeasuredPoint { ours: Protocol::ALL.map(by).into(), ..point(FigureKind::Travel, *bytes) }
    };
    let owner = |bytes: &u64| {
        let waits = |protocol| MeasuredForm::by(protocol, WAITS, Verb::OwnerWaits(protocol));
        let computes =
            |protocol| MeasuredForm::by(protocol, COMPUTES, Verb::OwnerComputes(protocol));
        let ours = Protocol::ALL.iter().flat_map(|by| [waits(*by), computes(*by)]).collect();
        MeasuredPoint { ours, unreported: UNREPORTED, ..point(FigureKind::Owner, *bytes) }
    };
    let owners = sizes.iter().map(owner);
    let apart = sizes.iter().map(travel).chain(owners);
    std::iter::once(free()).chain(apart).collect()
}

/// A variable that was written here before and that no other rank wants.
fn free() -> MeasuredPoint {
    let ours = vec![
        MeasuredForm::heap("home, write", Verb::WriteAt(Home::Here)),
        MeasuredForm::heap("home, read", Verb::ReadAt(Home::Here)),
        MeasuredForm::heap("kept, write", Verb::WriteAt(Home::There)),
        MeasuredForm::heap("kept, read", Verb::ReadAt(Home::There)),
    ];
    MeasuredPoint { apart: true, ours, ..MeasuredPoint::new(FigureKind::Apart, 2, 0, Bare::LINE) }
}

fn point(kind: FigureKind, bytes: u64) -> MeasuredPoint {
    let bare = Bare::Parts(PartCounts { lines: 1, copies: 1.0, ..PartCounts::default() });
    MeasuredPoint { apart: true, ..MeasuredPoint::new(kind, 2, bytes, bare) }
}

/// Keeps a rank out of the library for `time`, and yields the core to threads that share it.
fn compute(time: Duration) {
    let start = Instant::now();
    while black_box(start.elapsed()) < time {
        (0..PAUSES).for_each(|_| spin_loop());
    }
}

fn variable(world: &World, command: &BlockCommand, by: Protocol) -> Result<Shared<u64>, RankError> {
    let options = SharedOptions { protocol: Some(by), ..SharedOptions::default() };
    Ok(world.shared_with::<u64>("bench", &[command.bytes.div_ceil(8).max(1)], options)?)
}

/// Rank 0 acquires and releases; the other one is idle.
pub(crate) fn serve_free(
    world: &World,
    command: &BlockCommand,
    home: Home,
    acquire: impl Fn(&Part<u64>) -> Result<(), Error>,
) -> Result<BlockAnswer, RankError> {
    // One part with its home at each rank.
    let options = SharedOptions { parts: Rows(1), ..SharedOptions::default() };
    let shared = world.shared_with::<u64>("bench", &[2, 1], options)?;
    let first = shared.part(0)?;
    let here = first.home() == 0;
    let part = if here == (home == Home::Here) { first } else { shared.part(1)? };
    let works = world.rank() == 0;
    if works {
        // From the second acquisition on it is kept.
        (0..2).try_for_each(|_| part.write().map(drop))?;
    }
    let answer = rank::whole(world, command, || if works { acquire(&part) } else { Ok(()) });
    world.barrier()?;
    answer
}

pub(crate) fn write(part: &Part<u64>) -> Result<(), Error> {
    shared::change(&mut part.write()?);
    Ok(())
}

pub(crate) fn read(part: &Part<u64>) -> Result<(), Error> {
    shared::look(&part.read()?);
    Ok(())
}

/// Ranks 0 and 1 write alternately; a repetition is one turn of each.
pub(crate) fn serve_travel(
    world: &World,
    command: &BlockCommand,
    by: Protocol,
) -> Result<BlockAnswer, RankError> {
    shared::take_turns(world, command, &variable(world, command, by)?)
}

/// Ranks 0 and 1 alternately request what the other one has written last; a repetition is one turn
/// of each, and each rank reports its own.
pub(crate) fn serve_owner(
    world: &World,
    command: &BlockCommand,
    by: Protocol,
    computes: bool,
) -> Result<BlockAnswer, RankError> {
    let shared = variable(world, command, by)?;
    let mut own = vec![0; shared.shape()[0] as usize];
    let rank = u64::from(world.rank());
    let mut turn = |number: u64| -> Result<Duration, Error> {
        world.barrier()?;
        if number % 2 != rank {
            if computes {
                compute(COMPUTE);
            }
            return Ok(Duration::ZERO);
        }
        compute(AHEAD);
        own.fill(number);
        let start = Instant::now();
        shared.write()?.copy_from_slice(&own);
        Ok(start.elapsed())
    };
    let answer = rank::batches(world, command, || {
        (0..2 * command.repetitions).map(&mut turn).sum::<Result<Duration, Error>>()
    });
    world.barrier()?;
    answer
}
