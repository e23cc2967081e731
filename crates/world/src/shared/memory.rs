//! The memory of a shared variable, and the operations on its words.
//!
//! ```text
//!   each rank's block   bell | parted | vote | words of the parts at home here ...
//!   each node's block   owner, state of each part (16 bytes) ... | the copy of the contents
//!                       in the region of the node's first rank: the keeper
//! ```
//!
//! Words on the rank's own node are changed in place; others by commands of the port. When a rank
//! has died, all ranks change its words in place: on one host the memory outlives the process. In
//! virtual time all words of others are changed by commands, which take their time.

use std::cell::Cell;
use std::ptr::NonNull;
use std::rc::Rc;

use bytemuck::cast_slice_mut;
use hikyaku_dsm::geometry::{Place, initial_node};
use hikyaku_dsm::word::CONTROL_BYTES;
use hikyaku_dsm::{Copyset, Departed, Geometry, Op, Word};
use hikyaku_nic::fabric::{
    Atomic, AtomicOp, Command, FullCause, Integer, MemoryPort, Notification, PeerState, Port,
    PostError, RemoteAddress, Space,
};
use hikyaku_nic::region::RegionBuffer;
use hikyaku_nic::sync::{AtomicU64, Ordering};
use hikyaku_rank::{LOOK_AGAIN, RankPort, View};

use super::faults::Injector;
use super::service::EngineCell;
use super::vote::Vote;
use crate::error::Error;

/// Bytes before the words in a rank's block: a line for the bell, a line for the ranks that have
/// parted and for the rank's vote.
const BELL: u64 = 0;
const PARTED: u64 = 64;
const PARTED_RANKS: u64 = 72;
const VOTE: u64 = 88;
const WORDS: u64 = 128;

/// The alignment of the copy in a node's block.
const ALIGNMENT: u64 = 4096;

/// The memory that a rank gives to a variable.
#[derive(Debug)]
pub(super) struct Own {
    pub(super) home: RegionBuffer,
    /// The node's block, of its first rank.
    pub(super) node: Option<RegionBuffer>,
}

/// The sizes of a variable.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub(super) geometry: Geometry,
    pub(super) parts: u64,
    /// The home rank of part 0; the others follow.
    pub(super) first_home: u32,
    /// Bytes of the contents.
    pub(super) bytes: u64,
}

impl Sizes {
    /// The home of a part, and the index of the part among those at that home.
    pub(super) fn home_of(&self, part: u64) -> (u32, u64) {
        let ranks = u64::from(self.geometry.ranks);
        (((u64::from(self.first_home) + part) % ranks) as u32, part / ranks)
    }

    fn home_bytes(&self) -> u64 {
        let slots = self.parts.div_ceil(u64::from(self.geometry.ranks));
        WORDS + slots * self.geometry.home_words() * 8
    }

    /// The offset of a part's words in its home's block.
    pub(super) fn words_at(&self, slot: u64) -> u64 {
        WORDS + slot * self.geometry.home_words() * 8
    }

    fn copy_at(&self) -> u64 {
        (self.parts * CONTROL_BYTES).next_multiple_of(ALIGNMENT)
    }

    fn node_bytes(&self) -> u64 {
        self.copy_at() + self.bytes
    }
}

impl Own {
    /// Allocates and fills this rank's memory.
    pub(super) fn allocate(port: &mut RankPort, sizes: &Sizes) -> Result<Own, Error> {
        let length = |bytes: u64| {
            let (elements, element) = (usize::try_from(bytes).unwrap_or(usize::MAX), 1);
            let fits = isize::try_from(bytes).is_ok();
            if fits { Ok(elements) } else { Err(Error::TooLarge { elements, element }) }
        };
        let mut home = port.allocate(length(sizes.home_bytes())?)?;
        home.fill(0);
        let initial = sizes.geometry.initial_home();
        for words in home[WORDS as usize..].chunks_exact_mut(initial.len() * 8) {
            cast_slice_mut(words).copy_from_slice(&initial);
        }
        let geometry = &sizes.geometry;
        let mut own = Own { home, node: None };
        if geometry.ranks_of(geometry.node()).start == geometry.rank {
            let mut node = port.allocate(length(sizes.node_bytes())?)?;
            node.fill(0);
            let control = &mut node[..(sizes.parts * CONTROL_BYTES) as usize];
            for words in control.chunks_exact_mut(CONTROL_BYTES as usize) {
                cast_slice_mut(words).copy_from_slice(&initial_node());
            }
            own.node = Some(node);
        }
        Ok(own)
    }
}

