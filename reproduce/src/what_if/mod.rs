//! What if: mechanisms of one machine on another machine, which no paper measured.
//!
//! There is nothing to compare with, so these experiments have no criteria: each gives a plot, a
//! table, and the conclusions from them. All constants are stated by machine files; the setup
//! describes the combination.

mod broadcast;
mod decompositions;
mod halo;
mod matrix;
mod rings;
mod sharers;

use hikyaku_report::{Cell, Chart, LineChart, Series, Table, Unit};

/// A question with its answer.
#[derive(Debug, Clone, Copy)]
pub struct WhatIf {
    /// Its name on the command line.
    pub name: &'static str,
    /// The question.
    pub title: &'static str,
    /// Runs the simulations.
    pub run: fn() -> WhatIfAnswer,
}

/// The answer to a question: what ran, what it shows, and the numbers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WhatIfAnswer {
    /// The combination, and what is run.
    pub setup: String,
    /// The conclusions from the figures, a sentence each.
    pub findings: Vec<String>,
    /// The plots.
    pub charts: Vec<Chart>,
    /// The numbers of the plots.
    pub tables: Vec<Table>,
}

/// All questions.
pub const WHAT_IFS: [WhatIf; 6] = [
    WhatIf {
        name: "halo",
        title: "What if CP-PACS had command queues that run by themselves?",
        run: halo::run,
    },
    WhatIf {
        name: "rings",
        title: "What if Cenju-4's receiver chose where messages land?",
        run: rings::run,
    },
    WhatIf {
        name: "broadcast",
        title: "What if CP-PACS's broadcasts ran on other networks?",
        run: broadcast::run,
    },
    WhatIf {
        name: "sharers",
        title: "What if many nodes shared a variable of Fagus?",
        run: sharers::run,
    },
    WhatIf {
        name: "decompositions",
        title: "What if an array on CP-PACS were divided into slabs, pencils or blocks?",
        run: decompositions::run,
    },
    WhatIf {
        name: "matrix",
        title: "What would each paper's mechanism give on every machine?",
        run: matrix::run,
    },
];

/// The question with this name.
pub fn what_if(name: &str) -> Option<&'static WhatIf> {
    WHAT_IFS.iter().find(|known| known.name == name)
}

/// Message lengths: powers of two whose logarithms are `step` apart, bytes.
fn lengths(from: u32, to: u32, step: usize) -> Vec<u64> {
    (from..=to).step_by(step).map(|log| 1 << log).collect()
}

/// Curves over the same points: each has a name, and a value for each point.
type Curves<'a> = [(&'a str, Vec<f64>)];

/// A table with a row for each point and a column for each curve. `head` and `heads` are the first
/// column.
fn tabulate(
    caption: &str,
    (head, heads): (&str, impl IntoIterator<Item = Cell>),
    curves: &Curves<'_>,
    unit: Unit,
) -> Table {
    let mut table = Table::new(caption, [head].into_iter().chain(curves.iter().map(|of| of.0)));
    for (place, head) in heads.into_iter().enumerate() {
        let values = curves.iter().map(|(_, curve)| Cell::number(curve[place], unit));
        table.push([head].into_iter().chain(values));
    }
    table
}

/// A chart with a line for each curve.
fn draw(chart: LineChart, points: &[f64], curves: &Curves<'_>) -> LineChart {
    curves.iter().fold(chart, |chart, (name, curve)| {
        chart.with(Series::line(*name, points.iter().copied().zip(curve.iter().copied()).collect()))
    })
}

/// The first length at which `other` takes less time than `one`, if any.
fn crossing(sizes: &[u64], one: &[f64], other: &[f64]) -> Option<u64> {
    let mut points = sizes.iter().zip(one.iter().zip(other));
    points.find(|(_, (one, other))| other < one).map(|(bytes, _)| *bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_question_has_a_name_of_its_own_and_an_answer() {
        for question in WHAT_IFS {
            assert_eq!(what_if(question.name).map(|found| found.title), Some(question.title));
            let answer = (question.run)();
            assert!(!answer.setup.is_empty() && !answer.findings.is_empty(), "{}", question.name);
            let rows = answer.tables.iter().map(Table::len).sum::<usize>();
            assert!(rows > 4 && !answer.charts.is_empty(), "{}", question.name);
        }
        // Simulations are deterministic.
        assert_eq!(rings::run(), rings::run());
        assert!(what_if("rain").is_none());
    }

    #[test]
    fn a_crossing_is_where_the_other_becomes_faster() {
        assert_eq!(crossing(&[1, 2, 4], &[1.0, 2.0, 3.0], &[2.0, 1.9, 1.0]), Some(2));
        assert_eq!(crossing(&[1, 2], &[1.0, 1.0], &[1.0, 1.0]), None);
    }
}
