//! Groups of real ranks: one communicator context of a message engine.
//!
//! Notices of failed calls are notes of the same context with a tag of their own, so that no
//! message of the program holds them up.
//!
//! After a failure messages are left over: what was sent to a rank that had given up, and notices
//! to ranks that were done already. Nobody will receive them, so they are looked for and dropped
//! when operations end, by what the [`Book`] knows of operations that are open or have failed here.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use hikyaku_msg::{Endpoint, MsgError, RecvFuture};
use hikyaku_nic::fabric::{Activity, Name, Port, PostError, Wait};

use crate::error::Cause;
use crate::group::{Ending, Group, Notice};
use crate::names::{Named, is_to_come, notice_tag};
use crate::signature::Element;

/// A rank's handle on a communicator, for collectives.
///
/// Its context must be apart from that of other messages, and its book be kept as long as the
/// context: every rank starts the collectives of a context in the same order (MPI 5.0 §6.12), and
/// so all have the same number for the same one.
#[derive(Debug)]
pub struct Communicator<'e, P: Port> {
    endpoint: Endpoint<'e, P>,
    book: &'e Book,
    element: Element,
}

/// How many failures a book remembers. What is left of older ones has come long ago.
const FAILED_MOST: usize = 64;

/// What a rank notes of a communicator's collectives.
#[derive(Debug, Default)]
pub struct Book {
    /// How many were started.
    started: Cell<u32>,
    /// Notice tags of those that have not ended.
    open: RefCell<Vec<i32>>,
    /// Notice tags of those that failed here: what still comes for them is dropped.
    failed: RefCell<Vec<i32>>,
}

impl Book {
    /// A book of `started` collectives, none of which is open.
    pub fn at(started: u32) -> Book {
        Book { started: Cell::new(started), ..Book::default() }
    }

    /// Whether a message with this tag is one that nobody will receive.
    fn is_left_over(&self, tag: i32) -> bool {
        let about = notice_tag(tag);
        let has_ended =
            || !is_to_come(tag, self.started.get()) && !self.open.borrow().contains(&about);
        self.failed.borrow().contains(&about) || (tag == about && has_ended())
    }
}

impl<P: Port> Clone for Communicator<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Port> Copy for Communicator<'_, P> {}

impl<'e, P: Port> Communicator<'e, P> {
    /// The ranks that `endpoint` reaches, and the book of their collectives.
    pub fn new(endpoint: Endpoint<'e, P>, book: &'e Book) -> Communicator<'e, P> {
        Communicator { endpoint, book, element: Element::BYTE }
    }

    /// The same ranks, for calls on elements that are not bytes.
    #[must_use]
    pub fn with_elements(self, element: Element) -> Communicator<'e, P> {
        Communicator { element, ..self }
    }

    /// What its messages go through.
    pub fn endpoint(&self) -> &Endpoint<'e, P> {
        &self.endpoint
    }

    /// Drops what has come of operations that have failed or ended here. Done whenever an operation
    /// ends; to be called for a communicator that has no more of them.
    pub fn drop_left_overs(&self) {
        let left_over = |tag| self.book.is_left_over(tag);
        while self.endpoint.take_note(left_over).is_some() {}
        let any_failed = !self.book.failed.borrow().is_empty();
        loop {
            // A failure is rare, and then all is looked at.
            let found = match any_failed {
                true => self.endpoint.unexpected(left_over),
                false => self.endpoint.oldest_unexpected(left_over),
            };
            let Some(found) = found else { return };
            // What is not here whole is withdrawn by its sender, who has given up too.
            if self.endpoint.take_unexpected(&mut [], found.source, found.tag).is_none() {
                return;
            }
        }
    }
}