/// A block of some rank's region.
#[derive(Debug)]
struct Block {
    rank: u32,
    offset: u64,
    view: View,
    /// Its words may be changed in place: it is on this rank's node, and time is not virtual.
    near: bool,
}

/// All of a variable's memory, as seen from one rank.
#[derive(Debug)]
pub(super) struct Memory {
    sizes: Sizes,
    /// By rank.
    homes: Vec<Block>,
    /// By node.
    nodes: Vec<Block>,
    /// Operations on words of other nodes so far.
    remote: Cell<u64>,
    /// Fault injection.
    injector: Option<Rc<Injector>>,
}

impl Memory {
    /// The memory at `offsets`: for each rank the offset of its block and, for the first of a node,
    /// of the node's. `None`: an offset is invalid.
    pub(super) fn new(
        port: &RankPort,
        sizes: Sizes,
        offsets: &[(u64, u64)],
        injector: Option<Rc<Injector>>,
    ) -> Option<Memory> {
        let geometry = &sizes.geometry;
        let block = |rank: u32, offset: u64, bytes: u64| {
            let view = port.host().view(rank, offset, usize::try_from(bytes).ok()?)?;
            let together = geometry.node_of(rank) == geometry.node();
            let near = together && !port.host().is_conducted();
            Some(Block { rank, offset, view, near })
        };
        let homes = (0..).zip(offsets).map(|(rank, at)| block(rank, at.0, sizes.home_bytes()));
        let nodes = (0..geometry.nodes()).map(|node| {
            let keeper = geometry.ranks_of(node).start;
            block(keeper, offsets[keeper as usize].1, sizes.node_bytes())
        });
        let (homes, nodes) = (homes.collect::<Option<_>>()?, nodes.collect::<Option<_>>()?);
        Some(Memory { sizes, homes, nodes, remote: Cell::default(), injector })
    }

    /// The fault injector, if faults were asked for.
    #[inline]
    pub(super) fn injector(&self) -> Option<&Injector> {
        self.injector.as_deref()
    }

    /// Rests between two steps of a protocol, if faults are injected.
    #[inline]
    pub(super) fn rest(&self) {
        if let Some(injector) = &self.injector {
            injector.rest();
        }
    }

    /// Operations on words of other nodes so far.
    pub(super) fn remote(&self) -> u64 {
        self.remote.get()
    }

    pub(super) fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    /// Performs an operation on a word of a part, whose words begin at `at` of `home`'s block. It
    /// is inlined: otherwise a hand-over of 8 bytes takes 1.4 times as long, because the releasing
    /// rank is late in its queue.
    #[inline(always)]
    pub(super) fn access(
        &self,
        engine: &EngineCell,
        departed: &Departed,
        (part, home, at): (u64, u32, u64),
        (word, op): (Word, Op),
    ) -> Result<u64, PostError> {
        let (block, at) = match self.sizes.geometry.place(word) {
            Place::Home(index) => (&self.homes[home as usize], at + 8 * index),
            Place::Node(node, index) => {
                (&self.nodes[node as usize], part * CONTROL_BYTES + 8 * index)
            }
        };
        if block.near || departed.has_died(block.rank) {
            return Ok(apply(block.word(at), op));
        }
        self.command(engine, block, at, op)
    }

    /// Reads a word of a part, for a report on why a job makes no progress. It takes no time on any
    /// machine, and the value may be old.
    pub(super) fn peek(&self, part: u64, home: u32, at: u64, word: Word) -> u64 {
        match self.sizes.geometry.place(word) {
            Place::Home(index) => apply(self.homes[home as usize].word(at + 8 * index), Op::Load),
            Place::Node(node, index) => {
                apply(self.nodes[node as usize].word(part * CONTROL_BYTES + 8 * index), Op::Load)
            }
        }
    }

