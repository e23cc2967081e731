//! The layout of one rank's rings and tables in memory that its peers can reach.
//!
//! ```text
//!   offset 0    Doorbell            sleeping flag, attention flag          (rank, senders)
//!               SourceLine × ranks  source table and credits               (rank)
//!               SenderLine × ranks  epochs, held-up counts                 (that sender)
//!               ContextLine × contexts                     (rank; senders move registers)
//!               SegmentEntry × segments × contexts         (rank)
//!               QueuePointers × queues                                     (all)
//!               CommandSlot × queue_slots × queues                         (rank)
//!               StatusControl × (status_rings + spare ones)
//!               Slot × status_slots × status_rings, and those of the spare ones
//!               RingControl × rings landing ring pointers: the AMT
//!               ring_bytes × rings  payload
//!               Awaited             the group member that the rank waits for   (rank)
//!               joint word          the copy that both of its ends make     (rank, that sender)
//!               revoked word        whether its memory may have other contents than announced
//!                                                                           (rank)
//!               ControlLines × channels                                       (rank)
//!               sync counts × channels                                        (rank)
//!               MemberCounter × channels                       (members add; rank)
//!   channels ×  area_bytes          multicast area                            (rank)
//! ```
//!
//! The layout is the same for every rank of a job. It is computed from [`SegmentLayout`] and never
//! read from a peer's memory: a broken peer can corrupt its own messages but cannot direct another
//! rank outside a segment. All zero is a valid empty segment, except for the tables.
//! [`Segment::set_up`] fills those before any rank starts, so messages land even at a rank that has
//! not opened its port yet.

use std::marker::PhantomData;
use std::mem::size_of;
use std::ptr::NonNull;

use thiserror::Error;

use crate::doorbell::Doorbell;
use crate::fabric::{ContextId, FullPolicy, QueueId, Rank, RingId, SYNC_IDS};
use crate::ring::{
    Bytes, CommandQueue, CommandSlot, ControlLines, GRANULE, JointWord, LandingRing, LongStores,
    QueuePointers, RingControl, Setup, Slot, StatusControl, StatusRing,
};
use crate::sync::{AtomicU64, Line, Ordering};
use crate::table::{ContextLine, SegmentEntry};
use crate::wire::MAX_RANKS;

/// Alignment of every part: two cache lines.
const ALIGN: usize = 128;

/// Limit of a rank's contexts and of a context's segments: a key has eight bits for each.
const MAX_TABLE: u32 = 256;

/// The sizes of a job's segments. The same at every rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentLayout {
    /// The number of ranks that may send here.
    pub ranks: u32,
    /// Limit of processes that post here. In a job of several hosts, these are the processes of
    /// this host; the rank itself posts for all sources on other hosts.
    pub posters: u32,
    /// Status rings. With at least as many as ranks, each source has a private one. With fewer,
    /// source `s` starts in ring `s % status_rings`, which it shares, and there are
    /// [spare](SegmentLayout::spare_status) ones.
    pub status_rings: u32,
    /// Slots of each status ring; a power of two, more than twice as many as its sources.
    pub status_slots: u32,
    /// The policy when a status ring is full.
    pub status_policy: FullPolicy,
    /// Landing rings.
    pub rings: u32,
    /// The rings in which sources land at first, source `s` in ring `s % first_rings`. With as many
    /// as ranks, each source has a private one; with fewer, they are shared. Rings beyond them are
    /// private, and unused until the rank assigns them to a source.
    pub first_rings: u32,
    /// Bytes of each landing ring; a power of two.
    pub ring_bytes: u32,
    /// The policy when a landing ring is full.
    pub ring_policy: FullPolicy,
    /// Payload bytes of one packet.
    pub packet_bytes: u32,
    /// Credited messages that each source may have unconsumed at the start.
    pub credit: u32,
    /// Command queues of each rank; may be zero.
    pub queues: u32,
    /// Limit of slots of each command queue.
    pub queue_slots: u32,
    /// Contexts that a rank may have open at once (paper 003: 256 cids).
    pub contexts: u32,
    /// Segments that each context may have registered at once (paper 003: 4 per cid).
    pub segments: u32,
    /// The memory that each rank has for its groups.
    pub groups: GroupLayout,
}

/// The memory that each rank has for its groups; see [`crate::fabric::RegisteredGroup`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupLayout {
    /// The number of groups that a rank can be in at once; may be zero.
    pub channels: u32,
    /// Bytes of each channel's multicast area, which the rank writes and the other members read; a
    /// multiple of 64. It takes memory from its first use on.
    pub area_bytes: u32,
}

impl GroupLayout {
    /// Channels for as many communicators as programs commonly use at a time, 2.5 KiB each per rank
    /// without their areas, and room in each area for two broadcasts of 128 KiB in flight.
    pub const DEFAULT: GroupLayout = GroupLayout { channels: 16, area_bytes: 256 << 10 };
}

/// Payload bytes of a packet, unless a layout says otherwise.
const PACKET_BYTES: u32 = 8 << 10;

/// In planned segments: the ring that is shared by the sources without one of their own.
const SHARED_RING: RingId = 0;

