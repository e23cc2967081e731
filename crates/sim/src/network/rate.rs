//! Rates, as integer times per byte.

use std::fmt;

use hikyaku_nic::time::Time;

/// The number of fractional bits of a picosecond in a rate.
const FRACTION_BITS: u32 = 20;

/// A transfer rate, stored as time per byte in 2^-20 ps. It is exact to 1e-6 ps, so the time of a
/// gigabyte at any rate is right to a nanosecond. All arithmetic is on integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rate {
    per_byte: u64,
}

impl Rate {
    /// The rate at which any number of bytes takes no time.
    pub const INFINITE: Rate = Rate { per_byte: 0 };

    /// A rate in bytes per second. A rate that is not above zero counts as infinite, that is, as no
    /// limit.
    pub fn bytes_per_second(rate: f64) -> Rate {
        if rate <= 0.0 || !rate.is_finite() {
            return Rate::INFINITE;
        }
        Rate { per_byte: (1e12 / rate * f64::from(1u32 << FRACTION_BITS)).round() as u64 }
    }

    /// A rate in MB/s, a million bytes per second, as in the papers.
    pub fn megabytes_per_second(rate: f64) -> Rate {
        Rate::bytes_per_second(rate * 1e6)
    }

    /// A rate in Gb/s, a thousand million bits per second, as in link names.
    pub fn gigabits_per_second(rate: f64) -> Rate {
        Rate::bytes_per_second(rate * 1e9 / 8.0)
    }

    /// The time for `bytes`, rounded to the nearest picosecond. Saturates after 213 days.
    pub fn time(self, bytes: u64) -> Time {
        let half = 1u128 << (FRACTION_BITS - 1);
        let exact = (u128::from(bytes) * u128::from(self.per_byte) + half) >> FRACTION_BITS;
        Time::from_picoseconds(u64::try_from(exact).unwrap_or(u64::MAX))
    }

    /// The bytes per second; infinity if there is no limit.
    pub fn as_bytes_per_second(self) -> f64 {
        1e12 * f64::from(1u32 << FRACTION_BITS) / self.per_byte as f64
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_bytes_per_second() {
            rate if rate.is_infinite() => write!(f, "unlimited"),
            rate if rate >= 1e9 => write!(f, "{:.3} GB/s", rate * 1e-9),
            rate => write!(f, "{:.1} MB/s", rate * 1e-6),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_the_papers_come_out_exactly() {
        let ps = |rate: Rate, bytes| rate.time(bytes).picoseconds();
        assert_eq!(ps(Rate::bytes_per_second(12.5e9), 1), 80);
        assert_eq!(ps(Rate::megabytes_per_second(240.0), 3), 12_500);
        assert_eq!(ps(Rate::megabytes_per_second(300.0), 3_000), 10_000_000);
        let second = ps(Rate::megabytes_per_second(300.0), 300_000_000);
        assert!(second.abs_diff(1_000_000_000_000) < 1_000, "right to a nanosecond: {second} ps");
        assert_eq!(ps(Rate::gigabits_per_second(200.0), 4096), 163_840);
        assert_eq!(ps(Rate::gigabits_per_second(0.1), 1 << 30), (1 << 30) * 80_000);
    }

    #[test]
    fn extremes_are_answers() {
        assert_eq!(Rate::INFINITE.time(u64::MAX), Time::ZERO);
        assert_eq!(Rate::bytes_per_second(f64::NAN), Rate::INFINITE);
        assert_eq!(Rate::bytes_per_second(-1.0), Rate::INFINITE);
        assert_eq!(Rate::bytes_per_second(1e-9).time(u64::MAX).picoseconds(), u64::MAX);
        assert_eq!(Rate::INFINITE.to_string(), "unlimited");
        assert_eq!(Rate::megabytes_per_second(213.3).to_string(), "213.3 MB/s");
        assert_eq!(Rate::gigabits_per_second(200.0).to_string(), "25.000 GB/s");
    }
}
