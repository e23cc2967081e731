//! Results for people: a table for each kind, and charts of it where a chart says more.
//!
//! Values go to the report crate in base units, which chooses prefixes and writes text, HTML and
//! SVG; nothing here formats a number.

use std::path::{Path, PathBuf};

use hikyaku_report::{Axis, Cell, Chart, LineChart, Page, Series as Line, Table, Unit as Shown};

use super::kinds::{Kind, Unit};
use super::results::{Figure, Results, Series};

/// The kinds in the order in which they are shown.
const KINDS: [Kind; 7] = [
    Kind::Latency,
    Kind::Rate,
    Kind::Bandwidth,
    Kind::Barrier,
    Kind::Start,
    Kind::Memory,
    Kind::Idle,
];

/// A value in the base unit that the report crate shows.
fn base(unit: Unit, value: f64) -> f64 {
    value
        * match unit {
            Unit::Nanoseconds => 1e-9,
            Unit::Microseconds => 1e-6,
            Unit::Milliseconds => 1e-3,
            Unit::MillionsPerSecond => 1e6,
            Unit::GigabytesPerSecond => 1e9,
            Unit::Mebibytes => f64::from(1 << 20),
            Unit::Percent => 1e-2,
        }
}

fn shown(unit: Unit) -> Shown {
    match unit {
        Unit::Nanoseconds | Unit::Microseconds | Unit::Milliseconds => Shown::Seconds,
        Unit::MillionsPerSecond => Shown::PerSecond,
        Unit::GigabytesPerSecond => Shown::BytesPerSecond,
        Unit::Mebibytes => Shown::Bytes,
        Unit::Percent => Shown::Fraction,
    }
}

/// The whole run as text for a terminal.
pub(crate) fn text(results: &Results) -> String {
    let mut out = format!("{}\n", results.machine.line());
    for line in standing(results) {
        out += &line;
        out.push('\n');
    }
    for kind in KINDS {
        let Some(table) = table(results, kind) else { continue };
        out.push('\n');
        out += &table.to_text();
        if let Some(meaning) = meaning(results, kind) {
            out += &meaning;
            out.push('\n');
        }
    }
    out
}

/// Who took part and how near the cores were: the lines under the title.
fn standing(results: &Results) -> Vec<String> {
    let libraries: Vec<&str> =
        results.contestants.iter().map(|contestant| contestant.library.as_str()).collect();
    let mut lines = vec![libraries.join(", ")];
    lines.extend(results.line.as_ref().map(|line| {
        let [first, second] = results.cores;
        let near = Shown::Seconds.format(line.near_nanoseconds * 1e-9);
        let looks = line.near_blocks + line.far_blocks;
        let state = match line.far_nanoseconds {
            None => format!("{near} one way in {looks} measurements"),
            Some(far) => format!(
                "{near} one way in {} measurements, {} in {}: the machine changed its state",
                line.near_blocks,
                Shown::Seconds.format(far * 1e-9),
                line.far_blocks,
            ),
        };
        match first == second {
            true => format!("hand-over between two threads of core {first}: {state}"),
            false => format!("cache line between cores {first} and {second}: {state}"),
        }
    }));
    lines
}

/// What the ratios of a kind mean, in one line.
fn meaning(results: &Results, kind: Kind) -> Option<String> {
    let mut bare: Vec<&str> = Vec::new();
    for description in figures(results, kind).filter_map(|figure| figure.bare_is.as_deref()) {
        if !bare.contains(&description) {
            bare.push(description);
        }
    }
    if bare.is_empty() {
        return None;
    }
    let bare = bare.join("; ");
    let better = if kind.lower_is_better() { "less" } else { "more" };
    Some(format!("bare: {bare}; ratios are medians of ratios block by block, {better} is better"))
}

fn figures(results: &Results, kind: Kind) -> impl Iterator<Item = &Figure> {
    results.figures.iter().filter(move |figure| figure.kind == kind)
}

/// The peers that a kind was compared with, in order of appearance.
fn peers(results: &Results, kind: Kind) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for series in figures(results, kind).flat_map(|figure| &figure.series) {
        for ratio in &series.to_peers {
            if !names.contains(&ratio.peer.as_str()) {
                names.push(&ratio.peer);
            }
        }
    }
    names
}

