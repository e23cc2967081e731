//! Lines and points over two axes, each linear or logarithmic.

use super::axis::{Axis, AxisPlan, FOOT, Frame, HEAD};
use super::legend::{self, Sample};
use super::mark::{Colour, marker, path, thin};
use super::{Drawing, LABEL, extent, finish, nothing_to_draw};
use crate::svg::Svg;
use crate::table::{Cell, Table};
use crate::text::pixels;

/// The form of a [`Series`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Style {
    /// A line in the order of the points, with markers while there are few.
    #[default]
    Line,
    /// Points only.
    Scatter,
    /// A grey dashed line, with which the others are compared.
    Reference,
}

/// A named sequence of points.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Series {
    /// The name in the legend; empty for none.
    pub name: String,
    /// `(x, y)` in the base units of the axes. A point that cannot be drawn breaks the line.
    pub points: Vec<(f64, f64)>,
    /// Its form.
    pub style: Style,
}

impl Series {
    /// A line.
    #[must_use]
    pub fn line(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Series { name: name.into(), points, style: Style::Line }
    }

    /// Points without a line.
    #[must_use]
    pub fn scatter(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Series { style: Style::Scatter, ..Series::line(name, points) }
    }

    /// A line that the others are compared with, such as the bare hardware.
    #[must_use]
    pub fn reference(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Series { style: Style::Reference, ..Series::line(name, points) }
    }
}

/// A chart of lines or points.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LineChart {
    /// The title.
    pub title: String,
    /// The lying axis.
    pub x: Axis,
    /// The upright axis.
    pub y: Axis,
    /// The data; colours go by position, references not counted.
    pub series: Vec<Series>,
}

/// Above this many points a line has no markers: they would touch.
const MOST_MARKERS: usize = 64;
/// Above this many points a line is drawn thin, so that its ups and downs stay visible.
const MOST_BOLD: usize = 400;
/// Up to this many series are named at their ends; more need a legend.
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
            Style::Line => Sample::Line,
            Style::Scatter => Sample::Points,
            Style::Reference => Sample::Dashes,
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

    /// One row per x if all series have the same, one per point otherwise.
    pub(super) fn to_table(&self) -> Table {
        let x_of = |series: &Series| -> Vec<u64> {
            series.points.iter().map(|point| point.0.to_bits()).collect()
        };
        let shared = self.series.windows(2).all(|pair| x_of(&pair[0]) == x_of(&pair[1]));
        let name = |axis: &Axis| axis.label.clone();
        let x = |point: &(f64, f64)| Cell::number(point.0, self.x.unit);
        let y = |point: &(f64, f64)| Cell::number(point.1, self.y.unit);
        if shared {
            let title = |s: &Series| if s.name.is_empty() { name(&self.y) } else { s.name.clone() };
            let header = [name(&self.x)].into_iter().chain(self.series.iter().map(title));
            let mut table = Table::new(&self.title, header);
            let rows = self.series.first().map_or(0, |series| series.points.len());
            for i in 0..rows {
                let values = self.series.iter().map(|series| y(&series.points[i]));
                table.push([x(&self.series[0].points[i])].into_iter().chain(values));
            }
            return table;
        }
        let mut table =
            Table::new(&self.title, ["series".to_owned(), name(&self.x), name(&self.y)]);
        for series in &self.series {
            for point in &series.points {
                table.push([Cell::from(series.name.as_str()), x(point), y(point)]);
            }
        }
        table
    }

    pub(super) fn draw(&self, width: f64) -> Drawing {
        let shown = self.runs();
        let total: usize = self.series.iter().map(|series| series.points.len()).sum();
        let omitted = total - shown.iter().map(Runs::count).sum::<usize>();
        let x_range = extent(shown.iter().flat_map(Runs::points).map(|p| p.0));
        let y_range = extent(shown.iter().flat_map(Runs::points).map(|p| p.1));
        let (Some(x_range), Some(y_range)) = (x_range, y_range) else {
            return nothing_to_draw(width, omitted);
        };
        let height = (width * 0.38).clamp(220.0, 300.0);
        let y = self.y.plan(y_range, 5, true);
        let left = y.label_width() + 10.0;
        // Lines run to the edges; points would lie on them.
        let round_ends = self.series.iter().any(|series| series.style == Style::Scatter);
        let pitch = if round_ends { 48.0 } else { 80.0 };
        let x = self.x.plan(x_range, ((width - left) / pitch) as usize, round_ends);

        let mut svg = Svg::new();
        let named: Vec<&Runs<'_>> = shown.iter().filter(|s| !s.series.name.is_empty()).collect();
        let direct = end_labels(&named, &x, &y, width, height);
        let top = if direct.is_some() { 0.0 } else { draw_legend(&mut svg, width, &named) } + HEAD;
        let margin = direct.as_ref().map_or(24.0, |labels| labels.margin);
        let frame = Frame { left, right: width - margin, top, bottom: top + height };
        frame.draw_upright(&mut svg, &y);
        frame.draw_lying(&mut svg, &x);
        let references = |s: &&Runs<'_>| s.series.style == Style::Reference;
        for series in shown.iter().filter(references).chain(shown.iter().filter(|s| !references(s)))
        {
            self.draw_series(&mut svg, &frame, (&x, &y), series);
        }
        for (series, offset) in direct.iter().flat_map(|labels| &labels.offsets) {
            let class = match series.series.style {
                Style::Reference => "name muted".to_owned(),
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
                Style::Reference => Colour::REFERENCE,
                _ => Colour(next),
            };
            next += usize::from(*style != Style::Reference);
            let runs = points.chunk_by(|a, b| can_show(a) == can_show(b));
            Runs { series, colour, runs: runs.filter(|run| can_show(&run[0])).collect() }
        };
        self.series.iter().map(split).collect()
    }

    fn draw_series(
        &self,
        svg: &mut Svg,
        frame: &Frame,
        plans: (&AxisPlan, &AxisPlan),
        shown: &Runs<'_>,
    ) {
        let place = |p: &(f64, f64)| (frame.x(plans.0, p.0), frame.y(plans.1, p.1));
        let style = shown.series.style;
        if style != Style::Scatter {
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
                Style::Scatter => true,
                Style::Line => shown.count() <= MOST_MARKERS || run.len() == 1,
                Style::Reference => run.len() == 1,
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
    legend::draw(svg, width, &entries)
}

/// Names set at the right ends of their lines.
struct EndLabels<'a> {
    /// The width that they need right of the plot.
    margin: f64,
    /// Each series and the height of its name, from the top of the plot.
    offsets: Vec<(&'a Runs<'a>, f64)>,
}

/// The end labels, if names can be set there: few lines, short names, all lines ending at the
/// right.
fn end_labels<'a>(
    named: &[&'a Runs<'a>],
    x: &AxisPlan,
    y: &AxisPlan,
    width: f64,
    height: f64,
) -> Option<EndLabels<'a>> {
    let longest = named.iter().map(|s| pixels(&s.series.name, LABEL)).fold(0.0, f64::max);
    if named.is_empty() || named.len() > MOST_DIRECT || longest > width * 0.22 {
        return None;
    }
    let mut offsets = Vec::new();
    for shown in named {
        let last = shown.runs.last()?.last()?;
        let at_edge = x.domain.position(last.0) > 0.97;
        if shown.series.style == Style::Scatter || !at_edge {
            return None;
        }
        offsets.push((*shown, (1.0 - y.domain.position(last.1)) * height));
    }
    offsets.sort_by(|a, b| a.1.total_cmp(&b.1));
    // Push overlapping names down, then push up the ones that leave the plot at the bottom.
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
