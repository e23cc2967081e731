//! Letting go, and giving a request up.

use super::{Direct, State};
use crate::geometry::Word;
use crate::protocol::{Action, Op};
use crate::word::{Cell, Head, Kind, Phase, Version};

impl Direct {
    #[inline]
    pub(super) fn begin_release(&mut self) {
        self.claimed = false;
        self.state = match self.kind {
            Kind::Read => State::TakeBit,
            Kind::Write if self.alone() => State::TurnOn,
            Kind::Write => State::Publish,
        };
    }

    /// Begins to give up what was asked for; `false`: nothing was.
    pub(super) fn begin_cancel(&mut self) -> bool {
        let waits = matches!(self.state, State::Rest | State::DrainRest);
        debug_assert!(waits || matches!(self.state, State::Start | State::Idle));
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
                self.access(State::Published, own, Op::Swap(version.bits()))
            }
            State::Published => self.access(State::TurnOn, Word::Latest, Op::Swap(version.bits())),
            State::TurnOn => {
                // What is written anew is whole: no mark.
                let head = Head { position: self.turn + 1, mark: None };
                self.access(State::Turned, Word::Head, Op::Swap(head.bits()))
            }
            State::Turned => self.look_at_next(State::Follower),
            State::Follower => match self.hail(answer, State::Over) {
                Some(wake) => wake,
                None => self.over(),
            },
            State::TakeBit => {
                let (at, bit) = self.geometry.reader_bit();
                self.access(State::BitTaken, Word::Readers(at), Op::And(!bit))
            }
            State::BitTaken => {
                let (_, bit) = self.geometry.reader_bit();
                if answer & !bit != 0 {
                    return self.over();
                }
                self.access(State::LastReader, Word::Head, Op::Load)
            }
            // A writer that waits for readers has the turn: the last of them wakes it.
            State::LastReader => {
                self.turn = Head::of(answer).position - 1;
                self.look_at_next(State::Follower)
            }
            State::Cancel => self.give_up(),
            _ => self.over(),
        }
    }

    /// At the head the turn is passed on; before it, the cell says that nobody is there.
    fn give_up(&mut self) -> Action {
        self.claimed = false;
        if self.head.position == self.turn {
            return self.access(State::Turned, Word::Head, Op::Swap(self.head.next().bits()));
        }
        let (rank, kind, phase) = (self.geometry.rank, self.kind, Phase::Gone);
        let cell = Cell { position: self.turn, rank, kind, phase };
        self.access(State::Over, self.geometry.cell(self.turn), Op::Swap(cell.bits()))
    }

    fn over(&mut self) -> Action {
        self.state = State::Idle;
        Action::Released
    }
}