    /// [`Memory::access`] after a rest.
    pub(super) fn access_in_trouble(
        &self,
        engine: &EngineCell,
        departed: &Departed,
        place: (u64, u32, u64),
        (word, op): (Word, Op),
    ) -> Result<u64, PostError> {
        let access = |op| {
            self.rest();
            self.access(engine, departed, place, (word, op))
        };
        #[cfg(test)]
        if let Some(wrong) = self.injector().and_then(Injector::wrong) {
            return wrong.access(word, op, access);
        }
        access(op)
    }

    /// Performs an operation on a word that is changed by commands.
    #[inline(never)]
    fn command(
        &self,
        engine: &EngineCell,
        block: &Block,
        at: u64,
        op: Op,
    ) -> Result<u64, PostError> {
        let geometry = &self.sizes.geometry;
        if geometry.node_of(block.rank) != geometry.node() {
            self.remote.set(self.remote.get() + 1);
        }
        let target = block.address(at);
        let (operation, operand) = operation(op);
        let integer = Integer::U64;
        let atomic = Atomic { target, integer, operation, operand, result: None };
        match self.carry_out(engine, block.rank, |port| port.fetch(&atomic)) {
            // It has just died; or it has left, and what was sent to it before stays in flight for
            // ever.
            Err(PostError::PeerFailed(_) | PostError::Full { .. }) => Ok(apply(block.word(at), op)),
            answer => answer,
        }
    }

    /// Performs an operation on a part's word at this rank's node.
    pub(super) fn near(&self, part: u64, word: Word, op: Op) -> u64 {
        let Place::Node(node, index) = self.sizes.geometry.place(word) else {
            unreachable!("words at home are not the node's")
        };
        debug_assert_eq!(node, self.sizes.geometry.node());
        apply(self.nodes[node as usize].word(part * CONTROL_BYTES + 8 * index), op)
    }

    /// The remote address of a byte of a node's copy.
    pub(super) fn copy_address(&self, node: u32, at: u64) -> RemoteAddress {
        self.nodes[node as usize].address(self.sizes.copy_at() + at)
    }

    /// Whether a rank's block can be reached in place, because it is on this node.
    #[inline]
    pub(super) fn is_near(&self, rank: u32) -> bool {
        self.homes[rank as usize].near
    }

    /// Performs operations on words of a part at home, which begin at `at` of the block of `home`,
    /// and at this rank's node. Both are near.
    #[inline]
    pub(super) fn at_hand(&self, part: u64, home: u32, at: u64) -> impl Fn(Word, Op) -> u64 {
        let (block, geometry) = (&self.homes[home as usize], &self.sizes.geometry);
        move |word, op| match geometry.place(word) {
            Place::Home(index) => apply(block.word(at + 8 * index), op),
            Place::Node(..) => self.near(part, word, op),
        }
    }

