//! Keeping: an idle variable stays with whoever writes it again and again.
//!
//! The words of the queue are at the variable's home. A rank that is far from there, has written
//! twice in a row and finds nobody behind it keeps its turn when it lets go. Acquiring again is
//! then one compare-and-swap of `held`, a word of its own node, and so is letting go. To everybody
//! else it looks as if it had the variable all the time, but for what the word says: whoever wants
//! it *asks for it* there, by a compare-and-swap as well.
//!
//! ```text
//!   keeper                    held                whoever else wants the variable
//!   ------                    ----                -------------------------------
//!   lets go; cell: kept       7, kept
//!   acquires                  7, kept, inside
//!   lets go                   7, kept
//!                             7, kept, asked      asks; the turn is over: it passes it on
//!   or, if the keeper has it at the time:
//!   acquires                  7, kept, inside
//!                             ..., inside, asked  asks, and waits behind it
//!   lets go: passes it on     7
//! ```
//!
//! The cell says that its turn is kept, in a word of its own, so that nobody else pays for the
//! question. Of two that meet one sees the other: the keeper says it in the cell and then looks
//! whether somebody is behind, and whoever waits takes a cell and then looks at that of the head.
//!
//! **A keeper that reads** does so beside others, and so says it where all readers do, at the home,
//! and then looks whether the variable is still kept. If so, whoever asks for it from then on finds
//! the bit. That is two operations at home instead of ten.
//!
//! **A keeper that dies** was inside, if the word says so, and what it wrote is torn: there is no
//! other copy of that version. Else what it kept is whole.
//!
//! Whoever writes once, in turns with ranks of other nodes, does not keep: there the question would
//! be six operations more for each of them (the question, passing the turn on, and beginning anew).

use super::onward::Then;
use super::recover::{Recovery, Step};
use super::{Direct, State};
use crate::geometry::Word;
use crate::protocol::{Action, Entry, Op, Patience};
use crate::word::{Cell, Head, Kind, Mark, Phase, READING, Version};

/// What a rank keeps, and knows of what others keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Keeping {
    /// The turn that this rank keeps; 0: none.
    turn: u64,
    /// That of its last write.
    pub(super) wrote: u64,
    /// That for which it has asked last.
    asked: u64,
}

impl Keeping {
    pub(super) const NONE: Keeping = Keeping { turn: 0, wrote: 0, asked: 0 };

    /// Whether this rank keeps the variable, unless somebody has asked for it.
    #[inline]
    pub(super) fn keeps(&self) -> bool {
        self.turn != 0
    }
}

impl Direct {
    /// What this rank's node holds while it keeps the turn `of`.
    fn kept(&self, of: u64) -> u64 {
        self.kept_by(of, self.geometry.node())
    }

    fn kept_by(&self, position: u64, node: u32) -> u64 {
        Version { position, node, shared: false }.bits() | Version::KEPT
    }

    /// A change of the own node's word from one of these states to another.
    fn change(&mut self, state: State, (from, to): (u64, u64)) -> Action {
        let own = Word::Held(self.geometry.node());
        let kept = self.kept(self.keeping.turn);
        let op = Op::CompareSwap { expected: kept | from, new: kept | to };
        self.access(state, own, op)
    }

    /// A request.
    #[inline]
    pub(super) fn begin(&mut self) -> Action {
        if self.keeping.keeps() { self.take_again() } else { self.look_at_head() }
    }

    #[inline(never)]
    fn take_again(&mut self) -> Action {
        if self.kind == Kind::Write {
            return self.change(State::Again, (0, Version::INSIDE));
        }
        let (at, bit) = self.geometry.reader_bit();
        self.access(State::ReadAgain, Word::Readers(at), Op::Or(bit))
    }

    pub(super) fn on_again(&mut self, found: u64) -> Action {
        if found == self.kept(self.keeping.turn) {
            return self.enter_again();
        }
        self.keeping.turn = 0;
        self.look_at_head()
    }

    fn enter_again(&mut self) -> Action {
        self.turn = self.keeping.turn;
        self.mark = None;
        self.on_entered()
    }

    pub(super) fn look_whether_kept(&mut self, state: State) -> Action {
        self.access(state, Word::Held(self.geometry.node()), Op::Load)
    }

    /// This rank says that it reads, and nobody had asked for the variable then.
    pub(super) fn on_still_kept(&mut self, found: u64) -> Action {
        if found == self.kept(self.keeping.turn) {
            return self.enter_again();
        }
        self.keeping.turn = 0;
        let (at, bit) = self.geometry.reader_bit();
        self.access(State::Retreat, Word::Readers(at), Op::And(!bit))
    }

    /// It has said so too late. A writer may wait for its bit.
    pub(super) fn on_retreat(&mut self, before: u64) -> Action {
        let (_, bit) = self.geometry.reader_bit();
        if before & READING & !bit != 0 {
            return self.look_at_head();
        }
        self.access(State::Retreated, Word::Head, Op::Load)
    }

