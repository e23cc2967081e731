//! Everything that is read, read once, by rank 0: the configuration and the initial field.
//!
//! Every error here is the user's to mend, so each is one line that names the file and what is
//! wrong with it.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::config::{self, Config, ConfigError, Initial};
use crate::field::{Field, MAX_CELLS};
use crate::image::{self, ImageError};
use crate::npy::{self, NpyError};
use crate::solver::Plan;

/// Longest configuration that is read, bytes.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// Longest picture or array that is read, bytes: the largest field and room for headers.
const MAX_DATA_BYTES: u64 = MAX_CELLS as u64 * 8 + (1 << 20);

/// What is to be computed and from what.
#[derive(Debug)]
pub struct Input {
    /// What every rank must know.
    pub plan: Plan,
    /// The field at the start.
    pub field: Field,
    /// Temperatures of the coldest and the hottest colour in pictures.
    pub range: (f64, f64),
    /// Time step, seconds: turns steps into simulated time.
    pub dt: f64,
}

/// Why there is nothing to compute.
#[derive(Debug, Error)]
pub enum InputError {
    /// A file cannot be read.
    #[error("{path}: cannot be read: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// There is no place for results.
    #[error("{path}: cannot be made a directory for results: {source}")]
    Output {
        /// The directory.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The configuration is wrong.
    #[error("{path}: {source}")]
    Config {
        /// The file.
        path: PathBuf,
        /// Which key, and why.
        source: ConfigError,
    },
    /// The picture is wrong.
    #[error("{path}: {source}")]
    Image {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ImageError,
    },
    /// The array is wrong.
    #[error("{path}: {source}")]
    Npy {
        /// The file.
        path: PathBuf,
        /// Why.
        source: NpyError,
    },
    /// The file is of another kind.
    #[error("{path}: it is neither a PNG nor an NPY file")]
    Kind {
        /// The file.
        path: PathBuf,
    },
    /// A number in the array is not a temperature.
    #[error("{path}: row {row}, column {column} is {value}, which is no temperature")]
    Temperature {
        /// The file.
        path: PathBuf,
        /// Row of the array, from 0.
        row: usize,
        /// Column of the array, from 0.
        column: usize,
        /// What is there.
        value: f64,
    },
}

impl Input {
    /// Reads a configuration and the field it names; `steps` replaces the configuration's.
    ///
    /// # Errors
    /// One line naming the file and the reason.
    pub fn read(path: &Path, steps: Option<u64>) -> Result<Input, InputError> {
        let text = read_text(path)?;
        let config = Config::parse(&text, steps)
            .map_err(|source| InputError::Config { path: path.into(), source })?;
        let shown = config.temperature.unwrap_or([0.0, 100.0]);
        let (field, range) = match &config.initial {
            Initial::Pattern(pattern, extent) => (pattern.field(*extent, shown), shown.into()),
            Initial::File(file) => {
                let file = path.parent().unwrap_or(Path::new("")).join(file);
                read_field(&file, config.temperature)?
            }
        };
        let in_file = |source| InputError::Config { path: path.into(), source };
        let stencil = config.stencil_for(field.extent()).map_err(in_file)?;
        let dt = config.time_step(stencil).map_err(in_file)?;
        let plan = Plan {
            extent: field.extent(),
            stencil,
            ratio: config.alpha * dt,
            boundary: config.boundary,
            steps: config.steps,
            tolerance: config.tolerance,
            check_every: config.check_every,
        };
        Ok(Input { plan, field, range, dt })
    }
}

/// Reads a picture or an array, told apart by their first bytes, and says which temperatures its
/// pictures range over.
fn read_field(
    path: &Path,
    temperature: Option<[f64; 2]>,
) -> Result<(Field, (f64, f64)), InputError> {
    let bytes = read(path, MAX_DATA_BYTES)?;
    if bytes.starts_with(image::MAGIC) {
        let range = temperature.unwrap_or([0.0, 100.0]);
        let field = image::decode(&bytes, range)
            .map_err(|source| InputError::Image { path: path.into(), source })?;
        return Ok((field, range.into()));
    }
    if !bytes.starts_with(npy::MAGIC) {
        return Err(InputError::Kind { path: path.into() });
    }
    let field =
        npy::decode(&bytes).map_err(|source| InputError::Npy { path: path.into(), source })?;
    if let Some(index) = field.cells().iter().position(|cell| !config::reasonable(*cell)) {
        let ([column, row, _], value) = (field.place(index), field.cells()[index]);
        return Err(InputError::Temperature { path: path.into(), row, column, value });
    }
    let range = temperature.map_or_else(|| field.range(), Into::into);
    Ok((field, range))
}

fn read_text(path: &Path) -> Result<String, InputError> {
    let bytes = read(path, MAX_CONFIG_BYTES)?;
    String::from_utf8(bytes).map_err(|_| {
        let source = io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text");
        InputError::Read { path: path.into(), source }
    })
}

/// Reads a whole file unless it is longer than `limit` (or endless, as a device may be).
fn read(path: &Path, limit: u64) -> Result<Vec<u8>, InputError> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(limit + 1).read_to_end(&mut bytes));
    match read {
        Ok(length) if length as u64 <= limit => Ok(bytes),
        Ok(_) => {
            let text = format!("it is longer than {limit} bytes");
            let source = io::Error::new(io::ErrorKind::FileTooLarge, text);
            Err(InputError::Read { path: path.into(), source })
        }
        Err(source) => Err(InputError::Read { path: path.into(), source }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;

    use super::*;
    use crate::config::Boundary;

    /// A directory of its own for each test, removed at its end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let directory = format!("heat-input-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(directory);
            fs::create_dir_all(&path).unwrap();
            Scratch(path)
        }

        /// Writes a configuration that names `data`, and the data; reads it as the program would.
        fn input(&self, file: &str, data: &[u8], more: &str) -> Result<Input, InputError> {
            fs::write(self.0.join(file), data).unwrap();
            let text = format!("initial = \"{file}\"\nsteps = 5\nboundary = \"insulated\"\n{more}");
            fs::write(self.0.join("heat.toml"), text).unwrap();
            Input::read(&self.0.join("heat.toml"), None)
        }

        fn complaint(&self, file: &str, data: &[u8]) -> String {
            let error = self.input(file, data, "").unwrap_err().to_string();
            assert!(error.starts_with(self.0.to_str().unwrap()), "{error}");
            assert!(!error.contains('\n'), "{error}");
            error
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn ramp() -> Field {
        Field::from_fn((4, 3), |x, y, _| (x + 10 * y) as f64)
    }

    #[test]
    fn a_field_is_found_beside_its_configuration() {
        let scratch = Scratch::new("found");
        let input = scratch.input("field.npy", &npy::encode(&ramp()), "").unwrap();
        assert_eq!((input.field, input.range), (ramp(), (0.0, 23.0)));
        assert_eq!(input.plan.extent, (4, 3).into());
        assert_eq!((input.plan.steps, input.plan.boundary), (5, Boundary::Insulated));
        let bytes = npy::encode(&ramp());
        let input = scratch.input("field.npy", &bytes, "temperature = [1, 2]").unwrap();
        assert_eq!(input.range, (1.0, 2.0));
        // Told apart by content, not by name.
        let picture = image::encode(&ramp(), (0.0, 23.0)).unwrap();
        let input = scratch.input("field.npy", &picture, "").unwrap();
        assert_eq!((input.field.extent().width, input.range), (4, (0.0, 100.0)));
    }

    #[test]
    fn bad_data_names_its_file_in_one_line() {
        let scratch = Scratch::new("bad");
        let picture = image::encode(&ramp(), (0.0, 23.0)).unwrap();
        let error = scratch.complaint("cut.png", &picture[..picture.len() / 2]);
        assert!(
            error.ends_with("cut.png: the PNG is truncated: its data end before the picture does")
        );
        let error = scratch.complaint("text.png", b"hello");
        assert!(error.ends_with("text.png: it is neither a PNG nor an NPY file"), "{error}");
        assert!(scratch.complaint("empty.npy", b"").ends_with("nor an NPY file"));
        let mut field = ramp();
        field.row_mut(2, 0)[1] = f64::NAN;
        let error = scratch.complaint("nan.npy", &npy::encode(&field));
        assert!(error.ends_with("nan.npy: row 2, column 1 is NaN, which is no temperature"));
        let file = npy::encode(&ramp());
        let error = scratch.complaint("cut.npy", &file[..file.len() - 1]);
        assert!(error.contains("cut.npy: 96 bytes of numbers were expected"), "{error}");
    }

    #[test]
    fn unreadable_files_are_named() {
        let scratch = Scratch::new("unreadable");
        let error = Input::read(&scratch.0.join("none.toml"), None).unwrap_err().to_string();
        assert!(error.contains("none.toml: cannot be read: No such file"), "{error}");
        let error = Input::read(&scratch.0, None).unwrap_err().to_string();
        assert!(error.contains("cannot be read: Is a directory"), "{error}");
        let error = Input::read(Path::new("/dev/zero"), None).unwrap_err().to_string();
        assert!(error.contains("/dev/zero: cannot be read: it is longer than"), "{error}");
        fs::write(scratch.0.join("latin.toml"), b"initial = \"\xe9\"").unwrap();
        let error = Input::read(&scratch.0.join("latin.toml"), None).unwrap_err().to_string();
        assert!(error.contains("latin.toml: cannot be read: it is not UTF-8"), "{error}");
    }
}
