//! Remote operations: put, get and atomics, executed by the requester on the target's memory.
//!
//! The target's processor does nothing (CJ-03, CJ-11): the requester reads the target's tables,
//! checks, copies, and stores the notification. Every address is first resolved to bytes of a
//! region, and the host checks those against the region again, because a broken peer can overwrite
//! the tables.
//!
//! ```text
//!   check      ranks, room for a record or completion, the requester's own addresses
//!   enter      odd epoch at the ranks whose segments are used (table/segment.rs)
//!   resolve    key or register → offset in the region, or an error and no effect
//!   touch      copy, or one atomic operation
//!   notify     word at the target (release)
//!   leave      even epoch
//!   announce   status record at the target
//!   complete   word in the own region (release), or event
//! ```
//!
//! **Data before word.** Plain stores write the payload, then a store with release order writes the
//! word. So a rank that loads the word with acquire order, or by an atomic operation, sees the
//! payload. No stronger fence is needed: there is no load in between whose order would matter. The
//! same holds for the completion word, which is stored last. An atomic operation has acquire and
//! release order: a rank that sees its effect sees all earlier puts.

use super::send::elsewhere;
use super::{Host, HostedPort};
use crate::fabric::{
    Atomic, AtomicOp, ChainError, Command, Completed, ContextError, ContextId, Event, FullCause,
    Get, Integer, Key, Member, MemoryPort, Notification, Operation, PeerState, PostError, Rank,
    RegisterValue, RemoteAddress, Reply, Rights, Space,
};
use crate::region::{RegionBuffer, RegionError};
use crate::ring::LongStores;
use crate::segment::Segment;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::table::{
    ClaimedPlace, ContextBook, Extent, PutRefusal, SegmentEntry, SharedContexts, segment,
};

/// Limit of unpolled completion events: the six bits of paper 003's rrid.
pub(super) const OUTSTANDING: usize = 64;

/// The ranks whose memory a command uses: the target, and the rank of its notification word.
type UsedRanks = [Option<Rank>; 2];

impl<H: Host> MemoryPort for HostedPort<H> {
    fn allocate(&mut self, bytes: usize) -> Result<RegionBuffer, RegionError> {
        self.host.allocate(bytes)
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
        let own = RemoteAddress { rank: self.rank, space: Space::Region, offset };
        if self.within_region(own, length).is_err() {
            return Err(ContextError::NotInRegion { offset, length, region });
        }
        self.book.register(context, Extent { base: offset, length }, rights, &self.own)
    }

    fn deregister(&mut self, key: Key) -> Result<(), ContextError> {
        let registry = self.host.registry();
        let dead = |rank| matches!(registry.state(rank), PeerState::Failed(_));
        self.book.deregister(key, &self.own, dead)
    }

    fn get(&mut self, from: RemoteAddress, into: &mut [u8]) -> Result<(), PostError> {
        self.commandable(from)?;
        let inside = [checked_by_table(from), None];
        self.go(from.rank, 0);
        self.enter(inside);
        let place = self.locate(from, into.len() as u64, Rights::READ);
        let done = place.and_then(|place| self.host.read(place, into));
        self.leave(inside);
        self.come_back(from.rank, if done.is_ok() { into.len() as u64 } else { 0 });
        done
    }

    fn fetch(&mut self, atomic: &Atomic) -> Result<u64, PostError> {
        self.commandable(atomic.target)?;
        let inside = [checked_by_table(atomic.target), None];
        if atomic.target.rank == self.rank {
            self.look_at_own_memory();
        }
        self.go(atomic.target.rank, atomic.integer.size());
        self.enter(inside);
        let done = self.apply(atomic, atomic.result);
        self.leave(inside);
        self.come_back(atomic.target.rank, atomic.integer.size());
        done.map(|(_, old)| old)
    }
}

/// Address registers (CJ-03), as paper 003's interface offers them to a program: windows use them.
impl<H: Host> HostedPort<H> {
    /// The key by which peers name an address register of this rank.
    ///
    /// # Errors
    /// The context is not open, or there is no such register.
    pub fn register_key(&self, context: ContextId, register: u8) -> Result<Key, ContextError> {
        self.book.register_key(context, register)
    }

