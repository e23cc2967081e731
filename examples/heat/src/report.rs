//! The page of a run: pictures, the exchanges side by side, and who computed and who waited.

use std::path::PathBuf;
use std::time::Duration;

use hikyaku_report::{Cell, Page, Picture, StackedBars, Table, Unit};

use crate::config::Input;
use crate::exchange::{Kind, Outcome, PARTS, Split};
use crate::field::{Decomposition, Field};
use crate::files;

/// Longer side of a picture on the page, pixels at most.
const PICTURE: usize = 720;

/// Bars of ranks on the page; more would not be read.
const BARS: usize = 64;

/// A solution by one exchange, as rank 0 knows it.
#[derive(Debug, Clone)]
pub struct Solution {
    /// How edges were exchanged.
    pub exchange: Kind,
    /// How it ended.
    pub outcome: Outcome,
    /// Where each rank's time went.
    pub splits: Vec<Split>,
    /// From the first step to the last.
    pub elapsed: Duration,
}

impl Solution {
    /// Steps a second, as people write it.
    pub fn rate(&self) -> String {
        let rate = self.outcome.steps as f64 / self.elapsed.as_secs_f64().max(1e-9);
        Unit::Number.format(rate.round())
    }

    /// Seconds a step, by part: the mean over ranks and steps.
    fn per_step(&self) -> Split {
        let all = (self.splits.len() as f64 * self.outcome.steps as f64).max(1.0);
        std::array::from_fn(|part| self.splits.iter().map(|split| split[part]).sum::<f64>() / all)
    }
}

/// A run that is over, as rank 0 knows it.
#[derive(Debug)]
pub struct Run {
    /// The configuration file.
    pub config: PathBuf,
    /// What was read.
    pub input: Input,
    /// Who computed what.
    pub grid: Decomposition,
    /// The field at the end.
    pub field: Field,
    /// The solutions, one an exchange, at least one; all the same field.
    pub solutions: Vec<Solution>,
    /// How long the serial program took and whether its field is the same, if it was run.
    pub check: Option<(Duration, bool)>,
}

impl Run {
    /// The size of the grid as people write it, `1,024 × 1,024`, and that of the grid of blocks.
    pub fn sizes(&self) -> [String; 2] {
        let shown = if self.field.size[2] > 1 { 3 } else { 2 };
        [self.field.size, self.grid.blocks].map(|size| {
            let lengths = size[..shown].iter().map(|n| Unit::Number.format(*n as f64));
            lengths.collect::<Vec<_>>().join(" × ")
        })
    }

    /// Whether a solution ended because nothing changed any more.
    pub fn steadiness(&self, solution: &Solution) -> &'static str {
        let steady = solution.outcome.change <= self.input.plan.tolerance;
        if steady { "steady" } else { "not steady yet" }
    }

    /// The page as one HTML file.
    pub fn page(&self) -> String {
        let mut page = Page::new("Heat equation on hikyaku");
        page.lead(&self.lead()).facts(self.facts());
        page.section("The field");
        let [width, height, _] = self.field.size;
        let step = width.max(height).div_ceil(PICTURE);
        let picture = |field| files::encode_png(field, self.input.range, step);
        let (first, last) = (picture(&self.input.field), picture(&self.field));
        page.images([
            Picture { png: &first, alt: "The initial field", caption: "At the start" },
            Picture { png: &last, alt: "The final field", caption: "At the end" },
        ]);
        let [low, high] = self.input.range;
        page.note(&format!(
            "Dark is {low}, light is {high}. Of a volume: the plane in the middle."
        ));
        page.section("Computing and waiting");
        if self.solutions.len() > 1 {
            page.table(&self.side_by_side());
        }
        page.charts(self.solutions.iter().map(|solution| bars(solution).into()));
        page.note(PARTS_NOTE);
        page.to_html()
    }

    fn lead(&self) -> String {
        let [cells, blocks] = self.sizes();
        let Solution { outcome: Outcome { steps, .. }, splits, .. } = &self.solutions[0];
        let check = match self.check {
            None => "",
            Some((_, true)) => " The field is bitwise equal to the serial program's.",
            Some((_, false)) => " The field DIFFERS from the serial program's.",
        };
        format!(
            "{}: {cells} cells in {blocks} blocks, {} ranks, {} stencil. {} steps, {} of simulated \
             time, then {}.{check}",
            self.config.file_name().unwrap_or_default().display(),
            splits.len(),
            self.input.plan.stencil.describe().0,
            Unit::Number.format(*steps as f64),
            Unit::Seconds.format(*steps as f64 * self.input.dt),
            self.steadiness(&self.solutions[0]),
        )
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let fastest = self.solutions.iter().min_by_key(|solution| solution.elapsed);
        let fastest = fastest.expect("a run has a solution");
        let elapsed = fastest.elapsed.as_secs_f64().max(1e-9);
        let updates = fastest.outcome.steps as f64 * self.field.cells.len() as f64;
        let mut facts = vec![
            ("fastest exchange", fastest.exchange.name().into()),
            ("run time", Unit::Seconds.format(elapsed)),
            ("steps per second", fastest.rate()),
            ("cell updates", Unit::PerSecond.format(updates / elapsed)),
            ("largest change, last step", format!("{:.1e}", fastest.outcome.change)),
        ];
        if let Some((serial, _)) = self.check {
            let serial = serial.as_secs_f64();
            facts.push(("serial program", Unit::Seconds.format(serial)));
            facts.push(("faster than serial", Unit::Ratio.format(serial / elapsed)));
        }
        facts
    }

    /// What the exchanges cost beside each other.
    fn side_by_side(&self) -> Table {
        let header = ["exchange", "run time", "steps a second"].into_iter().chain(PARTS);
        let mut table =
            Table::new("Exchanges side by side: a step's time, mean over ranks", header);
        for solution in &self.solutions {
            let numbers = [
                Cell::from(solution.exchange.name()),
                Cell::number(solution.elapsed.as_secs_f64(), Unit::Seconds),
                Cell::from(solution.rate()),
            ];
            let parts = solution.per_step().map(|part| Cell::number(part, Unit::Seconds));
            table.push(numbers.into_iter().chain(parts));
        }
        table
    }
}

