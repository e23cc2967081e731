//! Errors of libfabric, each in one line that names the call, the provider and the error.

use thiserror::Error;

/// Why a fabric is unavailable, or why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// The library cannot be opened.
    #[error(
        "libfabric.so.1 cannot be opened ({reason}); install it (Debian: apt-get install \
         libfabric1) or put its folder into LD_LIBRARY_PATH"
    )]
    NotInstalled {
        /// The dynamic linker's message.
        reason: String,
    },
    /// The library lacks an entry point.
    #[error(
        "libfabric.so.1 has no {symbol}@{version}: it is older than 1.9; install a newer libfabric"
    )]
    TooOld {
        /// The function.
        symbol: &'static str,
        /// The version that we use.
        version: &'static str,
    },
    /// A call returned an error.
    #[error("{call} of provider {provider} failed: {text} ({code})")]
    Call {
        /// The function of libfabric.
        call: &'static str,
        /// The provider.
        provider: String,
        /// The error number, positive.
        code: i32,
        /// The meaning of the number.
        text: String,
    },
    /// An operation that was accepted has failed.
    #[error(
        "{operation} by provider {provider} failed: {text} ({code}; the provider says {detail})"
    )]
    Operation {
        /// The operation: a send, a read.
        operation: &'static str,
        /// The provider.
        provider: String,
        /// The error number, positive.
        code: i32,
        /// The meaning of the number.
        text: String,
        /// The provider's description.
        detail: String,
    },
    /// A provider has violated its interface.
    #[error("provider {provider} broke the rules of libfabric: {what}")]
    Provider {
        /// The provider.
        provider: String,
        /// The violation.
        what: &'static str,
    },
    /// No endpoint fits.
    #[error("{0}")]
    NoChoice(String),
    /// The peer of a test has gone, or is not a hikyaku peer.
    #[error("{0}")]
    Peer(String),
    /// The caller's request is invalid.
    #[error("{0}")]
    Invalid(String),
    /// Sleeping failed.
    #[error("cannot wait for the provider's descriptor: {0}")]
    Wait(String),
}

impl Error {
    /// The error number of libfabric, positive; up to 255 it is a number of the system. `None`: the
    /// error does not come from a call or an operation.
    pub fn code(&self) -> Option<i32> {
        match self {
            Error::Call { code, .. } | Error::Operation { code, .. } => Some(*code),
            _ => None,
        }
    }
}
