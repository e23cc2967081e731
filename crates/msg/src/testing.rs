//! A fabric for the tests of this crate: loopback that gives rare answers on request.
//!
//! [`Unruly`] wraps a loopback port. On request it has no room, takes a part of a post, exposes the
//! program's own memory, refuses to read it, or delays arrivals. Everything is scripted or counted;
//! nothing depends on time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use hikyaku_nic::fabric::{
    Capabilities, ChainError, Command, CopyPort, Event, FullCause, JointCopy, LentAddress,
    PeerState, Port, PostError, Rank, RemoteAddress, RingId, RingSlice, Short, Space, Wait, Wake,
};
use hikyaku_nic::layer::Layer;
use hikyaku_nic::loopback::{self, LoopbackPort};
use hikyaku_nic::segment::{GroupLayout, SegmentLayout};
use hikyaku_nic::time::Time;

use crate::config::EngineConfig;
use crate::engine::Engine;
use crate::ways::{LongMessages, Way};

/// The faults of an unruly port. The default has none.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules {
    /// The next `full` posts find no room.
    pub(crate) full: u32,
    /// A post takes no more bytes than this.
    pub(crate) part: Option<usize>,
    /// The program's memory is exposed to peers.
    pub(crate) process: bool,
    /// Reads of other memory are refused.
    pub(crate) refuse_reads: bool,
    /// The next `late` times this rank copies nothing of a message that both ends may copy.
    pub(crate) late: u32,
    /// The next `inside` times a sender is still using memory that is taken back.
    pub(crate) inside: u32,
    /// The next `blind` polls yield nothing.
    pub(crate) blind: u32,
    /// Others need this rank's processor.
    pub(crate) crowded: bool,
    /// Polls for whole messages so far, and waits for an event.
    pub(crate) looks: u32,
    pub(crate) parks: u32,
    /// The last wait that was announced.
    pub(crate) announced: Option<Wait>,
    /// Memory can be lent to the fabric, though no rank fetches it there.
    pub(crate) lends: bool,
    /// The fabric chooses the keys of lent memory.
    pub(crate) keys_are_chosen: bool,
    /// The lent memory, by name: its first address, and the bytes.
    pub(crate) lent: BTreeMap<u64, (usize, Vec<u8>)>,
}

/// Memory that was exposed to peers.
type Exposed = Arc<Mutex<Vec<Vec<u8>>>>;

/// A loopback port with rules.
#[derive(Debug)]
pub(crate) struct Unruly {
    pub(crate) inner: LoopbackPort,
    rules: Mutex<Rules>,
    exposed: Exposed,
}

