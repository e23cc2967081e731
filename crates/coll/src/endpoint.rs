//! Groups of real ranks: one communicator context of a message engine.
//!
//! Notices of ranks that give up are messages of the same context with a tag of their own: 24
//! bytes, so that they go inline and need no room in a ring.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use hikyaku_msg::{Endpoint, MsgError, RecvFuture};
use hikyaku_nic::fabric::{Port, PostError};

use crate::error::Cause;
use crate::group::{Group, Notice};
use crate::names::{Named, notice_tag};

impl<P: Port> Group for Endpoint<'_, P> {
    type Byte = u8;
    type Error = MsgError;

    fn rank(&self) -> u32 {
        Endpoint::rank(self)
    }

    fn size(&self) -> u32 {
        Endpoint::size(self)
    }

    fn node_of(&self, rank: u32) -> u32 {
        Endpoint::node_of(self, rank)
    }

    fn nodes(&self) -> u32 {
        // Ranks are numbered node by node (`hikyaku run --ranks-per-node`).
        Endpoint::node_of(self, Endpoint::size(self) - 1) + 1
    }

    fn next_sequence(&self) -> u32 {
        Endpoint::next_sequence(self)
    }

    fn send<'a>(
        &'a self,
        bytes: &'a [u8],
        to: u32,
        tag: i32,
    ) -> impl Future<Output = Result<(), MsgError>> + Unpin + 'a {
        Endpoint::send(self, bytes, to, tag)
    }

    fn recv<'a>(
        &'a self,
        into: &'a mut [u8],
        from: u32,
        tag: i32,
    ) -> impl Future<Output = Result<u64, MsgError>> + Unpin + 'a {
        Length(Endpoint::recv(self, into, Some(from), Some(tag)))
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

    fn give_up(&self, tag: i32, cause: Cause) {
        let others = (0..Endpoint::size(self)).filter(|rank| *rank != Endpoint::rank(self));
        for rank in others {
            // One that cannot be told is gone, and needs no telling.
            let _ = self.send_and_forget(&encode(cause), rank, notice_tag(tag));
        }
    }

    fn notice(&self, tag: i32) -> Option<Notice> {
        let about = notice_tag(tag);
        let same_operation = |other: i32| other != tag && notice_tag(other) == about;
        let found = self.unexpected(same_operation)?;
        let (rank, tag) = (found.source, found.tag);
        if Named::of_tag(tag).is_some() {
            return Some(Notice::OtherCall { rank, tag });
        }
        let mut words = [0; NOTICE_BYTES];
        let cause = match self.take_unexpected(&mut words, rank, tag) {
            Some(Ok(received)) if received.bytes == NOTICE_BYTES as u64 => decode(&words),
            _ => None,
        };
        Some(Notice::GaveUp { rank, cause: cause.unwrap_or(Cause::Failed) })
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
