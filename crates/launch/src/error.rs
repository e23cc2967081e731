//! The errors of a launch, and their exit codes.

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
    /// More ranks were asked for than one machine supports.
    #[error("{ranks} ranks are too many: one machine takes at most {MAX_RANKS}")]
    TooManyRanks {
        /// The number asked for.
        ranks: u32,
    },
    /// More ranks were asked for than virtual time supports.
    #[error("{ranks} processes are too many in virtual time: at most {most} run")]
    TooManyVirtual {
        /// The number asked for.
        ranks: u32,
        /// The maximum.
        most: u32,
    },
    /// Nodes of zero ranks were asked for.
    #[error("a node needs at least one rank")]
    EmptyNodes,
    /// The number of landing rings to start in is out of range.
    #[error("ranks of a job of {ranks} cannot start in {rings} landing rings: 1 to {ranks}")]
    Rings {
        /// The job's number of ranks.
        ranks: u32,
        /// The number of rings asked for.
        rings: u32,
    },
    /// The plan of the landing rings is for another number of ranks.
    #[error(
        "the plan is for {planned} ranks and the job has {ranks}: plan from a trace of as many"
    )]
    Planned {
        /// The job's number of ranks.
        ranks: u32,
        /// The plan's number of ranks.
        planned: u32,
    },
    /// The program cannot be executed, through no fault of the machine.
    #[error("cannot run {program:?}: {reason}")]
    Program {
        /// The program as given.
        program: OsString,
        /// The fault.
        reason: &'static str,
    },
    /// The system refused to start another process.
    #[error("cannot start rank {rank}, {program:?}: {source}")]
    Spawn {
        /// The failed rank; those before it had been started, and have been ended.
        rank: u32,
        /// The program.
        program: OsString,
        /// The system's error.
        source: io::Error,
    },
    /// The limit on open files is too low for so many ranks, or daemons of hosts.
    #[error(
        "{count} {what} need {needed} open files and the limit is {limit}: raise it (ulimit -n) \
             or run fewer {what}"
    )]
    Files {
        /// The number of ranks or daemons.
        count: u32,
        /// `ranks` or `daemons`.
        what: &'static str,
        /// The number of descriptors that the launcher needs for them.
        needed: u64,
        /// The hard limit.
        limit: u64,
    },
    /// The number of places on the hosts differs from the number of ranks.
    #[error("{ranks} ranks cannot run on hosts with {places} places")]
    Places {
        /// The number of ranks.
        ranks: u32,
        /// The number of places.
        places: u64,
    },
    /// A host could not start its ranks.
    #[error("{}{reason}", if host.is_empty() { String::new() } else { format!("host {host}: ") })]
    Host {
        /// The host, if the reason does not name it.
        host: String,
        /// The host's error message.
        reason: String,
        /// The matching exit code.
        code: i32,
    },
    /// The limit on the number of processes is reached.
    #[error(
        "cannot start rank {rank}: there are as many processes as there may be; raise the limit \
             (ulimit -u, pids.max of the cgroup) or run fewer ranks"
    )]
    Processes {
        /// The failed rank; those before it had been started, and have been ended.
        rank: u32,
    },
    /// The job's shared memory could not be created.
    #[error(transparent)]
    Memory(#[from] JobError),
    /// Another system call failed.
    #[error("cannot {what}: {source}")]
    System {
        /// The purpose of the call.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl LaunchError {
    /// The launcher's exit code: 2 if the user must ask for something else, 1 if the machine
    /// refused.
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

    /// Separates faults of the program that `exec` found from refusals of the system.
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

/// Whether the program may be executed. If so, the system refused something else.
fn is_executable(program: &OsStr) -> bool {
    let may = |path: &Path| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    let path = env::var_os("PATH").unwrap_or_default();
    places_of(program, &path).iter().any(|place| may(place))
}

/// The files that a program's name may mean: the name itself if it has a slash, else one file in
/// each folder of `path`.
pub(crate) fn places_of(program: &OsStr, path: &OsStr) -> Vec<PathBuf> {
    if program.as_encoded_bytes().contains(&b'/') {
        return vec![program.into()];
    }
    env::split_paths(path).map(|folder| folder.join(program)).collect()
}
