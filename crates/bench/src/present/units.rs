//! Units of figures as the report crate has them: values in base units, of which it makes text.

use hikyaku_report::Unit as Shown;

use crate::kinds::Unit;

/// A value in the base unit that the report crate shows.
pub(super) fn base(unit: Unit, value: f64) -> f64 {
    value
        * match unit {
            Unit::Nanoseconds => 1e-9,
            Unit::Microseconds => 1e-6,
            Unit::Milliseconds => 1e-3,
            Unit::MillionsPerSecond => 1e6,
            Unit::GigabytesPerSecond => 1e9,
            Unit::Mebibytes => f64::from(1 << 20),
            Unit::Percent => 1e-2,
        }
}

/// What the report crate calls it.
pub(super) fn shown(unit: Unit) -> Shown {
    match unit {
        Unit::Nanoseconds | Unit::Microseconds | Unit::Milliseconds => Shown::Seconds,
        Unit::MillionsPerSecond => Shown::PerSecond,
        Unit::GigabytesPerSecond => Shown::BytesPerSecond,
        Unit::Mebibytes => Shown::Bytes,
        Unit::Percent => Shown::Fraction,
    }
}
