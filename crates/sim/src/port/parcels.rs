//! Parcels in flight between ranks, and parcels that wait for room.

use std::collections::{BTreeMap, VecDeque};

use hikyaku_nic::fabric::Rank;
use hikyaku_nic::hosted::{Posted, Shipped};

use crate::slab::Slab;

/// The content of a parcel from one rank to another.
#[derive(Debug)]
pub(super) enum Content {
    /// A send, and the bytes of its payload that have landed.
    Send(Posted, usize),
    /// The record of a command that was carried out: the command has travelled, so this takes no
    /// time.
    Announce { protocol: u8, header: u64, length: u64, offset: u64 },
    /// A rank that waits for its command to arrive, or for the answer.
    Trip { rank: Rank, bytes: u64 },
    /// A put of a command queue.
    Put(Shipped),
    /// Not a parcel: a queue must be checked.
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

    /// Whether it lands although earlier parcels have found no room.
    pub(super) fn passes(&self) -> bool {
        matches!(self, Content::Send(posted, _) if posted.passes)
    }
}

#[derive(Debug)]
pub(super) struct RankParcel {
    pub(super) from: Rank,
    pub(super) to: Rank,
    pub(super) content: Content,
}

/// All parcels of a job.
#[derive(Debug, Default)]
pub(super) struct Parcels {
    /// Parcels in flight, by number.
    pub(super) moving: Slab<RankParcel>,
    /// By path: parcels that have arrived and found no room, oldest first.
    blocked: BTreeMap<ParcelPath, VecDeque<RankParcel>>,
}

/// A path, on which parcels keep their order: from one source to one target, with a path of their
/// own for those that [pass](Content::passes) others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ParcelPath {
    pub(super) to: Rank,
    pub(super) from: Rank,
    pub(super) passes: bool,
}

impl RankParcel {
    pub(super) fn way(&self) -> ParcelPath {
        ParcelPath { to: self.to, from: self.from, passes: self.content.passes() }
    }
}

impl Parcels {
    /// Whether a parcel waits for room on this path.
    pub(super) fn is_blocked(&self, way: ParcelPath) -> bool {
        self.blocked.contains_key(&way)
    }

    /// Appends a parcel to those that wait.
    pub(super) fn block(&mut self, parcel: RankParcel) {
        self.blocked.entry(parcel.way()).or_default().push_back(parcel);
    }

    /// Puts a parcel back in front of those that wait.
    pub(super) fn block_first(&mut self, parcel: RankParcel) {
        self.blocked.entry(parcel.way()).or_default().push_front(parcel);
    }

    /// The parcel that has waited longest on a path.
    pub(super) fn unblock(&mut self, way: ParcelPath) -> Option<RankParcel> {
        let queue = self.blocked.get_mut(&way)?;
        let parcel = queue.pop_front();
        if queue.is_empty() {
            self.blocked.remove(&way);
        }
        parcel
    }

    /// The paths on which parcels wait for room at a rank; those that pass others first.
    pub(super) fn waiting_at(&self, to: Rank) -> Vec<ParcelPath> {
        let first = ParcelPath { to, from: 0, passes: false };
        let last = ParcelPath { to, from: Rank::MAX, passes: true };
        let mut ways: Vec<ParcelPath> =
            self.blocked.range(first..=last).map(|(way, _)| *way).collect();
        ways.sort_by_key(|way| !way.passes);
        ways
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trip(from: Rank, to: Rank, bytes: u64) -> RankParcel {
        RankParcel { from, to, content: Content::Trip { rank: from, bytes } }
    }

    #[test]
    fn waiting_parcels_keep_their_order() {
        let mut parcels = Parcels::default();
        for (from, bytes) in [(1, 10), (2, 20), (1, 11)] {
            parcels.block(trip(from, 0, bytes));
        }
        let way = |to, from| ParcelPath { to, from, passes: false };
        assert_eq!(parcels.waiting_at(0), [way(0, 1), way(0, 2)]);
        assert!(parcels.waiting_at(1).is_empty() && !parcels.is_blocked(way(1, 0)));
        let first = parcels.unblock(way(0, 1)).unwrap();
        assert_eq!(first.content.bytes(), 10);
        parcels.block_first(first);
        let order: Vec<u64> = std::iter::from_fn(|| parcels.unblock(way(0, 1)))
            .map(|parcel| parcel.content.bytes())
            .collect();
        assert_eq!(order, [10, 11]);
        assert!(!parcels.is_blocked(way(0, 1)) && parcels.is_blocked(way(0, 2)));
    }
}
