//! Starts one rank's process. The launcher's only unsafe block is here.
//!
//! Between fork and exec the child must do what no attribute of a `Command` can: ask the kernel to
//! kill it when the launcher dies, and check that the launcher has not died before that. The safe
//! way, a helper program that sets itself up and then execs the rank's, costs a second exec for
//! each rank and a helper to be found on disk; `pre_exec` costs that `Command` forks instead of
//! using `posix_spawn`. Whole jobs of `true` on the 2-core reference machine, launcher's start to
//! end, medians of 41 interleaved runs:
//!
//! | ranks | fork (`pre_exec`) | `posix_spawn`, no set-up | a helper's exec would add |
//! |-------|-------------------|--------------------------|---------------------------|
//! | 8     | 6.9 ms            | 7.5 ms                   | 0.8 ms of a CPU for each rank |
//! | 64    | 41 ms             | 36 ms                    | the same                  |
//!
//! What a rank gets, and nothing beyond it:
//! - descriptors 0, 1, 2 and the job's memory; everything else the launcher opens is close-on-exec;
//! - a process group of its own, so that its children can be ended with it;
//! - SIGKILL when the launcher dies, by whatever cause (`PR_SET_PDEATHSIG`). The kernel ties that
//!   to the *thread* that forked: ranks must be started by the thread that supervises the job. It
//!   does not hold for set-user-id programs, which the kernel exempts;
//! - its CPUs, and the limit on open files the launcher was started with.

use std::{
    env,
    ffi::{OsStr, OsString},
    io,
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::process::CommandExt,
    },
    process::{Command, Stdio},
};

use rustix::{
    io::{Errno, FdFlags, fcntl_getfd, fcntl_setfd},
    pipe::{PipeFlags, pipe_with},
    process::{
        Pid, Resource, Rlimit, Signal, getpid, getppid, set_parent_process_death_signal, setrlimit,
    },
    thread::{CpuSet, sched_setaffinity},
};

use super::{LaunchError, Program};

/// What every rank of a job is started with.
pub(super) struct Recipe<'a> {
    /// The program.
    pub(super) program: &'a Program,
    /// The limit on open files to run under.
    pub(super) files: Option<Rlimit>,
    /// Variables that stand in for this process's own.
    pub(super) variables: &'a Variables,
}

/// Variables of an environment.
pub(super) type Variables = [(OsString, OsString)];

/// A process just started, and the reading ends of its standard output and error.
pub(super) struct Spawned {
    pub(super) pid: Pid,
    pub(super) outputs: [OwnedFd; 2],
}

impl Recipe<'_> {
    /// Starts a process.
    ///
    /// # Errors
    /// What was refused; no process is left then.
    pub(super) fn start(
        &self,
        environment: Vec<(String, String)>,
        stdin: Stdio,
        cpus: Option<&[usize]>,
    ) -> Result<Spawned, StartError> {
        let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(|error| StartError::Pipe(error.into()));
        let ((stdout, stdout_end), (stderr, stderr_end)) = (pipe()?, pipe()?);
        let Program { program, args, inherited, folder, .. } = self.program;
        let mut command = Command::new(program);
        let given = |name: &str| self.variables.iter().find(|(other, _)| other == name);
        match inherited {
            Some(names) => {
                command.env_clear();
                command.envs(names.iter().filter_map(|name| {
                    let given = given(name).map(|(_, value)| value.clone());
                    Some((name, given.or_else(|| env::var_os(name))?))
                }));
            }
            None => {
                command.envs(self.variables.iter().map(|(name, value)| (name, value)));
            }
        }
        if let Some(folder) = folder {
            command.current_dir(folder);
        }
        command.args(args).envs(environment).process_group(0);
        command.stdin(stdin).stdout(stdout_end).stderr(stderr_end);
        let setup = ChildSetup { launcher: getpid(), cpus: cpus.map(cpu_set), files: self.files };
        // SAFETY: the closure runs in the child between fork and exec, where only what is
        // async-signal-safe is allowed, as another thread may have held any lock at the fork.
        // `ChildSetup::apply` makes system calls through rustix, reads values it owns, and makes
        // errors of plain numbers: it allocates nothing, takes no lock and cannot panic.
        unsafe { command.pre_exec(move || setup.apply()) };
        let child = command.spawn().map_err(StartError::of)?;
        Ok(Spawned { pid: Pid::from_child(&child), outputs: [stdout, stderr] })
    }
}

