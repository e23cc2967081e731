//! The configuration file: the problem to compute. README.md lists the keys.
//!
//! Only rank 0 reads it. Every error is one line with the file and the cause.

use std::path::{Path, PathBuf};

use kit::program::read_file;
use serde::{Deserialize, Serialize};

use crate::field::{Field, MAX_CELLS, Size};
use crate::files;

/// Longest file that is read, bytes.
const MAX_BYTES: u64 = 1 << 30;

/// The configuration. Rank 0 reads it and sends it to the others.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct HeatPlan {
    /// Picture of the initial temperatures. Without one they are a hot disc.
    pub initial: Option<PathBuf>,
    /// Size of the grid, cells. In the file, the size of the disc.
    pub size: Size,
    /// Temperatures of black and white, and of the ends of the colour map.
    pub temperature: [f64; 2],
    /// Thermal diffusivity α, cells² a second.
    pub alpha: f64,
    /// Time step, seconds.
    pub dt: f64,
    /// The most steps to make.
    pub steps: u64,
    /// Stop when no cell changes by more than this in a step.
    pub tolerance: f64,
    /// Steps from one check of the largest change to the next.
    pub check_every: u64,
    /// Temperature around the grid. Without it, no heat leaves (Neumann in place of Dirichlet).
    pub frame: Option<f64>,
}

impl Default for HeatPlan {
    fn default() -> HeatPlan {
        HeatPlan {
            initial: None,
            size: [0; 2],
            temperature: [0.0, 100.0],
            alpha: 1.0,
            dt: 0.2,
            steps: 1000,
            tolerance: 0.0,
            check_every: 100,
            frame: None,
        }
    }
}

impl HeatPlan {
    /// Reads a configuration, and the picture that it names.
    ///
    /// # Errors
    /// One line with the file and the cause.
    pub fn read(path: &Path) -> Result<(HeatPlan, Field), String> {
        let text = read_file(path, MAX_BYTES)?;
        let in_file = |reason| format!("{}: {reason}", path.display());
        let mut plan = HeatPlan::parse(&text).map_err(in_file)?;
        let field = if let Some(name) = &plan.initial {
            let file = path.with_file_name(name); // relative to the configuration
            let field = files::decode_png(&read_file(&file, MAX_BYTES)?, plan.temperature);
            field.map_err(|reason| format!("{}: {reason}", file.display()))?
        } else {
            plan.disc()
        };
        plan.size = field.size;
        Ok((plan, field))
    }

    /// Parses a configuration and checks what its types do not.
    fn parse(text: &[u8]) -> Result<HeatPlan, String> {
        let plan: HeatPlan = toml::from_slice(text).map_err(|error| {
            let before = &text[..error.span().map_or(0, |span| span.start).min(text.len())];
            let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
            format!("line {line}: {}", error.message().trim().replace('\n', ", "))
        })?;
        let [low, high] = plan.temperature;
        let cells = plan.size[0].saturating_mul(plan.size[1]);
        if !(low < high && [low, high, plan.frame.unwrap_or(low)].iter().all(|it| it.abs() < 1e100))
        {
            return Err("temperature, frame: finite numbers, the lower temperature first".into());
        }
        // Beyond the limit errors grow from step to step; at it, the finest wave never decays.
        if !(plan.ratio() > 0.0 && plan.ratio() <= 0.25) {
            return Err(format!("dt: alpha dt is {}, not in 0 < alpha dt <= 1/4", plan.ratio()));
        }
        match plan.initial {
            Some(_) if plan.size != [0; 2] => Err("size: a picture has its own".into()),
            None if !(1..=MAX_CELLS).contains(&cells) => {
                Err(format!("size: without `initial`, that of a disc of 1 to {MAX_CELLS} cells"))
            }
            _ => Ok(plan),
        }
    }

    /// A hot disc in the middle.
    fn disc(&self) -> Field {
        let [low, high] = self.temperature;
        Field::from_fn(self.size, |at| {
            let off = [0, 1].map(|d| (at[d] + 1) as f64 / (self.size[d] + 1) as f64 - 0.5);
            if off[0] * off[0] + off[1] * off[1] < 0.0625 { high } else { low }
        })
    }

