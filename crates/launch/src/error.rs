//! Why a job could not be run, and the exit codes of that.

use std::{
    env,
    ffi::{OsStr, OsString},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use hikyaku_shm::JobError;
use rustix::{
    fs::{Access, access},
    io::Errno,
};
use thiserror::Error;

use super::MAX_RANKS;

/// Why a job could not be run.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// Zero ranks were asked for.
    #[error("a job needs at least one rank")]
    NoRanks,
    /// More ranks were asked for than one machine can be expected to hold.
    #[error("{ranks} ranks are too many: one machine takes at most {MAX_RANKS}")]
    TooManyRanks {
        /// How many were asked for.
        ranks: u32,
    },
    /// More ranks were asked for than run in virtual time.
    #[error("{ranks} processes are too many in virtual time: at most {most} run")]
    TooManyVirtual {
        /// How many were asked for.
        ranks: u32,
        /// How many may be.
        most: u32,
    },
    /// Nodes of zero ranks were asked for.
    #[error("a node needs at least one rank")]
    EmptyNodes,
    /// No such number of landing rings to start in.
    #[error("ranks of a job of {ranks} cannot start in {rings} landing rings: 1 to {ranks}")]
    Rings {
        /// How many ranks the job has.
        ranks: u32,
        /// How many rings were asked for.
        rings: u32,
    },
    /// The landing rings are planned for another number of ranks.
    #[error(
        "the plan is for {planned} ranks and the job has {ranks}: plan from a trace of as many"
    )]
    Planned {
        /// How many ranks the job has.
        ranks: u32,
        /// How many the plan has.
        planned: u32,
    },
    /// The program cannot be executed, and that is not the machine's fault.
    #[error("cannot run {program:?}: {reason}")]
    Program {
        /// As it was given.
        program: OsString,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The system would not start another process.
    #[error("cannot start rank {rank}, {program:?}: {source}")]
    Spawn {
        /// Which rank; those before it were started, and have been ended.
        rank: u32,
        /// The program.
        program: OsString,
        /// What the system said.
        source: io::Error,
    },
    /// The limit on open files is too low for so many ranks.
    #[error(
        "{ranks} ranks need {needed} open files and the limit is {limit}: raise it (ulimit -n) \
             or run fewer ranks"
    )]
    Files {
        /// How many ranks.
        ranks: u32,
        /// Descriptors they need in the launcher.
        needed: u64,
        /// The hard limit.
        limit: u64,
    },
    /// The places on the hosts are not as many as the ranks.
    #[error("{ranks} ranks cannot run on hosts with {places} places")]
    Places {
        /// How many ranks.
        ranks: u32,
        /// How many places.
        places: u64,
    },
    /// A host could not start its ranks.
    #[error("{}{reason}", if host.is_empty() { String::new() } else { format!("host {host}: ") })]
    Host {
        /// The host, if the reason does not name it.
        host: String,
        /// What it says.
        reason: String,
        /// The exit code that goes with it.
        code: i32,
    },
    /// There are as many processes as there may be.
    #[error(
        "cannot start rank {rank}: there are as many processes as there may be; raise the limit \
             (ulimit -u, pids.max of the cgroup) or run fewer ranks"
    )]
    Processes {
        /// Which rank; those before it were started, and have been ended.
        rank: u32,
    },
    /// The job's shared memory could not be had.
    #[error(transparent)]
    Memory(#[from] JobError),
    /// Another system call failed.
    #[error("cannot {what}: {source}")]
    System {
        /// What it was for.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl LaunchError {
    /// The exit code a launcher should give: 2 if something else must be asked for, 1 if the
    /// machine has refused.
    pub fn code(&self) -> i32 {
        match self {
            LaunchError::NoRanks
            | LaunchError::TooManyRanks { .. }
            | LaunchError::TooManyVirtual { .. }
            | LaunchError::EmptyNodes
            | LaunchError::Planned { .. }
            | LaunchError::Rings { .. }
            | LaunchError::Places { .. }
            | LaunchError::Program { .. } => 2,
            LaunchError::Host { code, .. } => *code,
            LaunchError::Spawn { .. }
            | LaunchError::Processes { .. }
            | LaunchError::Files { .. }
            | LaunchError::Memory(_)
            | LaunchError::System { .. } => 1,
        }
    }

    /// Sorts out what `exec` found wrong with the program from what the system would not do.
    pub(crate) fn of_spawn(rank: u32, program: &OsStr, error: io::Error) -> LaunchError {
        let path = Path::new(program);
        let is_path = program.as_encoded_bytes().contains(&b'/');
        let reason = match error.kind() {
            ErrorKind::NotFound if program.is_empty() => "its name is empty",
            ErrorKind::NotFound if !is_path => "there is no such program in PATH",
            ErrorKind::NotFound if path.exists() => "its interpreter or loader does not exist",
            ErrorKind::NotFound => "there is no such file",
            ErrorKind::PermissionDenied if path.is_dir() => "it is a directory",
            ErrorKind::PermissionDenied if !is_executable(program) => "it is not executable",
            ErrorKind::NotADirectory => "a part of its path is not a directory",
            ErrorKind::InvalidInput => "its name or an argument contains a zero byte",
            ErrorKind::ArgumentListTooLong => "its arguments are too long",
            ErrorKind::ExecutableFileBusy => "it is being written to",
            _ => match error.raw_os_error().map(Errno::from_raw_os_error) {
                Some(Errno::NOEXEC) => "it is neither a program nor a script",
                Some(Errno::NAMETOOLONG) => "its name is too long",
                Some(Errno::AGAIN) => return LaunchError::Processes { rank },
                Some(Errno::LOOP) => "a part of its path is a symbolic link to itself",
                _ => return LaunchError::Spawn { rank, program: program.into(), source: error },
            },
        };
        LaunchError::Program { program: program.into(), reason }
    }
}

/// Whether the program may be executed, so that something else was refused.
fn is_executable(program: &OsStr) -> bool {
    let may = |path: &Path| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    let path = env::var_os("PATH").unwrap_or_default();
    places_of(program, &path).iter().any(|place| may(place))
}

/// The files that a program's name may mean: itself if it has a slash, else one in each folder of
/// `path`.
pub(crate) fn places_of(program: &OsStr, path: &OsStr) -> Vec<PathBuf> {
    if program.as_encoded_bytes().contains(&b'/') {
        return vec![program.into()];
    }
    env::split_paths(path).map(|folder| folder.join(program)).collect()
}
