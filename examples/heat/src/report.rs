//! The page of a run: pictures, the exchanges side by side, and who computed and who waited.

use std::path::Path;
use std::time::Duration;

use hikyaku_report::{Axis, Cell, LineChart, Page, Picture, Series, StackedBars, Table, Unit};

use crate::decompose::Decomposition;
use crate::exchange::Kind;
use crate::field::{Extent, Field};
use crate::image;
use crate::input::Input;
use crate::progress::grouped;
use crate::solver::Outcome;
use crate::stopwatch::{NAMES, Part, Split};

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
    /// Column, row and plane of the first cell that differs.
    pub first_difference: Option<[usize; 3]>,
    /// How long the serial program took.
    pub elapsed: Duration,
}

/// A solution by one exchange, as rank 0 knows it.
#[derive(Debug, Clone)]
pub struct Solution {
    /// How edges were exchanged.
    pub exchange: Kind,
    /// How it ended.
    pub outcome: Outcome,
    /// Where each rank's time went.
    pub splits: Vec<Split>,
    /// Rank 0's times of the steps.
    pub times: StepTimes,
    /// From the first step to the last.
    pub elapsed: Duration,
}

impl Solution {
    /// Seconds a step, by part: the mean over ranks and steps.
    fn per_step(&self) -> Split {
        let all = (self.splits.len() as f64 * self.outcome.steps as f64).max(1.0);
        let sum = |part| self.splits.iter().map(|split: &Split| split[part]).sum::<f64>();
        std::array::from_fn(|part| sum(part) / all)
    }

    fn steps_per_second(&self) -> f64 {
        self.outcome.steps as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
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
    /// The solutions, one an exchange, at least one; all the same field.
    pub solutions: &'a [Solution],
    /// The comparison with the serial program, if it was made.
    pub check: Option<&'a Check>,
}

impl Run<'_> {
    /// The solution that took least time.
    fn fastest(&self) -> &Solution {
        let fastest = self.solutions.iter().min_by_key(|solution| solution.elapsed);
        fastest.expect("a run has a solution")
    }
}

/// The page as one HTML file.
pub fn page(run: &Run<'_>) -> String {
    let mut page = Page::new("Heat equation on hikyaku");
    page.lead(&lead(run)).facts(facts(run));
    page.section("The field");
    pictures(&mut page, run);
    if run.solutions.len() > 1 {
        side_by_side(&mut page, run);
    } else {
        page.section("Time per step").chart(step_chart(run.solutions)).note(STEP_NOTE);
    }
    page.section("Computing and waiting");
    page.charts(run.solutions.iter().map(|solution| split_chart(run, solution).into()));
    if run.solutions[0].splits.len() > BARS {
        let ranks = run.solutions[0].splits.len();
        page.note(&format!("The charts show the first {BARS} of {ranks} ranks."));
    }
    for solution in run.solutions {
        page.table(&split_table(run, solution));
    }
    page.note(PARTS_NOTE);
    page.to_html()
}

const STEP_NOTE: &str = "Measured by rank 0. Steps in which all ranks agree on the largest change \
     take longer; a peak in the slowest step that the mean does not follow is the machine doing \
     something else.";

const PARTS_NOTE: &str = "Each rank books every moment of every step to one part. Copying brings \
     edges from the block to where they are sent from, and what came into its frame. Moving data \
     is the exchange itself: calls of the library, and waiting for data on its way. Late neighbour \
     is waiting for one that had not begun its exchange: every message says when it was ready to \
     go. With more ranks than cores, both include the time in which other ranks have the core.";

/// What the exchanges cost beside each other.
fn side_by_side(page: &mut Page, run: &Run<'_>) {
    page.section("Exchanges side by side");
    let bars = StackedBars::new("Where a step's time goes", "time a step", Unit::Seconds, NAMES);
    let bars = run.solutions.iter().fold(bars, |bars, solution| {
        bars.with(solution.exchange.name(), solution.per_step().to_vec())
    });
    page.charts([bars.into(), step_chart(run.solutions).into()]);
    let header = ["exchange", "run time", "steps/s"].into_iter().chain(NAMES);
    let mut table = Table::new("A step's time, mean over ranks and steps", header);
    for solution in run.solutions {
        let numbers = [
            Cell::from(solution.exchange.name()),
            Cell::number(solution.elapsed.as_secs_f64(), Unit::Seconds),
            Cell::number(solution.steps_per_second().round(), Unit::Number),
        ];
        let parts = solution.per_step().map(|part| Cell::number(part, Unit::Seconds));
        table.push(numbers.into_iter().chain(parts));
    }
    page.table(&table).note(STEP_NOTE);
}

