//! Starting jobs from Python: the base of the package's `hikyaku.spawn`.

use std::ffi::OsString;
use std::time::Duration;

use hikyaku_launch::Launch;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::error::Error;

/// The end of a job: exit code, one line with the reason if it failed, and more lines.
type Ended = (i32, Option<String>, Vec<String>);

/// Runs a job in a process that exists for it alone; returns how it ended.
#[pyfunction]
#[pyo3(name = "_launch")]
pub(crate) fn launch(
    py: Python<'_>,
    ranks: u32,
    words: Vec<OsString>,
    ranks_per_node: Option<u32>,
    timeout: Option<f64>,
) -> PyResult<Ended> {
    let mut words = words.into_iter();
    let program = words.next().ok_or_else(|| PyValueError::new_err("there is no program"))?;
    let job = Launch {
        args: words.collect(),
        ranks_per_node,
        timeout: timeout.map(seconds).transpose()?,
        owns_process: true,
        ..Launch::new(ranks, program)
    };
    let outcome = py.detach(|| job.run());
    let outcome = outcome.map_err(|error| match error.code() {
        2 => PyValueError::new_err(error.to_string()),
        _ => Error::new_err(error.to_string()),
    })?;
    Ok((outcome.code, outcome.reason, outcome.details))
}

fn seconds(seconds: f64) -> PyResult<Duration> {
    let time = Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero());
    time.ok_or_else(|| PyValueError::new_err("timeout: it must be more than 0 seconds"))
}

/// Asks the kernel to end this process when its parent ends.
#[pyfunction]
#[pyo3(name = "_die_with_parent")]
pub(crate) fn die_with_parent() -> PyResult<()> {
    set_parent_process_death_signal(Some(Signal::TERM))
        .map_err(|error| PyOSError::new_err(error.to_string()))
}
