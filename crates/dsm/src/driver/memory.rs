//! The memory of a shared variable, and the operations on its words.
//!
//! ```text
//!   each rank's block   bell | vote | who has parted | words of the parts at home here ...
//!   each node's block   owner, state of each part (16 bytes) ... | the copy of the contents
//!                       in the region of the node's first rank: the keeper
//! ```
//!
//! Words on the rank's own node are changed in place, all others by commands of the port. When a
//! rank has died, the ranks of its host change its words in place, since the memory outlives the
//! process. Ranks of other hosts ask a remaining rank of that host. In virtual time all words of
//! other ranks are changed by commands, which take their time.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::rc::Rc;

use crate::geometry::{WordPlace, initial_node};
use crate::word::CONTROL_BYTES;
use crate::{Copyset, Departed, Geometry, Word, WordOp};
use bytemuck::cast_slice_mut;
use hikyaku_msg::{Blocked, Engine, Pace};
use hikyaku_nic::fabric::{
    Activity, Atomic, AtomicOp, Command, FullCause, Integer, MemoryPort, Name, Notification,
    PeerState, Port, PostError, RemoteAddress, Space, Wait,
};
use hikyaku_nic::region::RegionBuffer;
use hikyaku_nic::sync::{AtomicU64, Ordering};
use hikyaku_rank::{RankPort, View};

use super::error::Error;
use super::faults::Injector;

/// The engine of a rank between its calls.
pub(super) type EngineCell = RefCell<Engine<RankPort>>;

/// The offsets of the first words in a rank's block: a line for the bell, a line for the rank's
/// vote, and lines with a bit for each rank that has parted.
const BELL: u64 = 0;
const VOTE: u64 = LINE;
const PARTED: u64 = 2 * LINE;

/// Bytes of a cache line.
const LINE: u64 = 64;

/// The alignment of the copy in a node's block.
const ALIGNMENT: u64 = 4096;

/// The memory that a rank gives to a variable.
#[derive(Debug)]
pub(super) struct Own {
    pub(super) home: RegionBuffer,
    /// The node's block, if this is the node's first rank.
    pub(super) node: Option<RegionBuffer>,
}

/// The sizes of a variable.
#[derive(Debug, Clone)]
pub(super) struct VariableSizes {
    pub(super) geometry: Geometry,
    pub(super) parts: u64,
    /// The home rank of part 0; the others follow.
    pub(super) first_home: u32,
    /// Bytes of the contents.
    pub(super) bytes: u64,
}

impl VariableSizes {
    /// The home of a part, and the index of the part among those at that home.
    pub(super) fn home_of(&self, part: u64) -> (u32, u64) {
        let ranks = u64::from(self.geometry.ranks);
        (((u64::from(self.first_home) + part) % ranks) as u32, part / ranks)
    }

    fn home_bytes(&self) -> u64 {
        let slots = self.parts.div_ceil(u64::from(self.geometry.ranks));
        self.words_at(slots)
    }

    /// The number of words with a bit for each rank.
    fn parted_words(&self) -> u64 {
        u64::from(self.geometry.ranks).div_ceil(64)
    }

    /// The offset of a part's words in its home's block.
    pub(super) fn words_at(&self, slot: u64) -> u64 {
        let start = PARTED + (8 * self.parted_words()).next_multiple_of(LINE);
        start + slot * self.geometry.home_words() * 8
    }

    fn copy_at(&self) -> u64 {
        (self.parts * CONTROL_BYTES).next_multiple_of(ALIGNMENT)
    }

    fn node_bytes(&self) -> u64 {
        self.copy_at().saturating_add(self.bytes)
    }
}

