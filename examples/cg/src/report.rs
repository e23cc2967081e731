//! The page of a run: the residuals, the distribution of the matrix, and the use of time.

use std::path::Path;
use std::time::Duration;

use hikyaku_report::{Axis, Cell, LineChart, Page, Series, Table, Unit};
use kit::times::{PARTS_NOTE, Times};

use crate::csr::Csr;
use crate::exchange::Load;

/// The result of the comparison with the serial solver.
#[derive(Debug, Clone, PartialEq)]
pub struct SerialComparison {
    /// Norm of the residual of the solution, recomputed from the matrix, relative to that of the
    /// right side.
    pub residual: f64,
    /// The same for the difference between the two solutions.
    pub difference: f64,
    /// The time of the serial solver.
    pub elapsed: Duration,
    /// Its residuals.
    pub residuals: Vec<f64>,
    /// Whether both are as small as the tolerance allows.
    pub passed: bool,
}

/// A solution by one exchange, as known to rank 0.
#[derive(Debug, Clone)]
pub struct Solution {
    /// Its times.
    pub times: Times,
    /// The residuals.
    pub residuals: Vec<f64>,
    /// The comparison with the serial solver, if it was made.
    pub check: Option<SerialComparison>,
}

impl Solution {
    /// The residual at the end, relative to the right side.
    pub fn residual(&self) -> f64 {
        self.residuals.last().copied().unwrap_or(1.0)
    }
}

/// A finished run, as known to rank 0.
#[derive(Debug, Clone, Copy)]
pub struct SolverRun<'a> {
    /// The file.
    pub file: &'a Path,
    /// The matrix.
    pub matrix: &'a Csr,
    /// The load of each rank.
    pub loads: &'a [Load],
    /// The solutions, one per exchange, at least one.
    pub solutions: &'a [Solution],
}

/// The page as one HTML file.
pub fn page(run: &SolverRun<'_>) -> String {
    let mut page = Page::new("Conjugate gradients on hikyaku");
    page.lead(&lead(run)).facts(facts(run));
    page.section("Convergence").chart(residual_chart(run));
    page.section("Where the time went");
    let times = || run.solutions.iter().map(|solution| &solution.times);
    if run.solutions.len() > 1 {
        page.table(&Times::side_by_side("iteration", times()));
    }
    page.charts(times().map(|times| times.bars().into()));
    page.note(PARTS_NOTE);
    page.section("Who has what").table(&load_table(run));
    page.note(
        "Rows lie in blocks with about equally many entries of the matrix. Entries sent are those \
         of the vector that go to neighbours in every iteration.",
    );
    page.to_html()
}

fn lead(run: &SolverRun<'_>) -> String {
    let check = match run.solutions.iter().filter_map(|solution| solution.check.as_ref()).next() {
        None => "",
        Some(_) if run.solutions.iter().all(|s| s.check.as_ref().is_none_or(|c| c.passed)) => {
            " The solution agrees with the serial solver's."
        }
        Some(_) => " The solution DIFFERS from the serial solver's.",
    };
    format!(
        "{}: {} rows, {} entries, on {} ranks. \
         Relative residual {:.1e} after {} iterations.{check}",
        run.file.file_name().unwrap_or_default().display(),
        Unit::Number.format(run.matrix.rows() as f64),
        Unit::Number.format(run.matrix.entries() as f64),
        run.loads.len(),
        run.solutions[0].residual(),
        run.solutions[0].times.steps,
    )
}

fn facts(run: &SolverRun<'_>) -> Vec<(&'static str, String)> {
    let fastest = run.solutions.iter().min_by_key(|solution| solution.times.elapsed);
    let fastest = fastest.expect("a run has a solution");
    let mut facts = vec![
        ("run time", Unit::Seconds.format(fastest.times.elapsed.as_secs_f64())),
        ("an iteration", Unit::Seconds.format(fastest.times.per_step())),
        ("iterations", fastest.times.steps.to_string()),
        ("relative residual", format!("{:.1e}", fastest.residual())),
    ];
    if run.solutions.len() > 1 {
        facts.insert(0, ("fastest exchange", fastest.times.exchange.name().into()));
    }
    if let Some(check) = &fastest.check {
        facts.push(("serial solver", Unit::Seconds.format(check.elapsed.as_secs_f64())));
    }
    facts
}

fn residual_chart(run: &SolverRun<'_>) -> LineChart {
    let curve = |residuals: &[f64]| -> Vec<(f64, f64)> {
        let points = residuals.iter().enumerate().map(|(at, residual)| (at as f64, *residual));
        points.filter(|(_, residual)| *residual > 0.0).collect()
    };
    let axis = Axis::linear("iteration", Unit::Number).from_zero();
    let chart = LineChart::new(
        "Norm of the residual, relative to the right side",
        axis,
        Axis::log10("residual", Unit::Number),
    );
    let chart = chart.with(Series::line("ranks", curve(&run.solutions[0].residuals)));
    match &run.solutions[0].check {
        Some(check) => chart.with(Series::reference("serial", curve(&check.residuals))),
        None => chart,
    }
}

fn load_table(run: &SolverRun<'_>) -> Table {
    let header = ["rank", "rows", "entries of the matrix", "neighbours", "entries sent"];
    let mut table = Table::new("What each rank has", header);
    for (rank, load) in (0_u32..).zip(run.loads) {
        let numbers = load.map(|number| Cell::number(number as f64, Unit::Number));
        table.push([Cell::from(rank)].into_iter().chain(numbers));
    }
    table
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use kit::exchange::ExchangeKind;

    use super::*;

    #[test]
    fn the_page_says_what_happened() {
        let matrix = Csr::from_entries(2, vec![(0, 0, 1.0), (1, 1, 2.0)]).unwrap();
        let solution = |exchange| {
            let splits = vec![[1.0, 0.1, 0.5, 0.2, 0.25]; 2];
            let times = Times { exchange, steps: 2, splits, elapsed: Duration::from_secs(2) };
            Solution { times, residuals: vec![1.0, 0.1, 1e-9], check: None }
        };
        let mut solutions = [ExchangeKind::Blocking, ExchangeKind::Nonblocking].map(solution);
        let loads = [[1, 1, 0, 0]; 2];
        let file = Path::new("some/<mesh>.mtx");
        let of = |solutions: &[Solution]| {
            page(&SolverRun { file, matrix: &matrix, loads: &loads, solutions })
        };
        let html = of(&solutions[..1]);
        assert!(html.contains("&lt;mesh&gt;.mtx: 2 rows, 2 entries, on 2 ranks."), "{html}");
        assert!(html.contains("Relative residual 1.0e-9 after 2 iterations."));
        assert!(!html.contains("serial") && !html.contains("fastest exchange"));
        let mut check = SerialComparison {
            residual: 1e-9,
            difference: 1e-9,
            elapsed: Duration::from_secs(1),
            residuals: vec![1.0, 1e-9],
            passed: true,
        };
        solutions.iter_mut().for_each(|solution| solution.check = Some(check.clone()));
        let html = of(&solutions);
        assert!(html.contains("agrees with the serial") && html.contains("fastest exchange"));
        check.passed = false;
        solutions[1].check = Some(check);
        assert!(of(&solutions).contains("DIFFERS from the serial"));
    }
}
