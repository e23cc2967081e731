//! One variable under a message protocol at this rank: its parts' state machines, its copy, and its
//! words of the control region.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use crate::word::Version;
use crate::{
    AccessKind, CopyState, Copyset, Division, Effect, EntryResult, Geometry, Mailbox, Mark,
    Refusal, Style, Want, Word, WordOp,
};

use super::super::contents::CopyContents;
use super::super::direct::RequestOutcome;
use super::super::memory::{EngineCell, Given, VariableMemory};
use super::super::options::Traffic;

/// The maximum number of times that a rank forwards one request. A request that follows an owner
/// passes the same rank a few times at most. One that goes round words that a process has
/// overwritten would never stop.
const SENT_ON_MOST: u32 = 1000;

/// The requests that a rank has forwarded to the owner it knew, by part and requester: the number
/// of the last request, and how often it was forwarded.
#[derive(Debug, Default)]
struct SentOn(BTreeMap<(u32, u32), (u32, u32)>);

impl SentOn {
    fn goes_round(&mut self, part: u32, want: &Want) -> bool {
        let (number, times) = self.0.entry((part, want.from)).or_default();
        if *number != want.number {
            (*number, *times) = (want.number, 0);
        }
        *times += 1;
        *times > SENT_ON_MOST
    }
}

/// The version of contents that arrive in pieces, and the bytes so far.
type Pieces = (u64, Vec<u8>);

/// The state of a variable at one rank.
#[derive(Debug)]
pub(in super::super) struct VariableSide {
    /// The variable's number, the same at all ranks.
    pub(super) number: u32,
    pub(in super::super) style: Style,
    memory: VariableMemory,
    division: Division,
    element: u64,
    parts: RefCell<Vec<PartSide>>,
    sent_on: RefCell<SentOn>,
    /// Contents that are arriving in pieces, by sender and part.
    coming: RefCell<BTreeMap<(u32, u32), Pieces>>,
    /// The memory that this rank gave. Taken when it is freed.
    given: RefCell<Option<Given>>,
    /// Bytes of contents received, and the number of times.
    moved: Cell<(u64, u64)>,
    pub(super) traffic: Cell<Traffic>,
}

/// The state of a part at one rank.
#[derive(Debug)]
struct PartSide {
    mailbox: Mailbox,
    /// The requested access, while the part is requested or held.
    taken: Option<AccessKind>,
    /// The outcome of the request.
    outcome: Option<Result<EntryResult, Refusal>>,
}

impl VariableSide {
    /// Creates the state for the variable in `memory`. `recoverable`: from its options.
    pub(in super::super) fn new(
        number: u32,
        style: Style,
        (memory, given): (VariableMemory, Given),
        (division, element): (Division, u64),
        recoverable: bool,
    ) -> VariableSide {
        let sizes = memory.sizes().clone();
        let (node, nodes) = (sizes.geometry.node(), sizes.geometry.nodes());
        let part = |index| {
            let (home, _) = sizes.home_of(index);
            let mailbox = Mailbox::new(style, node, nodes, home, recoverable);
            PartSide { mailbox, taken: None, outcome: None }
        };
        let parts = RefCell::new((0..sizes.parts).map(part).collect());
        let given = RefCell::new(Some(given));
        VariableSide {
            number,
            style,
            memory,
            division,
            element,
            parts,
            sent_on: RefCell::default(),
            coming: RefCell::default(),
            given,
            moved: Cell::default(),
            traffic: Cell::default(),
        }
    }

    pub(in super::super) fn memory(&self) -> &VariableMemory {
        &self.memory
    }

    /// Bytes of contents received, and the number of times.
    pub(in super::super) fn moved(&self) -> (u64, u64) {
        self.moved.get()
    }

    /// Messages and operations that this rank has sent.
    pub(in super::super) fn traffic(&self) -> Traffic {
        self.traffic.get()
    }

    pub(super) fn count(&self, messages: u64, remote: u64, bytes: u64) {
        let mut traffic = self.traffic.get();
        traffic.messages += messages;
        traffic.remote += remote;
        traffic.bytes += bytes;
        self.traffic.set(traffic);
    }

    pub(super) fn parts(&self) -> u32 {
        self.parts.borrow().len() as u32
    }