impl Own {
    /// Allocates and fills this rank's memory.
    pub(super) fn allocate(port: &mut RankPort, sizes: &VariableSizes) -> Result<Own, Error> {
        use hikyaku_rank::Error::TooLarge;
        let length = |bytes: u64| {
            let (elements, element) = (usize::try_from(bytes).unwrap_or(usize::MAX), 1);
            let fits = isize::try_from(bytes).is_ok();
            if fits { Ok(elements) } else { Err(TooLarge { elements, element }) }
        };
        let mut home = port.allocate(length(sizes.home_bytes())?)?;
        home.fill(0);
        let initial = sizes.geometry.initial_home();
        for words in home[sizes.words_at(0) as usize..].chunks_exact_mut(initial.len() * 8) {
            cast_slice_mut(words).copy_from_slice(&initial);
        }
        let geometry = &sizes.geometry;
        let mut own = Own { home, node: None };
        if geometry.ranks_of(geometry.node()).next() == Some(geometry.rank) {
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

/// The memory that this rank gave to a variable, which other ranks may use until all have parted.
/// If the rank ends before that, the memory stays with the job: freeing it would take it from the
/// other ranks.
#[derive(Debug)]
pub(super) struct Given {
    /// Never dropped automatically.
    own: ManuallyDrop<Own>,
    /// A view of this rank's block, in which other ranks report that they have parted. Without the
    /// view that cannot be checked.
    parted: Option<View>,
    ranks: u32,
}

impl Given {
    pub(super) fn new(own: Own, memory: &VariableMemory, port: &RankPort) -> Given {
        let Geometry { ranks, rank, .. } = memory.sizes.geometry;
        let length = 8 * memory.sizes.parted_words() as usize;
        let parted = port.view(rank, own.home.offset() + PARTED, length);
        Given { own: ManuallyDrop::new(own), parted, ranks }
    }

    /// Whether no rank uses the memory any more.
    pub(super) fn is_over(&self) -> bool {
        let all = |at: u32| u64::MAX >> (64 - (self.ranks - at).min(64));
        (0..self.ranks).step_by(64).all(|at| self.parted_word(at / 64) == all(at))
    }

    fn parted_word(&self, at: u32) -> u64 {
        let word = self.parted.as_ref().and_then(|parted| parted.word(8 * u64::from(at)));
        word.map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// The ranks among the first 128 that have parted.
    pub(super) fn parted(&self) -> Copyset {
        Copyset::of([self.parted_word(0), self.parted_word(1)])
    }

    /// Frees the memory. Requires [`Given::is_over`].
    pub(super) fn free(self) {
        drop(ManuallyDrop::into_inner(self.own));
    }

    /// Leaves the memory with the job, for ranks that use it when this one is gone.
    pub(super) fn leave_to_others(self, port: &mut RankPort) {
        port.keep(self.own.home.offset() + PARTED);
    }
}

/// A rank's vote on a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Vote {
    NotYet,
    Yes,
    No,
}

impl Vote {
    /// The encoded vote. A new word is 0, which is [`Vote::NotYet`].
    pub(super) const fn word(self) -> u64 {
        match self {
            Vote::NotYet => 0,
            Vote::Yes => 1,
            Vote::No => 2,
        }
    }

    /// Decodes a vote. A malformed word counts as [`Vote::No`].
    pub(super) const fn of(word: u64) -> Vote {
        match word {
            0 => Vote::NotYet,
            1 => Vote::Yes,
            _ => Vote::No,
        }
    }
}

/// A block of one rank's region.
#[derive(Debug)]
struct RegionBlock {
    rank: u32,
    offset: u64,
    /// `None` if the block is on another host.
    view: Option<View>,
    /// Whether its words may be changed in place: it is on this rank's node, and time is not
    /// virtual.
    near: bool,
}

/// All of a variable's memory, as seen by one rank.
#[derive(Debug)]
pub(super) struct VariableMemory {
    /// The name of the variable, for reports.
    name: Name,
    sizes: VariableSizes,
    /// The home blocks, by rank.
    homes: Vec<RegionBlock>,
    /// The node blocks, by node.
    nodes: Vec<RegionBlock>,
    /// The number of operations on words of other nodes so far.
    remote: Cell<u64>,
    /// Fault injection.
    injector: Option<Rc<Injector>>,
}

impl VariableMemory {
    /// Maps the memory at `offsets`: for each rank the offset of its block and, for the first rank
    /// of a node, of the node's block. `None` if an offset is invalid.
    pub(super) fn new(
        port: &RankPort,
        (name, sizes): (&str, VariableSizes),
        offsets: &[(u64, u64)],
        injector: Option<Rc<Injector>>,
    ) -> Option<VariableMemory> {
        let geometry = &sizes.geometry;
        let block = |rank: u32, offset: u64, bytes: u64| {
            let length = usize::try_from(bytes).ok()?;
            let view = match port.is_far(rank) {
                true => None,
                false => Some(port.view(rank, offset, length)?),
            };
            let together = geometry.node_of(rank) == geometry.node();
            let near = together && !port.capabilities().virtual_time;
            Some(RegionBlock { rank, offset, view, near })
        };
        let homes = (0..).zip(offsets).map(|(rank, at)| block(rank, at.0, sizes.home_bytes()));
        let nodes = geometry.keepers().into_iter().map(|keeper| {
            let (_, offset) = offsets.get(keeper as usize)?;
            block(keeper, *offset, sizes.node_bytes())
        });
        let (homes, nodes) = (homes.collect::<Option<_>>()?, nodes.collect::<Option<_>>()?);
        let name = Name::new(name);
        Some(VariableMemory { name, sizes, homes, nodes, remote: Cell::default(), injector })
    }

    /// The fault injector, if faults are injected.
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

    /// The number of operations on words of other nodes so far.
    pub(super) fn remote(&self) -> u64 {
        self.remote.get()
    }

    pub(super) fn sizes(&self) -> &VariableSizes {
        &self.sizes
    }

    /// Performs an operation on a word of a part, whose words begin at `at` of `home`'s block. It
    /// is inlined: otherwise a hand-off of 8 bytes takes 1.4 times as long, because the releasing
    /// rank is late in its queue.
    ///
    /// # Errors
    /// [`PostError::NoSuchRank`]: the word belongs to a node that does not exist.
    #[inline(always)]
    pub(super) fn access(
        &self,
        engine: &EngineCell,
        departed: &Departed,
        place: (u64, u32, u64),
        (word, op): (Word, WordOp),
    ) -> Result<u64, PostError> {
        let (block, at) = self.locate(place, word)?;
        if block.near || block.view.is_some() && departed.has_died(block.rank) {
            return Ok(apply(block.word(at), op));
        }
        if self.sizes.geometry.node_of(block.rank) != self.sizes.geometry.node() {
            self.remote.set(self.remote.get() + 1);
        }
        self.command(engine, block, at, op)
    }

    /// The block of a node. The node's number may come from a word that was overwritten.
    #[inline]
    fn block_of(&self, node: u32) -> Result<&RegionBlock, PostError> {
        let size = self.nodes.len() as u32;
        self.nodes.get(node as usize).ok_or(PostError::NoSuchRank { rank: node, size })
    }

    /// The block of a word of a part, whose words begin at `at` of `home`'s block, and the word's
    /// offset there.
    #[inline(always)]
    fn locate(
        &self,
        (part, home, at): (u64, u32, u64),
        word: Word,
    ) -> Result<(&RegionBlock, u64), PostError> {
        Ok(match self.sizes.geometry.place(word) {
            WordPlace::Home(index) => (&self.homes[home as usize], at + 8 * index),
            WordPlace::Node(node, index) => {
                (self.block_of(node)?, part * CONTROL_BYTES + 8 * index)
            }
        })
    }

    /// Reads a word of a part, for a report on why a job makes no progress. `None` if the word is
    /// on another host, or on a node that does not exist. It takes no time on any machine, and the
    /// value may be old.
    pub(super) fn peek(&self, place: (u64, u32, u64), word: Word) -> Option<u64> {
        let (block, at) = self.locate(place, word).ok()?;
        block.view.is_some().then(|| apply(block.word(at), WordOp::Load))
    }

    /// Stores a value that no rank would store, as a foreign process may.
    pub(super) fn overwrite(&self, part: u64, word: Word, value: u64) {
        let (home, slot) = self.sizes.home_of(part);
        let place = (part, home, self.sizes.words_at(slot));
        let _ =
            self.locate(place, word).map(|(block, at)| apply(block.word(at), WordOp::Swap(value)));
    }

    /// Like [`VariableMemory::access`], after a rest.
    pub(super) fn access_with_faults(
        &self,
        engine: &EngineCell,
        departed: &Departed,
        place: (u64, u32, u64),
        (word, op): (Word, WordOp),
    ) -> Result<u64, PostError> {
        let access = |op| {
            self.rest();
            self.access(engine, departed, place, (word, op))
        };
        if let Some(wrong) = self.injector().and_then(Injector::wrong) {
            return wrong.access(word, op, access);
        }
        access(op)
    }

    /// Performs an operation on a word by a command.
    #[inline(never)]
    fn command(
        &self,
        engine: &EngineCell,
        block: &RegionBlock,
        at: u64,
        op: WordOp,
    ) -> Result<u64, PostError> {
        let atomic = block.atomic(at, op);
        if block.view.is_none() {
            return self.carry_out_far(engine, block.rank, |port| port.fetch_given(&atomic));
        }
        match self.carry_out(engine, block.rank, |port| port.fetch(&atomic)) {
            // The rank has just died. Or it has left, and earlier commands to it stay in flight for
            // ever.
            Err(PostError::PeerFailed(_) | PostError::Full { .. }) => Ok(apply(block.word(at), op)),
            answer => answer,
        }
    }

    /// Performs an operation on a word of a part, and ignores the answer. On another host this rank
    /// does not wait for it; it is performed before this rank's later operations there.
    pub(super) fn tell(
        &self,
        engine: &EngineCell,
        place: (u64, u32, u64),
        (word, op): (Word, WordOp),
    ) -> Result<(), PostError> {
        let (block, at) = self.locate(place, word)?;
        if block.view.is_some() {
            let departed = Departed::default();
            return self.access(engine, &departed, place, (word, op)).map(drop);
        }
        self.remote.set(self.remote.get() + 1);
        self.tell_far(engine, block, at, op)
    }

    fn tell_far(
        &self,
        engine: &EngineCell,
        block: &RegionBlock,
        at: u64,
        op: WordOp,
    ) -> Result<(), PostError> {
        let atomic = block.atomic(at, op);
        self.carry_out_far(engine, block.rank, |port| port.tell_given(&atomic))
    }

    /// Performs an operation on a part's word at this rank's node.
    pub(super) fn near(&self, part: u64, word: Word, op: WordOp) -> u64 {
        let WordPlace::Node(node, index) = self.sizes.geometry.place(word) else {
            unreachable!("words at home are not the node's")
        };
        debug_assert_eq!(node, self.sizes.geometry.node());
        apply(self.nodes[node as usize].word(part * CONTROL_BYTES + 8 * index), op)
    }

    /// The remote address of a byte of a node's copy.
    pub(super) fn copy_address(&self, node: u32, at: u64) -> RemoteAddress {
        self.nodes[node as usize].address(self.sizes.copy_at() + at)
    }

    /// Whether a rank's block can be changed in place, because it is on this node.
    #[inline]
    pub(super) fn is_near(&self, rank: u32) -> bool {
        self.homes[rank as usize].near
    }

    /// Returns a function that performs operations on words of a part: at home, where they begin at
    /// `at` of the block of `home`, and at this rank's node. Both must be near.
    #[inline]
    pub(super) fn at_hand(&self, part: u64, home: u32, at: u64) -> impl Fn(Word, WordOp) -> u64 {
        let (block, geometry) = (&self.homes[home as usize], &self.sizes.geometry);
        move |word, op| match geometry.place(word) {
            WordPlace::Home(index) => apply(block.word(at + 8 * index), op),
            WordPlace::Node(..) => self.near(part, word, op),
        }
    }

    /// Fetches bytes of the contents from a node's copy into this node's copy. `false` if that node
    /// is gone.
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
        let block = self.block_of(from)?;
        let at = self.sizes.copy_at() + start;
        let Some(view) = &block.view else {
            let get = |port: &mut RankPort| port.get_given(block.address(at), into);
            return match self.carry_out_far(engine, block.rank, get) {
                // No rank of that host remains.
                Err(PostError::PeerFailed(_)) => Ok(false),
                done => done.map(|()| true),
            };
        };
        match self.carry_out(engine, block.rank, |port| port.get(block.address(at), into)) {
            Err(PostError::PeerFailed(_)) if departed.node_is_gone(&self.sizes.geometry, from) => {
                Ok(false)
            }
            // The keeper has died or left, and other ranks of its node live: they share its memory.
            Err(PostError::PeerFailed(_) | PostError::Full { .. }) => {
                super::contents::read(view, at as usize, into);
                Ok(true)
            }
            done => done.map(|()| true),
        }
    }

    /// This node's copy in this process. It is valid as long as `self`.
    #[inline]
    pub(super) fn copy(&self) -> (NonNull<u8>, usize) {
        let block = &self.nodes[self.sizes.geometry.node() as usize];
        let view = block.view.as_ref().expect("a rank's own node is of its host");
        super::contents::tail(view, self.sizes.copy_at() as usize)
    }

    /// Wakes a rank, if it sleeps, by storing to its bell. A gone rank needs no wake. The rank may
    /// not exist, if its number was overwritten.
    #[inline(never)]
    pub(super) fn ring(&self, engine: &EngineCell, rank: u32) {
        let Some(home) = self.homes.get(rank as usize) else { return };
        if home.view.is_none() {
            // Any arrival wakes a rank of another host.
            let _ = self.tell_far(engine, home, BELL, WordOp::Swap(1));
            return;
        }
        let address = home.address(BELL);
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
            let bytes = &bytes[at..at + piece];
            if self.homes[to.rank as usize].view.is_none() {
                self.carry_out_far(engine, to.rank, |port| port.put_given(to, bytes))?;
                continue;
            }
            let put = Command::put(to, bytes);
            self.carry_out(engine, to.rank, |port| port.post(&put))?;
        }
        Ok(())
    }

    /// Whether words of other ranks are changed by commands only, because time is virtual.
    #[inline]
    pub(super) fn is_virtual(&self) -> bool {
        let own = self.sizes.geometry.rank as usize;
        !self.homes[own].near
    }

    /// Reports in all blocks that this rank no longer uses the memory.
    pub(super) fn part(&self, engine: &EngineCell) {
        let (at, parted) = self.parted_bit();
        for block in &self.homes {
            if block.view.is_some() {
                apply(block.word(at), parted);
            } else {
                // If no rank is left there, no rank needs to know.
                let _ = self.tell_far(engine, block, at, parted);
            }
        }
    }

    /// The offset and the operation that report in a block that this rank has parted.
    fn parted_bit(&self) -> (u64, WordOp) {
        let rank = self.sizes.geometry.rank;
        (PARTED + u64::from(rank / 64 * 8), WordOp::Or(1 << (rank % 64)))
    }

    /// Like [`VariableMemory::part`], in virtual time, after the letters to each rank.
    pub(super) fn part_in_time(&self, engine: &EngineCell) {
        let (at, parted) = self.parted_bit();
        for block in &self.homes {
            let told = self.command(engine, block, at, parted);
            debug_assert!(told.is_ok(), "the memory of one that died or left is the job's");
        }
        // The other ranks sleep until they are woken, and in virtual time a leaving rank wakes
        // none.
        engine.borrow().port().wake_all();
    }

    /// Casts this rank's vote on the variable, if it has not voted.
    pub(super) fn cast(&self, vote: Vote) {
        self.rest();
        let own = &self.homes[self.sizes.geometry.rank as usize];
        cast(own.word(VOTE), vote);
    }

    /// Like [`VariableMemory::cast`], in a rank's own block, when the other blocks are unknown.
    pub(super) fn cast_in(home: &View, vote: Vote) {
        if let Some(word) = home.word(VOTE) {
            cast(word, vote);
        }
    }

    /// A rank's vote on the variable. A gone rank votes no more.
    pub(super) fn vote_of(&self, engine: &EngineCell, rank: u32, gone: bool) -> Vote {
        self.rest();
        let block = &self.homes[rank as usize];
        if block.near || gone && block.view.is_some() {
            return Vote::of(apply(block.word(VOTE), WordOp::Load));
        }
        // If the rank is gone by now, its memory belongs to the job.
        self.command(engine, block, VOTE, WordOp::Load).map_or(Vote::NotYet, Vote::of)
    }

    /// The offset and length of each copied piece of contents: a single piece, unless faults are
    /// injected.
    fn pieces(&self, length: usize) -> impl Iterator<Item = (usize, usize)> {
        let piece = self.injector().map_or(length, |injector| injector.piece(length)).max(1);
        let pieces = (0..length).step_by(piece).map(move |at| (at, piece.min(length - at)));
        pieces.skip(self.injector().map_or(0, Injector::pieces_lost))
    }

    /// Like [`VariableMemory::carry_out`], at a rank of another host, which may have left.
    fn carry_out_far<R>(
        &self,
        engine: &EngineCell,
        to: u32,
        mut act: impl FnMut(&mut RankPort) -> Result<R, PostError>,
    ) -> Result<R, PostError> {
        match self.carry_out(engine, to, &mut act) {
            // Only an injected fault refused it.
            Err(PostError::Full { .. }) => act(engine.borrow_mut().port_mut()),
            done => done,
        }
    }

    /// Like [`carry_out`]. With fault injection, it rests first and is sometimes refused.
    fn carry_out<R>(
        &self,
        engine: &EngineCell,
        to: u32,
        mut act: impl FnMut(&mut RankPort) -> Result<R, PostError>,
    ) -> Result<R, PostError> {
        let at = (&self.name, to);
        let Some(injector) = self.injector() else { return carry_out(engine, at, act) };
        injector.rest();
        carry_out(engine, at, |port| match injector.refuses() {
            true => Err(PostError::Full { destination: to, cause: FullCause::Outstanding }),
            false => act(port),
        })
    }
}

/// Retries an operation of the port at rank `to` until there is room. Shared memory always has
/// room; the fault layer and some fabrics do not. Only the path to a rank that has left stays full.
/// A long wait is announced as a wait for the variable of this name.
fn carry_out<R>(
    engine: &EngineCell,
    (name, to): (&Name, u32),
    mut act: impl FnMut(&mut RankPort) -> Result<R, PostError>,
) -> Result<R, PostError> {
    let mut blocked = None;
    loop {
        let mut engine = engine.borrow_mut();
        let answer = act(engine.port_mut());
        let is_full = matches!(answer, Err(PostError::Full { .. }));
        if !is_full || engine.port().peer(to) == PeerState::Left {
            if let Some(blocked) = blocked {
                engine.awake(&blocked);
            }
            return answer;
        }
        let wait = || Wait::new(Activity::Shared).named(*name).with(Some(to), None);
        let blocked = blocked.get_or_insert_with(|| Blocked::new(wait()));
        // Make progress: rank `to` may wait for room in this rank's memory.
        engine.pass(blocked, Pace::MEMORY);
    }
}

impl RegionBlock {
    #[inline]
    fn word(&self, at: u64) -> &AtomicU64 {
        let view = self.view.as_ref().expect("words of other hosts are changed by commands");
        view.word(at).expect("words of a variable are within its blocks and aligned")
    }

