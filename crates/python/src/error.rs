//! Errors as exceptions: the one clear line of [`hikyaku::Error`], under a class that says whose
//! fault it is.

use hikyaku::persistent::PersistentError;
use hikyaku::shared::SharedError;
use hikyaku::{CollError, CreationError, InitError, MsgError, WindowError};
use pyo3::create_exception;
use pyo3::exceptions::{PyIndexError, PyMemoryError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

create_exception!(
    hikyaku,
    Error,
    PyRuntimeError,
    "What hikyaku could not do, in one line: what, where and what to do."
);
create_exception!(
    hikyaku,
    PeerError,
    Error,
    "Another rank has died, has left the job or has abandoned what was being done together."
);

/// The exception of an error. Invalid arguments are ValueError and IndexError, lack of memory is
/// MemoryError, another rank's fault is PeerError.
pub(crate) fn raise(error: hikyaku::Error) -> PyErr {
    let text = error.to_string();
    match error {
        hikyaku::Error::Message(MsgError::PeerFailed(_) | MsgError::PeerLeft { .. })
        | hikyaku::Error::Message(MsgError::Abandoned { .. })
        | hikyaku::Error::Collective(CollError::Abandoned { .. })
        | hikyaku::Error::Shared(
            SharedError::Lost { .. }
            | SharedError::Overwritten { .. }
            | SharedError::Refused { .. }
            | SharedError::Abandoned { .. },
        )
        | hikyaku::Error::Persistent(
            PersistentError::Elsewhere { .. } | PersistentError::Freed { .. },
        )
        | hikyaku::Error::Window(WindowError::Refused { .. } | WindowError::Closed { .. }) => {
            PeerError::new_err(text)
        }
        hikyaku::Error::Message(MsgError::NoSuchRank { .. } | MsgError::InvalidTag { .. })
        | hikyaku::Error::Collective(
            CollError::NoSuchRoot { .. } | CollError::Length { .. } | CollError::Uneven { .. },
        )
        | hikyaku::Error::Creation(CreationError::Members { .. })
        | hikyaku::Error::Persistent(
            PersistentError::NoSuchRank { .. }
            | PersistentError::Edges { .. }
            | PersistentError::Sizes { .. },
        )
        | hikyaku::Error::TooLarge { .. } => PyValueError::new_err(text),
        hikyaku::Error::Window(WindowError::Outside { .. }) => PyIndexError::new_err(text),
        hikyaku::Error::Memory(_) => PyMemoryError::new_err(text),
        _ => Error::new_err(text),
    }
}

/// The exception of a job that could not be joined.
pub(crate) fn raise_init(error: &InitError) -> PyErr {
    Error::new_err(error.to_string())
}
