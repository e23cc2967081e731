//! Failures of calls: a class of the standard, and a line of text (MPI 5.0 §9.4).

use std::fmt;
use std::ops::{Deref, DerefMut};

use hikyaku_coll::topology::TopologyError;
use hikyaku_coll::{Cause, CollError};
use hikyaku_msg::MsgError;
use hikyaku_rank::Error;
use hikyaku_rank::persistent::PersistentError;

use crate::datatype::DatatypeError;
use crate::dialect::{Handle, Status};
use crate::errors::Handler;

macro_rules! classes {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        /// The classes of errors, with the numbers of MPI 5.0 §20.2.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Class {
            $(#[doc = $text] $name = $number,)*
        }

        impl Class {
            /// All classes.
            pub const ALL: &[Class] = &[$(Class::$name),*];

            /// The description of the class.
            pub fn text(self) -> &'static str {
                match self {
                    $(Class::$name => $text,)*
                }
            }
        }
    };
}

classes! {
    Buffer = 1, "the buffer is not valid";
    Count = 2, "the count is not valid";
    Type = 3, "the datatype is not valid";
    Tag = 4, "the tag is not valid";
    Comm = 5, "the communicator is not valid";
    Rank = 6, "the rank is not valid";
    Request = 7, "the request is not valid";
    Root = 8, "the root is not valid";
    Group = 9, "the group is not valid";
    Op = 10, "the operation is not valid";
    Topology = 11, "the topology is not valid";
    Dims = 12, "the dimensions are not valid";
    Arg = 13, "an argument is not valid";
    Unknown = 14, "the error is not known";
    Truncate = 15, "the message is longer than the buffer";
    Other = 16, "another error";
    Intern = 17, "an error of hikyaku itself";
    Pending = 18, "the request is not complete";
    InStatus = 19, "the error code is in the status";
    Access = 20, "permission denied";
    Amode = 21, "the access mode is not valid";
    Assert = 22, "the assertion is not valid";
    BadFile = 23, "the file name is not valid";
    Base = 24, "the base is not valid";
    Conversion = 25, "a data conversion function failed";
    Disp = 26, "the displacement is not valid";
    DupDatarep = 27, "the data representation is defined already";
    FileExists = 28, "the file exists";
    FileInUse = 29, "the file is in use";
    File = 30, "the file handle is not valid";
    InfoKey = 31, "the key is too long, or empty";
    InfoNokey = 32, "there is no such key";
    InfoValue = 33, "the value is too long, empty or not known";
    Info = 34, "the info object is not valid";
    Io = 35, "an input or output error";
    Keyval = 36, "the key of attributes is not valid";
    Locktype = 37, "the type of lock is not valid";
    Name = 38, "the service name is not published";
    NoMem = 39, "there is no memory";
    NotSame = 40, "an argument is not the same at all ranks";
    NoSpace = 41, "there is no space";
    NoSuchFile = 42, "there is no such file";
    Port = 43, "the port name is not valid";
    Quota = 44, "the quota is exceeded";
    ReadOnly = 45, "the file or file system cannot be written";
    RmaAttach = 46, "the memory cannot be attached";
    RmaConflict = 47, "accesses to the window conflict";
    RmaRange = 48, "the target memory is not part of the window";
    RmaShared = 49, "the memory cannot be shared";
    RmaSync = 50, "the calls on the window are in the wrong order";
    Service = 51, "the service name is not valid";
    Size = 52, "the size is not valid";
    Spawn = 53, "the processes could not be started";
    UnsupportedDatarep = 54, "the data representation is not supported";
    UnsupportedOperation = 55, "the operation is not supported";
    Win = 56, "the window is not valid";
    RmaFlavor = 57, "the window has the wrong flavor";
    ProcAborted = 58, "a process has ended";
    ValueTooLarge = 59, "the value is too large to be stored";
    Session = 60, "the session is not valid";
    Errhandler = 61, "the error handler is not valid";
    Abi = 62, "the binary interface is set already";
}

