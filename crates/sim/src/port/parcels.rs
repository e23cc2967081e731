//! What is under way between ranks, and what waits because it found no room.

use std::collections::{BTreeMap, VecDeque};

use hikyaku_nic::fabric::Rank;
use hikyaku_nic::hosted::{Posted, Shipped};

use crate::slab::Slab;

/// Something that travels from one rank to another.
#[derive(Debug)]
pub(super) enum Content {
    /// A send, of whose payload so many bytes have landed.
    Send(Posted, usize),
    /// The record of a command that was carried out: it has been there, so it takes no time.
    Announce { protocol: u8, header: u64, length: u64, offset: u64 },
    /// A rank that waits for its command to arrive, or for the answer.
    Trip { rank: Rank, bytes: u64, command: bool },
    /// A put of a command queue.
    Put(Shipped),
    /// Not a parcel: a queue is to be looked at.
    Run(hikyaku_nic::fabric::QueueAddress),
}

impl Content {
    /// Bytes of payload.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Content::Send(posted, _) => posted.payload.len() as u64,
            Content::Put(shipped) => shipped.payload.len() as u64,
            Content::Trip { bytes, .. } => *bytes,
            Content::Announce { .. } | Content::Run(_) => 0,
        }
    }
}

#[derive(Debug)]
pub(super) struct Parcel {
    pub(super) from: Rank,
    pub(super) to: Rank,
    pub(super) content: Content,
}

/// All parcels of a job.
#[derive(Debug, Default)]
pub(super) struct Parcels {
    /// On their way, by number.
    pub(super) moving: Slab<Parcel>,
    /// By target and source: what has arrived and found no room, oldest first.
    blocked: BTreeMap<(Rank, Rank), VecDeque<Parcel>>,
}

impl Parcels {
    /// Whether something waits for room on this way.
    pub(super) fn is_blocked(&self, from: Rank, to: Rank) -> bool {
        self.blocked.contains_key(&(to, from))
    }

    /// Puts a parcel at the end of those that wait.
    pub(super) fn block(&mut self, parcel: Parcel) {
        self.blocked.entry((parcel.to, parcel.from)).or_default().push_back(parcel);
    }

    /// Puts a parcel back at the front of those that wait.
    pub(super) fn block_first(&mut self, parcel: Parcel) {
        self.blocked.entry((parcel.to, parcel.from)).or_default().push_front(parcel);
    }

    /// The parcel that has waited longest on a way.
    pub(super) fn unblock(&mut self, from: Rank, to: Rank) -> Option<Parcel> {
        let queue = self.blocked.get_mut(&(to, from))?;
        let parcel = queue.pop_front();
        if queue.is_empty() {
            self.blocked.remove(&(to, from));
        }
        parcel
    }

    /// From whom something waits for room at a rank.
    pub(super) fn waiting_at(&self, to: Rank) -> Vec<Rank> {
        self.blocked.range((to, 0)..=(to, Rank::MAX)).map(|((_, from), _)| *from).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trip(from: Rank, to: Rank, bytes: u64) -> Parcel {
        Parcel { from, to, content: Content::Trip { rank: from, bytes, command: true } }
    }

    #[test]
    fn what_waits_keeps_its_order_on_its_way() {
        let mut parcels = Parcels::default();
        for (from, bytes) in [(1, 10), (2, 20), (1, 11)] {
            parcels.block(trip(from, 0, bytes));
        }
        assert_eq!(parcels.waiting_at(0), [1, 2]);
        assert!(parcels.waiting_at(1).is_empty() && !parcels.is_blocked(0, 1));
        let first = parcels.unblock(1, 0).unwrap();
        assert_eq!(first.content.bytes(), 10);
        parcels.block_first(first);
        let order: Vec<u64> =
            std::iter::from_fn(|| parcels.unblock(1, 0)).map(|p| p.content.bytes()).collect();
        assert_eq!(order, [10, 11]);
        assert!(!parcels.is_blocked(1, 0) && parcels.is_blocked(2, 0));
    }
}
