//! Times along the top: round steps, and labels with as many digits as the step needs.

use crate::unit::Unit;

/// A mark of the ruler: its place, as a share of the window, and its label.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RulerMark {
    pub(super) at: f64,
    pub(super) label: String,
}

/// About `count` marks on a window of seconds.
pub(super) fn marks((start, end): (f64, f64), count: u32) -> Vec<RulerMark> {
    let length = end - start;
    if length.partial_cmp(&0.0) != Some(std::cmp::Ordering::Greater) || !length.is_finite() {
        return Vec::new();
    }
    let step = round_step(length / f64::from(count.max(1)));
    let prefix = Unit::Seconds.prefix(end);
    let digits = (-(step / prefix.factor).log10()).ceil().clamp(0.0, 9.0) as usize;
    // A whole number of steps may be a rounding error above itself.
    let first = (start / step - 1e-6).ceil().max(0.0) as u64;
    let label = |time: f64| format!("{:.digits$} {}", time / prefix.factor, prefix.symbol);
    (first..first + u64::from(count) * 3)
        .map(|number| number as f64 * step)
        .take_while(|time| *time <= end + step * 1e-6)
        .map(|time| RulerMark { at: (time - start) / length, label: label(time) })
        .collect()
}

/// The smallest 1, 2 or 5 times a power of ten that is not below `least`.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    let fits = factors.into_iter().find(|factor| factor * power >= least * (1.0 - 1e-9));
    fits.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_say_what_they_are() {
        let labels: Vec<String> = marks((0.0, 10e-6), 5).into_iter().map(|m| m.label).collect();
        assert_eq!(labels, ["0 µs", "2 µs", "4 µs", "6 µs", "8 µs", "10 µs"]);
        let fine = marks((1.0e-3, 1.001e-3), 4);
        assert!(fine.iter().all(|mark| (0.0..=1.0001).contains(&mark.at)), "{fine:?}");
        assert_eq!(fine[1].label, "1.0005 ms");
    }

    #[test]
    fn windows_without_length_have_no_marks() {
        for window in [(0.0, 0.0), (1.0, 0.5), (f64::NAN, 1.0), (0.0, f64::INFINITY)] {
            assert!(marks(window, 8).is_empty(), "{window:?}");
        }
    }
}
