//! The configuration file: what is to be computed. README.md lists the keys.
//!
//! Only rank 0 reads it. Every error is one line that names the file and what is wrong with it.

use std::path::{Path, PathBuf};

use kit::program::read_file;
use serde::{Deserialize, Serialize};

use crate::field::{Field, MAX_CELLS, Size};
use crate::files;
use crate::stencil::Stencil;

/// Sums of a few temperatures below this stay finite.
const MAX_TEMPERATURE: f64 = 1e100;

/// Longest file that is read, bytes: the largest field and its header.
const MAX_BYTES: u64 = MAX_CELLS as u64 * 8 + (1 << 20);

/// What lies around the grid.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize)]
pub enum Boundary {
    /// A frame of this temperature (Dirichlet).
    Fixed(f64),
    /// Nothing: no heat leaves (Neumann).
    Insulated,
}

/// What every rank must know to compute its part. Rank 0 reads it and tells the others.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize)]
pub struct HeatPlan {
    /// Size of the grid, cells.
    pub size: Size,
    /// How a cell is computed from its neighbours.
    pub stencil: Stencil,
    /// α·dt in cells²; within the stencil's stability.
    pub ratio: f64,
    /// What lies around the grid.
    pub boundary: Boundary,
    /// The most steps to make.
    pub steps: u64,
    /// Stop when no cell changes by more than this in a step.
    pub tolerance: f64,
    /// Steps from one check of the largest change to the next.
    pub check_every: u64,
}

impl HeatPlan {
    /// Whether the largest change is checked in this step: every `check_every` steps, and in the
    /// last one.
    pub fn checks_in(&self, step: u64) -> bool {
        step.is_multiple_of(self.check_every) || step == self.steps
    }
}

/// What is to be computed and from what.
#[derive(Debug)]
pub struct Input {
    /// What every rank must know.
    pub plan: HeatPlan,
    /// The field at the start.
    pub field: Field,
    /// Temperatures of the coldest and the hottest colour in pictures.
    pub range: [f64; 2],
    /// Time step, seconds: turns steps into simulated time.
    pub dt: f64,
}

/// The file as it stands.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    initial: Option<PathBuf>,
    pattern: Option<Pattern>,
    size: Option<Vec<u64>>,
    stencil: Option<Stencil>,
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

fn one() -> f64 {
    1.0
}

fn hundred() -> u64 {
    100
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum BoundaryKind {
    Fixed,
    Insulated,
}

/// A generated field.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Pattern {
    /// A hot disc, or ball, in the middle.
    Disc,
}

impl Input {
    /// Reads a configuration and the field it names; `steps` replaces the configuration's.
    ///
    /// # Errors
    /// One line that names the file and what is wrong with it.
    pub fn read(path: &Path, steps: Option<u64>) -> Result<Input, String> {
        let text = String::from_utf8(read_file(path, MAX_BYTES)?)
            .map_err(|_| format!("{}: cannot be read: it is not UTF-8 text", path.display()))?;
        let in_file = |reason: String| format!("{}: {reason}", path.display());
        let keys = Keys::parse(&text).map_err(in_file)?;
        let (field, range) = match (&keys.initial, keys.pattern, &keys.size) {
            (Some(file), None, None) => {
                let file = path.parent().unwrap_or(Path::new("")).join(file);
                read_field(&file, keys.temperature)?
            }
            (None, Some(Pattern::Disc), Some(lengths)) => {
                let range = keys.temperature.unwrap_or([0.0, 100.0]);
                (disc(size(lengths).map_err(in_file)?, range), range)
            }
            _ => return Err(in_file("initial: give a file, or `pattern` and `size`".into())),
        };
        let (plan, dt) = keys.plan(field.size, steps).map_err(in_file)?;
        Ok(Input { plan, field, range, dt })
    }
}

impl Keys {
    /// Reads the keys and checks those that stand alone.
    fn parse(text: &str) -> Result<Keys, String> {
        let keys: Keys = toml::from_str(text).map_err(|error| toml_error(text, &error))?;
        let [low, high] = keys.temperature.unwrap_or([0.0, 1.0]);
        check(reasonable(low) && reasonable(high) && low < high, || {
            "temperature: two are needed, the lower one first".into()
        })?;
        check((1e-100..=1e100).contains(&keys.alpha), || {
            format!("alpha: the diffusivity must be positive (1e-100 to 1e100), not {}", keys.alpha)
        })?;
        check(keys.tolerance >= 0.0, || "tolerance: it must be 0 or positive".into())?;
        check(keys.check_every > 0, || "check_every: it must be at least 1".into())?;
        Ok(keys)
    }

