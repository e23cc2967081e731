//! Values with units, as machine files write them: `"3.5 us"`, `"300 MB/s"`, `"256 B"`.
//!
//! Decimal prefixes only, as the papers print them (10^6 bytes to the MB), except for sizes with
//! a binary prefix (`KiB`, `MiB`). A value becomes an integer in base units, picoseconds or
//! bytes, without passing through floating point, so that a file says exactly one machine.

/// Picoseconds, from a number with `ps`, `ns`, `us`, `ms` or `s`.
pub(super) fn time(text: &str) -> Result<u64, String> {
    let units = [("ps", 1), ("ns", 1_000), ("us", 1_000_000), ("ms", 1_000_000_000)];
    with_unit(text, &units, "a time such as `3.5 us`")
}

/// Bytes a second, from a number with `kB/s`, `MB/s` or `GB/s`, or bits with `Mb/s`, `Gb/s`.
pub(super) fn rate(text: &str) -> Result<u64, String> {
    let units = [
        ("B/s", 1),
        ("kB/s", 1_000),
        ("MB/s", 1_000_000),
        ("GB/s", 1_000_000_000),
        ("Mb/s", 125_000),
        ("Gb/s", 125_000_000),
    ];
    with_unit(text, &units, "a rate such as `300 MB/s` or `200 Gb/s`")
}

/// Bytes, from a number with `B`, `KiB` or `MiB`.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let units = [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20)];
    with_unit(text, &units, "a size such as `256 B` or `64 KiB`")
}

/// A decimal number and one of `units`, as a whole number of the base unit.
fn with_unit(text: &str, units: &[(&str, u64)], wanted: &str) -> Result<u64, String> {
    let refuse = |why: &str| Err(format!("`{text}` {why}; write {wanted}"));
    let Some((number, unit)) = text.trim().split_once(' ') else {
        return refuse("has no unit (or no space before it)");
    };
    let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit.trim()) else {
        return refuse("has an unknown unit");
    };
    match decimal(number, *factor) {
        Some(0) => refuse("is zero, or below the smallest step"),
        Some(value) => Ok(value),
        None => refuse("is not a number that fits"),
    }
}

/// `number × factor` in whole steps; `None` if it is no plain decimal, overflows, or has digits
/// below one step.
fn decimal(number: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > 12 {
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
        assert_eq!(time("3.5 us"), Ok(3_500_000));
        assert_eq!(time("187.5 ns"), Ok(187_500));
        assert_eq!(time("0.6525 us"), Ok(652_500));
        assert_eq!(rate("300 MB/s"), Ok(300_000_000));
        assert_eq!(rate("200 Gb/s"), Ok(25_000_000_000));
        assert_eq!(rate("12.5 GB/s"), Ok(12_500_000_000));
        assert_eq!(bytes("464 B"), Ok(464));
        assert_eq!(bytes("64 KiB"), Ok(65_536));
    }

    #[test]
    fn what_is_no_value_is_refused_with_an_example() {
        for bad in ["", "3.5", "us", "3.5us", "-1 us", "0 us", "0.0000001 ps", "1e3 us", "nan us"] {
            let why = time(bad).unwrap_err();
            assert!(why.contains("write a time such as"), "{bad}: {why}");
        }
        for bad in ["3 us", "99999999999999999999 MB/s", "18446744073709551615 GB/s", "300 mb/s"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
        assert!(bytes("1.5 B").is_err());
    }
}
