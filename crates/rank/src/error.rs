//! What can go wrong, and whose fault it is.

use hikyaku_coll::CollError;
use hikyaku_msg::MsgError;
use hikyaku_nic::fabric::PostError;
use hikyaku_nic::region::RegionError;
use hikyaku_shm::{AttachError, JobError};
use thiserror::Error;

use crate::create::CreationError;
use crate::persistent::PersistentError;

/// Why a call did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// A message went wrong: [`MsgError`] says whose fault that is.
    #[error(transparent)]
    Message(#[from] MsgError),
    /// A collective operation went wrong otherwise: ranks disagree, one of them gave up, or an
    /// argument is not what it must be.
    #[error(transparent)]
    Collective(CollError<MsgError>),
    /// A communicator could not be made.
    #[error(transparent)]
    Creation(#[from] CreationError),
    /// There is no memory in this rank's region.
    #[error(transparent)]
    Memory(#[from] RegionError),
    /// The fabric refused a command.
    #[error(transparent)]
    Remote(#[from] PostError),
    /// A persistent exchange could not be made, started or completed.
    #[error(transparent)]
    Persistent(#[from] PersistentError),
}

impl From<CollError<MsgError>> for Error {
    fn from(error: CollError<MsgError>) -> Error {
        match error {
            CollError::Message(error) => Error::Message(error),
            other => Error::Collective(other),
        }
    }
}

/// Why a program could not join its job.
#[derive(Debug, Error)]
pub enum InitError {
    /// It was started by `hikyaku run`, and the job could not be joined.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// It was started by itself, and a job of one rank could not be made.
    #[error(transparent)]
    Single(#[from] JobError),
}
