//! From values to positions: the domain of an axis and the ticks on it.
//!
//! Ticks fall on round numbers: 1, 2, 5 times a power of ten (of the shown prefix, so that bytes
//! step in KiB), powers of ten, powers of two. Every input gives a domain with a positive extent,
//! even no data, one value, equal values and hundreds of decades.

/// The spacing of the values of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scale {
    /// Equal differences take equal space.
    #[default]
    Linear,
    /// Equal ratios take equal space; ticks at powers of ten. Only positive values.
    Log10,
    /// Equal ratios take equal space; ticks at powers of two, for message sizes and rank counts.
    /// Only positive values.
    Log2,
}

/// Values beyond this magnitude are not drawn, so that sums and differences stay finite.
const LARGEST: f64 = 1e290;
const SMALLEST: f64 = 1e-290;

/// How far beyond the data a tick may lie to be included, as a share of the axis.
const NEAR: f64 = 0.04;

impl Scale {
    pub(crate) fn is_logarithmic(self) -> bool {
        self != Scale::Linear
    }

    /// Whether a value has a place on this scale.
    pub(crate) fn can_show(self, value: f64) -> bool {
        value.abs() <= LARGEST && (self == Scale::Linear || value >= SMALLEST)
    }

    fn base(self) -> f64 {
        if self == Scale::Log2 { 2.0 } else { 10.0 }
    }

    /// The exponent of `value`: exact for powers of two, and snapped to whole numbers that it
    /// misses only by rounding.
    fn exponent(self, value: f64) -> f64 {
        let exact = if self == Scale::Log2 { value.log2() } else { value.log10() };
        let whole = exact.round();
        if (exact - whole).abs() < 1e-9 { whole } else { exact }
    }

    fn power(self, exponent: i32) -> f64 {
        self.base().powi(exponent)
    }
}

/// The input of [`ScaleDomain::new`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct DomainRequest {
    pub(crate) scale: Scale,
    /// The unit of linear ticks, a prefix such as Ki.
    pub(crate) factor: f64,
    /// The approximate number of ticks that fit.
    pub(crate) ticks: usize,
    /// Whether the ends move out to the next ticks or stay at the data.
    pub(crate) round_ends: bool,
}

/// The extent of an axis and its ticks. `low < high`; ticks ascend and lie within.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ScaleDomain {
    scale: Scale,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) ticks: Vec<f64>,
    /// Whether the ticks are evenly spaced in value, so that they share a prefix.
    pub(crate) even: bool,
}

impl ScaleDomain {
    /// The domain for values between `low` and `high`, both of which the scale can show.
    pub(crate) fn new(request: DomainRequest, low: f64, high: f64) -> Self {
        let (low, high) = (low.min(high), low.max(high));
        if request.scale == Scale::Linear {
            linear(request, low, high)
        } else {
            logarithmic(request, low, high)
        }
    }

    /// The position of `value` between the ends: 0 at `low`, 1 at `high`.
    pub(crate) fn position(&self, value: f64) -> f64 {
        let place = |v: f64| if self.scale.is_logarithmic() { v.log2() } else { v };
        (place(value) - place(self.low)) / (place(self.high) - place(self.low))
    }
}

/// The smallest of 1, 2, 5 times a power of ten that is not below `least`, up to rounding.
fn nice_step(least: f64) -> f64 {
    let power = 10_f64.powi(least.log10().floor() as i32);
    let step = [1.0, 2.0, 5.0].into_iter().find(|m| m * power >= least * (1.0 - 1e-9));
    step.unwrap_or(10.0) * power
}

fn linear(request: DomainRequest, low: f64, high: f64) -> ScaleDomain {
    let (low, high) = (low / request.factor, high / request.factor);
    let size = low.abs().max(high.abs());
    // Values that differ by less than a billionth of their size count as equal in a picture.
    // Rounding would lose such small steps.
    let (low, high) = if high - low > size * 1e-9 && size > SMALLEST {
        (low, high)
    } else if size > SMALLEST {
        (low - size / 2.0, high + size / 2.0)
    } else {
        (0.0, 1.0)
    };
    let step = nice_step((high - low) / request.ticks.max(1) as f64);
    // An end moves out to the next tick if requested, or if the tick is so near that the axis would
    // seem to stop short of it: 3999 steps end at 4000.
    let reach = if request.round_ends { 1.0 } else { NEAR * (high - low) / step };
    let (down, up) = ((low / step + 1e-9).floor(), (high / step - 1e-9).ceil());
    let low = if low / step - down <= reach { down * step } else { low };
    let high = if up - high / step <= reach { up * step } else { high };
    let (first, last) = ((low / step - 1e-9).ceil(), (high / step + 1e-9).floor());
    // By index, not by repeated addition: the error does not grow along the axis.
    let count = (last - first).clamp(0.0, 1000.0) as usize;
    let ticks: Vec<f64> = (0..=count).map(|i| (first + i as f64) * step * request.factor).collect();
    let (low, high) = (low * request.factor, high * request.factor);
    let ticks = ticks.into_iter().map(|tick| tick.clamp(low, high)).collect();
    ScaleDomain { scale: Scale::Linear, low, high, ticks, even: true }
}

