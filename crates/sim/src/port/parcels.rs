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
    Trip { rank: Rank, bytes: u64 },
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

    /// Whether it lands although others before it have found no room.
    pub(super) fn passes(&self) -> bool {
        matches!(self, Content::Send(posted, _) if posted.passes)
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
    /// By way: what has arrived and found no room, oldest first.
    blocked: BTreeMap<Way, VecDeque<Parcel>>,
}

/// Parcels that keep their order: those of one source to one target, of which those that
/// [pass](Content::passes) others have a way of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Way {
    pub(super) to: Rank,
    pub(super) from: Rank,
    pub(super) passes: bool,
}

impl Parcel {
    pub(super) fn way(&self) -> Way {
        Way { to: self.to, from: self.from, passes: self.content.passes() }
    }
}

impl Parcels {
    /// Whether something waits for room on this way.
    pub(super) fn is_blocked(&self, way: Way) -> bool {
        self.blocked.contains_key(&way)
    }

    /// Puts a parcel at the end of those that wait.
    pub(super) fn block(&mut self, parcel: Parcel) {
        self.blocked.entry(parcel.way()).or_default().push_back(parcel);
    }

    /// Puts a parcel back at the front of those that wait.
    pub(super) fn block_first(&mut self, parcel: Parcel) {
        self.blocked.entry(parcel.way()).or_default().push_front(parcel);
    }

    /// The parcel that has waited longest on a way.
    pub(super) fn unblock(&mut self, way: Way) -> Option<Parcel> {
        let queue = self.blocked.get_mut(&way)?;
        let parcel = queue.pop_front();
        if queue.is_empty() {
            self.blocked.remove(&way);
        }
        parcel
    }

    /// The ways on which something waits for room at a rank; those that pass before the others.
    pub(super) fn waiting_at(&self, to: Rank) -> Vec<Way> {
        let first = Way { to, from: 0, passes: false };
        let last = Way { to, from: Rank::MAX, passes: true };
        let mut ways: Vec<Way> = self.blocked.range(first..=last).map(|(way, _)| *way).collect();
        ways.sort_by_key(|way| !way.passes);
        ways
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trip(from: Rank, to: Rank, bytes: u64) -> Parcel {
        Parcel { from, to, content: Content::Trip { rank: from, bytes } }
    }

    #[test]
    fn what_waits_keeps_its_order_on_its_way() {
        let mut parcels = Parcels::default();
        for (from, bytes) in [(1, 10), (2, 20), (1, 11)] {
            parcels.block(trip(from, 0, bytes));
        }
        let way = |to, from| Way { to, from, passes: false };
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