    /// An operation on a word, as a command.
    fn atomic(&self, at: u64, op: WordOp) -> Atomic {
        let (operation, operand) = operation(op);
        let (target, integer) = (self.address(at), Integer::U64);
        Atomic { target, integer, operation, operand, result: None }
    }

    fn address(&self, at: u64) -> RemoteAddress {
        RemoteAddress { rank: self.rank, space: Space::Region, offset: self.offset + at }
    }
}

fn cast(word: &AtomicU64, vote: Vote) {
    let (expected, new) = (Vote::NotYet.word(), vote.word());
    apply(word, WordOp::CompareSwap { expected, new });
}

fn operation(op: WordOp) -> (AtomicOp, u64) {
    match op {
        WordOp::Load => (AtomicOp::Load, 0),
        WordOp::Swap(new) => (AtomicOp::Swap, new),
        WordOp::CompareSwap { expected, new } => (AtomicOp::CompareSwap { expected }, new),
        WordOp::Or(bits) => (AtomicOp::Or, bits),
        WordOp::And(bits) => (AtomicOp::And, bits),
        WordOp::Max(other) => (AtomicOp::Max, other),
    }
}

/// Performs an operation as a port does, in one total order: when two ranks each change a word and
/// read the other's, one sees the other's change. There are no plain stores, so where loads and
/// stores keep their order (x86) these are the same instructions as acquire and release operations.
#[inline]
fn apply(word: &AtomicU64, op: WordOp) -> u64 {
    const ONE: Ordering = Ordering::SeqCst;
    match op {
        WordOp::Load => word.load(ONE),
        WordOp::Swap(new) => word.swap(new, ONE),
        WordOp::CompareSwap { expected, new } => {
            word.compare_exchange(expected, new, ONE, ONE).unwrap_or_else(|old| old)
        }
        WordOp::Or(bits) => word.fetch_or(bits, ONE),
        WordOp::And(bits) => word.fetch_and(bits, ONE),
        WordOp::Max(other) => word.fetch_max(other, ONE),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use hikyaku_coll::Choices;
    use hikyaku_nic::hosted::Host;
    use hikyaku_nic::layer::Layer as _;
    use hikyaku_rank::Communicator;

    use super::*;

    /// The number of refusals, enough until a wait is announced.
    const REFUSALS: u32 = 100;

    fn full(destination: u32) -> PostError {
        PostError::Full { destination, cause: FullCause::Outstanding }
    }

    #[test]
    fn a_command_without_room_says_for_which_variable_it_waits() {
        let alone = Communicator::over(hikyaku_shm::single().unwrap(), Choices::default());
        let engine = alone.engine();
        let wait_of = |port: &RankPort| port.inner().host().registry().wait(0);
        let (mut refusals, mut waits) = (0, None);
        let answer = carry_out(engine, (&Name::new("field"), 0), |port| {
            refusals += 1;
            waits = wait_of(port);
            if refusals < REFUSALS { Err(full(0)) } else { Ok(7) }
        });
        assert_eq!((answer, refusals), (Ok(7), REFUSALS));
        let wait = waits.unwrap();
        assert_eq!(
            (wait.activity, wait.name.as_str(), wait.peer),
            (Activity::Shared, "field", Some(0))
        );
        assert_eq!(wait_of(engine.borrow().port()), None, "it waits no more");
    }

    #[test]
    fn a_wait_within_a_wait_leaves_the_outer_one_announced() {
        let alone = Communicator::over(hikyaku_shm::single().unwrap(), Choices::default());
        let engine = alone.engine();
        let outer = Wait::new(Activity::Receive).with(Some(0), Some(5));
        let mut blocked = Blocked::new(outer);
        let mut turns = 0;
        let mut rest = || {
            let mut engine = engine.borrow_mut();
            engine.pass(&mut blocked, Pace::MEMORY);
            engine.port().inner().host().registry().wait(0).map(|wait| wait.activity)
        };
        while rest() != Some(Activity::Receive) {
            turns += 1;
            assert!(turns < REFUSALS, "it is never announced");
        }
        let (mut refusals, mut within) = (0, None);
        let answer = carry_out(engine, (&Name::new("field"), 0), |port| {
            refusals += 1;
            within = port.inner().host().registry().wait(0).map(|wait| wait.activity);
            if refusals < REFUSALS { Err(full(0)) } else { Ok(()) }
        });
        assert_eq!((answer, within), (Ok(()), Some(Activity::Shared)));
        let after = engine.borrow().port().inner().host().registry().wait(0).unwrap();
        assert_eq!(
            (after.activity, after.peer, after.tag),
            (outer.activity, outer.peer, outer.tag)
        );
    }
}
