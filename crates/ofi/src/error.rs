//! What goes wrong with libfabric, in one line that names the call, the provider and the error.

use thiserror::Error;

/// Why there is no fabric, or an operation of it failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// The library cannot be opened.
    #[error(
        "libfabric.so.1 cannot be opened ({reason}); install it (Debian: apt-get install \
         libfabric1) or put its folder into LD_LIBRARY_PATH"
    )]
    NotInstalled {
        /// What the dynamic linker says.
        reason: String,
    },
    /// The library lacks an entry point.
    #[error(
        "libfabric.so.1 has no {symbol}@{version}: it is older than 1.9; install a newer libfabric"
    )]
    TooOld {
        /// The function.
        symbol: &'static str,
        /// The version of it that we use.
        version: &'static str,
    },
    /// A call returned an error.
    #[error("{call} of provider {provider} failed: {text} ({code})")]
    Call {
        /// The function of libfabric.
        call: &'static str,
        /// Whose.
        provider: String,
        /// The error number, positive.
        code: i32,
        /// What it means.
        text: String,
    },
    /// An operation that was accepted has failed.
    #[error(
        "{operation} by provider {provider} failed: {text} ({code}; the provider says {detail})"
    )]
    Operation {
        /// What was done: a send, a read.
        operation: &'static str,
        /// By whom.
        provider: String,
        /// The error number, positive.
        code: i32,
        /// What it means.
        text: String,
        /// What the provider says of it.
        detail: String,
    },
    /// A provider has done what its interface excludes.
    #[error("provider {provider} broke the rules of libfabric: {what}")]
    Provider {
        /// Which.
        provider: String,
        /// What it did.
        what: &'static str,
    },
    /// No endpoint fits.
    #[error("{0}")]
    NoChoice(String),
    /// The peer of a test has gone, or is not what it should be.
    #[error("{0}")]
    Peer(String),
    /// The caller asks for what cannot be.
    #[error("{0}")]
    Invalid(String),
    /// Sleeping failed.
    #[error("cannot wait for the provider's descriptor: {0}")]
    Wait(String),
}

impl Error {
    /// The error number of libfabric, positive: up to 255 one of the system's. `None`: it is no
    /// error of a call or an operation.
    pub fn code(&self) -> Option<i32> {
        match self {
            Error::Call { code, .. } | Error::Operation { code, .. } => Some(*code),
            _ => None,
        }
    }
}