/// Limit of private rings that a rank with shared ones can assign, unless a plan says otherwise.
/// Those for payload take addresses, and memory only once assigned. Status rings are short.
const SPARE_RINGS: u32 = 16;

/// Slots of each spare status ring: as many as each of 16 ranks has.
const SPARE_STATUS_SLOTS: u32 = 32;

/// Up to this many ranks, each rank has a landing ring for each source; with more, sources share.
const FEW_RANKS: u32 = 16;

/// The number of landing rings in which the sources start in a larger job.
const SHARED_RINGS: u32 = 8;

/// With more ranks than this, landing rings are shorter.
const MANY_RANKS: u32 = 512;

/// Most channels of a job.
const MAX_CHANNELS: u32 = 256;

/// Sync counts of one channel of one rank: one word per id, written by the rank only.
pub type SyncCounts = [AtomicU64; SYNC_IDS as usize];

/// A rank's counter on one channel: every member of the group adds to it.
#[derive(Debug, Default)]
#[repr(C)]
pub struct MemberCounter {
    /// The sum of the additions of all members.
    pub count: Line<AtomicU64>,
    /// The words that only the rank itself writes.
    pub own: Line<CounterState>,
}

/// A rank's own words about its counter and its additions.
#[derive(Debug, Default)]
#[repr(C)]
pub struct CounterState {
    /// The count that the rank waits for: the sender that reaches it wakes the rank.
    pub wanted: AtomicU64,
    /// Additions that the rank has made to all counters together, from the group's first round on.
    pub added: AtomicU64,
}

/// The longest queue: the lead of the scheduling pointer, up to the queue's length, can be counted.
const MAX_QUEUE_SLOTS: u32 = 1 << 16;

/// An invalid layout.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{what} cannot be {value}: {rule}")]
pub struct SegmentLayoutError {
    /// The name of the invalid size.
    pub what: &'static str,
    /// Its value.
    pub value: u64,
    /// The rule that it breaks.
    pub rule: String,
}

impl SegmentLayout {
    /// The default sizes for a job of `ranks`.
    ///
    /// Rings are private while there are few ranks. From 17 ranks on, there are 8 shared rings and
    /// private ones to assign to frequent sources, so memory grows with a rank's partners, not with
    /// the number of ranks or its square (paper 000 §4: infrequent partners share). Beyond 512
    /// ranks rings are shorter: the shared ones are committed before the job starts.
    ///
    /// A status ring is no longer than needed: one of 16 KiB stays in the first-level cache beside
    /// the program's own data. The port moved 6.6 M messages/s between far cores at 1,024 slots,
    /// 7.6 M at 256 slots and 8.7 M at 128 slots.
    pub fn for_ranks(ranks: u32) -> SegmentLayout {
        let status_rings = ranks.clamp(1, FEW_RANKS);
        let rings = if ranks > FEW_RANKS { SHARED_RINGS } else { ranks.max(1) };
        let per_ring = (1 << 20) / status_rings.next_power_of_two();
        let many = ranks.div_ceil(MANY_RANKS).next_power_of_two();
        SegmentLayout {
            ranks,
            posters: u32::MAX,
            status_rings,
            status_slots: status_slots(ranks.div_ceil(status_rings), status_rings),
            status_policy: FullPolicy::Stall,
            rings: rings + spare_rings(rings, ranks),
            first_rings: rings,
            ring_bytes: (per_ring / many).clamp(4 * PACKET_BYTES, 256 << 10),
            ring_policy: FullPolicy::Stall,
            packet_bytes: PACKET_BYTES,
            credit: 256,
            queues: 16,
            queue_slots: 64,
            contexts: 64,
            segments: 4,
            groups: GroupLayout::DEFAULT,
        }
    }

    /// The same layout for a rank of a job of several hosts, with `here` ranks on this host.
    /// Messages from ranks of other hosts do not arrive at the same time.
    #[must_use]
    pub fn among_hosts(mut self, here: u32) -> SegmentLayout {
        self.posters = self.posters.min(here.saturating_add(1));
        let slots = status_slots(self.status_senders(), self.status_rings);
        self.status_slots = self.status_slots.min(slots);
        self
    }

    /// The same layout with sources that land at first in `rings` rings: private ones if there are
    /// as many as ranks, shared ones if there are fewer.
    #[must_use]
    pub fn starting_in(mut self, rings: u32) -> SegmentLayout {
        self.rings = rings.saturating_add(spare_rings(rings, self.ranks));
        self.first_rings = rings;
        self
    }

