//! The driver of `direct`: it performs operations on words in memory, and fetches contents.
//!
//! The state machine decides each step. The driver carries it out: in place on the rank's own node,
//! and by commands of the port elsewhere. No other rank's program takes part.

use std::cell::{Cell, RefCell};

use crate::word::{self, Head, READERS_A_WORD, READING, Version};
use crate::{
    AccessKind, Action, CopyState, Departed, Direct, EntryResult, Free, Left, Patience, Refusal,
    Word, WordOp,
};
use hikyaku_nic::fabric::{PeerState, Port, PostError};
use hikyaku_rank::{Communicator, ForkedProcess};

use super::contents::CopyContents;
use super::error::Error;
use super::memory::{EngineCell, Given, VariableMemory};
use super::options::Traffic;

/// Polls of the watched word before the protocol is driven again.
const GLANCES: u32 = 8;

/// The result of requesting a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestOutcome {
    /// The request has begun and must be driven.
    Begun,
    /// This rank already holds or requests the part.
    Taken,
    /// The part's words were overwritten: it is lost for this rank.
    Overwritten,
    /// The variable has no part with this number.
    NoSuchPart,
}

/// The result of a call of the protocol.
#[derive(Debug)]
pub(super) enum CallOutcome {
    Wait,
    /// Poll again soon: this rank lets others ask first, and they will not wake it.
    StandBack,
    Entered(EntryResult),
    Refused(Refusal),
    Released,
}

/// The state of a variable under `direct` at one rank.
#[derive(Debug)]
pub(super) struct DirectDriver {
    memory: VariableMemory,
    /// The memory that this rank gave; taken when the variable is dropped.
    given: Option<Given>,
    parts: RefCell<Vec<PartState>>,
    departed: RefCell<(u64, Departed)>,
    /// Bytes fetched from other nodes, and the number of fetches.
    moved: Cell<(u64, u64)>,
    /// The process of the rank.
    process: ForkedProcess,
    /// The process that may take the fast path. None with fault injection: then most acquisitions
    /// are step by step.
    fast_in: ForkedProcess,
    /// Whether operations in place take real time: false in virtual time.
    at_hand: bool,
    /// [`Direct::most_steps`].
    most_steps: u64,
}

/// A part at this rank.
#[derive(Debug)]
struct PartState {
    protocol: Direct,
    /// The requested access, while the part is requested or held. Never cleared once the part is
    /// overwritten.
    taken: Option<AccessKind>,
    /// Whether its words held values that no rank writes. The part is never requested again.
    overwritten: bool,
    home: u32,
    /// Whether its words are near. In virtual time none are, because an operation in place takes no
    /// time.
    near: bool,
    /// The offset of its words in its home's block.
    at: u64,
}

impl DirectDriver {
    /// Creates the state of all parts of the variable in `memory`.
    pub(super) fn new(memory: VariableMemory, given: Given, recoverable: bool) -> DirectDriver {
        let sizes = memory.sizes();
        let part = |index| {
            let (home, slot) = sizes.home_of(index);
            let protocol = Direct::new(sizes.geometry.clone(), home, recoverable);
            let (near, at) = (memory.is_near(home), sizes.words_at(slot));
            PartState { protocol, taken: None, overwritten: false, home, near, at }
        };
        let parts = RefCell::new((0..sizes.parts).map(part).collect());
        let (departed, moved) = (RefCell::default(), Cell::default());
        let process = ForkedProcess::this();
        let fast_in = if memory.injector().is_some() { ForkedProcess::NONE } else { process };
        let at_hand = memory.is_near(sizes.geometry.rank);
        let (given, most_steps) = (Some(given), Direct::most_steps(&sizes.geometry));
        DirectDriver {
            memory,
            given,
            parts,
            departed,
            moved,
            process,
            fast_in,
            at_hand,
            most_steps,
        }
    }

    pub(super) fn memory(&self) -> &VariableMemory {
        &self.memory
    }

    /// Bytes fetched from other nodes, and the number of fetches.
    pub(super) fn moved(&self) -> (u64, u64) {
        self.moved.get()
    }

    /// This rank's operations on the memory of other ranks.
    pub(super) fn traffic(&self) -> Traffic {
        let (remote, bytes) = (self.memory.remote(), self.moved.get());
        Traffic { messages: 0, remote: remote + bytes.1, bytes: 8 * remote + bytes.0 }
    }

