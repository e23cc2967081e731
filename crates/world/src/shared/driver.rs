//! What drives a variable's protocol: the wall between what all protocols have in common (guards,
//! parts, names, errors) and how each of them gets a variable to a rank.

use std::ptr::NonNull;

use hikyaku_dsm::{Entry, Kind, Patience, Refusal};
use hikyaku_shm::View;

use super::direct::{Control, DirectDriver};
use super::memory::{Own, Sizes};
use crate::error::Error;
use crate::world::World;

/// How a variable gets to this rank.
#[derive(Debug)]
pub(super) enum Driver {
    /// By remote atomics and remote reads.
    Direct(DirectDriver),
}

/// What has come of asking for a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// It is to be driven.
    Begun,
    /// This rank has it, or has asked for it.
    Taken,
    /// There is none of that number.
    NoSuchPart,
}

/// What a call of the protocol has come to.
#[derive(Debug)]
pub(super) enum Outcome {
    Wait,
    Entered(Entry),
    Refused(Refusal),
    Released,
}

impl Driver {
    /// Asks for a part.
    #[inline]
    pub(super) fn request(&self, part: u64, kind: Kind, patience: Patience) -> Asked {
        match self {
            Driver::Direct(direct) => direct.request(part, kind, patience),
        }
    }

    /// Does what can be done now for a part that was asked for or is let go. `extent`: its first
    /// byte and its length.
    #[inline]
    pub(super) fn drive(
        &self,
        world: &World,
        part: u64,
        extent: impl Fn() -> (u64, usize),
    ) -> Result<Outcome, Error> {
        match self {
            Driver::Direct(direct) => direct.drive(world, part, extent),
        }
    }

    /// Begins to give up a request that waits; answers whether it has to be driven for that.
    pub(super) fn cancel(&self, part: u64) -> bool {
        match self {
            Driver::Direct(direct) => direct.cancel(part),
        }
    }

    /// Begins to let a part go that was entered; it has to be driven for that.
    #[inline]
    pub(super) fn release(&self, part: u64) {
        match self {
            Driver::Direct(direct) => direct.release(part),
        }
    }

    /// Looks who is gone: for requests that do not wait.
    pub(super) fn look_around(&self, world: &World) {
        match self {
            Driver::Direct(direct) => direct.look_around(world),
        }
    }

    /// Owner and state of a part at this node; asks nobody. `None`: no such part.
    pub(super) fn control(&self, world: &World, part: u64) -> Result<Option<Control>, Error> {
        match self {
            Driver::Direct(direct) => direct.control(world, part),
        }
    }

    /// Where the copy is that this rank uses, and its length.
    #[inline]
    pub(super) fn copy(&self) -> (NonNull<u8>, usize) {
        match self {
            Driver::Direct(direct) => direct.memory().copy(),
        }
    }

    /// How large things are.
    pub(super) fn sizes(&self) -> &Sizes {
        match self {
            Driver::Direct(direct) => direct.memory().sizes(),
        }
    }

    /// Bytes of contents that came from elsewhere, and how often.
    pub(super) fn moved(&self) -> (u64, u64) {
        match self {
            Driver::Direct(direct) => direct.moved(),
        }
    }

    /// The end: what this rank gave, to be given back when the others have parted too, which they
    /// say in the block. `None`: there is nothing to be given back.
    pub(super) fn part(&mut self, world: &World) -> Option<(Own, Option<View>)> {
        match self {
            Driver::Direct(direct) => direct.part(world),
        }
    }
}
