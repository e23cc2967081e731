//! Temperature to colour: dark indigo through red and orange to pale yellow.
//!
//! A map for reading values must get evenly lighter, or the eye sees edges that are not in the
//! data. So it is laid out in OKLab (B. Ottosson, 2020, a space in which equal distances look
//! equal): lightness rises linearly, the hue turns from indigo over red to yellow, and the chroma
//! is high in the middle.

/// Colours in the map.
pub const COLOURS: usize = 256;

/// An sRGB colour.
pub type Rgb = [u8; 3];

/// The map, from the coldest colour to the hottest.
pub fn palette() -> [Rgb; COLOURS] {
    std::array::from_fn(|index| colour(index as f64 / (COLOURS - 1) as f64))
}

/// The index in the map of a temperature, `low` being the coldest colour and `high` the hottest;
/// what lies outside gets the nearest end. A range without extent shows everything as cold.
pub fn index(temperature: f64, low: f64, high: f64) -> u8 {
    let position = (temperature - low) / (high - low);
    // NaN (0/0) becomes 0 in the conversion, which saturates otherwise.
    (position * COLOURS as f64) as u8
}

/// The colour at `position` in 0..=1.
fn colour(position: f64) -> Rgb {
    linear(position).map(encode)
}

/// The colour at `position` in linear sRGB, every part in 0..=1. The chroma is a parabola that
/// stays just inside what sRGB can show at each lightness, so nothing has to be clipped: a clipped
/// colour would be a kink in the map.
fn linear(position: f64) -> [f64; 3] {
    let lightness = 0.07 + 0.91 * position;
    let hue = (285.0 + 185.0 * position).to_radians();
    let chroma = 0.033 + 0.49 * position * (1.0 - position) + 0.03 * position;
    oklab_to_linear(lightness, chroma * hue.cos(), chroma * hue.sin())
}

/// OKLab to linear sRGB: the two matrices of Ottosson's definition.
fn oklab_to_linear(lightness: f64, a: f64, b: f64) -> [f64; 3] {
    let l = (lightness + 0.396_337_777_4 * a + 0.215_803_757_3 * b).powi(3);
    let m = (lightness - 0.105_561_345_8 * a - 0.063_854_172_8 * b).powi(3);
    let s = (lightness - 0.089_484_177_5 * a - 1.291_485_548 * b).powi(3);
    [
        4.076_741_662_1 * l - 3.307_711_591_3 * m + 0.230_969_929_2 * s,
        -1.268_438_004_6 * l + 2.609_757_401_1 * m - 0.341_319_396_5 * s,
        -0.004_196_086_3 * l - 0.703_418_614_7 * m + 1.707_614_701 * s,
    ]
}

/// A linear part in 0..=1 as an sRGB byte (IEC 61966-2-1).
fn encode(linear: f64) -> u8 {
    let encoded = match linear {
        small if small <= 0.003_130_8 => 12.92 * small,
        _ => 1.055 * linear.powf(1.0 / 2.4) - 0.055,
    };
    (encoded * 255.0).round() as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance, as the eye weighs the parts.
    fn luminance(rgb: Rgb) -> f64 {
        let linear = |part: u8| {
            let part = f64::from(part) / 255.0;
            if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(rgb[0]) + 0.7152 * linear(rgb[1]) + 0.0722 * linear(rgb[2])
    }

    #[test]
    fn it_gets_lighter_all_the_way() {
        let map = palette().map(luminance);
        for (index, pair) in map.windows(2).enumerate() {
            assert!(pair[1] >= pair[0] - 1e-4, "colour {index}: {pair:?}");
        }
        // Over eight colours rounding to bytes no longer matters: strictly lighter.
        assert!(map.windows(9).all(|run| run[8] > run[0]));
        assert!(map[0] < 0.01 && map[COLOURS - 1] > 0.85, "{} {}", map[0], map[COLOURS - 1]);
    }

    #[test]
    fn all_of_it_can_be_shown() {
        for index in 0..=1000 {
            let parts = linear(f64::from(index) / 1000.0);
            assert!(parts.iter().all(|part| (0.0..=1.0).contains(part)), "{index}: {parts:?}");
        }
    }

    #[test]
    fn neighbouring_colours_are_close() {
        for pair in palette().windows(2) {
            for (a, b) in pair[0].iter().zip(pair[1]) {
                assert!(a.abs_diff(b) <= 6, "{pair:?}");
            }
        }
    }

    #[test]
    fn temperatures_outside_the_range_get_its_ends() {
        assert_eq!(index(0.0, 0.0, 100.0), 0);
        assert_eq!(index(50.0, 0.0, 100.0), 128);
        assert_eq!(index(100.0, 0.0, 100.0), 255);
        assert_eq!(index(-1e30, 0.0, 100.0), 0);
        assert_eq!(index(1e30, 0.0, 100.0), 255);
        assert_eq!(index(7.0, 7.0, 7.0), 0);
    }
}
