//! Axes: their quantities, and their drawing around a plot.

use super::LABEL;
use crate::scale::{DomainRequest, Scale, ScaleDomain};
use crate::svg::Svg;
use crate::text::{pixels, shorten};
use crate::unit::Unit;

/// One axis of a chart: its quantity and its scale.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Axis {
    /// The measured quantity, without its unit.
    pub label: String,
    /// The unit of the values.
    pub unit: Unit,
    /// The spacing of the values.
    pub scale: Scale,
    /// Whether a linear axis shows zero even if the data is far from it.
    pub from_zero: bool,
}

impl Axis {
    /// A linear axis around the data.
    #[must_use]
    pub fn linear(label: impl Into<String>, unit: Unit) -> Self {
        Axis { label: label.into(), unit, ..Axis::default() }
    }

    /// A logarithmic axis with ticks at powers of ten.
    #[must_use]
    pub fn log10(label: impl Into<String>, unit: Unit) -> Self {
        Axis { scale: Scale::Log10, ..Axis::linear(label, unit) }
    }

    /// A logarithmic axis with ticks at powers of two: message sizes, rank counts.
    #[must_use]
    pub fn log2(label: impl Into<String>, unit: Unit) -> Self {
        Axis { scale: Scale::Log2, ..Axis::linear(label, unit) }
    }

    /// The axis with zero in it, for quantities whose size matters more than their variation.
    #[must_use]
    pub fn from_zero(mut self) -> Self {
        self.from_zero = true;
        self
    }

    /// Decides the domain, the ticks and their labels for data between `low` and `high`.
    pub(super) fn plan(&self, (low, high): (f64, f64), ticks: usize, round_ends: bool) -> AxisPlan {
        let from_zero = self.from_zero && self.scale == Scale::Linear;
        let (low, high) = if from_zero { (low.min(0.0), high.max(0.0)) } else { (low, high) };
        let factor = self.unit.axis_prefix(low.abs().max(high.abs())).factor;
        let domain = ScaleDomain::new(
            DomainRequest { scale: self.scale, factor, ticks, round_ends },
            low,
            high,
        );
        let (labels, symbol) = if domain.even {
            self.unit.even_ticks(&domain.ticks)
        } else {
            (domain.ticks.iter().map(|&tick| self.unit.tick(tick)).collect(), "")
        };
        let title = match (self.label.as_str(), symbol) {
            (label, "") => label.to_owned(),
            ("", symbol) => symbol.to_owned(),
            (label, "k") => format!("{label} (thousands)"),
            (label, "M") => format!("{label} (millions)"),
            (label, "G") => format!("{label} (billions)"),
            (label, symbol) => format!("{label} ({symbol})"),
        };
        AxisPlan { domain, labels, title, unit: self.unit, largest: low.abs().max(high.abs()) }
    }
}

/// An axis that is ready to be drawn.
#[derive(Debug)]
pub(super) struct AxisPlan {
    pub(super) domain: ScaleDomain,
    labels: Vec<String>,
    title: String,
    unit: Unit,
    largest: f64,
}

impl AxisPlan {
    /// The written form of a value beside the axis: in its prefix, without the symbol.
    pub(super) fn write(&self, value: f64) -> String {
        self.unit.on_axis(value, self.largest)
    }

    /// The width of the labels of a vertical axis.
    pub(super) fn label_width(&self) -> f64 {
        self.labels.iter().map(|label| pixels(label, LABEL)).fold(0.0, f64::max)
    }
}

/// The rectangle in which data is drawn; `bottom > top`.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChartFrame {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

/// The room above a plot for the title of its vertical axis.
pub(super) const HEAD: f64 = 26.0;
/// The room below a plot: for the labels of the horizontal axis, and for labels and title.
pub(super) const FOOT_LABELS: f64 = 24.0;
pub(super) const FOOT: f64 = 44.0;

impl ChartFrame {
    pub(super) fn x(&self, plan: &AxisPlan, value: f64) -> f64 {
        self.left + plan.domain.position(value) * (self.right - self.left)
    }

    pub(super) fn y(&self, plan: &AxisPlan, value: f64) -> f64 {
        self.bottom - plan.domain.position(value) * (self.bottom - self.top)
    }

    /// Draws the vertical axis: grid lines, labels, and the title above the plot. The title is
    /// horizontal, so that it is easy to read.
    pub(super) fn draw_upright(&self, svg: &mut Svg, plan: &AxisPlan) {
        for (&tick, label) in plan.domain.ticks.iter().zip(&plan.labels) {
            let y = self.y(plan, tick);
            svg.line("grid", (self.left, y), (self.right, y));
            svg.label("tick", "end", (self.left - 8.0, y + 4.0), label);
        }
        let title = shorten(&plan.title, LABEL, self.right);
        svg.label("axis-title", "start", (0.0, self.top - 14.0), &title);
    }

    /// Draws the horizontal axis below the plot. Omits labels that would touch.
    pub(super) fn draw_lying(&self, svg: &mut Svg, plan: &AxisPlan) {
        svg.line("axis", (self.left, self.bottom), (self.right, self.bottom));
        let mut free_from = f64::NEG_INFINITY;
        for (&tick, label) in plan.domain.ticks.iter().zip(&plan.labels) {
            let x = self.x(plan, tick);
            svg.line("axis", (x, self.bottom), (x, self.bottom + 4.0));
            let half = pixels(label, LABEL) / 2.0;
            if x - half >= free_from {
                svg.label("tick", "middle", (x, self.bottom + 18.0), label);
                free_from = x + half + 8.0;
            }
        }
        let title = shorten(&plan.title, LABEL, self.right - self.left);
        let middle = (self.left + self.right) / 2.0;
        svg.label("axis-title", "middle", (middle, self.bottom + 37.0), &title);
    }
}