    /// Whether what is let go is kept: nobody else has had it since this rank wrote it last.
    pub(super) fn is_to_be_kept(&self) -> bool {
        let (position, node) = (self.keeping.wrote, self.geometry.node());
        let again = self.latest == Version { position, node, shared: false };
        again && self.mark.is_none() && !self.courtesy.near
    }

    /// What the next answer means while what is kept, or to be kept, is let go.
    pub(super) fn next_of_keeping(&mut self, answer: u64) -> Action {
        let place = self.geometry.cell(self.turn);
        match self.state {
            State::Keep => {
                let (rank, kind, phase) = (self.geometry.rank, Kind::Write, Phase::Kept);
                let cell = Cell { position: self.turn, rank, kind, phase };
                self.access(State::Kept, place, Op::Swap(cell.bits()))
            }
            State::Kept => {
                let next = self.geometry.cell(self.turn + 1);
                self.access(State::Behind, next, Op::Load)
            }
            State::Behind if Cell::of(answer).position == self.turn + 1 => {
                self.head = Head { position: self.turn, mark: None };
                self.then = Then::Release;
                self.ask_for(self.geometry.rank)
            }
            State::Behind => {
                self.keeping.turn = self.turn;
                self.over()
            }
            State::LetGoAgain => self.change(State::LetGo, (Version::INSIDE, 0)),
            State::LetGo => self.on_let_go(answer),
            State::ReadKept if answer == self.kept(self.keeping.turn) => self.over(),
            State::ReadKept => {
                self.keeping.turn = 0;
                self.access(State::LastReader, Word::Head, Op::Load)
            }
            _ => unreachable!("all other states are those of asking"),
        }
    }

    fn on_let_go(&mut self, found: u64) -> Action {
        if found == self.kept(self.turn) | Version::INSIDE {
            return self.over();
        }
        // Somebody waits. `latest` has said all the time where the newest is.
        self.keeping.turn = 0;
        let (position, node) = (self.turn, self.geometry.node());
        let whole = Version { position, node, shared: false };
        self.access(State::TurnOn, Word::Held(node), Op::Swap(whole.bits()))
    }

    /// Whether the rank of this cell, which has the turn, keeps it and has not been asked for it.
    #[inline]
    pub(super) fn is_to_be_asked_for(&self, cell: Cell) -> bool {
        cell.phase == Phase::Kept && cell.position != self.keeping.asked
    }

    /// Asks the keeper of the head's turn for it.
    pub(super) fn ask_for(&mut self, keeper: u32) -> Action {
        self.recovery = Recovery { victim: keeper, ..Recovery::NONE };
        let kept = self.kept_by(self.head.position, self.geometry.node_of(keeper));
        self.ask_for_from(kept)
    }

    fn ask_for_from(&mut self, expected: u64) -> Action {
        self.recovery.step = Step::Ask(expected);
        let node = self.geometry.node_of(self.recovery.victim);
        let op = Op::CompareSwap { expected, new: expected | Version::ASKED };
        self.access(State::Recover, Word::Held(node), op)
    }

    pub(super) fn on_asked_for(&mut self, expected: u64, found: u64) -> Action {
        let kept = self.kept_by(self.head.position, self.geometry.node_of(self.recovery.victim));
        match found ^ kept {
            // Nobody was inside: the turn is over.
            0 if expected == kept => self.pass_over(None),
            Version::ASKED => self.pass_over(None),
            0 => self.ask_for_from(kept),
            Version::INSIDE if expected == kept => self.ask_for_from(kept | Version::INSIDE),
            // It passes the turn on when it lets go; or is about to, or has.
            _ => self.wait_behind(),
        }
    }

    fn wait_behind(&mut self) -> Action {
        self.recovery = Recovery::NONE;
        self.keeping.asked = self.head.position;
        match self.then {
            Then::Ask if self.claimed => self.rest(),
            Then::Ask => self.look_behind(self.head.position),
            Then::Enter | Then::Fail | Then::Release => self.passed_on(),
        }
    }

    /// Enters to write what this rank keeps, where `access` does an operation on a word of its node
    /// at once; `None`: it is to be requested, and nothing has been changed.
    #[inline]
    pub fn enter_kept(
        &mut self,
        kind: Kind,
        access: impl FnOnce(Word, Op) -> u64,
    ) -> Option<Entry> {
        debug_assert_eq!(self.state, State::Idle, "one request at a time");
        if !self.keeping.keeps() || kind == Kind::Read {
            return None;
        }
        let (own, expected) = (Word::Held(self.geometry.node()), self.kept(self.keeping.turn));
        let new = expected | Version::INSIDE;
        if access(own, Op::CompareSwap { expected, new }) != expected {
            return None;
        }
        self.kind = kind;
        self.patience = Patience::Wait;
        self.moved = false;
        self.turn = self.keeping.turn;
        self.mark = None;
        self.state = State::Inside;
        Some(Entry { moved: false, mark: None, position: self.turn })
    }

