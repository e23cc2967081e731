//! Late: what it is worth that an exchange goes on by itself, without a call of the program.
//!
//! ```text
//!   rank 0   start | compute 50 us | wait .................... |   wait, calls: both ranks
//!   rank 1   start | compute 50 us | wait .................... |   start together
//!
//!   rank 0   start | compute 50 us | wait ................|        late: rank 1 is 100 us late
//!   rank 1   100 us late                    start | compute 50 us | wait |
//!                                           |<-- late --->|
//! ```
//!
//! *wait* is what waiting costs when both sides have started long ago: nothing but a look, if the
//! data came by itself, and all of the transfer, if it moves only inside calls. *calls* is what an
//! exchange costs a program altogether: work that is hidden in the start shows there. *late* is how
//! long after a late neighbour's start the exchange ends: one transfer, or that and all that the
//! neighbour computes before it calls the library again.

use std::hint::black_box;
use std::time::{Duration, Instant};

use hikyaku::{Error, World};

use super::exchange::{Exchange, Lap};
use super::{Bare, Kind, Parts, Point, halo};
use crate::bench::arguments::Settings;
use crate::bench::control::{Answer, Clock, Command};
use crate::bench::rank::{self, RankError, TAG};

/// What every rank computes between its start and its wait, as in peer/exchange.c.
pub(crate) const COMPUTE: Duration = Duration::from_micros(50);

/// How late the late rank is, as in peer/exchange.c.
pub(crate) const LATENESS: Duration = Duration::from_micros(100);

const SIZES: [u64; 3] = [8, 16 << 10, 64 << 10];

/// Three points per size.
pub(crate) fn points(settings: &Settings) -> Vec<Point> {
    let sizes = if settings.sizes.is_empty() { &SIZES[..] } else { &settings.sizes };
    let sizes = || sizes.iter().copied().filter(|bytes| *bytes > 0);
    let copies = |bytes| Bare::Parts(Parts::signal(2, 2).with_copies(2.0, bytes, 2, 2));
    let waits = sizes().map(|bytes| point(Kind::Wait, Clock::Wait, bytes, Bare::LINE));
    let calls = sizes().map(|bytes| point(Kind::Calls, Clock::Calls, bytes, copies(bytes)));
    let lates = sizes().map(|bytes| point(Kind::Late, Clock::Late, bytes, copies(bytes)));
    waits.chain(calls).chain(lates).collect()
}

fn point(kind: Kind, clock: Clock, bytes: u64, bare: Bare) -> Point {
    let (ours, theirs) = halo::forms(clock);
    let unreported = COMPUTE + if clock == Clock::Late { LATENESS } else { Duration::ZERO };
    let unreported = u64::try_from(unreported.as_nanos()).unwrap_or(u64::MAX);
    Point { unreported, ours, theirs, ..Point::new(kind, 2, bytes, bare) }
}

/// The ranks' side of *wait* and *calls*: `counted` says what of a lap is timed.
pub(crate) fn laps(
    world: &World,
    command: &Command,
    exchange: &mut impl Exchange,
    counted: impl Fn(Lap) -> Duration,
) -> Result<Answer, RankError> {
    rank::batches(world, command, || {
        let lap = |_| Lap::run(exchange, || compute(COMPUTE)).map(&counted);
        (0..command.repetitions).map(lap).sum()
    })
}

/// The ranks' side of *late*: rank 1 is late, and rank 0 says for how long it was held up.
pub(crate) fn late(
    world: &World,
    command: &Command,
    exchange: &mut impl Exchange,
) -> Result<Answer, RankError> {
    rank::batches(world, command, || {
        (0..command.repetitions).map(|_| held_up(world, exchange)).sum()
    })
}

/// From rank 1's start to the end of rank 0's wait, by the clock that all ranks of a job share.
/// Only rank 0 gets to know it.
fn held_up(world: &World, exchange: &mut impl Exchange) -> Result<Duration, Error> {
    world.barrier()?;
    let late = world.rank() == 1;
    if late {
        compute(LATENESS);
    }
    let mut start = [world.now().nanoseconds()];
    exchange.exchange(|| compute(COMPUTE))?;
    let end = world.now().nanoseconds();
    match world.rank() {
        0 => world.recv(&mut start, 1, TAG).map(drop)?,
        1 => world.send(&start, 0, TAG)?,
        _ => {}
    }
    Ok(Duration::from_nanos(end.saturating_sub(start[0])))
}

/// Keeps the core busy for `time` without a call of the library.
fn compute(time: Duration) {
    let start = Instant::now();
    while black_box(start.elapsed()) < time {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computing_takes_its_time() {
        let start = Instant::now();
        compute(COMPUTE);
        assert!(start.elapsed() >= COMPUTE);
    }

    #[test]
    fn what_is_not_reported_is_known_to_the_schedule() {
        let point = |kind, clock| point(kind, clock, 8, Bare::LINE);
        assert_eq!(point(Kind::Wait, Clock::Wait).unreported, 50_000);
        assert_eq!(point(Kind::Late, Clock::Late).unreported, 150_000);
    }
}
