//! What a rank leaves behind when it dies, or gives its turn up: whoever waits or asks next puts it
//! right, several at once if need be, by steps that can be repeated. So does whoever passes the
//! turn on to such a cell: `onward.rs`.
//!
//! ```text
//!   the dead rank          what is done
//!   -------------          ------------
//!   waited, or gave up     its turn is passed when it comes
//!   read                   its bit is taken away by the writer that waits for it
//!   wrote, and had said    the turn is passed: the contents are whole
//!   where the result is
//!   wrote, on a node that  the turn is passed: the copy at the owner is whole, the half-written
//!   was not the owner      one was marked as nothing when the writing began
//!   kept the variable      the turn is passed: the contents are whole
//!   wrote what it kept     as the next
//!   wrote, on the owner's  the turn is passed with a mark: torn, if somebody of that node still
//!   node                   lives; else the newest copy elsewhere is taken, and it is marked stale
//! ```
//!
//! Two things must not be judged by what was seen before. A cell of a dead rank is loaded once more
//! after the death is known: it may have entered in between. And a turn that was given up may be
//! taken up again by its rank, so it is first *buried* by a compare-and-swap of the cell.
//!
//! What a rank publishes is not shared, what recovery takes for the contents is: that tells the two
//! apart for a rank that comes to recover when another has begun.
//!
//! Passing a turn and setting the mark are one compare-and-swap of `head`, which happens once
//! however many ranks try. What comes before it (`held`, `latest`) is done by a maximum and a
//! compare-and-swap from the value seen, and nobody enters meanwhile.

use super::kept::Remains;
use super::{Direct, State};
use crate::departed::Departed;
use crate::geometry::Word;
use crate::protocol::{Action, Op};
use crate::word::{Cell, Head, Mark, Phase, Version};

/// A recovery under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Recovery {
    pub(super) victim: u32,
    pub(super) step: Step,
    /// It kept the variable, and was inside again.
    pub(super) torn: bool,
    /// What the head is behind it.
    pub(super) passed: Head,
}

impl Recovery {
    pub(super) const NONE: Recovery = Recovery {
        victim: 0,
        step: Step::Cell,
        torn: false,
        passed: Head { position: 0, mark: None },
    };
}

/// What the next answer of a recovery is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Step {
    Cell,
    /// Of a turn that is kept: what its keeper's node holds.
    Ask(u64),
    Remains,
    Bury(u64),
    Latest,
    Held,
    Adopted,
    Passed,
}

impl Direct {
    /// Whether this cell, which is the head's, is one that others have to pass.
    pub(super) fn is_left(cell: Cell, departed: &Departed) -> bool {
        matches!(cell.phase, Phase::Gone | Phase::Buried) || departed.contains(cell.rank)
    }

    /// Passes the turn of `cell`, which [`Direct::is_left`].
    pub(super) fn recover(&mut self, cell: Cell, departed: &Departed) -> Action {
        self.recovery = Recovery { victim: cell.rank, ..Recovery::NONE };
        let place = self.geometry.cell(cell.position);
        if departed.contains(cell.rank) {
            return self.access(State::Recover, place, Op::Load);
        }
        if cell.phase == Phase::Buried {
            return self.pass_over(self.head.mark);
        }
        self.recovery.step = Step::Bury(cell.bits());
        let new = Cell { phase: Phase::Buried, ..cell }.bits();
        self.access(State::Recover, place, Op::CompareSwap { expected: cell.bits(), new })
    }

    /// What a dead rank has left.
    fn on_last_words(&mut self, cell: Cell) -> Action {
        let mark = Some(Mark { victim: cell.rank, stale: false });
        self.recovery.step = Step::Latest;
        match cell.phase {
            _ if cell.position != self.head.position => self.passed_on(),
            Phase::Entered if self.alone() => self.pass_over(mark),
            Phase::Entered => self.access(State::Recover, Word::Latest, Op::Load),
            Phase::Kept => {
                self.recovery.step = Step::Remains;
                let node = self.geometry.node_of(cell.rank);
                self.access(State::Recover, Word::Held(node), Op::Load)
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
                self.recovery.step = Step::Latest;
                self.access(State::Recover, Word::Latest, Op::Load)
            }
        }
    }

    pub(super) fn on_recovery(&mut self, answer: u64, departed: &Departed) -> Action {
        match self.recovery.step {
            Step::Cell => self.on_last_words(Cell::of(answer)),
            Step::Ask(expected) => self.on_asked_for(expected, answer),
            Step::Remains => self.on_remains(Remains::of(answer, self.head.position)),
            // Its rank wants it again, or others pass it too.
            Step::Bury(gone) if answer != gone => self.look_at_follower(),
            Step::Bury(_) => self.pass_over(self.head.mark),
            Step::Latest => self.judge(Version::of(answer), departed),
            Step::Held => {
                self.recovery.step = Step::Adopted;
                let torn = self.torn();
                let op = Op::CompareSwap { expected: self.latest.bits(), new: torn.bits() };
                self.access(State::Recover, Word::Latest, op)
            }
            Step::Adopted => {
                self.pass_over(Some(Mark { victim: self.recovery.victim, stale: false }))
            }
            Step::Passed if answer != self.head.bits() => self.passed_on(),
            Step::Passed => self.pass_on(self.recovery.passed, self.then),
        }
    }

    /// The contents as the dead rank left them at its node.
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
            // The victim published it, or another rank that recovers has taken it as it is.
            let torn = latest.shared.then_some(Mark { victim, stale: false });
            return self.pass_over(torn);
        }
        if latest.node != node && !gone {
            return self.pass_over(self.head.mark);
        }
        if gone || !self.recoverable {
            // Whoever is next looks for the newest copy that is left, if it may.
            return self.pass_over(Some(Mark { victim, stale: gone }));
        }
        self.recovery.step = Step::Held;
        self.access(State::Recover, Word::Held(node), Op::Max(self.torn().bits()))
    }

    pub(super) fn pass_over(&mut self, mark: Option<Mark>) -> Action {
        let head = Head { position: self.head.position + 1, mark };
        (self.recovery.step, self.recovery.passed) = (Step::Passed, head);
        let op = Op::CompareSwap { expected: self.head.bits(), new: head.bits() };
        self.access(State::Recover, Word::Head, op)
    }
}
