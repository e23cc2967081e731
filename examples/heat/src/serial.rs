//! The serial program, as one would write it without any message passing, which `--check` compares
//! with.
//!
//! Forward in time, centred in space, cells one unit wide: `T += ratio · (sides - 4 T)`, with
//! ratio = α·dt. This program shares with [`crate::block`] only that arithmetic of a row
//! ([`step_row`]). It stores the field in another way on purpose, without a frame: a mistake in
//! blocks, frames or edges cannot be repeated here.
//!
//! The ranks' field is bitwise the same for every cut of the grid and every order of computing, for
//! this reason: a new temperature is one expression of old ones, the old ones are only read during
//! a step, and the frame of a block holds exact copies of the neighbours' cells. So every cell gets
//! the same operations on the same operands in the same order. Rust neither reassociates
//! floating-point sums nor fuses multiply and add on its own, and a vector lane rounds like a
//! scalar; the compiler may vectorise without changing a bit.

use crate::config::HeatPlan;
use crate::field::Field;

/// Computes a row of new temperatures, `out`. The rows above and below are as long; the row itself
/// has one cell more at either end.
pub fn step_row(ratio: f64, [above, row, below]: [&[f64]; 3], out: &mut [f64]) {
    // Slices of one length leave no bounds checks in the loop, so that it vectorises.
    let n = out.len();
    let [north, south, west, here, east] =
        [&above[..n], &below[..n], &row[..n], &row[1..][..n], &row[2..][..n]];
    for i in 0..n {
        let sides = (north[i] + south[i]) + (west[i] + east[i]);
        out[i] = here[i] + ratio * (sides - 4.0 * here[i]);
    }
}

/// The largest |a - b|.
pub fn largest_difference(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

/// Computes `next` from `current`.
pub fn step(plan: &HeatPlan, current: &Field, next: &mut Field) {
    let [width, height] = current.size;
    let mut row = vec![0.0; width + 2];
    let frame = plan.frame.map(|temperature| vec![temperature; width]);
    let cells = |y: usize| &current.cells[y * width..][..width];
    for (y, out) in next.cells.chunks_exact_mut(width).enumerate() {
        let here = cells(y);
        // The temperature beyond an insulated border is that of the nearest cell inside.
        let outside = frame.as_deref().unwrap_or(here);
        row[1..=width].copy_from_slice(here);
        (row[0], row[width + 1]) = (outside[0], outside[width - 1]);
        let above = if y > 0 { cells(y - 1) } else { outside };
        let below = if y + 1 < height { cells(y + 1) } else { outside };
        step_row(plan.ratio(), [above, &row, below], out);
    }
}

/// Runs the serial program as `plan` says. Returns the field and the number of steps made.
pub fn solve(start: &Field, plan: &HeatPlan) -> (Field, u64) {
    let (mut current, mut next) = (start.clone(), start.clone());
    let (mut steps, mut change) = (0, f64::INFINITY);
    while steps < plan.steps && change > plan.tolerance {
        steps += 1;
        step(plan, &current, &mut next);
        if plan.checks_in(steps) {
            change = largest_difference(&current.cells, &next.cells);
        }
        std::mem::swap(&mut current, &mut next);
    }
    (current, steps)
}

#[cfg(test)]
mod tests {
    use std::f64::consts::PI;

    use super::*;
    use crate::field::Size;

    fn sine(size: Size) -> Field {
        let wave = |i: usize| (PI * (i + 1) as f64 / (size[0] + 1) as f64).sin();
        Field::from_fn(size, |[x, y]| 100.0 * wave(x) * wave(y))
    }

    /// sin·sin with a cold frame is an eigenvector of the stencil: it keeps its shape and shrinks
    /// by a known factor in every step, which tends to the heat equation's exp(-2 α (π/L)² t).
    #[test]
    fn a_sine_decays_as_the_heat_equation_says() {
        let (size, steps) = ([40, 40], 400);
        let angle = PI / 41.0;
        let plan = HeatPlan { size, steps, frame: Some(0.0), ..HeatPlan::default() };
        let ratio = plan.ratio();
        let start = sine(size);
        let (end, made) = solve(&start, &plan);
        assert_eq!(made, steps);
        let discrete = (1.0 + ratio * 4.0 * (angle.cos() - 1.0)).powi(steps as i32);
        let analytic = (-2.0 * ratio * angle * angle * steps as f64).exp();
        for (start, end) in start.cells.iter().zip(&end.cells) {
            assert!((end - start * discrete).abs() < 1e-10, "{end}");
            assert!((end - start * analytic).abs() < 0.1, "{end} {}", start * analytic);
        }
    }

    #[test]
    fn an_insulated_plate_keeps_its_heat_and_evens_out() {
        let size = [12, 12];
        let start = Field::from_fn(size, |[x, y]| if x < 4 && y < 7 { 90.0 } else { 3.0 });
        let total = |field: &Field| field.cells.iter().sum::<f64>();
        let plan = HeatPlan { size, dt: 0.25, steps: 3000, ..HeatPlan::default() };
        let (end, _) = solve(&start, &plan);
        assert!((total(&start) - total(&end)).abs() < 1e-8);
        let mean = total(&start) / 144.0;
        assert!(end.cells.iter().all(|cell| (cell - mean).abs() < 1e-6));
    }

    #[test]
    fn it_stops_at_the_first_check_within_the_tolerance() {
        let (size, steps, check_every) = ([10, 10], 100_000, 10);
        let mut plan =
            HeatPlan { size, steps, check_every, frame: Some(0.0), ..HeatPlan::default() };
        plan.tolerance = 1e-3;
        let (_, made) = solve(&sine(size), &plan);
        assert!(made < 1000 && made.is_multiple_of(10), "{made}");
        plan.tolerance = 0.0;
        let cold = Field::filled(size, 0.0);
        assert_eq!(solve(&cold, &plan), (cold, 10), "nothing changes at all: steady");
    }

    #[test]
    fn the_largest_difference_is_found_wherever_it_is() {
        for place in 0..9 {
            let (a, mut b) = (vec![1.0; 9], vec![1.5; 9]);
            b[place] = -2.0;
            assert_eq!(largest_difference(&a, &b), 3.0, "{place}");
        }
        assert_eq!(largest_difference(&[], &[]), 0.0);
    }

    /// A parabola's Laplacian is 2 a dimension everywhere.
    #[test]
    fn the_stencil_is_a_laplacian() {
        let square = |d: f64| (0..7).map(|x| f64::from(x * x) + d).collect::<Vec<f64>>();
        let (row, beside, mut out) = (square(0.0), square(1.0), [0.0; 5]);
        step_row(0.125, [&beside[1..6], &row, &beside[1..6]], &mut out);
        for (new, old) in out.iter().zip(&row[1..]) {
            assert!((new - old - 0.125 * 4.0).abs() < 1e-12, "{new} from {old}");
        }
    }

    /// At the limit of stability the finest wave does not decay, beyond it it grows.
    #[test]
    fn the_limit_of_stability_is_where_the_finest_wave_stands() {
        let wave: Vec<f64> = (0..9).map(|x| if x % 2 == 0 { 1.0 } else { -1.0 }).collect();
        let mut out = [0.0; 7];
        step_row(0.25, [&wave[..7], &wave, &wave[..7]], &mut out);
        for (new, old) in out.iter().zip(&wave[1..]) {
            assert!((new + old).abs() < 1e-12, "{new} from {old}");
        }
    }
}
