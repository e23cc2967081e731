//! The run: what all ranks do together from the first step to the last.

use std::time::{Duration, Instant};

use hikyaku::{Error, World};

use crate::block::Block;
use crate::config::Boundary;
use crate::exchange::{self, Exchange};
use crate::field::Extent;
use crate::stencil::Stencil;

/// What every rank must know to compute its part. Rank 0 reads it and tells the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// Size of the grid, cells.
    pub extent: Extent,
    /// How a cell is computed from its neighbours.
    pub stencil: Stencil,
    /// α·dt in cells²; within the stencil's stability.
    pub ratio: f64,
    /// What lies around the grid.
    pub boundary: Boundary,
    /// The most steps to make.
    pub steps: u64,
    /// Stop when no cell changes by more than this in a step.
    pub tolerance: f64,
    /// Steps from one look at the largest change to the next.
    pub check_every: u64,
}

impl Plan {
    /// Whether the largest change is looked at in this step: every `check_every` steps, and in the
    /// last one.
    pub fn checks_in(&self, step: u64) -> bool {
        step.is_multiple_of(self.check_every) || step == self.steps
    }
}

/// What a rank can be doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Computing cells.
    Computing,
    /// Copying edges out of the block and into its frame.
    Copying,
    /// Exchanging edges: calls of the library, and waiting for data that is on its way.
    Moving,
    /// Waiting for a neighbour that has not started its exchange yet.
    Late,
    /// Agreeing on the largest change.
    Reduction,
}

/// The names of the parts, in order.
pub const PARTS: [&str; 5] = ["computing", "copying", "moving data", "late neighbour", "allreduce"];

/// Seconds for each [`Part`], in its order. Plain numbers, so that they can be gathered.
pub type Split = [f64; PARTS.len()];

/// Books every moment of a run to exactly one part.
#[derive(Debug)]
pub struct Stopwatch {
    booked_to: Instant,
    parts: [Duration; PARTS.len()],
}

impl Stopwatch {
    /// Starts now.
    pub fn start() -> Stopwatch {
        Stopwatch { booked_to: Instant::now(), parts: [Duration::ZERO; PARTS.len()] }
    }

    /// The time since the last booking went to `part`.
    pub fn book(&mut self, part: Part) {
        let now = Instant::now();
        self.parts[part as usize] += now - self.booked_to;
        self.booked_to = now;
    }

    /// The time since the last booking went to an exchange, `late` of it to a late neighbour.
    pub fn book_exchange(&mut self, late: Duration) {
        let before = self.parts[Part::Moving as usize];
        self.book(Part::Moving);
        let late = late.min(self.parts[Part::Moving as usize] - before);
        self.parts[Part::Moving as usize] -= late;
        self.parts[Part::Late as usize] += late;
    }

    /// What was booked so far.
    pub fn split(&self) -> Split {
        self.parts.map(|part| part.as_secs_f64())
    }
}

/// What a rank did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// Steps made.
    pub steps: u64,
    /// The largest change of a cell in the last step.
    pub change: f64,
    /// Where this rank's time went.
    pub split: Split,
}

/// Steps `block` until the field is steady or the plan's steps are made. Calls `observe` after
/// every step, with its number and the largest change if that is known. All ranks call this
/// together.
///
/// # Errors
/// Another rank failed.
pub fn solve(
    world: &World,
    plan: &Plan,
    block: &mut Block,
    exchange: &mut Exchange<'_>,
    mut observe: impl FnMut(u64, Option<f64>),
) -> Result<Outcome, Error> {
    let mut watch = Stopwatch::start();
    let (mut steps, mut change) = (0, None);
    // The largest change is the same number on every rank, so all leave in the same step.
    while steps < plan.steps && change.is_none_or(|change| change > plan.tolerance) {
        steps += 1;
        exchange.step(block, &mut watch)?; // the interior may be computed in here
        block.mirror();
        block.rim();
        if plan.checks_in(steps) {
            let here = block.largest_change();
            watch.book(Part::Computing);
            change = Some(exchange::largest(world, here)?);
            watch.book(Part::Reduction);
        }
        block.advance();
        observe(steps, change);
        watch.book(Part::Computing);
    }
    Ok(Outcome { steps, change: change.unwrap_or(0.0), split: watch.split() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_change_is_looked_at_now_and_then_and_in_the_last_step() {
        let boundary = Boundary::Insulated;
        let (ratio, tolerance) = (0.2, 0.0);
        let plan = Plan {
            extent: (3, 3).into(),
            stencil: Stencil::Five,
            ratio,
            boundary,
            steps: 25,
            tolerance,
            check_every: 10,
        };
        let checks: Vec<u64> = (1..=25).filter(|step| plan.checks_in(*step)).collect();
        assert_eq!(checks, [10, 20, 25]);
    }

    #[test]
    fn every_moment_is_booked_and_nobody_is_later_than_the_exchange_took() {
        let mut watch = Stopwatch::start();
        let began = watch.booked_to;
        for part in [Part::Computing, Part::Copying, Part::Reduction, Part::Computing] {
            watch.book(part);
        }
        watch.book_exchange(Duration::from_nanos(1));
        assert_eq!(watch.parts.iter().sum::<Duration>(), watch.booked_to - began);
        let moving = watch.parts[Part::Moving as usize];
        watch.book_exchange(Duration::MAX);
        assert_eq!(watch.parts[Part::Moving as usize], moving);
        assert_eq!(watch.parts.iter().sum::<Duration>(), watch.booked_to - began);
    }
}
