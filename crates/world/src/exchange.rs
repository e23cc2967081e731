//! Requests that end together: the open requests of a non-blocking neighbour collective.
//!
//! The scope keeps an exchange until its last request has ended, and with it the memory that its
//! requests use besides the program's buffers. Then the exchange ends: data that was received
//! outside its buffer is copied into it. If the scope abandons the exchange, that is never done.

use std::collections::VecDeque;
use std::fmt;

use hikyaku_coll::neighbour::{ExchangeError, check_size};
use hikyaku_msg::{MsgError, Received, RequestId};
use hikyaku_rank::TaskId;

use crate::error::Error;

/// Makes the error of an unexpected size, from the place of the edge, bytes sent, bytes expected.
type Explain = Box<dyn Fn(usize, u64, u64) -> Error>;

/// Copies data received outside the buffer into it; owns that memory.
type Unpack = Box<dyn FnOnce() -> Result<(), Error>>;

/// A started operation for which the program has not waited.
#[derive(Debug)]
pub(crate) enum Open {
    Request(RequestId),
    Collective(TaskId),
    /// Boxed, so that requests, which most are, stay small.
    Exchange(Box<StartedExchange>),
}

/// An exchange that was started.
pub(crate) struct StartedExchange {
    name: u64,
    waits: VecDeque<Waiting>,
    /// The first failure so far.
    outcome: Result<(), Error>,
    explain: Explain,
    unpack: Unpack,
}

/// One of its requests.
struct Waiting {
    id: RequestId,
    /// For a receive: place of the edge, and the bytes expected.
    expected: Option<(usize, u64)>,
}

impl fmt::Debug for StartedExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open: Vec<RequestId> = self.open().collect();
        f.debug_struct("StartedExchange").field("name", &self.name).field("open", &open).finish()
    }
}

impl StartedExchange {
    pub(crate) fn new(name: u64, explain: Explain, unpack: Unpack) -> StartedExchange {
        StartedExchange { name, waits: VecDeque::new(), outcome: Ok(()), explain, unpack }
    }

    pub(crate) fn name(&self) -> u64 {
        self.name
    }

    /// The requests that have not ended, in the order in which they were started.
    pub(crate) fn open(&self) -> impl Iterator<Item = RequestId> + '_ {
        self.waits.iter().map(|wait| wait.id)
    }

    /// Adds a request that was started, or records why it could not be.
    pub(crate) fn started(
        &mut self,
        request: Result<RequestId, MsgError>,
        expected: Option<(usize, u64)>,
    ) {
        match request {
            Ok(id) => self.waits.push_back(Waiting { id, expected }),
            Err(error) => self.fail(error.into()),
        }
    }

    /// Records that the first open request has ended.
    pub(crate) fn settle(&mut self, result: Result<Received, MsgError>) {
        let Some(Waiting { expected, .. }) = self.waits.pop_front() else { return };
        let checked = match expected {
            None => result.map(drop).map_err(ExchangeError::Message),
            Some((edge, bytes)) => check_size(edge, bytes, length(result)),
        };
        match checked {
            Ok(()) => {}
            Err(ExchangeError::Message(error)) => self.fail(error.into()),
            Err(ExchangeError::Size { edge, sent, expected }) => {
                self.fail((self.explain)(edge, sent, expected));
            }
        }
    }

    fn fail(&mut self, error: Error) {
        if self.outcome.is_ok() {
            self.outcome = Err(error);
        }
    }

    /// The result, when no request is open. Copies data to its final place if nothing failed.
    pub(crate) fn end(self) -> Result<(), Error> {
        debug_assert!(self.waits.is_empty(), "an exchange ends when its requests have");
        self.outcome.and_then(|()| (self.unpack)())
    }
}

/// The length of the arrived message, even if it did not fit.
fn length(result: Result<Received, MsgError>) -> Result<u64, MsgError> {
    match result {
        Ok(received) => Ok(received.bytes),
        Err(MsgError::Truncated { sent, .. }) => Ok(sent),
        Err(error) => Err(error),
    }
}