    /// Checks that the layout is valid.
    ///
    /// # Errors
    /// [`SegmentLayoutError`] naming the size and its rule.
    pub fn check(&self) -> Result<(), SegmentLayoutError> {
        let fail = |what, value: u32, rule: String| {
            Err(SegmentLayoutError { what, value: u64::from(value), rule })
        };
        if self.ranks == 0 || self.ranks >= MAX_RANKS {
            return fail("ranks", self.ranks, format!("1 to {}", MAX_RANKS - 1));
        }
        if self.posters == 0 {
            return fail("posters", self.posters, "at least 1".into());
        }
        if self.status_rings == 0 {
            return fail("status_rings", self.status_rings, "at least 1".into());
        }
        let least = u64::from(self.status_senders()) * 2;
        if !self.status_slots.is_power_of_two() || u64::from(self.status_slots) <= least {
            return fail(
                "status_slots",
                self.status_slots,
                format!("a power of two above {least}"),
            );
        }
        if self.rings == 0 {
            return fail("rings", self.rings, "at least 1".into());
        }
        if self.first_rings == 0 || self.first_rings > self.rings {
            return fail("first_rings", self.first_rings, format!("1 to {}", self.rings));
        }
        if !self.ring_bytes.is_power_of_two() || u64::from(self.ring_bytes) < GRANULE {
            return fail(
                "ring_bytes",
                self.ring_bytes,
                format!("a power of two from {GRANULE} on"),
            );
        }
        if self.packet_bytes == 0 || self.packet_bytes > self.ring_bytes {
            return fail("packet_bytes", self.packet_bytes, "1 to the size of a ring".into());
        }
        if self.credit == 0 {
            return fail("credit", self.credit, "at least 1".into());
        }
        if self.queues > MAX_QUEUE_SLOTS {
            return fail("queues", self.queues, format!("at most {MAX_QUEUE_SLOTS}"));
        }
        if self.queue_slots > MAX_QUEUE_SLOTS {
            return fail("queue_slots", self.queue_slots, format!("at most {MAX_QUEUE_SLOTS}"));
        }
        for (what, value) in [("contexts", self.contexts), ("segments", self.segments)] {
            if value == 0 || value > MAX_TABLE {
                return fail(what, value, format!("1 to {MAX_TABLE}"));
            }
        }

        let GroupLayout { channels, area_bytes } = self.groups;
        if channels > MAX_CHANNELS {
            return fail("channels", channels, format!("at most {MAX_CHANNELS}"));
        }
        if !u64::from(area_bytes).is_multiple_of(GRANULE) || area_bytes > 1 << 30 {
            return fail("area_bytes", area_bytes, format!("a multiple of {GRANULE}, up to 2^30"));
        }
        Ok(())
    }

    /// Limit of sources that post to one status ring.
    #[inline]
    pub fn status_senders(&self) -> u32 {
        self.ranks.div_ceil(self.status_rings).min(self.posters)
    }

    /// The status ring in which a source starts.
    #[inline]
    pub(crate) fn first_status(&self, source: Rank) -> u32 {
        source % self.status_rings
    }

    /// The number of status rings beside the first ones: private, and unassigned until the rank
    /// gives them to a source. Zero where each source has its own ring.
    #[inline]
    pub fn spare_status(&self) -> u32 {
        spare_rings(self.status_rings, self.ranks)
    }

    /// The number of slots of all status rings before `ring`: the first rings, then the spare ones.
    fn status_slots_before(&self, ring: u32) -> usize {
        let (first, spare) = (ring.min(self.status_rings), ring.saturating_sub(self.status_rings));
        let slots = |rings: u32, each: u32| rings as usize * each as usize;
        slots(first, self.status_slots) + slots(spare, SPARE_STATUS_SLOTS)
    }

    /// The offsets in a segment where the lines of sources start and end.
    pub fn lines_at(&self) -> (usize, usize) {
        let at = Offsets::of(self);
        (at.sources, at.contexts)
    }

    /// The start and the length of the two parts with the lines of `count` sources from `first` on.
    pub fn lines_of(&self, first: Rank, count: u32) -> [(usize, usize); 2] {
        let at = Offsets::of(self);
        [(at.sources, size_of::<SourceLine>()), (at.senders, size_of::<SenderLine>())]
            .map(|(start, size)| (start + first as usize * size, count as usize * size))
    }

    /// The offsets in a segment where the bytes of the landing rings and the part after them start.
    pub fn rings_at(&self) -> (usize, usize) {
        let at = Offsets::of(self);
        (at.payload, at.awaited)
    }

    /// The number of shared rings: the first ones. In the others one source lands at a time.
    pub fn shared_rings(&self) -> u32 {
        if self.first_rings < self.ranks { self.first_rings } else { 0 }
    }

    /// The offset in a segment where the bytes of a landing ring start.
    pub fn ring_at(&self, ring: RingId) -> usize {
        Offsets::of(self).payload + ring as usize * self.ring_bytes as usize
    }

    /// The offset where a channel's multicast area starts, bytes. The areas are the last part of
    /// the segment and have no memory before
    /// [`Host::commit_area`](crate::hosted::Host::commit_area).
    pub fn area_at(&self, channel: u32) -> usize {
        Offsets::of(self).area + channel as usize * self.groups.area_bytes as usize
    }

    /// Bytes of one rank's segment: a multiple of the page size of every machine we know.
    pub fn segment_bytes(&self) -> usize {
        self.area_at(self.groups.channels).next_multiple_of(64 << 10)
    }
}

/// The number of private rings to assign, beside the `first` ones in which sources land at first.
fn spare_rings(first: u32, ranks: u32) -> u32 {
    if first < ranks { ranks.min(SPARE_RINGS) } else { 0 }
}

