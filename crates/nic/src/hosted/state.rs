//! What a port remembers: of each peer, of its own status rings, of its own landing rings.

use super::arrive::PUBLISH_PARTS;
use crate::fabric::{PeerFailure, Rank, RingId};
use crate::ring::{Ledger, Poster, StatusRing};
use crate::segment::Segment;

/// What this port remembers about one peer, as sender to it and as receiver from it.
#[derive(Debug)]
pub(super) struct Peer {
    /// Its segment.
    pub(super) target: Segment<'static>,
    /// The status ring of it that we post to.
    pub(super) status: StatusRing<'static>,
    pub(super) poster: Poster,
    /// Up to how many posted records an inline message may go the short way: there is room and
    /// credit for so many at least, the status ring is private, and nothing is wrong. What goes
    /// wrong sets it to zero.
    pub(super) allowed: u64,
    /// The ring of it that we land in, and its last seen head.
    pub(super) ring: Option<RingId>,
    pub(super) ring_head: u64,
    /// How many credited messages it allows in all, and how many of the posted records were none:
    /// the count that changes less often is the one that is kept.
    pub(super) credit: u64,
    pub(super) uncredited: u64,
    /// Our epoch at it between posts: even.
    pub(super) epoch: u64,
    /// Whether it knows that we are held up.
    pub(super) held_up: bool,
    /// It died.
    pub(super) failed: Option<PeerFailure>,
    /// How many credited messages it is allowed here.
    pub(super) granted: u64,
    /// How often it told us it was held up, as last asked.
    pub(super) seen_held_up: u64,
}

/// One of our status rings.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) ring: StatusRing<'static>,
    /// Next record to read.
    pub(super) head: u64,
    /// The head from which on senders are to be told again.
    pub(super) publish_at: u64,
    /// Full posts seen so far.
    pub(super) seen_full: u64,
}

/// One of our landing rings.
#[derive(Debug)]
pub(super) struct Landing {
    pub(super) ledger: Ledger,
    /// The head that senders have been told.
    pub(super) published: u64,
    /// Full posts seen so far.
    pub(super) seen_full: u64,
}

impl Peer {
    pub(super) fn new(target: Segment<'static>, rank: Rank) -> Peer {
        let layout = target.layout();
        let credit = u64::from(layout.credit);
        Peer {
            target,
            status: target.status(rank % layout.status_rings),
            poster: Poster::default(),
            allowed: 0,
            ring: None,
            ring_head: 0,
            credit,
            uncredited: 0,
            epoch: 0,
            held_up: false,
            failed: None,
            granted: credit,
            seen_held_up: 0,
        }
    }

    /// Finds out how far the short way may go; says whether one more message may. `rank` is who
    /// sends.
    pub(super) fn allow(&mut self, rank: Rank) -> bool {
        let well = self.failed.is_none() && !self.held_up && self.status.is_private();
        if !well || !self.status.has_room(&mut self.poster) {
            self.allowed = 0;
            return false;
        }
        if self.sent() >= self.credit {
            self.credit = self.target.source(rank).credit();
        }
        self.allowed = self.status.limit(&self.poster).min(self.credit + self.uncredited);
        self.poster.posted < self.allowed
    }

    /// Credited messages sent to it.
    #[inline]
    pub(super) fn sent(&self) -> u64 {
        self.poster.posted - self.uncredited
    }
}

impl Lane {
    pub(super) fn new(ring: StatusRing<'static>) -> Lane {
        Lane { ring, head: 0, publish_at: ring.capacity() as u64 / PUBLISH_PARTS, seen_full: 0 }
    }

    /// Tells the senders how far the ring has been read; and, if they are `eager` for room, again
    /// after the next record.
    pub(super) fn publish(&mut self, eager: bool) {
        self.ring.free(self.head);
        let part = self.ring.capacity() as u64 / PUBLISH_PARTS;
        self.publish_at = if eager { 0 } else { self.head + part };
    }
}

impl Landing {
    pub(super) fn new(size: u64) -> Landing {
        Landing { ledger: Ledger::new(size, 0), published: 0, seen_full: 0 }
    }
}