    /// α·dt, cells².
    pub fn ratio(&self) -> f64 {
        self.alpha * self.dt
    }

    /// Whether the largest change is checked in this step: every `check_every` steps, and in the
    /// last one.
    pub fn checks_in(&self, step: u64) -> bool {
        step.is_multiple_of(self.check_every) || step == self.steps
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn parse(lines: &str) -> Result<HeatPlan, String> {
        HeatPlan::parse(format!("size = [4, 3]\n{lines}").as_bytes())
    }

    #[test]
    fn what_is_not_in_the_file_is_the_default() {
        assert_eq!(parse(""), Ok(HeatPlan { size: [4, 3], ..HeatPlan::default() }));
        let plan = parse("dt = 0.125\nframe = 7").unwrap();
        let expected = HeatPlan { size: [4, 3], dt: 0.125, ..HeatPlan::default() };
        assert_eq!(plan, HeatPlan { frame: Some(7.0), ..expected });
    }

    #[test]
    fn every_mistake_is_one_line() {
        for (line, said) in [
            ("colour = 1", "line 2: unknown field `colour`"),
            ("alpha = \"much\"", "line 2: invalid type: string"),
            ("alpha = = 1", "line 2: "),
            ("size = [4, 3]", "line 2: duplicate"),
            ("frame = \"cold\"", "line 2: invalid type: string"),
            ("check_every = -1", "line 2: "),
            ("alpha = -1.0", "dt: alpha dt is -0.2"),
            ("alpha = nan", "dt: alpha dt is NaN"),
            ("dt = 0.0", "dt: alpha dt is 0"),
            ("dt = 0.3", "dt: alpha dt is 0.3, not in 0 < alpha dt <= 1/4"),
            ("temperature = [5.0, 1.0]", "temperature, frame: "),
            ("temperature = [0.0, inf]", "temperature, frame: "),
            ("frame = nan", "temperature, frame: "),
            ("initial = \"a.png\"", "size: a picture has its own"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.starts_with(said) && !error.contains('\n'), "{error}");
        }
        assert!(HeatPlan::parse(b"\xff").unwrap_err().starts_with("line 1: "));
    }

    #[test]
    fn sizes_are_checked_before_anything_is_allocated() {
        for size in ["[0, 5]", "[5, 0]", "[4294967296, 4294967296]", "[20000, 20000]"] {
            let error = HeatPlan::parse(format!("size = {size}").as_bytes()).unwrap_err();
            assert!(error.starts_with("size: "), "{error}");
        }
        assert!(HeatPlan::parse(b"").unwrap_err().starts_with("size: "));
    }

    #[test]
    fn a_disc_is_hot_in_the_middle_and_cold_outside() {
        let (size, temperature) = ([31, 17], [-5.0, 7.0]);
        let field = HeatPlan { size, temperature, ..HeatPlan::default() }.disc();
        assert_eq!((field.cells[0], field.cells[field.cells.len() / 2]), (-5.0, 7.0));
    }

    #[test]
    fn the_change_is_checked_now_and_then_and_in_the_last_step() {
        let plan = parse("steps = 25\ncheck_every = 10").unwrap();
        let checks: Vec<u64> = (1..=25).filter(|step| plan.checks_in(*step)).collect();
        assert_eq!(checks, [10, 20, 25]);
    }

    /// Rank 0 sends the others the plan as TOML.
    #[test]
    fn a_plan_survives_its_journey() {
        for frame in [None, Some(-273.15), Some(0.0)] {
            let (initial, dt, steps) = (Some("a.png".into()), 0.1 + 0.1, i64::MAX as u64);
            let plan = HeatPlan { initial, size: [9, 1], dt, steps, frame, ..HeatPlan::default() };
            assert_eq!(toml::from_str(&toml::to_string(&plan).unwrap()), Ok(plan));
        }
    }
}