    /// Fetches bytes of the contents from the copy of a node into this node's copy; `false` if that
    /// node is gone.
    pub(super) fn fetch(
        &self,
        engine: &EngineCell,
        departed: &Departed,
        from: u32,
        (start, length): (u64, usize),
        into: &mut [u8],
    ) -> Result<bool, PostError> {
        debug_assert_eq!(into.len(), length);
        for (at, piece) in self.pieces(length) {
            let (start, into) = (start + at as u64, &mut into[at..at + piece]);
            if !self.fetch_piece(engine, departed, from, start, into)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn fetch_piece(
        &self,
        engine: &EngineCell,
        departed: &Departed,
        from: u32,
        start: u64,
        into: &mut [u8],
    ) -> Result<bool, PostError> {
        let block = &self.nodes[from as usize];
        let at = self.sizes.copy_at() + start;
        match self.carry_out(engine, block.rank, |port| port.get(block.address(at), into)) {
            Err(PostError::PeerFailed(_)) if departed.node_is_gone(&self.sizes.geometry, from) => {
                Ok(false)
            }
            // The keeper has died or left, and others of its node live: they share its memory.
            Err(PostError::PeerFailed(_) | PostError::Full { .. }) => {
                super::contents::read(&block.view, at as usize, into);
                Ok(true)
            }
            done => done.map(|()| true),
        }
    }

    /// This node's copy in this process, valid as long as `self`.
    #[inline]
    pub(super) fn copy(&self) -> (NonNull<u8>, usize) {
        let block = &self.nodes[self.sizes.geometry.node() as usize];
        super::contents::tail(&block.view, self.sizes.copy_at() as usize)
    }

    /// Wakes a rank, if it sleeps, by storing to its bell. A rank that is gone needs no wake.
    #[inline(never)]
    pub(super) fn ring(&self, engine: &EngineCell, rank: u32) {
        let address = self.homes[rank as usize].address(BELL);
        let notification = Notification::Word { address, value: 1 };
        let put = Command { notification, ..Command::put(address, &[]) };
        if self.injector().is_some_and(Injector::loses_a_bell) {
            return;
        }
        let _ = self.carry_out(engine, rank, |port| port.post(&put));
    }

    /// Stores bytes into the copy of another node.
    pub(super) fn store(
        &self,
        engine: &EngineCell,
        to: RemoteAddress,
        bytes: &[u8],
    ) -> Result<(), PostError> {
        for (at, piece) in self.pieces(bytes.len()) {
            let to = RemoteAddress { offset: to.offset + at as u64, ..to };
            let put = Command::put(to, &bytes[at..at + piece]);
            self.carry_out(engine, to.rank, |port| port.post(&put))?;
        }
        Ok(())
    }

    /// Whether words of others are changed by commands only: time is virtual.
    #[inline]
    pub(super) fn is_virtual(&self) -> bool {
        let own = self.sizes.geometry.rank as usize;
        !self.homes[own].near
    }

    /// Says in all blocks that this rank does not use the memory any more.
    pub(super) fn part(&self) {
        let rank = u64::from(self.sizes.geometry.rank);
        for block in &self.homes {
            if rank < u64::from(Copyset::MOST) {
                let word = block.word(PARTED_RANKS + rank / 64 * 8);
                word.fetch_or(1 << (rank % 64), Ordering::AcqRel);
            }
            block.word(PARTED).fetch_add(1, Ordering::AcqRel);
        }
    }

    /// [`Memory::part`] in virtual time, for ranks that receive letters: after those.
    pub(super) fn part_in_time(&self, engine: &EngineCell) {
        let rank = u64::from(self.sizes.geometry.rank);
        for block in &self.homes {
            let target = block.address(PARTED_RANKS + rank / 64 * 8);
            let (operation, operand) = operation(Op::Or(1 << (rank % 64)));
            let integer = Integer::U64;
            let atomic = Atomic { target, integer, operation, operand, result: None };
            if self.carry_out(engine, block.rank, |port| port.fetch(&atomic)).is_err() {
                // It has died or left, and its memory is the job's.
                block.word(PARTED_RANKS + rank / 64 * 8).fetch_or(operand, Ordering::AcqRel);
            }
            block.word(PARTED).fetch_add(1, Ordering::AcqRel);
        }
        // They sleep until they are woken, and in virtual time a rank that leaves wakes none.
        engine.borrow().port().wake_all();
    }

    /// Which of the first ranks have parted, a bit each.
    pub(super) fn parted_ranks(home: &View) -> [u64; 2] {
        let word = |at| home.word(PARTED_RANKS + at).map_or(0, |word| word.load(Ordering::Acquire));
        [word(0), word(8)]
    }

    /// How many ranks have said in this block that they have parted.
    pub(super) fn parted(home: &View) -> u64 {
        home.word(PARTED).map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// Casts this rank's vote on the variable, if it has not voted.
    pub(super) fn cast(&self, vote: Vote) {
        self.rest();
        let own = &self.homes[self.sizes.geometry.rank as usize];
        cast(own.word(VOTE), vote);
    }

    /// [`Memory::cast`] in a rank's own block, when the others' blocks are unknown.
    pub(super) fn cast_in(home: &View, vote: Vote) {
        if let Some(word) = home.word(VOTE) {
            cast(word, vote);
        }
    }

    /// A rank's vote on the variable. A rank that is gone votes no more.
    pub(super) fn vote_of(&self, engine: &EngineCell, rank: u32, gone: bool) -> Vote {
        self.rest();
        let block = &self.homes[rank as usize];
        let in_place = || apply(block.word(VOTE), Op::Load);
        if block.near || gone {
            return Vote::of(in_place());
        }
        let (operation, operand) = operation(Op::Load);
        let (target, integer) = (block.address(VOTE), Integer::U64);
        let atomic = Atomic { target, integer, operation, operand, result: None };
        // If it is gone by now, its memory is the job's.
        let word = self.carry_out(engine, rank, |port| port.fetch(&atomic));
        Vote::of(word.unwrap_or_else(|_| in_place()))
    }

    /// The offset and length of each piece in which contents are copied: a single piece, unless
    /// faults are injected.
    fn pieces(&self, length: usize) -> impl Iterator<Item = (usize, usize)> {
        let piece = self.injector().map_or(length, |injector| injector.piece(length)).max(1);
        let pieces = (0..length).step_by(piece).map(move |at| (at, piece.min(length - at)));
        #[cfg(test)]
        let pieces = pieces.skip(self.injector().map_or(0, Injector::pieces_lost));
        pieces
    }

    /// [`carry_out`]; with fault injection, after a rest, and refused now and then.
    fn carry_out<R>(
        &self,
        engine: &EngineCell,
        to: u32,
        mut act: impl FnMut(&mut RankPort) -> Result<R, PostError>,
    ) -> Result<R, PostError> {
        let Some(injector) = self.injector() else { return carry_out(engine, to, act) };
        injector.rest();
        carry_out(engine, to, |port| match injector.refuses() {
            true => Err(PostError::Full { destination: to, cause: FullCause::Outstanding }),
            false => act(port),
        })
    }

    /// This rank's block.
    pub(super) fn own_home(&self, port: &RankPort) -> Option<View> {
        let block = &self.homes[self.sizes.geometry.rank as usize];
        port.host().view(block.rank, block.offset, block.view.len())
    }
}

/// Retries an operation of the port until there is room. In virtual time a command does not
/// overtake a message that found none; otherwise there is always room. Only the path to a rank that
/// has left stays full.
fn carry_out<R>(
    engine: &EngineCell,
    to: u32,
    mut act: impl FnMut(&mut RankPort) -> Result<R, PostError>,
) -> Result<R, PostError> {
    loop {
        let mut engine = engine.borrow_mut();
        match act(engine.port_mut()) {
            Err(full @ PostError::Full { .. }) if engine.port().peer(to) == PeerState::Left => {
                return Err(full);
            }
            // Received messages are taken in, in case that rank waits for room here.
            Err(PostError::Full { .. }) if engine.progress() => {}
            Err(PostError::Full { .. }) => {
                let port = engine.port_mut();
                let soon = port.now() + LOOK_AGAIN;
                port.park(Some(soon));
            }
            answer => return answer,
        }
    }
}

impl Block {
    #[inline]
    fn word(&self, at: u64) -> &AtomicU64 {
        self.view.word(at).expect("words of a variable are within its blocks and aligned")
    }

    fn address(&self, at: u64) -> RemoteAddress {
        RemoteAddress { rank: self.rank, space: Space::Region, offset: self.offset + at }
    }
}

fn cast(word: &AtomicU64, vote: Vote) {
    let (expected, new) = (Vote::NotYet.word(), vote.word());
    apply(word, Op::CompareSwap { expected, new });
}

fn operation(op: Op) -> (AtomicOp, u64) {
    match op {
        Op::Load => (AtomicOp::Load, 0),
        Op::Swap(new) => (AtomicOp::Swap, new),
        Op::CompareSwap { expected, new } => (AtomicOp::CompareSwap { expected }, new),
        Op::Or(bits) => (AtomicOp::Or, bits),
        Op::And(bits) => (AtomicOp::And, bits),
        Op::Max(other) => (AtomicOp::Max, other),
    }
}

/// The operations as a port performs them, in one total order: of two ranks that each change a word
/// and read the other's, one sees what the other did. There are no plain stores, so where loads and
/// stores keep their order (x86) these are the same instructions as releasing and acquiring.
#[inline]
fn apply(word: &AtomicU64, op: Op) -> u64 {
    const ONE: Ordering = Ordering::SeqCst;
    match op {
        Op::Load => word.load(ONE),
        Op::Swap(new) => word.swap(new, ONE),
        Op::CompareSwap { expected, new } => {
            word.compare_exchange(expected, new, ONE, ONE).unwrap_or_else(|old| old)
        }
        Op::Or(bits) => word.fetch_or(bits, ONE),
        Op::And(bits) => word.fetch_and(bits, ONE),
        Op::Max(other) => word.fetch_max(other, ONE),
    }
}