/// Slots of each of `rings` status rings to which `senders` sources post.
fn status_slots(senders: u32, rings: u32) -> u32 {
    let slots = senders.saturating_mul(4).next_power_of_two();
    slots.clamp(512 / rings.next_power_of_two(), 1 << 20)
}

/// The start of each part of a segment, bytes from its base.
#[derive(Debug, Clone, Copy)]
struct Offsets {
    sources: usize,
    senders: usize,
    queues: usize,
    commands: usize,
    contexts: usize,
    segments: usize,
    status: usize,
    slots: usize,
    rings: usize,
    payload: usize,
    awaited: usize,
    joint: usize,
    revoked: usize,
    lines: usize,
    syncs: usize,
    counters: usize,
    area: usize,
}

impl Offsets {
    fn of(layout: &SegmentLayout) -> Offsets {
        let ranks = layout.ranks as usize;
        let sources = size_of::<Doorbell>().next_multiple_of(ALIGN);
        let senders = sources + ranks * size_of::<SourceLine>();
        let contexts = senders + ranks * size_of::<SenderLine>();
        let lines = layout.contexts as usize;
        let segments = contexts + lines * size_of::<ContextLine>();
        let entries = lines * layout.segments as usize * size_of::<SegmentEntry>();
        let queues = (segments + entries).next_multiple_of(ALIGN);
        let commands = queues + layout.queues as usize * size_of::<QueuePointers>();
        let slots = layout.queues as usize * layout.queue_slots as usize;
        let status = (commands + slots * size_of::<CommandSlot>()).next_multiple_of(ALIGN);
        let lanes = layout.status_rings + layout.spare_status();
        let slots = status + lanes as usize * size_of::<StatusControl>();
        let rings = slots + layout.status_slots_before(lanes) * size_of::<Slot>();
        let payload =
            (rings + layout.rings as usize * size_of::<RingControl>()).next_multiple_of(4096);
        let awaited =
            (payload + layout.rings as usize * layout.ring_bytes as usize).next_multiple_of(4096);
        let joint = awaited + size_of::<Awaited>();
        let revoked = joint + size_of::<Line<AtomicU64>>();
        let lines = revoked + size_of::<Line<AtomicU64>>();
        let channels = layout.groups.channels as usize;
        let syncs = lines + channels * size_of::<ControlLines>();
        let counters = syncs + channels * size_of::<SyncCounts>();
        let area = (counters + channels * size_of::<MemberCounter>()).next_multiple_of(4096);
        Offsets {
            sources,
            senders,
            contexts,
            segments,
            queues,
            commands,
            status,
            slots,
            rings,
            payload,
            awaited,
            joint,
            revoked,
            lines,
            syncs,
            counters,
            area,
        }
    }
}

/// A rank's settings for one source: its entry in the source table (paper 000's AMT Address Table)
/// and its credit. Written by the rank, read by that source.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct SourceLine {
    /// Ring index plus one; zero is unmapped.
    ring: AtomicU64,
    /// The spare status ring that the source is to post to; zero is the ring in which it starts.
    status: AtomicU64,
    /// Credited messages that the source may have sent in total.
    credit: AtomicU64,
    /// The cost of loading its long payloads, by class and way of storing; zero: unknown.
    loads: [AtomicU64; LongStores::CLASSES],
}

impl SourceLine {
    /// The ring this source's messages land in.
    #[inline]
    pub fn ring(&self) -> Option<RingId> {
        // Acquire: a re-routed source sees the new ring with its set-up.
        let entry = self.ring.load(Ordering::Acquire);
        u32::try_from(entry).ok()?.checked_sub(1)
    }

    /// Directs this source to a ring; `None` unmaps it.
    pub fn set_ring(&self, ring: Option<RingId>) {
        self.ring.store(ring.map_or(0, |id| u64::from(id) + 1), Ordering::Release);
    }

    /// The spare status ring that this source shall post to; zero: the ring in which it starts.
    #[inline]
    pub fn status(&self) -> u64 {
        // Acquire: the source sees how far that ring has been read.
        self.status.load(Ordering::Acquire)
    }

    /// Directs this source to a spare status ring; zero directs it back to its first ring.
    pub fn set_status(&self, ring: u64) {
        self.status.store(ring, Ordering::Release);
    }

    /// Credited messages that the source may have sent in total.
    #[inline]
    pub fn credit(&self) -> u64 {
        self.credit.load(Ordering::Acquire)
    }

    /// Sets the credit.
    pub fn set_credit(&self, messages: u64) {
        self.credit.store(messages, Ordering::Release);
    }

    /// The cost of loads of a class, as last measured.
    #[inline]
    pub fn loads(&self, class: usize) -> u64 {
        // Relaxed: the value does not order other memory.
        self.loads[class].load(Ordering::Relaxed)
    }

    /// Publishes the cost of loads of a class.
    pub fn set_loads(&self, class: usize, costs: u64) {
        self.loads[class].store(costs, Ordering::Relaxed);
    }
}