    /// Requests a part.
    #[inline]
    pub(super) fn request(
        &self,
        part: u64,
        kind: AccessKind,
        patience: Patience,
    ) -> RequestOutcome {
        let mut parts = self.parts.borrow_mut();
        let Some(state) = parts.get_mut(part as usize) else { return RequestOutcome::NoSuchPart };
        if state.taken.is_some() {
            return if state.overwritten {
                RequestOutcome::Overwritten
            } else {
                RequestOutcome::Taken
            };
        }
        state.taken = Some(kind);
        state.protocol.request(kind, patience);
        RequestOutcome::Begun
    }

    /// Acquires a part on the fast path. `None`: the part must be requested.
    #[inline(always)]
    pub(super) fn enter_free(
        &self,
        rank: &Communicator,
        part: u64,
        kind: AccessKind,
        extent: impl Fn() -> (u64, usize),
    ) -> Option<Result<EntryResult, Error>> {
        let mut parts = self.parts.borrow_mut();
        let state = parts.get_mut(part as usize).filter(|state| state.taken.is_none())?;
        if !state.near {
            return self.enter_kept(state, part, kind).map(Ok);
        }
        if !self.is_fast(state) {
            return None;
        }
        let words = self.memory.at_hand(part, state.home, state.at);
        let geometry = &self.memory.sizes().geometry;
        let gone = |node| self.departed.borrow().1.node_is_gone(geometry, node);
        match state.protocol.enter_free(kind, words, gone) {
            Free::Entered(entry) => {
                state.taken = Some(kind);
                Some(Ok(entry))
            }
            Free::Begun(answer) => {
                state.taken = Some(kind);
                drop(parts);
                self.enter_in_steps(rank, part, answer, extent())
            }
            Free::Not => None,
        }
    }

    /// Acquires a part that this rank keeps, far from the part's home, by a word of its own node.
    #[inline(never)]
    fn enter_kept(
        &self,
        state: &mut PartState,
        part: u64,
        kind: AccessKind,
    ) -> Option<EntryResult> {
        if !self.is_at_hand() {
            return None;
        }
        let entry = state.protocol.enter_kept(kind, |word, op| self.memory.near(part, word, op))?;
        state.taken = Some(kind);
        Some(entry)
    }

    /// Releases such a part. `false`: it must be released step by step.
    #[inline(never)]
    fn leave_kept(&self, state: &mut PartState, part: u64) -> bool {
        let near = |word, op| self.memory.near(part, word, op);
        let left = self.is_at_hand() && state.protocol.leave_kept(near);
        state.taken = state.taken.filter(|_| !left);
        left
    }

    /// Whether words of this rank's node may be changed on the fast path.
    #[inline]
    fn is_at_hand(&self) -> bool {
        self.at_hand && (self.fast_in.is_this() || self.is_fast_with_faults())
    }

    /// Continues on the slow path. The rank has the turn and waits for no other rank.
    #[inline(never)]
    fn enter_in_steps(
        &self,
        rank: &Communicator,
        part: u64,
        answer: u64,
        extent: (u64, usize),
    ) -> Option<Result<EntryResult, Error>> {
        match self.drive_on(rank, part, answer, || extent) {
            Ok(CallOutcome::Entered(entry)) => Some(Ok(entry)),
            // The part is lost. A rank that requests it gets the error.
            Ok(_) => None,
            Err(error) => {
                self.give_back(part, false);
                Some(Err(error))
            }
        }
    }

    /// Whether the fast path may be taken.
    #[inline]
    fn is_fast(&self, state: &PartState) -> bool {
        state.near && (self.fast_in.is_this() || self.is_fast_with_faults())
    }

    #[cold]
    #[inline(never)]
    fn is_fast_with_faults(&self) -> bool {
        self.process.is_this()
            && self.memory.injector().is_some_and(|injector| injector.takes_fast_path())
    }

    /// Releases a part on the fast path. `false`: it must be released step by step.
    #[inline]
    pub(super) fn leave_free(&self, rank: &Communicator, part: u64) -> bool {
        let mut parts = self.parts.borrow_mut();
        let state = &mut parts[part as usize];
        if !state.near {
            return self.leave_kept(state, part);
        }
        if !self.is_fast(state) {
            return false;
        }
        let words = self.memory.at_hand(part, state.home, state.at);
        let over = match state.protocol.leave_free(words) {
            Left::Free => true,
            Left::Wake(next) => {
                self.memory.ring(rank.engine(), next);
                self.look_around(rank.engine());
                !self.departed.borrow().1.contains(next)
            }
            Left::Onward => false,
        };
        if over {
            state.taken = None;
            return true;
        }
        state.protocol.go_on();
        drop(parts);
        self.finish(rank, part);
        true
    }

