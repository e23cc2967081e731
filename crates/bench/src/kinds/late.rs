//! Late: the value of an exchange that progresses by itself, without a call of the program.
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
//! *wait* is the cost of waiting when both sides have started long ago: one poll if the data came
//! by itself, and the whole transfer if it moves only inside calls. *calls* is the total cost of an
//! exchange for a program: work that is hidden in the start shows there. *processor* is the same in
//! processor time, including helper threads, beside that of the bare copies. *late* is the time
//! from a late neighbour's start to the end of the exchange: one transfer, or that and all
//! computation of the neighbour before it calls the library again. All blocks are fresh.

use std::convert::Infallible;
use std::hint::black_box;
use std::time::{Duration, Instant};

use hikyaku::{Error, World};

use super::exchange::{Lap, RepeatableExchange};
use super::{Bare, FigureKind, MeasuredPoint, PartCounts, halo};
use crate::arguments::BenchSettings;
use crate::control::{BlockAnswer, BlockCommand, Clock};
use crate::processor;
use crate::rank::{self, RankError, TAG};

/// Computing time of every rank between its start and its wait, as in peer/exchange.c.
pub(crate) const COMPUTE: Duration = Duration::from_micros(50);

/// The delay of the late rank, as in peer/exchange.c.
pub(crate) const LATENESS: Duration = Duration::from_micros(100);

const SIZES: [u64; 3] = [8, 16 << 10, 64 << 10];

/// Four points per size.
pub(crate) fn points(settings: &BenchSettings) -> Vec<MeasuredPoint> {
    let sizes = if settings.sizes.is_empty() { &SIZES[..] } else { &settings.sizes };
    let sizes = || sizes.iter().copied().filter(|bytes| *bytes > 0);
    let copies = |bytes| Bare::Parts(PartCounts::signal(2, 2).with_copies(2.0, bytes, 2, 2));
    let waits = sizes().map(|bytes| point(FigureKind::Wait, Clock::Wait, bytes, Bare::LINE));
    let calls = sizes().map(|bytes| point(FigureKind::Calls, Clock::Calls, bytes, copies(bytes)));
    let lates = sizes().map(|bytes| point(FigureKind::Late, Clock::Late, bytes, copies(bytes)));
    let processors = sizes()
        .map(|bytes| point(FigureKind::Processor, Clock::Processor, bytes, bare_work(bytes)));
    waits.chain(calls).chain(processors).chain(lates).collect()
}

/// The processor time of the bare copies; for data that fits into a line, of reading it.
fn bare_work(bytes: u64) -> Bare {
    let all = PartCounts::signal(2, 2).with_copies(2.0, bytes, 2, 2);
    let lines = if all.copies > 0.0 { 0 } else { all.lines };
    Bare::Work(PartCounts { lines, ..all })
}

fn point(kind: FigureKind, clock: Clock, bytes: u64, bare: Bare) -> MeasuredPoint {
    let (ours, theirs) = halo::forms(clock);
    let unreported = COMPUTE + if clock == Clock::Late { LATENESS } else { Duration::ZERO };
    let unreported = u64::try_from(unreported.as_nanos()).unwrap_or(u64::MAX);
    MeasuredPoint { unreported, ours, theirs, ..MeasuredPoint::new(kind, 2, bytes, bare) }
}

/// The ranks' side of *wait* and *calls*: `counted` selects the timed part of a lap.
pub(crate) fn laps(
    world: &World,
    command: &BlockCommand,
    exchange: &mut impl RepeatableExchange,
    counted: impl Fn(Lap) -> Duration,
) -> Result<BlockAnswer, RankError> {
    rank::batches(world, command, || {
        let lap = |_| Lap::run(exchange, || compute(COMPUTE)).map(&counted);
        (0..command.repetitions).map(lap).sum()
    })
}

/// The ranks' side of *processor*.
pub(crate) fn processor(
    world: &World,
    command: &BlockCommand,
    exchange: &mut impl RepeatableExchange,
) -> Result<BlockAnswer, RankError> {
    rank::batches(world, command, || {
        let looking = processor::middle_of_empty(|| {
            let nothing = |between: &mut dyn FnMut()| -> Result<(), Infallible> {
                between();
                Ok(())
            };
            spent(Duration::ZERO, nothing).unwrap_or_else(|never| match never {})
        });
        let mut sum = Duration::ZERO;
        for _ in 0..command.repetitions {
            sum += spent(COMPUTE, |between| exchange.exchange(between))?;
        }
        let looking = looking.as_nanos() as u64 * command.repetitions;
        Ok(sum.saturating_sub(Duration::from_nanos(looking)))
    })
}

/// The processor time of this process in a round, without the computing of length `time` in
/// between.
fn spent<E>(
    time: Duration,
    round: impl FnOnce(&mut dyn FnMut()) -> Result<(), E>,
) -> Result<Duration, E> {
    let begin = processor::of_process();
    let mut computing = Duration::ZERO;
    round(&mut || {
        let start = processor::of_thread();
        compute(time);
        computing = processor::of_thread() - start;
    })?;
    Ok((processor::of_process() - begin).saturating_sub(computing))
}

/// The ranks' side of *late*: rank 1 is late, and rank 0 reports how long it was held up.
pub(crate) fn late(
    world: &World,
    command: &BlockCommand,
    exchange: &mut impl RepeatableExchange,
) -> Result<BlockAnswer, RankError> {
    rank::batches(world, command, || {
        (0..command.repetitions).map(|_| held_up(world, exchange)).sum()
    })
}

/// From rank 1's start to the end of rank 0's wait, by the clock that all ranks of a job share.
/// Only rank 0 gets the result.
fn held_up(world: &World, exchange: &mut impl RepeatableExchange) -> Result<Duration, Error> {
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
pub(crate) fn compute(time: Duration) {
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
    fn computing_is_no_part_of_what_is_spent() {
        let mut work = 0;
        // Other tests of this process take the processor too, but not in each of a thousand rounds.
        let mut none = (0..1_000).map(|_| {
            spent(Duration::from_millis(5), |between: &mut dyn FnMut()| {
                between();
                Ok::<_, ()>(())
            })
        });
        assert!(none.any(|spent| spent.is_ok_and(|time| time < Duration::from_millis(2))));
        let some = spent(Duration::ZERO, |between: &mut dyn FnMut()| {
            between();
            let begin = processor::of_thread();
            while processor::of_thread() - begin < Duration::from_millis(3) {
                work += 1;
            }
            Ok::<_, ()>(())
        });
        assert!(some.is_ok_and(|time| time >= Duration::from_millis(3)), "{some:?} {work}");
        assert_eq!(spent(Duration::ZERO, |_| Err(7)), Err(7));
    }

    #[test]
    fn what_is_not_reported_is_known_to_the_schedule() {
        let point = |kind, clock| point(kind, clock, 8, Bare::LINE);
        assert_eq!(point(FigureKind::Wait, Clock::Wait).unreported, 50_000);
        assert_eq!(point(FigureKind::Late, Clock::Late).unreported, 150_000);
    }
}