    /// Sets the value of an address register of this rank, or unsets it. Puts in flight land by its
    /// earlier value.
    ///
    /// # Errors
    /// The context is not open, there is no such register, or the value points outside a segment of
    /// the same context.
    pub fn set_address_register(
        &mut self,
        context: ContextId,
        register: u8,
        value: Option<RegisterValue>,
    ) -> Result<(), ContextError> {
        self.book.set_register(context, register, value, &self.own)
    }

    /// The current value of an address register of this rank. A register that advances counts the
    /// places reserved, not the bytes landed.
    ///
    /// # Errors
    /// The context is not open, or there is no such register.
    pub fn address_register(
        &self,
        context: ContextId,
        register: u8,
    ) -> Result<Option<RegisterValue>, ContextError> {
        self.book.register_key(context, register)?;
        Ok(self.own.context(context).get(context, register))
    }

    /// The address in a segment of this rank where `length` bytes put through one of its registers
    /// land; reserves the place if the register advances. For a put that arrives in parts.
    ///
    /// # Errors
    /// As [`Port::post`](crate::fabric::Port::post); also if the address is not one of a register.
    pub fn reserve(&self, address: RemoteAddress, length: u64) -> Result<RemoteAddress, PostError> {
        self.commandable(address)?;
        let Space::Register(key) = address.space else {
            return Err(PostError::Unsupported("reserve a place without an address register"));
        };
        let target = self.peers[address.rank as usize].target;
        let ClaimedPlace { segment, offset, .. } = self.claim(target, key, address, length)?;
        Ok(RemoteAddress { space: Space::Segment(segment), offset, ..address })
    }
}

impl<H: Host> HostedPort<H> {
    /// Executes a put, get or atomic operation. Returns the number of payload bytes taken.
    pub(super) fn remote(&mut self, command: &Command<'_>) -> Result<usize, PostError> {
        let target = match command.operation {
            Operation::Put(target) => target,
            Operation::Get(get) => get.from,
            Operation::Atomic(atomic) => atomic.target,
            Operation::Send | Operation::Nop => return Ok(0),
        };
        let inside = self.admit(command, target)?;
        self.go(target.rank, command.payload.len() as u64);
        self.enter(inside);
        // The kernel copies to a process's own memory in its own way.
        let stored = if target.space == Space::Process { 0 } else { command.payload.len() };
        let storing = self.begin_store(target.rank, stored);
        let done = self.touch(command, target, storing.way);
        if done.is_ok() {
            self.end_store(target.rank, stored, storing);
        }
        self.leave(inside);
        if let Ok((at, _)) = done {
            match command.notification {
                Notification::None => {}
                Notification::Word { address, .. } => self.wake_watcher(address.rank),
                Notification::Status => self.announce(command, length_of(command), at),
            }
        }
        self.come_back(target.rank, answered(command, done.is_ok()));
        let (_, value) = done?;
        self.complete(command, value);
        Ok(command.payload.len())
    }

    /// Makes all checks that need no table. Returns the ranks whose segments the command will use.
    fn admit(
        &mut self,
        command: &Command<'_>,
        target: RemoteAddress,
    ) -> Result<UsedRanks, PostError> {
        self.commandable(target)?;
        let mut inside = [checked_by_table(target), None];
        match command.notification {
            Notification::None => {}
            Notification::Word { address, .. } => {
                self.commandable(address)?;
                inside[1] = checked_by_table(address).filter(|rank| inside[0] != Some(*rank));
            }
            Notification::Status => self.room_for_record(command)?,
        }
        match command.reply {
            Reply::None => {}
            Reply::Event | Reply::Failure if !self.can_complete() => {
                let (destination, cause) = (command.destination, FullCause::Outstanding);
                return Err(PostError::Full { destination, cause });
            }
            Reply::Event | Reply::Failure => {}
            Reply::Word { offset, .. } => _ = self.own_word(offset, 8)?,
        }
        Ok(inside)
    }

