//! Repair after a rank has died or cancelled. The next rank that waits or asks repairs the remains.
//! Several ranks may do so at once, because the steps can be repeated. A rank that passes the turn
//! on to such a cell does the same: `onward.rs`.
//!
//! ```text
//!   the dead rank          repair
//!   -------------          ------
//!   waited or cancelled    its turn is passed when it comes
//!   read                   the writer that waits for its bit clears it
//!   wrote, and had         the turn is passed: the contents are whole
//!   published the result
//!   wrote, on a node that  the turn is passed: the copy at the owner is whole, the half-written
//!   was not the owner      one was invalidated when the writing began
//!   kept the variable      the turn is passed: the contents are whole
//!   wrote what it kept     as the next row
//!   wrote, on the owner's  the turn is passed with a mark: torn, if a rank of that node still
//!   node                   lives; else the newest copy elsewhere is taken, and it is marked stale
//! ```
//!
//! Two things must not be judged by an earlier observation. First, a dead rank's cell is loaded
//! again after the death is known, because the rank may have entered in between. Second, a rank may
//! take its cancelled turn up again, so a compare-and-swap of the cell *buries* the turn first.
//!
//! A version that its writer publishes is not shared, and a version that recovery adopts is. This
//! tells a second recovering rank which of the two it sees.
//!
//! One compare-and-swap of `head` passes the turn and sets the mark. It succeeds once, however many
//! ranks try. The steps before it change `held` by a maximum and `latest` by a compare-and-swap
//! from the value seen. No rank enters meanwhile.

use super::kept::Remains;
use super::{Direct, Pending};
use crate::departed::Departed;
use crate::geometry::Word;
use crate::protocol::{Action, WordOp};
use crate::word::{Head, Mark, RequestCell, RequestPhase, Version};

/// A recovery in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct TurnRecovery {
    pub(super) victim: u32,
    pub(super) step: RepairStep,
    /// The victim kept the variable and was inside again.
    pub(super) torn: bool,
    /// The head after the turn is passed.
    pub(super) passed: Head,
}

impl TurnRecovery {
    pub(super) const NONE: TurnRecovery = TurnRecovery {
        victim: 0,
        step: RepairStep::Cell,
        torn: false,
        passed: Head { position: 0, mark: None },
    };
}

/// The step of a recovery: what the next answer belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum RepairStep {
    Cell,
    /// The word of the keeper's node, for a kept turn.
    Ask(u64),
    Remains,
    Bury(u64),
    Latest,
    Held,
    Adopted,
    Passed,
}

impl Direct {
    /// Whether other ranks have to pass this cell, which has the turn.
    pub(super) fn is_left(cell: RequestCell, departed: &Departed) -> bool {
        matches!(cell.phase, RequestPhase::Gone | RequestPhase::Buried)
            || departed.contains(cell.rank)
    }

    /// Passes the turn of `cell`, for which [`Direct::is_left`] holds.
    pub(super) fn recover(&mut self, cell: RequestCell, departed: &Departed) -> Action {
        self.recovery = TurnRecovery { victim: cell.rank, ..TurnRecovery::NONE };
        let place = self.geometry.cell(cell.position);
        if departed.contains(cell.rank) {
            return self.access(Pending::Recover, place, WordOp::Load);
        }
        if cell.phase == RequestPhase::Buried {
            return self.pass_over(self.head.mark);
        }
        self.recovery.step = RepairStep::Bury(cell.bits());
        let new = RequestCell { phase: RequestPhase::Buried, ..cell }.bits();
        self.access(Pending::Recover, place, WordOp::CompareSwap { expected: cell.bits(), new })
    }

    /// Handles the cell of a dead rank.
    fn on_last_words(&mut self, cell: RequestCell) -> Action {
        let mark = Some(Mark { victim: cell.rank, stale: false });
        self.recovery.step = RepairStep::Latest;
        match cell.phase {
            _ if cell.position != self.head.position => self.passed_on(),
            RequestPhase::Entered if self.alone() => self.pass_over(mark),
            RequestPhase::Entered => self.access(Pending::Recover, Word::Latest, WordOp::Load),
            RequestPhase::Kept => {
                self.recovery.step = RepairStep::Remains;
                let node = self.geometry.node_of(cell.rank);
                self.access(Pending::Recover, Word::Held(node), WordOp::Load)
            }
            _ => self.pass_over(self.head.mark),
        }
    }

