//! Keeping: an idle variable stays with a rank that writes it repeatedly.
//!
//! The words of the queue are at the variable's home. A rank far from the home that has written
//! twice in a row, and finds no rank behind it, keeps its turn when it releases. Acquiring again is
//! then one compare-and-swap of `held`, a word of its own node, and so is releasing. To other ranks
//! the variable appears held all the time, except for the value of that word. A rank that wants the
//! variable *asks for it* there, also by a compare-and-swap.
//!
//! ```text
//!   keeper                    held                a rank that wants the variable
//!   ------                    ----                ------------------------------
//!   releases; cell: kept      7, kept
//!   acquires                  7, kept, inside
//!   releases                  7, kept
//!                             7, kept, asked      asks; the turn is over: passes it on
//!   or, if the keeper is inside at the time:
//!   acquires                  7, kept, inside
//!                             ..., inside, asked  asks, and waits behind it
//!   releases: passes it on    7
//! ```
//!
//! The cell says that its turn is kept. The cell is a separate word, so other requests do not pay
//! for the check. When keeper and waiting rank meet, one of them sees the other: the keeper writes
//! the cell and then checks for a rank behind it. A waiting rank takes a cell and then reads the
//! cell of the head.
//!
//! **A keeper that reads** does so beside other readers. It sets its bit at the home, as all
//! readers do, and then checks whether the variable is still kept. If it is, a rank that asks for
//! it later finds the bit. That is two operations at home instead of ten.
//!
//! **A keeper that dies** was inside if the word says so. Then its contents are torn, and no other
//! copy of that version exists. Otherwise the kept contents are whole.
//!
//! A rank that writes once, alternating with ranks of other nodes, does not keep. It would cost
//! each of them six more operations to ask the keeper, pass the turn on and begin again.

use super::onward::Then;
use super::recover::{RepairStep, TurnRecovery};
use super::{Direct, Pending};
use crate::geometry::Word;
use crate::protocol::{Action, EntryResult, Patience, WordOp};
use crate::word::{AccessKind, Head, Mark, READING, RequestCell, RequestPhase, Version};

/// The turn that this rank keeps, and its last question to another keeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Keeping {
    /// The turn that this rank keeps; 0 for none.
    turn: u64,
    /// The turn of this rank's last write.
    pub(super) wrote: u64,
    /// The last turn for which this rank asked its keeper.
    asked: u64,
}

impl Keeping {
    pub(super) const NONE: Keeping = Keeping { turn: 0, wrote: 0, asked: 0 };

    /// Whether this rank keeps the variable. Another rank may have asked for it meanwhile.
    #[inline]
    pub(super) fn keeps(&self) -> bool {
        self.turn != 0
    }
}

impl Direct {
    /// The value of this node's word while this rank keeps the turn `of`.
    fn kept(&self, of: u64) -> u64 {
        self.kept_by(of, self.geometry.node())
    }

    fn kept_by(&self, position: u64, node: u32) -> u64 {
        Version { position, node, shared: false }.bits() | Version::KEPT
    }

    /// Changes this node's word from one of these states to another.
    fn change(&mut self, state: Pending, (from, to): (u64, u64)) -> Action {
        let own = Word::Held(self.geometry.node());
        let kept = self.kept(self.keeping.turn);
        let op = WordOp::CompareSwap { expected: kept | from, new: kept | to };
        self.access(state, own, op)
    }

    /// Begins a request.
    #[inline]
    pub(super) fn begin(&mut self) -> Action {
        if self.keeping.keeps() { self.take_again() } else { self.load_head() }
    }

    #[inline(never)]
    fn take_again(&mut self) -> Action {
        if self.kind == AccessKind::Write {
            return self.change(Pending::Again, (0, Version::INSIDE));
        }
        let (at, bit) = self.geometry.reader_bit();
        self.access(Pending::ReadAgain, Word::Readers(at), WordOp::Or(bit))
    }

    pub(super) fn on_again(&mut self, found: u64) -> Action {
        if found == self.kept(self.keeping.turn) {
            return self.enter_again();
        }
        self.keeping.turn = 0;
        self.load_head()
    }

    fn enter_again(&mut self) -> Action {
        self.turn = self.keeping.turn;
        self.mark = None;
        self.on_entered()
    }

    pub(super) fn check_kept(&mut self, state: Pending) -> Action {
        self.access(state, Word::Held(self.geometry.node()), WordOp::Load)
    }

