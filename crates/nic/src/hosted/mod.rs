//! A [`Port`] over segments that the sender can reach: the sending process plays the receive
//! controller of the target's interface, so the target's processor does nothing (IP-23).
//!
//! ```text
//!   send.rs     source table → room? → claim → store → commit → status record → wake
//!   arrive.rs   status ring → event; ledgers and heads; full and credit
//!   remote.rs   put, get, atomics: tables → bytes → notification → completion
//!   repair.rs   what a dead sender left half done
//!   conduct.rs  the same in virtual time: what is handed to a simulator
//!   queue.rs    command queues, run by whoever makes them runnable
//!   mail.rs     mailboxes: small data, round by round, into the reader's region
//!   registry.rs who is there
//!   state.rs    what the port remembers of peers and rings
//!   host.rs     what it needs of the machine
//!   group.rs    groups: rounds over shared control lines; calls.rs, as the trait has them
//!   sync.rs     the network barrier: sync ids
//!   multicast.rs  payload written once and read by all
//! ```
//!
//! What differs between loopback and shared memory is small and is the [`Host`]: where segments
//! lie, the clock, how to wake and how to wait, how to reach other memory.

mod arrive;
mod audit;
mod calls;
mod conduct;
mod group;
mod host;
mod mail;
mod multicast;
mod queue;
mod registry;
mod remote;
mod repair;
mod send;
mod state;
mod sync;

use std::collections::VecDeque;

pub use conduct::{Answer, Conductor, Deed, Outbox, Outgoing, Posted, Request, Shipped};
pub use host::Host;
pub use registry::{RankLine, Registry};

use crate::fabric::multicast_by;
use crate::fabric::{
    Atomic, Capabilities, ChainError, Command, Completion, ContextError, ContextId, Contribution,
    Event, Group, GroupError, GroupId, Key, Member, Operation, PeerState, Port, PostError,
    QueueAddress, QueueCommand, QueueError, QueueId, QueueMode, QueueState, Rank, RegisterValue,
    RemoteAddress, Rights, RingId, RingSlice, RingState, Short, Space, TableError, Wait, Wake,
};
use crate::region::{RegionBuffer, RegionError};
use crate::segment::Segment;
use crate::table::{Book, Extent};
use crate::time::Time;
use group::Groups;
use mail::Mailboxes;
use queue::Queues;
use repair::Repair;
use state::{Landing, Lane, Peer};

/// A port over memory that all ranks reach.
#[derive(Debug)]
pub struct HostedPort<H: Host> {
    rank: Rank,
    size: u32,
    /// This rank's own segment.
    own: Segment<'static>,
    peers: Vec<Peer>,
    lanes: Vec<Lane>,
    /// The latest arrival time sent or received: a Lamport clock.
    clock: u64,
    rings: Vec<Landing>,
    /// A sender waits for room: publish every release at once.
    eager: bool,
    /// Events that are not records.
    events: VecDeque<Event>,
    /// Departures seen so far.
    seen_ends: u64,
    repairs: VecDeque<Repair>,
    /// This rank's command queues.
    queues: Queues,
    mailboxes: Mailboxes,
    /// This rank's contexts.
    book: Book,
    /// Waits since something last happened.
    idle: u32,
    /// Sleeps since something last happened.
    sleeps: u32,
    /// Doorbells rung: one a post, one a chain.
    doorbells: u64,
    groups: Groups,
    /// Last, so that the views above are gone before the memory is.
    host: H,
}

impl<H: Host> HostedPort<H> {
    /// The port of the host's rank.
    pub fn new(host: H) -> HostedPort<H> {
        let this = host.rank();
        let segment = |rank| {
            // SAFETY: the memory stays where it is as long as the host exists, by `Host`'s
            // contract, and the port drops its views with the host.
            unsafe { host.segment(rank).detach() }
        };
        let own = segment(this);
        let layout = own.layout();
        let peers = (0..layout.ranks).map(|rank| Peer::new(segment(rank), this)).collect();
        let rings = (0..layout.rings).map(|_| Landing::new(u64::from(layout.ring_bytes))).collect();
        HostedPort {
            rank: this,
            size: layout.ranks,
            own,
            peers,
            lanes: (0..layout.status_rings).map(|id| Lane::new(own.status(id))).collect(),
            clock: 0,
            rings,
            eager: false,
            events: VecDeque::new(),
            seen_ends: 0,
            repairs: VecDeque::new(),
            queues: Queues::new(layout.queues),
            mailboxes: Mailboxes::default(),
            book: remote::book(&own),
            idle: 0,
            sleeps: 0,
            doorbells: 0,
            groups: Groups::new(&layout.groups, own.awaited()),
            host,
        }
    }

    /// The host.
    pub fn host(&self) -> &H {
        &self.host
    }

    /// A wait begins for something that is no event, such as a word of memory: it spins first, as
    /// after an event, however long ago the last one was.
    pub fn begin_wait(&mut self) {
        self.idle = 0;
    }

