//! The page of a run: pictures, and the ranks' computing and waiting times.

use std::path::PathBuf;
use std::time::Duration;

use hikyaku_report::{Page, Picture, Unit};
use kit::times::{PARTS_NOTE, Times};

use crate::config::HeatPlan;
use crate::field::{Decomposition, Field};
use crate::files;

/// A finished run, as known to rank 0.
#[derive(Debug)]
pub struct HeatRun {
    /// The configuration file.
    pub config: PathBuf,
    /// Its contents.
    pub plan: HeatPlan,
    /// The blocks of the ranks.
    pub grid: Decomposition,
    /// The field at the start.
    pub start: Field,
    /// The field at the end.
    pub field: Field,
    /// Its times.
    pub times: Times,
    /// The largest change of a cell in the last step.
    pub change: f64,
    /// The time of the serial program and whether its field is the same, if it was run.
    pub check: Option<(Duration, bool)>,
}

impl HeatRun {
    /// The run in a sentence.
    pub fn summary(&self) -> String {
        let [width, height] = self.field.size.map(|length| Unit::Number.format(length as f64));
        let [columns, rows] = self.grid.blocks;
        let steady = if self.change <= self.plan.tolerance { "steady" } else { "not steady yet" };
        format!(
            "{width} x {height} cells in {columns} x {rows} blocks on {} ranks, {} exchange: {} \
             steps of {} in {}, then {steady}: largest change {:.1e}",
            self.times.splits.len(),
            self.times.exchange.name(),
            Unit::Number.format(self.times.steps as f64),
            Unit::Seconds.format(self.plan.dt),
            Unit::Seconds.format(self.times.elapsed.as_secs_f64()),
            self.change,
        )
    }

    /// The page as one HTML file.
    pub fn page(&self) -> String {
        let mut page = Page::new("Heat equation on hikyaku");
        let check = match self.check {
            None => "",
            Some((_, true)) => " The field is bitwise equal to the serial program's.",
            Some((_, false)) => " The field DIFFERS from the serial program's.",
        };
        let name = self.config.file_name().unwrap_or_default().display();
        page.lead(&format!("{name}: {}.{check}", self.summary())).facts(self.facts());
        page.section("The field");
        let [first, last] =
            [&self.start, &self.field].map(|field| files::encode_png(field, self.plan.temperature));
        page.images([
            Picture { png: &first, alt: "The initial field", caption: "At the start" },
            Picture { png: &last, alt: "The final field", caption: "At the end" },
        ]);
        let [low, high] = self.plan.temperature;
        page.note(&format!("Dark is {low}, light is {high}."));
        page.section("Computing and waiting").chart(self.times.bars()).note(PARTS_NOTE);
        page.to_html()
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let elapsed = self.times.elapsed.as_secs_f64().max(1e-9);
        let steps = self.times.steps as f64;
        let updates = steps * self.field.cells.len() as f64;
        let mut facts = vec![
            ("run time", Unit::Seconds.format(elapsed)),
            ("steps per second", Unit::Number.format((steps / elapsed).round())),
            ("cell updates", Unit::PerSecond.format(updates / elapsed)),
        ];
        if let Some((serial, _)) = self.check {
            let serial = serial.as_secs_f64();
            facts.push(("serial program", Unit::Seconds.format(serial)));
            facts.push(("faster than serial", Unit::Ratio.format(serial / elapsed)));
        }
        facts
    }
}

#[cfg(test)]
mod tests {
    use kit::exchange::ExchangeKind;

    use super::*;

    #[test]
    fn the_page_says_what_happened() {
        let size = [8, 4];
        let field = Field::from_fn(size, |[x, y]| (x * y) as f64);
        let page_of = |check| {
            let exchange = ExchangeKind::Blocking;
            let (splits, elapsed) = (vec![[1.0, 0.1, 0.3, 0.1, 0.25]; 3], Duration::from_secs(2));
            let run = HeatRun {
                config: "some/<demo>.toml".into(),
                plan: HeatPlan { size, ..HeatPlan::default() },
                grid: Decomposition::new(size, 3),
                start: field.clone(),
                field: field.clone(),
                times: Times { exchange, steps: 10, splits, elapsed },
                change: 0.5,
                check,
            };
            run.page()
        };
        let html = page_of(None);
        for said in [
            "&lt;demo&gt;.toml: 8 x 4 cells in 3 x 1 blocks on 3 ranks, blocking exchange: 10",
            "steps of 200 ms in 2.00 s, then not steady yet: largest change 5.0e-1.",
            "time went, blocking",
            "rank 2",
        ] {
            assert!(html.contains(said), "{said}: {html}");
        }
        assert_eq!(html.matches("data:image/png;base64,").count(), 2);
        assert!(!html.contains("serial program"));
        let second = Duration::from_secs(1);
        assert!(page_of(Some((second, true))).contains("bitwise equal"));
        assert!(page_of(Some((second, false))).contains("DIFFERS"));
    }
}
