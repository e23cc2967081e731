//! Points and spans of time on a fabric's clock.
//!
//! One integer type serves the real fabrics (monotonic clock) and the simulated one (virtual time),
//! so traces of both have the same form. The unit is the picosecond: the cycle of a modelled clock
//! of 240 MHz is not a whole number of nanoseconds, and 2^64 ps are still 213 days.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// A point in time or a span of it, in picoseconds since the fabric was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The moment when the fabric was opened.
    pub const ZERO: Time = Time(0);

    /// A time from picoseconds.
    pub const fn from_picoseconds(picoseconds: u64) -> Time {
        Time(picoseconds)
    }

    /// A time from nanoseconds; saturates after 213 days.
    pub const fn from_nanoseconds(nanoseconds: u64) -> Time {
        Time(nanoseconds.saturating_mul(1_000))
    }

    /// This time in picoseconds.
    pub const fn picoseconds(self) -> u64 {
        self.0
    }

    /// This time in whole nanoseconds, rounded down.
    pub const fn nanoseconds(self) -> u64 {
        self.0 / 1_000
    }

    /// This time in seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 * 1e-12
    }
}

impl From<Duration> for Time {
    fn from(duration: Duration) -> Time {
        Time::from_nanoseconds(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Time> for Duration {
    fn from(time: Time) -> Duration {
        Duration::from_nanos(time.nanoseconds())
    }
}

impl Add for Time {
    type Output = Time;

    fn add(self, other: Time) -> Time {
        Time(self.0.saturating_add(other.0))
    }
}

impl Sub for Time {
    type Output = Time;

    /// The span between two points, zero if `other` is the later one.
    fn sub(self, other: Time) -> Time {
        Time(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..1_000_000 => write!(f, "{:.1} ns", self.0 as f64 * 1e-3),
            1_000_000..1_000_000_000 => write!(f, "{:.2} µs", self.0 as f64 * 1e-6),
            1_000_000_000..1_000_000_000_000 => write!(f, "{:.2} ms", self.0 as f64 * 1e-9),
            _ => write!(f, "{:.2} s", self.seconds()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_in_its_unit() {
        for (picoseconds, text) in [
            (0, "0.0 ns"),
            (1_500, "1.5 ns"),
            (1_000_000, "1.00 µs"),
            (2_250_000_000, "2.25 ms"),
            (90_500_000_000_000, "90.50 s"),
        ] {
            assert_eq!(Time::from_picoseconds(picoseconds).to_string(), text);
        }
    }

    #[test]
    fn no_time_is_before_the_first_or_after_the_last() {
        let [short, long] = [3, 5].map(Time::from_nanoseconds);
        assert_eq!((long - short, short - long), (Time::from_nanoseconds(2), Time::ZERO));
        assert_eq!(long + short, Time::from_picoseconds(8_000));
        assert_eq!(long + Time::from(Duration::MAX), Time::from_picoseconds(u64::MAX));
        assert_eq!(Duration::from(Time::from_picoseconds(7_999)), Duration::from_nanos(7));
    }
}
