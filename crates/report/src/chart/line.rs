//! Lines and points over two axes, each linear or logarithmic.

use super::axis::{Axis, AxisPlan, ChartFrame, FOOT, HEAD};
use super::mark::{Colour, marker, path, thin};
use super::{Drawing, LABEL, extent, finish, nothing_to_draw};
use super::{Sample, legend};
use crate::svg::Svg;
use crate::table::{Cell, Table};
use crate::text::bold_pixels;

/// The form of a [`Series`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SeriesStyle {
    /// A line in the order of the points, with markers while there are few.
    #[default]
    Line,
    /// Points only.
    Scatter,
    /// A grey dashed line for comparison with the others.
    Reference,
    /// Rings in the colour of the text: single values from a publication.
    Printed,
}

/// A named sequence of points.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Series {
    /// The name in the legend; empty for none.
    pub name: String,
    /// `(x, y)` in the base units of the axes. A point that cannot be drawn breaks the line.
    pub points: Vec<(f64, f64)>,
    /// The form.
    pub style: SeriesStyle,
    /// The lowest and highest value that each point may have, drawn as a band behind the line.
    /// Empty, or as long as `points`.
    pub band: Vec<(f64, f64)>,
}

impl Series {
    /// A line.
    #[must_use]
    pub fn line(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Series { name: name.into(), points, ..Series::default() }
    }

    /// Points without a line.
    #[must_use]
    pub fn scatter(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Series { style: SeriesStyle::Scatter, ..Series::line(name, points) }
    }

    /// Values from a publication, such as those that a paper prints.
    #[must_use]
    pub fn printed(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Series { style: SeriesStyle::Printed, ..Series::line(name, points) }
    }

    /// A line for comparison with the others, such as the bare hardware.
    #[must_use]
    pub fn reference(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Series { style: SeriesStyle::Reference, ..Series::line(name, points) }
    }
}

/// A chart of lines or points.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LineChart {
    /// The title.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The data. Colours follow the position; references and printed values do not count.
    pub series: Vec<Series>,
}

/// A line with more points than this has no markers: they would touch.
const MOST_MARKERS: usize = 64;
/// A line with more points than this is drawn thin, so that its peaks stay visible.
const MOST_BOLD: usize = 400;
/// Up to this many series are named at the ends of their lines; more need a legend.
const MOST_DIRECT: usize = 4;
/// The distance of two lines of text.
const LEADING: f64 = 15.0;

/// A series split at points that cannot be drawn, in the values of the axes.
struct Runs<'a> {
    series: &'a Series,
    colour: Colour,
    runs: Vec<&'a [(f64, f64)]>,
}

impl Runs<'_> {
    fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        self.runs.iter().flat_map(|run| run.iter().copied())
    }

    fn count(&self) -> usize {
        self.runs.iter().map(|run| run.len()).sum()
    }

    fn sample(&self) -> Sample {
        match self.series.style {
            SeriesStyle::Line => Sample::Line,
            SeriesStyle::Scatter | SeriesStyle::Printed => Sample::Points,
            SeriesStyle::Reference => Sample::Dashes,
        }
    }
}

