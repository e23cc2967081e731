//! Passing the turn on, past cancelled requests and dead ranks, to a living rank, and waking that
//! rank.
//!
//! A rank that moves `head`, for any reason, then reads the cell that has the turn. If that cell is
//! abandoned the rank passes it too. Otherwise it wakes the rank that waits there. So another
//! rank's step wakes each waiting rank, and no rank has to poll:
//!
//! ```text
//!   passing the turn on        asking               cancelling           a death
//!   -------------------        ------               ----------           -------
//!   moves the head             takes a cell         marks the cell       becomes known
//!   reads the cell             reads the head       reads the head       wakes all, who poll
//! ```
//!
//! Each rank changes one word and then reads the other, so when two ranks meet, one sees what the
//! other has done. A death needs an order too: a rank is woken first, and then the driver checks
//! whether it is gone.

use super::recover::TurnRecovery;
use super::{Direct, Pending};
use crate::departed::Departed;
use crate::protocol::{Action, WordOp};
use crate::word::{Head, RequestCell, RequestPhase};

/// The reason why the turn was passed on. It decides the continuation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Then {
    /// The turn was another rank's. This rank asks or waits, so it begins again.
    Ask,
    /// This rank's turn goes to other readers, and it enters.
    Enter,
    /// This rank's turn is passed on because the contents are lost.
    Fail,
    /// This rank's turn is over.
    Release,
}

impl Direct {
    /// Passes on, after this rank has moved the head to `head`, or after a step that may have given
    /// `head` the turn.
    pub(super) fn pass_on(&mut self, head: Head, then: Then) -> Action {
        self.head = head;
        self.then = then;
        self.load_follower()
    }

    /// Reads the cell that has the turn.
    #[inline]
    pub(super) fn load_follower(&mut self) -> Action {
        self.access(Pending::Follower, self.geometry.cell(self.head.position), WordOp::Load)
    }

    pub(super) fn on_follower(&mut self, found: u64, departed: &Departed) -> Action {
        let cell = RequestCell::of(found);
        if cell.position != self.head.position {
            // No rank has asked for this turn yet, or the turn is over.
            return self.passed_on();
        }
        if Direct::is_left(cell, departed) {
            return self.recover(cell, departed);
        }
        if cell.phase != RequestPhase::Waiting || cell.rank == self.geometry.rank {
            return self.passed_on();
        }
        self.state = Pending::Hailed(cell.rank);
        Action::Wake(cell.rank)
    }

    pub(super) fn on_hailed(&mut self, rank: u32, departed: &Departed) -> Action {
        if departed.contains(rank) { self.load_follower() } else { self.passed_on() }
    }

    /// Continues, because the turn belongs to a living rank, or other ranks pass it on.
    pub(super) fn passed_on(&mut self) -> Action {
        self.recovery = TurnRecovery::NONE;
        match self.then {
            Then::Ask => self.load_head(),
            Then::Enter => self.on_entered(),
            Then::Fail => self.on_fail(),
            Then::Release => self.over(),
        }
    }

    /// Passes the turn on, after [`super::Left::Onward`] or when the rank of [`super::Left::Wake`]
    /// is gone. Must be driven until [`Action::Released`].
    pub fn go_on(&mut self) {
        debug_assert_eq!(self.state, Pending::Idle, "only a released turn is passed on");
        self.then = Then::Release;
        self.state = Pending::Onward;
    }
}