    /// Enters if no rank had asked for the variable when this rank had set its bit as a reader.
    pub(super) fn on_still_kept(&mut self, found: u64) -> Action {
        if found == self.kept(self.keeping.turn) {
            return self.enter_again();
        }
        self.keeping.turn = 0;
        let (at, bit) = self.geometry.reader_bit();
        self.access(Pending::Retreat, Word::Readers(at), WordOp::And(!bit))
    }

    /// Clears the bit, which was set too late. A writer may wait for it.
    pub(super) fn on_retreat(&mut self, before: u64) -> Action {
        let (_, bit) = self.geometry.reader_bit();
        if before & READING & !bit != 0 {
            return self.load_head();
        }
        self.access(Pending::Retreated, Word::Head, WordOp::Load)
    }

    /// Whether releasing keeps the turn: no other rank has held the variable since this rank's last
    /// write.
    pub(super) fn is_to_be_kept(&self) -> bool {
        let (position, node) = (self.keeping.wrote, self.geometry.node());
        let again = self.latest == Version { position, node, shared: false };
        again && self.mark.is_none() && !self.courtesy.near
    }

    /// Handles the next answer while a kept variable, or one to be kept, is released.
    pub(super) fn next_of_keeping(&mut self, answer: u64) -> Action {
        let place = self.geometry.cell(self.turn);
        match self.state {
            Pending::Keep => {
                let (rank, kind, phase) =
                    (self.geometry.rank, AccessKind::Write, RequestPhase::Kept);
                let cell = RequestCell { position: self.turn, rank, kind, phase };
                self.access(Pending::Kept, place, WordOp::Swap(cell.bits()))
            }
            Pending::Kept => {
                let next = self.geometry.cell(self.turn + 1);
                self.access(Pending::Behind, next, WordOp::Load)
            }
            Pending::Behind if RequestCell::of(answer).position == self.turn + 1 => {
                self.head = Head { position: self.turn, mark: None };
                self.then = Then::Release;
                self.ask_for(self.geometry.rank)
            }
            Pending::Behind => {
                self.keeping.turn = self.turn;
                self.over()
            }
            Pending::LetGoAgain => self.change(Pending::LetGo, (Version::INSIDE, 0)),
            Pending::LetGo => self.on_let_go(answer),
            Pending::ReadKept if answer == self.kept(self.keeping.turn) => self.over(),
            Pending::ReadKept => {
                self.keeping.turn = 0;
                self.access(Pending::LastReader, Word::Head, WordOp::Load)
            }
            _ => unreachable!("all other states are those of asking"),
        }
    }

    fn on_let_go(&mut self, found: u64) -> Action {
        if found == self.kept(self.turn) | Version::INSIDE {
            return self.over();
        }
        // A rank waits. `latest` still names the newest copy.
        self.keeping.turn = 0;
        let (position, node) = (self.turn, self.geometry.node());
        let whole = Version { position, node, shared: false };
        self.access(Pending::TurnOn, Word::Held(node), WordOp::Swap(whole.bits()))
    }

    /// Whether this cell, which has the turn, is kept, and this rank has not yet asked its keeper
    /// for it.
    #[inline]
    pub(super) fn is_to_be_asked_for(&self, cell: RequestCell) -> bool {
        cell.phase == RequestPhase::Kept && cell.position != self.keeping.asked
    }

    /// Asks the keeper for the turn of the head.
    pub(super) fn ask_for(&mut self, keeper: u32) -> Action {
        self.recovery = TurnRecovery { victim: keeper, ..TurnRecovery::NONE };
        let kept = self.kept_by(self.head.position, self.geometry.node_of(keeper));
        self.ask_for_from(kept)
    }

    fn ask_for_from(&mut self, expected: u64) -> Action {
        self.recovery.step = RepairStep::Ask(expected);
        let node = self.geometry.node_of(self.recovery.victim);
        let op = WordOp::CompareSwap { expected, new: expected | Version::ASKED };
        self.access(Pending::Recover, Word::Held(node), op)
    }

    pub(super) fn on_asked_for(&mut self, expected: u64, found: u64) -> Action {
        let kept = self.kept_by(self.head.position, self.geometry.node_of(self.recovery.victim));
        match found ^ kept {
            // The keeper was not inside: its turn is over.
            0 if expected == kept => self.pass_over(None),
            Version::ASKED => self.pass_over(None),
            0 => self.ask_for_from(kept),
            Version::INSIDE if expected == kept => self.ask_for_from(kept | Version::INSIDE),
            // The keeper passes the turn on when it releases, or is doing so, or has done so.
            _ => self.wait_behind(),
        }
    }

