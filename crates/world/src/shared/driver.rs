//! Drives a variable's protocol: the boundary between what all protocols share (guards, parts,
//! names, errors) and how each of them brings a variable to a rank.

use std::ptr::NonNull;

use hikyaku_dsm::{Entry, Kind, Patience, Refusal};
use hikyaku_nic::time::Time;
use hikyaku_rank::Rest;
use hikyaku_rank::View;

use super::direct::{Control, DirectDriver};
use super::mailbox::MailboxDriver;
use super::memory::{Memory, Own, Sizes};
use super::protocol::Traffic;
use crate::error::Error;
use crate::world::World;

/// The driver of a variable at this rank.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one a variable, and no pointer on the short way")]
pub(super) enum Driver {
    /// By remote atomics and remote reads.
    Direct(DirectDriver),
    /// By messages to its owner.
    Mailbox(MailboxDriver),
}

/// The result of requesting a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// The request has begun; drive it.
    Begun,
    /// This rank holds it, or has requested it.
    Taken,
    /// The variable has no part of this number.
    NoSuchPart,
}

/// The result of a call of the protocol.
#[derive(Debug)]
pub(super) enum Outcome {
    Wait,
    /// Poll again soon: this rank lets others ask first, and they do not wake it.
    StandBack,
    Entered(Entry),
    Refused(Refusal),
    Released,
}

impl Driver {
    /// Requests a part.
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

    /// Acquires a part on the fast path; `None`: it must be requested.
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

    /// Releases a part on the fast path; `false`: it must be released step by step.
    #[inline]
    pub(super) fn leave_free(&self, world: &World, part: u64) -> bool {
        match self {
            Driver::Direct(direct) => direct.leave_free(world, part),
            Driver::Mailbox(_) => false,
        }
    }

    /// Drives a requested or released part as far as possible now. `extent`: its first byte and its
    /// length.
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

    /// Ends the standing back of a request: it asks now.
    pub(super) fn insist(&self, part: u64) {
        match self {
            Driver::Direct(direct) => direct.insist(part),
            Driver::Mailbox(_) => {}
        }
    }

    /// Cancels a waiting request, or releases an entered part.
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

    /// Waits a moment for the word that a request watches.
    #[inline]
    pub(super) fn watch(&self, part: u64) {
        match self {
            Driver::Direct(direct) => direct.watch(part),
            Driver::Mailbox(_) => std::hint::spin_loop(),
        }
    }

    /// Whether a request watches a word of memory.
    #[inline]
    pub(super) fn is_watched(&self) -> bool {
        matches!(self, Driver::Direct(_))
    }

    /// Looks up the dead ranks, for requests that do not wait.
    pub(super) fn look_around(&self, world: &World) {
        match self {
            Driver::Direct(direct) => direct.look_around(world),
            // It does so in each poll for messages.
            Driver::Mailbox(_) => {}
        }
    }

    /// Owner and state of a part at this node; asks no rank. `None`: no such part.
    pub(super) fn control(&self, world: &World, part: u64) -> Result<Option<Control>, Error> {
        match self {
            Driver::Direct(direct) => direct.control(world, part),
            Driver::Mailbox(mailbox) => Ok(mailbox.control(world, part)),
        }
    }

    /// The holder of a part that this rank waits for, as far as this rank knows.
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

    /// The copy that this rank uses, and its length.
    #[inline]
    pub(super) fn copy(&self) -> (NonNull<u8>, usize) {
        self.memory().copy()
    }

    /// The sizes of the variable.
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

    /// Bytes of contents fetched from other nodes, and how often.
    pub(super) fn moved(&self) -> (u64, u64) {
        match self {
            Driver::Direct(direct) => direct.moved(),
            Driver::Mailbox(mailbox) => mailbox.side.moved(),
        }
    }

    /// Messages and operations that this rank has sent for it.
    pub(super) fn traffic(&self) -> Traffic {
        match self {
            Driver::Direct(direct) => direct.traffic(),
            Driver::Mailbox(mailbox) => mailbox.side.traffic(),
        }
    }

    /// Waits a moment in the protocol's own way; `false`: it has none.
    pub(super) fn rest(&self, world: &World, rest: &mut Rest, until: Option<Time>) -> bool {
        match self {
            Driver::Direct(_) => false,
            Driver::Mailbox(mailbox) => mailbox.rest(world, rest, until),
        }
    }

    /// Ends the use of the variable: the memory that this rank gave, to be freed when the others
    /// have parted too, which they say in the block. `None`: there is nothing to free.
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
