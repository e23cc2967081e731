//! What a dead sender left half done.
//!
//! A process can be killed between reserving a status record and publishing it, or between
//! claiming ring bytes and announcing them. The hole would stop every later message. The receiver
//! may skip it only when it is sure that nobody alive will still fill it:
//!
//! ```text
//!   at the death   holes₀ = records reserved, claims₀ = bytes claimed, epochs of the living
//!                  (records and claims: of each ring)
//!   wait           until each living source that was within a post (odd epoch) has moved on
//!   then           an unpublished record before holes₀ is the dead one's: skip it
//!                  records₁ = records reserved; when all before it are read,
//!                  an unannounced claim before claims₀ is the dead one's: abandon it
//! ```
//!
//! It is the grace period of read-copy-update, with posts as the readers. The living need not do
//! anything; one that is stopped in the middle of a post holds the repair up until it continues
//! or dies.
//!
//! What the dead sent whole is delivered first; only then is its death told upwards.

use super::{Host, HostedPort, Lane};
use crate::fabric::{Event, PeerFailure, PeerState, Rank, RingId};
use crate::sync::Ordering;

/// A repair under way.
#[derive(Debug)]
pub(super) struct Repair {
    failure: PeerFailure,
    holes: Vec<u64>,
    claims: Vec<u64>,
    /// Sources that were within a post, and the epoch of that post.
    unsettled: Vec<(Rank, u64)>,
    /// Records reserved when all had settled.
    records: Option<Vec<u64>>,
}

impl<H: Host> HostedPort<H> {
    /// Notes where things stand when a death is seen.
    pub(super) fn begin_repair(&self, failure: PeerFailure) -> Repair {
        let own = self.own;
        let registry = self.host.registry();
        let claims = (0..own.layout().rings).map(|id| own.ring(id).reserved()).collect();
        let unsettled = (0..self.size)
            .filter(|rank| !matches!(registry.state(*rank), PeerState::Failed(_)))
            .map(|rank| (rank, own.sender(rank).epoch.load(Ordering::Acquire)))
            .filter(|(_, epoch)| epoch % 2 == 1)
            .collect();
        Repair { failure, holes: self.reserved(), claims, unsettled, records: None }
    }

    /// Goes on with the oldest repair, when no record is at the head; says whether to look again.
    pub(super) fn repair(&mut self) -> bool {
        let Some(mut repair) = self.repairs.pop_front() else { return false };
        self.settle(&mut repair);
        let Some(records) = &repair.records else {
            self.repairs.push_front(repair);
            return false;
        };
        let behind = |lane: &Lane, mark: &u64| lane.head < *mark;
        let hole = self
            .lanes
            .iter()
            .zip(&repair.holes)
            .position(|(lane, mark)| behind(lane, mark) && lane.ring.peek(lane.head).is_none());
        if let Some(lane) = hole {
            self.consume_record(lane);
            self.repairs.push_front(repair);
            return true;
        }
        if self.lanes.iter().zip(records).any(|(lane, mark)| behind(lane, mark)) {
            // Published since, or a living source's record is on its way.
            let arrived = self.lanes.iter().any(|lane| lane.ring.peek(lane.head).is_some());
            self.repairs.push_front(repair);
            return arrived;
        }
        self.abandon(&repair.claims);
        self.events.push_back(Event::PeerFailed(repair.failure));
        true
    }

    fn reserved(&self) -> Vec<u64> {
        self.lanes.iter().map(|lane| lane.ring.reserved()).collect()
    }

    /// Drops from the list whoever has finished the post it was in, or died in it.
    fn settle(&self, repair: &mut Repair) {
        if repair.records.is_some() {
            return;
        }
        let own = self.own;
        let registry = self.host.registry();
        repair.unsettled.retain(|(rank, epoch)| {
            own.sender(*rank).epoch.load(Ordering::Acquire) == *epoch
                && !matches!(registry.state(*rank), PeerState::Failed(_))
        });
        if repair.unsettled.is_empty() {
            repair.records = Some(self.reserved());
        }
    }

    fn abandon(&mut self, claims: &[u64]) {
        let own = self.own;
        for (id, (landing, claimed)) in self.rings.iter_mut().zip(claims).enumerate() {
            if landing.ledger.abandon(*claimed) {
                landing.published = landing.ledger.head();
                own.ring(id as RingId).free(landing.published);
            }
        }
    }
}
