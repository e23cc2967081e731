//! The configuration file: what is to be computed.
//!
//! TOML, every key checked, unknown keys refused. What passes [`Config::parse`] can be computed;
//! only the initial field has not been looked at yet.

use std::path::PathBuf;

use serde::Deserialize;
use thiserror::Error;

use crate::field::{Extent, Field, MAX_CELLS};
use crate::stencil::Stencil;

/// Temperatures of this size and above are refused: sums of a few of them must stay finite.
pub const MAX_TEMPERATURE: f64 = 1e100;

/// Least and greatest diffusivity, cells² a second: the stability limit and its products with
/// them are ordinary numbers.
const MIN_ALPHA: f64 = 1e-100;
const MAX_ALPHA: f64 = 1e100;

/// What lies around the grid.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Boundary {
    /// A frame of this temperature (Dirichlet).
    Fixed(f64),
    /// Nothing: no heat leaves (Neumann).
    Insulated,
}

/// What the field is at the start.
#[derive(Debug, Clone, PartialEq)]
pub enum Initial {
    /// A PNG or NPY file, relative to the configuration file.
    File(PathBuf),
    /// A generated field of this size.
    Pattern(Pattern, Extent),
}

/// A generated field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// Half a sine wave in each direction, hottest in the middle: decays without changing shape.
    Sine,
    /// A hot disc, or ball, in the middle.
    Disc,
    /// Eight squares, or cubes, in each direction, hot and cold.
    Checker,
}

/// A checked configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Where the initial field comes from.
    pub initial: Initial,
    /// The temperatures of black and white, and of the coldest and the hottest colour. Without
    /// it: 0 and 100 for pictures and patterns, the data's own range for an NPY file.
    pub temperature: Option<[f64; 2]>,
    /// How a cell is computed from its neighbours, if the file says.
    stencil: Option<Stencil>,
    /// Thermal diffusivity α, cells² a second.
    pub alpha: f64,
    /// Time step, seconds, if the file says.
    dt: Option<f64>,
    /// The most steps to make.
    pub steps: u64,
    /// Stop when no cell changes by more than this in a step.
    pub tolerance: f64,
    /// Steps from one look at the largest change to the next.
    pub check_every: u64,
    /// What lies around the grid.
    pub boundary: Boundary,
}

/// Why a configuration is not taken. The file's name is added by who read it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// The text is not TOML, or a key is unknown, missing or of another type.
    #[error("line {line}: {message}")]
    Toml {
        /// Line of the file, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// A value makes no sense.
    #[error("{key}: {reason}")]
    Key {
        /// The key.
        key: &'static str,
        /// What is wrong with its value and what would be right.
        reason: String,
    },
}

/// The file as it stands. See README.md for the meaning of the keys.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    initial: Option<PathBuf>,
    pattern: Option<Pattern>,
    size: Option<Vec<u64>>,
    stencil: Option<StencilName>,
    temperature: Option<[f64; 2]>,
    #[serde(default = "one")]
    alpha: f64,
    dt: Option<f64>,
    steps: u64,
    #[serde(default)]
    tolerance: f64,
    #[serde(default = "hundred")]
    check_every: u64,
    boundary: BoundaryKind,
    boundary_temperature: Option<f64>,
}

#[derive(Clone, Copy, Deserialize)]
enum StencilName {
    #[serde(rename = "5-point")]
    Five,
    #[serde(rename = "9-point")]
    Nine,
    #[serde(rename = "7-point")]
    Seven,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum BoundaryKind {
    Fixed,
    Insulated,
}

fn one() -> f64 {
    1.0
}

fn hundred() -> u64 {
    100
}

impl Config {
    /// Reads and checks a configuration; `steps` replaces the file's.
    ///
    /// # Errors
    /// One line that names the line or the key and says what is wrong.
    pub fn parse(text: &str, steps: Option<u64>) -> Result<Config, ConfigError> {
        let keys: Keys = toml::from_str(text).map_err(|error| toml_error(text, &error))?;
        let initial = keys.initial()?;
        let boundary = keys.boundary()?;
        if let Some([low, high]) = keys.temperature {
            check(reasonable(low) && reasonable(high) && low < high, "temperature", || {
                "two temperatures are needed, the lower one first".into()
            })?;
        }
        check((MIN_ALPHA..=MAX_ALPHA).contains(&keys.alpha), "alpha", || {
            format!("the diffusivity must be positive (1e-100 to 1e100), not {}", keys.alpha)
        })?;
        check(keys.tolerance >= 0.0, "tolerance", || {
            format!("it must be 0 or positive, not {}", keys.tolerance)
        })?;
        let steps = steps.unwrap_or(keys.steps);
        check(steps > 0, "steps", || "at least 1 step must be made".into())?;
        check(keys.check_every > 0, "check_every", || "it must be at least 1".into())?;
        if let Some(dt) = keys.dt {
            let positive = dt > 0.0 && dt.is_finite();
            check(positive, "dt", || format!("it must be positive, not {dt}"))?;
        }
        let stencil = keys.stencil.map(|name| match name {
            StencilName::Five => Stencil::Five,
            StencilName::Nine => Stencil::Nine,
            StencilName::Seven => Stencil::Seven,
        });
        Ok(Config {
            initial,
            temperature: keys.temperature,
            stencil,
            alpha: keys.alpha,
            dt: keys.dt,
            steps,
            tolerance: keys.tolerance,
            check_every: keys.check_every,
            boundary,
        })
    }

