//! The page of a run: pictures, time per step, and who computed and who waited.

use std::path::Path;
use std::time::Duration;

use hikyaku_report::{Axis, Cell, LineChart, Page, Picture, Series, StackedBars, Table, Unit};

use crate::decompose::Decomposition;
use crate::field::Field;
use crate::image;
use crate::input::Input;
use crate::progress::grouped;
use crate::solver::Outcome;
use crate::stopwatch::Split;

/// Points of the curve of times per step.
const POINTS: u64 = 240;

/// Longer side of a picture on the page, pixels at most.
const PICTURE: usize = 720;

/// Bars of ranks on the page; more would not be read.
const BARS: usize = 64;

/// Times of the steps of a run, thinned out to what a chart can show: of every stretch of steps
/// the mean and the slowest. Bounded, however long the run.
#[derive(Debug, Clone)]
pub struct StepTimes {
    stretch: u64,
    stretches: Vec<Stretch>,
}

/// Some steps in a row.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Stretch {
    steps: u64,
    total: Duration,
    slowest: Duration,
}

impl StepTimes {
    /// Room for a run of at most `steps` steps.
    pub fn new(steps: u64) -> StepTimes {
        StepTimes { stretch: steps.div_ceil(POINTS).max(1), stretches: Vec::new() }
    }

    /// Step `number` (from 1, one after the other) took so long.
    pub fn record(&mut self, number: u64, took: Duration) {
        if (number - 1).is_multiple_of(self.stretch) {
            self.stretches.push(Stretch::default());
        }
        if let Some(stretch) = self.stretches.last_mut() {
            stretch.steps += 1;
            stretch.total += took;
            stretch.slowest = stretch.slowest.max(took);
        }
    }

    /// The two curves over the steps, seconds.
    fn curves(&self) -> [Vec<(f64, f64)>; 2] {
        let mut made = 0;
        let ends: Vec<f64> = self
            .stretches
            .iter()
            .map(|stretch| {
                made += stretch.steps;
                made as f64
            })
            .collect();
        let mean = |stretch: &Stretch| stretch.total.as_secs_f64() / stretch.steps.max(1) as f64;
        let slowest = |stretch: &Stretch| stretch.slowest.as_secs_f64();
        let curve = |of: &dyn Fn(&Stretch) -> f64| {
            ends.iter().copied().zip(self.stretches.iter().map(of)).collect()
        };
        [curve(&mean), curve(&slowest)]
    }
}

/// What the comparison with the serial program gave.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// Column and row of the first cell that differs.
    pub first_difference: Option<(usize, usize)>,
    /// How long the serial program took.
    pub elapsed: Duration,
}

/// A run that is over, as rank 0 knows it.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// The configuration file.
    pub config: &'a Path,
    /// What was read.
    pub input: &'a Input,
    /// Who computed what.
    pub grid: &'a Decomposition,
    /// The field at the end.
    pub field: &'a Field,
    /// How the run ended.
    pub outcome: &'a Outcome,
    /// Where each rank's time went.
    pub splits: &'a [Split],
    /// Rank 0's times of the steps.
    pub times: &'a StepTimes,
    /// From the first step to the last.
    pub elapsed: Duration,
    /// The comparison with the serial program, if it was made.
    pub check: Option<&'a Check>,
}

/// The page as one HTML file.
pub fn page(run: &Run<'_>) -> String {
    let ranks = run.splits.len();
    let mut page = Page::new("Heat equation on hikyaku");
    page.lead(&lead(run)).facts(facts(run));
    page.section("The field");
    pictures(&mut page, run);
    page.section("Time per step").chart(step_chart(run.times)).note(
        "Measured by rank 0. Steps in which all ranks agree on the largest change take longer; \
         a peak in the slowest step that the mean does not follow is the machine doing something \
         else.",
    );
    page.section("Computing and waiting").chart(split_chart(run)).table(&split_table(run));
    page.note(
        "Each rank books every moment of every step to one part. Exchange is what starting and \
         completing the halo exchange costs beyond the interior computed in the meantime; with \
         more ranks than cores it includes the time in which other ranks have the core.",
    );
    if ranks > BARS {
        page.note(&format!("The chart shows the first {BARS} of {ranks} ranks."));
    }
    page.to_html()
}

fn lead(run: &Run<'_>) -> String {
    let plan = &run.input.plan;
    let end = if run.outcome.change <= plan.tolerance { "steady" } else { "not steady yet" };
    let check = match run.check {
        None => String::new(),
        Some(Check { first_difference: None, .. }) => {
            " The field is bitwise equal to the serial program's.".into()
        }
        Some(Check { first_difference: Some((x, y)), .. }) => {
            format!(" The field DIFFERS from the serial program's, first in row {y}, column {x}.")
        }
    };
    format!(
        "{}: {} × {} cells in {} × {} blocks, {} ranks. {} steps, {} of simulated time, then \
         {end}.{check}",
        run.config.file_name().unwrap_or_default().display(),
        grouped(plan.width as u64),
        grouped(plan.height as u64),
        run.grid.columns(),
        run.grid.rows(),
        run.splits.len(),
        grouped(run.outcome.steps),
        Unit::Seconds.format(run.outcome.steps as f64 * run.input.dt),
    )
}

