//! Charts: data and axes in, SVG out.
//!
//! Each kind draws itself into a [`Drawing`] of a given width. This module adds what all kinds
//! share (the root element, the title, the style, the text of an empty chart). Colours are CSS
//! variables in a palette that stays distinct under colour blindness. Every series also has its own
//! marker or dash, so no meaning depends on colour alone.

mod axis;
mod bar;
mod diagram;
mod line;
mod mark;
mod stacked;
mod style;

pub use axis::Axis;
pub use bar::BarChart;
pub use diagram::{Diagram, DiagramPlace};
pub use line::{LineChart, Series, SeriesStyle};
pub use stacked::StackedBars;
pub(crate) use style::{STYLE, of_file as style_of_file};

use crate::svg::Svg;
use crate::table::Table;
use crate::text::{pixels, shorten, wrap};
use mark::{Colour, marker};

/// The width of a chart over the page's full width, in CSS pixels.
pub(crate) const FULL_WIDTH: f64 = 800.0;

/// The width of one of two charts side by side.
pub(crate) const HALF_WIDTH: f64 = 384.0;

/// The size of labels in pixels, as in `chart.css`.
const LABEL: f64 = 12.0;
const TITLE: f64 = 15.0;

/// Any chart.
#[derive(Debug, Clone, PartialEq)]
pub enum Chart {
    /// Lines or points over two axes.
    Line(LineChart),
    /// Groups of upright bars.
    Bars(BarChart),
    /// Horizontal bars made of parts.
    Stacked(StackedBars),
    /// Places joined by lines.
    Diagram(Diagram),
}

impl From<LineChart> for Chart {
    fn from(chart: LineChart) -> Self {
        Chart::Line(chart)
    }
}

impl From<BarChart> for Chart {
    fn from(chart: BarChart) -> Self {
        Chart::Bars(chart)
    }
}

impl From<Diagram> for Chart {
    fn from(diagram: Diagram) -> Self {
        Chart::Diagram(diagram)
    }
}

impl From<StackedBars> for Chart {
    fn from(chart: StackedBars) -> Self {
        Chart::Stacked(chart)
    }
}

impl From<&Chart> for Chart {
    fn from(chart: &Chart) -> Self {
        chart.clone()
    }
}

/// The body of a chart, without root element and title.
#[derive(Debug)]
struct Drawing {
    body: String,
    height: f64,
}

impl Chart {
    /// The title.
    #[must_use]
    pub fn title(&self) -> &str {
        match self {
            Chart::Line(chart) => &chart.title,
            Chart::Bars(chart) => &chart.title,
            Chart::Stacked(chart) => &chart.title,
            Chart::Diagram(chart) => &chart.title,
        }
    }

    /// The chart as a standalone SVG file, with its title and style inside. Its colours are
    /// literal, so that every viewer draws them. Browsers on a dark screen use the dark colours.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let drawing = self.draw(FULL_WIDTH);
        let lines = wrap(self.title(), TITLE, FULL_WIDTH, 3);
        let head = if self.title().is_empty() { 0.0 } else { 20.0 * lines.len() as f64 + 10.0 };
        let margin = 16.0;
        let (width, height) = (FULL_WIDTH + 2.0 * margin, drawing.height + head + 2.0 * margin);

        let mut svg = Svg::new();
        svg.element("svg")
            .attr("xmlns", "http://www.w3.org/2000/svg")
            .attr("viewBox", &format!("0 0 {width} {}", height.ceil()))
            .number("width", width)
            .number("height", height.ceil())
            .class("chart")
            .attr("role", "img")
            .attr("aria-label", self.title())
            .open();
        svg.append("<style>");
        svg.append(&style_of_file(""));
        svg.append("</style>");
        svg.element("rect").class("paper").attr("width", "100%").attr("height", "100%").empty();
        if head > 0.0 {
            for (i, line) in lines.iter().enumerate() {
                svg.label("title", "start", (margin, margin + 14.0 + 20.0 * i as f64), line);
            }
        }
        svg.element("g")
            .attr("transform", &format!("translate({margin} {})", margin + head))
            .open();
        svg.append(&drawing.body);
        svg.finish()
    }

    /// The chart as an SVG element of a page, which holds the title and the style.
    pub(crate) fn to_inline_svg(&self, width: f64) -> String {
        let drawing = self.draw(width);
        let mut svg = Svg::new();
        svg.element("svg")
            .attr("viewBox", &format!("0 0 {width} {}", drawing.height.ceil()))
            .class("chart")
            .attr("role", "img")
            .attr("aria-label", self.title())
            .open();
        svg.append(&drawing.body);
        svg.finish()
    }

    /// The data of the chart as a table, for readers who want the numbers.
    #[must_use]
    pub fn to_table(&self) -> Table {
        match self {
            Chart::Line(chart) => chart.to_table(),
            Chart::Bars(chart) => chart.to_table(),
            Chart::Stacked(chart) => chart.to_table(),
            Chart::Diagram(chart) => chart.to_table(),
        }
    }

    fn draw(&self, width: f64) -> Drawing {
        match self {
            Chart::Line(chart) => chart.draw(width),
            Chart::Bars(chart) => chart.draw(width),
            Chart::Stacked(chart) => chart.draw(width),
            Chart::Diagram(chart) => chart.draw(width),
        }
    }
}