/// One source's words at this rank. Written by that source only.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct SenderLine {
    /// Odd while the source is between a claim and its publication, or accesses a registered
    /// segment of this rank. After a peer's death, a receiver that has seen each live source's
    /// epoch even or changed knows that nothing unpublished will be published any more. An owner
    /// that deregisters a segment waits for the same (`table/segment.rs`).
    pub epoch: AtomicU64,
    /// The number of records that the source had posted at its last long wait.
    pub posted: AtomicU64,
    /// How often the source found no room.
    pub held_up: AtomicU64,
    /// Nonzero while the source waits for room or credit: one bit for each of its ports. In virtual
    /// time it has two.
    pub waiting: AtomicU64,
    /// The ring in which the source last found no room, plus one, if the source named that ring;
    /// zero if this rank's table chose it.
    pub named: AtomicU64,
}

/// The group member that a rank waits for: its rank plus one, zero for any. Written by the rank
/// before it announces its sleep, so that the others need not wake it.
pub type Awaited = Line<AtomicU64>;

/// A view of one rank's segment; it owns nothing. It is made once for each peer and kept, because
/// the offsets take some arithmetic.
#[derive(Debug, Clone, Copy)]
pub struct Segment<'m> {
    base: NonNull<u8>,
    layout: &'m SegmentLayout,
    at: Offsets,
    memory: PhantomData<&'m ()>,
}

// SAFETY: a segment consists of atomics and of payload bytes that the rings' protocol hands over
// between the sides; any thread may use a view of it.
unsafe impl Send for Segment<'_> {}

impl<'m> Segment<'m> {
    /// The segment at `base`.
    ///
    /// # Safety
    /// `layout.segment_bytes()` bytes from `base` on are mapped readable and writable for `'m`,
    /// aligned to 128 bytes, were zero when the job started, and are written by nothing but this
    /// crate. `layout` has passed [`SegmentLayout::check`].
    #[inline]
    pub unsafe fn new(base: NonNull<u8>, layout: &'m SegmentLayout) -> Segment<'m> {
        debug_assert!(base.as_ptr().addr().is_multiple_of(ALIGN));
        Segment { base, layout, at: Offsets::of(layout), memory: PhantomData }
    }

    /// The same view without its lifetime.
    ///
    /// # Safety
    /// The caller drops it before the memory and the layout go.
    pub unsafe fn detach(self) -> Segment<'static> {
        let layout = std::ptr::from_ref(self.layout);
        // SAFETY: the layout lives as long as the caller uses the view, as it promised.
        let layout = unsafe { &*layout };
        Segment { base: self.base, layout, at: self.at, memory: PhantomData }
    }