/// The reason why a call failed. It is one word, so that the result of a fallible function stays in
/// registers. A result in memory, written in parts and read as a whole, waits for all earlier
/// stores, and so for the line of the message that was just sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure(Box<Reason>);

/// The details of a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// Its class.
    pub class: Class,
    /// The reason in a line.
    pub text: String,
    /// The side of a call with two arguments of a kind.
    pub(crate) side: Option<CallSide>,
    /// The communicator of the failure if no argument names it: that of a request. The program may
    /// have freed its handle, so its error handler is here too.
    pub(crate) comm: Option<(Handle, Handler)>,
    /// The status of a message that was too long, and was received in part.
    pub(crate) received: Option<Status>,
    /// The code that a function of the program has returned, if that is the reason.
    pub code: Option<i32>,
    /// Whether another rank has failed, whose own error states the reason.
    pub(crate) is_of_another: bool,
    /// Whether the failure is of the call as such, and no argument is wrong.
    is_of_call: bool,
}

/// One of the two sides of a call that sends and receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallSide {
    /// The send side.
    Sent,
    /// The receive side.
    Received,
}

impl CallSide {
    /// Whether an argument of this name belongs to this side.
    fn has(self, argument: &str) -> bool {
        match self {
            CallSide::Sent => ["send", "sdispls", "dest"].iter().any(|it| argument.starts_with(it)),
            CallSide::Received => {
                ["recv", "rdispls", "source"].iter().any(|it| argument.starts_with(it))
            }
        }
    }
}

/// A function as programs call it.
#[derive(Debug, Clone, Copy)]
pub struct CalledFunction {
    /// Its name.
    pub name: &'static str,
    /// The arguments whose values can be wrong, and the error class for each.
    pub arguments: &'static [(&'static str, Class)],
    /// Whether any thread may call it at any time, whatever the level of thread support.
    pub is_for_any_thread: bool,
}

impl CalledFunction {
    /// The reason of a failure, with the name of the wrong argument if it can be determined. This
    /// is done here and not where the value is checked, so that correct calls do not pay for it.
    pub(crate) fn explain(&self, failure: &Failure) -> String {
        let is_of_side = |name: &str| failure.side.is_none_or(|side| side.has(name));
        let one = |fits: &dyn Fn(&(&str, Class)) -> bool| {
            let all: Vec<&str> =
                self.arguments.iter().filter(|it| fits(it)).map(|it| it.0).collect();
            let of_side: Vec<&str> = all.iter().copied().filter(|it| is_of_side(it)).collect();
            match (&all[..], &of_side[..]) {
                ([name], _) | (_, [name]) => Some(*name),
                _ => None,
            }
        };
        let text = &failure.text;
        // The check uses a short name for both sides. The argument of one side has a longer name.
        let quoted = text.strip_prefix('`').and_then(|rest| rest.split_once('`'));
        if let Some((short, rest)) = quoted {
            let is_whole = self.arguments.iter().any(|(name, _)| *name == short);
            let found = one(&|(name, _)| is_long_form(name, short)).filter(|_| !is_whole);
            return found.map_or(text.clone(), |name| format!("`{name}`{rest}"));
        }
        let is_said = |(name, class): &(&str, Class)| {
            *class == failure.class && text.split(|it| !is_of_name(it)).any(|word| word == *name)
        };
        if self.arguments.iter().any(is_said) {
            return text.clone();
        }
        let found = one(&|(_, class)| *class == failure.class);
        found.map_or(text.clone(), |name| format!("`{name}`: {text}"))
    }
}

/// Whether the name of an argument is `short` with a prefix for its side or kind.
fn is_long_form(name: &str, short: &str) -> bool {
    let before = name.strip_suffix(short).unwrap_or("");
    ["send", "recv", "s", "r"].contains(&before) || before.ends_with('_')
}

/// Whether names of arguments may contain this character.
fn is_of_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Deref for Failure {
    type Target = Reason;

    fn deref(&self) -> &Reason {
        &self.0
    }
}

