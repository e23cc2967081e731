//! A [`Port`] over segments that the sender can reach: the sending process plays the receive
//! controller of the target's interface, so the target's processor does nothing (IP-23).
//!
//! ```text
//!   rest.rs     waiting while other threads of the rank use the port
//!   send.rs     source table → room? → claim → store → commit → status record → wake
//!   follow.rs   status rings that follow frequent sources
//!   land.rs     messages from other hosts, landed by their receiver
//!   arrive.rs   status ring → event; ledgers and heads; full and credit
//!   remote.rs   put, get, atomics: tables → bytes → notification → completion
//!   repair.rs   recovery from posts that a dead sender left unfinished
//!   chain.rs    commands behind one doorbell
//!   conduct/    the same in virtual time: commands that go to a simulator
//!   queue.rs    command queues, run by the rank that makes them runnable
//!   mail.rs     mailboxes: small data, round by round, into the reader's region
//!   registry.rs the state of every rank
//!   state.rs    the port's records about peers and rings
//!   stores.rs   the way of storing long payloads for each peer, as measured
//!   host.rs     the services that it needs of the machine
//!   group.rs    groups: rounds over shared control lines
//!   sync.rs     the network barrier: sync ids
//!   multicast.rs  payload written once and read by all members
//! ```
//!
//! Loopback and shared memory differ only in the [`Host`]: addresses of segments, the clock, waking
//! and waiting, access to other memory.

mod arrive;
mod audit;
mod chain;
mod conduct;
mod copy;
mod counter;
mod follow;
mod group;
mod host;
mod land;
mod mail;
mod multicast;
mod queue;
mod registry;
mod remote;
mod repair;
mod rest;
mod route;
mod send;
mod state;
mod stores;
mod sync;

use std::cell::Cell;
use std::collections::VecDeque;

pub use conduct::{
    ActionOutbox, ChainedPut, Conductor, ConductorAnswer, ConductorRequest, Deed, OutboxContents,
    Posted, Shipped,
};
pub use group::AwaitedStep;
pub use host::{Host, HostBeyond};
pub use registry::{RankLine, Registry};
pub use rest::{MissedStep, Rest, RestStart, Sleeper};
pub use stores::StoreCounts;
use stores::Storing;

use crate::by_rank::ByRank;
use crate::fabric::{
    Capabilities, ChainError, Command, Event, INLINE_BYTES, Name, PeerState, Port, PostError, Rank,
    RingId, RingSlice, Short, Space, Wait, Wake,
};
use crate::ring::LongStores;
use crate::segment::Segment;
use crate::sync::Ordering;
use crate::table::ContextBook;
use crate::time::Time;
use group::Groups;
use mail::Mailboxes;
use queue::Queues;
use repair::Repair;
use state::{OwnRing, PeerEntry, SpareStatus, StatusLane};

/// A port over memory that all ranks can reach.
#[derive(Debug)]
pub struct HostedPort<H: Host> {
    rank: Rank,
    size: u32,
    /// This rank's own segment.
    own: Segment<'static>,
    peers: ByRank<PeerEntry>,
    /// The polled status rings: the first ones, then the spare ones whose owners post there.
    lanes: Vec<StatusLane>,
    spare_status: Vec<SpareStatus>,
    /// The latest arrival time sent or received: a Lamport clock.
    clock: u64,
    /// The number of messages read from status rings.
    heard: u64,
    rings: Vec<OwnRing>,
    /// The number of shared landing rings, which are the first ones.
    shared: RingId,
    /// A sender waits for room: publish every release at once.
    eager: bool,
    /// Events that do not come from records.
    events: VecDeque<Event>,
    /// Sources that had to wait and that [`Port::held_up`] has not returned yet, each once.
    held_up: VecDeque<Rank>,
    /// Departures seen so far.
    seen_ends: u64,
    repairs: VecDeque<Repair>,
    /// This rank's command queues.
    queues: Queues,
    mailboxes: Mailboxes,
    /// This rank's contexts.
    book: ContextBook,
    /// Waits since the last event.
    idle: u32,
    /// Sleeps since the last event.
    sleeps: u32,
    /// The number of the last joint copy that was opened here, and whether it is open.
    joint: (u32, bool),
    /// Doorbells rung: one per post, one per chain.
    doorbells: u64,
    /// The ranks of a stretch of a chain. Empty between chains; kept for its memory.
    stretch: Vec<Rank>,
    groups: Groups,
    /// The wait that was announced last: the audit stores it again.
    announced: Cell<Option<Wait>>,
    /// The last field: the views above must be dropped before the memory.
    host: H,
}

