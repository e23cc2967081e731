//! Copies from and to the memory of peers.

use super::{Host, HostedPort};
use crate::fabric::{CopyPort, JointCopy, PeerState, PostError, Rank, RemoteAddress, Space};
use crate::ring::{CopyStage, MOST_COPIES, Pages};
use crate::sync::{Ordering, fence};

impl<H: Host> CopyPort for HostedPort<H> {
    fn expose(&self, bytes: &[u8]) -> Option<RemoteAddress> {
        self.host.expose(bytes)
    }

    fn copies_from(&self, space: Space) -> Option<usize> {
        self.host.copies_from(space)
    }

    fn read(&mut self, from: RemoteAddress, into: &mut [u8]) -> Result<(), PostError> {
        self.reachable(from)?;
        if matches!(from.space, Space::Segment(_) | Space::Register(_)) {
            return Err(PostError::Unsupported("read by a key past the target's tables: use get"));
        }
        self.spend_reading(from, into.len() as u64);
        self.host.read(from, into)
    }

    fn set_revoked(&mut self, is_revoked: bool) {
        self.own.revoked().store(is_revoked.into(), Ordering::Relaxed);
        // A rank that reads what the program writes after this call sees the word: pairs with the
        // fence in `has_revoked`.
        fence(Ordering::Release);
    }

    #[inline]
    fn has_revoked(&self, rank: Rank) -> bool {
        fence(Ordering::Acquire);
        let peer = self.peers.get(rank as usize);
        peer.is_some_and(|peer| peer.target.revoked().load(Ordering::Relaxed) != 0)
    }

    fn open_joint(&mut self, into: &[u8]) -> Option<JointCopy> {
        if self.host.is_conducted() {
            // Virtual time has no model of such copies.
            return None;
        }
        let address = self.host.expose(into)?;
        let number = if self.joint.0 == MOST_COPIES { 1 } else { self.joint.0 + 1 };
        self.joint = (number, true);
        self.own.joint().open(number);
        Some(JointCopy { into: address, length: into.len() as u64, number })
    }

    fn read_jointly(
        &mut self,
        from: RemoteAddress,
        into: &mut [u8],
        copy: &JointCopy,
    ) -> Result<bool, PostError> {
        let (word, number, pages) = (self.own.joint(), copy.number, Pages::of(copy.length));
        // Set again only if the sender still copies its last part.
        self.joint.1 = false;
        loop {
            while let Some((start, length)) = word.claim_back(number, pages) {
                let rank = from.rank;
                let outside = PostError::OutOfBounds { rank, offset: start, length };
                let (at, end) = (start as usize, (start + length) as usize);
                let part = into.get_mut(at..end).ok_or(outside)?;
                let from = RemoteAddress { offset: from.offset.wrapping_add(start), ..from };
                if let Err(error) = self.read(from, part) {
                    word.close(number);
                    return Err(error);
                }
            }
            match word.stage(number, pages) {
                CopyStage::Over => return Ok(true),
                CopyStage::Copying => {
                    self.joint.1 = true;
                    return Ok(false);
                }
                // The sender failed to copy its part.
                CopyStage::Open => {}
                CopyStage::Lost => {
                    return Err(PostError::Unsupported("divide a copy by an overwritten word"));
                }
            }
        }
    }

    fn write_jointly(&mut self, copy: &JointCopy, payload: &[u8]) -> Result<u64, PostError> {
        let JointCopy { into, number, length } = *copy;
        self.reachable(into)?;
        if length != payload.len() as u64 {
            return Err(PostError::OutOfBounds { rank: into.rank, offset: 0, length });
        }
        let (word, pages) = (self.peers[into.rank as usize].target.joint(), Pages::of(length));
        let mut written = 0;
        while let Some((start, length)) = word.claim_front(number, pages) {
            let part = &payload[start as usize..(start + length) as usize];
            let to = RemoteAddress { offset: into.offset.wrapping_add(start), ..into };
            let copied = self.host.write(to, part, self.stores_for(into.rank, part.len()));
            word.copied_front(number, pages, length, copied.is_ok());
            copied?;
            written += length;
        }
        // The receiver may sleep until the last part is copied.
        self.ring_doorbell_of(into.rank);
        Ok(written)
    }

    fn close_joint(&mut self, from: Rank, copy: &JointCopy) -> bool {
        self.joint.1 = false;
        let word = self.own.joint();
        word.close(copy.number);
        let ended = || {
            let state = self.host.registry().state(from);
            matches!(state, PeerState::Left | PeerState::Failed(_))
        };
        !word.is_copying(copy.number) || ended()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::fabric::{DeathCause, MemoryPort, Port};
    use crate::loopback::{self, LoopbackPort};
    use crate::region::RegionBuffer;

    const LENGTH: usize = 100_000;

    /// A sender, its message, a receiver, and its memory.
    fn pair() -> (LoopbackPort, RegionBuffer, LoopbackPort, RegionBuffer) {
        let ports = loopback::open(&loopback::LoopbackConfig::for_ranks(2)).unwrap();
        let [mut a, mut b] = <[LoopbackPort; 2]>::try_from(ports).unwrap();
        let mut message = a.allocate(LENGTH).unwrap();
        message.fill(7);
        let into = b.allocate(LENGTH).unwrap();
        (a, message, b, into)
    }

    #[test]
    fn a_sender_in_the_middle_of_a_part_is_waited_for_until_it_dies() {
        let (a, message, mut b, mut into) = pair();
        let copy = b.open_joint(&into).unwrap();
        let (word, pages) = (a.peers[1].target.joint(), Pages::of(copy.length));
        let (start, length) = word.claim_front(copy.number, pages).unwrap();
        let from = a.expose(&message).unwrap();
        assert_eq!(b.read_jointly(from, &mut into, &copy), Ok(false));
        let part = start as usize..(start + length) as usize;
        assert!(into[part.clone()].iter().all(|byte| *byte == 0), "that part is the sender's");
        assert!(into[part.end..].iter().all(|byte| *byte == 7));
        assert!(!b.close_joint(0, &copy));
        b.host().fail(0, DeathCause::Unknown);
        assert!(b.close_joint(0, &copy), "the dead write nothing");
        while b.poll().is_none() {}
        assert!(matches!(b.read(from, &mut into), Err(PostError::PeerFailed(_))));
    }

    #[test]
    fn a_part_that_the_sender_cannot_write_is_read() {
        let (mut a, message, mut b, mut into) = pair();
        let copy = b.open_joint(&into).unwrap();
        let outside = RemoteAddress { offset: 1 << 40, ..copy.into };
        let error = a.write_jointly(&JointCopy { into: outside, ..copy }, &message).unwrap_err();
        assert!(matches!(error, PostError::OutOfBounds { rank: 1, .. }), "{error}");
        let from = a.expose(&message).unwrap();
        assert_eq!(b.read_jointly(from, &mut into, &copy), Ok(true));
        assert!(into.iter().all(|byte| *byte == 7));
    }

    #[test]
    fn an_overwritten_word_is_an_error() {
        let (a, message, mut b, mut into) = pair();
        let copy = b.open_joint(&into).unwrap();
        b.own.joint().open(copy.number + 1);
        let from = a.expose(&message).unwrap();
        let error = b.read_jointly(from, &mut into, &copy).unwrap_err();
        assert!(matches!(error, PostError::Unsupported(_)), "{error}");
    }
}