impl LineChart {
    /// A chart without data.
    #[must_use]
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        LineChart { title: title.into(), x, y, series: Vec::new() }
    }

    /// The chart with one more series.
    #[must_use]
    pub fn with(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }

    /// One row per x if all lines have the same x values, otherwise one row per point. Printed
    /// values are beside the lines, or in rows of their own where no line has a point.
    pub(super) fn to_table(&self) -> Table {
        let x_of = |series: &Series| -> Vec<u64> {
            series.points.iter().map(|point| point.0.to_bits()).collect()
        };
        let printed = |series: &&Series| series.style == SeriesStyle::Printed;
        let lines: Vec<&Series> = self.series.iter().filter(|series| !printed(series)).collect();
        if !lines.windows(2).all(|pair| x_of(pair[0]) == x_of(pair[1])) {
            return self.to_list();
        }
        let name = |axis: &Axis| axis.label.clone();
        let title = |s: &Series| if s.name.is_empty() { name(&self.y) } else { s.name.clone() };
        let mut header = vec![name(&self.x)];
        for series in &self.series {
            header.push(title(series));
            if !series.band.is_empty() {
                header.extend(["lowest", "highest"].map(|end| format!("{end} {}", title(series))));
            }
        }
        let mut table = Table::new(&self.title, header);
        // The x of each row, and the index of that point in every line.
        let points = lines.first().map_or(&[][..], |line| &line.points);
        let mut rows: Vec<(f64, Option<usize>)> =
            points.iter().enumerate().map(|(place, point)| (point.0, Some(place))).collect();
        let more = self.series.iter().filter(printed).flat_map(|series| &series.points);
        for (x, _) in more {
            if !rows.iter().any(|row| row.0 == *x) {
                let place = rows.iter().position(|row| row.0 > *x).unwrap_or(rows.len());
                rows.insert(place, (*x, None));
            }
        }
        for (x, place) in rows {
            let mut row = vec![Cell::number(x, self.x.unit)];
            for series in &self.series {
                let place = match series.style {
                    SeriesStyle::Printed => series.points.iter().position(|point| point.0 == x),
                    _ => place,
                };
                let y = |y: Option<f64>| y.map_or(Cell::Empty, |y| Cell::number(y, self.y.unit));
                row.push(y(place.map(|place| series.points[place].1)));
                if !series.band.is_empty() {
                    let band = place.and_then(|place| series.band.get(place));
                    row.extend([y(band.map(|band| band.0)), y(band.map(|band| band.1))]);
                }
            }
            table.push(row);
        }
        table
    }

    /// One row per point.
    fn to_list(&self) -> Table {
        let name = |axis: &Axis| axis.label.clone();
        let mut table =
            Table::new(&self.title, ["series".to_owned(), name(&self.x), name(&self.y)]);
        for series in &self.series {
            for (x, y) in &series.points {
                let [x, y] = [Cell::number(*x, self.x.unit), Cell::number(*y, self.y.unit)];
                table.push([Cell::from(series.name.as_str()), x, y]);
            }
        }
        table
    }

    pub(super) fn draw(&self, width: f64) -> Drawing {
        let shown = self.runs();
        let total: usize = self.series.iter().map(|series| series.points.len()).sum();
        let omitted = total - shown.iter().map(Runs::count).sum::<usize>();
        let x_range = extent(shown.iter().flat_map(Runs::points).map(|p| p.0));
        let y_range = extent(
            shown.iter().flat_map(Runs::points).map(|p| p.1).chain(
                // The bounds of the bands that the axis can show.
                self.series
                    .iter()
                    .flat_map(|series| series.band.iter().flat_map(|band| [band.0, band.1]))
                    .filter(|y| self.y.scale.can_show(*y)),
            ),
        );
        let (Some(x_range), Some(y_range)) = (x_range, y_range) else {
            return nothing_to_draw(width, omitted);
        };
        let height = (width * 0.38).clamp(220.0, 300.0);
        let y = self.y.plan(y_range, 5, true);
        let left = y.label_width() + 10.0;
        // Lines run to the edges. Points at the edges would lie on the frame, so the ends are
        // rounded.
        let marks =
            |series: &Series| matches!(series.style, SeriesStyle::Scatter | SeriesStyle::Printed);
        let round_ends = self.series.iter().any(marks);
        let pitch = if round_ends { 48.0 } else { 80.0 };
        let x = self.x.plan(x_range, ((width - left) / pitch) as usize, round_ends);

        let mut svg = Svg::new();
        let named: Vec<&Runs<'_>> = shown.iter().filter(|s| !s.series.name.is_empty()).collect();
        let direct = end_labels(&named, &x, &y, width, height);
        let top = if direct.is_some() { 0.0 } else { draw_legend(&mut svg, width, &named) } + HEAD;
        let margin = direct.as_ref().map_or(24.0, |labels| labels.margin);
        let frame = ChartFrame { left, right: width - margin, top, bottom: top + height };
        frame.draw_upright(&mut svg, &y);
        frame.draw_lying(&mut svg, &x);
        for series in &shown {
            self.draw_band(&mut svg, &frame, (&x, &y), series);
        }
        let references = |s: &&Runs<'_>| s.series.style == SeriesStyle::Reference;
        for series in shown.iter().filter(references).chain(shown.iter().filter(|s| !references(s)))
        {
            self.draw_series(&mut svg, &frame, (&x, &y), series);
        }
        for (series, offset) in direct.iter().flat_map(|labels| &labels.offsets) {
            let class = match series.series.style {
                SeriesStyle::Reference => "name muted".to_owned(),
                _ => format!("name ink {}", series.colour.class()),
            };
            let at = (frame.right + 10.0, frame.top + offset + 4.0);
            svg.label(&class, "start", at, &series.series.name);
        }
        finish(svg, width, frame.bottom + FOOT, omitted)
    }

    /// The drawable runs of each series, and its colour.
    fn runs(&self) -> Vec<Runs<'_>> {
        let can_show = |p: &(f64, f64)| self.x.scale.can_show(p.0) && self.y.scale.can_show(p.1);
        let mut next = 0;
        let split = |series| {
            let Series { points, style, .. }: &Series = series;
            let colour = match style {
                SeriesStyle::Reference => Colour::REFERENCE,
                SeriesStyle::Printed => Colour::PRINTED,
                _ => Colour(next),
            };
            next += usize::from(!matches!(style, SeriesStyle::Reference | SeriesStyle::Printed));
            let runs = points.chunk_by(|a, b| can_show(a) == can_show(b));
            Runs { series, colour, runs: runs.filter(|run| can_show(&run[0])).collect() }
        };
        self.series.iter().map(split).collect()
    }

    /// Draws the band behind a line: along its upper edge and back along the lower one.
    fn draw_band(
        &self,
        svg: &mut Svg,
        frame: &ChartFrame,
        (x, y): (&AxisPlan, &AxisPlan),
        shown: &Runs<'_>,
    ) {
        let edge = |end: fn(&(f64, f64)) -> f64| {
            let points = shown.series.points.iter().zip(&shown.series.band);
            let points = points.map(move |(point, band)| (point.0, end(band)));
            points.filter(|p| self.x.scale.can_show(p.0) && self.y.scale.can_show(p.1))
        };
        let (high, low) = (edge(|band| band.1), edge(|band| band.0).collect::<Vec<_>>());
        let outline = high.chain(low.into_iter().rev());
        let outline: Vec<_> = outline.map(|p| (frame.x(x, p.0), frame.y(y, p.1))).collect();
        if !outline.is_empty() {
            let class = format!("band {}", shown.colour.class());
            let band = svg.element("path").class(&class).attr("d", &(path(&outline) + "Z"));
            band.tip(&format!("{}: from the lowest to the highest", shown.series.name));
        }
    }

    fn draw_series(
        &self,
        svg: &mut Svg,
        frame: &ChartFrame,
        plans: (&AxisPlan, &AxisPlan),
        shown: &Runs<'_>,
    ) {
        let place = |p: &(f64, f64)| (frame.x(plans.0, p.0), frame.y(plans.1, p.1));
        let style = shown.series.style;
        if !matches!(style, SeriesStyle::Scatter | SeriesStyle::Printed) {
            let fine = if shown.count() > MOST_BOLD { " fine" } else { "" };
            let class = format!("line {}{fine}", shown.colour.class());
            for run in shown.runs.iter().filter(|run| run.len() > 1) {
                let points = thin(run.iter().map(place).collect());
                let line = svg.element("path").class(&class).attr("d", &path(&points));
                line.tip(&self.describe(shown));
            }
        }
        for run in &shown.runs {
            let marked = match style {
                SeriesStyle::Scatter | SeriesStyle::Printed => true,
                SeriesStyle::Line => shown.count() <= MOST_MARKERS || run.len() == 1,
                SeriesStyle::Reference => run.len() == 1,
            };
            for point in run.iter().filter(|_| marked) {
                let (x, y) = (self.x.unit.format(point.0), self.y.unit.format(point.1));
                let tip =
                    format!("{}\n{}: {x}\n{}: {y}", shown.series.name, self.x.label, self.y.label);
                marker(svg, shown.colour, place(point)).tip(tip.trim_start());
            }
        }
    }

    /// A description of a line: the number of points and the range of values.
    fn describe(&self, shown: &Runs<'_>) -> String {
        let (low, high) = extent(shown.points().map(|p| p.1)).unwrap_or_default();
        let name = if shown.series.name.is_empty() { &self.y.label } else { &shown.series.name };
        let (low, high) = (self.y.unit.format(low), self.y.unit.format(high));
        format!("{name}: {} points from {low} to {high}", shown.count())
    }
}