    /// Its sizes.
    pub fn layout(&self) -> &'m SegmentLayout {
        self.layout
    }

    /// Fills the tables: maps every source to its ring and gives it its first credit. Called once,
    /// before the ranks start.
    pub fn set_up(&self) {
        self.set_up_for(0..self.layout.ranks);
    }

    /// The same for these sources. Others are set up when something comes from them.
    pub fn set_up_for(&self, sources: impl IntoIterator<Item = Rank>) {
        let layout = self.layout;
        for ring in 0..layout.rings {
            self.ring_control(ring).set_up(ring < layout.shared_rings(), layout.ring_policy);
        }
        sources.into_iter().for_each(|source| self.set_up_source(source));
    }

    /// Maps a source to its ring and gives it its first credit, unless it has both.
    pub fn set_up_source(&self, source: Rank) {
        let line = self.source(source);
        if line.credit() == 0 {
            line.set_ring(line.ring().or(Some(self.first_ring(source))));
            line.set_credit(u64::from(self.layout.credit));
        }
    }

    /// The ring of a source at first, unless rings are planned.
    pub fn first_ring(&self, source: Rank) -> RingId {
        source % self.layout.first_rings
    }

    /// Directs sources to rings as planned, after [`Segment::set_up`] of a layout with one ring at
    /// first: the `private` ones to a ring of their own each, from ring 1 on; all others land in
    /// ring 0.
    ///
    /// # Panics
    /// The layout has no ring for each of them, or no rank of such a number.
    pub fn plan_rings(&self, private: &[Rank]) {
        let layout = self.layout;
        assert_eq!(layout.first_rings, SHARED_RING + 1);
        for (ring, source) in (SHARED_RING + 1..).zip(private) {
            assert!(ring < layout.rings);
            self.source(*source).set_ring(Some(ring));
        }
    }

    /// The doorbell.
    #[inline]
    pub fn doorbell(&self) -> &'m Doorbell {
        self.part(0)
    }

    /// This rank's settings for a source. The source must exist.
    #[inline]
    pub fn source(&self, source: Rank) -> &'m SourceLine {
        assert!(source < self.layout.ranks);
        self.part(self.at.sources + source as usize * size_of::<SourceLine>())
    }

    /// A source's words at this rank. The source must exist.
    #[inline]
    pub fn sender(&self, source: Rank) -> &'m SenderLine {
        assert!(source < self.layout.ranks);
        self.part(self.at.senders + source as usize * size_of::<SenderLine>())
    }

    /// The words of a context that peers see. The context must exist.
    pub fn context(&self, context: ContextId) -> &'m ContextLine {
        let index = usize::from(context.0);
        assert!(index < self.layout.contexts as usize);
        self.part(self.at.contexts + index * size_of::<ContextLine>())
    }

    /// An entry of a context's segment table. Both must exist.
    pub fn entry(&self, context: ContextId, index: u8) -> &'m SegmentEntry {
        let segments = self.layout.segments as usize;
        let (context, index) = (usize::from(context.0), usize::from(index));
        assert!(context < self.layout.contexts as usize && index < segments);
        self.part(self.at.segments + (context * segments + index) * size_of::<SegmentEntry>())
    }

    /// A status ring. It must exist.
    #[inline]
    pub fn status(&self, ring: u32) -> StatusRing<'m> {
        let layout = self.layout;
        assert!(ring < layout.status_rings + layout.spare_status());
        let (count, senders) = match ring < layout.status_rings {
            true => (layout.status_slots, layout.status_senders()),
            false => (SPARE_STATUS_SLOTS, 1),
        };
        let at = self.at.slots + layout.status_slots_before(ring) * size_of::<Slot>();
        // SAFETY: `at` and the slots after it are inside the segment by construction of
        // `SegmentLayout`.
        let first = unsafe { self.base.add(at) }.cast::<Slot>();
        // SAFETY: the slots are mapped for 'm; a `Slot` is made of atomics, for which any bytes
        // are valid and concurrent writers allowed; `SegmentLayout` aligned them to a cache line.
        let slots = unsafe { std::slice::from_raw_parts(first.as_ptr(), count as usize) };
        let control = self.part(self.at.status + ring as usize * size_of::<StatusControl>());
        StatusRing::new(control, slots, senders)
    }

    /// A landing ring. It must exist.
    #[inline]
    pub fn ring(&self, ring: RingId) -> LandingRing<'m> {
        let control = self.ring_control(ring);
        let at = self.at.payload + ring as usize * self.layout.ring_bytes as usize;
        // SAFETY: `ring` was checked against the layout, so the payload is inside the segment.
        let start = unsafe { self.base.add(at) };
        // SAFETY: the ring's payload is mapped readable and writable for 'm.
        let bytes = unsafe { Bytes::new(start, self.layout.ring_bytes as usize) };
        LandingRing::new(control, bytes)
    }

    /// The words of a command queue. It must exist.
    #[inline]
    pub fn queue_pointers(&self, queue: QueueId) -> &'m QueuePointers {
        assert!(queue < self.layout.queues);
        self.part(self.at.queues + queue as usize * size_of::<QueuePointers>())
    }

    /// A command queue and how it was opened; `None` if there is no such queue, it is closed, or
    /// its set-up is invalid.
    #[inline]
    pub fn queue(&self, queue: QueueId) -> Option<(CommandQueue<'m>, Setup)> {
        let layout = self.layout;
        if queue >= layout.queues {
            return None;
        }
        let pointers = self.queue_pointers(queue);
        let setup = pointers.setup()?;
        if setup.slots == 0 || setup.slots > layout.queue_slots {
            return None;
        }
        let first = queue as usize * layout.queue_slots as usize * size_of::<CommandSlot>();
        // SAFETY: the queue exists, so its slots are inside the segment by construction of
        // `SegmentLayout`.
        let first = unsafe { self.base.add(self.at.commands + first) }.cast::<CommandSlot>();
        // SAFETY: as many slots as were checked against the layout are mapped for 'm; a slot is
        // made of atomics, for which any bytes are valid and concurrent writers allowed.
        let slots = unsafe { std::slice::from_raw_parts(first.as_ptr(), setup.slots as usize) };
        let queue = CommandQueue::new(pointers, slots, setup.session);
        Some((queue.of_generation(setup.generation), setup))
    }

    /// The group member that the rank waits for.
    #[inline]
    pub fn awaited(&self) -> &'m Awaited {
        self.part(self.at.awaited)
    }

    /// The word by which the rank and a sender divide a copy.
    #[inline]
    pub fn joint(&self) -> JointWord<'m> {
        JointWord(self.part::<Line<AtomicU64>>(self.at.joint))
    }

    /// Nonzero while the rank has taken memory back that its peers may still read
    /// ([`CopyPort::set_revoked`](crate::fabric::CopyPort::set_revoked)).
    #[inline]
    pub fn revoked(&self) -> &'m Line<AtomicU64> {
        self.part(self.at.revoked)
    }

    /// Its control lines on a channel. The channel must exist.
    #[inline]
    pub fn lines(&self, channel: u32) -> &'m ControlLines {
        assert!(channel < self.layout.groups.channels);
        self.part(self.at.lines + channel as usize * size_of::<ControlLines>())
    }

    /// Its sync counts on a channel. The channel must exist.
    #[inline]
    pub fn syncs(&self, channel: u32) -> &'m SyncCounts {
        assert!(channel < self.layout.groups.channels);
        self.part(self.at.syncs + channel as usize * size_of::<SyncCounts>())
    }

    /// Its counter on a channel. The channel must exist.
    #[inline]
    pub fn counter(&self, channel: u32) -> &'m MemberCounter {
        assert!(channel < self.layout.groups.channels);
        self.part(self.at.counters + channel as usize * size_of::<MemberCounter>())
    }

    /// Its multicast area of a channel. The channel must exist.
    #[inline]
    pub fn area(&self, channel: u32) -> Bytes<'m> {
        let GroupLayout { channels, area_bytes } = self.layout.groups;
        assert!(channel < channels);
        let at = self.at.area + channel as usize * area_bytes as usize;
        // SAFETY: the areas are the last part of the segment, by construction of `SegmentLayout`.
        let start = unsafe { self.base.add(at) };
        // SAFETY: it is mapped readable and writable for 'm.
        unsafe { Bytes::new(start, area_bytes as usize) }
    }

    #[inline]
    fn ring_control(&self, ring: RingId) -> &'m RingControl {
        assert!(ring < self.layout.rings);
        self.part(self.at.rings + ring as usize * size_of::<RingControl>())
    }

    /// A part made of atomics only, at an offset that `SegmentLayout` computed.
    #[inline]
    fn part<T>(&self, at: usize) -> &'m T {
        debug_assert!(at + size_of::<T>() <= self.layout.segment_bytes());
        // SAFETY: the offset is inside the segment, by construction of `SegmentLayout` and the
        // callers' checks of rank and ring.
        let place = unsafe { self.base.add(at) }.cast::<T>();
        // SAFETY: the part is mapped for 'm and aligned; `T` consists of atomics, for which any
        // bytes are valid and which other processes may write at any time.
        unsafe { place.as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_aligned_and_apart() {
        for ranks in [1, 2, 3, 16, 17, 64, 1000] {
            let layout = SegmentLayout::for_ranks(ranks);
            layout.check().unwrap();
            let at = Offsets::of(&layout);
            let size = layout.segment_bytes();
            let tables = [0, at.sources, at.senders, at.contexts, at.segments];
            let rings = [at.queues, at.commands, at.status, at.slots, at.rings, at.payload];
            let groups = [at.awaited, at.joint, at.revoked, at.lines, at.syncs, at.counters];
            let marks = [&tables[..], &rings, &groups, &[at.area, size]].concat();
            assert!(marks.is_sorted());
            assert!(marks.iter().all(|mark| mark.is_multiple_of(ALIGN)), "{ranks}: {marks:?}");
        }
    }

    #[test]
    fn many_ranks_have_short_rings() {
        for (ranks, ring, kibibytes) in [
            (2, 256 << 10, 800),
            (16, 64 << 10, 1_300),
            (17, 64 << 10, 840),
            (512, 64 << 10, 1_024),
            (513, 32 << 10, 900),
            (1_024, 32 << 10, 1_064),
            (4_096, 32 << 10, 2_600),
        ] {
            let layout = SegmentLayout::for_ranks(ranks);
            layout.check().unwrap();
            assert_eq!(layout.ring_bytes, ring, "{ranks}");
            let spare = layout.rings_at().1 - layout.ring_at(layout.first_rings);
            let committed = (layout.area_at(0) - spare) >> 10;
            assert!(committed < kibibytes, "{ranks}: {committed} KiB");
        }
    }

    #[test]
    fn sources_share_where_they_have_fewer_rings_than_they_are() {
        // Ranks, rings at first; rings, shared ones.
        for (ranks, first, expected) in [
            (4, 4, (4, 0)),
            (4, 1, (5, 1)),
            (4, 3, (7, 3)),
            (64, 16, (32, 16)),
            (64, 8, (24, 8)),
            (64, 64, (64, 0)),
            (1, 1, (1, 0)),
        ] {
            let layout = SegmentLayout::for_ranks(ranks).starting_in(first);
            layout.check().unwrap();
            assert_eq!((layout.rings, layout.shared_rings()), expected, "{ranks}, {first}");
            assert_eq!(layout.ring_bytes, SegmentLayout::for_ranks(ranks).ring_bytes);
        }
        assert_eq!(SegmentLayout::for_ranks(64), SegmentLayout::for_ranks(64).starting_in(8));
        assert_eq!(SegmentLayout::for_ranks(9), SegmentLayout::for_ranks(9).starting_in(9));
    }

    #[test]
    fn each_entry_has_a_place_of_its_own() {
        use crate::hosted::Host;
        let ports = crate::loopback::open(&crate::loopback::LoopbackConfig::for_ranks(1)).unwrap();
        let segment = ports[0].host().segment(0);
        let SegmentLayout { contexts, segments, .. } = *segment.layout();
        let place = |context: u32, index: u32| {
            let context = ContextId(u8::try_from(context).unwrap());
            std::ptr::from_ref(segment.entry(context, u8::try_from(index).unwrap())).addr()
        };
        let places = (0..contexts).flat_map(|context| (0..segments).map(move |i| (context, i)));
        let places: Vec<usize> = places.map(|(context, index)| place(context, index)).collect();
        let follow = |pair: &[usize]| pair[1] - pair[0] == size_of::<SegmentEntry>();
        assert!(contexts > 1 && segments > 1 && places.windows(2).all(follow));
    }

    #[test]
    fn impossible_sizes_are_refused_by_name() {
        let good = SegmentLayout::for_ranks(4);
        for (bad, name) in [
            (SegmentLayout { ranks: 0, ..good }, "ranks"),
            (SegmentLayout { status_rings: 0, ..good }, "status_rings"),
            (SegmentLayout { status_slots: 1000, ..good }, "status_slots"),
            (SegmentLayout { status_slots: 2, ..good }, "status_slots"),
            (SegmentLayout { rings: 0, ..good }, "rings"),
            (SegmentLayout { first_rings: 0, ..good }, "first_rings"),
            (SegmentLayout { first_rings: good.rings + 1, ..good }, "first_rings"),
            (SegmentLayout { ring_bytes: 100, ..good }, "ring_bytes"),
            (SegmentLayout { packet_bytes: 1 << 30, ..good }, "packet_bytes"),
            (SegmentLayout { credit: 0, ..good }, "credit"),
            (SegmentLayout { queues: u32::MAX, ..good }, "queues"),
            (SegmentLayout { queue_slots: u32::MAX, ..good }, "queue_slots"),
            (SegmentLayout { contexts: 0, ..good }, "contexts"),
            (SegmentLayout { contexts: 257, ..good }, "contexts"),
            (SegmentLayout { segments: 0, ..good }, "segments"),
            (SegmentLayout { segments: 257, ..good }, "segments"),
            (
                SegmentLayout { groups: GroupLayout { channels: 257, ..good.groups }, ..good },
                "channels",
            ),
            (
                SegmentLayout { groups: GroupLayout { area_bytes: 65, ..good.groups }, ..good },
                "area_bytes",
            ),
        ] {
            assert_eq!(bad.check().map_err(|error| error.what), Err(name));
        }
    }

    #[test]
    fn memory_grows_linearly_with_the_ranks() {
        let per_rank = |ranks| SegmentLayout::for_ranks(ranks).segment_bytes();
        assert!(per_rank(256) < 2 * per_rank(16));
    }

    #[test]
    fn every_part_has_room_for_its_items() {
        for ranks in [1, 3, 17, 300] {
            let layout = SegmentLayout::for_ranks(ranks);
            let at = Offsets::of(&layout);
            let count = |one: u32, other: u32| one as usize * other as usize;
            let parts = [
                (at.sources, ranks as usize * size_of::<SourceLine>(), at.senders),
                (at.senders, ranks as usize * size_of::<SenderLine>(), at.contexts),
                (at.contexts, layout.contexts as usize * size_of::<ContextLine>(), at.segments),
                (
                    at.segments,
                    count(layout.contexts, layout.segments) * size_of::<SegmentEntry>(),
                    at.queues,
                ),
                (at.queues, layout.queues as usize * size_of::<QueuePointers>(), at.commands),
                (
                    at.commands,
                    count(layout.queues, layout.queue_slots) * size_of::<CommandSlot>(),
                    at.status,
                ),
                (
                    at.status,
                    count(layout.status_rings + layout.spare_status(), 1)
                        * size_of::<StatusControl>(),
                    at.slots,
                ),
                (
                    at.slots,
                    (count(layout.status_rings, layout.status_slots)
                        + count(layout.spare_status(), SPARE_STATUS_SLOTS))
                        * size_of::<Slot>(),
                    at.rings,
                ),
                (at.rings, layout.rings as usize * size_of::<RingControl>(), at.payload),
                (at.payload, count(layout.rings, layout.ring_bytes), at.awaited),
                (at.lines, count(layout.groups.channels, 1) * size_of::<ControlLines>(), at.syncs),
                (at.syncs, count(layout.groups.channels, 1) * size_of::<SyncCounts>(), at.counters),
                (
                    at.counters,
                    count(layout.groups.channels, 1) * size_of::<MemberCounter>(),
                    at.area,
                ),
            ];
            for (part, (start, bytes, next)) in parts.into_iter().enumerate() {
                let spare = next - start - bytes;
                assert!(spare < 4096, "{ranks} ranks, part {part}: {spare} bytes");
            }
            let (start, end) = layout.rings_at();
            assert!(start.is_multiple_of(4096) && end < layout.area_at(0));
            assert_eq!(end - start, count(layout.rings, layout.ring_bytes), "whole pages");
        }
    }

    #[test]
    fn sizes_at_their_limits_are_valid() {
        let good = SegmentLayout::for_ranks(4);
        for limit in [
            SegmentLayout { status_slots: 4, ..good },
            SegmentLayout { ring_bytes: GRANULE as u32, packet_bytes: GRANULE as u32, ..good },
            SegmentLayout { queues: MAX_QUEUE_SLOTS, ..good },
            SegmentLayout { queue_slots: MAX_QUEUE_SLOTS, ..good },
            SegmentLayout { contexts: MAX_TABLE, ..good },
            SegmentLayout { segments: MAX_TABLE, ..good },
            SegmentLayout {
                groups: GroupLayout { channels: MAX_CHANNELS, area_bytes: 1 << 30 },
                ..good
            },
        ] {
            assert_eq!(limit.check(), Ok(()));
        }
    }
}
