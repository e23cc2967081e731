//! Units of measure, and the written form of a value.
//!
//! A value is kept in its base unit. The prefix (ns or µs, KiB or MiB) is chosen only when the
//! value is written. The default is three significant digits: measurements on a shared machine are
//! not more exact, and fewer digits make a column easy to read.

/// The unit of a number. It decides the prefix, the digits and the symbol of the written form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unit {
    /// A plain number. Whole numbers are written in full, with thousands separated.
    #[default]
    Number,
    /// Seconds, written as ps, ns, µs, ms or s.
    Seconds,
    /// Bytes, written with binary prefixes (1 KiB = 1024 B), as message sizes are.
    Bytes,
    /// Bytes per second, written with decimal prefixes, as link and memory rates are.
    BytesPerSecond,
    /// Events per second, written as `/s`, `k/s`, `M/s` or `G/s`.
    PerSecond,
    /// A quotient of two measurements, written with `×`.
    Ratio,
    /// A part of a whole: 0.25 is written `25.0 %`.
    Fraction,
    /// Any other unit by its symbol, without prefixes.
    Named(&'static str),
}

/// A multiple of the base unit and its symbol.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Prefix {
    pub(crate) factor: f64,
    pub(crate) symbol: &'static str,
}

const fn prefix(factor: f64, symbol: &'static str) -> Prefix {
    Prefix { factor, symbol }
}

const SECONDS: [Prefix; 5] = [
    prefix(1e-12, "ps"),
    prefix(1e-9, "ns"),
    prefix(1e-6, "µs"),
    prefix(1e-3, "ms"),
    prefix(1.0, "s"),
];
const BYTES: [Prefix; 6] = [
    prefix(1.0, "B"),
    prefix(1024.0, "KiB"),
    prefix(1_048_576.0, "MiB"),
    prefix(1_073_741_824.0, "GiB"),
    prefix(1_099_511_627_776.0, "TiB"),
    prefix(1_125_899_906_842_624.0, "PiB"),
];
const BYTES_PER_SECOND: [Prefix; 5] = [
    prefix(1.0, "B/s"),
    prefix(1e3, "kB/s"),
    prefix(1e6, "MB/s"),
    prefix(1e9, "GB/s"),
    prefix(1e12, "TB/s"),
];
const PER_SECOND: [Prefix; 4] =
    [prefix(1.0, "/s"), prefix(1e3, "k/s"), prefix(1e6, "M/s"), prefix(1e9, "G/s")];
/// Only for axes: text and tables write a count in full.
const NUMBER: [Prefix; 4] = [prefix(1.0, ""), prefix(1e3, "k"), prefix(1e6, "M"), prefix(1e9, "G")];

const DIGITS: usize = 3;

impl Unit {
    /// `value` (in the base unit) as text with a fitting prefix and three significant digits.
    ///
    /// NaN is `n/a`, infinity `∞`; zero and whole bytes have no decimals.
    #[must_use]
    pub fn format(self, value: f64) -> String {
        self.format_with(value, None)
    }

    /// Like [`Unit::format`], but with exactly `decimals` digits after the point if given.
    #[must_use]
    pub fn format_with(self, value: f64, decimals: Option<u8>) -> String {
        if let Some(word) = not_finite(value) {
            return word.to_owned();
        }
        let prefix = match self {
            Unit::Number => NUMBER[0],
            _ => self.prefix(value),
        };
        let scaled = value / prefix.factor;
        let digits = match decimals {
            Some(decimals) => fixed(scaled, usize::from(decimals)),
            None if scaled == 0.0 => "0".to_owned(),
            None if self == Unit::Number && scaled.fract() == 0.0 => fixed(scaled, 0),
            None if self == Unit::Bytes => trim_zeros(significant(scaled)),
            None => significant(scaled),
        };
        join(&digits, prefix.symbol)
    }

