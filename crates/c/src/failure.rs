//! The results of calls: a code, and one line with the reason, which is kept. Panics end here.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use hikyaku::shared::SharedError;
use hikyaku::{CollError, CreationError, Error, InitError, MsgError};

/// Done.
pub(crate) const OK: c_int = 0;

/// Not done, without any fault: other ranks hold it, or its turn did not come in time.
pub(crate) const BUSY: c_int = 1;

/// The kind of a failure, as in the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum FailureCode {
    /// An invalid argument.
    Argument = -1,
    /// A call at the wrong time.
    Order = -2,
    /// A call from another thread than the rank's.
    Thread = -3,
    /// Another rank died, left or abandoned the call.
    Peer = -4,
    /// Ranks made different calls.
    Disagree = -5,
    /// No room left: memory, sync variables, communicators.
    Room = -6,
    /// The job cannot be joined.
    Job = -7,
    /// A bug of this library.
    Bug = -8,
}

/// Why a call failed, in one line.
#[derive(Debug)]
pub(crate) struct CallFailure {
    pub(crate) code: FailureCode,
    pub(crate) text: String,
}

impl CallFailure {
    pub(crate) fn new(code: FailureCode, text: impl Into<String>) -> CallFailure {
        CallFailure { code, text: text.into() }
    }

    /// An invalid argument.
    pub(crate) fn argument(text: impl Into<String>) -> CallFailure {
        CallFailure::new(FailureCode::Argument, text)
    }

    /// A call at the wrong time.
    pub(crate) fn order(text: impl Into<String>) -> CallFailure {
        CallFailure::new(FailureCode::Order, text)
    }
}

impl From<Error> for CallFailure {
    fn from(error: Error) -> CallFailure {
        CallFailure::new(code_of(&error), error.to_string())
    }
}

impl From<InitError> for CallFailure {
    fn from(error: InitError) -> CallFailure {
        CallFailure::new(FailureCode::Job, error.to_string())
    }
}

fn code_of(error: &Error) -> FailureCode {
    match error {
        Error::Message(error) => code_of_message(error),
        Error::Collective(error) => match error {
            CollError::NoSuchRoot { .. } => FailureCode::Argument,
            CollError::Abandoned { .. } => FailureCode::Peer,
            _ => FailureCode::Disagree,
        },
        Error::Shared(error) => code_of_shared(error),
        Error::Creation(error) => match error {
            CreationError::Full { .. } => FailureCode::Room,
            CreationError::OtherList { .. } => FailureCode::Disagree,
            _ => FailureCode::Argument,
        },
        Error::PartialElement { .. } => FailureCode::Disagree,
        Error::Memory(_) | Error::TooLarge { .. } => FailureCode::Room,
        _ => FailureCode::Bug,
    }
}

fn code_of_message(error: &MsgError) -> FailureCode {
    match error {
        MsgError::PeerFailed(_) | MsgError::PeerLeft { .. } | MsgError::Abandoned { .. } => {
            FailureCode::Peer
        }
        MsgError::Truncated { .. } => FailureCode::Disagree,
        MsgError::NoSuchRank { .. } | MsgError::InvalidTag { .. } => FailureCode::Argument,
        MsgError::WaitsForItself { .. } => FailureCode::Order,
        MsgError::Forked { .. } => FailureCode::Thread,
        _ => FailureCode::Bug,
    }
}

fn code_of_shared(error: &SharedError) -> FailureCode {
    match error {
        SharedError::Mismatch { .. } => FailureCode::Disagree,
        SharedError::Recursive { .. } | SharedError::OtherInterface { .. } => FailureCode::Order,
        SharedError::TooMany { .. } | SharedError::TooManyRanks { .. } => FailureCode::Room,
        SharedError::Refused { .. }
        | SharedError::Abandoned { .. }
        | SharedError::Lost { .. }
        | SharedError::Overwritten { .. } => FailureCode::Peer,
        _ => FailureCode::Argument,
    }
}

/// The header's names of the codes.
#[cfg(test)]
pub(crate) const CONSTANTS: [(&str, i64); 10] = [
    ("HIKYAKU_OK", OK as i64),
    ("HIKYAKU_BUSY", BUSY as i64),
    ("HIKYAKU_E_ARGUMENT", FailureCode::Argument as i64),
    ("HIKYAKU_E_ORDER", FailureCode::Order as i64),
    ("HIKYAKU_E_THREAD", FailureCode::Thread as i64),
    ("HIKYAKU_E_PEER", FailureCode::Peer as i64),
    ("HIKYAKU_E_DISAGREE", FailureCode::Disagree as i64),
    ("HIKYAKU_E_ROOM", FailureCode::Room as i64),
    ("HIKYAKU_E_JOB", FailureCode::Job as i64),
    ("HIKYAKU_E_BUG", FailureCode::Bug as i64),
];

thread_local! {
    /// The line that `hikyaku_error` returns.
    static LAST: RefCell<CString> = RefCell::default();
}

/// The line of the last call of this thread that failed; empty if none has.
pub(crate) fn last() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// Runs the body of a call: the boundary between C and Rust. A failure, or a panic (a bug of this
/// library), becomes its code, and its line is kept.
#[inline]
pub(crate) fn answer(body: impl FnOnce() -> Result<c_int, CallFailure>) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(code)) => code,
        Ok(Err(failure)) => keep(failure),
        Err(panic) => keep(CallFailure::new(FailureCode::Bug, said(&*panic))),
    }
}

#[cold]
fn keep(CallFailure { code, text }: CallFailure) -> c_int {
    // The name of a variable may have lines of its own.
    let text = text.replace('\0', "\\0").replace('\n', "\\n");
    let text = CString::new(text).unwrap_or_default();
    // A thread that is ending has no thread-local left for it.
    let _ = LAST.try_with(|last| last.replace(text));
    code as c_int
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    let text = text.unwrap_or_else(|| "it did not say why".to_owned());
    format!("hikyaku has a mistake, please report it: {}", text.replace('\n', " "))
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    fn last_line() -> String {
        LAST.with_borrow(|last| CStr::to_string_lossy(last).into_owned())
    }

    #[test]
    fn a_panic_becomes_a_code_and_a_line() {
        assert_eq!(answer(|| Ok(7)), 7);
        let code = answer(|| panic!("rank {} of\n2", 5));
        assert_eq!(code, FailureCode::Bug as c_int);
        assert_eq!(last_line(), "hikyaku has a mistake, please report it: rank 5 of 2");
        let code = answer(|| std::panic::panic_any(5));
        assert_eq!((code, last_line().lines().count()), (FailureCode::Bug as c_int, 1));
    }

    #[test]
    fn the_line_stays_until_the_next_failure_of_the_thread() {
        let failed = answer(|| Err(CallFailure::argument("a zero \0 and\na line within")));
        assert_eq!((failed, last_line().as_str()), (-1, "a zero \\0 and\\na line within"));
        assert_eq!(answer(|| Ok(OK)), OK);
        assert_eq!(last_line(), "a zero \\0 and\\na line within");
        let other = std::thread::spawn(last_line).join();
        assert!(other.is_ok_and(|line| line.is_empty()));
    }
}