    /// Checks that commands can reach an address. Unlike direct reads, they work between nodes, as
    /// on an interface; only a process's own memory is limited to its node.
    fn commandable(&self, address: RemoteAddress) -> Result<(), PostError> {
        if address.space == Space::Process {
            return self.reachable(address);
        }
        let Some(peer) = self.peers.get(address.rank as usize) else {
            return Err(PostError::NoSuchRank { rank: address.rank, size: self.size });
        };
        if let Some(failure) = peer.failed {
            return Err(PostError::PeerFailed(failure));
        }
        if self.host.is_here(address.rank) { Ok(()) } else { Err(elsewhere()) }
    }

    /// Whether there is room for another completion event.
    pub(super) fn can_complete(&self) -> bool {
        let completions = self.events.iter().filter(|event| matches!(event, Event::Completed(_)));
        completions.count() < OUTSTANDING
    }

    /// Resolves and executes. Returns the place in the target's region, and the old value of an
    /// atomic operation or the number of bytes.
    fn touch(
        &self,
        command: &Command<'_>,
        target: RemoteAddress,
        way: LongStores,
    ) -> Result<(u64, u64), PostError> {
        // The word first: a reservation through a register cannot be undone.
        let word = match command.notification {
            Notification::Word { address, value } => {
                Some((self.locate_word(address, 8, Rights::WRITE)?, value))
            }
            _ => None,
        };
        let (at, value) = match command.operation {
            Operation::Get(get) => self.carry(get)?,
            Operation::Atomic(atomic) => self.apply(&atomic, atomic.result)?,
            _ => {
                let length = command.payload.len() as u64;
                let place = self.locate(target, length, Rights::WRITE)?;
                self.host.write(place, command.payload, way)?;
                (place.offset, length)
            }
        };
        if let Some((place, value)) = word {
            self.host.write_word(place, value)?;
        }
        Ok((at, value))
    }

    /// Copies the bytes of a get into this rank's own region.
    fn carry(&self, Get { from, into, length }: Get) -> Result<(u64, u64), PostError> {
        if from.space == Space::Process {
            return Err(PostError::Unsupported("get a process's own memory into a region"));
        }
        let own = RemoteAddress { rank: self.rank, space: Space::Region, offset: into };
        self.within_region(own, length)?;
        let place = self.locate(from, length, Rights::READ)?;
        self.host.copy_between(place, own, length, LongStores::Cached)?;
        Ok((place.offset, length))
    }

    /// Executes an atomic operation. Returns the place and the old value.
    pub(super) fn apply(
        &self,
        atomic: &Atomic,
        result: Option<u64>,
    ) -> Result<(u64, u64), PostError> {
        let size = atomic.integer.size();
        let result = result.map(|offset| self.own_word(offset, size)).transpose()?;
        let rights = match atomic.operation {
            AtomicOp::Load => Rights::READ,
            _ => Rights::ATOMIC,
        };
        let place = self.locate_word(atomic.target, size, rights)?;
        let old = match self.word(place, size) {
            Ok(word) => change(word, atomic),
            Err(error) if atomic.operation == AtomicOp::Load => {
                self.host.load_beyond(place.rank, place.offset, size).ok_or(error)?
            }
            Err(error) => return Err(error),
        };
        match result {
            Some(SharedWord::Short(word)) => word.store(old as u32, Ordering::Release),
            Some(SharedWord::Long(word)) => word.store(old, Ordering::Release),
            None => {}
        }
        Ok((place.offset, old))
    }

    /// Resolves an address in its rank's region; reserves the place if the address names a register
    /// that advances. Addresses in a process are returned unchanged.
    pub(super) fn locate(
        &self,
        address: RemoteAddress,
        length: u64,
        wanted: Rights,
    ) -> Result<RemoteAddress, PostError> {
        let RemoteAddress { rank, space, offset } = address;
        let target = self.peers[rank as usize].target;
        let offset = match space {
            Space::Region | Space::Process => return Ok(address),
            Space::Segment(key) => {
                let entry = find(&target, key.context, key.index);
                let extent = entry.ok_or(crate::fabric::Fault::NoSuchSegment(key));
                let extent = extent.and_then(|entry| entry.check(key, wanted));
                let extent = extent.map_err(|fault| PostError::Protection { rank, fault })?;
                extent.locate(offset, length).ok_or(outside(rank, offset, length))?
            }
            Space::Register(key) if wanted == Rights::WRITE => {
                self.claim(target, key, address, length)?.in_region
            }
            Space::Register(_) => {
                let what = "name memory by an address register in anything but a put";
                return Err(PostError::Unsupported(what));
            }
        };
        let place = RemoteAddress { rank, space: Space::Region, offset };
        self.within_region(place, length)?;
        Ok(place)
    }

