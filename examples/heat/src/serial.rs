//! The serial program, as one would write it without any message passing: what `--check` compares
//! with.
//!
//! It shares with [`crate::block`] only the arithmetic of a row ([`crate::stencil`]), so that it is
//! as fast as one rank can be. The storage is deliberately another, without a frame: cells at a
//! border are computed one by one from a function that says what lies where. A mistake in blocks,
//! frames or edges cannot be repeated here.

use crate::config::{Boundary, HeatPlan};
use crate::field::{Direction, Field, Size};
use crate::stencil::{Stencil, largest_difference};

/// The whole field, now and one step later.
#[derive(Debug)]
pub struct Serial<'a> {
    plan: &'a HeatPlan,
    current: Field,
    next: Field,
}

impl<'a> Serial<'a> {
    /// Starts from `field`.
    pub fn new(field: &Field, plan: &'a HeatPlan) -> Serial<'a> {
        Serial { plan, current: field.clone(), next: field.clone() }
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
        let [width, height, depth] = self.current.size;
        let HeatPlan { stencil, ratio, .. } = *self.plan;
        for (y, z) in (0..depth).flat_map(|z| (0..height).map(move |y| (y, z))) {
            let plane = stencil == Stencil::Seven && (z == 0 || z + 1 == depth);
            if plane || y == 0 || y + 1 == height || width < 3 {
                (0..width).for_each(|x| self.compute_one([x, y, z]));
                continue;
            }
            let start = (z * height + y) * width;
            let Serial { current, next, .. } = self;
            let around = |direction: Direction| {
                let [right, down, behind] = direction.map(isize::from);
                let offset = (behind * height as isize + down) * width as isize + right;
                &current.cells[(start + 1).wrapping_add_signed(offset)..]
            };
            stencil.apply(ratio, around, &mut next.cells[start + 1..start + width - 1]);
            self.compute_one([0, y, z]);
            self.compute_one([width - 1, y, z]);
        }
    }

    /// Computes one cell, wherever it lies.
    fn compute_one(&mut self, at: Size) {
        let index = |[x, y, z]: Direction| ((z + 1) * 9 + (y + 1) * 3 + x + 1) as usize;
        let mut near = [[0.0]; 27];
        for direction in self.plan.stencil.directions().chain([[0; 3]]) {
            near[index(direction)] = [self.cell(at, direction)];
        }
        let [width, height, _] = self.current.size;
        let place = (at[2] * height + at[1]) * width + at[0];
        let out = &mut self.next.cells[place..place + 1];
        self.plan.stencil.apply(self.plan.ratio, |direction| &near[index(direction)], out);
    }

    /// The temperature in a direction of a cell, which may lie outside.
    fn cell(&self, at: Size, by: Direction) -> f64 {
        let size = self.current.size;
        let mut place = at;
        for d in 0..3 {
            let there = at[d].checked_add_signed(isize::from(by[d])).filter(|it| *it < size[d]);
            match (there, self.plan.boundary) {
                (Some(there), _) => place[d] = there,
                (None, Boundary::Fixed(temperature)) => return temperature,
                // As warm as the nearest cell inside.
                (None, Boundary::Insulated) => {}
            }
        }
        self.current.cells[(place[2] * size[1] + place[1]) * size[0] + place[0]]
    }

    fn largest_change(&self) -> f64 {
        largest_difference(&self.current.cells, &self.next.cells)
    }
}

/// Runs the serial program as `plan` says. Returns the field and the number of steps made.
pub fn solve(start: &Field, plan: &HeatPlan) -> (Field, u64) {
    let mut serial = Serial::new(start, plan);
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

    fn sine(size: Size) -> Field {
        let wave = |i: usize| (PI * (i + 1) as f64 / (size[0] + 1) as f64).sin();
        let deep = |z| if size[2] > 1 { wave(z) } else { 1.0 };
        Field::from_fn(size, |[x, y, z]| 100.0 * wave(x) * wave(y) * deep(z))
    }

    fn plan(size: Size, ratio: f64, boundary: Boundary, steps: u64) -> HeatPlan {
        let (stencil, tolerance, check_every) = (Stencil::Five, 0.0, 10);
        HeatPlan { size, stencil, ratio, boundary, steps, tolerance, check_every }
    }

    /// sin·sin with a cold frame is an eigenvector of every stencil: it keeps its shape and shrinks
    /// by a known factor in every step. The 5-point stencil's tends to the heat equation's
    /// exp(-2 α (π/L)² t).
    #[test]
    fn a_sine_decays_as_the_heat_equation_says() {
        for (stencil, cells, depth, ratio, steps) in [
            (Stencil::Five, 40, 1, 0.2, 400),
            (Stencil::Nine, 20, 1, 0.15, 200),
            (Stencil::Seven, 20, 20, 0.15, 200),
        ] {
            let size = [cells, cells, depth];
            let angle = PI / (cells + 1) as f64;
            let cos = angle.cos();
            let factor = match stencil {
                Stencil::Five => 4.0 * (cos - 1.0),
                Stencil::Nine => (16.0 * cos + 4.0 * cos * cos - 20.0) / 6.0,
                Stencil::Seven => 6.0 * (cos - 1.0),
            };
            let plan = HeatPlan { stencil, ..plan(size, ratio, Boundary::Fixed(0.0), steps) };
            let start = sine(size);
            let (end, made) = solve(&start, &plan);
            assert_eq!(made, steps);
            let discrete = (1.0 + ratio * factor).powi(steps as i32);
            let analytic = (-2.0 * ratio * angle * angle * steps as f64).exp();
            for (start, end) in start.cells.iter().zip(&end.cells) {
                assert!((end - start * discrete).abs() < 1e-10, "{stencil:?}: {end}");
                let near = stencil != Stencil::Five || (end - start * analytic).abs() < 0.1;
                assert!(near, "{end} {}", start * analytic);
            }
        }
    }

    #[test]
    fn an_insulated_plate_keeps_its_heat_and_evens_out() {
        let size = [12, 12, 1];
        let start = Field::from_fn(size, |[x, y, _]| if x < 4 && y < 7 { 90.0 } else { 3.0 });
        let total = |field: &Field| field.cells.iter().sum::<f64>();
        let (end, _) = solve(&start, &plan(size, 0.25, Boundary::Insulated, 3000));
        assert!((total(&start) - total(&end)).abs() < 1e-8);
        let mean = total(&start) / 144.0;
        assert!(end.cells.iter().all(|cell| (cell - mean).abs() < 1e-6));
    }

    #[test]
    fn it_stops_at_the_first_check_within_the_tolerance() {
        let size = [10, 10, 1];
        let mut plan = plan(size, 0.2, Boundary::Fixed(0.0), 100_000);
        plan.tolerance = 1e-3;
        let (_, made) = solve(&sine(size), &plan);
        assert!(made < 1000 && made.is_multiple_of(10), "{made}");
        plan.tolerance = 0.0;
        let cold = Field::filled(size, 0.0);
        assert_eq!(solve(&cold, &plan), (cold, 10), "nothing changes at all: steady");
    }
}
