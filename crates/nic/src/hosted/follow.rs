//! Status rings that follow frequent sources (paper 000 §4: infrequent partners share).
//!
//! In jobs of more than 16 ranks, sources share status rings, and each record costs them an atomic
//! addition and an epoch. A rank also has some private status rings, to assign to sources that send
//! often. A source moves there, and back, by itself, when it has read the change in the table:
//!
//! ```text
//!   owner                                     source
//!   -----                                     ------
//!   head of the spare ring, entry = ring ──►  read at a post that is not of the fast path
//!                                             last record in the old ring: `Moved`
//!   `Moved` read: poll the new ring too       further records in the new ring, from its head on
//!
//!   entry = 0, attention                 ──►  the same, in the other direction
//!   `Moved` read: the ring is unassigned
//! ```
//!
//! Nothing is reordered. A record in the old ring may lie behind an unpublished one of another
//! source; a rank that polled the new ring at that time would take the later record first. So it
//! polls a ring only from the `Moved` on that precedes all records there. A ring that its source
//! has left is empty, since the source has declared that nothing will follow; the next source
//! begins where it ended. The fast path reads no table for this. `tests/loom_follow.rs` explores
//! it, and shows that a ring polled at once is polled too early.
//!
//! Some sources do not move: this rank itself lands the messages of a source on another host, and
//! in virtual time the conductor lands them. The ring of a rank that has died stays assigned, too.

use super::send::Post;
use super::state::{SpareStatus, StatusLane};
use super::{Host, HostedPort};
use crate::doorbell::ASKED_TO_FOLLOW;
use crate::fabric::{Event, PeerState, Rank};
use crate::ring::Poster;
use crate::sync::Ordering;
use crate::wire::StatusKind;

impl<H: Host> Post<'_, H> {
    /// Posts from now on to the status ring that the target's table names.
    #[inline]
    pub(super) fn follow(&mut self) {
        let entry = self.target.source(self.rank).status();
        if entry != self.peer.status_entry {
            self.change_status(entry);
        }
    }

    #[cold]
    fn change_status(&mut self, entry: u64) {
        let layout = self.target.layout();
        let spare =
            u64::from(layout.status_rings)..u64::from(layout.status_rings + layout.spare_status());
        let ring = match entry {
            0 => layout.first_status(self.rank),
            _ if spare.contains(&entry) => entry as u32,
            // The entry of a broken peer.
            _ => return,
        };
        let before = self.peer.status;
        if !before.has_room(&mut self.peer.poster) {
            return;
        }
        let next = self.target.status(ring);
        let (sent, head) = (self.peer.sent(), next.head());
        if next.is_private() {
            // For the audit, before the target reads the ring: at its start no record is missing.
            self.target.sender(self.rank).posted.store(head, Ordering::Release);
        }
        self.begin();
        let index = before.reserve(&mut self.peer.poster);
        let body = [0, self.arrival_time()];
        before.publish(index, StatusKind::Moved, 0, 0, self.rank, &body);
        self.end();
        self.peer.poster = Poster { posted: head, head };
        self.peer.uncredited = head.wrapping_sub(sent);
        self.peer.allowed = 0;
        (self.peer.status, self.peer.status_entry) = (next, entry);
    }
}

impl<H: Host> HostedPort<H> {
    /// Whether a source shares its status ring with others and may have one of its own.
    pub fn shares_status(&self, source: Rank) -> bool {
        let may = source < self.size && source != self.rank && !self.host.is_conducted();
        may && !self.spare_status.is_empty()
            && self.host.is_here(source)
            && self.spare_place(source).is_none()
    }

    /// Assigns a status ring to a source that [shares](HostedPort::shares_status) one, if a spare
    /// ring is unassigned. Returns whether one was.
    pub fn give_status(&mut self, source: Rank) -> bool {
        let mut spare = self.spare_status.iter_mut().enumerate();
        let Some((place, free)) = spare.find(|(_, spare)| spare.owner.is_none()) else {
            return false;
        };
        free.owner = Some(source);
        let head = free.head;
        let ring = self.own.layout().status_rings + place as u32;
        self.own.status(ring).free(head);
        self.own.source(source).set_status(ring.into());
        true
    }