    fn claim(
        &self,
        target: Segment<'static>,
        key: Key,
        address: RemoteAddress,
        length: u64,
    ) -> Result<ClaimedPlace, PostError> {
        let RemoteAddress { rank, offset, .. } = address;
        let line = (u32::from(key.context.0) < target.layout().contexts)
            .then(|| target.context(key.context));
        let fault = crate::fabric::Fault::NoSuchRegister(key);
        let line = line.ok_or(PostError::Protection { rank, fault })?;
        let claimed = line.claim(key, offset, length, |index| find(&target, key.context, index));
        claimed.map_err(|refusal| match refusal {
            PutRefusal::Fault(fault) => PostError::Protection { rank, fault },
            PutRefusal::OutOfBounds(offset) => outside(rank, offset, length),
            PutRefusal::Contended => {
                PostError::Full { destination: rank, cause: FullCause::Register }
            }
            PutRefusal::Displaced => {
                PostError::Unsupported("add an offset to an address register that advances")
            }
        })
    }

    /// Checks that other ranks may write or read these bytes of this rank, as a put or get would,
    /// and returns their offset in its region. `None`: an address register determines it later.
    ///
    /// # Errors
    /// As [`Port::post`](crate::fabric::Port::post).
    pub fn check_own(
        &self,
        address: RemoteAddress,
        length: u64,
        rights: Rights,
    ) -> Result<Option<u64>, PostError> {
        self.commandable(address)?;
        match address.space {
            Space::Process => Err(PostError::Unsupported("reach a process on another host")),
            Space::Register(_) => Ok(None),
            // Memory beyond the region is accessible by keys only.
            Space::Region if !self.is_in_region(address.offset, length) => {
                Err(outside(address.rank, address.offset, length))
            }
            Space::Region => Ok(Some(address.offset)),
            Space::Segment(_) => Ok(Some(self.locate(address, length, rights)?.offset)),
        }
    }

    /// Resolves the address of an aligned word in its rank's region. The processor requires
    /// alignment in the region; a segment may start anywhere.
    fn locate_word(
        &self,
        address: RemoteAddress,
        size: u64,
        wanted: Rights,
    ) -> Result<RemoteAddress, PostError> {
        match address.space {
            Space::Register(_) => {
                return Err(PostError::Unsupported("name a word by an address register"));
            }
            Space::Process => {
                return Err(PostError::Unsupported("name a word outside of a region"));
            }
            Space::Region | Space::Segment(_) => {}
        }
        let place = self.locate(address, size, wanted)?;
        if !place.offset.is_multiple_of(size) {
            let RemoteAddress { rank, offset, .. } = address;
            return Err(PostError::Misaligned { rank, offset, size });
        }
        self.within_region(place, size)?;
        Ok(place)
    }

