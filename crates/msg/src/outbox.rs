//! The outbox: posts that found no room, per destination.
//!
//! Three queues per destination, tried in this order:
//!
//! 1. control packets, which need neither credit nor ring space and which peers wait for;
//! 2. messages that match in order, eager ones and announcements: strictly first in, first out;
//! 3. streams: messages that their receivers have cleared; each packet names its request, so
//!    several may take turns.
//!
//! The outbox copies no payload: an entry is the id of a request, whose memory stays with the
//! program. The queues hold no more entries than the program has requests.

use std::collections::VecDeque;

use hikyaku_nic::by_rank::ByRank;
use hikyaku_nic::fabric::Rank;

use crate::config::of_each_rank;
use crate::protocol::Control;
use crate::request::RequestId;

/// The pending posts of one engine.
#[derive(Debug)]
pub(crate) struct Outbox {
    lanes: ByRank<OutboxLane>,
    /// Destinations with pending posts, each once.
    active: Vec<Rank>,
}

/// The pending posts to one destination.
#[derive(Debug, Default)]
pub(crate) struct OutboxLane {
    pub(crate) control: VecDeque<Control>,
    pub(crate) ordered: VecDeque<RequestId>,
    pub(crate) streams: VecDeque<RequestId>,
    active: bool,
}

impl OutboxLane {
    fn is_empty(&self) -> bool {
        self.control.is_empty() && self.ordered.is_empty() && self.streams.is_empty()
    }
}

impl Outbox {
    pub(crate) fn new(ranks: u32) -> Outbox {
        Outbox { lanes: of_each_rank(ranks, OutboxLane::default), active: Vec::new() }
    }

    /// Whether a message to an existing rank may be posted without overtaking another.
    #[inline]
    pub(crate) fn is_clear(&self, destination: Rank) -> bool {
        self.lanes.get(destination as usize).is_some_and(|lane| lane.ordered.is_empty())
    }

    /// Whether nothing is pending for any destination.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.active.is_empty()
    }

    /// Whether nothing is pending for one destination.
    pub(crate) fn is_empty_to(&self, destination: Rank) -> bool {
        self.lanes.get(destination as usize).is_none_or(OutboxLane::is_empty)
    }

    /// Whether a message to an existing rank is among the next to be posted.
    pub(crate) fn is_next(&self, destination: Rank, id: RequestId) -> bool {
        let lane = &self.lanes[destination as usize];
        lane.ordered.front() == Some(&id) || lane.streams.contains(&id)
    }

    /// Destinations with pending posts, and those posts.
    pub(crate) fn pending(&self) -> impl Iterator<Item = (Rank, &OutboxLane)> {
        self.active.iter().map(|rank| (*rank, &self.lanes[*rank as usize]))
    }

    /// The destination at a place in the list of destinations with pending posts.
    pub(crate) fn active(&self, at: usize) -> Option<Rank> {
        self.active.get(at).copied()
    }

    /// Removes the destination at `at` from the list if nothing is pending for it any more.
    pub(crate) fn retire(&mut self, at: usize) -> bool {
        let lane = &mut self.lanes[self.active[at] as usize];
        lane.active = !lane.is_empty();
        if !lane.active {
            self.active.swap_remove(at);
            return true;
        }
        false
    }

    /// The queues of an existing destination, which stays listed until they are empty.
    pub(crate) fn lane(&mut self, destination: Rank) -> &mut OutboxLane {
        let lane = &mut self.lanes[destination as usize];
        if !lane.active {
            lane.active = true;
            self.active.push(destination);
        }
        lane
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_is_listed_once_while_pending() {
        let mut outbox = Outbox::new(3);
        let id = RequestId::from_word(1);
        outbox.lane(2).ordered.push_back(id);
        outbox.lane(2).streams.push_back(id);
        assert!(outbox.is_clear(0) && !outbox.is_clear(2) && !outbox.is_clear(3));
        assert_eq!((outbox.active(0), outbox.active(1)), (Some(2), None));
        outbox.lane(2).ordered.clear();
        assert!(!outbox.retire(0) && outbox.is_clear(2) && !outbox.is_empty_to(2));
        outbox.lane(2).streams.clear();
        assert!(outbox.retire(0) && outbox.is_empty());
    }
}
