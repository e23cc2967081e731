//! Marks: the colour and shape of a series, and lines with many points.

use crate::svg::{Svg, SvgElement};
use crate::text::coordinate;

/// The index of a series in the palette. The palette has six colours, then the same six dashed.
/// Shapes cycle independently, so that twelve series can be told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Colour(pub(super) usize);

impl Colour {
    /// The grey of reference series.
    pub(super) const REFERENCE: Colour = Colour(usize::MAX);
    /// The ink of published values.
    pub(super) const PRINTED: Colour = Colour(usize::MAX - 1);

    pub(super) fn class(self) -> String {
        if self == Colour::REFERENCE {
            return "reference".to_owned();
        }
        if self == Colour::PRINTED {
            return "printed".to_owned();
        }
        let dashed = if self.0 / 6 % 2 == 1 { " dashed" } else { "" };
        format!("c{}{dashed}", self.0 % 6)
    }
}

/// The marker of a series at a point, of equal visual weight for every shape.
pub(super) fn marker(svg: &mut Svg, colour: Colour, (x, y): (f64, f64)) -> SvgElement<'_> {
    let class = format!("mark {}", colour.class());
    if colour == Colour::PRINTED {
        let circle = svg.element("circle").class(&class);
        return circle.number("cx", x).number("cy", y).number("r", 6.0);
    }
    let shape: &[(f64, f64)] = match colour.0 % 6 {
        0 => {
            let circle = svg.element("circle").class(&class);
            return circle.number("cx", x).number("cy", y).number("r", 3.6);
        }
        1 => &[(-3.2, -3.2), (3.2, -3.2), (3.2, 3.2), (-3.2, 3.2)],
        2 => &[(0.0, -4.6), (4.6, 0.0), (0.0, 4.6), (-4.6, 0.0)],
        3 => &[(0.0, -4.4), (4.2, 3.2), (-4.2, 3.2)],
        4 => &[(0.0, 4.4), (4.2, -3.2), (-4.2, -3.2)],
        _ => &[(-4.4, 0.0), (3.2, -4.2), (3.2, 4.2)],
    };
    let outline: Vec<(f64, f64)> = shape.iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
    svg.element("path").class(&class).attr("d", &(path(&outline) + "Z"))
}

/// The path data of a line through `points`.
pub(super) fn path(points: &[(f64, f64)]) -> String {
    let mut d = String::with_capacity(points.len() * 12);
    for (i, &(x, y)) in points.iter().enumerate() {
        d.push(if i == 0 { 'M' } else { 'L' });
        coordinate(&mut d, x);
        d.push(' ');
        coordinate(&mut d, y);
    }
    d
}

/// Reduces the points of a line without changing its picture. Where many points of ascending x fall
/// on one pixel column, only the first, lowest, highest and last are kept. So a million steps
/// become a few thousand points, peaks included.
pub(super) fn thin(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let ascending = points.windows(2).all(|pair| pair[0].0 <= pair[1].0);
    if points.len() < 2000 || !ascending {
        return points;
    }
    let mut kept = Vec::new();
    for column in points.chunk_by(|a, b| a.0.floor() == b.0.floor()) {
        let by_height = |a: &usize, b: &usize| column[*a].1.total_cmp(&column[*b].1);
        let last = column.len() - 1;
        let lowest = (0..=last).min_by(by_height).unwrap_or(0);
        let highest = (0..=last).max_by(by_height).unwrap_or(0);
        let mut indices = [0, lowest, highest, last];
        indices.sort_unstable();
        for (i, &index) in indices.iter().enumerate() {
            if i == 0 || indices[i - 1] != index {
                kept.push(column[index]);
            }
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_ends_and_peaks() {
        let mut points: Vec<(f64, f64)> =
            (0..100_000).map(|i| (f64::from(i) / 200.0, 1.0)).collect();
        points[54_321].1 = 9.0;
        let thinned = thin(points.clone());
        assert!(thinned.len() <= 4 * 501, "{}", thinned.len());
        assert_eq!(thinned.first(), points.first());
        assert_eq!(thinned.last(), points.last());
        assert!(thinned.contains(&(54_321.0 / 200.0, 9.0)));
    }

    #[test]
    fn short_or_folded_lines_are_left_alone() {
        let folded: Vec<(f64, f64)> = (0..5000).map(|i| (f64::from(i % 7), 0.0)).collect();
        assert_eq!(thin(folded.clone()), folded);
        assert_eq!(thin(vec![(0.0, 1.0)]), [(0.0, 1.0)]);
        assert_eq!(path(&[]), "");
    }
}