const PARTS_NOTE: &str = "Each rank books every moment of every step to one part. Copying brings \
     edges from the block to where they are sent from, and what came into its frame. Moving data \
     is the exchange itself: calls of the library, and waiting for data on its way. Late neighbour \
     is waiting for one that had not begun its exchange: every message says when it was ready to \
     go. With more ranks than cores, both include the time in which other ranks have the core. \
     There are bars for the first 64 ranks.";

fn bars(solution: &Solution) -> StackedBars {
    let title = format!("Where each rank's time went, {}", solution.exchange.name());
    let bars = StackedBars::new(title, "time", Unit::Seconds, PARTS);
    let ranks = solution.splits.iter().enumerate().take(BARS);
    ranks.fold(bars, |bars, (rank, split)| bars.with(format!("rank {rank}"), split.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Boundary, Plan};
    use crate::stencil::Stencil;

    #[test]
    fn the_page_says_what_happened() {
        let size = [8, 4, 1];
        let field = Field::from_fn(size, |[x, y, _]| (x * y) as f64);
        let (stencil, boundary, tolerance) = (Stencil::Nine, Boundary::Insulated, 0.0);
        let (ratio, steps, check_every) = (0.2, 10, 1);
        let plan = Plan { size, stencil, ratio, boundary, steps, tolerance, check_every };
        let solution = |exchange| Solution {
            exchange,
            outcome: Outcome { steps: 10, change: 0.5, split: [1.0, 0.1, 0.3, 0.1, 0.25] },
            splits: vec![[1.0, 0.1, 0.3, 0.1, 0.25]; 3],
            elapsed: Duration::from_secs(2),
        };
        let page_of = |kinds: &[Kind], check| {
            let run = Run {
                config: "some/<demo>.toml".into(),
                input: Input { plan, field: field.clone(), range: [0.0, 21.0], dt: 0.2 },
                grid: Decomposition::new(size, 3),
                field: field.clone(),
                solutions: kinds.iter().map(|kind| solution(*kind)).collect(),
                check,
            };
            run.page()
        };
        let html = page_of(&[Kind::Blocking], None);
        for said in [
            "&lt;demo&gt;.toml: 8 × 4 cells in 3 × 1 blocks, 3 ranks, 9-point stencil.",
            "10 steps, 2.00 s of simulated time, then not steady yet.",
            "rank 2",
        ] {
            assert!(html.contains(said), "{said}: {html}");
        }
        assert_eq!(html.matches("data:image/png;base64,").count(), 2);
        assert!(!html.contains("serial program") && !html.contains("side by side"));
        let (both, second) = ([Kind::Blocking, Kind::Nonblocking], Duration::from_secs(1));
        assert!(page_of(&both, Some((second, true))).contains("bitwise equal"));
        let html = page_of(&both, Some((second, false)));
        assert!(html.contains("DIFFERS") && html.contains("Exchanges side by side"));
        assert!(html.contains("time went, blocking") && html.contains("time went, nonblocking"));
    }
}
