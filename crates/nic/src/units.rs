//! Values with units, as in command lines and machine files: `3.5 us`, `300 MB/s`, `64K`.
//!
//! Rates have decimal prefixes, as the papers print them (10^6 bytes to the MB); sizes have binary
//! ones. A value becomes an integer in base units (picoseconds or bytes) without floating point, so
//! a file describes exactly one machine. A space before the unit is optional.

use crate::time::Time;

/// A time: a number with `ps`, `ns`, `us`, `ms` or `s`, or `0`.
///
/// # Errors
/// The text is not a time. The error is one line that says why, with an example.
pub fn time(text: &str) -> Result<Time, String> {
    if text.trim() == "0" {
        return Ok(Time::ZERO);
    }
    let units = [
        ("ps", 1),
        ("ns", 1_000),
        ("us", 1_000_000),
        ("ms", 1_000_000_000),
        ("s", 1_000_000_000_000),
    ];
    with_unit(text, text, &units, "a time such as `3.5 us`").map(Time::from_picoseconds)
}

/// Bytes a second: a number with `kB/s`, `MB/s` or `GB/s`, or bits with `Mb/s`, `Gb/s`.
///
/// # Errors
/// The text is not a rate. The error is one line that says why, with an example.
pub fn rate(text: &str) -> Result<u64, String> {
    let units = [
        ("B/s", 1),
        ("kB/s", 1_000),
        ("MB/s", 1_000_000),
        ("GB/s", 1_000_000_000),
        ("Mb/s", 125_000),
        ("Gb/s", 125_000_000),
    ];
    with_unit(text, text, &units, "a rate such as `300 MB/s` or `200 Gb/s`")
}

/// Bytes: a number, alone or with `B`, or with `K`, `M` or `G` of 1024, optionally followed by `B`
/// or `iB`. Small letters are accepted.
///
/// # Errors
/// The text is not a size. The error is one line that says why, with an example.
pub fn size(text: &str) -> Result<u64, String> {
    let mut units = vec![("", 1), ("B", 1)];
    for (names, factor) in [
        (["K", "KB", "KIB"], 1 << 10),
        (["M", "MB", "MIB"], 1 << 20),
        (["G", "GB", "GIB"], 1 << 30),
    ] {
        units.extend(names.map(|name| (name, factor)));
    }
    with_unit(text, &text.to_ascii_uppercase(), &units, "a size such as `256`, `64K` or `1 MiB`")
}

/// Parses a decimal number and one of `units` into a whole number of base units. The error quotes
/// `given`.
fn with_unit(given: &str, text: &str, units: &[(&str, u64)], wanted: &str) -> Result<u64, String> {
    let refuse = |why: &str| Err(format!("`{given}` {why}; write {wanted}"));
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.trim_start();
    if number.is_empty() {
        return refuse("is not a number with a unit");
    }
    match units.iter().find(|(name, _)| *name == unit) {
        Some((_, factor)) => {
            decimal(number, *factor).map_or_else(|| refuse("is not a number that fits"), Ok)
        }
        None if unit.is_empty() => refuse("has no unit"),
        None => refuse("has an unknown unit"),
    }
}

/// `number × factor` in whole steps; `None` if it is not a plain decimal, overflows, or has digits
/// below one step. `number` consists of digits and points.
fn decimal(number: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.len() > 12 {
        return None;
    }
    let steps = whole.parse::<u64>().ok()?.checked_mul(factor)?;
    let scale = 10_u128.pow(fraction.len() as u32);
    let rest = format!("0{fraction}").parse::<u128>().ok()? * u128::from(factor);
    if rest % scale != 0 {
        return None;
    }
    steps.checked_add(u64::try_from(rest / scale).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_become_whole_base_units() {
        for (text, picoseconds) in [
            ("3.5 us", 3_500_000),
            ("250ns", 250_000),
            ("187.5 ns", 187_500),
            ("0.6525 us", 652_500),
            ("2s", 2_000_000_000_000),
            ("0", 0),
            ("0 us", 0),
        ] {
            assert_eq!(time(text), Ok(Time::from_picoseconds(picoseconds)), "{text}");
        }
        for (text, bytes) in
            [("300 MB/s", 300_000_000), ("200 Gb/s", 25_000_000_000), ("12.5 GB/s", 12_500_000_000)]
        {
            assert_eq!(rate(text), Ok(bytes), "{text}");
        }
        for (text, bytes) in [
            ("0", 0),
            ("8", 8),
            ("8B", 8),
            ("464 B", 464),
            ("1K", 1024),
            ("1.5k", 1536),
            ("64KiB", 65_536),
            ("64 KiB", 65_536),
            ("1m", 1 << 20),
            ("3 GB", 3 << 30),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn invalid_values_are_refused_with_an_example() {
        for bad in ["", "3.5", "us", "-1 us", "0.0000001 ps", "1e3 us", "nan us", "3 weeks", "3 ü"]
        {
            let why = time(bad).unwrap_err();
            assert!(why.contains("write a time such as") && !why.contains('\n'), "{bad}: {why}");
        }
        for bad in ["3 us", "99999999999999999999 MB/s", "18446744073709551615 GB/s", "300 mb/s"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
        let points = [".5K", "1..5K", "1.2.3K", "."];
        let others = ["", "K", "-1", "1.5 B", "8X", "1KK", "18014398509481984K"];
        for bad in [&points[..], &others].concat() {
            let why = size(bad).unwrap_err();
            assert!(why.contains("write a size such as"), "{bad}: {why}");
        }
    }
}
