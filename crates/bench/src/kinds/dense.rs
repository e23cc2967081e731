//! Persistent collectives in a program that computes between start and wait, like the exchanges of
//! [`super::late`]: by the usual algorithms, which advance in calls, and by session queues, which
//! run by themselves.
//!
//! ```text
//!   rank 0   start | compute 50 us ........ | wait ..... |     densewait
//!   rank 1   10 us late | start | compute 50 us ........ | wait |
//! ```
//!
//! When rank 0 waits, both have started long ago: if the operation runs by itself nothing is left.
//! Otherwise it waits until rank 1 waits too. *densecalls* is start and wait together, at a rank
//! that is late every other time: the late rank runs what session queues have left.
//! All buffers are in ordinary memory; a rank contributes the same data each time, or the result of
//! the previous round.

use std::time::Duration;

use hikyaku::{Error, Op, Persistent, SessionChoices, World};

use super::exchange::Lap;
use super::late::{COMPUTE, compute};
use super::{Bare, FigureKind, MeasuredForm, MeasuredPoint, PartCounts};
use crate::arguments::BenchSettings;
use crate::control::{BlockAnswer, BlockCommand, Clock, DenseForm, DenseWay, Verb};
use crate::rank::{self, RankError};

/// The delay of the late rank: less than it computes.
const LATENESS: Duration = Duration::from_micros(10);

const SIZES: [u64; 2] = [8, 64 << 10];

const FORMS: [(&str, DenseForm); 8] = [
    ("barrier", DenseForm::Barrier(DenseWay::Usual)),
    ("barrier session", DenseForm::Barrier(DenseWay::Session)),
    ("broadcast", DenseForm::Broadcast(DenseWay::Usual)),
    ("broadcast session", DenseForm::Broadcast(DenseWay::Session)),
    ("allgather", DenseForm::Allgather(DenseWay::Usual)),
    ("allgather session", DenseForm::Allgather(DenseWay::Session)),
    ("allreduce", DenseForm::Allreduce(DenseWay::Usual)),
    ("allreduce session", DenseForm::Allreduce(DenseWay::Session)),
];

/// Two points per size, for sizes of whole numbers.
pub(crate) fn points(settings: &BenchSettings) -> Vec<MeasuredPoint> {
    let sizes = if settings.sizes.is_empty() { &SIZES[..] } else { &settings.sizes };
    let sizes = || sizes.iter().copied().filter(|bytes| *bytes > 0 && bytes % 8 == 0);
    let copies = |bytes| Bare::Parts(PartCounts::signal(2, 2).with_copies(1.0, bytes, 2, 2));
    let waits = sizes().map(|bytes| point(FigureKind::DenseWait, Clock::Wait, bytes, Bare::LINE));
    let calls =
        sizes().map(|bytes| point(FigureKind::DenseCalls, Clock::Calls, bytes, copies(bytes)));
    waits.chain(calls).collect()
}

fn point(kind: FigureKind, clock: Clock, bytes: u64, bare: Bare) -> MeasuredPoint {
    let form = |(name, form)| MeasuredForm::heap(name, Verb::Dense(clock, form));
    let ours = FORMS.map(form).to_vec();
    let unreported = u64::try_from((COMPUTE + LATENESS).as_nanos()).unwrap_or(u64::MAX);
    MeasuredPoint { unreported, ours, ..MeasuredPoint::new(kind, 2, bytes, bare) }
}

/// The ranks' side.
pub(crate) fn serve(
    world: &World,
    command: &BlockCommand,
    clock: Clock,
    form: DenseForm,
) -> Result<BlockAnswer, RankError> {
    let numbers = (command.bytes / 8) as usize;
    let given = || vec![0.0_f64; numbers];
    let by = |way| match way {
        DenseWay::Usual => world.duplicate(),
        DenseWay::Session => world.with_sessions(SessionChoices::ALL),
    };
    match form {
        DenseForm::Barrier(way) => laps(world, command, clock, by(way).barrier_init()),
        DenseForm::Broadcast(way) => {
            laps(world, command, clock, by(way).broadcast_init(given(), 0))
        }
        DenseForm::Allgather(way) => {
            let all = vec![0.0; numbers * world.size() as usize];
            laps(world, command, clock, by(way).allgather_init(given(), all))
        }
        DenseForm::Allreduce(way) => {
            laps(world, command, clock, by(way).allreduce_init(given(), Op::Sum))
        }
    }
}

fn laps<B>(
    world: &World,
    command: &BlockCommand,
    clock: Clock,
    mut operation: Persistent<B>,
) -> Result<BlockAnswer, RankError> {
    let mut round = 0;
    rank::batches(world, command, || {
        let mut lap = || -> Result<_, Error> {
            round += 1;
            // A rank that is late with one round must not delay the next.
            world.barrier()?;
            if world.rank() == if clock == Clock::Wait { 1 } else { round % 2 } {
                compute(LATENESS);
            }
            let exchange = |between: &mut dyn FnMut()| {
                operation.start()?;
                between();
                operation.wait()
            };
            let lap = Lap::around(exchange, || compute(COMPUTE))?;
            Ok(if clock == Clock::Wait { lap.wait() } else { lap.calls() })
        };
        (0..command.repetitions).map(|_| lap()).sum()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_each_operation_have_a_form() {
        let point = point(FigureKind::DenseWait, Clock::Wait, 8, Bare::LINE);
        let names: Vec<&str> = point.ours.iter().map(|form| form.name).collect();
        assert_eq!(names[..3], ["barrier", "barrier session", "broadcast"]);
        assert!(point.theirs.is_empty() && point.unreported == 60_000);
    }
}
