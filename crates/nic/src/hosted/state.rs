//! What a port keeps: about each peer, its own status rings and its own landing rings.

use super::arrive::PUBLISH_PARTS;
use super::chain::Stretch;
use super::stores::{PeerStores, SampleRound};
use crate::fabric::{PeerFailure, Rank, RingId};
use crate::ring::{Ledger, LongStores, Poster, StatusRing};
use crate::segment::Segment;
use crate::sync::AtomicU64;
use crate::table::segment;

/// Posts to a peer without a message read in between, after which the next post is prepared. Two
/// are an exchange with two neighbours that are one rank.
const STREAM: u32 = 2;

/// What this port keeps about one peer, as sender to it and as receiver from it.
///
/// For a rank of another host it is the sender's part for that rank as the source and this one as
/// the target: this port lands what comes from there.
#[derive(Debug)]
pub(super) struct PeerEntry {
    /// Its segment.
    pub(super) target: Segment<'static>,
    /// The status ring of the peer that we post to.
    pub(super) status: StatusRing<'static>,
    /// What its table said when that was chosen.
    pub(super) status_entry: u64,
    pub(super) poster: Poster,
    /// How many messages this port had read at its last post to the peer, and how many posts to it
    /// had preceded that one since the port read any.
    heard: u64,
    in_a_row: u32,
    /// Limit of posted records for the fast path of inline messages. Up to it there is room and
    /// credit, the status ring is private, and the peer is in order. Any fault sets it to zero.
    pub(super) allowed: u64,
    /// The ring of the peer that we land in, and its last seen head.
    pub(super) ring: Option<RingId>,
    pub(super) ring_head: u64,
    /// How many credited messages the peer allows in all, and how many posted records were not
    /// credited. Credited messages are the difference, modulo 2^64: the rarer change is the one
    /// counted. So is a move to another status ring, where records have other numbers.
    pub(super) credit: u64,
    pub(super) uncredited: u64,
    /// Our epoch at the peer between posts: even.
    pub(super) epoch: u64,
    /// What the chain that is being executed does there once.
    pub(super) stretch: Stretch,
    /// Whether the peer knows that we wait.
    pub(super) held_up: bool,
    /// The peer died.
    pub(super) failed: Option<PeerFailure>,
    /// How many credited messages the peer is allowed here.
    pub(super) granted: u64,
    /// How often the peer had reported waiting when we last checked.
    pub(super) seen_held_up: u64,
    /// Whether it is queued in `held_up`.
    pub(super) is_in_held_up: bool,
    /// Which of our status rings it posts to: its place in `HostedPort::lanes`.
    pub(super) lane: usize,
    /// Records of it in shared landing rings, since this was last asked.
    pub(super) from_shared: u32,
    /// How long payloads are stored for it.
    pub(super) stores: PeerStores,
    /// What loads of its long payloads take.
    pub(super) loads: [SampleRound; LongStores::CLASSES],
}

/// One of our status rings.
#[derive(Debug)]
pub(super) struct StatusLane {
    pub(super) ring: StatusRing<'static>,
    /// Next record to read.
    pub(super) head: u64,
    /// How many records the last message had.
    pub(super) last: u64,
    /// The head up to which messages are expected that are more than one record.
    pub(super) longer_until: u64,
    /// The head at which the next publication to senders is due.
    pub(super) publish_at: u64,
    /// Full posts seen so far.
    pub(super) seen_full: u64,
    /// Of a spare ring: which it is, and whose.
    pub(super) spare: Option<(usize, Rank)>,
}

/// A spare status ring of ours.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SpareStatus {
    /// The source that it was given to, which posts there as soon as it has seen that.
    pub(super) owner: Option<Rank>,
    /// The source has been seen there.
    pub(super) is_open: bool,
    /// Its next record, while it is nobody's.
    pub(super) head: u64,
}

/// One of our landing rings.
#[derive(Debug)]
pub(super) struct OwnRing {
    pub(super) ledger: Ledger,
    /// The head last published to senders.
    pub(super) published: u64,
    /// Full posts seen so far.
    pub(super) seen_full: u64,
    /// Whether it is known to have memory.
    pub(super) has_memory: bool,
    /// Of a private ring: its last source, which may be in a post to it still, and the odd epoch in
    /// which that was seen, once it was.
    pub(super) leaving: Option<(Rank, Option<u64>)>,
}

impl PeerEntry {
    /// `stores`: how it is stored there, if not as measured.
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

    /// The word by which `rank` says that it is in a post to the peer, and its next odd value.
    #[inline]
    pub(super) fn next_epoch(&self, rank: Rank) -> (&'static AtomicU64, u64) {
        (&self.target.sender(rank).epoch, self.epoch + 1)
    }

    /// `rank` ends its post to the peer.
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

    /// After a post of so many `records` at `index`: prefetches the place behind them for writing,
    /// if the next message is likely to follow at once. `heard` is how many messages this port has
    /// read.
    ///
    /// Where messages go back and forth, a prefetch costs a transfer: the peer polls that place
    /// before the next message is written, and so takes the line back. Between far cores 8 B one
    /// way took 246 ns when each post prefetched, and takes 180; an exchange of 2 x 8 B by requests
    /// 490, and takes 430.
    #[inline(always)]
    pub(super) fn prefetch_next(&mut self, index: u64, records: u64, heard: u64) {
        self.in_a_row = if self.heard == heard { self.in_a_row.saturating_add(1) } else { 0 };
        self.heard = heard;
        if self.in_a_row >= STREAM {
            self.status.prefetch_slots(index + records, records);
        }
    }

    /// Credited messages sent to it.
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

    /// Publishes to the senders how far the ring has been read. If they are `eager` for room, does
    /// so again after the next record.
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