    /// The symbol of the base unit, in which [`crate::Table::to_csv`] writes. Empty if there is
    /// none.
    #[must_use]
    pub fn symbol(self) -> &'static str {
        match self {
            Unit::Number | Unit::Ratio | Unit::Fraction => "",
            Unit::Seconds => "s",
            Unit::Bytes => "B",
            Unit::BytesPerSecond => "B/s",
            Unit::PerSecond => "1/s",
            Unit::Named(symbol) => symbol,
        }
    }

    /// The best prefix for `value`: the largest that is not above the rounded value. So 999.9 ns
    /// becomes 1.00 µs, not 1000 ns.
    pub(crate) fn prefix(self, value: f64) -> Prefix {
        let table: &[Prefix] = match self {
            Unit::Number => &NUMBER,
            Unit::Seconds => &SECONDS,
            Unit::Bytes => &BYTES,
            Unit::BytesPerSecond => &BYTES_PER_SECOND,
            Unit::PerSecond => &PER_SECOND,
            Unit::Ratio => return prefix(1.0, "×"),
            Unit::Fraction => return prefix(0.01, "%"),
            Unit::Named(symbol) => return prefix(1.0, symbol),
        };
        if value == 0.0 {
            return prefix(1.0, if self == Unit::Number { "" } else { zero_symbol(table) });
        }
        // Only rounding up may move to the next prefix: 1024 rounds to 1020 and is still 1 KiB.
        let size = value.abs().max(round(value.abs()).1);
        table.iter().rev().find(|p| p.factor <= size).copied().unwrap_or(table[0])
    }

    /// The label of one tick of a logarithmic axis: the shortest exact form.
    pub(crate) fn tick(self, value: f64) -> String {
        if value == 0.0 {
            return "0".to_owned();
        }
        let prefix = self.prefix(value);
        join(&trim_zeros(significant(value / prefix.factor)), prefix.symbol)
    }

    /// The labels of evenly spaced ticks in one common prefix, and its symbol for the axis title.
    pub(crate) fn even_ticks(self, ticks: &[f64]) -> (Vec<String>, &'static str) {
        let largest = ticks.iter().fold(0.0_f64, |most, tick| most.max(tick.abs()));
        let prefix = self.axis_prefix(largest);
        let step = match ticks {
            [first, second, ..] => (second - first).abs() / prefix.factor,
            _ => 1.0,
        };
        // The tolerance absorbs the rounding of the division: a step of 0.1 is 1 decimal, not 2.
        let decimals = (-(step.log10() + 1e-9).floor()).clamp(0.0, 12.0) as usize;
        let label = |tick: &f64| {
            let scaled = tick / prefix.factor;
            if scaled == 0.0 { "0".to_owned() } else { fixed(scaled, decimals) }
        };
        (ticks.iter().map(label).collect(), prefix.symbol)
    }

    /// `value` in the prefix of an axis that ends at `largest`. The axis title shows the symbol.
    pub(crate) fn on_axis(self, value: f64, largest: f64) -> String {
        let scaled = value / self.axis_prefix(largest).factor;
        if scaled == 0.0 { "0".to_owned() } else { significant(scaled) }
    }

    /// The prefix of an evenly spaced axis that ends at `largest`. Counts up to 10,000 are short
    /// enough to be written in full.
    pub(crate) fn axis_prefix(self, largest: f64) -> Prefix {
        match self {
            Unit::Number if largest <= 10_000.0 => NUMBER[0],
            _ => self.prefix(largest),
        }
    }
}

fn zero_symbol(table: &[Prefix]) -> &'static str {
    table.iter().find(|p| p.factor == 1.0).map_or("", |p| p.symbol)
}

fn not_finite(value: f64) -> Option<&'static str> {
    if value.is_nan() {
        Some("n/a")
    } else if value.is_infinite() {
        Some(if value > 0.0 { "∞" } else { "−∞" })
    } else {
        None
    }
}

/// The decimal exponent and the value after rounding to [`DIGITS`] significant digits. This formats
/// to text and parses it: the formatter rounds correctly where a logarithm would be off by one.
fn round(value: f64) -> (i32, f64) {
    let text = format!("{value:.*e}", DIGITS - 1);
    let exponent = text.split_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
    (exponent, text.parse().unwrap_or(value))
}

/// `value` with [`DIGITS`] significant digits; digits before the point are never rounded away.
fn significant(value: f64) -> String {
    let (exponent, _) = round(value);
    if exponent < -4 {
        return format!("{value:.*e}", DIGITS - 1);
    }
    let decimals = usize::try_from(DIGITS as i32 - 1 - exponent).unwrap_or(0);
    fixed(value, decimals)
}

/// `value` with `decimals` digits after the point, and commas between groups of thousands.
fn fixed(value: f64, decimals: usize) -> String {
    // Above 2^53 not all digits of a double are exact.
    if value.abs() >= 1e15 {
        return format!("{value:.*e}", DIGITS - 1);
    }
    let text = format!("{:.decimals$}", value.abs());
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::with_capacity(text.len() + 8);
    // A negative value that rounds to zero is written as zero.
    if value < 0.0 && text.bytes().any(|b| b.is_ascii_digit() && b != b'0') {
        grouped.push('−');
    }
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + fraction
}