impl DerefMut for Failure {
    fn deref_mut(&mut self) -> &mut Reason {
        &mut self.0
    }
}

impl Failure {
    /// A failure of a class.
    #[cold]
    pub fn new(class: Class, text: impl Into<String>) -> Failure {
        let text = text.into();
        Failure(Box::new(Reason {
            class,
            text,
            side: None,
            comm: None,
            received: None,
            code: None,
            is_of_another: false,
            is_of_call: false,
        }))
    }

    /// Marks the failure as one of the call as such: none of its arguments is wrong.
    #[cold]
    pub(crate) fn of_call(mut self) -> Failure {
        self.is_of_call = true;
        self
    }

    /// Sets the communicator of the failed request.
    #[cold]
    pub(crate) fn of(mut self, comm: (Handle, Handler)) -> Failure {
        self.comm = Some(comm);
        self
    }

    /// Changes the class.
    #[cold]
    pub(crate) fn of_class(mut self, class: Class) -> Failure {
        self.class = class;
        self
    }

    /// Sets the code that a function of the program has returned.
    #[cold]
    pub(crate) fn with_code(mut self, code: Option<i32>) -> Failure {
        self.code = code;
        self
    }

    /// Marks the failure as one of the send side.
    #[cold]
    pub(crate) fn sent(mut self) -> Failure {
        self.side = Some(CallSide::Sent);
        self
    }

    /// Marks the failure as one of the receive side.
    #[cold]
    pub(crate) fn received(mut self) -> Failure {
        self.side = Some(CallSide::Received);
        self
    }

    /// Names the buffer argument, if the failure is about a buffer.
    #[cold]
    pub(crate) fn of_buffer(self, argument: &str) -> Failure {
        if self.class == Class::Buffer { self.named(argument) } else { self }
    }

    /// Memory or another resource is exhausted.
    #[cold]
    pub fn no_memory(text: String) -> Failure {
        Failure::new(Class::NoMem, text)
    }

    /// An argument is invalid.
    #[cold]
    pub fn argument(text: impl Into<String>) -> Failure {
        Failure::new(Class::Arg, text)
    }

    /// Names the wrong argument.
    #[cold]
    #[must_use]
    pub fn named(mut self, argument: &str) -> Failure {
        if !self.is_of_call {
            self.text = format!("`{argument}`: {}", self.text);
        }
        self
    }

    /// A pointer is null.
    #[cold]
    pub fn null(argument: &str) -> Failure {
        Failure::argument(format!("`{argument}` is a null pointer"))
    }
}

impl From<MsgError> for Failure {
    fn from(error: MsgError) -> Failure {
        let class = match &error {
            MsgError::Truncated { .. } => Class::Truncate,
            MsgError::PeerFailed(_) | MsgError::PeerLeft { .. } | MsgError::Abandoned { .. } => {
                Class::ProcAborted
            }
            MsgError::NoSuchRank { .. } => Class::Rank,
            MsgError::InvalidTag { .. } => Class::Tag,
            MsgError::NoSuchRequest => Class::Request,
            MsgError::Malformed { .. } => Class::Intern,
            _ => Class::Other,
        };
        let mut failure = Failure::new(class, error.to_string());
        if let MsgError::Truncated { room, source_rank, tag, .. } = error {
            let source = source_rank as i32;
            failure.received = Some(Status { source, tag, bytes: room, ..Status::EMPTY });
        }
        failure
    }
}

