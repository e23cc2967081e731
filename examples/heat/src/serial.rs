//! The serial program, as one would write it without any message passing: what `--check` compares
//! with.
//!
//! It shares with [`crate::block`] only the arithmetic of a row ([`crate::stencil`]), so that it is
//! as fast as one rank can be. The storage is deliberately another, without a frame: cells at a
//! border are computed one by one from a function that says what lies where. A mistake in blocks,
//! frames or edges cannot be repeated here.

use crate::config::Boundary;
use crate::field::{Extent, Field};
use crate::solver::Plan;
use crate::stencil::{Rows, Stencil, largest_difference};

/// The whole field, now and one step later.
#[derive(Debug)]
pub struct Serial {
    stencil: Stencil,
    ratio: f64,
    boundary: Boundary,
    current: Field,
    next: Field,
}

impl Serial {
    /// Starts from `field`; `ratio` is α·dt in cells².
    pub fn new(field: &Field, stencil: Stencil, ratio: f64, boundary: Boundary) -> Serial {
        Serial { stencil, ratio, boundary, current: field.clone(), next: field.clone() }
    }

    /// Makes one step; answers the largest change of a cell.
    pub fn step(&mut self) -> f64 {
        self.compute();
        let change = self.largest_change();
        std::mem::swap(&mut self.current, &mut self.next);
        change
    }

    /// The field as it is now.
    pub fn field(&self) -> &Field {
        &self.current
    }

    /// Computes `next` from `current`.
    fn compute(&mut self) {
        let Extent { width, height, depth } = self.current.extent();
        let volume = self.stencil == Stencil::Seven;
        for z in 0..depth {
            for y in 0..height {
                let plane = volume && (z == 0 || z + 1 == depth);
                if plane || y == 0 || y + 1 == height || width < 3 {
                    (0..width).for_each(|x| self.compute_one(x, y, z));
                    continue;
                }
                let Serial { current, next, stencil, ratio, .. } = self;
                let rows = Rows {
                    here: current.row(y, z),
                    north: current.row(y - 1, z),
                    south: current.row(y + 1, z),
                    planes: volume.then(|| (current.row(y, z - 1), current.row(y, z + 1))),
                };
                stencil.apply(*ratio, &rows, &mut next.row_mut(y, z)[1..width - 1]);
                self.compute_one(0, y, z);
                self.compute_one(width - 1, y, z);
            }
        }
    }

    /// Computes one cell, wherever it lies.
    fn compute_one(&mut self, x: usize, y: usize, z: usize) {
        let row = |down: isize, behind: isize| {
            [-1, 0, 1].map(|right| self.cell([x, y, z], [right, down, behind]))
        };
        let (north, here, south) = (row(-1, 0), row(0, 0), row(1, 0));
        let planes = (row(0, -1), row(0, 1));
        let volume = self.stencil == Stencil::Seven;
        let rows = Rows {
            here: &here,
            north: &north,
            south: &south,
            planes: volume.then_some((&planes.0[..], &planes.1[..])),
        };
        let mut new = [0.0];
        self.stencil.apply(self.ratio, &rows, &mut new);
        self.next.row_mut(y, z)[x] = new[0];
    }

    /// The temperature so far from a cell, which may lie outside.
    fn cell(&self, at: [usize; 3], by: [isize; 3]) -> f64 {
        let Extent { width, height, depth } = self.current.extent();
        let sizes = [width, height, depth];
        let place = [0, 1, 2].map(|d| {
            let there = at[d].checked_add_signed(by[d]).filter(|there| *there < sizes[d]);
            match self.boundary {
                // As warm as the nearest cell inside.
                Boundary::Insulated => Some(there.unwrap_or(at[d])),
                Boundary::Fixed(_) => there,
            }
        });
        match (place, self.boundary) {
            ([Some(x), Some(y), Some(z)], _) => self.current.row(y, z)[x],
            (_, Boundary::Fixed(temperature)) => temperature,
            (_, Boundary::Insulated) => unreachable!("there is a nearest cell"),
        }
    }

    fn largest_change(&self) -> f64 {
        largest_difference(self.current.cells(), self.next.cells())
    }
}

/// Runs the serial program as `plan` says. Returns the field and the number of steps made.
pub fn solve(start: &Field, plan: &Plan) -> (Field, u64) {
    let mut serial = Serial::new(start, plan.stencil, plan.ratio, plan.boundary);
    for step in 1..=plan.steps {
        serial.compute();
        let done = plan.checks_in(step) && serial.largest_change() <= plan.tolerance;
        std::mem::swap(&mut serial.current, &mut serial.next);
        if done {
            return (serial.current, step);
        }
    }
    (serial.current, plan.steps)
}