impl<P: Port> Group for Communicator<'_, P> {
    type Byte = u8;
    type Error = MsgError;

    fn rank(&self) -> u32 {
        self.endpoint.rank()
    }

    fn size(&self) -> u32 {
        self.endpoint.size()
    }

    fn node_of(&self, rank: u32) -> u32 {
        self.endpoint.node_of(rank)
    }

    fn nodes(&self) -> u32 {
        // Ranks are numbered node by node (`hikyaku run --ranks-per-node`).
        self.endpoint.node_of(self.endpoint.size() - 1) + 1
    }

    fn element(&self) -> Element {
        self.element
    }

    fn open(&self) -> u32 {
        let number = self.book.started.get();
        self.book.started.set(number.wrapping_add(1));
        let about = Named::notice_tag_of(number);
        self.book.open.borrow_mut().push(about);
        // The same number may have failed when it was used before.
        self.book.failed.borrow_mut().retain(|other| *other != about);
        number
    }

    fn send<'a>(
        &'a self,
        bytes: &'a [u8],
        to: u32,
        tag: i32,
    ) -> impl Future<Output = Result<(), MsgError>> + Unpin + 'a {
        self.endpoint.send(bytes, to, tag)
    }

    fn recv<'a>(
        &'a self,
        into: &'a mut [u8],
        from: u32,
        tag: i32,
    ) -> impl Future<Output = Result<u64, MsgError>> + Unpin + 'a {
        Length(self.endpoint.recv(into, Some(from), Some(tag)))
    }

    fn unsupported(what: &'static str) -> MsgError {
        MsgError::Fabric(PostError::Unsupported(what))
    }

    fn gone(error: &MsgError) -> Option<u32> {
        match error {
            MsgError::PeerFailed(failure) => Some(failure.rank),
            MsgError::PeerLeft { rank } => Some(*rank),
            _ => None,
        }
    }

    fn close(&self, tag: i32, ending: Ending) {
        let about = notice_tag(tag);
        self.book.open.borrow_mut().retain(|other| *other != about);
        if let Ending::Failed(cause) = ending {
            let others = (0..self.size()).filter(|rank| *rank != self.rank());
            for rank in others {
                // One that cannot be told is gone, and needs no telling.
                let _ = self.endpoint.send_note(&encode(cause), rank, about);
            }
        }
        if ending != Ending::Done {
            let mut failed = self.book.failed.borrow_mut();
            if failed.len() == FAILED_MOST {
                failed.remove(0);
            }
            failed.push(about);
        }
        self.drop_left_overs();
    }

    fn reported_waits(&self) -> Option<u32> {
        self.endpoint.reported_waits()
    }

    fn report_operation(&self, before: u32, operation: &'static str, root: Option<u32>) {
        let name = match root {
            Some(root) => Name::from(format_args!("{operation} (root {root})")),
            None => Name::new(operation),
        };
        self.endpoint.report_whole(before, Wait::new(Activity::Collective).named(name));
    }

    fn notice(&self, tag: i32) -> Option<Notice> {
        let about = notice_tag(tag);
        let same_operation = |other: i32| other != tag && notice_tag(other) == about;
        if let Some(found) = self.endpoint.unexpected(same_operation) {
            return Some(Notice::OtherCall { rank: found.source, tag: found.tag });
        }
        let (found, words) = self.endpoint.take_note(|tag| tag == about)?;
        let cause = words.as_slice().try_into().ok().and_then(decode);
        Some(Notice::GaveUp { rank: found.source, cause: cause.unwrap_or(Cause::Failed) })
    }
}

/// A receive that answers with the length of the message, also if that was too long.
struct Length<'e, 'b, P: Port>(RecvFuture<'e, 'b, P>);

impl<P: Port> Future for Length<'_, '_, P> {
    type Output = Result<u64, MsgError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|received| match received {
            Ok(received) => Ok(received.bytes),
            Err(MsgError::Truncated { sent, .. }) => Ok(sent),
            Err(error) => Err(error),
        })
    }
}

/// Length of a notice.
const NOTICE_BYTES: usize = 24;

/// A notice in bytes: a word each for kind and rank, then two counts.
fn encode(cause: Cause) -> [u8; NOTICE_BYTES] {
    let (kind, rank, sent, expected) = match cause {
        Cause::Failed => (0, 0, 0, 0),
        Cause::Dropped => (1, 0, 0, 0),
        Cause::Gone { rank } => (2, rank, 0, 0),
        Cause::Mismatch { peer, sent, expected } => (3, peer, sent, expected),
        Cause::OtherCall { peer } => (4, peer, 0, 0),
    };
    let mut bytes = [0; NOTICE_BYTES];
    bytes[..4].copy_from_slice(&u32::to_le_bytes(kind));
    bytes[4..8].copy_from_slice(&u32::to_le_bytes(rank));
    bytes[8..16].copy_from_slice(&u64::to_le_bytes(sent));
    bytes[16..].copy_from_slice(&u64::to_le_bytes(expected));
    bytes
}

/// What a notice says; `None` if it makes no sense.
fn decode(bytes: &[u8; NOTICE_BYTES]) -> Option<Cause> {
    let half = |at: usize| bytes[at..at + 4].try_into().map(u32::from_le_bytes).ok();
    let word = |at: usize| bytes[at..at + 8].try_into().map(u64::from_le_bytes).ok();
    let (rank, sent, expected) = (half(4)?, word(8)?, word(16)?);
    Some(match half(0)? {
        0 => Cause::Failed,
        1 => Cause::Dropped,
        2 => Cause::Gone { rank },
        3 => Cause::Mismatch { peer: rank, sent, expected },
        4 => Cause::OtherCall { peer: rank },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_says_what_it_was_told_and_nonsense_says_nothing() {
        let (peer, rank) = (7, u32::MAX);
        for cause in [
            Cause::Failed,
            Cause::Dropped,
            Cause::Gone { rank },
            Cause::Mismatch { peer, sent: u64::MAX, expected: 1 << 40 },
            Cause::OtherCall { peer },
        ] {
            assert_eq!(decode(&encode(cause)), Some(cause));
        }
        assert_eq!(decode(&[0xFF; NOTICE_BYTES]), None);
    }
}