    /// What every rank must know to compute a field of this size, and the time step in seconds:
    /// the file's if the explicit scheme is stable with it, else 80 % of the limit. Beyond the
    /// limit errors grow from step to step; at it, the finest wave never decays.
    fn plan(&self, size: Size, steps: Option<u64>) -> Result<(HeatPlan, f64), String> {
        let &Keys { alpha, tolerance, check_every, .. } = self;
        let volume = size[2] > 1;
        let simplest = if volume { Stencil::Seven } else { Stencil::Five };
        let stencil = self.stencil.unwrap_or(simplest);
        let (name, ratio, formula) = stencil.describe();
        check((stencil == Stencil::Seven) == volume, || {
            let what = if volume { "volume, which needs 7-point" } else { "plane: 5- or 9-point" };
            format!("stencil: {name} does not fit: the field is a {what}")
        })?;
        let limit = ratio / alpha;
        let dt = self.dt.unwrap_or(0.8 * limit);
        check(dt > 0.0 && dt.is_finite(), || format!("dt: it must be positive, not {dt}"))?;
        check(dt <= limit, || {
            format!(
                "dt: {dt} s is unstable: with alpha = {alpha} the limit is {formula} = {limit} s"
            )
        })?;
        let boundary = match (self.boundary, self.boundary_temperature) {
            (BoundaryKind::Insulated, None) => Boundary::Insulated,
            (BoundaryKind::Insulated, Some(_)) => {
                return Err("boundary_temperature: an insulated boundary has none".into());
            }
            (BoundaryKind::Fixed, given) => Boundary::Fixed(given.unwrap_or(0.0)),
        };
        check(!matches!(boundary, Boundary::Fixed(it) if !reasonable(it)), || {
            "boundary_temperature: it is not a temperature".into()
        })?;
        let steps = steps.unwrap_or(self.steps);
        check(steps > 0, || "steps: at least 1 step must be made".into())?;
        let ratio = alpha * dt;
        Ok((HeatPlan { size, stencil, ratio, boundary, steps, tolerance, check_every }, dt))
    }
}

/// Reads a picture or an array, told apart by their first bytes, and says which temperatures its
/// pictures range over: those given, else 0 to 100 for a picture and the array's own.
fn read_field(path: &Path, given: Option<[f64; 2]>) -> Result<(Field, [f64; 2]), String> {
    let bytes = read_file(path, MAX_BYTES)?;
    let in_file = |reason: String| format!("{}: {reason}", path.display());
    if bytes.starts_with(files::PNG_MAGIC) {
        let range = given.unwrap_or([0.0, 100.0]);
        return Ok((files::decode_png(&bytes, range).map_err(in_file)?, range));
    }
    let field = files::decode_npy(&bytes).map_err(in_file)?;
    if let Some(index) = field.cells.iter().position(|cell| !reasonable(*cell)) {
        let ([column, row, _], value) = (field.place(index), field.cells[index]);
        return Err(in_file(format!("row {row}, column {column} is {value}: no temperature")));
    }
    let low = field.cells.iter().copied().fold(f64::INFINITY, f64::min);
    let high = field.cells.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Ok((field, given.unwrap_or([low, high])))
}

/// The size of a generated field from the file's two numbers, or three.
fn size(lengths: &[u64]) -> Result<Size, String> {
    let [width, height, depth] = match *lengths {
        [width, height] => [width, height, 1],
        [width, height, depth] => [width, height, depth],
        _ => return Err("size: two numbers are needed for a plane, three for a volume".into()),
    };
    let cells = [height, depth].iter().try_fold(width, |cells, length| cells.checked_mul(*length));
    check(cells.is_some_and(|cells| cells > 0 && cells <= MAX_CELLS as u64), || {
        format!("size: all numbers must be at least 1, the product at most {MAX_CELLS}")
    })?;
    Ok([width, height, depth].map(|length| length as usize))
}

fn disc(size: Size, [low, high]: [f64; 2]) -> Field {
    Field::from_fn(size, |at| {
        // A plane lies in the middle of its only layer.
        let off = [0, 1, 2].map(|d| (at[d] + 1) as f64 / (size[d] + 1) as f64 - 0.5);
        if off.iter().map(|off| off * off).sum::<f64>() < 0.0625 { high } else { low }
    })
}

fn reasonable(temperature: f64) -> bool {
    temperature.abs() < MAX_TEMPERATURE
}

fn check(holds: bool, reason: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(reason()) }
}

