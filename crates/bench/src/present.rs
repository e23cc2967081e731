//! Results for people: a table for each kind, and charts where a chart shows more.
//!
//! [`rows`] has the charts of the paper's figures, which have two dimensions.
//!
//! Values go to the report crate in base units. It chooses prefixes and writes text, HTML and SVG;
//! nothing here formats a number.

mod rows;
mod units;

use std::path::{Path, PathBuf};

use hikyaku_report::{Axis, Cell, Chart, LineChart, Page, Series as Line, Table, Unit as Shown};

use self::units::{base, shown};
use super::control::DataReuse;
use super::kinds::{FigureKind, FigureUnit};
use super::plan::{Distance, ValueSummary};
use super::results::{BenchResults, ContestantSeries, Figure, OWN, PeerRatio};

/// The whole run as text for a terminal.
pub(crate) fn text(results: &BenchResults) -> String {
    let mut out = format!("{}\n", results.machine.line());
    for line in standing(results) {
        out += &line;
        out.push('\n');
    }
    for kind in FigureKind::all() {
        let Some(table) = table(results, kind) else { continue };
        out.push('\n');
        out += &table.to_text();
        for line in meaning(results, kind) {
            out += &line;
            out.push('\n');
        }
    }
    out
}

/// The contestants and the distance of the cores: the lines under the title.
fn standing(results: &BenchResults) -> Vec<String> {
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
            true => format!("hand-off between two threads of core {first}: {state}"),
            false => format!("cache line between cores {first} and {second}: {state}"),
        }
    }));
    lines
}

/// The meaning of a kind's rows and ratios: the lines under its table.
fn meaning(results: &BenchResults, kind: FigureKind) -> Vec<String> {
    let mut lines: Vec<String> = kind.explanation().map(str::to_owned).into_iter().collect();
    let mut bare: Vec<(&str, Vec<String>)> = Vec::new();
    for figure in results.of(kind) {
        let Some(description) = figure.bare_is.as_deref() else { continue };
        match bare.iter_mut().find(|(known, _)| *known == description) {
            Some((_, places)) if places.contains(&place(figure)) => {}
            Some((_, places)) => places.push(place(figure)),
            None => bare.push((description, vec![place(figure)])),
        }
    }
    match bare.as_slice() {
        [] => return lines,
        [(description, _)] => lines.push(format!("bare: {description}")),
        several => {
            let line = |(description, places): &(&str, Vec<String>)| {
                format!("bare: {description} ({})", places.join("; "))
            };
            lines.extend(several.iter().map(line));
        }
    }
    let better = if kind.lower_is_better() { "less" } else { "more" };
    let several_forms = results.of(kind).any(compares_forms);
    let fastest = if several_forms { ", to a library by its fastest form" } else { "" };
    lines.push(format!("ratios are medians of ratios block by block{fastest}; {better} is better"));
    if kind == FigureKind::Rows {
        lines.extend(rows::verdicts(results));
    }
    lines
}

/// Whether a peer was measured in several forms, none of which is our form.
fn compares_forms(figure: &Figure) -> bool {
    let forms = |peer: &str| figure.series.iter().filter(|s| s.contestant == peer).count();
    figure.series.iter().any(|series| {
        let chosen = |peer: &&PeerRatio| peer.form != series.form && forms(&peer.peer) > 1;
        series.to_peers.iter().any(|peer| chosen(&peer))
    })
}

/// The position of a figure: its ranks and its message size.
fn place(figure: &Figure) -> String {
    let ranks = figure.ranks;
    let bytes = figure.bytes.map(|bytes| Shown::Bytes.format(bytes as f64));
    match (figure.rows, bytes) {
        (Some(rows), Some(bytes)) => format!("{rows} rows of {bytes}"),
        (_, Some(bytes)) => format!("{ranks} ranks, {bytes}"),
        (_, None) => format!("{ranks} ranks"),
    }
}

/// The peers that a kind was compared with, in order of appearance.
fn peers(results: &BenchResults, kind: FigureKind) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for series in results.of(kind).flat_map(|figure| &figure.series) {
        for ratio in &series.to_peers {
            if !names.contains(&ratio.peer.as_str()) {
                names.push(&ratio.peer);
            }
        }
    }
    names
}