    /// The stencil for a field of this size: the file's, if it fits, else the simplest that does.
    ///
    /// # Errors
    /// The file's is for planes and the field is a volume, or the other way round.
    pub fn stencil_for(&self, extent: Extent) -> Result<Stencil, ConfigError> {
        let volume = extent.is_volume();
        let simplest = if volume { Stencil::Seven } else { Stencil::Five };
        let stencil = self.stencil.unwrap_or(simplest);
        check((stencil == Stencil::Seven) == volume, "stencil", || {
            let what = if volume { "volume, which needs 7-point" } else { "plane: 5- or 9-point" };
            format!("{} does not fit: the field is a {what}", stencil.name())
        })?;
        Ok(stencil)
    }

    /// The time step, seconds: what the file says if the explicit scheme is stable with it, else
    /// 80 % of the limit. Beyond the limit errors grow from step to step; at it, the finest wave
    /// never decays.
    ///
    /// # Errors
    /// The file's is beyond the limit.
    pub fn time_step(&self, stencil: Stencil) -> Result<f64, ConfigError> {
        let (ratio, formula) = stencil.stability();
        let limit = ratio / self.alpha;
        let dt = self.dt.unwrap_or(0.8 * limit);
        check(dt <= limit, "dt", || {
            format!(
                "{dt} s is unstable: with alpha = {} the limit is {formula} = {limit} s",
                self.alpha
            )
        })?;
        Ok(dt)
    }
}

impl Keys {
    fn initial(&self) -> Result<Initial, ConfigError> {
        match (&self.initial, self.pattern, &self.size) {
            (Some(path), None, None) => Ok(Initial::File(path.clone())),
            (None, Some(pattern), Some(size)) => Ok(Initial::Pattern(pattern, extent(size)?)),
            (None, Some(_), None) => Err(key("size", "a pattern needs a size, as [128, 96]")),
            (_, None, Some(_)) => Err(key("size", "a size is for a pattern: a file has its own")),
            (Some(_), Some(_), _) => Err(key("pattern", "there is an `initial` file as well")),
            (None, None, None) => Err(key("initial", "name a PNG or NPY file, or give a pattern")),
        }
    }

