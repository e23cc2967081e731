//! Units of figures as the report crate has them: values in base units, of which it makes text.

use hikyaku_report::Unit as Shown;

use crate::kinds::FigureUnit;

/// A value in the base unit that the report crate shows.
pub(super) fn base(unit: FigureUnit, value: f64) -> f64 {
    value
        * match unit {
            FigureUnit::Nanoseconds => 1e-9,
            FigureUnit::Microseconds => 1e-6,
            FigureUnit::Milliseconds => 1e-3,
            FigureUnit::MillionsPerSecond => 1e6,
            FigureUnit::GigabytesPerSecond => 1e9,
            FigureUnit::Mebibytes => f64::from(1 << 20),
            FigureUnit::Percent => 1e-2,
        }
}

/// What the report crate calls it.
pub(super) fn shown(unit: FigureUnit) -> Shown {
    match unit {
        FigureUnit::Nanoseconds | FigureUnit::Microseconds | FigureUnit::Milliseconds => {
            Shown::Seconds
        }
        FigureUnit::MillionsPerSecond => Shown::PerSecond,
        FigureUnit::GigabytesPerSecond => Shown::BytesPerSecond,
        FigureUnit::Mebibytes => Shown::Bytes,
        FigureUnit::Percent => Shown::Fraction,
    }
}
