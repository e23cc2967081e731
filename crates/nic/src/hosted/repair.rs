//! Repair after the death of a sender that left a post unfinished.
//!
//! A process can be killed between reserving and publishing a status record, or between claiming
//! and announcing ring bytes. The hole would block every later message. The receiver may skip it
//! only when it is sure that no live rank will still fill it:
//!
//! ```text
//!   at the death   holes₀ = records reserved, claims₀ = bytes claimed, epochs of live ranks
//!                  (records and claims: of each ring)
//!   wait           until each live source that was within a post (odd epoch) has left it
//!   then           an unpublished record before holes₀ is the dead rank's: skip it
//!                  records₁ = records reserved; when all before it are read,
//!                  an unannounced claim before claims₀ is the dead rank's: abandon it
//! ```
//!
//! This is for shared rings. A private status ring has no reservations: when a rank is dead, or has
//! finished the post that it was in, all its published records are visible. There is no hole, and
//! an empty ring has been read to its end.
//!
//! This is the grace period of read-copy-update, with posts as the readers. Live ranks need not
//! act; a rank stopped within a post delays the repair until it continues or dies.
//!
//! The dead rank's whole messages are delivered first. Then its death is reported upwards.

use super::{Host, HostedPort, StatusLane};
use crate::fabric::{Event, PeerFailure, PeerState, Rank, RingId};
use crate::sync::Ordering;

/// A repair in progress.
#[derive(Debug)]
pub(super) struct Repair {
    failure: PeerFailure,
    holes: Vec<u64>,
    claims: Vec<u64>,
    /// The sources that were inside a post, and the epoch of that post.
    unsettled: Vec<(Rank, u64)>,
    /// Records reserved in the shared rings when the last of these sources had left its post.
    records: Option<Vec<u64>>,
}

impl<H: Host> HostedPort<H> {
    /// Stores the counts at the time when a death is detected.
    pub(super) fn begin_repair(&self, failure: PeerFailure) -> Repair {
        let own = self.own;
        let registry = self.host.registry();
        let claims = (0..own.layout().rings).map(|id| own.ring(id).reserved()).collect();
        let sources = self.peers.iter().map(|(rank, _)| rank);
        let unsettled = sources
            .filter(|rank| !matches!(registry.state(*rank), PeerState::Failed(_)))
            .map(|rank| (rank, own.sender(rank).epoch.load(Ordering::Acquire)))
            .filter(|(_, epoch)| epoch % 2 == 1)
            .collect();
        Repair { failure, holes: self.reserved(), claims, unsettled, records: None }
    }

    /// Continues the repairs when no record is at a head. Returns whether to poll again.
    pub(super) fn repair(&mut self) -> bool {
        let mut repairs = std::mem::take(&mut self.repairs);
        repairs.iter_mut().for_each(|repair| self.settle(repair));
        self.repairs = repairs;
        if let Some(lane) = self.hole() {
            self.consume_records(lane, 1);
            return true;
        }
        let past = |marks: &[u64], id, lane: &StatusLane| match lane.ring.is_private() {
            true => lane.ring.peek(lane.head).is_none(),
            false => marks.get(id).is_none_or(|mark| lane.head >= *mark),
        };
        let read = |repair: &Repair| {
            let mut lanes = self.lanes.iter().enumerate();
            let marks = repair.records.as_ref();
            marks.is_some_and(|marks| lanes.all(|(id, lane)| past(marks, id, lane)))
        };
        let Some(done) = self.repairs.iter().position(read) else {
            // A record may have been published since, or a live source is about to publish one.
            return self.lanes.iter().any(|lane| lane.ring.peek(lane.head).is_some());
        };
        if let Some(repair) = self.repairs.remove(done) {
            self.abandon(&repair.claims);
            self.events.push_back(Event::PeerFailed(repair.failure));
        }
        true
    }

    /// A status ring whose next record will never be published.
    ///
    /// All settled repairs are checked, not only the oldest: the oldest may wait for records behind
    /// a hole of a rank that died later.
    fn hole(&self) -> Option<usize> {
        let settled = || self.repairs.iter().filter(|repair| repair.records.is_some());
        let dead = |id: usize, head| settled().any(|repair| head < repair.holes[id]);
        let mut lanes = self.first_lanes().enumerate();
        lanes.find_map(|(id, lane)| {
            (dead(id, lane.head) && lane.ring.peek(lane.head).is_none()).then_some(id)
        })
    }

    /// The status rings in which sources start. Their indices do not change, and the spare rings
    /// have no holes.
    fn first_lanes(&self) -> impl Iterator<Item = &StatusLane> {
        self.lanes.iter().take(self.own.layout().status_rings as usize)
    }

    /// The number of records reserved in each shared status ring. A count that is further than a
    /// ring's length from the head was written by a broken peer: it counts as no reservation.
    fn reserved(&self) -> Vec<u64> {
        let reserved = |lane: &StatusLane| {
            let ahead = lane.ring.reserved().wrapping_sub(lane.head);
            lane.head + if ahead <= lane.ring.capacity() as u64 { ahead } else { 0 }
        };
        self.first_lanes().map(reserved).collect()
    }

    /// Removes the ranks that have finished the post that they were in, or died in it.
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
        if self.eager {
            // The room that a sender waits for may be free now.
            self.wake_waiting();
        }
    }
}

#[cfg(test)]
mod tests;