    /// The running sources with an assigned spare status ring that were not asked to share again.
    pub fn status_owners(&self) -> impl Iterator<Item = Rank> {
        let asked = |rank| self.own.source(rank).status() == 0;
        let is_there = |rank| matches!(self.host.state_of(rank), PeerState::Running);
        let owners = self.spare_status.iter().filter_map(|spare| spare.owner);
        owners.filter(move |owner| is_there(*owner) && !asked(*owner))
    }

    /// Asks a source to share a status ring again. One that has not moved to its own ring yet is
    /// asked to move there first. The ring is unassigned once the source has left it. Returns
    /// whether it was asked to leave.
    pub fn take_status(&mut self, source: Rank) -> bool {
        let Some(place) = self.spare_place(source) else { return false };
        let is_open = self.spare_status[place].is_open;
        if is_open {
            self.own.source(source).set_status(0);
        }
        // A source reads the table only when it sends, and this one is quiet.
        let doorbell = self.peers[source as usize].target.doorbell();
        doorbell.attention.fetch_or(ASKED_TO_FOLLOW, Ordering::AcqRel);
        is_open
    }

    fn spare_place(&self, source: Rank) -> Option<usize> {
        self.spare_status.iter().position(|spare| spare.owner == Some(source))
    }

    /// The index of a source's status ring in `lanes`.
    #[inline(always)]
    pub(super) fn lane_of(&self, source: Rank) -> usize {
        let source = source as usize;
        match self.spare_status.is_empty() && source < self.lanes.len() {
            true => source,
            false => self.peers.get(source).map_or(0, |peer| peer.lane),
        }
    }

    /// Moves to the status rings that the tables of other ranks name.
    #[cold]
    pub(super) fn follow_all(&mut self) {
        for rank in 0..self.size {
            if self.host.is_here(rank)
                && rank != self.rank
                && self.peers[rank as usize].failed.is_none()
            {
                self.as_post(rank).follow();
            }
        }
    }

    /// Handles a record that its source declared to be its last one in this status ring.
    #[cold]
    pub(super) fn source_moved(&mut self, lane: usize, source: Rank) {
        let moved = match self.lanes[lane].spare {
            None => self.open_spare(lane, source),
            Some((place, owner)) if owner == source => self.close_spare(lane, place, source),
            Some(_) => None,
        };
        if moved.is_none() {
            self.events.push_back(Event::Malformed { source });
        }
    }

    /// Polls a source's own ring from now on.
    fn open_spare(&mut self, lane: usize, source: Rank) -> Option<()> {
        let place = self.spare_place(source)?;
        let spare = &mut self.spare_status[place];
        if spare.is_open || self.peers.get(source as usize)?.lane != lane {
            return None;
        }
        spare.is_open = true;
        let ring = self.own.status(self.own.layout().status_rings + place as u32);
        let mut opened = StatusLane { spare: Some((place, source)), ..StatusLane::new(ring) };
        (opened.head, opened.seen_full) = (spare.head, ring.full());
        opened.publish(self.eager);
        self.peers[source as usize].lane = self.lanes.len();
        self.lanes.push(opened);
        Some(())
    }

    /// Ends the assignment of a ring whose source shares again.
    fn close_spare(&mut self, lane: usize, place: usize, source: Rank) -> Option<()> {
        // A broken peer leaves without being asked.
        if self.own.source(source).status() != 0 {
            return None;
        }
        let closed = self.lanes.swap_remove(lane);
        self.spare_status[place] = SpareStatus { head: closed.head, ..SpareStatus::default() };
        self.peers[source as usize].lane = self.own.layout().first_status(source) as usize;
        if let Some((_, owner)) = self.lanes.get(lane).and_then(|lane| lane.spare) {
            self.peers[owner as usize].lane = lane;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
