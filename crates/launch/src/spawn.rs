//! Starts one rank's process. The launcher's only unsafe block is here.
//!
//! Between fork and exec the child must do two things for which `Command` has no attribute: ask the
//! kernel to kill it when the launcher dies, and check that the launcher has not died before that.
//! The safe alternative is a helper program that sets itself up and then execs the rank's program.
//! It costs a second exec per rank and must be found on disk. The cost of `pre_exec` is that
//! `Command` forks instead of using `posix_spawn`. Whole jobs of `true` on the 2-core reference
//! machine, launcher's start to end, medians of 41 interleaved runs:
//!
//! | ranks | fork (`pre_exec`) | `posix_spawn`, no set-up | a helper's exec would add |
//! |-------|-------------------|--------------------------|---------------------------|
//! | 8     | 6.9 ms            | 7.5 ms                   | 0.8 ms of a CPU for each rank |
//! | 64    | 41 ms             | 36 ms                    | the same                  |
//!
//! A rank gets this, and nothing else:
//! - descriptors 0, 1, 2 and the job's memory; every other descriptor of the launcher is
//!   close-on-exec;
//! - a process group of its own, so that its children can be ended with it;
//! - SIGKILL when the launcher dies, from whatever cause (`PR_SET_PDEATHSIG`). The kernel binds
//!   this to the *thread* that forked: the thread that supervises the job must start the ranks.
//!   Programs that are set-user-id are exempt by the kernel;
//! - its CPUs, and the limit on open files with which the launcher was started.

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

/// The settings with which a rank is started.
pub(super) struct Recipe<'a> {
    /// The program.
    pub(super) program: &'a Program,
    /// The limit on open files for the rank.
    pub(super) files: Option<Rlimit>,
    /// Variables that replace this process's own.
    pub(super) variables: &'a Variables,
}

/// The variables of an environment.
pub(super) type Variables = [(OsString, OsString)];

/// A started process, and the read ends of its standard output and error.
pub(super) struct Spawned {
    pub(super) pid: Pid,
    pub(super) outputs: [OwnedFd; 2],
}

impl Recipe<'_> {
    /// Starts a process.
    ///
    /// # Errors
    /// The step that failed; no process is left then.
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
        // SAFETY: the closure runs in the child between fork and exec, where only async-signal-safe
        // operations are allowed, because another thread may have held any lock at the fork.
        // `ChildSetup::apply` makes system calls through rustix, reads values it owns, and makes
        // errors of plain numbers: it allocates nothing, takes no lock and cannot panic.
        unsafe { command.pre_exec(move || setup.apply()) };
        let child = command.spawn().map_err(StartError::of)?;
        Ok(Spawned { pid: Pid::from_child(&child), outputs: [stdout, stderr] })
    }
}

/// The settings that a child applies to itself before it executes the rank's program.
struct ChildSetup {
    launcher: Pid,
    cpus: Option<CpuSet>,
    files: Option<Rlimit>,
}

impl ChildSetup {
    /// Runs between fork and exec: makes system calls only.
    fn apply(&self) -> io::Result<()> {
        set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| at(0, error))?;
        // If the launcher died between the fork and the line above, no signal will be sent.
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

/// The steps of [`ChildSetup::apply`], in words.
const STEPS: [&str; 3] = [
    "have a rank end with the launcher",
    "bind a rank to its CPUs",
    "limit the open files of a rank",
];

/// Above all error numbers. An error of a child's step is the step's number + 1 times this, plus
/// the error number.
const STEP: i32 = 1 << 16;

/// Encodes an error of a step in the child. Only a plain number reaches the launcher.
fn at(step: i32, error: Errno) -> io::Error {
    io::Error::from_raw_os_error((step + 1) * STEP + error.raw_os_error())
}

/// The reason why a process was not started.
#[derive(Debug)]
pub(super) enum StartError {
    /// The pipe for its output could not be created.
    Pipe(io::Error),
    /// This step in the child failed.
    Step(&'static str, io::Error),
    /// The error of `fork` or `exec`.
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

    /// Converts it to the launch's error for this rank.
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

/// Lets children inherit a descriptor during its lifetime.
///
/// The child cannot do this itself: naming a borrowed descriptor there would need a second unsafe
/// block. The drawback is that a process that another thread starts meanwhile also inherits it, and
/// keeps the job's memory allocated while it runs.
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
        // Cannot fail on an open descriptor. A failure would only leave the descriptor inheritable.
        let _ = fcntl_setfd(self.fd, self.before);
    }
}
