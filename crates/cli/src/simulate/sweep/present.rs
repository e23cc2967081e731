//! The results of a sweep as tables, as a page, and as a sentence.

use hikyaku::Operation;
use hikyaku_report::{Axis, Cell, Chart, LineChart, Page, Series, Table, Unit};

use super::SweepPoint;

/// The maximum number of choices that are listed on the terminal.
pub(super) const MOST_LISTED: usize = 25;

/// A choice counts as wrong if its time exceeds the fastest one's by this factor: differences of up
/// to 5 % are within the accuracy of the models.
const WRONG: f64 = 1.05;

/// A table of every run.
pub(super) fn runs(points: &[SweepPoint]) -> Table {
    let head = ["machine", "operation", "ranks", "bytes", "algorithm", "time", "messages", "is"];
    let mut table = Table::new("Every run", head);
    for point in points {
        let best = point.best().map(|timed| timed.algorithm);
        let row = |algorithm: &str, rest: [Cell; 3]| {
            let head = [Cell::from(point.machine.as_str()), Cell::from(point.operation.name())];
            let numbers = [
                Cell::from(point.ranks),
                Cell::number(point.bytes as f64, Unit::Bytes),
                Cell::from(algorithm),
            ];
            head.into_iter().chain(numbers).chain(rest)
        };
        for timed in &point.times {
            let name = Some(timed.algorithm);
            let is = match (name == point.chosen, name == best) {
                (true, true) => "chosen, fastest",
                (true, false) => "chosen",
                (false, true) => "fastest",
                (false, false) => "",
            };
            let time = Cell::number(timed.seconds, Unit::Seconds);
            let messages = Cell::number(timed.messages as f64, Unit::Number);
            table.push(row(timed.algorithm, [time, messages, Cell::from(is)]));
        }
        for algorithm in &point.abandoned {
            let why = Cell::from(match Some(*algorithm) == point.chosen {
                true => "chosen; abandoned: too much to simulate",
                false => "abandoned: too much to simulate",
            });
            table.push(row(algorithm, [Cell::Empty, Cell::Empty, why]));
        }
    }
    table
}

/// The points at which the choice is wrong, worst first.
pub(super) fn losses(points: &[SweepPoint], most: usize) -> Table {
    let head = ["machine", "operation", "ranks", "bytes", "chosen", "fastest", "times as long"];
    let mut wrong: Vec<(f64, &SweepPoint)> =
        points.iter().filter_map(|p| Some((p.loss()?, p))).collect();
    wrong.retain(|(loss, _)| *loss > WRONG);
    wrong.sort_by(|one, other| other.0.total_cmp(&one.0));
    let shown = wrong.len().min(most);
    let caption = format!("Where the choice is wrong: {shown} of {} points", wrong.len());
    let mut table = Table::new(caption, head);
    for (loss, point) in wrong.into_iter().take(most) {
        table.push([
            Cell::from(point.machine.as_str()),
            Cell::from(point.operation.name()),
            Cell::from(point.ranks),
            Cell::number(point.bytes as f64, Unit::Bytes),
            Cell::from(point.chosen.unwrap_or_default()),
            Cell::from(point.best().map_or("", |timed| timed.algorithm)),
            Cell::number(loss, Unit::Ratio),
        ]);
    }
    table
}

/// A sentence on the number of points and of right choices.
pub(super) fn summary(points: &[SweepPoint]) -> String {
    let judged: Vec<f64> = points.iter().filter_map(SweepPoint::loss).collect();
    let right = judged.iter().filter(|loss| **loss <= WRONG).count();
    let partly = points.iter().filter(|point| !point.abandoned.is_empty()).count();
    let unknown = points.len() - judged.len();
    format!(
        "{} points; of {} with a choice to judge, {right} are within 5 % of the fastest; with \
         {unknown} the choice itself was too much to simulate, and with {partly} some algorithm",
        points.len(),
        judged.len()
    )
}

