//! The report: first the mismatches, then all experiments with their checks, plots and the
//! constants they depend on. The same data as CSV files are the snapshots in the tree.

use hikyaku_report::{Cell, Chart, Page, SeriesStyle, Table, Tone, Unit};

use crate::sensitivity::{Assumption, with_ranges};
use crate::what_if::{WhatIf, what_if};
use crate::{Check, ExperimentOutcome, Machines, PaperItem, Verdict};

/// A completed experiment.
#[derive(Debug)]
pub struct Result {
    /// The experiment.
    pub item: &'static PaperItem,
    /// Its outcome.
    pub outcome: ExperimentOutcome,
    /// Its outcomes with other values of the assumed constants; empty if they were not requested.
    pub assumptions: Vec<Assumption>,
}

/// All experiments of a run.
#[derive(Debug, Default)]
pub struct Report {
    /// In the order of the report.
    pub results: Vec<Result>,
}

impl Report {
    /// Whether no experiment has a mismatch.
    pub fn passes(&self) -> bool {
        self.results.iter().all(|result| result.outcome.passes())
    }

    /// The number of checks of all experiments with this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.results.iter().map(|result| result.outcome.count(verdict)).sum()
    }

    /// A row per experiment: the number of statements with each verdict.
    pub fn summary(&self) -> Table {
        let kinds = Verdict::ALL.map(Verdict::word);
        let mut table = Table::new("Experiments", ["item", "what"].into_iter().chain(kinds));
        for Result { item, outcome, .. } in &self.results {
            let count = |verdict| match outcome.count(verdict) {
                0 => Cell::Empty,
                count => Cell::toned(count.to_string(), tone(verdict)),
            };
            let head = [Cell::from(item.name), Cell::from(item.title)];
            table.push(head.into_iter().chain(Verdict::ALL.map(count)));
        }
        table
    }

    /// The mismatches, each with its reason if one is known.
    pub fn mismatches(&self) -> Table {
        let header = ["item", "what", "paper", "model", "why"];
        let mut table = Table::new("Mismatches", header);
        for Result { item, outcome, .. } in &self.results {
            let missed = outcome.checks.iter().filter(|c| c.verdict == Verdict::Mismatch);
            for Check { what, stated, model, why, .. } in missed {
                table.push([item.name, what, stated, model, why]);
            }
        }
        table
    }

    /// The verdicts that depend on an assumption: the checks whose verdict changes when an assumed
    /// constant has half or twice its value.
    pub fn sensitivity(&self) -> Table {
        let header = ["item", "what", "now", "assumed constant", "value", "then"];
        let mut table = Table::new("Verdicts that an assumption decides", header);
        for Result { item, outcome, assumptions } in &self.results {
            for assumption in assumptions {
                for (check, value, then) in assumption.turned(outcome) {
                    table.push([
                        Cell::from(item.name),
                        Cell::from(check.what.as_str()),
                        verdict(check.verdict),
                        Cell::from(assumption.name()),
                        Cell::from(format!("{value} for {}", assumption.constant.value)),
                        verdict(then),
                    ]);
                }
            }
        }
        table
    }

    /// The report as one self-contained HTML page.
    pub fn to_html(&self) -> String {
        let mut page = Page::new("Published tables and figures, from simulated machines");
        page.lead(
            "Each experiment runs a protocol on a machine described by a file of cited step \
             costs, and compares what comes out with what the paper prints. No result is an input.",
        );
        let count = |verdict: Verdict| (verdict.plural(), self.count(verdict).to_string());
        page.facts(Verdict::ALL.map(count));
        page.text(
            "Only a prediction says something of the model: no constant was chosen in view of what \
             it is compared with. A calibration is what a constant was fitted to, an identity is \
             arithmetic on stated numbers.",
        );
        page.section("What does not come out");
        match self.passes() {
            true => page.text("Nothing: all that ran gives what the papers state."),
            false => page.table(&self.mismatches()),
        };
        if self.results.iter().any(|result| !result.assumptions.is_empty()) {
            page.section("What depends on what is assumed");
            page.text(
                "Where a paper is silent, a machine file assumes a value. Every such constant was \
                 given half and twice its value, one at a time. The bands of the plots are the \
                 range of what then comes out; these verdicts turn.",
            );
            page.table(&self.sensitivity());
        } else {
            page.note(
                "This run has no ranges: with --ranges every assumed constant also gets half and \
                 twice its value, and the plots get bands.",
            );
        }
        page.section("All experiments");
        page.table(&self.summary());
        let machines = Machines::stored();
        for result in &self.results {
            tell(&mut page, result, &machines);
        }
        matrix_of_mechanisms(&mut page);
        page.to_html()
    }

    /// The result files: name and content, checks first, then the data of tables and plots.
    pub fn files(&self) -> Vec<(String, String)> {
        let mut files = vec![("summary.csv".to_owned(), self.summary().to_csv())];
        if self.results.iter().any(|result| !result.assumptions.is_empty()) {
            files.push(("sensitivity.csv".to_owned(), self.sensitivity().to_csv()));
        }
        for Result { item, outcome, .. } in &self.results {
            files.push((format!("{}.csv", item.name), checks(outcome).to_csv()));
            for (n, table) in (1..).zip(&outcome.tables) {
                files.push((format!("{}-table-{n}.csv", item.name), table.to_csv()));
            }
            for (n, chart) in (1..).zip(&outcome.charts) {
                files.push((format!("{}-plot-{n}.csv", item.name), chart.to_table().to_csv()));
            }
        }
        for (n, table) in (1..).zip((matrix().run)().tables) {
            files.push((format!("what-if-matrix-table-{n}.csv"), table.to_csv()));
        }
        files
    }
}