    fn wait_behind(&mut self) -> Action {
        self.recovery = TurnRecovery::NONE;
        self.keeping.asked = self.head.position;
        match self.then {
            Then::Ask if self.claimed => self.rest(),
            Then::Ask => self.try_next_turn(self.head.position),
            Then::Enter | Then::Fail | Then::Release => self.passed_on(),
        }
    }

    /// Acquires for writing a variable that this rank keeps. `access` performs an operation on a
    /// word of its node. `None`: nothing has been changed, and the variable must be requested.
    #[inline]
    pub fn enter_kept(
        &mut self,
        kind: AccessKind,
        access: impl FnOnce(Word, WordOp) -> u64,
    ) -> Option<EntryResult> {
        debug_assert_eq!(self.state, Pending::Idle, "one request at a time");
        if !self.keeping.keeps() || kind == AccessKind::Read {
            return None;
        }
        let (own, expected) = (Word::Held(self.geometry.node()), self.kept(self.keeping.turn));
        let new = expected | Version::INSIDE;
        if access(own, WordOp::CompareSwap { expected, new }) != expected {
            return None;
        }
        self.kind = kind;
        self.patience = Patience::Wait;
        self.moved = false;
        self.turn = self.keeping.turn;
        self.mark = None;
        self.state = Pending::Inside;
        Some(EntryResult { moved: false, mark: None, position: self.turn })
    }

    /// Releases a kept variable after writing. `false`: nothing has been changed, and the variable
    /// must be released step by step.
    #[inline]
    pub fn leave_kept(&mut self, access: impl FnOnce(Word, WordOp) -> u64) -> bool {
        debug_assert_eq!(self.state, Pending::Inside, "only a held variable is released");
        if !self.keeping.keeps() || self.kind == AccessKind::Read {
            return false;
        }
        let (own, new) = (Word::Held(self.geometry.node()), self.kept(self.turn));
        let expected = new | Version::INSIDE;
        if access(own, WordOp::CompareSwap { expected, new }) != expected {
            return false;
        }
        self.claimed = false;
        self.state = Pending::Idle;
        true
    }
}

/// The state that a dead keeper left in its node's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remains {
    Whole,
    /// The keeper was inside.
    Torn,
    /// Another rank has found the torn contents and adopted them.
    Adopted,
}

impl Remains {
    pub(super) fn of(held: u64, turn: u64) -> Remains {
        let version = Version::of(held);
        match version.position == turn {
            true if version.shared => Remains::Adopted,
            true if held & Version::INSIDE != 0 => Remains::Torn,
            _ => Remains::Whole,
        }
    }

