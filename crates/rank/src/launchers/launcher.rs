//! What ranks need of a launcher that speaks PMI or PMIx, and what can go wrong.

use hikyaku_shm::{AttachError, JobError};
use thiserror::Error;

/// Why the ranks of a job that another launcher has started cannot meet.
#[derive(Debug, Error)]
pub enum LauncherError {
    /// A variable of the launcher's is not what it should be.
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
    /// It was closed.
    #[error("the launcher of this program has closed the channel by which ranks meet (PMI)")]
    Closed,
    /// The launcher does not answer as it should.
    #[error("the launcher of this program answers `{line}` and not {wanted} (PMI-1)")]
    Answer {
        /// What should have come.
        wanted: &'static str,
        /// What came.
        line: String,
    },
    /// The library of a launcher that speaks PMIx is not there.
    #[error(
        "the launcher of this program speaks PMIx, and libpmix.so.2 cannot be opened ({reason}): \
         install it (Debian: apt-get install libpmix2) or put its folder into LD_LIBRARY_PATH"
    )]
    NoPmix {
        /// What the linker says.
        reason: String,
    },
    /// A call of that library failed.
    #[error("{call} of the launcher of this program failed: {reason}")]
    Pmix {
        /// The call.
        call: &'static str,
        /// What the library says.
        reason: String,
    },
    /// A rank did not say what it should.
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
        /// Why.
        reason: String,
    },
    /// There is no secret to be had.
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

/// What ranks need of a launcher.
pub(super) trait Launcher: std::fmt::Debug + Send {
    /// This rank.
    fn rank(&self) -> u32;

    /// How many there are.
    fn size(&self) -> u32;

    /// Which of the job's programs this is, if the launcher says so.
    fn program(&self) -> Option<i32>;

    /// A number for the host of each rank; `None`: the launcher does not say, so there is one.
    fn hosts(&mut self) -> Result<Option<Vec<u32>>, LauncherError>;

    /// Says something as this rank.
    fn put(&mut self, key: &str, value: &str) -> Result<(), LauncherError>;

    /// Waits for all ranks; then what they have put can be read.
    fn fence(&mut self) -> Result<(), LauncherError>;

    /// What a rank has put.
    fn get(&mut self, rank: u32, key: &str) -> Result<String, LauncherError>;

    /// Leaves the job in order.
    fn finish(&mut self);
}

/// A number, written as nothing but digits.
pub(super) fn number(text: &str) -> Option<u32> {
    text.parse().ok()
}
