//! A diagram: places joined by lines, such as a network. A place with a label is a circle, any
//! other a square.

use super::{Drawing, LABEL, finish, nothing_to_draw};
use crate::svg::Svg;
use crate::table::{Cell, Table};
use crate::text::pixels;

/// A place of a diagram.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DiagramPlace {
    /// The horizontal position: 0 is left, 1 is right.
    pub x: f64,
    /// The vertical position: 0 is the top, 1 is the bottom.
    pub y: f64,
    /// Its text; empty for a plain square.
    pub label: String,
}

/// Places and the lines between them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Diagram {
    /// The title.
    pub title: String,
    /// The places. A place whose coordinates are not finite is omitted together with its lines.
    pub places: Vec<DiagramPlace>,
    /// The lines, as pairs of indices into `places`. A line with an invalid index is omitted.
    pub lines: Vec<(usize, usize)>,
}

/// Half the side of a square. A circle is as large as its label needs.
const SQUARE: f64 = 4.0;
const MARGIN: f64 = 22.0;

impl Diagram {
    /// One row per line.
    pub(super) fn to_table(&self) -> Table {
        let mut table = Table::new(&self.title, ["from", "to"]);
        let name = |index: usize| match self.places.get(index) {
            Some(place) if !place.label.is_empty() => Cell::from(place.label.as_str()),
            _ => Cell::from(format!("#{index}")),
        };
        for &(from, to) in &self.lines {
            table.push([name(from), name(to)]);
        }
        table
    }

    pub(super) fn draw(&self, width: f64) -> Drawing {
        let shown = |place: &&DiagramPlace| place.x.is_finite() && place.y.is_finite();
        let omitted = self.places.len() - self.places.iter().filter(shown).count();
        if omitted == self.places.len() {
            return nothing_to_draw(width, omitted);
        }
        let height = (width * 0.62).round();
        let at = |place: &DiagramPlace| {
            let scale = |part: f64, whole: f64| MARGIN + part.clamp(0.0, 1.0) * whole;
            (scale(place.x, width - 2.0 * MARGIN), scale(place.y, height - 2.0 * MARGIN))
        };
        let mut svg = Svg::new();
        for &(from, to) in &self.lines {
            let ends = (self.places.get(from), self.places.get(to));
            if let (Some(from), Some(to)) = (ends.0.filter(shown), ends.1.filter(shown)) {
                svg.line("axis", at(from), at(to));
            }
        }
        let radius =
            self.places.iter().map(|place| pixels(&place.label, LABEL)).fold(0.0, f64::max);
        let radius = (radius / 2.0 + 3.0).max(2.0 * SQUARE);
        for place in self.places.iter().filter(shown) {
            let (x, y) = at(place);
            if place.label.is_empty() {
                let corner = (x - SQUARE, y - SQUARE);
                let square = svg.element("rect").class("mark c1").xy(corner.0, corner.1);
                square.number("width", 2.0 * SQUARE).number("height", 2.0 * SQUARE).empty();
                continue;
            }
            let circle = svg.element("circle").class("mark c0").number("cx", x).number("cy", y);
            circle.number("r", radius).empty();
            svg.label("on-area", "middle", (x, y + 4.0), &place.label);
        }
        finish(svg, width, height, omitted)
    }
}
