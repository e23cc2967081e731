//! Vertical bars, grouped by category. They start at zero, because the length of a bar is its
//! meaning. So there is no logarithmic form.

use super::axis::{Axis, AxisPlan, ChartFrame, FOOT_LABELS, HEAD};
use super::mark::Colour;
use super::{Drawing, LABEL, extent, finish, nothing_to_draw};
use super::{Sample, legend};
use crate::scale::Scale;
use crate::svg::Svg;
use crate::table::{Cell, Table};
use crate::text::{pixels, wrap};
use crate::unit::Unit;

/// A chart of grouped bars.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BarChart {
    /// The title.
    pub title: String,
    /// The measured quantity.
    pub label: String,
    /// The unit of the values.
    pub unit: Unit,
    /// The groups, left to right.
    pub categories: Vec<String>,
    /// One bar per group: a name and a value per category. NaN stands for a missing bar.
    pub series: Vec<(String, Vec<f64>)>,
}

/// The size of the numbers above bars.
const SMALL: f64 = 11.0;
const CATEGORY_LINES: usize = 2;

impl BarChart {
    /// A chart without data.
    #[must_use]
    pub fn new<C: Into<String>>(
        title: impl Into<String>,
        label: impl Into<String>,
        unit: Unit,
        categories: impl IntoIterator<Item = C>,
    ) -> Self {
        let categories = categories.into_iter().map(Into::into).collect();
        BarChart { title: title.into(), label: label.into(), unit, categories, series: Vec::new() }
    }

    /// The chart with one more bar in every group.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, values: Vec<f64>) -> Self {
        self.series.push((name.into(), values));
        self
    }

    /// The value of a bar; NaN if the series is shorter than the categories.
    fn value(&self, series: usize, category: usize) -> f64 {
        self.series[series].1.get(category).copied().unwrap_or(f64::NAN)
    }

    pub(super) fn to_table(&self) -> Table {
        let names = self.series.iter().map(|(name, _)| name.clone());
        let mut table = Table::new(&self.title, [String::new()].into_iter().chain(names));
        for (c, category) in self.categories.iter().enumerate() {
            let number = |s| Cell::number(self.value(s, c), self.unit);
            let values = (0..self.series.len()).map(number);
            table.push([Cell::from(category.as_str())].into_iter().chain(values));
        }
        table
    }

    pub(super) fn draw(&self, width: f64) -> Drawing {
        let shown = |v: &f64| Scale::Linear.can_show(*v);
        let all: Vec<f64> = (0..self.series.len())
            .flat_map(|s| (0..self.categories.len()).map(move |c| self.value(s, c)))
            .collect();
        let omitted = all.iter().filter(|v| !shown(v)).count();
        let Some(range) = extent(all.iter().copied().filter(shown)) else {
            return nothing_to_draw(width, omitted);
        };
        let axis = Axis::linear(&self.label, self.unit).from_zero();
        let plan = axis.plan(range, 5, true);

        let mut svg = Svg::new();
        let top = self.legend(&mut svg, width) + HEAD;
        let left = plan.label_width() + 10.0;
        let height = (width * 0.3).clamp(170.0, 240.0);
        let frame = ChartFrame { left, right: width - 1.0, top, bottom: top + height };
        frame.draw_upright(&mut svg, &plan);
        for category in 0..self.categories.len() {
            self.draw_group(&mut svg, &frame, &plan, category);
        }
        let zero = frame.y(&plan, 0.0);
        svg.line("axis", (frame.left, zero), (frame.right, zero));
        let lines = self.draw_categories(&mut svg, &frame);
        let bottom = frame.bottom + FOOT_LABELS + 15.0 * (lines.max(1) - 1) as f64;
        finish(svg, width, bottom, omitted)
    }

    fn legend(&self, svg: &mut Svg, width: f64) -> f64 {
        if self.series.len() < 2 {
            return 0.0;
        }
        let named = self.series.iter().enumerate();
        let entries: Vec<(Sample, Colour, &str)> =
            named.map(|(i, (name, _))| (Sample::Area, Colour(i), name.as_str())).collect();
        legend(svg, width, &entries)
    }

    fn slot(&self, frame: &ChartFrame) -> f64 {
        (frame.right - frame.left) / self.categories.len() as f64
    }

    fn draw_group(&self, svg: &mut Svg, frame: &ChartFrame, plan: &AxisPlan, category: usize) {
        let slot = self.slot(frame);
        // A bar is at most 64 pixels wide: wider ones say no more.
        let pitch = (slot * 0.76 / self.series.len() as f64).min(64.0);
        let group = pitch * self.series.len() as f64;
        let start = frame.left + slot * category as f64 + (slot - group) / 2.0;
        let zero = frame.y(plan, 0.0);
        for (s, (name, _)) in self.series.iter().enumerate() {
            let value = self.value(s, category);
            let x = start + pitch * s as f64;
            if !Scale::Linear.can_show(value) {
                svg.label("small muted", "middle", (x + pitch / 2.0, zero - 5.0), "n/a");
                continue;
            }
            let (text, y) = (self.unit.format(value), frame.y(plan, value));
            let gap = (pitch * 0.08).min(2.0);
            svg.element("rect")
                .class(&format!("area {}", Colour(s).class()))
                .xy(x + gap / 2.0, y.min(zero))
                .number("width", pitch - gap)
                .number("height", (y - zero).abs())
                .tip(format!("{name}\n{}: {text}", self.categories[category]).trim_start());
            let number = plan.write(value);
            if pixels(&number, SMALL) <= pitch + 4.0 {
                let above = if value < 0.0 { y + 13.0 } else { y - 5.0 };
                svg.label("small", "middle", (x + pitch / 2.0, above), &number);
            }
        }
    }

    /// Draws the names of the groups. Returns the number of lines of the longest name.
    fn draw_categories(&self, svg: &mut Svg, frame: &ChartFrame) -> usize {
        let slot = self.slot(frame);
        let mut most = 1;
        for (c, category) in self.categories.iter().enumerate() {
            let x = frame.left + slot * (c as f64 + 0.5);
            let lines = wrap(category, LABEL, slot - 6.0, CATEGORY_LINES);
            for (i, line) in lines.iter().enumerate() {
                svg.label("name", "middle", (x, frame.bottom + 18.0 + 15.0 * i as f64), line);
            }
            most = most.max(lines.len());
        }
        most
    }
}