    /// Takes a part for this rank, unless it is already held or requested.
    pub(super) fn take(&self, part: u64, kind: AccessKind) -> RequestOutcome {
        let mut parts = self.parts.borrow_mut();
        let Some(state) = parts.get_mut(part as usize) else { return RequestOutcome::NoSuchPart };
        if state.taken.is_some() {
            return RequestOutcome::Taken;
        }
        (state.taken, state.outcome) = (Some(kind), None);
        RequestOutcome::Begun
    }

    /// The outcome of requesting a part.
    pub(super) fn outcome(&self, part: u64) -> Option<Result<EntryResult, Refusal>> {
        let mut parts = self.parts.borrow_mut();
        let state = &mut parts[part as usize];
        let outcome = state.outcome.take();
        if matches!(outcome, Some(Err(_))) {
            state.taken = None;
        }
        outcome
    }

    /// Ends the use of a part, or the request for it.
    pub(super) fn give(&self, part: u64) {
        let state = &mut self.parts.borrow_mut()[part as usize];
        (state.taken, state.outcome) = (None, None);
    }

    /// Makes one call of a part's state machine. Returns its effects. By stores, the words that
    /// other ranks have stored here are read before, and this rank's words are written after.
    pub(super) fn step(
        &self,
        part: u32,
        act: impl FnOnce(&mut Mailbox, &mut Vec<Effect>),
    ) -> Vec<Effect> {
        let mut parts = self.parts.borrow_mut();
        let mut effects = Vec::new();
        let Some(state) = parts.get_mut(part as usize) else { return effects };
        let mailbox = &mut state.mailbox;
        if self.style == Style::Datagrams {
            act(mailbox, &mut effects);
            return effects;
        }
        self.memory.rest();
        let owner = Version::of(self.word(part, Word::Owner, WordOp::Load));
        self.memory.rest();
        // If the node does not exist, a process has overwritten the word. Requests then go to the
        // owner that messages have named.
        if owner.node < self.memory.sizes().geometry.nodes() {
            mailbox.told(Version { shared: false, ..owner });
        }
        let held = Version::of(self.word(part, Word::Held, WordOp::Load)).position;
        mailbox.hold(held);
        self.memory.rest();
        act(mailbox, &mut effects);
        // Other ranks write to this line too: changing it costs more than the rest of a step.
        let known = mailbox.known();
        if known.bits() > owner.bits() {
            self.memory.rest();
            self.word(part, Word::Owner, WordOp::Max(known.bits()));
        }
        self.memory.rest();
        if mailbox.held() != held {
            // No other rank writes this word now: this rank owns the part, perhaps since this step.
            let node = self.memory.sizes().geometry.node();
            let held = Version { position: mailbox.held(), node, shared: false };
            self.word(part, Word::Held, WordOp::Swap(held.bits()));
        }
        effects
    }

    /// In virtual time, makes the stores that have arrived here by now visible to the next read.
    pub(in super::super) fn catch_up(&self, engine: &EngineCell) {
        if self.memory.is_virtual() && self.style == Style::Stores {
            engine.borrow_mut().port_mut().look_at_own_memory();
        }
    }

    /// Performs an operation on a part's word at this rank.
    fn word(&self, part: u32, word: impl Fn(u32) -> Word, op: WordOp) -> u64 {
        let node = self.memory.sizes().geometry.node();
        self.memory.near(u64::from(part), word(node), op)
    }

    /// Sets the outcome of requesting a part.
    pub(super) fn settle(&self, part: u32, outcome: Result<(bool, Option<Mark>), Refusal>) {
        let state = &mut self.parts.borrow_mut()[part as usize];
        let position = state.mailbox.known().position;
        state.outcome = Some(outcome.map(|(moved, mark)| EntryResult { moved, mark, position }));
    }

    /// Owner and state of a part, to this rank's knowledge. It does not poll for messages.
    pub(in super::super) fn control(&self, part: u64) -> Option<(u32, CopyState)> {
        let parts = self.parts.borrow();
        let state = parts.get(part as usize)?;
        let version = |position| Version { position, node: 0, shared: false };
        let mailbox = &state.mailbox;
        let (owner, held) = match self.style {
            Style::Datagrams => {
                let owner = Version { node: mailbox.owner(), ..mailbox.known() };
                (owner, version(mailbox.held()))
            }
            Style::Stores => (
                Version::of(self.word(part as u32, Word::Owner, WordOp::Load)),
                Version::of(self.word(part as u32, Word::Held, WordOp::Load)),
            ),
        };
        Some((owner.node, CopyState::of(state.taken, held, owner)))
    }