/// The question whose answer stands on the page: it needs no paper's machine more than another's.
fn matrix() -> &'static WhatIf {
    what_if("matrix").expect("there is such a question")
}

/// The mechanisms of all papers on all machines, behind the experiments: no paper has it, so it has
/// no criteria.
fn matrix_of_mechanisms(page: &mut Page) {
    let answer = (matrix().run)();
    page.section(&format!("Beyond the papers: {}", matrix().title));
    page.text(&answer.setup);
    answer.charts.into_iter().for_each(|chart| {
        page.chart(chart);
    });
    answer.tables.iter().for_each(|table| {
        page.table(table);
    });
}

/// One experiment as a section.
fn tell(page: &mut Page, result: &Result, machines: &Machines) {
    let Result { item, outcome, assumptions } = result;
    page.section(&format!("{}: {}", item.name, item.title));
    page.text(&format!("The paper: {}", outcome.statement));
    page.text(&format!("Here: {}", outcome.setup));
    page.table(&checks(outcome));
    for (at, chart) in outcome.charts.iter().enumerate() {
        page.chart(with_ranges(chart, at, assumptions));
        if !prints(chart) {
            page.note("The paper prints no value of this plot.");
        }
    }
    outcome.tables.iter().for_each(|table| {
        page.table(table);
    });
    outcome.notes.iter().for_each(|note| {
        page.note(note);
    });
    let fitted = fitted(item, machines);
    if !fitted.is_empty() {
        page.table(&fitted);
    }
    if !assumptions.is_empty() {
        page.table(&assumed(outcome, assumptions));
    }
}

/// Whether a plot has printed values of the paper.
fn prints(chart: &Chart) -> bool {
    match chart {
        Chart::Line(chart) => {
            chart.series.iter().any(|series| series.style == SeriesStyle::Printed)
        }
        // A bar chart has bars for the printed values.
        _ => true,
    }
}