impl From<DatatypeError> for Failure {
    fn from(error: DatatypeError) -> Failure {
        let class = match &error {
            DatatypeError::Negative { argument: "count" | "blocklength", .. }
            | DatatypeError::NegativeElement { .. } => Class::Count,
            DatatypeError::NoRoom { .. } => Class::Truncate,
            DatatypeError::Negative { argument: "rank", .. }
            | DatatypeError::OutOfRange { argument: "rank", .. } => Class::Rank,
            _ => Class::Arg,
        };
        Failure::new(class, error.to_string())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let class = match &error {
            Error::Message(message) => return Failure::from(*message),
            Error::Collective(CollError::Message(message)) => return Failure::from(*message),
            Error::Collective(CollError::NoSuchRoot { .. }) => Class::Root,
            Error::Collective(CollError::Abandoned { cause: Cause::Gone { .. }, .. }) => {
                Class::ProcAborted
            }
            Error::Collective(CollError::Differ { .. }) => Class::NotSame,
            Error::Collective(CollError::Length { .. } | CollError::Uneven { .. }) => Class::Count,
            Error::Creation(_) => Class::Group,
            Error::Memory(_) | Error::Context(_) => Class::NoMem,
            Error::Topology(error) => return Failure::from(error.clone()),
            Error::UnequalEdge { sent, expected, .. }
            | Error::Persistent(PersistentError::Sizes { sent, expected, .. }) => {
                if sent > expected { Class::Truncate } else { Class::Count }
            }
            _ => Class::Other,
        };
        let mut failure = Failure::new(class, error.to_string());
        failure.is_of_another =
            matches!(error, Error::Collective(CollError::Abandoned { cause: Cause::Failed, .. }));
        failure
    }
}

impl From<TopologyError> for Failure {
    fn from(error: TopologyError) -> Failure {
        let class = match &error {
            TopologyError::EmptyDimension { .. }
            | TopologyError::NoSuchDimension { .. }
            | TopologyError::Indivisible { .. } => Class::Dims,
            TopologyError::NoSuchRank { .. } => Class::Rank,
            TopologyError::Disagreement { .. } => Class::NotSame,
            TopologyError::Outside { .. } | TopologyError::WrongCount { .. } => Class::Arg,
            _ => Class::Topology,
        };
        Failure::new(class, error.to_string())
    }
}

impl From<CollError<MsgError>> for Failure {
    fn from(error: CollError<MsgError>) -> Failure {
        Failure::from(Error::from(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_the_numbers_of_the_standard() {
        assert_eq!(Class::ALL.len(), 62);
        for (number, class) in (1..).zip(Class::ALL) {
            assert_eq!(*class as i32, number);
            assert!(!class.text().is_empty());
        }
        assert_eq!(Class::Truncate as i32, 15);
        assert_eq!(Class::ProcAborted as i32, 58);
    }

    #[test]
    fn a_failure_names_the_argument_that_is_wrong() {
        let call = CalledFunction {
            name: "MPI_Alltoallv",
            is_for_any_thread: false,
            arguments: &[
                ("sendbuf", Class::Buffer),
                ("sendcounts", Class::Count),
                ("sdispls", Class::Arg),
                ("recvbuf", Class::Buffer),
                ("recvcounts", Class::Count),
                ("rdispls", Class::Arg),
                ("comm", Class::Comm),
            ],
        };
        let wrong = |class| Failure::new(class, "it is wrong");
        for (failure, expected) in [
            (wrong(Class::Comm), "`comm`: it is wrong"),
            (wrong(Class::Buffer).sent(), "`sendbuf`: it is wrong"),
            (wrong(Class::Count).received(), "`recvcounts`: it is wrong"),
            // Several arguments fit, so none is named.
            (wrong(Class::Count), "it is wrong"),
            (wrong(Class::Other), "it is wrong"),
            (Failure::null("displs").received(), "`rdispls` is a null pointer"),
            (Failure::null("comm"), "`comm` is a null pointer"),
            (Failure::new(Class::Comm, "the comm is wrong"), "the comm is wrong"),
        ] {
            assert_eq!(call.explain(&failure), expected);
        }
    }

    #[test]
    fn errors_of_the_rank_keep_their_words() {
        let error = MsgError::NoSuchRank { rank: 7, size: 2 };
        let failure = Failure::from(Error::from(error));
        assert_eq!((failure.class, &failure.text), (Class::Rank, &error.to_string()));
    }
}