/// The table of a kind; `None` if it was not measured.
pub(crate) fn table(results: &BenchResults, kind: FigureKind) -> Option<Table> {
    results.of(kind).next()?;
    let peers = peers(results, kind);
    let has_bare = results.of(kind).any(|figure| figure.bare.is_some());
    let has_form = results.of(kind).flat_map(|f| &f.series).any(|s| !s.form.is_empty());
    let columns = Columns::of(results, kind);
    let has_states = results.of(kind).any(|figure| !figure.states.is_empty());
    let mut header: Vec<String> = Vec::new();
    header.extend(columns.ranks.then(|| "ranks".to_owned()));
    header.extend(columns.rows.then(|| "rows".to_owned()));
    header.extend(columns.bytes.then(|| columns.of_bytes().to_owned()));
    header.extend(columns.data.then(|| "data".to_owned()));
    header.extend(has_states.then(|| "cores".to_owned()));
    header.push(if kind.compares_protocols() { "protocol" } else { "library" }.into());
    header.extend(has_form.then(|| "form".to_owned()));
    header.extend(["median", "p10", "p90"].map(str::to_owned));
    if has_bare {
        header.extend(["bare", "to bare", "p10", "p90"].map(str::to_owned));
    }
    header.extend(peers.iter().map(|peer| format!("to {peer}")));
    header.push("blocks".into());
    let mut table = Table::new(kind.title(), header);
    for figure in results.of(kind) {
        for (cores, bare, all) in standings(figure) {
            for series in all {
                let mut row = columns.cells(figure);
                row.extend(has_states.then(|| Cell::from(cores)));
                row.extend(cells((figure.unit, bare), series, has_bare, has_form, &peers));
                table.push(row);
            }
        }
    }
    Some(table)
}

/// The rows of a figure: all of it, and the values in each state of the machine, if it changed
/// meanwhile; otherwise the state it was in, if it is known to have two.
fn standings(figure: &Figure) -> Vec<(&'static str, Option<ValueSummary>, &[ContestantSeries])> {
    let word = |cores| match cores {
        Distance::Near => "near",
        Distance::Far => "far",
    };
    let all = |cores| (cores, figure.bare, &figure.series[..]);
    match &figure.states[..] {
        [] => vec![all("")],
        [one] if blocks(&one.series) == blocks(&figure.series) => vec![all(word(one.cores))],
        states => {
            let states = states.iter().map(|one| (word(one.cores), one.bare, &one.series[..]));
            std::iter::once(all("all")).chain(states).collect()
        }
    }
}

/// The columns that distinguish the figures of a table. Two ranks are implied beside a size.
struct Columns {
    ranks: bool,
    rows: bool,
    bytes: bool,
    data: bool,
}

impl Columns {
    fn of(results: &BenchResults, kind: FigureKind) -> Columns {
        let bytes = results.of(kind).any(|figure| figure.bytes.is_some());
        let ranks = !bytes || results.of(kind).any(|figure| figure.ranks != 2);
        let rows = results.of(kind).any(|figure| figure.rows.is_some());
        let data = results.of(kind).any(|figure| figure.data.is_some());
        Columns { ranks, rows, bytes, data }
    }

    /// The item that the bytes belong to.
    fn of_bytes(&self) -> &'static str {
        if self.rows { "row" } else { "message" }
    }

    fn cells(&self, figure: &Figure) -> Vec<Cell> {
        let mut cells = Vec::new();
        cells.extend(self.ranks.then(|| Cell::from(figure.ranks)));
        cells.extend(self.rows.then(|| figure.rows.map_or(Cell::Empty, Cell::from)));
        if self.bytes {
            let bytes = figure.bytes.map(|bytes| Cell::number(bytes as f64, Shown::Bytes));
            cells.push(bytes.unwrap_or(Cell::Empty));
        }
        if self.data {
            cells.push(figure.data.map_or(Cell::Empty, |data| Cell::from(data.name())));
        }
        cells
    }
}

/// The number of blocks of each series.
fn blocks(series: &[ContestantSeries]) -> Vec<usize> {
    series.iter().map(|one| one.value.map_or(0, |value| value.blocks)).collect()
}