#[cfg(test)]
mod tests {
    use std::f64::consts::PI;

    use super::*;

    fn sine(cells: usize) -> Field {
        let wave = |i: usize| (PI * (i + 1) as f64 / (cells + 1) as f64).sin();
        Field::from_fn((cells, cells), |x, y, _| 100.0 * wave(x) * wave(y))
    }

    fn plan(size: usize, ratio: f64, boundary: Boundary, steps: u64) -> Plan {
        Plan {
            extent: (size, size).into(),
            stencil: Stencil::Five,
            ratio,
            boundary,
            steps,
            tolerance: 0.0,
            check_every: 10,
        }
    }

    /// sin·sin with a cold frame is an eigenvector of the stencil: it keeps its shape and shrinks
    /// by a known factor in every step, and that factor tends to the heat equation's
    /// exp(-2 α (π/L)² t).
    #[test]
    fn a_sine_decays_as_the_heat_equation_says() {
        let (cells, ratio, steps) = (40, 0.2, 400);
        let start = sine(cells);
        let plan = plan(cells, ratio, Boundary::Fixed(0.0), steps);
        let (end, made) = solve(&start, &plan);
        assert_eq!(made, steps);
        let angle = PI / (cells + 1) as f64;
        let discrete = (1.0 - 4.0 * ratio * (1.0 - angle.cos())).powi(steps as i32);
        let analytic = (-2.0 * ratio * angle * angle * steps as f64).exp();
        for (start, end) in start.cells().iter().zip(end.cells()) {
            assert!((end - start * discrete).abs() < 1e-9, "{end} {}", start * discrete);
            assert!((end - start * analytic).abs() < 0.1, "{end} {}", start * analytic);
        }
    }

    /// The same for the other stencils: each has its own factor.
    #[test]
    fn all_stencils_decay_a_sine_by_their_own_factor() {
        let (cells, ratio, steps) = (20, 0.15, 200);
        let (angle, wave) =
            (PI / (cells + 1) as f64, |i: usize| (PI * (i + 1) as f64 / (cells + 1) as f64).sin());
        let cos = angle.cos();
        for (stencil, extent, factor) in [
            (Stencil::Five, [cells, cells, 1], 4.0 * (cos - 1.0)),
            (Stencil::Nine, [cells, cells, 1], (16.0 * cos + 4.0 * cos * cos - 20.0) / 6.0),
            (Stencil::Seven, [cells, cells, cells], 6.0 * (cos - 1.0)),
        ] {
            let start = Field::from_fn(extent, |x, y, z| {
                wave(x) * wave(y) * if extent[2] > 1 { wave(z) } else { 1.0 }
            });
            let plan = Plan {
                extent: extent.into(),
                stencil,
                ..plan(cells, ratio, Boundary::Fixed(0.0), steps)
            };
            let (end, _) = solve(&start, &plan);
            let decay = (1.0 + ratio * factor).powi(steps as i32);
            for (start, end) in start.cells().iter().zip(end.cells()) {
                assert!((end - start * decay).abs() < 1e-12, "{stencil:?}");
            }
        }
    }

    #[test]
    fn an_insulated_plate_keeps_its_heat_and_evens_out() {
        let start = Field::from_fn((12, 12), |x, y, _| if x < 4 && y < 7 { 90.0 } else { 3.0 });
        let total = |field: &Field| field.cells().iter().sum::<f64>();
        let (end, _) = solve(&start, &plan(12, 0.25, Boundary::Insulated, 3000));
        assert!((total(&start) - total(&end)).abs() < 1e-8);
        let (low, high) = end.range();
        assert!(high - low < 1e-6, "{low} {high}");
    }

    #[test]
    fn it_stops_at_the_first_check_within_the_tolerance() {
        let start = sine(10);
        let mut plan = plan(10, 0.2, Boundary::Fixed(0.0), 100_000);
        plan.tolerance = 1e-3;
        let (_, made) = solve(&start, &plan);
        assert!(made < 1000 && made.is_multiple_of(10), "{made}");
        plan.tolerance = 0.0;
        let (end, made) = solve(&Field::filled((10, 10), 0.0), &plan);
        assert_eq!((made, end.range()), (10, (0.0, 0.0)), "nothing changes at all: steady");
    }
}