impl Unruly {
    pub(crate) fn rules(&mut self) -> &mut Rules {
        self.rules.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Small sizes, so that everything fills up soon.
pub(crate) fn tight(ranks: u32) -> (SegmentLayout, EngineConfig) {
    let layout = SegmentLayout {
        status_slots: 16,
        rings: ranks,
        first_rings: ranks,
        ring_bytes: 1024,
        packet_bytes: 128,
        credit: 4,
        groups: GroupLayout { channels: 2, area_bytes: 1024 },
        ..SegmentLayout::for_ranks(ranks)
    };
    let config = EngineConfig {
        eager_limit: 600,
        long_messages: LongMessages::By(Way::Read),
        credit_window: 4,
        unmatched_bytes: EngineConfig::UNMATCHED_BYTES,
        poll_budget: 8,
        direct_rounds: 4,
    };
    (layout, config)
}

/// The ports of a job with these sizes.
pub(crate) fn ports(layout: SegmentLayout) -> Vec<Unruly> {
    ports_of(&loopback::LoopbackConfig {
        layout,
        ..loopback::LoopbackConfig::for_ranks(layout.ranks)
    })
}

/// The ports of a job.
pub(crate) fn ports_of(config: &loopback::LoopbackConfig) -> Vec<Unruly> {
    let exposed = Exposed::default();
    let unruly = |inner| Unruly {
        inner,
        rules: Mutex::new(Rules::default()),
        exposed: Arc::clone(&exposed),
    };
    let ports = loopback::open(config).expect("the tests' layouts are possible");
    ports.into_iter().map(unruly).collect()
}

/// The engines of a job with tight sizes.
pub(crate) fn engines(ranks: u32) -> Vec<Engine<Unruly>> {
    let (layout, config) = tight(ranks);
    ports(layout).into_iter().map(|port| Engine::new(port, config)).collect()
}

/// Two engines of a job with tight sizes.
pub(crate) fn pair() -> (Engine<Unruly>, Engine<Unruly>) {
    let (layout, config) = tight(2);
    pair_on(ports(layout), config)
}

/// The engines of two ports.
pub(crate) fn pair_on(
    ports: Vec<Unruly>,
    config: EngineConfig,
) -> (Engine<Unruly>, Engine<Unruly>) {
    let mut both = ports.into_iter().map(|port| Engine::new(port, config));
    match (both.next(), both.next()) {
        (Some(first), Some(second)) => (first, second),
        _ => unreachable!("two engines were asked for"),
    }
}

/// Runs `body` on every rank of a job, each in its own thread. Returns their results.
pub(crate) fn run<R: Send>(
    (layout, config): (SegmentLayout, EngineConfig),
    body: impl Fn(Engine<Unruly>) -> R + Sync,
) -> Vec<R> {
    let body = &body;
    std::thread::scope(|scope| {
        let start = |port| scope.spawn(move || body(Engine::new(port, config)));
        let threads: Vec<_> = ports(layout).into_iter().map(start).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, R>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    })
}

/// Steps engines until none has anything to do.
pub(crate) fn settle(engines: &mut [&mut Engine<Unruly>]) {
    while engines.iter_mut().fold(false, |any, engine| engine.progress() | any) {}
}

/// `length` bytes that differ by `seed`.
pub(crate) fn pattern(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + seed * 31 + at / 251) as u8).collect()
}

impl Layer for Unruly {
    type Inner = LoopbackPort;

    fn inner(&self) -> &LoopbackPort {
        &self.inner
    }

    fn inner_mut(&mut self) -> &mut LoopbackPort {
        &mut self.inner
    }
}

impl CopyPort for Unruly {
    fn lend(&mut self, _: Rank, name: u64, bytes: &[u8]) -> Option<LentAddress> {
        let rules = self.rules();
        let place = bytes.as_ptr().addr();
        let is_new = rules.lends && rules.lent.insert(name, (place, bytes.to_vec())).is_none();
        is_new.then_some(LentAddress { address: place as u64, key: name })
    }

    fn take_back(&mut self, name: u64) {
        self.rules().lent.remove(&name);
    }

    fn replace_lent(&mut self, to: Rank, name: u64, copy: &[u8]) -> bool {
        let can = !self.rules().keys_are_chosen;
        if can {
            self.take_back(name);
            self.lend(to, name, copy);
        }
        can
    }

    fn set_revoked(&mut self, is_revoked: bool) {
        self.inner.set_revoked(is_revoked);
    }

    fn has_revoked(&self, rank: Rank) -> bool {
        self.inner.has_revoked(rank)
    }

    fn open_joint(&mut self, into: &[u8]) -> Option<JointCopy> {
        self.inner.open_joint(into)
    }

    fn read_jointly(
        &mut self,
        from: RemoteAddress,
        into: &mut [u8],
        copy: &JointCopy,
    ) -> Result<bool, PostError> {
        let rules = self.rules();
        if rules.refuse_reads {
            self.inner.close_joint(from.rank, copy);
            return Err(PostError::Refused { rank: from.rank, code: 1 });
        }
        if rules.late > 0 {
            rules.late -= 1;
            return Ok(false);
        }
        self.inner.read_jointly(from, into, copy)
    }

    fn write_jointly(&mut self, copy: &JointCopy, payload: &[u8]) -> Result<u64, PostError> {
        self.inner.write_jointly(copy, payload)
    }

    fn close_joint(&mut self, from: Rank, copy: &JointCopy) -> bool {
        let rules = self.rules();
        if rules.inside > 0 {
            rules.inside -= 1;
            return false;
        }
        self.inner.close_joint(from, copy)
    }