    /// Wakes all other ranks: what they wait for may be no event, and may just have happened.
    pub fn wake_all(&self) {
        (0..self.size).filter(|rank| *rank != self.rank).for_each(|rank| self.host.wake(rank));
    }

    /// How often the doorbell was rung (CP-06: once for a chain). The short way is not counted: how
    /// many stores a message takes decides how many are under way at once.
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

    fn capabilities(&self) -> Capabilities {
        let layout = self.own.layout();
        Capabilities {
            name: H::NAME,
            packet_bytes: layout.packet_bytes as usize,
            status_slots: layout.status_slots as usize,
            ring_bytes: layout.ring_bytes as usize,
            region: true,
            process_from: self.host.process_from(),
            outstanding: remote::OUTSTANDING,
        }
    }

    #[inline]
    fn post(&mut self, command: &Command<'_>) -> Result<usize, PostError> {
        self.doorbells += 1;
        self.execute(command)
    }

    #[inline(always)]
    fn post_inline(
        &mut self,
        destination: Rank,
        protocol: u8,
        header: u64,
        payload: &[u8],
        credited: bool,
    ) -> Result<(), PostError> {
        match credited && self.short(destination, protocol, header, payload) {
            true => Ok(()),
            false => self.not_short(destination, protocol, header, payload, credited),
        }
    }