fn draw_legend<'a>(svg: &mut Svg, width: f64, named: &[&'a Runs<'a>]) -> f64 {
    let entry = |shown: &Runs<'a>| (shown.sample(), shown.colour, shown.series.name.as_str());
    let entries: Vec<(Sample, Colour, &str)> = named.iter().map(|s| entry(s)).collect();
    legend(svg, width, &entries)
}

/// Names set at the right ends of their lines.
struct EndLabels<'a> {
    /// The width that the names need right of the plot.
    margin: f64,
    /// Each series and the height of its name, from the top of the plot.
    offsets: Vec<(&'a Runs<'a>, f64)>,
}

/// The end labels, if names can be set at the line ends: few lines, short names, and all lines end
/// at the right.
fn end_labels<'a>(
    named: &[&'a Runs<'a>],
    x: &AxisPlan,
    y: &AxisPlan,
    width: f64,
    height: f64,
) -> Option<EndLabels<'a>> {
    let longest = named.iter().map(|s| bold_pixels(&s.series.name, LABEL)).fold(0.0, f64::max);
    if named.is_empty() || named.len() > MOST_DIRECT || longest > width * 0.22 {
        return None;
    }
    let mut offsets = Vec::new();
    for shown in named {
        let last = shown.runs.last()?.last()?;
        let at_edge = x.domain.position(last.0) > 0.97;
        if matches!(shown.series.style, SeriesStyle::Scatter | SeriesStyle::Printed) || !at_edge {
            return None;
        }
        offsets.push((*shown, (1.0 - y.domain.position(last.1)) * height));
    }
    offsets.sort_by(|a, b| a.1.total_cmp(&b.1));
    // Push overlapping names down. Then push those that leave the plot at the bottom up again.
    for i in 1..offsets.len() {
        offsets[i].1 = offsets[i].1.max(offsets[i - 1].1 + LEADING);
    }
    let mut below = height + LEADING;
    for (_, offset) in offsets.iter_mut().rev() {
        *offset = offset.min(below - LEADING);
        below = *offset;
    }
    Some(EndLabels { margin: longest + 16.0, offsets })
}
