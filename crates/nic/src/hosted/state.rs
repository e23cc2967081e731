//! The records of a port: about each peer, its own status rings and its own landing rings.

use super::arrive::PUBLISH_PARTS;
use super::chain::Stretch;
use super::stores::{PeerStores, SampleRound};
use crate::fabric::{PeerFailure, Rank, RingId};
use crate::ring::{Ledger, LongStores, Poster, StatusRing};
use crate::segment::Segment;
use crate::sync::AtomicU64;
use crate::table::segment;

/// After this many consecutive posts to a peer without a message read in between, the next post is
/// prefetched. Two such posts also occur in an exchange with two neighbours that are the same rank.
const STREAM: u32 = 2;

/// This port's records about one peer, as sender to it and as receiver from it.
///
/// For a rank of another host, it is the sender's state with that rank as the source and this rank
/// as the target: this port lands the messages from there.
#[derive(Debug)]
pub(super) struct PeerEntry {
    /// The peer's segment.
    pub(super) target: Segment<'static>,
    /// The peer's status ring to which we post.
    pub(super) status: StatusRing<'static>,
    /// The value of the peer's table entry when that ring was chosen.
    pub(super) status_entry: u64,
    pub(super) poster: Poster,
    /// The number of messages that this port had read at its last post to the peer, and the number
    /// of posts to the peer before that one without a message read in between.
    heard: u64,
    in_a_row: u32,
    /// Limit of posted records for the fast path of inline messages. Below it there is room and
    /// credit, the status ring is private, and the peer has no fault. Any fault sets it to zero.
    pub(super) allowed: u64,
    /// The peer's ring in which we land, and its last seen head.
    pub(super) ring: Option<RingId>,
    pub(super) ring_head: u64,
    /// The limit of credited messages to the peer, and the number of posted records without credit.
    /// The credited messages are the difference, modulo 2^64: the rarer change is counted. A move
    /// to another status ring, where records have other numbers, adjusts it.
    pub(super) credit: u64,
    pub(super) uncredited: u64,
    /// Our epoch at the peer between posts: even.
    pub(super) epoch: u64,
    /// The state at the peer of the chain that is being executed.
    pub(super) stretch: Stretch,
    /// Whether the peer has been notified that we wait.
    pub(super) held_up: bool,
    /// The peer died.
    pub(super) failed: Option<PeerFailure>,
    /// The number of credited messages that the peer is allowed to send here.
    pub(super) granted: u64,
    /// How often the peer had reported waiting at our last check.
    pub(super) seen_held_up: u64,
    /// Whether the peer is queued in `held_up`.
    pub(super) is_in_held_up: bool,
    /// The index in `HostedPort::lanes` of our status ring to which it posts.
    pub(super) lane: usize,
    /// Its records in shared landing rings, since the last query.
    pub(super) from_shared: u32,
    /// The way of storing long payloads for it.
    pub(super) stores: PeerStores,
    /// The measured costs of loading its long payloads.
    pub(super) loads: [SampleRound; LongStores::CLASSES],
}

/// One of our status rings.
#[derive(Debug)]
pub(super) struct StatusLane {
    pub(super) ring: StatusRing<'static>,
    /// The next record to read.
    pub(super) head: u64,
    /// The number of records of the last message.
    pub(super) last: u64,
    /// The head up to which messages of more than one record are expected.
    pub(super) longer_until: u64,
    /// The head at which the next publication to senders is due.
    pub(super) publish_at: u64,
    /// The number of full posts seen so far.
    pub(super) seen_full: u64,
    /// For a spare ring: its index and its source.
    pub(super) spare: Option<(usize, Rank)>,
}

/// One of our spare status rings.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SpareStatus {
    /// The source to which it is assigned; the source posts there once it has read the assignment.
    pub(super) owner: Option<Rank>,
    /// Whether the source has moved there.
    pub(super) is_open: bool,
    /// Its next record, while it is unassigned.
    pub(super) head: u64,
}

/// One of our landing rings.
#[derive(Debug)]
pub(super) struct OwnRing {
    pub(super) ledger: Ledger,
    /// The head last published to senders.
    pub(super) published: u64,
    /// The number of full posts seen so far.
    pub(super) seen_full: u64,
    /// Whether its memory is known to be committed.
    pub(super) has_memory: bool,
    /// For a private ring: its last source, which may still be in a post to it, and the odd epoch
    /// in which that was seen, once it was seen.
    pub(super) leaving: Option<(Rank, Option<u64>)>,
}

