//! Passing the turn on, past requests that were given up and ranks that died, to somebody who is
//! there, and waking that one.
//!
//! Whoever moves `head`, for whatever reason, looks at the cell that has the turn then. If it is
//! left it is passed as well, else whoever waits there is woken. So somebody is woken by a step of
//! somebody else, and nobody has to look by itself:
//!
//! ```text
//!   who passes the turn on     who asks             who gives up         a death
//!   ----------------------     --------             ------------         -------
//!   moves the head             takes a cell         leaves the cell      is known
//!   looks at the cell          looks at the head    looks at the head    wakes all, who look
//! ```
//!
//! Each moves one word and then looks at the other, so of two that meet one sees what the other has
//! done. The fourth needs an order too: a rank is woken first, and then it is looked up whether it
//! is gone.

use super::recover::Recovery;
use super::{Direct, State};
use crate::departed::Departed;
use crate::protocol::{Action, Op};
use crate::word::{Cell, Head, Phase};

/// What the turn was passed on for, and so what comes behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Then {
    /// Somebody else's turn, by one who asks or waits: it looks anew.
    Ask,
    /// The own one, to other readers.
    Enter,
    /// The own one, of what is lost.
    Fail,
    /// The own one, which is over.
    Release,
}

impl Direct {
    /// The head is `head` now, by this rank; or its turn may have come by what this rank did.
    pub(super) fn pass_on(&mut self, head: Head, then: Then) -> Action {
        self.head = head;
        self.then = then;
        self.look_at_follower()
    }

    /// Looks who has the turn.
    #[inline]
    pub(super) fn look_at_follower(&mut self) -> Action {
        self.access(State::Follower, self.geometry.cell(self.head.position), Op::Load)
    }

    pub(super) fn on_follower(&mut self, found: u64, departed: &Departed) -> Action {
        let cell = Cell::of(found);
        if cell.position != self.head.position {
            // Nobody has asked for it yet, or it is over.
            return self.passed_on();
        }
        if Direct::is_left(cell, departed) {
            return self.recover(cell, departed);
        }
        if cell.phase != Phase::Waiting || cell.rank == self.geometry.rank {
            return self.passed_on();
        }
        self.state = State::Hailed(cell.rank);
        Action::Wake(cell.rank)
    }

    pub(super) fn on_hailed(&mut self, rank: u32, departed: &Departed) -> Action {
        if departed.contains(rank) { self.look_at_follower() } else { self.passed_on() }
    }

    /// Somebody is there to whom the turn belongs, or others pass it on.
    pub(super) fn passed_on(&mut self) -> Action {
        self.recovery = Recovery::NONE;
        match self.then {
            Then::Ask => self.look_at_head(),
            Then::Enter => self.on_entered(),
            Then::Fail => self.on_fail(),
            Then::Release => self.over(),
        }
    }

    /// After [`super::Left::Onward`], and when the rank of [`super::Left::Wake`] is gone: the turn
    /// is to be passed on. It is driven until [`Action::Released`].
    pub fn go_on(&mut self) {
        debug_assert_eq!(self.state, State::Idle, "what was let go is passed on");
        self.then = Then::Release;
        self.state = State::Onward;
    }
}
