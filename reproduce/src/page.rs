//! The report: a summary on top, then each experiment with its checks, plots and the fitted
//! constants it depended on; and the same as CSV files, which are the snapshots in the tree.

use hikyaku_report::{Cell, Page, Table, Unit};

use crate::{Check, Item, Outcome, Verdict, machine};

/// An experiment that has been run.
#[derive(Debug)]
pub struct Result {
    /// Which.
    pub item: &'static Item,
    /// What it brought.
    pub outcome: Outcome,
}

/// All experiments of a run.
#[derive(Debug, Default)]
pub struct Report {
    /// In the order in which they are told.
    pub results: Vec<Result>,
}

impl Report {
    /// Whether every check of every experiment holds.
    pub fn passes(&self) -> bool {
        self.results.iter().all(|result| result.outcome.passes())
    }

    /// A row per experiment: what passed, failed, was calibration or only reported.
    pub fn summary(&self) -> Table {
        let header = ["item", "what", "pass", "fail", "calibration", "reported", "verdict"];
        let mut table = Table::new("Experiments", header);
        for Result { item, outcome } in &self.results {
            let count = |verdict| Cell::number(outcome.count(verdict) as f64, Unit::Number);
            table.push([
                Cell::from(item.name),
                Cell::from(item.title),
                count(Verdict::Pass),
                count(Verdict::Fail),
                count(Verdict::Calibration),
                count(Verdict::Reported),
                Cell::from(if outcome.passes() { "pass" } else { "FAIL" }),
            ]);
        }
        table
    }

    /// The whole as one self-contained HTML page.
    pub fn to_html(&self) -> String {
        let mut page = Page::new("Published tables and figures, from simulated machines");
        page.lead(
            "Each experiment runs a protocol on a machine described by a file of cited step \
             costs, and compares what comes out with what the paper prints. No result is an input.",
        );
        let count = |verdict| -> usize {
            self.results.iter().map(|result| result.outcome.count(verdict)).sum()
        };
        page.facts([
            ("experiments", self.results.len().to_string()),
            ("statements met", count(Verdict::Pass).to_string()),
            ("not met", count(Verdict::Fail).to_string()),
            ("calibration", count(Verdict::Calibration).to_string()),
            ("reported only", count(Verdict::Reported).to_string()),
        ]);
        page.table(&self.summary());
        for Result { item, outcome } in &self.results {
            tell(&mut page, item, outcome);
        }
        page.to_html()
    }

    /// The files of results: name and content, checks first, then the data of tables and plots.
    pub fn files(&self) -> Vec<(String, String)> {
        let mut files = vec![("summary.csv".to_owned(), self.summary().to_csv())];
        for Result { item, outcome } in &self.results {
            files.push((format!("{}.csv", item.name), checks(outcome).to_csv()));
            for (n, table) in (1..).zip(&outcome.tables) {
                files.push((format!("{}-table-{n}.csv", item.name), table.to_csv()));
            }
            for (n, chart) in (1..).zip(&outcome.charts) {
                files.push((format!("{}-plot-{n}.csv", item.name), chart.to_table().to_csv()));
            }
        }
        files
    }
}

/// One experiment as a section.
fn tell(page: &mut Page, item: &Item, outcome: &Outcome) {
    page.section(&format!("{}: {}", item.name, item.title));
    page.text(&format!("The paper: {}", outcome.statement));
    page.text(&format!("Here: {}", outcome.setup));
    page.table(&checks(outcome));
    outcome.charts.iter().for_each(|chart| {
        page.chart(chart);
    });
    outcome.tables.iter().for_each(|table| {
        page.table(table);
    });
    outcome.notes.iter().for_each(|note| {
        page.note(note);
    });
    let fitted = fitted(item);
    if !fitted.is_empty() {
        page.table(&fitted);
    }
}

fn checks(outcome: &Outcome) -> Table {
    let header = ["what", "paper", "model", "deviation", "criterion", "verdict"];
    let mut table = Table::new("What is stated and what comes out", header);
    for check in &outcome.checks {
        let Check { what, stated, model, deviation, criterion, verdict } = check;
        table.push([
            Cell::from(what.as_str()),
            Cell::from(stated.as_str()),
            Cell::from(model.as_str()),
            deviation.map_or(Cell::Empty, |percent| Cell::fixed(percent, Unit::Named("%"), 1)),
            Cell::from(criterion.as_str()),
            Cell::from(verdict.word()),
        ]);
    }
    table
}

/// The fitted constants of the machines that an experiment runs on.
fn fitted(item: &Item) -> Table {
    let header = ["machine", "constant", "value", "source"];
    let mut table = Table::new("Fitted constants it depended on", header);
    for name in item.machines {
        for constant in machine(name).fitted() {
            let texts = [name, &*constant.key, &*constant.value, &*constant.source];
            table.push(texts.map(Cell::from));
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::select;

    #[test]
    fn a_report_tells_every_experiment_and_its_data() {
        let words = ["000-table-1".to_owned()];
        let items = select(&words).expect("the item exists");
        let results: Vec<Result> =
            items.into_iter().map(|item| Result { item, outcome: (item.run)() }).collect();
        let report = Report { results };
        assert!(report.passes());
        let page = report.to_html();
        assert!(page.contains("Landing memory saved") && page.contains("calibration"));
        let names: Vec<String> = report.files().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["summary.csv", "000-table-1.csv", "000-table-1-table-1.csv"]);
    }
}