    /// Lets go of what this rank has written and keeps; `false`: it is to be released, and nothing
    /// has been changed.
    #[inline]
    pub fn leave_kept(&mut self, access: impl FnOnce(Word, Op) -> u64) -> bool {
        debug_assert_eq!(self.state, State::Inside, "what is let go was had");
        if !self.keeping.keeps() || self.kind == Kind::Read {
            return false;
        }
        let (own, new) = (Word::Held(self.geometry.node()), self.kept(self.turn));
        let expected = new | Version::INSIDE;
        if access(own, Op::CompareSwap { expected, new }) != expected {
            return false;
        }
        self.claimed = false;
        self.state = State::Idle;
        true
    }
}

/// What a keeper that died has left in its node's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remains {
    Whole,
    /// It was inside.
    Torn,
    /// Another rank has found that, and taken what is there for the contents.
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

    /// What is to be said of contents that somebody has adopted.
    pub(super) fn mark(victim: u32) -> Option<Mark> {
        Some(Mark { victim, stale: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::departed::Departed;
    use crate::geometry::{Geometry, Place, initial_node};
    use crate::protocol::Protocol;

    /// Words at home, at rank 0, and at two nodes of a rank each.
    #[derive(Debug, Clone, PartialEq)]
    struct Words(Vec<u64>, [[u64; 2]; 2]);

    impl Words {
        fn access(&mut self, word: Word, op: Op) -> u64 {
            let word = match Geometry::new(2, 1, 0).place(word) {
                Place::Home(at) => &mut self.0[at as usize],
                Place::Node(node, at) => &mut self.1[node as usize][at as usize],
            };
            std::mem::replace(word, op.apply(*word))
        }
    }

    /// Drives to an end; which words were touched on the way.
    fn drive(protocol: &mut Direct, words: &mut Words) -> (Action, Vec<Word>) {
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

    fn write(protocol: &mut Direct, words: &mut Words) -> Vec<Word> {
        protocol.request(Kind::Write, Patience::Wait);
        let (entered, mut touched) = drive(protocol, words);
        assert!(matches!(entered, Action::Entered(_)), "{entered:?}");
        protocol.release();
        let (released, more) = drive(protocol, words);
        assert_eq!(released, Action::Released);
        touched.extend(more);
        touched
    }

    /// Rank 1 keeps the variable.
    fn kept() -> (Direct, Words) {
        let geometry = Geometry::new(2, 1, 1);
        let (mut keeper, mut words) =
            (Direct::new(geometry, 0, true), Words(geometry.initial_home(), [initial_node(); 2]));
        for _ in 0..2 {
            assert!(write(&mut keeper, &mut words).len() > 8);
        }
        (keeper, words)
    }

    #[test]
    fn fg_02_what_is_kept_is_acquired_and_let_go_by_a_word_of_the_own_node() {
        let (mut keeper, mut words) = kept();
        let before = words.clone();
        assert_eq!(write(&mut keeper, &mut words), [Word::Held(1); 2]);
        assert_eq!(words, before);
        // The short way does the same.
        let (mut short, mut same) = kept();
        let entry = short.enter_kept(Kind::Write, |word, op| same.access(word, op)).unwrap();
        keeper.request(Kind::Write, Patience::Wait);
        assert_eq!(drive(&mut keeper, &mut words).0, Action::Entered(entry));
        assert_eq!(same, words);
        assert!(short.leave_kept(|word, op| same.access(word, op)));
        assert_eq!(same, before);
        // To read is not as short, and neither is what somebody has asked for.
        assert_eq!(short.enter_kept(Kind::Read, |_, _| panic!("nothing is done")), None);
        assert!(short.enter_kept(Kind::Write, |word, op| same.access(word, op)).is_some());
        same.access(Word::Held(1), Op::Or(Version::ASKED));
        assert!(!short.leave_kept(|word, op| same.access(word, op)));
        short.release();
        assert_eq!(drive(&mut short, &mut same).0, Action::Released);
        assert_eq!(short.enter_kept(Kind::Write, |_, _| panic!("nothing is kept")), None);
        assert_eq!(Head::of(same.0[0]).position, short.turn + 1);
    }

    #[test]
    fn at_home_and_on_one_node_nothing_is_kept() {
        for geometry in [Geometry::new(2, 1, 0), Geometry::new(2, 2, 1)] {
            let mut protocol = Direct::new(geometry, 0, true);
            let mut words = Words(geometry.initial_home(), [initial_node(); 2]);
            for _ in 0..4 {
                let touched = write(&mut protocol, &mut words);
                assert!(touched.contains(&Word::Head) && !protocol.keeping.keeps());
            }
        }
    }

    #[test]
    fn what_a_dead_keeper_has_left_is_told_from_its_word() {
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