fn checks(outcome: &ExperimentOutcome) -> Table {
    let header = ["what", "paper", "model", "deviation", "criterion", "verdict", "why"];
    let mut table = Table::new("What is stated and what comes out", header);
    for check in &outcome.checks {
        let Check { what, stated, model, deviation, criterion, verdict: shows, why } = check;
        table.push([
            Cell::from(what.as_str()),
            Cell::from(stated.as_str()),
            Cell::from(model.as_str()),
            deviation.map_or(Cell::Empty, |percent| Cell::fixed(percent, Unit::Named("%"), 1)),
            Cell::from(criterion.as_str()),
            verdict(*shows),
            Cell::from(why.as_str()),
        ]);
    }
    table
}

fn verdict(verdict: Verdict) -> Cell {
    Cell::toned(verdict.word(), tone(verdict))
}

fn tone(verdict: Verdict) -> Tone {
    match verdict {
        Verdict::Mismatch => Tone::Bad,
        Verdict::Prediction => Tone::Good,
        Verdict::Calibration => Tone::Doubtful,
        Verdict::Identity => Tone::Plain,
    }
}

/// The fitted constants of the machines that an experiment runs on.
fn fitted(item: &PaperItem, machines: &Machines) -> Table {
    let header = ["machine", "constant", "value", "source"];
    let mut table = Table::new("Fitted constants it depends on", header);
    for name in item.machines {
        for constant in machines.get(name).fitted() {
            let texts = [name, &*constant.key, &*constant.value, &*constant.source];
            table.push(texts.map(Cell::from));
        }
    }
    table
}

/// The assumed constants, and how far the curves move with them.
fn assumed(outcome: &ExperimentOutcome, assumptions: &[Assumption]) -> Table {
    let header = ["constant", "value", "what it is", "half and double move a curve by up to"];
    let mut table = Table::new("Assumed constants", header);
    for assumption in assumptions {
        let moved = assumption.moved(outcome);
        table.push([
            Cell::from(assumption.name()),
            Cell::from(assumption.constant.value.as_str()),
            Cell::from(assumption.constant.source.as_str()),
            moved.map_or(Cell::from("no curve"), |by| Cell::fixed(100.0 * by, Unit::Named("%"), 1)),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::select;

    fn report(name: &str, machines: &Machines) -> Report {
        let items = select(&[name.to_owned()]).expect("the item exists").into_iter();
        let run = |item: &'static PaperItem| Result {
            item,
            outcome: (item.run)(machines),
            assumptions: Vec::new(),
        };
        Report { results: items.map(run).collect() }
    }

    #[test]
    fn a_report_tells_every_experiment_and_its_data() {
        let report = report("000-table-1", &Machines::stored());
        let page = report.to_html();
        assert!(page.contains("Landing memory saved") && page.contains("predictions met"));
        let names: Vec<String> = report.files().into_iter().map(|(name, _)| name).collect();
        let own = ["summary.csv", "000-table-1.csv", "000-table-1-table-1.csv"];
        let beyond = ["what-if-matrix-table-1.csv", "what-if-matrix-table-2.csv"];
        assert_eq!(names, [&own[..], &beyond].concat());
        for text in ["Beyond the papers", "1 by construction", "not whole programs", "--ranges"] {
            assert!(page.contains(text), "{text}");
        }
    }

    #[test]
    fn a_page_says_what_does_not_come_out_before_anything_else() {
        let stored = Machines::stored();
        let slow = stored.with("cp-pacs", &[("host.start", "9 us")]).expect("it has a start");
        let missed = report("004-figure-3", &slow);
        assert!(!missed.passes());
        let page = missed.to_html();
        let place = |text: &str| page.find(text).expect("it is on the page");
        // The head of the section, behind the list of sections.
        let all = page.rfind("All experiments").expect("it is on the page");
        assert!(place("What does not come out") < all);
        assert!(place("overhead (8 B)") < all, "named in the first table");
        assert!(report("004-figure-3", &stored).passes());
    }
}
