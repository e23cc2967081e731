//! How a process ended, in words for people and numbers for shells.
//!
//! The exit code, the reason line and the cause that peers receive are three views of one value,
//! so that they cannot disagree.

use std::fmt;

use hikyaku_nic::fabric::DeathCause;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// It exited with this code, 0..=255.
    Code(i32),
    /// This signal killed it.
    Signal(i32),
}

impl Ending {
    /// The exit code as a shell reports it: the process's own, or 128 plus the signal number.
    pub(super) fn code(self) -> i32 {
        match self {
            Ending::Code(code) => code,
            Ending::Signal(signal) => 128 + signal,
        }
    }

    /// Whether the process exited with code 0.
    pub(super) fn is_success(self) -> bool {
        self == Ending::Code(0)
    }

    /// The cause of death that waiting peers receive.
    pub(super) fn cause(self) -> DeathCause {
        match self {
            Ending::Code(code) => DeathCause::Exit(code),
            Ending::Signal(signal) => DeathCause::Signal(signal),
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Ending::Code(code) => write!(f, "exited with code {code}"),
            Ending::Signal(signal) => write!(f, "was killed by {}", NamedSignal(signal)),
        }
    }
}

/// A signal as `signal 9 (SIGKILL)`, or without a name if it has none (real-time signals).
pub(super) struct NamedSignal(pub(super) i32);

impl fmt::Display for NamedSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "signal {}", self.0)?;
        match signal_hook::low_level::signal_name(self.0) {
            Some(name) => write!(f, " ({name})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_follow_the_shell() {
        assert_eq!(Ending::Code(7).code(), 7);
        assert_eq!(Ending::Signal(9).code(), 137);
        assert!(Ending::Code(0).is_success());
        assert!(!Ending::Signal(15).is_success());
    }

    #[test]
    fn words_name_signal_and_code() {
        assert_eq!(Ending::Code(7).to_string(), "exited with code 7");
        assert_eq!(Ending::Signal(9).to_string(), "was killed by signal 9 (SIGKILL)");
        assert_eq!(Ending::Signal(11).to_string(), "was killed by signal 11 (SIGSEGV)");
        assert_eq!(Ending::Signal(40).to_string(), "was killed by signal 40");
    }

    #[test]
    fn peers_are_told_the_same() {
        assert_eq!(Ending::Code(3).cause(), DeathCause::Exit(3));
        assert_eq!(Ending::Signal(6).cause(), DeathCause::Signal(6));
    }
}