    /// The holder of a part that this rank waits for, to this rank's knowledge.
    pub(in super::super) fn holder(&self, part: u64) -> Option<u32> {
        self.parts.borrow().get(part as usize)?.mailbox.holder()
    }

    /// First byte and length of a part.
    fn extent(&self, part: u32) -> (usize, usize) {
        let (start, length) = self.division.extent(u64::from(part));
        ((start * self.element) as usize, (length * self.element) as usize)
    }

    fn contents(&self, part: u32) -> CopyContents<u8> {
        let (start, length) = self.extent(part);
        CopyContents::new(self.memory.copy(), start, length)
    }

    /// Calls `act` with the contents of a part that this rank owns and sends.
    pub(super) fn with_contents<R>(&self, part: u32, act: impl FnOnce(&[u8]) -> R) -> R {
        // SAFETY: the protocol sends contents only from their owner, and only while no rank writes
        // them: this rank is not inside for writing, and no other stores into an owner's copy.
        let bytes = unsafe { self.contents(part).as_slice() };
        act(bytes)
    }

    /// Stores contents into another rank's copy. Meanwhile the copy's word says that it holds
    /// nothing. Then it names the version, unless the contents are damaged (FG-14).
    pub(super) fn fill(
        &self,
        engine: &EngineCell,
        (part, to): (u32, u32),
        version: u64,
        mark: Option<Mark>,
    ) {
        let held = Version { position: version, node: to, shared: false }.bits();
        let place = (u64::from(part), to, 0);
        let word = |value| self.memory.tell(engine, place, (Word::Held(to), WordOp::Swap(value)));
        let (start, length) = self.extent(part);
        let address = self.memory.copy_address(to, start as u64);
        let stored = self.with_contents(part, |bytes| {
            word(0)?;
            self.memory.store(engine, address, bytes)?;
            if mark.is_none() { word(held) } else { Ok(()) }
        });
        // Only one error is possible: the receiver has died, and needs no contents.
        debug_assert!(!matches!(stored, Err(hikyaku_nic::fabric::PostError::Unsupported(_))));
        self.count(0, 3, length as u64 + 16);
    }

    /// Stores the owner's word at another rank, by maximum (FG-06).
    pub(super) fn tell(&self, engine: &EngineCell, (part, to): (u32, u32), version: Version) {
        let operation = (Word::Owner(to), WordOp::Max(version.bits()));
        let place = (u64::from(part), to, 0);
        // A dead rank needs no notification.
        let _ = self.memory.tell(engine, place, operation);
        self.count(0, 1, 8);
    }

    /// Stores the owner's word, received in a letter from another host, at the other ranks of this
    /// host. None of them takes its memory back before this rank has parted.
    pub(super) fn pass_on(&self, engine: &EngineCell, part: u32, version: Version) {
        let Geometry { rank: own, ranks, .. } = self.memory.sizes().geometry;
        if self.has_parted(own) {
            return;
        }
        for to in (0..ranks).filter(|to| *to != own && !self.has_parted(*to)) {
            let is_far = engine.borrow().port().is_far(to);
            if !is_far {
                self.tell(engine, (part, to), version);
            }
        }
    }

    /// Whether a rank has parted, that is, has dropped its handles, to this rank's knowledge.
    pub(super) fn has_parted(&self, rank: u32) -> bool {
        self.given.borrow().as_ref().is_none_or(|given| given.parted().contains(rank))
    }

    /// Whether this rank has forwarded another rank's request so often that it must be going in
    /// circles.
    pub(super) fn goes_round(&self, part: u32, want: &Want) -> bool {
        if want.from == self.memory.sizes().geometry.rank {
            return false;
        }
        self.sent_on.borrow_mut().goes_round(part, want)
    }

    /// Counts contents that have been stored into this rank's copy.
    pub(super) fn note_moved(&self, part: u32) {
        let (bytes, times) = self.moved.get();
        self.moved.set((bytes + self.extent(part).1 as u64, times + 1));
    }