    /// A word of this rank's own region, for results and completions.
    fn own_word(&self, offset: u64, size: u64) -> Result<SharedWord<'_>, PostError> {
        let own = RemoteAddress { rank: self.rank, space: Space::Region, offset };
        self.word(self.locate_word(own, size, Rights::WRITE)?, size)
    }

    fn word(&self, place: RemoteAddress, size: u64) -> Result<SharedWord<'_>, PostError> {
        let RemoteAddress { rank, offset, .. } = place;
        let word = match size {
            4 => self.host.word32(rank, offset).map(SharedWord::Short),
            _ => self.host.word64(rank, offset).map(SharedWord::Long),
        };
        word.ok_or(outside(rank, offset, size))
    }

    pub(super) fn within_region(&self, place: RemoteAddress, length: u64) -> Result<(), PostError> {
        let RemoteAddress { rank, offset, .. } = place;
        let there = self.is_in_region(offset, length) || self.host.has_beyond(rank, offset, length);
        if there { Ok(()) } else { Err(outside(rank, offset, length)) }
    }

    #[inline]
    fn is_in_region(&self, offset: u64, length: u64) -> bool {
        offset.checked_add(length).is_some_and(|end| end <= self.host.region_bytes())
    }

    /// Announces that this rank is about to access the memory of these ranks.
    fn enter(&self, ranks: UsedRanks) {
        let outside = ranks.into_iter().flatten().map(|rank| &self.peers[rank as usize]);
        let outside = outside.filter(|peer| !peer.stretch.is_inside());
        segment::enter(outside.map(|peer| peer.next_epoch(self.rank)));
    }

    fn leave(&mut self, ranks: UsedRanks) {
        for rank in ranks.into_iter().flatten() {
            let peer = &mut self.peers[rank as usize];
            if !peer.stretch.is_inside() {
                peer.leave(self.rank);
            }
        }
    }

    /// Wakes a sleeping rank, because it may be polling the word just stored. A rank that is only
    /// about to sleep may miss it, since nothing records which word it polls: a wait for a word
    /// gives [`crate::fabric::Port::park`] a deadline. (Virtual time misses none: a rank woken
    /// before it sleeps does not sleep.)
    fn wake_watcher(&mut self, rank: Rank) {
        if self.host.is_conducted() {
            self.host.wake(rank);
        } else if !self.peers[rank as usize].stretch.delay_wake() {
            self.ring_doorbell_of(rank);
        }
    }

    /// Reports to this rank's own program that a command is complete.
    fn complete(&mut self, command: &Command<'_>, value: u64) {
        match command.reply {
            Reply::None | Reply::Failure => {}
            Reply::Event => self.push_completion(command, Ok(value)),
            Reply::Word { offset, value } => {
                if let Some(word) = self.host.word64(self.rank, offset) {
                    // Release: after the reply.
                    word.store(value, Ordering::Release);
                }
            }
        }
    }

    fn push_completion(&mut self, command: &Command<'_>, outcome: Result<u64, PostError>) {
        let Command { destination, protocol, header, .. } = *command;
        let completed = Completed { destination, protocol, header, outcome };
        self.tell_completed(completed);
    }

    /// Cuts a chain at a command; if the error is final, the command's completion also reports it.
    pub(super) fn cut_chain(
        &mut self,
        command: &Command<'_>,
        (done, bytes): (usize, usize),
        error: PostError,
    ) -> ChainError {
        let final_word = !matches!(error, PostError::Full { .. });
        if final_word && command.reply.tells_failure() {
            self.push_completion(command, Err(error));
        }
        ChainError { done, bytes, error }
    }

    /// Makes all checks of a put except for the room for its reports; reserves nothing.
    pub(super) fn check_put(
        &mut self,
        put: &Command<'_>,
        target: RemoteAddress,
    ) -> Result<(), PostError> {
        self.admit(put, target)?;
        if let Notification::Word { address, .. } = put.notification {
            self.locate_word(address, 8, Rights::WRITE)?;
        }
        let length = put.payload.len() as u64;
        let place = self.locate(target, length, Rights::WRITE)?;
        self.within_region(place, length)
    }
}

/// An empty context book with a segment's sizes.
pub(super) fn book(own: &Segment<'_>) -> ContextBook {
    ContextBook::new(own.layout().contexts, own.layout().segments)
}

impl SharedContexts for Segment<'_> {
    fn line(&self, context: ContextId) -> &crate::table::ContextLine {
        self.context(context)
    }

    fn entry(&self, context: ContextId, index: u8) -> &SegmentEntry {
        Segment::entry(self, context, index)
    }

    fn epoch(&self, rank: Rank) -> u64 {
        self.sender(rank).epoch.load(Ordering::Acquire)
    }

    fn ranks(&self) -> u32 {
        self.layout().ranks
    }
}