    /// Drives steps that wait for no rank to their end. They cannot fail, because the words of
    /// living ranks can always be changed.
    #[inline(never)]
    fn finish(&self, rank: &Communicator, part: u64) {
        let _ = self.drive(rank, part, || (0, 0));
    }

    /// Drives a part until it has an outcome. `extent`: the first byte and the length of the part.
    #[inline]
    pub(super) fn drive(
        &self,
        rank: &Communicator,
        part: u64,
        extent: impl Fn() -> (u64, usize),
    ) -> Result<CallOutcome, Error> {
        self.drive_on(rank, part, 0, extent)
    }

    /// Like [`DirectDriver::drive`], beginning with this answer.
    #[inline]
    fn drive_on(
        &self,
        rank: &Communicator,
        part: u64,
        answer: u64,
        extent: impl Fn() -> (u64, usize),
    ) -> Result<CallOutcome, Error> {
        match self.memory.injector() {
            None => self.drive_by::<false>(rank, part, answer, extent),
            Some(_) => self.drive_with_faults(rank, part, answer, extent()),
        }
    }

    #[cold]
    #[inline(never)]
    fn drive_with_faults(
        &self,
        rank: &Communicator,
        part: u64,
        answer: u64,
        extent: (u64, usize),
    ) -> Result<CallOutcome, Error> {
        self.drive_by::<true>(rank, part, answer, || extent)
    }

    #[inline(always)]
    fn drive_by<const FAULTS: bool>(
        &self,
        rank: &Communicator,
        part: u64,
        mut answer: u64,
        extent: impl Fn() -> (u64, usize),
    ) -> Result<CallOutcome, Error> {
        let mut parts = self.parts.borrow_mut();
        let state = &mut parts[part as usize];
        let mut departed = self.departed.borrow_mut();
        let departed = &mut *departed;
        for _ in 0..self.most_steps {
            let answered = match state.protocol.next(answer, &departed.1) {
                Action::Access(word, op) => {
                    let place = (part, state.home, state.at);
                    let access = (word, op);
                    match FAULTS {
                        false => self.memory.access(rank.engine(), &departed.1, place, access),
                        true => {
                            let engine = rank.engine();
                            self.memory.access_with_faults(engine, &departed.1, place, access)
                        }
                    }
                }
                Action::Copy { from } => {
                    note_departures(rank.engine(), departed);
                    let there = self.fetch(rank, extent(), from, &departed.1);
                    note_departures(rank.engine(), departed);
                    there.map(|there| u64::from(!there))
                }
                Action::Wake(next) => {
                    self.memory.ring(rank.engine(), next);
                    note_departures(rank.engine(), departed);
                    Ok(0)
                }
                Action::Wait => {
                    note_departures(rank.engine(), departed);
                    return Ok(CallOutcome::Wait);
                }
                Action::StandBack => {
                    note_departures(rank.engine(), departed);
                    return Ok(CallOutcome::StandBack);
                }
                Action::Entered(entry) => return Ok(CallOutcome::Entered(entry)),
                Action::Refused(Refusal::Overwritten) => return Ok(state.abandon()),
                Action::Refused(refusal) => {
                    state.taken = None;
                    return Ok(CallOutcome::Refused(refusal));
                }
                Action::Released => {
                    state.taken = None;
                    return Ok(CallOutcome::Released);
                }
            };
            answer = match answered {
                Ok(answer) => answer,
                // A word names a node that does not exist.
                Err(PostError::NoSuchRank { .. }) => return Ok(state.abandon()),
                Err(error) => {
                    state.abandon();
                    return Err(error.into());
                }
            };
        }
        Ok(state.abandon())
    }

    fn fetch(
        &self,
        rank: &Communicator,
        extent: (u64, usize),
        from: u32,
        departed: &Departed,
    ) -> Result<bool, PostError> {
        let contents = CopyContents::<u8>::new(self.memory.copy(), extent.0 as usize, extent.1);
        // SAFETY: the turn is this rank's, and its node's copy is old: no rank of the node reads or
        // writes it until the turn is passed.
        let into = unsafe { contents.as_slice_mut() };
        let there = self.memory.fetch(rank.engine(), departed, from, extent, into)?;
        if there {
            let (bytes, times) = self.moved.get();
            self.moved.set((bytes + extent.1 as u64, times + 1));
        }
        Ok(there)
    }

