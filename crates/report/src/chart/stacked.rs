//! Horizontal bars, one per row, divided into parts with the share of each part. An example is the
//! time of ranks.

use super::axis::{Axis, AxisPlan, ChartFrame, FOOT};
use super::mark::Colour;
use super::{Drawing, LABEL, finish, nothing_to_draw};
use super::{Sample, legend};
use crate::scale::Scale;
use crate::svg::Svg;
use crate::table::{Cell, Table};
use crate::text::{pixels, shorten};
use crate::unit::Unit;

/// A chart of horizontal bars, each divided into the same kinds of part.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StackedBars {
    /// The title.
    pub title: String,
    /// The quantity of a whole bar.
    pub label: String,
    /// The unit of the values.
    pub unit: Unit,
    /// The names of the parts, in the order in which they are stacked.
    pub parts: Vec<String>,
    /// A label and one value per part for each bar, top to bottom.
    pub rows: Vec<(String, Vec<f64>)>,
}

impl StackedBars {
    /// A chart without bars.
    #[must_use]
    pub fn new<P: Into<String>>(
        title: impl Into<String>,
        label: impl Into<String>,
        unit: Unit,
        parts: impl IntoIterator<Item = P>,
    ) -> Self {
        let parts = parts.into_iter().map(Into::into).collect();
        StackedBars { title: title.into(), label: label.into(), unit, parts, rows: Vec::new() }
    }

    /// The chart with one more bar.
    #[must_use]
    pub fn with(mut self, label: impl Into<String>, values: Vec<f64>) -> Self {
        self.rows.push((label.into(), values));
        self
    }

    pub(super) fn to_table(&self) -> Table {
        let header = [String::new()].into_iter().chain(self.parts.iter().cloned());
        let mut table = Table::new(&self.title, header);
        for (label, values) in &self.rows {
            let cell = |p: usize| values.get(p).map(|&v| Cell::number(v, self.unit));
            let cells = (0..self.parts.len()).map(|p| cell(p).unwrap_or_default());
            table.push([Cell::from(label.as_str())].into_iter().chain(cells));
        }
        table
    }

    /// The parts of a bar with a positive length.
    fn lengths<'a>(&'a self, values: &'a [f64]) -> impl Iterator<Item = (usize, f64)> + 'a {
        let known = values.iter().copied().enumerate().take(self.parts.len());
        known.filter(|&(_, value)| value >= 0.0 && Scale::Linear.can_show(value))
    }

    fn total(&self, values: &[f64]) -> f64 {
        self.lengths(values).map(|(_, value)| value).sum()
    }

    pub(super) fn draw(&self, width: f64) -> Drawing {
        let given: usize = self.rows.iter().map(|row| row.1.len().min(self.parts.len())).sum();
        let drawn: usize = self.rows.iter().map(|row| self.lengths(&row.1).count()).sum();
        let omitted = given - drawn;
        let longest = self.rows.iter().map(|row| self.total(&row.1)).fold(0.0, f64::max);
        if drawn == 0 || !Scale::Linear.can_show(longest) {
            return nothing_to_draw(width, omitted);
        }
        let axis = Axis::linear(&self.label, self.unit).from_zero();
        let plan = axis.plan((0.0, longest), (width / 110.0) as usize, false);

        let mut svg = Svg::new();
        let named = self.parts.iter().enumerate();
        let entries: Vec<(Sample, Colour, &str)> =
            named.map(|(i, name)| (Sample::Area, Colour(i), name.as_str())).collect();
        let top = legend(&mut svg, width, &entries) + 4.0;
        let widest = |texts: &mut dyn Iterator<Item = String>| {
            texts.map(|text| pixels(&text, LABEL)).fold(0.0, f64::max)
        };
        let labels = widest(&mut self.rows.iter().map(|row| row.0.clone())).min(width * 0.25);
        let totals = widest(&mut self.rows.iter().map(|row| self.unit.format(self.total(&row.1))));
        // Many bars are drawn thinner, so that a page shows them together.
        let pitch = if self.rows.len() <= 16 { 26.0 } else { 18.0 };
        let frame = ChartFrame {
            left: labels + 10.0,
            right: width - totals - 10.0,
            top,
            bottom: top + pitch * self.rows.len() as f64 + 4.0,
        };
        for (i, (label, values)) in self.rows.iter().enumerate() {
            let y = top + pitch * i as f64;
            let name = shorten(label, LABEL, labels);
            svg.label("name", "end", (frame.left - 10.0, y + pitch / 2.0 + 4.0), &name);
            self.draw_bar(&mut svg, &frame, &plan, (label, values), (y + 2.0, pitch - 4.0));
        }
        frame.draw_lying(&mut svg, &plan);
        finish(svg, width, frame.bottom + FOOT, omitted)
    }

    fn draw_bar(
        &self,
        svg: &mut Svg,
        frame: &ChartFrame,
        plan: &AxisPlan,
        (label, values): (&str, &[f64]),
        (y, height): (f64, f64),
    ) {
        let total = self.total(values);
        let mut before = 0.0;
        for (part, value) in self.lengths(values) {
            let (start, end) = (frame.x(plan, before), frame.x(plan, before + value));
            before += value;
            // An empty total gives a share of zero, not a division by zero.
            let share = if total > 0.0 { value / total } else { 0.0 };
            let share = Unit::Fraction.format_with(share, Some(1));
            let (name, length) = (&self.parts[part], self.unit.format(value));
            svg.element("rect")
                .class(&format!("area {}", Colour(part).class()))
                .xy(start, y)
                .number("width", (end - start - 1.0).max(0.0))
                .number("height", height)
                .tip(&format!("{label}\n{name}: {length} ({share})"));
            if pixels(&share, LABEL) + 10.0 <= end - start {
                svg.label("on-area", "start", (start + 6.0, y + height / 2.0 + 4.0), &share);
            }
        }
        let at = (frame.x(plan, total) + 8.0, y + height / 2.0 + 4.0);
        svg.label("tick", "start", at, &self.unit.format(total));
    }
}