/// The smallest and largest of `values`; `None` if there are none.
fn extent(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |range, value| match range {
        None => Some((value, value)),
        Some((low, high)) => Some((low.min(value), high.max(value))),
    })
}

/// The drawing of a chart without data: a frame and a text that says so.
fn nothing_to_draw(width: f64, omitted: usize) -> Drawing {
    let mut svg = Svg::new();
    svg.element("rect")
        .class("frame")
        .xy(0.5, 0.5)
        .number("width", width - 1.0)
        .number("height", 95.0)
        .empty();
    svg.label("muted", "middle", (width / 2.0, 52.0), "No data to draw");
    finish(svg, width, 96.0, omitted)
}

/// Finishes a drawing. Adds a line with the number of omitted values, if any.
fn finish(mut svg: Svg, width: f64, height: f64, omitted: usize) -> Drawing {
    if omitted == 0 {
        return Drawing { body: svg.finish(), height };
    }
    let values = if omitted == 1 { "1 value".to_owned() } else { format!("{omitted} values") };
    let note = format!("{values} not drawn: not finite, or off the scale.");
    let lines = wrap(&note, LABEL, width, 2);
    for (i, line) in lines.iter().enumerate() {
        svg.label("muted", "start", (0.0, height + 18.0 + 16.0 * i as f64), line);
    }
    Drawing { body: svg.finish(), height: height + 8.0 + 16.0 * lines.len() as f64 }
}

/// The look of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Sample {
    Line,
    Points,
    Dashes,
    Area,
}

const ROW: f64 = 20.0;
const GAP: f64 = 6.0;
const LONGEST_NAME: f64 = 260.0;

impl Sample {
    fn width(self) -> f64 {
        match self {
            Sample::Line | Sample::Dashes => 24.0,
            Sample::Points | Sample::Area => 12.0,
        }
    }
}

/// Draws the entries in rows of at most `width`, from the top, and returns the height.
fn legend(svg: &mut Svg, width: f64, entries: &[(Sample, Colour, &str)]) -> f64 {
    if entries.is_empty() {
        return 0.0;
    }
    let (mut x, mut y) = (0.0, 12.0);
    for &(sample, colour, name) in entries {
        let before = sample.width() + GAP;
        let name = shorten(name, LABEL, LONGEST_NAME.min(width - before));
        let advance = before + pixels(&name, LABEL) + 18.0;
        if x > 0.0 && x + advance - 18.0 > width {
            (x, y) = (0.0, y + ROW);
        }
        draw_sample(svg, sample, colour, (x, y - 4.0));
        svg.label("name", "start", (x + before, y), &name);
        x += advance;
    }
    y + 12.0
}

fn draw_sample(svg: &mut Svg, sample: Sample, colour: Colour, (x, y): (f64, f64)) {
    let (middle, end) = (x + sample.width() / 2.0, x + sample.width());
    match sample {
        Sample::Area => svg
            .element("rect")
            .class(&format!("area {}", colour.class()))
            .xy(x, y - 6.0)
            .number("width", 12.0)
            .number("height", 12.0)
            .empty(),
        Sample::Dashes => svg.line(&format!("line {}", colour.class()), (x, y), (end, y)),
        Sample::Line | Sample::Points => {
            if sample == Sample::Line {
                svg.line(&format!("line {}", colour.class()), (x, y), (end, y));
            }
            marker(svg, colour, (middle, y)).empty();
        }
    }
}

#[cfg(test)]
mod tests;
