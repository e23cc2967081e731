//! Releasing a variable, and cancelling a request.

use super::onward::Then;
use super::{Direct, Pending};
use crate::geometry::Word;
use crate::protocol::{Action, WordOp};
use crate::word::{AccessKind, Head, READING, RequestCell, RequestPhase, Version};

impl Direct {
    /// Releases the variable, which must be held.
    #[inline]
    pub fn release(&mut self) {
        debug_assert_eq!(self.state, Pending::Inside, "only a held variable is released");
        self.claimed = false;
        self.state = match self.kind {
            AccessKind::Read => Pending::TakeBit,
            AccessKind::Write if self.alone() => Pending::TurnOn,
            AccessKind::Write if self.keeping.keeps() => Pending::LetGoAgain,
            AccessKind::Write => Pending::Publish,
        };
    }

    /// Cancels a request that has not begun, or whose last action was [`Action::Wait`] or
    /// [`Action::StandBack`]. `true`: drive it on until [`Action::Released`]. `false`: it had taken
    /// no turn.
    pub fn cancel(&mut self) -> bool {
        let waits = matches!(self.state, Pending::Rest | Pending::DrainRest);
        let before =
            matches!(self.state, Pending::Start | Pending::Idle | Pending::StandBack { .. });
        debug_assert!(waits || before, "cancelled between two polls");
        self.state = if waits { Pending::Cancel } else { Pending::Idle };
        waits
    }

    /// Handles the next answer while releasing. The first states have no answer.
    #[inline]
    pub(super) fn next_of_release(&mut self, answer: u64) -> Action {
        let version = Version { position: self.turn, node: self.geometry.node(), shared: false };
        match self.state {
            // The order matters: the copy is whole, then it is the newest, then the turn is the
            // next rank's.
            Pending::Publish => {
                let own = Word::Held(self.geometry.node());
                let keeps = if self.is_to_be_kept() { Version::KEPT } else { 0 };
                self.access(Pending::Published, own, WordOp::Swap(version.bits() | keeps))
            }
            Pending::Published => {
                let next = if self.is_to_be_kept() { Pending::Keep } else { Pending::TurnOn };
                self.keeping.wrote = self.turn;
                self.access(next, Word::Latest, WordOp::Swap(version.bits()))
            }
            Pending::TurnOn => {
                // Contents that were written again are whole: clear the mark.
                let head = Head { position: self.turn + 1, mark: None };
                self.access(Pending::Turned, Word::Head, WordOp::Swap(head.bits()))
            }
            Pending::Turned => {
                self.pass_on(Head { position: self.turn + 1, mark: None }, Then::Release)
            }
            Pending::TakeBit => {
                let (at, bit) = self.geometry.reader_bit();
                self.access(Pending::BitTaken, Word::Readers(at), WordOp::And(!bit))
            }
            Pending::BitTaken => {
                let (_, bit) = self.geometry.reader_bit();
                if answer & READING & !bit != 0 {
                    return self.over();
                }
                if self.keeping.keeps() {
                    return self.check_kept(Pending::ReadKept);
                }
                self.access(Pending::LastReader, Word::Head, WordOp::Load)
            }
            // A waiting writer has the turn, and the last reader wakes it.
            Pending::LastReader => self.pass_on(Head::of(answer), Then::Release),
            Pending::Cancel => self.mark_cancelled(),
            Pending::Cancelled => self.access(Pending::LastHead, Word::Head, WordOp::Load),
            Pending::LastHead => {
                let head = Head::of(answer);
                if head.position != self.turn {
                    return self.over();
                }
                self.pass_on(head, Then::Release)
            }
            _ => self.next_of_keeping(answer),
        }
    }

    /// Marks the cell as cancelled. If the cell has the turn or receives it meanwhile, either this
    /// rank sees that afterwards, or the rank that passes the turn on sees the mark.
    fn mark_cancelled(&mut self) -> Action {
        self.claimed = false;
        let (rank, kind, phase) = (self.geometry.rank, self.kind, RequestPhase::Gone);
        let cell = RequestCell { position: self.turn, rank, kind, phase };
        self.access(Pending::Cancelled, self.geometry.cell(self.turn), WordOp::Swap(cell.bits()))
    }

    pub(super) fn over(&mut self) -> Action {
        self.state = Pending::Idle;
        Action::Released
    }
}