impl PeerEntry {
    /// `stores`: the fixed way of storing for this peer; `None`: as measured.
    pub(super) fn new(
        target: Segment<'static>,
        rank: Rank,
        lane: u32,
        stores: Option<LongStores>,
    ) -> PeerEntry {
        let layout = target.layout();
        let credit = u64::from(layout.credit);
        PeerEntry {
            target,
            status: target.status(layout.first_status(rank)),
            status_entry: 0,
            poster: Poster::default(),
            heard: 0,
            in_a_row: 0,
            allowed: 0,
            ring: None,
            ring_head: 0,
            credit,
            uncredited: 0,
            epoch: 0,
            stretch: Stretch::default(),
            held_up: false,
            failed: None,
            granted: credit,
            seen_held_up: 0,
            is_in_held_up: false,
            lane: lane as usize,
            from_shared: 0,
            stores: PeerStores::new(stores),
            loads: Default::default(),
        }
    }

    /// The word in which `rank` marks that it is in a post to the peer, and its next odd value.
    #[inline]
    pub(super) fn next_epoch(&self, rank: Rank) -> (&'static AtomicU64, u64) {
        (&self.target.sender(rank).epoch, self.epoch + 1)
    }

    /// Ends a post of `rank` to the peer.
    #[inline]
    pub(super) fn leave(&mut self, rank: Rank) {
        self.epoch += 2;
        segment::leave(&self.target.sender(rank).epoch, self.epoch);
    }

    /// Recomputes the limit of the fast path; returns whether one more message may use it. `rank`
    /// is the sender.
    pub(super) fn allow(&mut self, rank: Rank) -> bool {
        let well = self.failed.is_none() && !self.held_up && self.status.is_private();
        if !well || !self.status.has_room(&mut self.poster) {
            self.allowed = 0;
            return false;
        }
        if self.sent() >= self.credit {
            self.credit = self.target.source(rank).credit();
        }
        self.allowed =
            self.status.limit(&self.poster).min(self.credit.wrapping_add(self.uncredited));
        self.poster.posted < self.allowed
    }

    /// After a post of `records` records at `index`: prefetches the slots behind them for writing,
    /// if the next message is likely to follow at once. `heard` is the number of messages that this
    /// port has read.
    ///
    /// Where messages go back and forth, a prefetch costs a transfer: the peer polls that slot
    /// before the next message is written, and so takes the line back. Between far cores, 8 B one
    /// way took 246 ns when each post prefetched, and takes 180; an exchange of 2 x 8 B by requests
    /// took 490, and takes 430.
    #[inline(always)]
    pub(super) fn prefetch_next(&mut self, index: u64, records: u64, heard: u64) {
        self.in_a_row = if self.heard == heard { self.in_a_row.saturating_add(1) } else { 0 };
        self.heard = heard;
        if self.in_a_row >= STREAM {
            self.status.prefetch_slots(index + records, records);
        }
    }

    /// The number of credited messages sent to the peer.
    #[inline]
    pub(super) fn sent(&self) -> u64 {
        self.poster.posted.wrapping_sub(self.uncredited)
    }
}

impl StatusLane {
    pub(super) fn new(ring: StatusRing<'static>) -> StatusLane {
        let publish_at = ring.capacity() as u64 / PUBLISH_PARTS;
        StatusLane {
            ring,
            head: 0,
            last: 1,
            longer_until: 0,
            publish_at,
            seen_full: 0,
            spare: None,
        }
    }

    /// Publishes to the senders how far the ring has been read. If they are `eager` for room,
    /// publishes again after the next record.
    pub(super) fn publish(&mut self, eager: bool) {
        self.ring.free(self.head);
        let part = self.ring.capacity() as u64 / PUBLISH_PARTS;
        self.publish_at = if eager { 0 } else { self.head + part };
    }
}

impl OwnRing {
    pub(super) fn new(size: u64, has_memory: bool) -> OwnRing {
        OwnRing {
            ledger: Ledger::new(size, 0),
            published: 0,
            seen_full: 0,
            has_memory,
            leaving: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::fabric::{Command, Port};
    use crate::hosted::arrive::PUBLISH_PARTS;
    use crate::loopback::{LoopbackConfig, open};

    #[test]
    fn senders_see_the_head_in_parts_of_the_ring() {
        let mut ports = open(&LoopbackConfig::for_ranks(2)).unwrap();
        let slots = ports[0].capabilities().status_slots;
        let part = slots / PUBLISH_PARTS as usize;
        let message = Command::send(1, 0, 0, b"inline");
        (0..slots - 1).for_each(|_| assert_eq!(ports[0].post(&message), Ok(6)));
        (0..2 * part - 1).for_each(|_| assert!(ports[1].poll().is_some()));
        let more = (0..).find(|_| ports[0].post(&message).is_err());
        assert_eq!(more, Some(part), "nearly two parts are free, and one is published");
    }
}