fn trim_zeros(text: String) -> String {
    if !text.contains('.') || text.contains('e') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Multipliers of plain counts follow directly ("20k"); unit symbols follow a space ("20 kB/s").
fn join(digits: &str, symbol: &str) -> String {
    match symbol {
        "" | "k" | "M" | "G" => format!("{digits}{symbol}"),
        _ => format!("{digits} {symbol}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_are_written_with_a_fitting_prefix() {
        let cases = [
            (Unit::Seconds, 78.2e-9, "78.2 ns"),
            (Unit::Seconds, 1.07e-6, "1.07 µs"),
            (Unit::Seconds, 999.9e-9, "1.00 µs"),
            (Unit::Seconds, 99.95e-9, "100 ns"),
            (Unit::Seconds, 0.0, "0 s"),
            (Unit::Seconds, -2e-3, "−2.00 ms"),
            (Unit::Seconds, 12_345.0, "12,345 s"),
            (Unit::Seconds, 4e-13, "0.400 ps"),
            (Unit::Bytes, 8.0, "8 B"),
            (Unit::Bytes, 1024.0, "1 KiB"),
            (Unit::Bytes, 1500.0, "1.46 KiB"),
            (Unit::Bytes, 1023.0, "1,023 B"),
            (Unit::Bytes, 3.0 * 1_073_741_824.0, "3 GiB"),
            (Unit::BytesPerSecond, 13.4e9, "13.4 GB/s"),
            (Unit::PerSecond, 47.04e6, "47.0 M/s"),
            (Unit::Ratio, 1.5, "1.50 ×"),
            (Unit::Fraction, 0.523, "52.3 %"),
            (Unit::Fraction, 1.0, "100 %"),
            (Unit::Number, 1_234_567.0, "1,234,567"),
            (Unit::Number, 0.5, "0.500"),
            (Unit::Number, 1e-9, "1.00e-9"),
            (Unit::Named("K"), 293.15, "293 K"),
        ];
        for (unit, value, text) in cases {
            assert_eq!(unit.format(value), text, "{unit:?} {value}");
        }
    }

    #[test]
    fn values_that_are_not_numbers_are_words() {
        assert_eq!(Unit::Seconds.format(f64::NAN), "n/a");
        assert_eq!(Unit::Bytes.format(f64::INFINITY), "∞");
        assert_eq!(Unit::Ratio.format(f64::NEG_INFINITY), "−∞");
    }

    #[test]
    fn decimals_are_kept_when_asked_for() {
        assert_eq!(Unit::Ratio.format_with(1.0, Some(1)), "1.0 ×");
        assert_eq!(Unit::Number.format_with(1234.567, Some(2)), "1,234.57");
        assert_eq!(Unit::Number.format_with(-0.001, Some(1)), "0.0");
    }

    #[test]
    fn even_ticks_share_prefix_and_decimals() {
        let (labels, symbol) = Unit::Seconds.even_ticks(&[0.0, 0.5e-6, 1e-6, 1.5e-6]);
        assert_eq!(labels, ["0", "0.5", "1.0", "1.5"]);
        assert_eq!(symbol, "µs");
        let (labels, symbol) = Unit::Number.even_ticks(&[0.0, 20_000.0, 40_000.0]);
        assert_eq!((labels[1].as_str(), symbol), ("20", "k"));
        let (labels, symbol) = Unit::Number.even_ticks(&[0.0, 500.0, 1000.0]);
        assert_eq!((labels[2].as_str(), symbol), ("1,000", ""));
    }

    #[test]
    fn ticks_of_a_logarithmic_axis_are_short() {
        assert_eq!(Unit::Seconds.tick(1e-7), "100 ns");
        assert_eq!(Unit::Bytes.tick(65_536.0), "64 KiB");
        assert_eq!(Unit::Number.tick(20_000.0), "20k");
    }

    proptest! {
        #[test]
        fn every_value_can_be_written(
            bits in any::<u64>(), decimals in proptest::option::of(0u8..20),
        ) {
            let value = f64::from_bits(bits);
            for unit in [Unit::Number, Unit::Seconds, Unit::Bytes, Unit::Ratio, Unit::Fraction] {
                prop_assert!(!unit.format_with(value, decimals).is_empty());
                prop_assert!(unit.format(value).len() < 40);
            }
        }
    }
}