    /// If the watched word can be read in place, polls a few times whether it has changed.
    #[inline]
    pub(super) fn watch(&self, part: u64) {
        let parts = self.parts.borrow();
        let state = &parts[part as usize];
        let watched = state.protocol.watches().filter(|_| state.near);
        let Some((word, value)) = watched else { return std::hint::spin_loop() };
        let words = self.memory.at_hand(part, state.home, state.at);
        for _ in 0..GLANCES {
            std::hint::spin_loop();
            if words(word, WordOp::Load) != value {
                return;
            }
        }
    }

    /// Makes a request stop standing back.
    pub(super) fn insist(&self, part: u64) {
        self.parts.borrow_mut()[part as usize].protocol.insist();
    }

    /// Updates the set of dead ranks, for requests that do not wait and after a rank was woken.
    pub(super) fn look_around(&self, engine: &EngineCell) {
        note_departures(engine, &mut self.departed.borrow_mut());
    }

    /// Releases a part that was `had`, or cancels a request for it.
    #[inline]
    pub(super) fn give(&self, rank: &Communicator, part: u64, had: bool) {
        if self.give_back(part, had) {
            self.finish(rank, part);
        }
    }

    /// Begins to release a part that was `had`, or to cancel a request for it. Returns whether the
    /// part must be driven for that.
    #[inline]
    fn give_back(&self, part: u64, had: bool) -> bool {
        let mut parts = self.parts.borrow_mut();
        let state = &mut parts[part as usize];
        if state.overwritten {
            return false;
        }
        if had {
            state.protocol.release();
            return true;
        }
        let begun = state.protocol.cancel();
        state.taken = state.taken.filter(|_| begun);
        begun
    }

    /// Owner and state of a part at this node, from the control region. `None` if there is no such
    /// part.
    pub(super) fn control(
        &self,
        engine: &EngineCell,
        part: u64,
    ) -> Result<Option<(u32, CopyState)>, Error> {
        let parts = self.parts.borrow();
        let Some(state) = parts.get(part as usize) else { return Ok(None) };
        let node = self.memory.sizes().geometry.node();
        let load = |word| {
            let place = (part, state.home, state.at);
            let departed = &self.departed.borrow().1;
            self.memory.access(engine, departed, place, (word, WordOp::Load))
        };
        let owner = Version::of(load(Word::Owner(node))?);
        let held = Version::of(load(Word::Held(node))?);
        Ok(Some((owner.node, CopyState::of(state.taken, held, owner))))
    }

    /// The holder of a part that this rank waits for: the rank whose turn it is, or a reader.
    pub(super) fn holder(&self, part: u64) -> Option<u32> {
        let parts = self.parts.borrow();
        let state = parts.get(part as usize)?;
        let geometry = &self.memory.sizes().geometry;
        let look = |word| self.memory.peek((part, state.home, state.at), word);
        let position = Head::of(look(Word::Head)?).position;
        let cell = word::RequestCell::of(look(geometry.cell(position))?);
        if cell.position == position && cell.rank != geometry.rank {
            return Some(cell.rank).filter(|rank| *rank < geometry.ranks);
        }
        (0..geometry.reader_words()).find_map(|at| {
            let readers = look(Word::Readers(at))? & READING;
            (readers != 0).then(|| at * READERS_A_WORD + readers.trailing_zeros())
        })
    }

    /// Ends the use of the variable. Returns the memory that this rank gave.
    pub(super) fn part(&mut self, engine: &EngineCell) -> Option<Given> {
        self.memory.part(engine);
        self.given.take()
    }
}

/// Updates the set of gone ranks, if there are more than those already `seen`.
fn note_departures(engine: &EngineCell, (seen, departed): &mut (u64, Departed)) {
    let engine = engine.borrow();
    let port = engine.port();
    let now = port.departures();
    if now == *seen {
        return;
    }
    let ended = port.ended_since(std::mem::replace(seen, now));
    for rank in ended.unwrap_or_else(|| (0..port.size()).collect()) {
        match port.peer(rank) {
            PeerState::Starting | PeerState::Running => {}
            PeerState::Left => departed.insert_left(rank),
            PeerState::Failed(_) => departed.insert(rank),
        }
    }
}

impl PartState {
    /// Ends a request whose words were overwritten, and refuses all later ones: the variable's
    /// queue may name this rank from now on.
    #[cold]
    fn abandon(&mut self) -> CallOutcome {
        self.overwritten = true;
        self.protocol.abandon();
        CallOutcome::Refused(Refusal::Overwritten)
    }
}