/// The table of a kind, `None` if nothing of it was measured.
pub(crate) fn table(results: &Results, kind: Kind) -> Option<Table> {
    figures(results, kind).next()?;
    let peers = peers(results, kind);
    let has_bare = figures(results, kind).any(|figure| figure.bare.is_some());
    let has_form = figures(results, kind).flat_map(|f| &f.series).any(|s| !s.form.is_empty());
    let sized = figures(results, kind).any(|figure| figure.bytes.is_some());
    let mut header = vec![if sized { "message" } else { "ranks" }.to_owned(), "library".into()];
    header.extend(has_form.then(|| "form".to_owned()));
    header.extend(["median", "p10", "p90"].map(str::to_owned));
    if has_bare {
        header.extend(["bare", "to bare", "p10", "p90"].map(str::to_owned));
    }
    header.extend(peers.iter().map(|peer| format!("to {peer}")));
    header.push("blocks".into());
    let mut table = Table::new(kind.title(), header);
    for figure in figures(results, kind) {
        for series in &figure.series {
            table.push(row(figure, series, has_bare, has_form, &peers));
        }
    }
    Some(table)
}

fn row(
    figure: &Figure,
    series: &Series,
    has_bare: bool,
    has_form: bool,
    peers: &[&str],
) -> Vec<Cell> {
    let unit = figure.unit;
    let value = |value: Option<f64>| match value {
        Some(value) => Cell::number(base(unit, value), shown(unit)),
        None => Cell::Empty,
    };
    let ratio = |value: Option<f64>| match value {
        Some(value) => Cell::number(value, Shown::Ratio),
        None => Cell::Empty,
    };
    let own = series.value;
    let mut row = vec![
        match figure.bytes {
            Some(bytes) => Cell::number(bytes as f64, Shown::Bytes),
            None => Cell::from(figure.ranks),
        },
        Cell::from(series.contestant.as_str()),
    ];
    row.extend(has_form.then(|| Cell::from(series.form.as_str())));
    row.extend([own.map(|s| s.median), own.map(|s| s.p10), own.map(|s| s.p90)].map(value));
    if has_bare {
        let to_bare = series.to_bare;
        row.push(value(figure.bare.map(|bare| bare.median)));
        row.extend(
            [to_bare.map(|s| s.median), to_bare.map(|s| s.p10), to_bare.map(|s| s.p90)].map(ratio),
        );
    }
    for peer in peers {
        let found = series.to_peers.iter().find(|ratio| ratio.peer == *peer);
        row.push(ratio(found.map(|found| found.ratio.median)));
    }
    row.push(Cell::number(own.map_or(0, |s| s.blocks) as f64, Shown::Number));
    row
}

/// The chart of a kind: over the message size, or over the rank count where that varies.
pub(crate) fn chart(results: &Results, kind: Kind) -> Option<Chart> {
    let unit = figures(results, kind).next()?.unit;
    let x = |figure: &Figure| figure.bytes.map_or(f64::from(figure.ranks), |b| b as f64);
    let drawable = |figure: &&Figure| x(figure) > 0.0;
    let mut places: Vec<u64> =
        figures(results, kind).filter(drawable).map(|f| x(f) as u64).collect();
    places.dedup();
    if places.len() < 2 {
        return None;
    }
    let sized = figures(results, kind).any(|figure| figure.bytes.is_some());
    let across = match sized {
        true => Axis::log2("message size", Shown::Bytes),
        false => Axis::log2("ranks", Shown::Number),
    };
    let mut lines: Vec<Line> = Vec::new();
    let mut bare = Vec::new();
    for figure in figures(results, kind).filter(drawable) {
        bare.extend(figure.bare.map(|summary| (x(figure), base(unit, summary.median))));
        for series in &figure.series {
            let Some(value) = series.value else { continue };
            let name = [series.contestant.as_str(), &series.form].join(" ").trim_end().to_owned();
            let point = (x(figure), base(unit, value.median));
            match lines.iter_mut().find(|line| line.name == name) {
                Some(line) => line.points.push(point),
                None => lines.push(Line::line(name, vec![point])),
            }
        }
    }
    let up = Axis::log10(kind.title(), shown(unit));
    let mut chart = LineChart::new(kind.title(), across, up);
    for line in lines {
        chart = chart.with(line);
    }
    if !bare.is_empty() {
        chart = chart.with(Line::reference("bare hardware", bare));
    }
    Some(chart.into())
}