fn lead(run: &Run<'_>) -> String {
    let plan = &run.input.plan;
    let outcome = &run.solutions[0].outcome;
    let end = if outcome.change <= plan.tolerance { "steady" } else { "not steady yet" };
    let check = match run.check {
        None => String::new(),
        Some(Check { first_difference: None, .. }) => {
            " The field is bitwise equal to the serial program's.".into()
        }
        Some(Check { first_difference: Some([x, y, z]), .. }) => {
            let plane =
                if plan.extent.is_volume() { format!(", plane {z}") } else { String::new() };
            format!(
                " The field DIFFERS from the serial program's, first in row {y}, column {x}{plane}."
            )
        }
    };
    format!(
        "{}: {} cells in {} blocks, {} ranks, {} stencil. {} steps, {} of simulated time, then \
         {end}.{check}",
        run.config.file_name().unwrap_or_default().display(),
        cells(plan.extent),
        run.grid.text(),
        run.solutions[0].splits.len(),
        plan.stencil.name(),
        grouped(outcome.steps),
        Unit::Seconds.format(outcome.steps as f64 * run.input.dt),
    )
}

/// A size as people write it: `1,024 × 1,024`.
pub fn cells(extent: Extent) -> String {
    let plane = format!("{} × {}", grouped(extent.width as u64), grouped(extent.height as u64));
    if extent.is_volume() { format!("{plane} × {}", grouped(extent.depth as u64)) } else { plane }
}

fn facts(run: &Run<'_>) -> Vec<(&'static str, String)> {
    let fastest = run.fastest();
    let elapsed = fastest.elapsed.as_secs_f64().max(1e-9);
    let updates = fastest.outcome.steps as f64 * run.field.cells().len() as f64;
    let mut facts = vec![
        ("run time", Unit::Seconds.format(elapsed)),
        ("steps per second", grouped(fastest.steps_per_second().round() as u64)),
        ("cell updates", Unit::PerSecond.format(updates / elapsed)),
        ("largest change, last step", format!("{:.1e}", fastest.outcome.change)),
    ];
    if run.solutions.len() > 1 {
        facts.insert(0, ("fastest exchange", fastest.exchange.name().into()));
    }
    if let Some(check) = run.check {
        let serial = check.elapsed.as_secs_f64();
        facts.push(("serial program", Unit::Seconds.format(serial)));
        facts.push(("faster than serial", Unit::Ratio.format(serial / elapsed)));
    }
    facts
}

fn pictures(page: &mut Page, run: &Run<'_>) {
    let (low, high) = run.input.range;
    let depth = run.field.extent().depth;
    let picture =
        |field: &Field| image::encode(&field.plane(depth / 2).shrink_to(PICTURE), (low, high));
    match (picture(&run.input.field), picture(run.field)) {
        (Ok(initial), Ok(last)) => {
            let after = format!("After {} steps", grouped(run.solutions[0].outcome.steps));
            page.images([
                Picture { png: &initial, alt: "The initial field", caption: "At the start" },
                Picture { png: &last, alt: "The final field", caption: &after },
            ]);
            let which = if depth > 1 { " The plane in the middle." } else { "" };
            page.note(&format!(
                "Dark is {low}, light is {high}; lightness is proportional.{which}"
            ));
        }
        (Err(error), _) | (_, Err(error)) => {
            page.note(&format!("There are no pictures: {error}."));
        }
    }
}

/// Time over steps: of several exchanges the mean of each, of one also the slowest step.
fn step_chart(solutions: &[Solution]) -> LineChart {
    let steps = Axis::linear("step", Unit::Number).from_zero();
    let time = Axis::log10("time", Unit::Seconds);
    let stretch = solutions[0].times.stretch;
    let title = match stretch {
        1 => "Time of each step".into(),
        stretch => format!("Time per step, {} steps to a point", grouped(stretch)),
    };
    let chart = LineChart::new(title, steps, time);
    match solutions {
        [only] => {
            let [mean, slowest] = only.times.curves();
            let chart = chart.with(Series::line("mean", mean));
            // With one step to a point the two are the same.
            if stretch == 1 { chart } else { chart.with(Series::line("slowest", slowest)) }
        }
        several => several.iter().fold(chart, |chart, solution| {
            let [mean, _] = solution.times.curves();
            chart.with(Series::line(solution.exchange.name(), mean))
        }),
    }
}