fn facts(run: &Run<'_>) -> Vec<(&'static str, String)> {
    let elapsed = run.elapsed.as_secs_f64().max(1e-9);
    let steps = run.outcome.steps as f64;
    let updates = steps * run.field.cells().len() as f64;
    let mut facts = vec![
        ("run time", Unit::Seconds.format(elapsed)),
        ("steps per second", grouped((steps / elapsed).round() as u64)),
        ("cell updates", Unit::PerSecond.format(updates / elapsed)),
        ("largest change, last step", format!("{:.1e}", run.outcome.change)),
    ];
    if let Some(check) = run.check {
        let serial = check.elapsed.as_secs_f64();
        facts.push(("serial program", Unit::Seconds.format(serial)));
        facts.push(("faster than serial", Unit::Ratio.format(serial / elapsed)));
    }
    facts
}

fn pictures(page: &mut Page, run: &Run<'_>) {
    let (low, high) = run.input.range;
    let picture = |field: &Field| image::encode(&field.shrink_to(PICTURE), (low, high));
    match (picture(&run.input.field), picture(run.field)) {
        (Ok(initial), Ok(last)) => {
            let after = format!("After {} steps", grouped(run.outcome.steps));
            page.images([
                Picture { png: &initial, alt: "The initial field", caption: "At the start" },
                Picture { png: &last, alt: "The final field", caption: &after },
            ]);
            page.note(&format!("Dark is {low}, light is {high}; lightness is proportional."));
        }
        (Err(error), _) | (_, Err(error)) => {
            page.note(&format!("There are no pictures: {error}."));
        }
    }
}

fn step_chart(times: &StepTimes) -> LineChart {
    let [mean, slowest] = times.curves();
    let steps = Axis::linear("step", Unit::Number).from_zero();
    let time = Axis::log10("time", Unit::Seconds);
    let title = match times.stretch {
        1 => "Time of each step".into(),
        stretch => format!("Time per step, {} steps to a point", grouped(stretch)),
    };
    let chart = LineChart::new(title, steps, time).with(Series::line("mean", mean));
    // With one step to a point the two are the same.
    if times.stretch == 1 { chart } else { chart.with(Series::line("slowest", slowest)) }
}

fn split_chart(run: &Run<'_>) -> StackedBars {
    let parts = ["computing", "waiting: exchange", "waiting: allreduce"];
    let bars = StackedBars::new("Where each rank's time went", "time", Unit::Seconds, parts);
    let ranks = run.splits.iter().enumerate().take(BARS);
    ranks.fold(bars, |bars, (rank, split)| bars.with(format!("rank {rank}"), split.to_vec()))
}

fn split_table(run: &Run<'_>) -> Table {
    let header = ["rank", "block", "cells", "computing", "exchange", "allreduce", "waiting"];
    let mut table = Table::new("Where each rank's time went", header);
    for ((rank, tile), split) in (0_u32..).zip(run.grid.tiles()).zip(run.splits) {
        let &[computing, exchange, reduction] = split;
        let waiting = exchange + reduction;
        table.push([
            Cell::from(rank),
            Cell::from(format!("{} × {}", tile.width, tile.height)),
            Cell::number(tile.cells() as f64, Unit::Number),
            Cell::number(computing, Unit::Seconds),
            Cell::number(exchange, Unit::Seconds),
            Cell::number(reduction, Unit::Seconds),
            Cell::number(waiting / (computing + waiting).max(1e-12), Unit::Fraction),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Boundary;
    use crate::solver::Plan;

    #[test]
    fn step_times_are_thinned_out_and_complete() {
        let mut times = StepTimes::new(1000);
        for number in 1..=1000 {
            times.record(number, Duration::from_micros(if number == 7 { 90 } else { 10 }));
        }
        let [mean, slowest] = times.curves();
        assert_eq!((mean.len(), mean.last().map(|point| point.0)), (200, Some(1000.0)));
        assert!((slowest[1].1 - 90e-6).abs() < 1e-12 && (mean[1].1 - 26e-6).abs() < 1e-12);
        assert!((slowest[2].1 - 10e-6).abs() < 1e-12);
        assert_eq!(times.stretches.iter().map(|stretch| stretch.steps).sum::<u64>(), 1000);
    }

    #[test]
    fn the_page_says_what_happened() {
        let field = Field::from_fn(8, 4, |x, y| (x * y) as f64);
        let (ratio, boundary) = (0.2, Boundary::Insulated);
        let plan = Plan {
            width: 8,
            height: 4,
            ratio,
            boundary,
            steps: 10,
            tolerance: 0.0,
            check_every: 1,
        };
        let input = Input { plan, field: field.clone(), range: (0.0, 21.0), dt: 0.2 };
        let mut times = StepTimes::new(10);
        (1..=10).for_each(|number| times.record(number, Duration::from_micros(number)));
        let mut run = Run {
            config: Path::new("some/<demo>.toml"),
            input: &input,
            grid: &Decomposition::new(8, 4, 3),
            field: &field,
            outcome: &Outcome { steps: 10, change: 0.5, split: [1.0, 0.5, 0.25] },
            splits: &[[1.0, 0.5, 0.25]; 3],
            times: &times,
            elapsed: Duration::from_secs(2),
            check: None,
        };
        let html = page(&run);
        assert!(html.contains("&lt;demo&gt;.toml: 8 × 4 cells in 3 × 1 blocks, 3 ranks."));
        assert!(html.contains("10 steps, 2.00 s of simulated time, then not steady yet."));
        assert_eq!(html.matches("data:image/png;base64,").count(), 2);
        assert!(html.contains("rank 2") && !html.contains("bitwise"));
        let check = Check { first_difference: None, elapsed: Duration::from_secs(5) };
        run.check = Some(&check);
        assert!(page(&run).contains("bitwise equal"));
        let check = Check { first_difference: Some((3, 1)), ..check };
        run.check = Some(&check);
        let html = page(&run);
        assert!(html.contains("DIFFERS") && html.contains("first in row 1, column 3."), "{html}");
    }
}
