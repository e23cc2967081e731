//! The charts of paper 001's Figs. 9 to 12, and the checks of their claims.
//!
//! ```text
//!   Fig. 9, 10   time over the bytes of a row, for the fewest and the most rows
//!   Fig. 11, 12  time over the number of rows, for rows of 4 and 16 KiB
//! ```
//!
//! Axes are linear and begin at zero, as in the paper, so that proportional values are on a
//! straight line. The claims are FG-17, that the protocols that store directly are faster than
//! `udp` in every cell, and FG-18, that what they save grows with the number of rows.

use hikyaku::shared::Protocol;
use hikyaku_report::{Axis, Chart, LineChart, Series as Line, Unit as Shown};

use super::units::{base, shown};
use crate::kinds::FigureKind;
use crate::results::{BenchResults, Figure};

/// Bytes of a row in Figs. 11 and 12.
const SIZES: [u64; 2] = [4 << 10, 16 << 10];

fn cells(results: &BenchResults) -> Vec<&Figure> {
    results.of(FigureKind::Rows).collect()
}

/// The median of a protocol, in its figure's unit.
fn median(figure: &Figure, protocol: Protocol) -> Option<f64> {
    let own = figure.series.iter().find(|series| series.contestant == protocol.name())?;
    own.value.map(|value| value.median)
}

/// The paper's charts of the cells that were measured: the suffix of a file's name, and the chart.
pub(super) fn charts(results: &BenchResults) -> Vec<(String, Chart)> {
    let cells = cells(results);
    let counts = cells.iter().filter_map(|cell| cell.rows);
    let ends = [counts.clone().min(), counts.max()];
    let [fewest, most] = ends.map(|end| end.unwrap_or(0));
    let over_sizes = |(number, rows): (u32, u32)| {
        let title = format!("{rows} rows (Fig. {number})");
        let of = cells.iter().copied().filter(|cell| cell.rows == Some(rows));
        let across = Axis::linear("bytes of a row", Shown::Bytes).from_zero();
        let chart = chart(title, across, of, |cell| cell.bytes.unwrap_or(0) as f64)?;
        Some((format!("-{rows}-rows"), chart))
    };
    let over_rows = |(number, bytes): (u32, u64)| {
        let size = Shown::Bytes.format(bytes as f64);
        let title = format!("Rows of {size} (Fig. {number})");
        let of = cells.iter().copied().filter(|cell| cell.bytes == Some(bytes));
        let across = Axis::linear("rows", Shown::Number).from_zero();
        let chart = chart(title, across, of, |cell| f64::from(cell.rows.unwrap_or(0)))?;
        Some((format!("-of-{bytes}"), chart))
    };
    let sizes = [(9, fewest), (10, most)].into_iter().filter_map(over_sizes);
    let rows = [(11, SIZES[0]), (12, SIZES[1])].into_iter().filter_map(over_rows);
    let mut charts: Vec<(String, Chart)> = sizes.chain(rows).collect();
    charts.dedup_by(|one, other| one.0 == other.0);
    charts
}

/// A line for each protocol; `None` with fewer than two places.
fn chart<'a>(
    title: String,
    across: Axis,
    cells: impl Iterator<Item = &'a Figure>,
    place: impl Fn(&Figure) -> f64,
) -> Option<Chart> {
    let cells: Vec<&Figure> = cells.collect();
    if cells.len() < 2 {
        return None;
    }
    let up = Axis::linear("time of a round", shown(cells[0].unit)).from_zero();
    let line = |protocol: Protocol| {
        let point = |cell: &&Figure| {
            median(cell, protocol).map(|median| (place(cell), base(cell.unit, median)))
        };
        Line::line(protocol.name(), cells.iter().filter_map(point).collect())
    };
    let chart = Protocol::ALL.map(line).into_iter();
    let mut chart = chart.fold(LineChart::new(title, across, up), LineChart::with);
    let bare = |cell: &&Figure| cell.bare.map(|bare| (place(cell), base(cell.unit, bare.median)));
    let bare: Vec<(f64, f64)> = cells.iter().filter_map(bare).collect();
    if !bare.is_empty() {
        chart = chart.with(Line::reference("bare hardware", bare));
    }
    Some(chart.into())
}

/// In how many cells each protocol was faster, and how the time saved grows with the rows.
pub(super) fn verdicts(results: &BenchResults) -> Vec<String> {
    let cells = cells(results);
    let faster = |protocol: Protocol| {
        let pairs = cells
            .iter()
            .filter_map(|cell| Some((median(cell, protocol)?, median(cell, Protocol::Udp)?)));
        let pairs: Vec<(f64, f64)> = pairs.collect();
        let won = pairs.iter().filter(|(own, udp)| own < udp).count();
        format!("{protocol} in {won} of {} cells", pairs.len())
    };
    let mut lines = vec![format!(
        "faster than udp (FG-17): {}, {}",
        faster(Protocol::Direct),
        faster(Protocol::Fagus)
    )];
    for bytes in SIZES {
        for protocol in [Protocol::Direct, Protocol::Fagus] {
            lines.extend(growth(&cells, bytes, protocol));
        }
    }
    lines
}

