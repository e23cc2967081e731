//! Bandwidth: windows of large messages, from the heap and from allocated memory.
//!
//! The ranks run the non-blocking windows of the rate benchmark with other sizes, fresh and warm.
//! The window shrinks with the size, so that a block of the slowest contestant still holds several
//! windows.

use super::{Bare, FigureKind, MeasuredForm, MeasuredPoint};
use crate::arguments::BenchSettings;
use crate::control::Verb;
use crate::kinds::rate;

const SIZES: [u64; 5] = [1 << 10, 16 << 10, 64 << 10, 1 << 20, 4 << 20];

/// The most bytes of a window, unless two messages are longer.
const WINDOW_BYTES: u64 = 16 << 20;

/// One point per size; a size of zero has no bandwidth and is left to latency.
pub(crate) fn points(settings: &BenchSettings) -> Vec<MeasuredPoint> {
    let sizes = if settings.sizes.is_empty() { &SIZES[..] } else { &settings.sizes };
    let point = |bytes: &u64| MeasuredPoint {
        window: window(*bytes),
        ours: vec![
            MeasuredForm::heap("heap", Verb::Isend),
            MeasuredForm::allocated("allocated", Verb::Isend),
        ],
        theirs: vec![MeasuredForm::heap("heap", Verb::Isend)],
        ..MeasuredPoint::new(FigureKind::Bandwidth, 2, *bytes, Bare::CopyRate)
    };
    sizes.iter().filter(|bytes| **bytes > 0).map(point).collect()
}

fn window(bytes: u64) -> u32 {
    let fitting = (WINDOW_BYTES / bytes.max(1)).clamp(2, u64::from(rate::WINDOW));
    u32::try_from(fitting).unwrap_or(rate::WINDOW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_shrinks_with_the_size() {
        let windows = [1, 1 << 10, 1 << 20, 4 << 20, 1 << 30].map(window);
        assert_eq!(windows, [64, 64, 16, 4, 2]);
    }
}