    /// The mark for adopted contents.
    pub(super) fn mark(victim: u32) -> Option<Mark> {
        Some(Mark { victim, stale: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::departed::Departed;
    use crate::geometry::{Geometry, WordPlace, initial_node};

    /// Words at home, which is rank 0, and at two nodes of one rank each.
    #[derive(Debug, Clone, PartialEq)]
    struct KeptWords(Vec<u64>, [[u64; 2]; 2]);

    impl KeptWords {
        fn access(&mut self, word: Word, op: WordOp) -> u64 {
            let word = match Geometry::new(2, 1, 0).place(word) {
                WordPlace::Home(at) => &mut self.0[at as usize],
                WordPlace::Node(node, at) => &mut self.1[node as usize][at as usize],
            };
            std::mem::replace(word, op.apply(*word))
        }
    }

    /// Drives to an end. Also returns the words that were accessed on the way.
    fn drive(protocol: &mut Direct, words: &mut KeptWords) -> (Action, Vec<Word>) {
        let (mut answer, mut touched) = (0, Vec::new());
        loop {
            answer = match protocol.next(answer, &Departed::default()) {
                Action::Access(word, op) => {
                    touched.push(word);
                    words.access(word, op)
                }
                Action::Copy { .. } | Action::Wake(_) => 0,
                end => return (end, touched),
            }
        }
    }

    fn write(protocol: &mut Direct, words: &mut KeptWords) -> Vec<Word> {
        protocol.request(AccessKind::Write, Patience::Wait);
        let (entered, mut touched) = drive(protocol, words);
        assert!(matches!(entered, Action::Entered(_)), "{entered:?}");
        protocol.release();
        let (released, more) = drive(protocol, words);
        assert_eq!(released, Action::Released);
        touched.extend(more);
        touched
    }

    /// Rank 1 keeps the variable.
    fn kept() -> (Direct, KeptWords) {
        let geometry = Geometry::new(2, 1, 1);
        let mut words = KeptWords(geometry.initial_home(), [initial_node(); 2]);
        let mut keeper = Direct::new(geometry, 0, true);
        for _ in 0..2 {
            assert!(write(&mut keeper, &mut words).len() > 8);
        }
        (keeper, words)
    }

    #[test]
    fn fg_02_a_keeper_uses_only_its_nodes_word() {
        let (mut keeper, mut words) = kept();
        let before = words.clone();
        assert_eq!(write(&mut keeper, &mut words), [Word::Held(1); 2]);
        assert_eq!(words, before);
        // The fast path does the same.
        let (mut short, mut same) = kept();
        let entry = short.enter_kept(AccessKind::Write, |word, op| same.access(word, op)).unwrap();
        keeper.request(AccessKind::Write, Patience::Wait);
        assert_eq!(drive(&mut keeper, &mut words).0, Action::Entered(entry));
        assert_eq!(same, words);
        assert!(short.leave_kept(|word, op| same.access(word, op)));
        assert_eq!(same, before);
        // The fast path declines a read, and a variable for which another rank has asked.
        assert_eq!(short.enter_kept(AccessKind::Read, |_, _| panic!("nothing is done")), None);
        assert!(short.enter_kept(AccessKind::Write, |word, op| same.access(word, op)).is_some());
        same.access(Word::Held(1), WordOp::Or(Version::ASKED));
        assert!(!short.leave_kept(|word, op| same.access(word, op)));
        short.release();
        assert_eq!(drive(&mut short, &mut same).0, Action::Released);
        assert_eq!(short.enter_kept(AccessKind::Write, |_, _| panic!("nothing is kept")), None);
        assert_eq!(Head::of(same.0[0]).position, short.turn + 1);
    }

    #[test]
    fn a_keeper_is_asked_again_where_it_has_come_or_gone_meanwhile() {
        let mut asker = Direct::new(Geometry::new(2, 1, 0), 0, true);
        asker.head.position = 7;
        let kept = asker.kept_by(7, 1);
        let inside = kept | Version::INSIDE;
        let asks = |expected| {
            let new = expected | Version::ASKED;
            Action::Access(Word::Held(1), WordOp::CompareSwap { expected, new })
        };
        assert_eq!(asker.ask_for(1), asks(kept));
        assert_eq!(asker.on_asked_for(kept, inside), asks(inside));
        assert_eq!(asker.on_asked_for(inside, kept), asks(kept), "it may enter again unasked");
        let passed = asker.on_asked_for(kept, kept);
        assert!(matches!(passed, Action::Access(Word::Head, _)), "{passed:?}");
        // A keeper that was asked while inside passes the turn on: this rank waits for the next
        // turn.
        let mut asker = Direct::new(Geometry::new(2, 1, 0), 0, true);
        asker.head.position = 7;
        assert_eq!(asker.ask_for(1), asks(kept));
        let next = Action::Access(asker.geometry.cell(8), WordOp::Load);
        assert_eq!(asker.on_asked_for(inside, inside), next);
    }

    #[test]
    fn at_home_and_on_one_node_nothing_is_kept() {
        for geometry in [Geometry::new(2, 1, 0), Geometry::new(2, 2, 1)] {
            let mut words = KeptWords(geometry.initial_home(), [initial_node(); 2]);
            let mut protocol = Direct::new(geometry, 0, true);
            for _ in 0..4 {
                let touched = write(&mut protocol, &mut words);
                assert!(touched.contains(&Word::Head) && !protocol.keeping.keeps());
            }
        }
    }

    #[test]
    fn a_dead_keepers_word_tells_torn_from_whole() {
        let version = |shared| Version { position: 7, node: 3, shared }.bits();
        let inside = Version::KEPT | Version::INSIDE;
        for (held, remains) in [
            (version(false), Remains::Whole),
            (version(false) | Version::KEPT, Remains::Whole),
            (version(false) | inside, Remains::Torn),
            (version(false) | inside | Version::ASKED, Remains::Torn),
            (version(true), Remains::Adopted),
            (0, Remains::Whole),
        ] {
            assert_eq!(Remains::of(held, 7), remains, "{held:#x}");
        }
    }
}
