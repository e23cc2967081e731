//! Letting go, and giving a request up.

use super::onward::Then;
use super::{Direct, State};
use crate::geometry::Word;
use crate::protocol::{Action, Op};
use crate::word::{Cell, Head, Kind, Phase, READING, Version};

impl Direct {
    #[inline]
    pub(super) fn begin_release(&mut self) {
        self.claimed = false;
        self.state = match self.kind {
            Kind::Read => State::TakeBit,
            Kind::Write if self.alone() => State::TurnOn,
            Kind::Write if self.keeping.keeps() => State::LetGoAgain,
            Kind::Write => State::Publish,
        };
    }

    /// Begins to give up what was asked for; `false`: nothing was.
    pub(super) fn begin_cancel(&mut self) -> bool {
        let waits = matches!(self.state, State::Rest | State::DrainRest);
        let before = matches!(self.state, State::Start | State::Idle | State::StandBack { .. });
        debug_assert!(waits || before, "given up between two looks");
        self.state = if waits { State::Cancel } else { State::Idle };
        waits
    }

    /// What the next answer means while letting go. The states in which it begins have none.
    #[inline]
    pub(super) fn next_of_release(&mut self, answer: u64) -> Action {
        let version = Version { position: self.turn, node: self.geometry.node(), shared: false };
        match self.state {
            // First the copy is whole, then it is the newest, then it is the next one's turn.
            State::Publish => {
                let own = Word::Held(self.geometry.node());
                let keeps = if self.is_to_be_kept() { Version::KEPT } else { 0 };
                self.access(State::Published, own, Op::Swap(version.bits() | keeps))
            }
            State::Published => {
                let next = if self.is_to_be_kept() { State::Keep } else { State::TurnOn };
                self.keeping.wrote = self.turn;
                self.access(next, Word::Latest, Op::Swap(version.bits()))
            }
            State::TurnOn => {
                // What is written anew is whole: no mark.
                let head = Head { position: self.turn + 1, mark: None };
                self.access(State::Turned, Word::Head, Op::Swap(head.bits()))
            }
            State::Turned => {
                self.pass_on(Head { position: self.turn + 1, mark: None }, Then::Release)
            }
            State::TakeBit => {
                let (at, bit) = self.geometry.reader_bit();
                self.access(State::BitTaken, Word::Readers(at), Op::And(!bit))
            }
            State::BitTaken => {
                let (_, bit) = self.geometry.reader_bit();
                if answer & READING & !bit != 0 {
                    return self.over();
                }
                if self.keeping.keeps() {
                    return self.look_whether_kept(State::ReadKept);
                }
                self.access(State::LastReader, Word::Head, Op::Load)
            }
            // A writer that waits for readers has the turn: the last of them wakes it.
            State::LastReader => self.pass_on(Head::of(answer), Then::Release),
            State::Cancel => self.give_up(),
            State::GivenUp => self.access(State::LastLook, Word::Head, Op::Load),
            State::LastLook => {
                let head = Head::of(answer);
                if head.position != self.turn {
                    return self.over();
                }
                self.pass_on(head, Then::Release)
            }
            _ => self.next_of_keeping(answer),
        }
    }

    /// The cell says that nobody is there. If it has the turn, or is given it meanwhile, either
    /// this rank sees that behind it, or whoever passes the turn on sees the cell so.
    fn give_up(&mut self) -> Action {
        self.claimed = false;
        let (rank, kind, phase) = (self.geometry.rank, self.kind, Phase::Gone);
        let cell = Cell { position: self.turn, rank, kind, phase };
        self.access(State::GivenUp, self.geometry.cell(self.turn), Op::Swap(cell.bits()))
    }

    pub(super) fn over(&mut self) -> Action {
        self.state = State::Idle;
        Action::Released
    }
}