fn cells(
    (unit, bare): (FigureUnit, Option<ValueSummary>),
    series: &ContestantSeries,
    has_bare: bool,
    has_form: bool,
    peers: &[&str],
) -> Vec<Cell> {
    let value = |value: Option<f64>| match value {
        Some(value) => Cell::number(base(unit, value), shown(unit)),
        None => Cell::Empty,
    };
    let ratio = |value: Option<f64>| match value {
        Some(value) => Cell::number(value, Shown::Ratio),
        None => Cell::Empty,
    };
    let own = series.value;
    let mut row = vec![Cell::from(series.contestant.as_str())];
    row.extend(has_form.then(|| Cell::from(series.form.as_str())));
    row.extend([own.map(|s| s.median), own.map(|s| s.p10), own.map(|s| s.p90)].map(value));
    if has_bare {
        let to_bare = series.to_bare;
        row.push(value(bare.map(|bare| bare.median)));
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

/// The charts of a kind with the suffixes of their names: one over the message size for each rank
/// count and form of data, or one over the rank count if there are no sizes to draw.
pub(crate) fn charts(results: &BenchResults, kind: FigureKind) -> Vec<(String, Chart)> {
    if kind == FigureKind::Rows {
        return rows::charts(results);
    }
    let mut counts: Vec<u32> = results.of(kind).map(|figure| figure.ranks).collect();
    counts.sort_unstable();
    counts.dedup();
    let mut forms: Vec<Option<DataReuse>> = Vec::new();
    for figure in results.of(kind) {
        if !forms.contains(&figure.data) {
            forms.push(figure.data);
        }
    }
    let of = |data: Option<DataReuse>| results.of(kind).filter(move |one| one.data == data);
    // The title names the form even if there is only one.
    let title = |data: Option<DataReuse>| match data {
        Some(data) => format!("{}, {} data", kind.title(), data.name()),
        None => kind.title().to_owned(),
    };
    let suffix = |data: Option<DataReuse>| match data {
        Some(data) if forms.len() > 1 => format!("-{}", data.name()),
        _ => String::new(),
    };
    let over_sizes = |ranks: u32, data: Option<DataReuse>| {
        let (title, suffix) = match counts.len() {
            1 => (title(data), suffix(data)),
            _ => {
                let title = format!("{}, {ranks} ranks", title(data));
                (title, format!("-{ranks}-ranks{}", suffix(data)))
            }
        };
        let figures = of(data).filter(|figure| figure.ranks == ranks);
        let across = Axis::log2("message size", Shown::Bytes);
        Some((suffix, chart(title, across, figures, |figure| figure.bytes.unwrap_or(0))?))
    };
    let pairs = counts.iter().flat_map(|ranks| forms.iter().map(|data| (*ranks, *data)));
    let by_size: Vec<(String, Chart)> =
        pairs.filter_map(|(ranks, data)| over_sizes(ranks, data)).collect();
    if !by_size.is_empty() {
        return by_size;
    }
    let over_ranks = |data: &Option<DataReuse>| {
        let across = Axis::log2("ranks", Shown::Number);
        let ranks = |figure: &Figure| u64::from(figure.ranks);
        Some((suffix(*data), chart(title(*data), across, of(*data), ranks)?))
    };
    forms.iter().filter_map(over_ranks).collect()
}

/// A chart of `figures` over `place`; `None` with fewer than two values above zero.
fn chart<'a>(
    title: String,
    across: Axis,
    figures: impl Iterator<Item = &'a Figure>,
    place: impl Fn(&Figure) -> u64,
) -> Option<Chart> {
    let drawable: Vec<&Figure> = figures.filter(|figure| place(figure) > 0).collect();
    let first = *drawable.first()?;
    if drawable.iter().all(|figure| place(figure) == place(first)) {
        return None;
    }
    let mut lines: Vec<Line> = Vec::new();
    let mut bare = Vec::new();
    for figure in drawable {
        let (x, unit) = (place(figure) as f64, figure.unit);
        bare.extend(figure.bare.map(|summary| (x, base(unit, summary.median))));
        for (name, median) in shown_lines(figure) {
            let point = (x, base(unit, median));
            match lines.iter_mut().find(|line| line.name == name) {
                Some(line) => line.points.push(point),
                None => lines.push(Line::line(name, vec![point])),
            }
        }
    }
    let up = Axis::log10(first.kind.title(), shown(first.unit));
    let mut chart = lines.into_iter().fold(LineChart::new(title, across, up), LineChart::with);
    if !bare.is_empty() {
        chart = chart.with(Line::reference("bare hardware", bare));
    }
    Some(chart.into())
}

/// A figure's lines in a chart: each form of ours, and the fastest form of each other library,
/// since more lines could not be told apart.
fn shown_lines(figure: &Figure) -> Vec<(String, f64)> {
    let mut lines: Vec<(String, f64)> = Vec::new();
    for series in &figure.series {
        let Some(median) = series.value.map(|value| value.median) else { continue };
        let contestant = series.contestant.as_str();
        let forms = figure.series.iter().filter(|other| other.contestant == contestant).count();
        if contestant == OWN || forms == 1 || figure.kind == FigureKind::Memory {
            lines.push(([contestant, &series.form].join(" ").trim_end().to_owned(), median));
            continue;
        }
        let name = format!("{contestant}, fastest form");
        match lines.iter_mut().find(|(known, _)| *known == name) {
            Some((_, best)) if figure.lower_is_better => *best = best.min(median),
            Some((_, best)) => *best = best.max(median),
            None => lines.push((name, median)),
        }
    }
    lines
}

/// The whole run as a page.
pub(crate) fn html(results: &BenchResults) -> String {
    let mut page = Page::new("hikyaku bench");
    page.lead(&results.machine.line());
    for line in standing(results) {
        page.text(&line);
    }
    for kind in FigureKind::all() {
        let Some(table) = table(results, kind) else { continue };
        page.section(kind.title());
        let mut charts: Vec<Chart> = charts(results, kind).into_iter().map(|(_, c)| c).collect();
        match charts.len() {
            1 => charts.drain(..).for_each(|chart| {
                page.chart(chart);
            }),
            _ => {
                page.charts(charts);
            }
        }
        page.table(&table);
        for line in meaning(results, kind) {
            page.note(&line);
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

/// The files of a report: one page, or one picture per chart. A single chart gets the given name,
/// several get the kind's name and the rank count before the extension.
pub(crate) fn files(results: &BenchResults, path: &Path) -> Vec<(PathBuf, String)> {
    if path.extension().is_some_and(|end| end == "html") {
        return vec![(path.to_owned(), html(results))];
    }
    let of_kind = |kind: FigureKind| {
        let charts = charts(results, kind).into_iter();
        charts.map(move |(suffix, chart)| (kind.name(), suffix, chart.to_svg()))
    };
    let charts: Vec<_> = FigureKind::all().flat_map(of_kind).collect();
    let alone = charts.len() == 1;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let name = |kind: &str, suffix: &str| match alone {
        true => path.to_owned(),
        false => path.with_file_name(format!("{stem}-{kind}{suffix}.svg")),
    };
    let named = |(kind, suffix, svg): (&str, String, String)| (name(kind, &suffix), svg);
    charts.into_iter().map(named).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::results::InState;
    use crate::results::tests::example;

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
        assert!(text(&results).contains("hand-off between two threads of core 0"));
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
            figure.kind = FigureKind::Bandwidth;
            figure.unit = FigureUnit::GigabytesPerSecond;
        });
        results.figures.extend(bandwidth);
        let names: Vec<PathBuf> =
            files(&results, Path::new("out/b.svg")).into_iter().map(|(path, _)| path).collect();
        assert_eq!(names, [Path::new("out/b-latency.svg"), Path::new("out/b-bandwidth.svg")]);
    }

    #[test]
    fn figures_of_several_rank_counts_are_told_apart() {
        let mut results = example();
        let mut others = results.figures.clone();
        others.iter_mut().for_each(|figure| {
            figure.ranks = 4;
            figure.bare_is = Some("2 switches of threads".into());
        });
        results.figures.extend(others);
        results.figures.iter_mut().for_each(|figure| figure.kind = FigureKind::Broadcast);
        let told = text(&results);
        let head = told.lines().find(|line| line.contains("library")).unwrap();
        assert!(head.trim_start().starts_with("ranks  message  library"), "{told}");
        assert!(told.contains("bare: one cache line one way (2 ranks, 8 B; 2 ranks, 1 KiB)"));
        assert!(told.contains("bare: 2 switches of threads (4 ranks, 8 B; 4 ranks, 1 KiB)"));
        let names: Vec<PathBuf> =
            files(&results, Path::new("b.svg")).into_iter().map(|(path, _)| path).collect();
        assert_eq!(
            names,
            [Path::new("b-broadcast-2-ranks.svg"), Path::new("b-broadcast-4-ranks.svg")]
        );
    }

    #[test]
    fn rows_of_both_states_stand_below_those_of_all() {
        let mut results = example();
        assert!(!text(&results).contains("cores  library"));
        for figure in &mut results.figures {
            let (bare, series) = (figure.bare, &figure.series);
            let state = |cores| InState { cores, bare, series: series.clone() };
            figure.states = [Distance::Near, Distance::Far].map(state).into();
        }
        let told = text(&results);
        let rows = |cores: &str| {
            let has = |line: &&str| line.split_whitespace().any(|word| word == cores);
            told.lines().filter(has).filter(|line| line.contains("hikyaku")).count()
        };
        assert_eq!((rows("all"), rows("near"), rows("far")), (2, 2, 2), "{told}");
        // One state, with all of the blocks in it.
        let mut figure = results.figures.remove(0);
        let (bare, series) = (figure.bare, figure.series.clone());
        figure.states = vec![InState { cores: Distance::Far, bare, series }];
        assert_eq!(standings(&figure).len(), 1);
        assert_eq!(standings(&figure)[0].0, "far");
    }

    #[test]
    fn a_chart_has_the_fastest_form_of_the_others() {
        let mut figure = example().figures.remove(0);
        let mut slow = figure.series[1].clone();
        slow.form = "blocking".into();
        slow.value.iter_mut().for_each(|value| value.median *= 2.0);
        figure.series.insert(1, slow);
        let fastest = figure.series[2].value.unwrap().median;
        let lines = shown_lines(&figure);
        assert_eq!(lines[0].0, "hikyaku heap");
        assert_eq!(lines[1..], [("Open MPI, fastest form".to_owned(), fastest)]);
        figure.lower_is_better = false;
        assert_eq!(shown_lines(&figure)[1].1, 2.0 * fastest);
    }

    #[test]
    fn each_row_and_each_chart_names_its_form_of_data() {
        let mut results = example();
        let fresh = results.figures.clone();
        results.figures.extend(fresh);
        for (place, figure) in results.figures.iter_mut().enumerate() {
            figure.data = Some(if place < 2 { DataReuse::Fresh } else { DataReuse::Warm });
        }
        let told = text(&results);
        let head = told.lines().find(|line| line.contains("library")).unwrap();
        assert!(head.trim_start().starts_with("message  data   library"), "{told}");
        let rows = |form: &str| {
            let has = |line: &&str| line.contains(form) && line.contains("hikyaku");
            told.lines().filter(has).count()
        };
        assert_eq!((rows(" fresh "), rows(" warm ")), (2, 2), "{told}");
        let names: Vec<PathBuf> =
            files(&results, Path::new("b.svg")).into_iter().map(|(path, _)| path).collect();
        assert_eq!(names, [Path::new("b-latency-fresh.svg"), Path::new("b-latency-warm.svg")]);
        let page = html(&results);
        assert!(page.contains("Latency, one way, warm data"), "{page}");
    }

    #[test]
    fn one_size_is_drawn_over_the_ranks() {
        let mut results = example();
        results.figures.truncate(1);
        results.figures.extend(results.figures.clone());
        results.figures[1].ranks = 8;
        assert_eq!(charts(&results, FigureKind::Latency).len(), 1);
        results.figures.truncate(1);
        assert!(charts(&results, FigureKind::Latency).is_empty());
    }

    #[test]
    fn nothing_measured_is_nothing_shown() {
        let mut results = example();
        results.figures.clear();
        assert!(table(&results, FigureKind::Latency).is_none());
        assert!(charts(&results, FigureKind::Latency).is_empty());
        assert!(files(&results, Path::new("b.svg")).is_empty());
    }
}