impl<H: Host> HostedPort<H> {
    /// The port of the host's rank.
    pub fn new(host: H) -> HostedPort<H> {
        let this = host.rank();
        let segment = |rank| {
            // SAFETY: the memory stays in place as long as the host exists, by `Host`'s contract,
            // and the port drops its views with the host.
            unsafe { host.segment(rank).detach() }
        };
        let own = segment(this);
        let layout = own.layout();
        // Messages from a rank of another host are landed here, as that source. There may be very
        // many such ranks: the entry of each is made when its first message comes.
        let entry = |rank| {
            // No other rank loads what a rank stores for itself.
            let own = (rank == this).then(LongStores::default);
            let stores = host.long_stores().or(own);
            PeerEntry::new(segment(rank), this, layout.first_status(rank), stores)
        };
        let peers = match (0..layout.ranks).all(|rank| host.is_here(rank)) {
            true => Vec::from_iter((0..layout.ranks).map(entry)).into(),
            false => {
                let stores = Some(LongStores::default());
                let blank =
                    move |source| PeerEntry::new(own, source, layout.first_status(source), stores);
                let mut peers = ByRank::few(layout.ranks, blank);
                for rank in (0..layout.ranks).filter(|rank| host.is_here(*rank)) {
                    peers[rank as usize] = entry(rank);
                }
                peers
            }
        };
        let size = u64::from(layout.ring_bytes);
        let rings = (0..layout.rings).map(|id| OwnRing::new(size, id < layout.first_rings));
        HostedPort {
            rank: this,
            size: layout.ranks,
            own,
            peers,
            lanes: (0..layout.status_rings).map(|id| StatusLane::new(own.status(id))).collect(),
            spare_status: vec![SpareStatus::default(); layout.spare_status() as usize],
            clock: 0,
            heard: 0,
            rings: rings.collect(),
            shared: layout.shared_rings(),
            eager: false,
            events: VecDeque::new(),
            held_up: VecDeque::new(),
            seen_ends: 0,
            repairs: VecDeque::new(),
            queues: Queues::new(layout.queues),
            mailboxes: Mailboxes::default(),
            book: remote::book(&own),
            idle: 0,
            sleeps: 0,
            joint: (0, false),
            doorbells: 0,
            stretch: Vec::new(),
            groups: Groups::new(&layout.groups, own.awaited()),
            announced: Cell::default(),
            host,
        }
    }

    /// The host.
    pub fn host(&self) -> &H {
        &self.host
    }

    /// The memory beyond the regions that this process maps.
    pub fn beyond_mut(&mut self) -> &mut H::Beyond
    where
        H: HostBeyond,
    {
        self.host.beyond_mut()
    }

    /// Starts a wait for something other than an event, such as a word of memory. The wait spins
    /// first, as after an event, no matter how long ago the last event was.
    pub fn begin_wait(&mut self) {
        self.idle = 0;
    }

    /// Wakes all other ranks: they may wait for something other than an event.
    pub fn wake_all(&self) {
        (0..self.size).filter(|rank| *rank != self.rank).for_each(|rank| self.host.wake(rank));
    }

    /// Announces that the program computes for `span` before its next call. In virtual time that
    /// much time passes; on a real fabric this does nothing.
    pub fn compute(&mut self, span: Time) {
        if let Some(conductor) = self.host.conductor() {
            conductor.compute(span);
        }
    }

    /// Counts of the ways in which long payloads were stored for peers.
    pub fn store_counts(&self) -> StoreCounts {
        let mut sum = StoreCounts::default();
        self.peers.iter().for_each(|(_, peer)| peer.stores.add_to(&mut sum));
        sum
    }

    /// The way in which a payload of `length` bytes is stored for a rank.
    fn stores_for(&self, rank: Rank, length: usize) -> LongStores {
        self.peers.get(rank as usize).map(|peer| peer.stores.way(length)).unwrap_or_default()
    }

    /// Chooses the way of storing a payload in the memory of a rank, which must exist. The rank
    /// does not publish their load cost; that of its messages is used, if there are any.
    #[inline]
    fn begin_store(&mut self, to: Rank, length: usize) -> Storing {
        let (host, peer) = (&self.host, &mut self.peers[to as usize]);
        peer.stores.begin(length, peer.target.source(self.rank), || host.now())
    }

    /// Ends a store that [`HostedPort::begin_store`] began.
    #[inline]
    fn end_store(&mut self, to: Rank, length: usize, storing: Storing) {
        let (host, peer) = (&self.host, &mut self.peers[to as usize]);
        peer.stores.end(storing, length, || host.now());
    }

    /// How often the doorbell was rung (CP-06: once for a chain). The fast path is not counted: the
    /// number of stores per message limits how many messages are in flight.
    pub fn doorbells(&self) -> u64 {
        self.doorbells
    }
}

impl<H: Host> Port for HostedPort<H> {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn node_of(&self, rank: Rank) -> u32 {
        self.host.node_of(rank)
    }

