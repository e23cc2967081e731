//! The interface to a launcher that speaks PMI or PMIx, and its errors.

use hikyaku_shm::{AttachError, JobError};
use thiserror::Error;

/// Why the ranks of a job that another launcher has started cannot connect.
#[derive(Debug, Error)]
pub enum LauncherError {
    /// A variable of the launcher has an invalid value.
    #[error(
        "the launcher of this program has set {name} to {value:?}, which cannot be used: was it \
         started by another program in between, or twice?"
    )]
    Variable {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
    },
    /// The channel to the launcher failed.
    #[error("cannot speak to the launcher of this program by PMI: {0}")]
    Channel(String),
    /// The launcher closed the channel.
    #[error("the launcher of this program has closed the channel by which ranks meet (PMI)")]
    Closed,
    /// The launcher's answer is not the expected one.
    #[error("the launcher of this program answers `{line}` and not {wanted} (PMI-1)")]
    Answer {
        /// The expected answer.
        wanted: &'static str,
        /// The received line.
        line: String,
    },
    /// The library of a launcher that speaks PMIx is missing.
    #[error(
        "the launcher of this program speaks PMIx, and libpmix.so.2 cannot be opened ({reason}): \
         install it (Debian: apt-get install libpmix2) or put its folder into LD_LIBRARY_PATH"
    )]
    NoPmix {
        /// The linker's message.
        reason: String,
    },
    /// A call of that library failed.
    #[error("{call} of the launcher of this program failed: {reason}")]
    Pmix {
        /// The call.
        call: &'static str,
        /// The library's message.
        reason: String,
    },
    /// A rank did not publish its address.
    #[error("rank {rank} has not said where it is: does it run the same version of hikyaku?")]
    Missing {
        /// The rank.
        rank: u32,
    },
    /// A rank of this host cannot be reached.
    #[error(
        "the launcher says that this rank and rank {rank} are on one host, and the memory of that \
         cannot be opened ({reason}): do they run in different containers or as different users?"
    )]
    Apart {
        /// The rank.
        rank: u32,
        /// The reason.
        reason: String,
    },
    /// A rank of another host cannot be watched.
    #[error(
        "cannot connect to rank {rank}{place} at {address}, to learn when it dies: {reason}; let \
         the hosts reach each other on all ports, or set HIKYAKU_HOST_TIMEOUT=0 to do without"
    )]
    Unwatched {
        /// The rank.
        rank: u32,
        /// Its host, as " on host NAME".
        place: String,
        /// The address of the one of both that listens.
        address: String,
        /// The system's message.
        reason: String,
    },
    /// No secret could be generated.
    #[error("cannot make a secret of the job: {0}")]
    Secret(std::io::Error),
    /// Ranks of this host cannot be watched.
    #[error(transparent)]
    Watch(#[from] hikyaku_shm::WatchError),
    /// The job's memory could not be made.
    #[error(transparent)]
    Memory(#[from] JobError),
    /// The job's memory could not be joined.
    #[error(transparent)]
    Attach(AttachError),
}

/// The operations of a launcher that ranks need.
pub(super) trait Launcher: std::fmt::Debug + Send {
    /// This rank.
    fn rank(&self) -> u32;

    /// The number of ranks.
    fn size(&self) -> u32;

    /// The index of this program in the job, if the launcher provides it.
    fn program(&self) -> Option<i32>;

    /// The launcher's process on this host, with which this one ends.
    fn process(&self) -> Option<u32> {
        hikyaku_shm::parent()
    }

    /// A number for the host of each rank. `None`: the launcher does not provide it, so there is
    /// one host.
    fn hosts(&mut self) -> Result<Option<Vec<u32>>, LauncherError>;

    /// Publishes a value of this rank.
    fn put(&mut self, key: &str, value: &str) -> Result<(), LauncherError>;

    /// Waits for all ranks; afterwards their published values can be read.
    fn fence(&mut self) -> Result<(), LauncherError>;

    /// The value that a rank has published.
    fn get(&mut self, rank: u32, key: &str) -> Result<String, LauncherError>;

    /// Leaves the job in an orderly way.
    fn finish(&mut self);
}

/// A number, written in digits only.
pub(super) fn number(text: &str) -> Option<u32> {
    text.parse().ok()
}