/// An integer in shared memory.
#[derive(Debug, Clone, Copy)]
enum SharedWord<'m> {
    Short(&'m AtomicU32),
    Long(&'m AtomicU64),
}

/// An entry of a target's segment table, if it exists.
fn find(target: &Segment<'static>, context: ContextId, index: u8) -> Option<&'static SegmentEntry> {
    let layout = target.layout();
    let exists = u32::from(context.0) < layout.contexts && u32::from(index) < layout.segments;
    exists.then(|| target.entry(context, index))
}

/// The rank whose tables check this address, if any do.
pub(super) fn checked_by_table(address: RemoteAddress) -> Option<Rank> {
    matches!(address.space, Space::Segment(_) | Space::Register(_)).then_some(address.rank)
}

fn outside(rank: Rank, offset: u64, length: u64) -> PostError {
    PostError::OutOfBounds { rank, offset, length }
}

/// The number of target bytes that a command accesses.
pub(super) fn length_of(command: &Command<'_>) -> u64 {
    match command.operation {
        Operation::Get(get) => get.length,
        Operation::Atomic(atomic) => atomic.integer.size(),
        _ => command.payload.len() as u64,
    }
}

/// The number of payload bytes in the reply to a command.
fn answered(command: &Command<'_>, done: bool) -> u64 {
    match command.operation {
        Operation::Get(get) if done => get.length,
        Operation::Atomic(atomic) => atomic.integer.size(),
        _ => 0,
    }
}

/// Changes an integer and returns the old value.
fn change(word: SharedWord<'_>, atomic: &Atomic) -> u64 {
    let operand = atomic.operand;
    match (word, atomic.integer) {
        (SharedWord::Short(word), Integer::I32) => {
            let extreme = |old: u32, min: bool| pick(old as i32, operand as i32, min) as u32;
            u64::from(change_short(word, atomic, extreme))
        }
        (SharedWord::Short(word), _) => {
            let extreme = |old: u32, min: bool| pick(old, operand as u32, min);
            u64::from(change_short(word, atomic, extreme))
        }
        (SharedWord::Long(word), Integer::I64) => {
            let extreme = |old: u64, min: bool| pick(old as i64, operand as i64, min) as u64;
            change_long(word, atomic, extreme)
        }
        (SharedWord::Long(word), _) => {
            change_long(word, atomic, |old, min| pick(old, operand, min))
        }
    }
}

fn pick<T: Ord>(one: T, other: T, smaller: bool) -> T {
    if smaller { one.min(other) } else { one.max(other) }
}

/// The operations on one width, all in one total order: if two ranks each change a word and read
/// the other's, one sees the other's change. A fetching operation that the processor lacks is
/// retried only if another rank changed the word meanwhile, so some rank always makes progress.
macro_rules! change_width {
    ($name:ident, $atomic:ty, $integer:ty) => {
        fn $name(
            word: &$atomic,
            atomic: &Atomic,
            extreme: impl Fn($integer, bool) -> $integer,
        ) -> $integer {
            const ONE: Ordering = Ordering::SeqCst;
            let operand = atomic.operand as $integer;
            let update = |smaller| {
                let next = |old| Some(extreme(old, smaller));
                let done = word.fetch_update(ONE, ONE, next);
                done.unwrap_or_else(|old| old)
            };
            match atomic.operation {
                AtomicOp::Load => word.load(ONE),
                AtomicOp::Add => word.fetch_add(operand, ONE),
                AtomicOp::Swap => word.swap(operand, ONE),
                AtomicOp::CompareSwap { expected } => {
                    let expected = expected as $integer;
                    word.compare_exchange(expected, operand, ONE, ONE).unwrap_or_else(|old| old)
                }
                AtomicOp::And => word.fetch_and(operand, ONE),
                AtomicOp::Or => word.fetch_or(operand, ONE),
                AtomicOp::Xor => word.fetch_xor(operand, ONE),
                AtomicOp::Min => update(true),
                AtomicOp::Max => update(false),
            }
        }
    };
}

change_width!(change_short, AtomicU32, u32);
change_width!(change_long, AtomicU64, u64);
