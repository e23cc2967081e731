//! Wanting to ask: how a rank that is far from a variable's home gets past those that are near.
//!
//! To ask is a compare-and-swap from what was seen, and meanwhile a rank beside the home may have
//! acquired and let go many times. So a rank whose swaps fail says that it *wants* to ask, by a bit
//! at the home, and takes the bit back once it has asked. Whoever begins to ask and sees bits of
//! others stands back until those have gone that it saw first.
//!
//! ```text
//!   far   ask ─ failed ─ ask ─ failed ─ bit ─────── ask ─ done ─ no bit
//!   near  turn turn turn turn turn turn turn (sees bit) ............... ask
//! ```
//!
//! **The bound.** From the moment the bit is there a rank is overtaken at most once by each other
//! one: by a request that had begun before. Readers from other nodes, for whom the look is a round
//! trip of its own, take it at every [`FAR_LOOK`]th request, and may overtake so often. Before it
//! there are [`FAILURES`] attempts, each a few round trips long; [`FAILURES_NEAR`] on the home's
//! node, where they are short.
//!
//! A rank with a bit never waits for anybody, so a bit is there for a few operations, and whoever
//! stands back looks again soon: there is nobody to be woken, and so no set of those who stand
//! back, which would be a second bit to put right after a death. Bits of the dead are taken away.
//! Whoever wants to ask does not stand back for others who want to, each of whom gets past it at
//! most once; and bits that come up later are not waited for, so nobody stands back for ever.

use super::{Direct, State};
use crate::departed::Departed;
use crate::geometry::{Geometry, Word};
use crate::protocol::{Action, Op, Patience, Refusal};
use crate::word::{Kind, READERS_A_WORD};

/// Failed attempts to ask before a rank of another node says that it wants to. The first is met by
/// any two that ask at the same time; a bit would cost both more than asking again.
pub const FAILURES: u8 = 2;

/// The same for a rank of the home's node. There an attempt takes as long as a cache line, and two
/// ranks that do nothing but acquire and let go fail twice all the time: with bits for that, one in
/// three runs of such a pair took 3 to 10 times as long.
pub const FAILURES_NEAR: u8 = 16;

/// How often a reader of another node looks who wants to ask: once in so many requests. Writers see
/// it as they look for readers, which they have to do anyway.
pub const FAR_LOOK: u8 = 8;

/// What a rank does about others who want to ask, and says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Courtesy {
    /// The words at home are near.
    pub(super) near: bool,
    /// Requests to read so far, as far as that matters.
    reads: u8,
    /// It has been seen who wants to ask, or need not be.
    pub(super) done: bool,
    /// Somebody was let past: what was seen before is old.
    stood: bool,
    failures: u8,
    /// The own bit is set.
    pub(super) wants: bool,
}

impl Courtesy {
    pub(super) fn new(geometry: &Geometry, home: u32) -> Courtesy {
        let near = geometry.node_of(home) == geometry.node();
        let (done, stood, failures, wants) = (false, false, 0, false);
        Courtesy { near, reads: 0, done, stood, failures, wants }
    }

    /// A new request.
    #[inline]
    pub(super) fn begin(&mut self, kind: Kind) {
        (self.failures, self.stood, self.done) = (0, false, false);
        if kind == Kind::Read && !self.near {
            self.reads = (self.reads + 1) % FAR_LOOK;
            self.done = self.reads != 0;
        }
    }

    /// A turn was taken.
    #[inline]
    pub(super) fn asked(&mut self) {
        (self.failures, self.stood, self.done) = (0, false, true);
    }

    /// All bits have been seen; answers whether somebody was let past.
    #[inline]
    pub(super) fn end(&mut self) -> bool {
        self.done = true;
        std::mem::take(&mut self.stood)
    }
}

impl Direct {
    /// Stands back for those of `owed` who want to ask; `None`: there are none (any more).
    #[inline]
    pub(super) fn let_past(
        &mut self,
        at: u32,
        owed: u64,
        bits: u64,
        departed: &Departed,
    ) -> Option<Action> {
        let wanting = bits >> READERS_A_WORD & owed;
        if wanting == 0 || self.courtesy.done {
            return None;
        }
        Some(self.stand_back(at, wanting, departed))
    }

    #[inline(never)]
    fn stand_back(&mut self, at: u32, wanting: u64, departed: &Departed) -> Action {
        let gone = departed.readers(at);
        if wanting & gone != 0 {
            let (state, bits) = (State::SweepWants { at, owed: wanting }, gone << READERS_A_WORD);
            return self.access(state, Word::Readers(at), Op::And(!bits));
        }
        if self.patience == Patience::Try {
            return self.refuse(Refusal::Busy);
        }
        self.courtesy.stood = true;
        self.state = State::StandBack { at, owed: wanting };
        Action::StandBack
    }

    /// Somebody else took what this rank was about to; `Some`: that is enough.
    #[inline]
    pub(super) fn overtaken(&mut self) -> Option<Action> {
        let most = if self.courtesy.near { FAILURES_NEAR } else { FAILURES };
        self.courtesy.failures = most.min(self.courtesy.failures + 1);
        (self.courtesy.failures == most).then_some(())?;
        if self.patience == Patience::Try {
            return Some(self.refuse(Refusal::Busy));
        }
        if self.courtesy.wants {
            return None;
        }
        self.courtesy.wants = true;
        let (at, bit) = self.geometry.wanting_bit();
        Some(self.access(State::Want, Word::Readers(at), Op::Or(bit)))
    }

    /// Takes the bit back: this rank has asked, or does not want to any more.
    pub(super) fn unwant(&mut self, entered: bool) -> Action {
        let (at, bit) = self.geometry.wanting_bit();
        self.courtesy.wants = false;
        self.access(State::Unwant { entered }, Word::Readers(at), Op::And(!bit))
    }

    /// Asks, whoever wants to. For one that stands back and cannot for long: a rank that was
    /// stopped with its bit set holds up whoever knows of it, not for ever.
    pub fn insist(&mut self) {
        if matches!(self.state, State::StandBack { .. }) {
            self.courtesy.done = true;
            self.state = State::Start;
        }
    }
}
