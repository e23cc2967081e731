//! What drives a variable's protocol: the wall between what all protocols have in common (guards,
//! parts, names, errors) and how each of them gets a variable to a rank.

use std::ptr::NonNull;

use hikyaku_dsm::{Entry, Kind, Patience, Refusal};
use hikyaku_nic::time::Time;
use hikyaku_shm::View;

use super::direct::{Control, DirectDriver};
use super::mailbox::MailboxDriver;
use super::memory::{Memory, Own, Sizes};
use super::protocol::Traffic;
use super::service::Rest;
use crate::error::Error;
use crate::world::World;

/// How a variable gets to this rank.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one a variable, and no pointer on the short way")]
pub(super) enum Driver {
    /// By remote atomics and remote reads.
    Direct(DirectDriver),
    /// By messages to its owner.
    Mailbox(MailboxDriver),
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
    /// To look again soon: others are let past, who wake nobody.
    StandBack,
    Entered(Entry),
    Refused(Refusal),
    Released,
}

impl Driver {
    /// Asks for a part.
    #[inline]
    pub(super) fn request(
        &self,
        world: &World,
        part: u64,
        kind: Kind,
        patience: Patience,
    ) -> Asked {
        match self {
            Driver::Direct(direct) => direct.request(part, kind, patience),
            Driver::Mailbox(mailbox) => mailbox.request(world, part, kind, patience),
        }
    }

    /// Acquires a part, if nobody has it and that is simple; `None`: it is to be asked for.
    #[inline(always)]
    pub(super) fn enter_free(
        &self,
        world: &World,
        part: u64,
        kind: Kind,
        extent: impl Fn() -> (u64, usize),
    ) -> Option<Result<Entry, Error>> {
        match self {
            Driver::Direct(direct) => direct.enter_free(world, part, kind, extent),
            Driver::Mailbox(_) => None,
        }
    }

    /// Lets a part go, if that is simple; `false`: it is to be released.
    #[inline]
    pub(super) fn leave_free(&self, world: &World, part: u64) -> bool {
        match self {
            Driver::Direct(direct) => direct.leave_free(world, part),
            Driver::Mailbox(_) => false,
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
            Driver::Mailbox(mailbox) => Ok(mailbox.look(world, part)),
        }
    }

    /// Ends the standing back of a request, that is: it asks.
    pub(super) fn insist(&self, part: u64) {
        match self {
            Driver::Direct(direct) => direct.insist(part),
            Driver::Mailbox(_) => {}
        }
    }

    /// Gives up a request that waits, or lets a part go that was entered.
    #[inline]
    pub(super) fn give(&self, world: &World, part: u64, had: bool) {
        match self {
            Driver::Direct(direct) => {
                if direct.give(part, had) {
                    direct.finish(world, part);
                }
            }
            Driver::Mailbox(mailbox) => mailbox.give(world, part),
        }
    }

    /// Waits a moment for what a request waits for.
    #[inline]
    pub(super) fn watch(&self, part: u64) {
        match self {
            Driver::Direct(direct) => direct.watch(part),
            Driver::Mailbox(_) => std::hint::spin_loop(),
        }
    }

    /// Whether what a request waits for is a word of memory.
    #[inline]
    pub(super) fn is_watched(&self) -> bool {
        matches!(self, Driver::Direct(_))
    }

    /// Looks who is gone: for requests that do not wait.
    pub(super) fn look_around(&self, world: &World) {
        match self {
            Driver::Direct(direct) => direct.look_around(world),
            // It does so whenever it looks for messages.
            Driver::Mailbox(_) => {}
        }
    }

    /// Owner and state of a part at this node; asks nobody. `None`: no such part.
    pub(super) fn control(&self, world: &World, part: u64) -> Result<Option<Control>, Error> {
        match self {
            Driver::Direct(direct) => direct.control(world, part),
            Driver::Mailbox(mailbox) => Ok(mailbox.control(world, part)),
        }
    }

    /// Who has a part that this rank waits for, as far as can be seen from here.
    pub(super) fn holder(&self, part: u64) -> Option<u32> {
        match self {
            Driver::Direct(direct) => direct.holder(part),
            Driver::Mailbox(mailbox) => mailbox.side.holder(part),
        }
    }

    pub(super) fn memory(&self) -> &Memory {
        match self {
            Driver::Direct(direct) => direct.memory(),
            Driver::Mailbox(mailbox) => mailbox.side.memory(),
        }
    }

    /// Where the copy is that this rank uses, and its length.
    #[inline]
    pub(super) fn copy(&self) -> (NonNull<u8>, usize) {
        self.memory().copy()
    }

    /// How large things are.
    pub(super) fn sizes(&self) -> &Sizes {
        match self {
            Driver::Direct(direct) => direct.memory().sizes(),
            Driver::Mailbox(mailbox) => mailbox.side.memory().sizes(),
        }
    }

    /// Whether time is virtual.
    pub(super) fn is_virtual(&self) -> bool {
        match self {
            Driver::Direct(direct) => direct.memory().is_virtual(),
            Driver::Mailbox(mailbox) => mailbox.side.memory().is_virtual(),
        }
    }

    /// Bytes of contents that came from elsewhere, and how often.
    pub(super) fn moved(&self) -> (u64, u64) {
        match self {
            Driver::Direct(direct) => direct.moved(),
            Driver::Mailbox(mailbox) => mailbox.side.moved(),
        }
    }

    /// What was sent between ranks for it, by this one.
    pub(super) fn traffic(&self) -> Traffic {
        match self {
            Driver::Direct(direct) => direct.traffic(),
            Driver::Mailbox(mailbox) => mailbox.side.traffic(),
        }
    }

    /// Waits a little in a way of its own; `false`: it has none.
    pub(super) fn rest(&self, world: &World, rest: &mut Rest, until: Option<Time>) -> bool {
        match self {
            Driver::Direct(_) => false,
            Driver::Mailbox(mailbox) => mailbox.rest(world, rest, until),
        }
    }

    /// The end: what this rank gave, to be given back when the others have parted too, which they
    /// say in the block. `None`: there is nothing to be given back.
    pub(super) fn part(&mut self, world: &World) -> Option<(Own, Option<View>)> {
        match self {
            Driver::Direct(direct) => direct.part(world),
            Driver::Mailbox(mailbox) => {
                mailbox.part(world);
                None
            }
        }
    }
}
