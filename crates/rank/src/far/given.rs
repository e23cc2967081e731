//! Memory that ranks on other hosts have given to the job, as shared variables do: it remains when
//! its rank leaves or dies.
//!
//! While the process of the rank lives, requests are sent to it, even if it has left the job: it
//! stays as long as others need its memory (`parting.rs`). Afterwards any other rank of its host,
//! which has the region mapped, receives the requests. Memory of a host without ranks is lost.

use hikyaku_nic::fabric::{Atomic, AtomicOp, PeerState, Port, PostError, Rank, RemoteAddress};

use crate::near::NearPort;

use super::memory::FarWait;
use super::wire::{self, PutPart, Told, UNANSWERED, WireAddress};
use super::{Far, NEEDED};

impl Far {
    /// Modifies an integer in memory that a rank on another host has given; returns the previous
    /// value.
    ///
    /// # Errors
    /// No rank of its host remains.
    pub(crate) fn fetch_given(
        &mut self,
        near: &mut NearPort,
        atomic: &Atomic,
    ) -> Result<u64, PostError> {
        let at = WireAddress::given(atomic.target);
        let mut again = false;
        loop {
            let asked = self.keeper_of(near, atomic.target.rank)?;
            let wait = FarWait::for_given(near.now());
            match self.change_at(near, (asked, at), atomic, Told::Not, wait) {
                Err(PostError::PeerFailed(_)) => again = true,
                Ok(old) if again => return Ok(as_if_asked_once(atomic, old)),
                done => return done,
            }
        }
    }

    /// Reads memory that a rank on another host has given.
    ///
    /// # Errors
    /// No rank of its host remains.
    pub(crate) fn get_given(
        &mut self,
        near: &mut NearPort,
        from: RemoteAddress,
        into: &mut [u8],
    ) -> Result<(), PostError> {
        loop {
            let asked = self.keeper_of(near, from.rank)?;
            let wait = FarWait::for_given(near.now());
            match self.get_by(near, (asked, WireAddress::given(from)), into, wait) {
                Err(PostError::PeerFailed(_)) => {}
                done => return done,
            }
        }
    }

    /// Writes memory that a rank on another host has given, without a wait for the answer. This
    /// rank's later requests are carried out later.
    ///
    /// # Errors
    /// No rank of its host remains.
    pub(crate) fn put_given(
        &mut self,
        near: &mut NearPort,
        to: RemoteAddress,
        payload: &[u8],
    ) -> Result<(), PostError> {
        let total = payload.len();
        let mut done = 0;
        while done < total {
            let asked = self.keeper_of(near, to.rank)?;
            let end = total.min(done + self.links.longest(asked, NEEDED) - wire::PUT_HEAD);
            let put = PutPart {
                call: UNANSWERED,
                told: Told::Not,
                to: WireAddress::given(to),
                total: total as u64,
                done: done as u64,
                bytes: &payload[done..end],
            };
            let posted = self.tell(near, asked, &[&wire::put_head(&put), put.bytes]);
            // It is unknown how much of the data a dead rank has written.
            done = if posted.is_ok() { end } else { 0 };
        }
        Ok(())
    }

    /// Modifies an integer in memory that a rank on another host has given, without a wait for the
    /// answer.
    ///
    /// # Errors
    /// No rank of its host remains.
    pub(crate) fn tell_given(
        &mut self,
        near: &mut NearPort,
        atomic: &Atomic,
    ) -> Result<(), PostError> {
        let packet = wire::atomic(UNANSWERED, Told::Not, WireAddress::given(atomic.target), atomic);
        loop {
            let asked = self.keeper_of(near, atomic.target.rank)?;
            if self.tell(near, asked, &[&packet]).is_ok() {
                return Ok(());
            }
        }
    }

    /// The rank that serves a rank's memory: itself, or else the first remaining rank of its host.
    fn keeper_of(&self, near: &NearPort, rank: Rank) -> Result<Rank, PostError> {
        if self.is_there(near, rank) {
            return Ok(rank);
        }
        let host_of = |rank| near.host().host_of(rank);
        let mut mates = (0..near.size()).filter(|other| host_of(*other) == host_of(rank));
        mates.find(|other| self.is_there(near, *other)).ok_or_else(|| {
            match self.failure(near, rank) {
                Some(failure) => PostError::PeerFailed(failure),
                None => PostError::Unsupported("reach memory of a host that all ranks have left"),
            }
        })
    }

    /// Whether a rank on another host still serves the memory that ranks of that host gave: nothing
    /// to the contrary is known.
    pub(super) fn is_there(&self, near: &NearPort, rank: Rank) -> bool {
        let is_deaf = self.state.peers.is_deaf(rank);
        !is_deaf
            && self.fault.is_none()
            && !matches!(near.peer(rank), PeerState::Left | PeerState::Failed(_))
    }
}

/// The previous value of an operation that found `old`, and may have been carried out before.
fn as_if_asked_once(atomic: &Atomic, old: u64) -> u64 {
    match atomic.operation {
        AtomicOp::CompareSwap { expected } if old == atomic.operand => expected,
        _ => old,
    }
}

#[cfg(test)]
mod tests {
    use hikyaku_nic::fabric::{Integer, Space};

    use super::*;

    #[test]
    fn an_exchange_that_was_done_before_has_succeeded() {
        let target = RemoteAddress { rank: 1, space: Space::Region, offset: 8 };
        let (integer, result) = (Integer::U64, None);
        let of = |operation| Atomic { target, integer, operation, operand: 7, result };
        let exchange = of(AtomicOp::CompareSwap { expected: 3 });
        let answers = [3, 7, 9].map(|old| as_if_asked_once(&exchange, old));
        assert_eq!(answers, [3, 3, 9]);
        assert_eq!(as_if_asked_once(&of(AtomicOp::Or), 7), 7);
    }
}