/// What a child does to itself before it becomes the rank's program.
struct ChildSetup {
    launcher: Pid,
    cpus: Option<CpuSet>,
    files: Option<Rlimit>,
}

impl ChildSetup {
    /// Runs between fork and exec: system calls only.
    fn apply(&self) -> io::Result<()> {
        set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| at(0, error))?;
        // If the launcher died between the fork and the line above, no signal will come.
        if getppid() != Some(self.launcher) {
            return Err(at(0, Errno::SRCH));
        }
        if let Some(cpus) = &self.cpus {
            sched_setaffinity(None, cpus).map_err(|error| at(1, error))?;
        }
        if let Some(files) = self.files {
            setrlimit(Resource::Nofile, files).map_err(|error| at(2, error))?;
        }
        Ok(())
    }
}

/// What a child does in [`ChildSetup::apply`], in words.
const STEPS: [&str; 3] = [
    "have a rank end with the launcher",
    "bind a rank to its CPUs",
    "limit the open files of a rank",
];

/// Numbers of errors are below; a child's are told with the step above.
const STEP: i32 = 1 << 16;

/// An error of a step in the child: a plain number is all that reaches the launcher.
fn at(step: i32, error: Errno) -> io::Error {
    io::Error::from_raw_os_error((step + 1) * STEP + error.raw_os_error())
}

/// Why a process was not started.
#[derive(Debug)]
pub(super) enum StartError {
    /// Its output had no pipe.
    Pipe(io::Error),
    /// It could not do this to itself.
    Step(&'static str, io::Error),
    /// What `fork` or `exec` answered.
    Spawn(io::Error),
}

impl StartError {
    fn of(error: io::Error) -> StartError {
        let code = error.raw_os_error().unwrap_or_default();
        let step = usize::try_from(code / STEP - 1).ok().and_then(|step| STEPS.get(step));
        match step {
            Some(step) => StartError::Step(step, io::Error::from_raw_os_error(code % STEP)),
            None => StartError::Spawn(error),
        }
    }

    /// The same as the launch's error, of the rank that was to be started.
    pub(super) fn at(self, rank: u32, program: &OsStr) -> LaunchError {
        match self {
            StartError::Pipe(source) => {
                LaunchError::System { what: "make a pipe for the output of a rank", source }
            }
            StartError::Step(what, source) => LaunchError::System { what, source },
            StartError::Spawn(error) => LaunchError::of_spawn(rank, program, error),
        }
    }
}

fn cpu_set(cpus: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu));
    set
}

/// Lets children inherit a descriptor as long as it lives.
///
/// Done here and not in the child, where a borrowed descriptor could only be named by a second
/// unsafe block. The price is that a process another thread starts meanwhile inherits it as well,
/// and keeps the job's memory allocated while it runs.
pub(super) struct Inheritable<'a> {
    fd: BorrowedFd<'a>,
    before: FdFlags,
}

impl<'a> Inheritable<'a> {
    pub(super) fn new(fd: BorrowedFd<'a>) -> io::Result<Inheritable<'a>> {
        let before = fcntl_getfd(fd)?;
        fcntl_setfd(fd, before - FdFlags::CLOEXEC)?;
        Ok(Inheritable { fd, before })
    }
}

impl Drop for Inheritable<'_> {
    fn drop(&mut self) {
        // Cannot fail on an open descriptor; if it did, the descriptor would only stay inheritable.
        let _ = fcntl_setfd(self.fd, self.before);
    }
}
