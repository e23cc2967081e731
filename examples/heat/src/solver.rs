//! The run: what all ranks do together from the first step to the last.

use std::time::Duration;

use hikyaku::{Error, World};

use crate::block::Block;
use crate::config::Boundary;
use crate::exchange::{self, Exchange};
use crate::field::Extent;
use crate::stencil::Stencil;
use crate::stopwatch::{Part, Split, Stopwatch};

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

/// A step that was made, as the observer sees it.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// Its number, from 1.
    pub number: u64,
    /// The largest change of a cell in a step, when it was last looked at.
    pub change: Option<f64>,
    /// How long this rank took for it.
    pub took: Duration,
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

/// Steps `block` until the field is steady or the plan's steps are made; calls `observe` after
/// every step. All ranks call this together.
///
/// # Errors
/// Another rank failed.
pub fn solve(
    world: &World,
    plan: &Plan,
    block: &mut Block,
    exchange: &mut Exchange<'_>,
    mut observe: impl FnMut(Step),
) -> Result<Outcome, Error> {
    let mut watch = Stopwatch::start();
    let (mut steps, mut change) = (0, None);
    // The largest change is the same number on every rank, so all leave in the same step.
    while steps < plan.steps && change.is_none_or(|change| change > plan.tolerance) {
        steps += 1;
        watch.begin_step();
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
        watch.book(Part::Computing);
        observe(Step { number: steps, change, took: watch.step() });
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
}
