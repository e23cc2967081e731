//! Errors of creating and joining a job, each in one clear line.

use hikyaku_nic::fabric::Rank;
use hikyaku_nic::segment::SegmentLayoutError;
use rustix::io::Errno;
use thiserror::Error;

/// Why a job's memory could not be created.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum JobError {
    /// The sizes of the rings are invalid.
    #[error("the job cannot be laid out: {0}")]
    Layout(#[from] SegmentLayoutError),
    /// Another size is invalid.
    #[error("{what} must be {rule}")]
    Sizes {
        /// The name of the size.
        what: &'static str,
        /// The rule that it breaks.
        rule: &'static str,
    },
    /// The machine or the cgroup has less memory than rings and processes need.
    #[error(
        "the rings and processes of {ranks} ranks take {} MiB of memory and {} MiB are available: \
         {fitting} would fit", .wanted.div_ceil(1 << 20), .available >> 20
    )]
    NoMemory {
        /// Ranks of the job.
        ranks: u32,
        /// Bytes needed.
        wanted: u64,
        /// Bytes available.
        available: u64,
        /// The number of ranks that would fit.
        fitting: u32,
    },
    /// A resource limit of this process is too low.
    #[error(
        "the job's memory of {wanted} bytes does not fit into the limit {limit_name} of {limit} \
             bytes: raise it (ulimit) or start fewer ranks"
    )]
    Limit {
        /// The limit's name.
        limit_name: &'static str,
        /// Bytes wanted.
        wanted: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// The operating system refused a step.
    #[error("cannot {what} the job's memory: {errno}")]
    System {
        /// The step.
        what: &'static str,
        /// The system's error.
        errno: Errno,
    },
    /// The process that created the job could not join it.
    #[error(transparent)]
    Attach(#[from] AttachError),
}

/// Why a process could not join its job.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AttachError {
    /// An environment variable is missing or invalid.
    #[error(
        "the environment variable {name} {problem}, expected {expected}: \
             start the program with `hikyaku run`, or unset HIKYAKU_JOB to run it alone"
    )]
    Variable {
        /// The variable.
        name: &'static str,
        /// The error in it.
        problem: String,
        /// The expected content.
        expected: &'static str,
    },
    /// The job's memory cannot be opened.
    #[error(
        "the job of HIKYAKU_JOB cannot be reached: fd {fd} was closed before the program \
             started and /proc/{launcher}/fd/{fd} cannot be opened ({errno}): \
             has `hikyaku run` ended, or does it run as another user or in another container?"
    )]
    Unreachable {
        /// Process id of the launcher.
        launcher: u32,
        /// Its file descriptor.
        fd: i32,
        /// Why it could not be opened.
        errno: Errno,
    },
    /// The descriptor does not refer to the memory of that job.
    #[error(
        "HIKYAKU_JOB does not name the memory of a job (fd {fd} of process {launcher}): \
             it is left over from another run; unset it, or start the program with `hikyaku run`"
    )]
    Foreign {
        /// Process id of the launcher.
        launcher: u32,
        /// Its file descriptor.
        fd: i32,
    },
    /// The launcher was built from other source text.
    #[error(
        "this program's hikyaku is build {ours:016x} and that of `hikyaku run` build \
             {theirs:016x}: build both from the same source"
    )]
    Version {
        /// This program's build.
        ours: u64,
        /// The launcher's build.
        theirs: u64,
    },
    /// The rank is not one of the job's.
    #[error("HIKYAKU_RANK is {rank} and the job has ranks 0 to {}", .ranks.saturating_sub(1))]
    NoSuchRank {
        /// The rank asked for.
        rank: Rank,
        /// The number of ranks.
        ranks: u32,
    },
    /// The rank belongs to another host.
    #[error("HIKYAKU_RANK is {rank}, which is a rank of another host of this job")]
    Elsewhere {
        /// The rank asked for.
        rank: Rank,
    },
    /// The rank has been joined already, by this process or another.
    #[error(
        "rank {rank} has already joined this job (pid {pid}): a rank is one process, which opens \
             its world once; unset HIKYAKU_JOB for a program of it that is to run alone"
    )]
    AlreadyJoined {
        /// The rank.
        rank: Rank,
        /// The process that joined as this rank.
        pid: u32,
    },
    /// The rank's process has ended.
    #[error(
        "rank {rank} (pid {pid}) has already left this job: start each program of a script by \
             `hikyaku run`"
    )]
    Gone {
        /// The rank.
        rank: Rank,
        /// Its process id.
        pid: u32,
    },
    /// The limit on this process's address space is too low.
    #[error(
        "the job's memory of {wanted} bytes does not fit into the limit on address space of \
             {limit} bytes, beside what the program has: raise it (ulimit -v) or start fewer ranks"
    )]
    AddressSpace {
        /// Bytes wanted.
        wanted: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// The operating system refused a step.
    #[error("cannot {what} the job's memory: {errno}")]
    System {
        /// The step.
        what: &'static str,
        /// The system's error.
        errno: Errno,
    },
}

/// Why protected memory was not handed from one rank to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum HandError {
    /// The operating system refused a step.
    #[error("cannot {what} the socket between the ranks: {errno}")]
    System {
        /// The step.
        what: &'static str,
        /// The error.
        errno: Errno,
    },
    /// The other end is another process than the one that joined as the rank.
    #[error(
        "process {found} is at the other end of the socket, and the rank is process {expected}: \
             ranks of one host have to be in one PID namespace for that"
    )]
    Stranger {
        /// The process at the other end; 0 if it is not visible here.
        found: u32,
        /// The rank's process.
        expected: u32,
    },
    /// The received file does not have the announced size, or is not sealed.
    #[error("what came is not the memory that was said")]
    Malformed,
    /// Nothing was received.
    #[error("it was not handed over")]
    Missing,
}
