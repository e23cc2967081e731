//! Joins a job, as the environment describes it.

use std::cell::RefCell;
use std::fmt;
use std::fs::File;
use std::str::FromStr;

use hikyaku_coll::Choices;
use hikyaku_msg::{EngineConfig, LongMessages};
use hikyaku_nic::layer::Faults;
use hikyaku_nic::plan::TrafficTrace;
use hikyaku_shm::{AttachError, JobError};
use thiserror::Error;

use crate::communicator::{Communicator, Unheld};
use crate::copies;
use crate::launchers::{HostTimeout, LaunchedRank, LauncherError};
use crate::port::RankPort;
use crate::threads::Inside;

/// Why a program could not join its job. `Debug` prints the same line as `Display`, since
/// Rust prints that for an error that `main` returns.
#[derive(Error)]
pub enum InitError {
    /// It was started by `hikyaku run`, and the job could not be joined.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// A variable of the environment has an invalid value.
    #[error("{variable}: {error}")]
    Variable {
        /// The name of the variable.
        variable: String,
        /// The error in its value.
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Another launcher started it, as one of several, and hikyaku cannot communicate with it.
    #[error(transparent)]
    Foreign(#[from] Foreign),
    /// Another launcher started it, and the ranks cannot connect through it.
    #[error(transparent)]
    Launcher(#[from] LauncherError),
    /// Another library of this process is the rank, and this one cannot share it.
    #[error(
        "`{object}`, which is hikyaku {other}, is the rank of this process, and hikyaku {own} \
         cannot be the same: install both from one build"
    )]
    OtherBuild {
        /// The file of the other library.
        object: String,
        /// The build of the other library.
        other: String,
        /// The build of this library.
        own: String,
    },
    /// The ranks of the job on other hosts cannot be reached.
    #[error("the ranks of this job on other hosts cannot be reached: {0}")]
    Far(#[from] hikyaku_ofi::Error),
    /// It was started alone, and a job of one rank could not be made.
    #[error(transparent)]
    Single(#[from] JobError),
}

impl fmt::Debug for InitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl InitError {
    /// The error of a variable.
    pub fn of<E: std::error::Error + Send + Sync + 'static>(
        variable: impl Into<String>,
    ) -> impl FnOnce(E) -> InitError {
        move |error| InitError::Variable { variable: variable.into(), error: Box::new(error) }
    }
}

thread_local! {
    /// The communicator of all ranks that [`Communicator::join`] has made, if it is still used.
    static JOINED: RefCell<Option<Unheld>> = const { RefCell::new(None) };
}

/// The communicator that [`Communicator::join`] has made on this thread, if it is still used. If
/// threads share the rank, only the thread inside the gate may call it.
pub(crate) fn joined_here() -> Option<Communicator> {
    let known = JOINED.try_with(|known| known.borrow().as_ref().and_then(Unheld::held));
    known.ok().flatten()
}

impl Communicator {
    /// As [`Communicator::init`], for front ends of which a process may have several: a later call
    /// on the same thread returns the same communicator, even if another library with its own copy
    /// of this crate made it. The rank leaves after the last of them has dropped it.
    ///
    /// # Errors
    /// As [`Communicator::init`]; or that library is from another build.
    pub fn join() -> Result<Communicator, InitError> {
        let inside = Inside::enter();
        let known = joined_here();
        drop(inside);
        if let Some(known) = known {
            return Ok(known);
        }
        let made = match copies::rank_elsewhere()? {
            Some(found) => found,
            None => Communicator::init()?,
        };
        let _inside = Inside::enter();
        JOINED.set(Some(made.unheld()));
        Ok(made)
    }

    /// All ranks of the job that this program was started in. A program that was started alone is a
    /// job of one rank.
    ///
    /// # Errors
    /// [`InitError`]: the job cannot be joined, for example because this rank already has; or a
    /// variable of the environment has an invalid value.
    pub fn init() -> Result<Communicator, InitError> {
        let value_of = |name: &str| std::env::var(name).ok();
        let choices = Choices::from_environment(value_of)
            .map_err(|(variable, error)| InitError::of(variable)(error))?;
        let faults = NotASeed::seed(NotASeed::OF_PORTS, value_of)
            .map_err(InitError::of(NotASeed::OF_PORTS))?;
        let limit: UnmatchedLimit = from_environment(UnmatchedLimit::VARIABLE, value_of)
            .map_err(InitError::of(UnmatchedLimit::VARIABLE))?;
        let long_messages = from_environment(LongMessages::VARIABLE, value_of)
            .map_err(InitError::of(LongMessages::VARIABLE))?;
        let trace = trace_file(value_of).map_err(InitError::of(TrafficTrace::VARIABLE))?;
        let timeout: HostTimeout = from_environment(HostTimeout::VARIABLE, value_of)
            .map_err(InitError::of(HostTimeout::VARIABLE))?;
        let (mut port, started) = match hikyaku_shm::attach()? {
            Some(port) => (port, None),
            None => match LaunchedRank::meet(value_of, timeout)? {
                Some((port, started)) => (port, Some(started)),
                None => match Foreign::of(value_of) {
                    Some(foreign) => return Err(foreign.into()),
                    None => (hikyaku_shm::single()?, None),
                },
            },
        };
        if let Some(seed) = faults {
            port.meet(Faults::of_a_job(seed));
        }
        let port = match started {
            Some(started) => RankPort::of_started(port, started)?,
            None => RankPort::open(port)?,
        };
        let joined = Communicator::over(port, choices);
        {
            let mut engine = joined.engine().borrow_mut();
            engine.limit_unmatched(limit.bytes());
            engine.carry_long_messages(long_messages);
        }
        if let Some(file) = trace {
            joined.rank.trace_into(file);
        }
        Ok(joined)
    }
}

/// The file for this rank's part of the job's trace, if one is made. It is opened before the
/// program can change its working directory.
fn trace_file(value_of: impl Fn(&str) -> Option<String>) -> std::io::Result<Option<File>> {
    let name = value_of(TrafficTrace::VARIABLE).filter(|name| !name.is_empty());
    name.map(|name| File::options().append(true).open(name)).transpose()
}

/// The choice in a variable of the environment; the default if it is empty or missing.
///
/// # Errors
/// The variable has an invalid value.
pub fn from_environment<T: FromStr + Default>(
    variable: &str,
    value_of: impl Fn(&str) -> Option<String>,
) -> Result<T, T::Err> {
    let value = value_of(variable).filter(|value| !value.is_empty());
    value.map_or(Ok(T::default()), |value| value.parse())
}

/// An invalid seed in [`NotASeed::VARIABLE`] or [`NotASeed::OF_PORTS`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{given}` is no seed: give a whole number, by which faults are drawn")]
pub struct NotASeed {
    /// The value.
    pub given: String,
}

impl NotASeed {
    /// The variable that asks for faults in shared variables.
    pub const VARIABLE: &'static str = "HIKYAKU_SHARED_FAULTS";

    /// The variable that asks for faults in ports: commands that are refused, or land late.
    pub const OF_PORTS: &'static str = "HIKYAKU_FAULTS";

    /// The seed in a variable of the environment; `None` if it is empty or missing.
    ///
    /// # Errors
    /// It is not a number.
    pub fn seed(
        variable: &str,
        value_of: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<u64>, NotASeed> {
        let value = value_of(variable).filter(|value| !value.is_empty());
        let seed = |given: String| given.parse().map_err(|_| NotASeed { given });
        value.map(seed).transpose()
    }
}

/// The memory limit for a rank's unmatched messages that were moved out of the way of others:
/// messages of senders from which the rank waits for something else. Beyond it those senders wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnmatchedLimit {
    bytes: u64,
}

/// A text that is not an [`UnmatchedLimit`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{given}` is no limit of unmatched messages: give mebibytes a rank, a whole number")]
pub struct NotALimit {
    given: String,
}

impl UnmatchedLimit {
    /// The variable that sets it.
    pub const VARIABLE: &'static str = "HIKYAKU_UNMATCHED";

    fn bytes(self) -> u64 {
        self.bytes
    }
}

impl Default for UnmatchedLimit {
    fn default() -> UnmatchedLimit {
        UnmatchedLimit { bytes: EngineConfig::UNMATCHED_BYTES }
    }
}

impl FromStr for UnmatchedLimit {
    type Err = NotALimit;

    fn from_str(given: &str) -> Result<UnmatchedLimit, NotALimit> {
        let bytes = given.parse().ok().and_then(|mebibytes: u64| mebibytes.checked_mul(1 << 20));
        bytes.map(|bytes| UnmatchedLimit { bytes }).ok_or(NotALimit { given: given.to_owned() })
    }
}

impl fmt::Display for UnmatchedLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.bytes >> 20).fmt(f)
    }
}

