//! The serial program, as one would write it without any message passing: what `--check` compares
//! with.
//!
//! It shares with [`crate::block`] only the loop along a row, so that it is as fast as one rank can
//! be. The storage is deliberately another (one array with a frame of ghost cells around it): a
//! mistake in blocks, halos or edges cannot be repeated here.

use crate::block::{largest_difference, middle_of_row};
use crate::config::Boundary;
use crate::field::Field;
use crate::solver::Plan;

/// The whole field with one ghost cell on every side, now and one step later.
#[derive(Debug)]
pub struct Serial {
    width: usize,
    height: usize,
    ratio: f64,
    boundary: Boundary,
    current: Vec<f64>,
    next: Vec<f64>,
}

impl Serial {
    /// Starts from `field`; `ratio` is α·dt in cells².
    pub fn new(field: &Field, ratio: f64, boundary: Boundary) -> Serial {
        let (width, height) = (field.width(), field.height());
        let frame = match boundary {
            Boundary::Fixed(temperature) => temperature,
            Boundary::Insulated => 0.0,
        };
        let mut current = vec![frame; (width + 2) * (height + 2)];
        for y in 0..height {
            current[(y + 1) * (width + 2) + 1..][..width].copy_from_slice(field.row(y));
        }
        Serial { width, height, ratio, boundary, next: current.clone(), current }
    }

    /// Makes one step; answers the largest change of a cell.
    pub fn step(&mut self) -> f64 {
        self.compute();
        let change = self.largest_change();
        std::mem::swap(&mut self.current, &mut self.next);
        change
    }

    /// Computes `next` from `current`.
    fn compute(&mut self) {
        if self.boundary == Boundary::Insulated {
            self.mirror_edges();
        }
        let (stride, ratio) = (self.width + 2, self.ratio);
        for y in 1..=self.height {
            let above = &self.current[(y - 1) * stride..][..stride];
            let row = &self.current[y * stride..][..stride];
            let below = &self.current[(y + 1) * stride..][..stride];
            let out = &mut self.next[y * stride..][..stride];
            middle_of_row(ratio, above, row, below, out);
        }
    }

    /// Copies the outermost cells of the field to the ghost cells beside them.
    fn mirror_edges(&mut self) {
        let (stride, height) = (self.width + 2, self.height);
        for y in 1..=height {
            self.current[y * stride] = self.current[y * stride + 1];
            self.current[(y + 1) * stride - 1] = self.current[(y + 1) * stride - 2];
        }
        self.current.copy_within(stride..2 * stride, 0);
        self.current.copy_within(height * stride..(height + 1) * stride, (height + 1) * stride);
    }

    fn largest_change(&self) -> f64 {
        let rows = self.rows(&self.current).zip(self.rows(&self.next));
        rows.map(|(now, then)| largest_difference(now, then)).fold(0.0, f64::max)
    }

    /// The rows without their ghost cells.
    fn rows<'a>(&self, cells: &'a [f64]) -> impl Iterator<Item = &'a [f64]> {
        let (width, stride) = (self.width, self.width + 2);
        cells.chunks_exact(stride).skip(1).take(self.height).map(move |row| &row[1..=width])
    }

    /// The field as it is now, without the frame.
    pub fn field(&self) -> Field {
        let mut field = Field::filled(self.width, self.height, 0.0);
        for (y, row) in self.rows(&self.current).enumerate() {
            field.row_mut(y).copy_from_slice(row);
        }
        field
    }
}

/// Runs the serial program as `plan` says; answers the field and the number of steps made.
/// `observe` is told the number of every step.
pub fn solve(start: &Field, plan: &Plan, mut observe: impl FnMut(u64)) -> (Field, u64) {
    let mut serial = Serial::new(start, plan.ratio, plan.boundary);
    for step in 1..=plan.steps {
        serial.compute();
        let done = plan.checks_in(step) && serial.largest_change() <= plan.tolerance;
        std::mem::swap(&mut serial.current, &mut serial.next);
        observe(step);
        if done {
            return (serial.field(), step);
        }
    }
    (serial.field(), plan.steps)
}

#[cfg(test)]
mod tests {
    use std::f64::consts::PI;

    use super::*;

    fn sine(cells: usize) -> Field {
        let wave = |i: usize| (PI * (i + 1) as f64 / (cells + 1) as f64).sin();
        Field::from_fn(cells, cells, |x, y| 100.0 * wave(x) * wave(y))
    }

    fn plan(size: usize, ratio: f64, boundary: Boundary, steps: u64) -> Plan {
        Plan { width: size, height: size, ratio, boundary, steps, tolerance: 0.0, check_every: 10 }
    }

    /// sin·sin with a cold frame is an eigenvector of the stencil: it keeps its shape and shrinks
    /// by a known factor in every step, and that factor tends to the heat equation's
    /// exp(-2 α (π/L)² t).
    #[test]
    fn a_sine_decays_as_the_heat_equation_says() {
        let (cells, ratio, steps) = (40, 0.2, 400);
        let start = sine(cells);
        let plan = plan(cells, ratio, Boundary::Fixed(0.0), steps);
        let (end, made) = solve(&start, &plan, |_| ());
        assert_eq!(made, steps);
        let angle = PI / (cells + 1) as f64;
        let discrete = (1.0 - 4.0 * ratio * (1.0 - angle.cos())).powi(steps as i32);
        let analytic = (-2.0 * ratio * angle * angle * steps as f64).exp();
        for (start, end) in start.cells().iter().zip(end.cells()) {
            assert!((end - start * discrete).abs() < 1e-9, "{end} {}", start * discrete);
            assert!((end - start * analytic).abs() < 0.1, "{end} {}", start * analytic);
        }
    }

    #[test]
    fn an_insulated_plate_keeps_its_heat_and_evens_out() {
        let start = Field::from_fn(12, 12, |x, y| if x < 4 && y < 7 { 90.0 } else { 3.0 });
        let total = |field: &Field| field.cells().iter().sum::<f64>();
        let (end, _) = solve(&start, &plan(12, 0.25, Boundary::Insulated, 3000), |_| ());
        assert!((total(&start) - total(&end)).abs() < 1e-8);
        let (low, high) = end.range();
        assert!(high - low < 1e-6, "{low} {high}");
    }

    #[test]
    fn it_stops_at_the_first_check_within_the_tolerance() {
        let start = sine(10);
        let mut plan = plan(10, 0.2, Boundary::Fixed(0.0), 100_000);
        plan.tolerance = 1e-3;
        let (_, made) = solve(&start, &plan, |_| ());
        assert!(made < 1000 && made.is_multiple_of(10), "{made}");
        plan.tolerance = 0.0;
        let (end, made) = solve(&Field::filled(10, 10, 0.0), &plan, |_| ());
        assert_eq!((made, end.range()), (10, (0.0, 0.0)), "nothing changes at all: steady");
    }
}