/// The parser's complaint as one line: where, at which key, what.
fn toml_error(text: &str, error: &toml::de::Error) -> String {
    let start = error.span().map_or(0, |span| span.start).min(text.len());
    let line = text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count();
    let message = error.message().trim().replace('\n', ", ");
    let key = text.lines().nth(line).and_then(|line| line.split_once('='));
    let key = key.map_or(String::new(), |(key, _)| format!("{}: ", key.trim()));
    format!("line {}: {key}{message}", line + 1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const PLATE: &str = "steps = 10\nboundary = \"fixed\"\n";

    fn plan(text: &str, size: Size) -> Result<(HeatPlan, f64), String> {
        Keys::parse(text).and_then(|keys| keys.plan(size, None))
    }

    #[test]
    fn defaults_are_those_of_the_table() {
        let (plan, dt) = plan(PLATE, [4, 3, 1]).unwrap();
        let expected = HeatPlan {
            size: [4, 3, 1],
            stencil: Stencil::Five,
            ratio: 0.2,
            boundary: Boundary::Fixed(0.0),
            steps: 10,
            tolerance: 0.0,
            check_every: 100,
        };
        assert_eq!((plan, dt), (expected, 0.2));
    }

    #[test]
    fn every_mistake_is_one_line_with_its_key() {
        let plane = [4, 4, 1];
        for (line, size, said) in [
            ("colour = 1", plane, "line 3: colour: unknown field `colour`"),
            ("alpha = \"much\"", plane, "line 3: alpha: invalid type: string"),
            ("alpha = = 1", plane, "line 3: "),
            ("steps = 10", plane, "line 3: steps: duplicate"),
            ("alpha = -1.0", plane, "alpha: the diffusivity must be positive"),
            ("alpha = nan", plane, "alpha: "),
            ("temperature = [5.0, 1.0]", plane, "temperature: "),
            ("temperature = [0.0, inf]", plane, "temperature: "),
            ("tolerance = -1.0", plane, "tolerance: "),
            ("tolerance = nan", plane, "tolerance: "),
            ("check_every = 0", plane, "check_every: "),
            ("check_every = -1", plane, "line 3: check_every: "),
            ("dt = 0.0", plane, "dt: it must be positive"),
            ("dt = nan", plane, "dt: it must be positive"),
            ("dt = 0.3", plane, "dt: 0.3 s is unstable: with alpha = 1 the limit is 1/(4 alpha)"),
            ("dt = 0.2", [4, 4, 4], "dt: 0.2 s is unstable"),
            ("stencil = \"9-point\"", [4, 4, 4], "stencil: 9-point does not fit"),
            ("stencil = \"7-point\"", plane, "stencil: 7-point does not fit"),
            ("stencil = \"6-point\"", plane, "line 3: stencil: unknown variant"),
            ("boundary_temperature = inf", plane, "boundary_temperature: "),
        ] {
            let error = plan(&format!("{PLATE}{line}\n"), size).unwrap_err();
            assert!(error.starts_with(said) && !error.contains('\n'), "{error}");
        }
        let error = plan("boundary = \"fixed\"\n", plane).unwrap_err();
        assert!(error.contains("missing field `steps`"), "{error}");
        let insulated = "steps = 1\nboundary = \"insulated\"\nboundary_temperature = 1.0\n";
        assert!(plan(insulated, plane).unwrap_err().starts_with("boundary_temperature: "));
        let none = plan("steps = 0\nboundary = \"fixed\"\n", plane).unwrap_err();
        assert!(none.starts_with("steps: "), "{none}");
    }

    #[test]
    fn sizes_are_checked_before_anything_is_allocated() {
        assert_eq!(size(&[12, 34]), Ok([12, 34, 1]));
        assert_eq!(size(&[12, 34, 5]), Ok([12, 34, 5]));
        let huge = 1 << 32;
        for lengths in [
            &[0, 5][..],
            &[5, 0],
            &[5, 5, 0],
            &[huge, huge],
            &[1000, 1000, 1000],
            &[5],
            &[],
            &[1; 4],
        ] {
            assert!(size(lengths).unwrap_err().starts_with("size: "), "{lengths:?}");
        }
    }

    #[test]
    fn a_disc_is_hot_in_the_middle_and_cold_outside() {
        for size in [[31, 17, 1], [15, 13, 17]] {
            let field = disc(size, [-5.0, 7.0]);
            assert_eq!(field.cells[0], -5.0);
            assert_eq!(field.cells[field.cells.len() / 2], 7.0);
        }
    }

    #[test]
    fn the_change_is_checked_now_and_then_and_in_the_last_step() {
        let (plan, _) =
            plan("steps = 25\nboundary = \"insulated\"\ncheck_every = 10", [3, 3, 1]).unwrap();
        let checks: Vec<u64> = (1..=25).filter(|step| plan.checks_in(*step)).collect();
        assert_eq!(checks, [10, 20, 25]);
    }

    /// Rank 0 tells the others the plan as TOML.
    #[test]
    fn a_plan_survives_its_journey() {
        let (steps, ratio) = (i64::MAX as u64, 0.1 + 0.1);
        for boundary in [Boundary::Insulated, Boundary::Fixed(-273.15), Boundary::Fixed(0.0)] {
            for stencil in [Stencil::Five, Stencil::Nine, Stencil::Seven] {
                let (size, tolerance, check_every) = ([1024, 3, 5], 1e-300, 7);
                let plan =
                    HeatPlan { size, stencil, ratio, boundary, steps, tolerance, check_every };
                assert_eq!(toml::from_str(&toml::to_string(&plan).unwrap()), Ok(plan));
            }
        }
        assert!(toml::from_str::<HeatPlan>("").is_err(), "bad input");
    }
}