/// The gap between a protocol and `udp` by the number of rows, as multiples of the first one.
fn growth(cells: &[&Figure], bytes: u64, protocol: Protocol) -> Option<String> {
    let gap = |cell: &&&Figure| {
        let gap = median(cell, Protocol::Udp)? - median(cell, protocol)?;
        Some((cell.rows?, gap))
    };
    let mut of_size = cells.iter().filter(|cell| cell.bytes == Some(bytes));
    let mut gaps: Vec<(u32, f64)> = of_size.by_ref().filter_map(|cell| gap(&cell)).collect();
    gaps.sort_unstable_by_key(|(rows, _)| *rows);
    let (fewest, first) = *gaps.first().filter(|(_, gap)| *gap > 0.0)?;
    if gaps.len() < 2 {
        return None;
    }
    let told = gaps.iter().map(|(rows, gap)| {
        let expected = f64::from(*rows) / f64::from(fewest);
        format!("{:.1} at {expected:.0} times as many", gap / first)
    });
    let told = told.skip(1).collect::<Vec<_>>().join(", ");
    let size = Shown::Bytes.format(bytes as f64);
    Some(format!("what {protocol} saves of rows of {size} (FG-18), by that of {fewest}: {told}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::kinds::FigureUnit;
    use crate::results::tests::{entry, example};
    use crate::results::{FormBlocks, summarise};

    /// Times of a round, from `per_row` of each protocol.
    fn results(counts: &[u32], sizes: &[u64], per_row: [f64; 3]) -> BenchResults {
        let mut results = example();
        let figure = results.figures[0].clone();
        let cell = |rows: u32, bytes: u64| {
            let by = |at: usize| {
                let value = f64::from(rows) * (per_row[at] + bytes as f64 * 1e-6);
                let entry = entry(Protocol::ALL[at].name(), true, &[(value, 1.0)]);
                FormBlocks { place: at as u8, form: "", ..entry }
            };
            let (bare, series) = summarise(&[by(0), by(1), by(2)], true);
            let (rows, bytes) = (Some(rows), Some(bytes));
            let (kind, unit) = (FigureKind::Rows, FigureUnit::Milliseconds);
            Figure { kind, unit, rows, bytes, bare, series, ..figure.clone() }
        };
        let all = counts.iter().flat_map(|rows| sizes.iter().map(|bytes| cell(*rows, *bytes)));
        results.figures = all.collect();
        results
    }

    #[test]
    fn the_verdict_counts_cells_and_says_how_the_gap_grows() {
        let sizes = [4 << 10, 16 << 10, 32 << 10];
        let told = verdicts(&results(&[1024, 2048, 8192], &sizes, [1.0, 2.0, 5.0]));
        assert_eq!(
            told[0],
            "faster than udp (FG-17): direct in 9 of 9 cells, fagus in 9 of 9 cells"
        );
        assert_eq!(told.len(), 5);
        let growth = "what direct saves of rows of 4 KiB (FG-18), by that of 1024: 2.0 at 2 times \
                      as many, 8.0 at 8 times as many";
        assert_eq!(told[1], growth);
        let told = verdicts(&results(&[1024], &sizes, [1.0, 6.0, 5.0]));
        assert_eq!(
            told,
            ["faster than udp (FG-17): direct in 3 of 3 cells, fagus in 0 of 3 cells"]
        );
    }

    #[test]
    fn charts_are_those_of_the_papers_figures() {
        let sizes = [4 << 10, 8 << 10, 16 << 10];
        let names = |counts: &[u32], sizes: &[u64]| {
            let charts = charts(&results(counts, sizes, [1.0, 2.0, 5.0]));
            charts.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        let all = ["-1024-rows", "-8192-rows", "-of-4096", "-of-16384"];
        assert_eq!(names(&[1024, 4096, 8192], &sizes), all);
        assert_eq!(names(&[1024], &sizes), all[..1]);
        assert_eq!(names(&[1024, 2048], &[4 << 10]), all[2..3]);
        assert_eq!(names(&[1024], &[8]), [] as [&str; 0]);
        let drawn = charts(&results(&[1024, 8192], &sizes, [1.0, 2.0, 5.0]));
        let svg = drawn[0].1.to_svg();
        for word in ["1024 rows (Fig. 9)", "direct", "fagus", "udp", "bare hardware"] {
            assert!(svg.contains(word), "{word}");
        }
    }

    #[test]
    fn the_table_has_rows_and_protocols() {
        let results = results(&[1024], &[4 << 10], [1.0, 2.0, 5.0]);
        let told = super::super::text(&results);
        let head = told.lines().find(|line| line.contains("protocol")).unwrap();
        assert!(head.trim_start().starts_with("rows"), "{told}");
        for word in ["to fagus", "to udp", "1024 rows of 4 KiB", "direct"] {
            assert!(told.contains(word) || word.contains("rows of"), "{word}: {told}");
        }
    }
}