    fn copies_from(&self, space: Space) -> Option<usize> {
        match space {
            Space::Process => Some(512),
            _ => self.inner.copies_from(space),
        }
    }

    fn expose(&self, bytes: &[u8]) -> Option<RemoteAddress> {
        let rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        if let (true, None) = (rules.process, self.inner.expose(bytes)) {
            let mut exposed = self.exposed.lock().unwrap_or_else(PoisonError::into_inner);
            exposed.push(bytes.to_vec());
            let offset = exposed.len() as u64 - 1;
            return Some(RemoteAddress { rank: self.rank(), space: Space::Process, offset });
        }
        self.inner.expose(bytes)
    }

    fn read(&mut self, from: RemoteAddress, into: &mut [u8]) -> Result<(), PostError> {
        let RemoteAddress { rank, space, offset } = from;
        if self.rules().refuse_reads {
            return Err(PostError::Refused { rank, code: 1 });
        }
        if space == Space::Region {
            return self.inner.read(from, into);
        }
        let exposed = self.exposed.lock().unwrap_or_else(PoisonError::into_inner);
        let length = into.len() as u64;
        let memory = exposed.get(offset as usize).and_then(|bytes| bytes.get(..into.len()));
        let memory = memory.ok_or(PostError::OutOfBounds { rank, offset, length })?;
        into.copy_from_slice(memory);
        Ok(())
    }
}

impl Port for Unruly {
    fn rank(&self) -> Rank {
        self.inner.rank()
    }

    fn size(&self) -> u32 {
        self.inner.size()
    }

    fn node_of(&self, rank: Rank) -> u32 {
        self.inner.node_of(rank)
    }

    fn capabilities(&self) -> Capabilities {
        // Engines ask once, before a test sets its rules; `expose` decides whether it works.
        Capabilities { process_from: Some(512), ..self.inner.capabilities() }
    }

    fn post(&mut self, command: &Command<'_>) -> Result<usize, PostError> {
        let rules = self.rules();
        if rules.full > 0 {
            rules.full -= 1;
            let destination = command.destination;
            return Err(PostError::Full { destination, cause: FullCause::RingRefused });
        }
        let length = rules.part.map_or(command.payload.len(), |n| n.min(command.payload.len()));
        self.inner.post(&Command { payload: &command.payload[..length], ..*command })
    }

    fn post_chain(&mut self, chain: &[Command<'_>]) -> Result<(), ChainError> {
        self.inner.post_chain(chain)
    }

    fn poll(&mut self) -> Option<Event> {
        let rules = self.rules();
        if rules.blind > 0 {
            rules.blind -= 1;
            return None;
        }
        self.inner.poll()
    }

    fn receive_whole(&mut self, source: Rank, protocol: u8, header: u64, into: &mut [u8]) -> Short {
        let rules = self.rules();
        rules.looks += 1;
        match rules.blind {
            0 => self.inner.receive_whole(source, protocol, header, into),
            _ => Short::Nothing,
        }
    }

    fn copy_out(&self, slice: &RingSlice, offset: usize, into: &mut [u8]) -> usize {
        self.inner.copy_out(slice, offset, into)
    }

    fn release(&mut self, slice: RingSlice) {
        self.inner.release(slice);
    }

    fn grant(&mut self, source: Rank, messages: u64) {
        self.inner.grant(source, messages);
    }

    fn held_up(&mut self) -> Option<Rank> {
        self.inner.held_up()
    }

    fn route_of(&self, source: Rank) -> Option<RingId> {
        self.inner.route_of(source)
    }

    fn awaited_ring(&self, source: Rank) -> Option<RingId> {
        self.inner.awaited_ring(source)
    }

    fn peer(&self, rank: Rank) -> PeerState {
        self.inner.peer(rank)
    }

    fn is_crowded(&self) -> bool {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner).crowded
    }

    fn now(&self) -> Time {
        self.inner.now()
    }

    fn announce_wait(&self, wait: Option<Wait>) {
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        rules.announced = wait.or(rules.announced);
        self.inner.announce_wait(wait);
    }

    fn park(&mut self, deadline: Option<Time>) -> Wake {
        self.rules().parks += 1;
        self.inner.park(deadline)
    }
}