fn split_chart(run: &Run<'_>, solution: &Solution) -> StackedBars {
    let title = match run.solutions.len() {
        1 => "Where each rank's time went".into(),
        _ => format!("Where each rank's time went, {}", solution.exchange.name()),
    };
    let bars = StackedBars::new(title, "time", Unit::Seconds, NAMES);
    let ranks = solution.splits.iter().enumerate().take(BARS);
    ranks.fold(bars, |bars, (rank, split)| bars.with(format!("rank {rank}"), split.to_vec()))
}

fn split_table(run: &Run<'_>, solution: &Solution) -> Table {
    let header = ["rank", "block", "cells"].into_iter().chain(NAMES).chain(["waiting"]);
    let title = format!("Where each rank's time went, {}", solution.exchange.name());
    let mut table = Table::new(title, header);
    for ((rank, tile), split) in (0_u32..).zip(run.grid.tiles()).zip(&solution.splits) {
        let waiting: f64 = split[Part::Moving as usize..].iter().sum();
        let all: f64 = split.iter().sum();
        let block = [
            Cell::from(rank),
            Cell::from(cells(tile.extent)),
            Cell::number(tile.extent.cells() as f64, Unit::Number),
        ];
        let parts = split.map(|part| Cell::number(part, Unit::Seconds));
        let share = Cell::number(waiting / all.max(1e-12), Unit::Fraction);
        table.push(block.into_iter().chain(parts).chain([share]));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Boundary;
    use crate::solver::Plan;
    use crate::stencil::Stencil;

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
        let field = Field::from_fn((8, 4), |x, y, _| (x * y) as f64);
        let (ratio, boundary) = (0.2, Boundary::Insulated);
        let plan = Plan {
            extent: (8, 4).into(),
            stencil: Stencil::Nine,
            ratio,
            boundary,
            steps: 10,
            tolerance: 0.0,
            check_every: 1,
        };
        let input = Input { plan, field: field.clone(), range: (0.0, 21.0), dt: 0.2 };
        let mut times = StepTimes::new(10);
        (1..=10).for_each(|number| times.record(number, Duration::from_micros(number)));
        let solution = |exchange| Solution {
            exchange,
            outcome: Outcome { steps: 10, change: 0.5, split: [1.0, 0.1, 0.3, 0.1, 0.25] },
            splits: vec![[1.0, 0.1, 0.3, 0.1, 0.25]; 3],
            times: times.clone(),
            elapsed: Duration::from_secs(2),
        };
        let solutions = [Kind::Blocking, Kind::Nonblocking].map(solution);
        let mut run = Run {
            config: Path::new("some/<demo>.toml"),
            input: &input,
            grid: &Decomposition::new((8, 4), 3),
            field: &field,
            solutions: &solutions[..1],
            check: None,
        };
        let html = page(&run);
        assert!(
            html.contains(
                "&lt;demo&gt;.toml: 8 × 4 cells in 3 × 1 blocks, 3 ranks, 9-point stencil."
            )
        );
        assert!(html.contains("10 steps, 2.00 s of simulated time, then not steady yet."));
        assert_eq!(html.matches("data:image/png;base64,").count(), 2);
        assert!(html.contains("rank 2") && !html.contains("bitwise"));
        assert!(!html.contains("side by side"), "there is nothing beside the one exchange");
        let check = Check { first_difference: None, elapsed: Duration::from_secs(5) };
        run.check = Some(&check);
        assert!(page(&run).contains("bitwise equal"));
        let check = Check { first_difference: Some([3, 1, 0]), ..check };
        run.check = Some(&check);
        let html = page(&run);
        assert!(html.contains("DIFFERS") && html.contains("first in row 1, column 3."), "{html}");
        run.solutions = &solutions;
        let html = page(&run);
        assert!(html.contains("Exchanges side by side") && html.contains("fastest exchange"));
        assert!(html.contains("time went, blocking") && html.contains("time went, nonblocking"));
    }
}