fn logarithmic(request: DomainRequest, low: f64, high: f64) -> ScaleDomain {
    let scale = request.scale;
    let (low, high) = if high > low * (1.0 + 1e-9) {
        (low, high)
    } else {
        (low / scale.base(), high * scale.base())
    };
    let candidates = log_candidates(request, low, high);
    let inside = |ticks: &[f64], low: f64, high: f64| -> Vec<f64> {
        let within = |t: &f64| *t >= low * (1.0 - 1e-9) && *t <= high * (1.0 + 1e-9);
        ticks.iter().copied().filter(within).map(|t| t.clamp(low, high)).collect()
    };
    let (low, high) = if request.round_ends {
        let below = candidates.ends.iter().rev().find(|&&t| t <= low * (1.0 + 1e-9));
        let above = candidates.ends.iter().find(|&&t| t >= high * (1.0 - 1e-9));
        (below.copied().unwrap_or(low), above.copied().unwrap_or(high))
    } else {
        (low, high)
    };
    let ticks = inside(&candidates.ticks, low, high);
    if ticks.len() >= 2 {
        return ScaleDomain { scale, low, high, ticks, even: false };
    }
    // The range is less than one step of the logarithm: use linear steps.
    let even = linear(DomainRequest { round_ends: false, ..request }, low, high);
    ScaleDomain { scale, low, high, ticks: inside(&even.ticks, low, high), even: true }
}

struct Candidates {
    /// The values at which an axis may end.
    ends: Vec<f64>,
    /// The values at which it may have ticks.
    ticks: Vec<f64>,
}