    fn on_remains(&mut self, remains: Remains) -> Action {
        match remains {
            Remains::Whole => self.pass_over(None),
            Remains::Adopted => self.pass_over(Remains::mark(self.recovery.victim)),
            Remains::Torn => {
                self.recovery.torn = true;
                self.recovery.step = RepairStep::Latest;
                self.access(Pending::Recover, Word::Latest, WordOp::Load)
            }
        }
    }

    pub(super) fn on_recovery(&mut self, answer: u64, departed: &Departed) -> Action {
        match self.recovery.step {
            RepairStep::Cell => self.on_last_words(RequestCell::of(answer)),
            RepairStep::Ask(expected) => self.on_asked_for(expected, answer),
            RepairStep::Remains => self.on_remains(Remains::of(answer, self.head.position)),
            // Its rank has taken the turn up again, or other ranks pass it too.
            RepairStep::Bury(gone) if answer != gone => self.load_follower(),
            RepairStep::Bury(_) => self.pass_over(self.head.mark),
            RepairStep::Latest => self.judge(Version::of(answer), departed),
            RepairStep::Held => {
                self.recovery.step = RepairStep::Adopted;
                let torn = self.torn();
                let op = WordOp::CompareSwap { expected: self.latest.bits(), new: torn.bits() };
                self.access(Pending::Recover, Word::Latest, op)
            }
            RepairStep::Adopted => {
                self.pass_over(Some(Mark { victim: self.recovery.victim, stale: false }))
            }
            RepairStep::Passed if answer != self.head.bits() => self.passed_on(),
            RepairStep::Passed => self.pass_on(self.recovery.passed, self.then),
        }
    }

    /// The version of the contents that the dead rank left at its node.
    fn torn(&self) -> Version {
        let node = self.geometry.node_of(self.recovery.victim);
        Version { position: self.head.position, node, shared: true }
    }

    fn judge(&mut self, latest: Version, departed: &Departed) -> Action {
        self.latest = latest;
        let victim = self.recovery.victim;
        let node = self.geometry.node_of(victim);
        let gone = departed.node_is_gone(&self.geometry, latest.node);
        if latest.position == self.head.position && (latest.shared || !self.recovery.torn) {
            // The victim published it, or another recovering rank has adopted it.
            let torn = latest.shared.then_some(Mark { victim, stale: false });
            return self.pass_over(torn);
        }
        if latest.node != node && !gone {
            return self.pass_over(self.head.mark);
        }
        if gone || !self.recoverable {
            // The next rank searches for the newest surviving copy, if it may.
            return self.pass_over(Some(Mark { victim, stale: gone }));
        }
        self.recovery.step = RepairStep::Held;
        self.access(Pending::Recover, Word::Held(node), WordOp::Max(self.torn().bits()))
    }

    pub(super) fn pass_over(&mut self, mark: Option<Mark>) -> Action {
        let head = Head { position: self.head.position + 1, mark };
        (self.recovery.step, self.recovery.passed) = (RepairStep::Passed, head);
        let op = WordOp::CompareSwap { expected: self.head.bits(), new: head.bits() };
        self.access(Pending::Recover, Word::Head, op)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Geometry;

    /// Rank 1 died with turn 7. Its published contents are whole, unless it kept the variable and
    /// wrote again.
    #[test]
    fn what_a_dead_rank_has_published_is_whole_unless_it_was_inside_again() {
        let published = Version { position: 7, node: 1, shared: false };
        for torn in [false, true] {
            let mut finder = Direct::new(Geometry::new(2, 1, 0), 0, true);
            finder.head.position = 7;
            finder.recovery = TurnRecovery { victim: 1, torn, ..TurnRecovery::NONE };
            let (position, mark) = (8, None);
            let passes = Action::Access(
                Word::Head,
                WordOp::CompareSwap {
                    expected: finder.head.bits(),
                    new: Head { position, mark }.bits(),
                },
            );
            let adopts = Action::Access(Word::Held(1), WordOp::Max(finder.torn().bits()));
            let done = finder.judge(published, &Departed::default());
            assert_eq!(done, if torn { adopts } else { passes }, "torn: {torn}");
        }
    }
}
