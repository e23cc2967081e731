//! Units of figures for the report crate, which formats values in base units.

use hikyaku_report::Unit as Shown;

use crate::kinds::FigureUnit;

/// The value in the base unit of the report crate.
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

/// The report crate's name of the unit.
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