fn log_candidates(request: DomainRequest, low: f64, high: f64) -> Candidates {
    let scale = request.scale;
    let (from, to) = (scale.exponent(low), scale.exponent(high));
    let (first, last) = (from.floor() as i32, to.ceil() as i32);
    let room = request.ticks.max(1) as f64;
    let mantissas: &[f64] = match scale {
        Scale::Log10 if to - from < 1.0 => &[1.0, 2.0, 3.0, 5.0],
        Scale::Log10 => &[1.0, 2.0, 5.0],
        _ => &[1.0],
    };
    let expand = |exponent: i32| mantissas.iter().map(move |m| m * scale.power(exponent));
    let ends: Vec<f64> = (first..=last).flat_map(expand).collect();
    let ticks = if scale == Scale::Log10 && (to - from) * 3.0 <= room.max(3.0) * 1.5 {
        ends.clone()
    } else {
        let stride = nice_step(((to - from) / room / 1.4).max(1.0)) as i32;
        (first..=last).filter(|e| e % stride == 0).map(|e| scale.power(e)).collect()
    };
    Candidates { ends, ticks }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request(scale: Scale) -> DomainRequest {
        DomainRequest { scale, factor: 1.0, ticks: 6, round_ends: true }
    }

    #[test]
    fn linear_ticks_count_in_ones_twos_and_fives() {
        let domain = ScaleDomain::new(request(Scale::Linear), 0.0, 47.0);
        assert_eq!(domain.ticks, [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]);
        assert_eq!((domain.low, domain.high), (0.0, 50.0));
        let tight = DomainRequest { round_ends: false, ..request(Scale::Linear) };
        let domain = ScaleDomain::new(tight, 3.0, 47.0);
        assert_eq!((domain.low, domain.high), (3.0, 47.0));
        assert_eq!(domain.ticks, [10.0, 20.0, 30.0, 40.0]);
        let domain = ScaleDomain::new(tight, 1.0, 3999.0);
        assert_eq!((domain.low, domain.high), (0.0, 4000.0));
    }

    #[test]
    fn linear_bytes_step_in_kib() {
        let kib = DomainRequest { factor: 1024.0, ..request(Scale::Linear) };
        let domain = ScaleDomain::new(kib, 0.0, 50.0 * 1024.0);
        assert_eq!(domain.ticks[1], 10.0 * 1024.0);
    }

    #[test]
    fn decades_are_powers_of_ten() {
        let domain = ScaleDomain::new(request(Scale::Log10), 53e-9, 83e-6);
        assert!(domain.low <= 53e-9 && domain.low >= 10e-9, "{domain:?}");
        let exponents: Vec<f64> = domain.ticks.iter().map(|t| t.log10()).collect();
        assert!(exponents.iter().all(|e| (e - e.round()).abs() < 1e-9), "{exponents:?}");
        let short = ScaleDomain::new(request(Scale::Log10), 60.0, 300.0);
        assert_eq!(short.ticks, [50.0, 100.0, 200.0, 300.0]);
        let two = ScaleDomain::new(request(Scale::Log10), 60.0, 3000.0);
        assert_eq!(two.ticks, [50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0]);
    }

    #[test]
    fn sizes_are_powers_of_two_in_even_strides() {
        let domain = ScaleDomain::new(request(Scale::Log2), 8.0, 1_048_576.0);
        let exponents: Vec<f64> = domain.ticks.iter().map(|t| t.log2()).collect();
        assert_eq!(exponents, [5.0, 10.0, 15.0, 20.0]);
        assert_eq!((domain.low, domain.high), (8.0, 1_048_576.0));
        let ranks = ScaleDomain::new(request(Scale::Log2), 1.0, 8.0);
        assert_eq!(ranks.ticks, [1.0, 2.0, 4.0, 8.0]);
    }

    #[test]
    fn equal_values_get_an_extent() {
        for scale in [Scale::Linear, Scale::Log10, Scale::Log2] {
            for value in [1.0, 1e-9, 7e12] {
                let domain = ScaleDomain::new(request(scale), value, value);
                assert!(domain.low < value && value < domain.high, "{scale:?} {domain:?}");
                assert!(domain.ticks.len() >= 2, "{scale:?} {domain:?}");
            }
        }
        let zero = ScaleDomain::new(request(Scale::Linear), 0.0, 0.0);
        assert_eq!((zero.low, zero.high), (0.0, 1.0));
    }

    #[test]
    fn nearly_equal_logarithms_still_have_ticks() {
        let domain = ScaleDomain::new(request(Scale::Log10), 1.01, 1.04);
        assert!(domain.ticks.len() >= 2, "{domain:?}");
    }

    #[test]
    fn the_largest_values_stay_finite_in_the_smallest_prefix() {
        let picoseconds = DomainRequest { factor: 1e-12, ..request(Scale::Linear) };
        check(&ScaleDomain::new(picoseconds, -LARGEST, LARGEST), -LARGEST, LARGEST);
    }

    fn check(domain: &ScaleDomain, low: f64, high: f64) {
        assert!(domain.low < domain.high, "{domain:?}");
        assert!(domain.ticks.len() <= 40, "{domain:?}");
        assert!(domain.ticks.windows(2).all(|w| w[0] < w[1]), "{domain:?}");
        assert!(domain.ticks.iter().all(|t| (domain.low..=domain.high).contains(t)), "{domain:?}");
        for value in [low, high] {
            let position = domain.position(value);
            assert!((-1e-6..=1.0 + 1e-6).contains(&position), "{value} at {position}: {domain:?}");
        }
    }

    proptest! {
        #[test]
        fn every_domain_holds_its_values(
            bits in any::<(u64, u64)>(), ticks in 1usize..12, round_ends: bool, bytes: bool,
        ) {
            let (a, b) = (f64::from_bits(bits.0), f64::from_bits(bits.1));
            let factor = if bytes { 1024.0 } else { 1e-9 };
            for scale in [Scale::Linear, Scale::Log10, Scale::Log2] {
                if scale.can_show(a) && scale.can_show(b) {
                    let request = DomainRequest { scale, factor, ticks, round_ends };
                    let domain = ScaleDomain::new(request, a, b);
                    check(&domain, a.min(b), a.max(b));
                }
            }
        }

        #[test]
        fn ordinary_ranges_have_two_to_fifteen_ticks(
            low in -1e6..1e6_f64, span in 1e-3..1e6_f64, ticks in 4usize..9,
        ) {
            let request = DomainRequest { ticks, ..request(Scale::Linear) };
            let domain = ScaleDomain::new(request, low, low + span);
            check(&domain, low, low + span);
            prop_assert!((2..=15).contains(&domain.ticks.len()), "{domain:?}");
            let log = DomainRequest { scale: Scale::Log10, ..request };
            let domain = ScaleDomain::new(log, span, span * 1e3);
            prop_assert!((2..=15).contains(&domain.ticks.len()), "{domain:?}");
        }
    }
}