    fn post_chain(&mut self, chain: &[Command<'_>]) -> Result<(), ChainError> {
        self.doorbells += 1;
        for (done, command) in chain.iter().enumerate() {
            let mut bytes = 0;
            while bytes < command.payload.len() || bytes == 0 {
                let rest = Command {
                    payload: &command.payload[bytes..],
                    offset: command.offset + bytes as u64,
                    credited: command.credited && bytes == 0,
                    ..*command
                };
                match self.execute(&rest) {
                    Ok(taken) => bytes += taken,
                    Err(error) => {
                        self.fail_in_chain(command, error);
                        return Err(ChainError { done, bytes, error });
                    }
                }
                if command.payload.is_empty() || command.operation == Operation::Nop {
                    break;
                }
            }
        }
        Ok(())
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

    fn grant(&mut self, source: Rank, messages: u64) {
        let line = self.own.source(source);
        let granted = &mut self.peers[source as usize].granted;
        if messages > *granted {
            *granted = messages;
            line.set_credit(messages);
            self.wake_if_waiting(source);
        }
    }

    fn held_up(&mut self, source: Rank) -> bool {
        let now = self.own.sender(source).held_up.load(Relaxed);
        let peer = &mut self.peers[source as usize];
        std::mem::replace(&mut peer.seen_held_up, now) != now
    }

    fn route(&mut self, source: Rank, ring: Option<RingId>) -> Result<(), TableError> {
        self.set_route(source, ring)
    }

    fn route_of(&self, source: Rank) -> Option<RingId> {
        (source < self.size).then(|| self.own.source(source).ring())?
    }

    fn ring(&self, ring: RingId) -> Option<RingState> {
        let landing = self.rings.get(ring as usize)?;
        let view = self.own.ring(ring);
        let (stalls, refusals) = view.full();
        Some(RingState {
            size: view.size(),
            head: landing.ledger.head(),
            tail: view.tail(),
            stalls,
            refusals,
            policy: view.policy(),
            shared: view.is_shared(),
        })
    }

    fn allocate(&mut self, bytes: usize) -> Result<RegionBuffer, RegionError> {
        self.host.allocate(bytes)
    }

    fn expose(&self, bytes: &[u8]) -> Option<RemoteAddress> {
        self.host.expose(bytes)
    }

    fn reading_pays(&self) -> bool {
        self.host.reading_pays()
    }

    fn read(&mut self, from: RemoteAddress, into: &mut [u8]) -> Result<(), PostError> {
        self.reachable(from)?;
        if matches!(from.space, Space::Segment(_) | Space::Register(_)) {
            return Err(PostError::Unsupported("read by a key past the target's tables: use get"));
        }
        self.spend_reading(from, into.len() as u64);
        self.host.read(from, into)
    }

    fn peer(&self, rank: Rank) -> PeerState {
        self.host.registry().state(rank)
    }

    #[inline]
    fn departures(&self) -> u64 {
        self.host.registry().ends()
    }

    #[inline]
    fn is_forked(&self) -> bool {
        self.host.is_forked()
    }

    fn now(&self) -> Time {
        self.host.now()
    }

    fn compute(&mut self, span: Time) {
        if let Some(conductor) = self.host.conductor() {
            conductor.compute(span);
        }
    }

    fn announce_wait(&self, wait: Option<Wait>) {
        self.host.registry().set_wait(self.rank, wait);
    }

    fn open_context(&mut self) -> Result<ContextId, ContextError> {
        self.book.open(&self.own)
    }

    fn close_context(&mut self, context: ContextId) -> Result<(), ContextError> {
        self.book.close(context, &self.own)
    }

    fn connect(&mut self, context: ContextId, members: &[Member]) -> Result<(), ContextError> {
        let contexts = self.own.layout().contexts;
        self.book.nodes_mut(context)?.fill(members, self.size, contexts)
    }

    fn member(&self, context: ContextId, logical: u32) -> Result<Member, PostError> {
        match self.book.nodes(context) {
            Ok(nodes) => nodes.member(logical),
            Err(_) => Err(PostError::NoSuchMember { logical, members: 0 }),
        }
    }

    fn register(
        &mut self,
        context: ContextId,
        offset: u64,
        length: u64,
        rights: Rights,
    ) -> Result<Key, ContextError> {
        let region = self.host.region_bytes();
        if offset.checked_add(length).is_none_or(|end| end > region) {
            return Err(ContextError::NotInRegion { offset, length, region });
        }
        self.book.register(context, Extent { base: offset, length }, rights, &self.own)
    }

    fn deregister(&mut self, key: Key) -> Result<(), ContextError> {
        let registry = self.host.registry();
        let dead = |rank| matches!(registry.state(rank), PeerState::Failed(_));
        self.book.deregister(key, &self.own, dead)
    }

    fn register_key(&self, context: ContextId, register: u8) -> Result<Key, ContextError> {
        self.book.register_key(context, register)
    }

    fn set_address_register(
        &mut self,
        context: ContextId,
        register: u8,
        value: Option<RegisterValue>,
    ) -> Result<(), ContextError> {
        self.book.set_register(context, register, value, &self.own)
    }

    fn address_register(
        &self,
        context: ContextId,
        register: u8,
    ) -> Result<Option<RegisterValue>, ContextError> {
        self.book.register_key(context, register)?;
        Ok(self.own.context(context).get(context, register))
    }

    fn get(&mut self, from: RemoteAddress, into: &mut [u8]) -> Result<(), PostError> {
        self.get_now(from, into)
    }

    fn fetch(&mut self, atomic: &Atomic) -> Result<u64, PostError> {
        self.fetch_now(atomic)
    }

    fn park(&mut self, deadline: Option<Time>) -> Wake {
        if !self.events.is_empty() {
            return Wake::Look;
        }
        let (own, lanes, ends) = (self.own, &self.lanes, self.seen_ends);
        let (queues, mailboxes) = (&self.queues, &self.mailboxes);
        let groups = &self.groups;
        let idle = self.idle;
        self.idle = self.idle.saturating_add(1);
        if idle == 1 && self.holds_up_somebody() {
            return Wake::Slept;
        }
        groups.before_park();
        let wake = self.host.wait(idle, deadline, |host| {
            lanes.iter().any(|lane| lane.ring.peek(lane.head).is_some())
                || own.doorbell().attention.load(Relaxed) != 0
                || queues.have_moved(&own)
                || mailboxes.have_moved(host)
                || host.registry().ends() != ends
                || groups.pending()
        });
        self.groups.after_park();
        self.mailboxes.after_park();
        self.after_wait(idle, wake);
        wake
    }

    calls::group_calls!();
    mail::mail_calls!();

    fn free_queues(&self) -> (u32, u32) {
        (self.queues.free(&self.own), self.own.layout().queue_slots)
    }

    fn create_queue(&mut self, mode: QueueMode, slots: u32) -> Result<QueueAddress, QueueError> {
        self.open_queue(mode, slots)
    }

    fn destroy_queue(&mut self, queue: QueueId) -> Result<(), QueueError> {
        self.close_queue(queue)
    }

    #[inline]
    fn post_queue(&mut self, queue: QueueId, chain: &[QueueCommand]) -> Result<(), QueueError> {
        self.doorbells += 1;
        self.write_and_run(queue, chain)
    }

    #[inline]
    fn repeat_queue(&mut self, queue: QueueId, count: u32) -> Result<(), QueueError> {
        self.doorbells += 1;
        self.repeat_and_run(queue, count)
    }

    fn release_queue(&mut self, queue: QueueAddress, slots: u32) -> Result<(), QueueError> {
        self.release_and_run(queue, slots)
    }

    #[inline]
    fn help_queue(&mut self, queue: QueueAddress) {
        self.run_to_help(queue);
    }

    #[inline]
    fn queue_state(&mut self, queue: QueueAddress) -> Result<QueueState, QueueError> {
        self.look_at_queue(queue)
    }

    fn completion(&mut self, queue: QueueId) -> Option<Completion> {
        self.next_completion(queue)
    }

    fn retire_queue(&mut self, queue: QueueId, rounds: u64, lead: u32) {
        self.put_to_rest(queue, rounds, lead);
    }

    fn give_up_queue(&mut self, queue: QueueId, missing: Rank, tell: &[Rank]) {
        self.stop_queue(queue, missing, tell);
    }
}

use crate::sync::Ordering::Relaxed;
