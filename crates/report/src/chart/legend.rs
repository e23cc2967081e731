//! The legend above a chart: a sample of each series' mark and its name.

use super::LABEL;
use super::mark::{Colour, marker};
use crate::svg::Svg;
use crate::text::{pixels, shorten};

/// The look of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Sample {
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
pub(super) fn draw(svg: &mut Svg, width: f64, entries: &[(Sample, Colour, &str)]) -> f64 {
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
