//! The page of a run: pictures, the exchanges side by side, and who computed and who waited.

use std::path::PathBuf;
use std::time::Duration;

use hikyaku_report::{Page, Picture, Unit};
use kit::times::{PARTS_NOTE, Times};

use crate::config::Input;
use crate::field::{Decomposition, Field};
use crate::files;

/// Longer side of a picture on the page, pixels at most.
const PICTURE: usize = 720;

/// A solution by one exchange, as rank 0 knows it.
#[derive(Debug, Clone)]
pub struct HeatSolution {
    /// How long it took.
    pub times: Times,
    /// The largest change of a cell in the last step.
    pub change: f64,
}

impl HeatSolution {
    /// Steps a second, as people write it.
    pub fn rate(&self) -> String {
        let rate = self.times.steps as f64 / self.times.elapsed.as_secs_f64().max(1e-9);
        Unit::Number.format(rate.round())
    }
}

/// A run that is over, as rank 0 knows it.
#[derive(Debug)]
pub struct HeatRun {
    /// The configuration file.
    pub config: PathBuf,
    /// What was read.
    pub input: Input,
    /// Who computed what.
    pub grid: Decomposition,
    /// The field at the end.
    pub field: Field,
    /// The solutions, one an exchange, at least one; all the same field.
    pub solutions: Vec<HeatSolution>,
    /// How long the serial program took and whether its field is the same, if it was run.
    pub check: Option<(Duration, bool)>,
}

impl HeatRun {
    /// The size of the grid as people write it, `1,024 × 1,024`, and that of the grid of blocks.
    pub fn sizes(&self) -> [String; 2] {
        let shown = if self.field.size[2] > 1 { 3 } else { 2 };
        [self.field.size, self.grid.blocks].map(|size| {
            let lengths = size[..shown].iter().map(|n| Unit::Number.format(*n as f64));
            lengths.collect::<Vec<_>>().join(" × ")
        })
    }

    /// Whether a solution ended because nothing changed any more.
    pub fn steadiness(&self, solution: &HeatSolution) -> &'static str {
        let steady = solution.change <= self.input.plan.tolerance;
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
            page.table(&Times::side_by_side("step", self.times()));
        }
        page.charts(self.times().map(|times| times.bars().into()));
        page.note(PARTS_NOTE);
        page.to_html()
    }

    fn lead(&self) -> String {
        let [cells, blocks] = self.sizes();
        let Times { steps, splits, .. } = &self.solutions[0].times;
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
        let fastest = self.solutions.iter().min_by_key(|solution| solution.times.elapsed);
        let fastest = fastest.expect("a run has a solution");
        let elapsed = fastest.times.elapsed.as_secs_f64().max(1e-9);
        let updates = fastest.times.steps as f64 * self.field.cells.len() as f64;
        let mut facts = vec![
            ("fastest exchange", fastest.times.exchange.name().into()),
            ("run time", Unit::Seconds.format(elapsed)),
            ("steps per second", fastest.rate()),
            ("cell updates", Unit::PerSecond.format(updates / elapsed)),
            ("largest change, last step", format!("{:.1e}", fastest.change)),
        ];
        if let Some((serial, _)) = self.check {
            let serial = serial.as_secs_f64();
            facts.push(("serial program", Unit::Seconds.format(serial)));
            facts.push(("faster than serial", Unit::Ratio.format(serial / elapsed)));
        }
        facts
    }

    /// The times of all solutions.
    fn times(&self) -> impl Iterator<Item = &Times> {
        self.solutions.iter().map(|solution| &solution.times)
    }
}

#[cfg(test)]
mod tests {
    use kit::exchange::ExchangeKind;

    use super::*;
    use crate::config::{Boundary, HeatPlan};
    use crate::stencil::Stencil;

    #[test]
    fn the_page_says_what_happened() {
        let size = [8, 4, 1];
        let field = Field::from_fn(size, |[x, y, _]| (x * y) as f64);
        let (stencil, boundary, tolerance) = (Stencil::Nine, Boundary::Insulated, 0.0);
        let (ratio, steps, check_every) = (0.2, 10, 1);
        let plan = HeatPlan { size, stencil, ratio, boundary, steps, tolerance, check_every };
        let solution = |exchange| {
            let splits = vec![[1.0, 0.1, 0.3, 0.1, 0.25]; 3];
            let elapsed = Duration::from_secs(2);
            HeatSolution { times: Times { exchange, steps: 10, splits, elapsed }, change: 0.5 }
        };
        let page_of = |kinds: &[ExchangeKind], check| {
            let run = HeatRun {
                config: "some/<demo>.toml".into(),
                input: Input { plan, field: field.clone(), range: [0.0, 21.0], dt: 0.2 },
                grid: Decomposition::new(size, 3),
                field: field.clone(),
                solutions: kinds.iter().map(|kind| solution(*kind)).collect(),
                check,
            };
            run.page()
        };
        let html = page_of(&[ExchangeKind::Blocking], None);
        for said in [
            "&lt;demo&gt;.toml: 8 × 4 cells in 3 × 1 blocks, 3 ranks, 9-point stencil.",
            "10 steps, 2.00 s of simulated time, then not steady yet.",
            "rank 2",
        ] {
            assert!(html.contains(said), "{said}: {html}");
        }
        assert_eq!(html.matches("data:image/png;base64,").count(), 2);
        assert!(!html.contains("serial program") && !html.contains("side by side"));
        let (both, second) =
            ([ExchangeKind::Blocking, ExchangeKind::Nonblocking], Duration::from_secs(1));
        assert!(page_of(&both, Some((second, true))).contains("bitwise equal"));
        let html = page_of(&both, Some((second, false)));
        assert!(html.contains("DIFFERS") && html.contains("Exchanges side by side"));
        assert!(html.contains("time went, blocking") && html.contains("time went, nonblocking"));
    }
}
