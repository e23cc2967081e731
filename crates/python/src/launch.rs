//! Starting jobs from Python: what `hikyaku run` and `hikyaku.spawn` of the package stand on.

use std::ffi::OsString;
use std::time::Duration;

use hikyaku::launch::{Bind, Launch};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::error::Error;

/// How a job ended: its exit code, why in one line if it was not success, and more lines.
type Ended = (i32, Option<String>, Vec<String>);

/// Runs a job in a process that exists for it alone; returns how it ended.
#[pyfunction]
#[pyo3(name = "_launch", signature = (
    ranks, words, *, bind=None, ranks_per_node=None, label=false, timeout=None, choices=Vec::new()
))]
#[expect(clippy::too_many_arguments, reason = "the options of hikyaku run, by name")]
pub(crate) fn launch(
    py: Python<'_>,
    ranks: u32,
    words: Vec<OsString>,
    bind: Option<&str>,
    ranks_per_node: Option<u32>,
    label: bool,
    timeout: Option<f64>,
    choices: Vec<String>,
) -> PyResult<Ended> {
    let mut words = words.into_iter();
    let program = words.next().ok_or_else(|| PyValueError::new_err("there is no program"))?;
    let bind = match bind {
        None => Bind::Auto,
        Some("core") => Bind::Core,
        Some("none") => Bind::None,
        Some(other) => {
            return Err(PyValueError::new_err(format!("bind: '{other}' is neither core nor none")));
        }
    };
    let mut job = Launch {
        args: words.collect(),
        bind,
        ranks_per_node,
        label,
        timeout: timeout.map(seconds).transpose()?,
        owns_process: true,
        ..Launch::new(ranks, program)
    };
    for choice in choices {
        job.choose(&choice).map_err(|error| PyValueError::new_err(error.to_string()))?;
    }
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

/// Has the kernel end this process when the one that started it ends.
#[pyfunction]
#[pyo3(name = "_die_with_parent")]
pub(crate) fn die_with_parent() -> PyResult<()> {
    set_parent_process_death_signal(Some(Signal::TERM))
        .map_err(|error| PyOSError::new_err(error.to_string()))
}