/// The whole run as a page.
pub(crate) fn html(results: &Results) -> String {
    let mut page = Page::new("hikyaku bench");
    page.lead(&results.machine.line());
    for line in standing(results) {
        page.text(&line);
    }
    for kind in KINDS {
        let Some(table) = table(results, kind) else { continue };
        page.section(kind.title());
        if let Some(chart) = chart(results, kind) {
            page.chart(chart);
        }
        page.table(&table);
        if let Some(meaning) = meaning(results, kind) {
            page.note(&meaning);
        }
    }
    if !results.notes.is_empty() {
        page.section("Notes");
        results.notes.iter().for_each(|note| {
            page.note(note);
        });
    }
    page.to_html()
}

/// The files of a report: one page, or one picture per chart. A single chart has the name given,
/// several have the kind's name before the ending.
pub(crate) fn files(results: &Results, path: &Path) -> Vec<(PathBuf, String)> {
    if path.extension().is_some_and(|end| end == "html") {
        return vec![(path.to_owned(), html(results))];
    }
    let charts: Vec<(Kind, String)> =
        KINDS.into_iter().filter_map(|kind| Some((kind, chart(results, kind)?.to_svg()))).collect();
    let alone = charts.len() == 1;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let name = |kind: Kind| match alone {
        true => path.to_owned(),
        false => path.with_file_name(format!("{stem}-{}.svg", kind.name())),
    };
    charts.into_iter().map(|(kind, svg)| (name(kind), svg)).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::bench::results::tests::example;

    #[test]
    fn the_text_names_who_what_and_the_ratios() {
        let text = text(&example());
        for word in ["hikyaku", "Open MPI", "to bare", "to Open MPI", "8 B", "1 KiB", "290 ns"] {
            assert!(text.contains(word), "{word} is missing in\n{text}");
        }
        assert!(text.lines().all(|line| line.trim_end() == line));
    }

    #[test]
    fn the_state_of_the_machine_is_told() {
        let mut results = example();
        let told = text(&results);
        assert!(told.contains("cache line between cores 0 and 1: 50.0 ns one way in 1"), "{told}");
        assert!(told.contains("240 ns in 1: the machine changed its state"), "{told}");
        results.cores = [0, 0];
        assert!(text(&results).contains("hand-over between two threads of core 0"));
    }

    #[test]
    fn a_contestant_without_a_figure_keeps_its_row() {
        let text = text(&example());
        let rows: Vec<&str> = text.lines().filter(|line| line.contains("MPICH")).collect();
        assert_eq!(rows.len(), 2, "{text}");
        assert!(rows.iter().all(|row| row.ends_with(" 0")), "{text}");
    }

    #[test]
    fn a_page_or_a_picture_is_written_by_the_ending() {
        let page = files(&example(), Path::new("out/bench.html"));
        assert_eq!(page.len(), 1);
        assert!(page[0].1.starts_with("<!doctype html>") && page[0].1.contains("<svg"));
        let picture = files(&example(), Path::new("out/bench.svg"));
        assert_eq!(picture.len(), 1);
        assert_eq!(picture[0].0, Path::new("out/bench.svg"));
        assert!(picture[0].1.starts_with("<svg"));
    }

    #[test]
    fn several_pictures_are_named_after_their_kinds() {
        let mut results = example();
        let mut bandwidth = results.figures.clone();
        bandwidth.iter_mut().for_each(|figure| {
            figure.kind = Kind::Bandwidth;
            figure.unit = Unit::GigabytesPerSecond;
        });
        results.figures.extend(bandwidth);
        let names: Vec<PathBuf> =
            files(&results, Path::new("out/b.svg")).into_iter().map(|(path, _)| path).collect();
        assert_eq!(names, [Path::new("out/b-latency.svg"), Path::new("out/b-bandwidth.svg")]);
    }

    #[test]
    fn nothing_measured_is_nothing_shown() {
        let mut results = example();
        results.figures.clear();
        assert!(table(&results, Kind::Latency).is_none());
        assert!(chart(&results, Kind::Latency).is_none());
        assert!(files(&results, Path::new("b.svg")).is_empty());
    }
}