/// This process is one of several that were started by another launcher.
///
/// A launcher has started the program as one of several that cannot connect through it (`launchers`
/// supports some). Such programs must not become as many jobs of one rank each, whose results look
/// like those of the whole.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "this program is {} that {launcher} has started ({variable} is set), by which hikyaku's ranks \
     cannot meet: start it by `hikyaku run -n N -- PROGRAM`, mpiexec of MPICH or `srun \
     --mpi=pmi2`, and only if each is meant to be alone have the other launcher start \
     `hikyaku run -n 1 -- PROGRAM`", self.among()
)]
pub struct Foreign {
    /// The launcher.
    launcher: &'static str,
    /// The variable that indicates it.
    variable: &'static str,
    /// The number of programs, if it is known.
    size: Option<u64>,
}

/// Launchers that set the number of programs, with the name of the variable.
const SIZES: [(&str, &str); 3] = [
    ("OMPI_COMM_WORLD_SIZE", "mpirun of Open MPI"),
    ("PMI_SIZE", "mpiexec of another MPI"),
    ("SLURM_STEP_NUM_TASKS", "srun"),
];

impl Foreign {
    fn among(&self) -> String {
        match self.size {
            Some(size) => format!("one of {size}"),
            None => "one of several".to_owned(),
        }
    }