    fn host_name(&self, rank: Rank) -> Name {
        self.host.host_name(rank)
    }

    fn capabilities(&self) -> Capabilities {
        let layout = self.own.layout();
        Capabilities {
            name: H::NAME,
            packet_bytes: layout.packet_bytes as usize,
            status_slots: layout.status_slots as usize,
            ring_bytes: layout.ring_bytes as usize,
            region: true,
            // A letter bypasses the conductor, so it would take no virtual time.
            mailboxes: self.host.region_bytes() > 0 && !self.host.is_conducted(),
            virtual_time: self.host.is_conducted(),
            process_from: self.host.copies_from(Space::Process),
            outstanding: remote::OUTSTANDING,
        }
    }

    #[inline]
    fn post(&mut self, command: &Command<'_>) -> Result<usize, PostError> {
        self.doorbells += 1;
        self.execute(command)
    }

    #[inline(always)]
    fn post_short(&mut self, destination: Rank, protocol: u8, header: u64, payload: &[u8]) -> bool {
        match payload.len() <= INLINE_BYTES {
            true => {
                self.post_fast(destination, protocol, header, payload)
                    || self.post_slow(destination, protocol, header, payload)
            }
            false => self.post_several(destination, protocol, header, payload),
        }
    }

    fn post_chain(&mut self, chain: &[Command<'_>]) -> Result<(), ChainError> {
        self.doorbells += 1;
        if self.is_conducted() { self.conduct_chain(chain) } else { self.execute_chain(chain, 0) }
    }

    #[inline]
    fn poll(&mut self) -> Option<Event> {
        self.next_event()
    }

    #[inline(always)]
    fn receive_whole(&mut self, source: Rank, protocol: u8, header: u64, into: &mut [u8]) -> Short {
        self.take_whole(source, protocol, header, into)
    }

    #[inline]
    fn copy_out(&self, slice: &RingSlice, offset: usize, into: &mut [u8]) -> usize {
        let length = into.len().min(slice.len().saturating_sub(offset));
        let ring = self.own.ring(slice.ring);
        ring.load(slice.position.wrapping_add(offset as u64), &mut into[..length]);
        length
    }

    #[inline]
    fn release(&mut self, slice: RingSlice) {
        self.give_back(&slice);
    }

    #[inline]
    fn read_out(&mut self, slice: RingSlice, into: &mut [u8]) -> usize {
        let copied = match into.get_mut(..slice.len()) {
            Some(whole) => {
                self.load(&slice, whole);
                slice.len()
            }
            None => self.copy_out(&slice, 0, into),
        };
        self.release(slice);
        copied
    }

    fn grant(&mut self, source: Rank, messages: u64) {
        if messages > self.peers[source as usize].granted {
            self.peers[source as usize].granted = messages;
            self.own.source(source).set_credit(messages);
            self.wake_if_waiting(source);
        }
    }

    fn held_up(&mut self) -> Option<Rank> {
        self.attend_if_asked();
        let source = self.held_up.pop_front()?;
        self.peers[source as usize].is_in_held_up = false;
        Some(source)
    }

    fn route_of(&self, source: Rank) -> Option<RingId> {
        if !self.peers.has(source as usize) {
            return (source < self.size).then(|| self.own.first_ring(source));
        }
        self.own.source(source).ring()
    }

    fn awaited_ring(&self, source: Rank) -> Option<RingId> {
        let is_known = self.peers.has(source as usize);
        let named =
            if is_known { self.own.sender(source).named.load(Ordering::Acquire) } else { 0 };
        let named = named.checked_sub(1).and_then(|ring| RingId::try_from(ring).ok());
        named.filter(|ring| *ring < self.own.layout().rings).or_else(|| self.route_of(source))
    }

    fn peer(&self, rank: Rank) -> PeerState {
        self.host.state_of(rank)
    }

    #[inline]
    fn departures(&self) -> u64 {
        self.host.registry().ends()
    }

    #[inline]
    fn is_forked(&self) -> bool {
        self.host.is_forked()
    }

    #[inline]
    fn is_crowded(&self) -> bool {
        self.host.is_crowded()
    }

    fn now(&self) -> Time {
        self.host.now()
    }

    fn announce_wait(&self, wait: Option<Wait>) {
        self.announced.set(wait);
        self.host.registry().set_wait(self.rank, wait);
    }

    fn park(&mut self, deadline: Option<Time>) -> Wake {
        if !self.events.is_empty() {
            return Wake::Look;
        }
        let Some(idle) = self.begin_wait_number() else { return Wake::Slept };
        self.groups.before_park();
        let unseen = rest::unseen!(self);
        let wake = self.host.wait(idle, deadline, |host| unseen.has_come(host));
        self.groups.after_park();
        self.rested(idle, wake);
        wake
    }
}