    fn boundary(&self) -> Result<Boundary, ConfigError> {
        match (self.boundary, self.boundary_temperature) {
            (BoundaryKind::Insulated, None) => Ok(Boundary::Insulated),
            (BoundaryKind::Insulated, Some(_)) => {
                Err(key("boundary_temperature", "an insulated boundary has none"))
            }
            (BoundaryKind::Fixed, given) => {
                let temperature = given.unwrap_or(0.0);
                check(reasonable(temperature), "boundary_temperature", || {
                    format!("{temperature} is no temperature")
                })?;
                Ok(Boundary::Fixed(temperature))
            }
        }
    }
}

/// The size of a generated field from the file's two numbers, or three.
fn extent(size: &[u64]) -> Result<Extent, ConfigError> {
    let numbers = match *size {
        [width, height] => [width, height, 1],
        [width, height, depth] => [width, height, depth],
        _ => return Err(key("size", "two numbers are needed for a plane, three for a volume")),
    };
    let cells = numbers.iter().try_fold(1u64, |cells, length| cells.checked_mul(*length));
    check(cells.is_some_and(|cells| cells > 0 && cells <= MAX_CELLS as u64), "size", || {
        let text = size.iter().map(u64::to_string).collect::<Vec<_>>().join(" x ");
        format!("{text} cells: all must be at least 1, the product at most {MAX_CELLS}")
    })?;
    Ok(numbers.map(|length| length as usize).into())
}

/// Whether this can be a temperature.
pub fn reasonable(temperature: f64) -> bool {
    temperature.abs() < MAX_TEMPERATURE
}

impl Pattern {
    /// The pattern on a grid, between two temperatures.
    pub fn field(self, extent: Extent, [low, high]: [f64; 2]) -> Field {
        let Extent { width, height, depth } = extent;
        let sizes = [width, height, depth];
        // A plane lies in the middle of its only layer: at a half of the way, where a sine is 1.
        let along = |i: usize, length: usize| (i + 1) as f64 / (length + 1) as f64;
        Field::from_fn(extent, |x, y, z| {
            let at = [x, y, z];
            let ways = [0, 1, 2].map(|d| along(at[d], sizes[d]));
            let heat = match self {
                Pattern::Sine => {
                    let wave = |way: f64| (std::f64::consts::PI * way).sin();
                    wave(ways[0]) * wave(ways[1]) * wave(ways[2])
                }
                Pattern::Disc => {
                    let distance: f64 = ways.iter().map(|way| (way - 0.5).powi(2)).sum();
                    f64::from(u8::from(distance < 0.0625))
                }
                Pattern::Checker => {
                    let squares = (0..3).map(|d| at[d] * 8 / sizes[d]);
                    (squares.sum::<usize>() % 2) as f64
                }
            };
            low + heat * (high - low)
        })
    }
}

fn key(key: &'static str, reason: &str) -> ConfigError {
    ConfigError::Key { key, reason: reason.into() }
}

fn check(
    holds: bool,
    key: &'static str,
    reason: impl FnOnce() -> String,
) -> Result<(), ConfigError> {
    if holds { Ok(()) } else { Err(ConfigError::Key { key, reason: reason() }) }
}

/// The parser's complaint as one line: where, at which key, what.
fn toml_error(text: &str, error: &toml::de::Error) -> ConfigError {
    let start = error.span().map_or(0, |span| span.start).min(text.len());
    let line = text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count();
    let message = error.message().trim().replace('\n', ", ");
    let key = text.lines().nth(line).and_then(|line| line.split_once('='));
    let message = match key {
        Some((key, _)) if !message.contains('`') || message.starts_with("invalid") => {
            format!("{}: {message}", key.trim())
        }
        _ => message,
    };
    ConfigError::Toml { line: line + 1, message }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const GOOD: &str = "initial = \"a.png\"\nsteps = 10\nboundary = \"fixed\"\n";

    fn with(line: &str) -> Result<Config, ConfigError> {
        Config::parse(&format!("{GOOD}{line}\n"), None)
    }

    /// The error of a configuration with one line more: always one line itself.
    fn complaint(line: &str) -> String {
        let error = with(line).unwrap_err().to_string();
        assert!(!error.contains('\n'), "{error}");
        error
    }

    #[test]
    fn the_short_form_has_defaults() {
        let config = with("").unwrap();
        assert_eq!(config.initial, Initial::File("a.png".into()));
        assert_eq!(config.boundary, Boundary::Fixed(0.0));
        assert_eq!((config.alpha, config.tolerance, config.check_every), (1.0, 0.0, 100));
        assert_eq!(config.time_step(Stencil::Five), Ok(0.2), "80 % of the stability limit");
        assert_eq!(Config::parse(GOOD, Some(3)).unwrap().steps, 3);
    }

    #[test]
    fn the_stability_limit_is_named() {
        let step = |lines, stencil| with(lines).unwrap().time_step(stencil);
        let limit = step("alpha = 2\ndt = 0.125", Stencil::Five);
        assert_eq!(limit, Ok(0.125), "the limit itself is stable");
        let lines = "alpha = 2.0\ndt = 0.126";
        assert_eq!(
            step(lines, Stencil::Five).unwrap_err().to_string(),
            "dt: 0.126 s is unstable: with alpha = 2 the limit is 1/(4 alpha) = 0.125 s"
        );
        assert!(step(lines, Stencil::Nine).is_ok());
        let error = step(lines, Stencil::Seven).unwrap_err().to_string();
        assert!(error.contains("the limit is 1/(6 alpha) = 0.0833"), "{error}");
        assert_eq!(complaint("dt = 0.0"), "dt: it must be positive, not 0");
        assert!(complaint("dt = inf").starts_with("dt: "));
        assert!(complaint("dt = nan").starts_with("dt: "));
    }

    #[test]
    fn a_stencil_fits_its_field() {
        let (plane, volume) = (Extent::from((3, 3)), Extent::from([3, 3, 2]));
        let config = with("").unwrap();
        assert_eq!(config.stencil_for(plane), Ok(Stencil::Five));
        assert_eq!(config.stencil_for(volume), Ok(Stencil::Seven));
        let config = with("stencil = \"9-point\"").unwrap();
        assert_eq!(config.stencil_for(plane), Ok(Stencil::Nine));
        assert_eq!(
            config.stencil_for(volume).unwrap_err().to_string(),
            "stencil: 9-point does not fit: the field is a volume, which needs 7-point"
        );
        let config = with("stencil = \"7-point\"").unwrap();
        assert!(config.stencil_for(plane).is_err());
        let error = complaint("stencil = \"6-point\"");
        assert!(error.starts_with("line 4: unknown variant `6-point`"), "{error}");
    }

    #[test]
    fn every_bad_value_names_its_key() {
        assert_eq!(
            complaint("alpha = -1"),
            "alpha: the diffusivity must be positive (1e-100 to 1e100), not -1"
        );
        for (line, key) in [
            ("alpha = nan", "alpha"),
            ("alpha = inf", "alpha"),
            ("alpha = 0", "alpha"),
            ("alpha = 1e-320", "alpha"),
            ("tolerance = -0.1", "tolerance"),
            ("tolerance = nan", "tolerance"),
            ("check_every = 0", "check_every"),
            ("temperature = [5, 5]", "temperature"),
            ("temperature = [0, inf]", "temperature"),
            ("boundary_temperature = nan", "boundary_temperature"),
            ("pattern = \"sine\"", "pattern"),
            ("size = [3, 3]", "size"),
        ] {
            assert!(complaint(line).starts_with(&format!("{key}: ")), "{}", complaint(line));
        }
    }

    #[test]
    fn toml_errors_name_line_and_key() {
        let error = complaint("conductivty = 1");
        assert!(error.starts_with("line 4: unknown field `conductivty`"), "{error}");
        let error = complaint("alpha = \"much\"");
        assert!(error.starts_with("line 4: alpha: invalid type: string"), "{error}");
        let error = complaint("check_every = -1");
        assert!(error.starts_with("line 4: check_every: "), "{error}");
        let error = complaint("alpha = = 1");
        assert!(error.starts_with("line 4: "), "{error}");
        let error = complaint("steps = 10");
        assert!(error.starts_with("line 4: ") && error.contains("duplicate"), "{error}");
        let error = Config::parse("initial = \"a.png\"\n", None).unwrap_err().to_string();
        assert!(error.contains("missing field `steps`"), "{error}");
    }

    fn sized(size: &str, rest: &str) -> Result<Config, ConfigError> {
        let text = format!("pattern = \"disc\"\nsize = {size}\nsteps = 1\n{rest}");
        Config::parse(&text, None)
    }

    #[test]
    fn sizes_are_checked_before_anything_is_allocated() {
        let insulated = "boundary = \"insulated\"";
        let config = sized("[12, 34]", insulated).unwrap();
        assert_eq!(config.initial, Initial::Pattern(Pattern::Disc, (12, 34).into()));
        let config = sized("[12, 34, 5]", insulated).unwrap();
        assert_eq!(config.initial, Initial::Pattern(Pattern::Disc, [12, 34, 5].into()));
        for size in [
            "[0, 5]",
            "[5, 0]",
            "[1000000, 1000000]",
            "[4294967296, 4294967296]",
            "[5, 5, 0]",
            "[1000, 1000, 1000]",
            "[5]",
            "[]",
            "[1, 2, 3, 4]",
        ] {
            let error = sized(size, insulated).unwrap_err().to_string();
            assert!(error.starts_with("size: "), "{error}");
        }
        assert!(sized("[-1, 3]", insulated).is_err());
        let error = sized("[3, 3]", "boundary = \"insulated\"\nboundary_temperature = 1");
        assert!(error.unwrap_err().to_string().starts_with("boundary_temperature: "));
        let error = Config::parse("steps = 1\nboundary = \"fixed\"", None).unwrap_err();
        assert!(error.to_string().starts_with("initial: "));
        let text = "pattern = \"disc\"\nsteps = 1\nboundary = \"fixed\"";
        assert!(Config::parse(text, None).unwrap_err().to_string().starts_with("size: "));
    }

    #[test]
    fn patterns_lie_between_their_temperatures() {
        for pattern in [Pattern::Sine, Pattern::Disc, Pattern::Checker] {
            for extent in [[31, 17, 1], [15, 13, 17]] {
                let (low, high) = pattern.field(extent.into(), [-5.0, 7.0]).range();
                assert!((-5.0..0.0).contains(&low) && (6.9..=7.0).contains(&high), "{low} {high}");
            }
        }
    }
}