    /// Stores a piece of contents that has arrived. The first piece has offset 0.
    pub(super) fn piece(&self, from: u32, part: u32, version: u64, offset: u64, bytes: &[u8]) {
        if part >= self.parts() {
            return;
        }
        let length = self.extent(part).1;
        let mut coming = self.coming.borrow_mut();
        if offset == 0 {
            coming.insert((from, part), (version, Vec::with_capacity(length)));
        }
        let Some((known, so_far)) = coming.get_mut(&(from, part)) else { return };
        let fits = so_far.len() as u64 == offset && so_far.len() + bytes.len() <= length;
        if *known == version && fits {
            so_far.extend_from_slice(bytes);
        } else {
            coming.remove(&(from, part));
        }
    }

    /// Copies a version whose pieces have all arrived, if the state machine wants it. `false`:
    /// pieces are missing.
    pub(super) fn assembled(&self, from: u32, part: u32, version: u64) -> bool {
        let Some((known, bytes)) = self.coming.borrow_mut().remove(&(from, part)) else {
            return false;
        };
        if known != version || bytes.len() != self.extent(part).1 {
            return false;
        }
        if self.parts.borrow()[part as usize].mailbox.takes(version) {
            // SAFETY: this rank is not inside, as was just checked, so that no guard has the part;
            // no other rank reaches this copy, which is this rank's alone.
            let copy = unsafe { self.contents(part).as_slice_mut() };
            copy.copy_from_slice(&bytes);
            self.note_moved(part);
        }
        true
    }

    /// Drops the pieces of a gone rank: the rest will not arrive.
    pub(super) fn forget_pieces(&self, from: u32) {
        self.coming.borrow_mut().retain(|(sender, _), _| *sender != from);
    }

    /// Whether the remaining ranks, `others`, can do without this one.
    pub(super) fn may_leave(&self, others: &Copyset) -> bool {
        others.is_within(&self.parted())
            || self.parts.borrow().iter().all(|part| part.mailbox.may_leave())
    }

    /// The lowest of `others` that has not parted, and so stays.
    pub(super) fn heir(&self, others: &Copyset) -> Option<u32> {
        let parted = self.parted();
        (0..Copyset::MOST).find(|rank| others.contains(*rank) && !parted.contains(*rank))
    }

    /// The parts that this rank has to hand over, or ask about, before it leaves.
    pub(super) fn parts_to_hand_over(&self) -> Vec<u32> {
        let parts = self.parts.borrow();
        let ours = parts.iter().enumerate().filter(|(_, part)| part.mailbox.may_hand_over());
        ours.map(|(at, _)| at as u32).collect()
    }

    /// Whether a rank has not yet answered the hand-off of a part.
    pub(super) fn waits_for_arrival(&self) -> bool {
        self.parts.borrow().iter().any(|part| part.mailbox.waits_for_arrival())
    }

    /// Whether no rank uses the variable any more.
    pub(super) fn is_over(&self) -> bool {
        self.given.borrow().as_ref().is_some_and(Given::is_over)
    }

    /// Frees this rank's memory. Requires [`VariableSide::is_over`].
    pub(super) fn give_back(&self) {
        self.take_given().into_iter().for_each(Given::free);
    }

    /// Takes the memory that this rank gave.
    pub(super) fn take_given(&self) -> Option<Given> {
        self.given.borrow_mut().take()
    }

    fn parted(&self) -> Copyset {
        self.given.borrow().as_ref().map(Given::parted).unwrap_or_default()
    }

    /// Reports that this rank has dropped its handles. It serves on until all others have parted.
    pub(in super::super) fn part(&self, engine: &EngineCell) {
        if self.memory.is_virtual() && !std::thread::panicking() {
            self.memory.part_in_time(engine);
        } else {
            self.memory.part(engine);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Patience;

    use super::*;

    #[test]
    fn a_request_is_sent_on_so_often_and_a_new_one_again() {
        let mut sent_on = SentOn::default();
        let want = |from, number| {
            let (kind, patience) = (AccessKind::Write, Patience::Wait);
            Want { from, number, kind, patience, held: 0, doubt: false }
        };
        for number in 1..3 {
            assert!((0..SENT_ON_MOST).all(|_| !sent_on.goes_round(0, &want(1, number))));
            assert!(sent_on.goes_round(0, &want(1, number)));
            assert!(
                !sent_on.goes_round(1, &want(1, number)) && !sent_on.goes_round(0, &want(2, 1))
            );
        }
    }
}