/// The page: the wrong choices, and plots of each machine's operations.
pub(super) fn page(points: &[SweepPoint]) -> String {
    let mut page = Page::new("Collectives on simulated machines");
    page.lead(&summary(points));
    page.text(
        "Each run is one call on a machine at rest, one rank to a node, with lengths only. A \
         choice is that of ranks that name no algorithm and reduce integers: select.rs. A plot is \
         of the most ranks with which any algorithm ran to its end; the last table has all. An \
         algorithm that is too much to simulate sent more messages or took more events than the \
         sweep's limits, and nothing is known of its time.",
    );
    page.section("Where the choice is wrong").table(&losses(points, usize::MAX));
    let mut machines: Vec<&str> = points.iter().map(|point| point.machine.as_str()).collect();
    machines.dedup();
    for machine in machines {
        page.section(machine);
        let of = |point: &&SweepPoint| point.machine == machine;
        let points: Vec<&SweepPoint> = points.iter().filter(of).collect();
        page.charts(Operation::ALL.into_iter().filter_map(|operation| chart(&points, operation)));
    }
    page.section("Every run").table(&runs(points));
    page.to_html()
}

/// Time by size at the largest number of ranks with a complete run; for a barrier, time by ranks.
fn chart(points: &[&SweepPoint], operation: Operation) -> Option<Chart> {
    let of: Vec<&&SweepPoint> =
        points.iter().filter(|point| point.operation == operation).collect();
    let whole = of.iter().filter(|point| !point.times.is_empty());
    let ranks = whole.map(|point| point.ranks).max()?;
    let by_ranks = operation == Operation::Barrier;
    let (title, axis) = match by_ranks {
        true => (operation.name().to_owned(), Axis::log2("ranks", Unit::Number)),
        false => {
            let title = format!("{}, {ranks} ranks", operation.name());
            (title, Axis::log2("bytes of a part", Unit::Bytes))
        }
    };
    let mut chart = LineChart::new(title, axis, Axis::log10("time", Unit::Seconds));
    for &algorithm in operation.algorithms() {
        let time = |point: &&&SweepPoint| {
            let timed = point.times.iter().find(|timed| timed.algorithm == algorithm)?;
            let x = if by_ranks { f64::from(point.ranks) } else { point.bytes as f64 };
            Some((x, timed.seconds))
        };
        let shown = of.iter().filter(|point| by_ranks || point.ranks == ranks);
        let line: Vec<(f64, f64)> = shown.filter_map(time).collect();
        if !line.is_empty() {
            chart = chart.with(Series::line(algorithm, line));
        }
    }
    Some(chart.into())
}

#[cfg(test)]
mod tests {
    use super::super::Timed;
    use super::*;

    fn point(bytes: u64, times: [f64; 2], chosen: &'static str) -> SweepPoint {
        let algorithms = ["recursive-doubling", "ring"].into_iter().zip(times);
        SweepPoint {
            machine: "cp-pacs".into(),
            operation: Operation::Allreduce,
            ranks: 8,
            bytes,
            times: algorithms
                .map(|(algorithm, seconds)| Timed { algorithm, seconds, messages: 7 })
                .collect(),
            chosen: Some(chosen),
            abandoned: vec!["two-level"],
        }
    }

    #[test]
    fn wrong_choices_are_listed_worst_first() {
        let points = [
            point(8, [1.0, 2.0], "ring"),
            point(64, [1.0, 9.0], "ring"),
            point(512, [1.0, 2.0], "recursive-doubling"),
            point(1024, [1.0, 1.04], "ring"),
        ];
        let table = losses(&points, 10);
        assert_eq!((table.len(), losses(&points, 1).len()), (2, 1));
        assert!(table.to_csv().lines().nth(1).is_some_and(|line| line.contains(",64,")));
        assert!(summary(&points).starts_with("4 points; of 4 with a choice to judge, 2 are"));
    }

    #[test]
    fn every_run_is_in_the_csv_and_on_the_page() {
        let points = [point(8, [1.0, 2.0], "ring"), point(64, [2.0, 1.0], "ring")];
        let table = runs(&points);
        assert_eq!(table.len(), 6);
        let csv = table.to_csv();
        assert!(csv.contains("chosen, fastest") && csv.contains("abandoned: too much to simulate"));
        let html = page(&points);
        assert!(html.contains("allreduce, 8 ranks") && html.contains("<svg"));
        assert!(page(&[]).contains("0 points"));
    }
}