    /// Detects another launcher from the environment. `None`: there is none, or it has started this
    /// program alone.
    pub(crate) fn of(value_of: impl Fn(&str) -> Option<String>) -> Option<Foreign> {
        let number = |name: &str| value_of(name)?.parse::<u64>().ok();
        let said: Vec<(u64, &'static str, &'static str)> =
            SIZES.iter().filter_map(|(name, by)| Some((number(name)?, *name, *by))).collect();
        if let Some((size, variable, launcher)) = said.iter().find(|(size, ..)| *size > 1) {
            return Some(Foreign { launcher, variable, size: Some(*size) });
        }
        if !said.is_empty() {
            return None;
        }
        // The job's size is that of a step only inside a step: a batch script has it as well.
        let of_step = number("SLURM_STEP_ID").and_then(|_| number("SLURM_NTASKS"));
        if let (Some(size), Some(_)) = (of_step, number("SLURM_PROCID")) {
            let (launcher, variable) = ("srun", "SLURM_NTASKS");
            return (size > 1).then_some(Foreign { launcher, variable, size: Some(size) });
        }
        // These have the program's own number, but not the number of programs.
        for (variable, launcher) in [("PMIX_RANK", "prterun"), ("PMI_ID", "mpiexec of another MPI")]
        {
            if value_of(variable).is_some() {
                return Some(Foreign { launcher, variable, size: None });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_seed_is_a_number() {
        let seed = |value: Option<&str>| {
            NotASeed::seed(NotASeed::OF_PORTS, |name| {
                assert_eq!(name, "HIKYAKU_FAULTS");
                value.map(str::to_owned)
            })
        };
        assert_eq!(seed(Some("77")), Ok(Some(77)));
        assert_eq!((seed(Some("")), seed(None)), (Ok(None), Ok(None)));
        let error = seed(Some("often")).unwrap_err();
        assert_eq!(
            InitError::of(NotASeed::OF_PORTS)(error).to_string(),
            "HIKYAKU_FAULTS: `often` is no seed: give a whole number, by which faults are drawn"
        );
    }

    #[test]
    fn mebibytes_are_read_and_anything_else_is_said() {
        let of =
            |value: &str| from_environment::<UnmatchedLimit>("LIMIT", |_| Some(value.to_owned()));
        assert_eq!(of("3").unwrap().bytes(), 3 << 20);
        assert_eq!((of("3").unwrap().to_string().as_str(), of("")), ("3", Ok(Default::default())));
        for bad in ["-1", "64M", "0x10", "99999999999999999999", "17592186044416"] {
            let error = of(bad).unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{bad}` is no limit")), "{error}");
        }
    }

    #[test]
    fn ways_of_long_messages_are_read_from_the_environment() {
        let of = |value: &str| from_environment::<LongMessages>("WAY", |_| Some(value.to_owned()));
        for name in ["auto", "ring", "read", "both"] {
            assert_eq!(of(name).map(|ways| ways.to_string()), Ok(name.to_owned()));
        }
        assert_eq!(of(""), Ok(LongMessages::Fastest));
    }

    fn of(environment: &[(&str, &str)]) -> Option<Foreign> {
        let value = |name: &str| environment.iter().find(|(other, _)| *other == name);
        Foreign::of(|name| value(name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn one_of_several_is_recognised_whoever_started_it() {
        for (environment, by, size) in [
            (&[("PMI_RANK", "0"), ("PMI_SIZE", "4")][..], "mpiexec", Some(4)),
            (&[("PMI_ID", "1"), ("PMI_PORT", "host:1")], "mpiexec", None),
            (&[("PMIX_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "2")], "mpirun", Some(2)),
            (&[("PMIX_RANK", "1")], "prterun", None),
            (&[("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "3")], "srun", Some(3)),
            (
                &[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8"), ("SLURM_STEP_ID", "0")],
                "srun",
                Some(8),
            ),
        ] {
            let foreign = of(environment);
            assert!(
                foreign.as_ref().is_some_and(|it| it.launcher.starts_with(by) && it.size == size),
                "{environment:?}: {foreign:?}"
            );
        }
    }

    #[test]
    fn a_program_alone_is_left_alone() {
        for environment in [
            &[][..],
            &[("PMI_SIZE", "1"), ("PMI_RANK", "0")],
            &[("PMIX_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "1")],
            // A batch script, and a step of one task in it.
            &[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8")],
            &[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8"), ("SLURM_STEP_NUM_TASKS", "1")],
            &[("PMI_SIZE", "many")],
        ] {
            assert_eq!(of(environment), None, "{environment:?}");
        }
    }

    #[test]
    fn the_line_says_what_to_do() {
        let line = of(&[("PMI_SIZE", "4")]).map(|foreign| foreign.to_string());
        assert_eq!(
            line.as_deref(),
            Some(
                "this program is one of 4 that mpiexec of another MPI has started (PMI_SIZE is \
                 set), by which hikyaku's ranks cannot meet: start it by `hikyaku run -n N -- \
                 PROGRAM`, mpiexec of MPICH or `srun --mpi=pmi2`, and only if each is meant to be \
                 alone have the other launcher start `hikyaku run -n 1 -- PROGRAM`"
            )
        );
    }
}
