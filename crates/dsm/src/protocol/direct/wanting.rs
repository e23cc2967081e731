//! Wanting to ask: how a rank far from a variable's home gets past the ranks near it.
//!
//! Asking is a compare-and-swap from the value seen. Meanwhile a rank near the home may have
//! acquired and released many times. So a rank whose swaps fail sets a bit at the home to say that
//! it *wants* to ask, and clears the bit once it has asked. A rank that begins to ask and sees the
//! bits of other ranks stands back until those bits are clear.
//!
//! ```text
//!   far   ask ─ failed ─ ask ─ failed ─ bit ─────── ask ─ done ─ no bit
//!   near  turn turn turn turn turn turn turn (sees bit) ............... ask
//! ```
//!
//! **The bound.** Once the bit is set, each other rank overtakes at most once: by a request that
//! had begun before. Readers of other nodes pay a round trip to read the bits. So they read them at
//! every [`FAR_LOOK`]th request only, and may overtake that often. Before it sets the bit, a rank
//! makes [`FAILURES`] attempts, each a few round trips long. On the home's node, where attempts are
//! short, it makes [`FAILURES_NEAR`].
//!
//! A rank with a bit never waits for others, so a bit is set for a few operations only, and a rank
//! that stands back soon polls again. It is never woken. So no set of waiting ranks is needed: it
//! would be a second set of bits to repair after a death. Other ranks clear the bits of dead ranks.
//! A rank that wants to ask does not stand back for others that want to; each of them gets past it
//! at most once. A rank that stands back ignores bits that are set later, so it does not stand back
//! for ever.

use super::{Direct, Pending};
use crate::departed::Departed;
use crate::geometry::{Geometry, Word};
use crate::protocol::{Action, Patience, Refusal, WordOp};
use crate::word::{AccessKind, READERS_A_WORD};

/// Failed attempts to ask before a rank of another node sets its bit. Any two ranks that ask at the
/// same time meet the first failure; a bit would cost both more than a retry.
pub const FAILURES: u8 = 2;

/// The same for a rank of the home's node. There an attempt takes as long as a cache line transfer,
/// and two ranks that only acquire and release fail twice all the time. With bits set after two
/// failures, one in three runs of such a pair took 3 to 10 times as long.
pub const FAILURES_NEAR: u8 = 16;

/// A reader of another node checks which ranks want to ask once in this many requests. Writers see
/// the bits without extra cost, because they have to check for readers.
pub const FAR_LOOK: u8 = 8;

/// This rank's treatment of others that want to ask, and its own bit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Courtesy {
    /// Whether the words at home are near.
    pub(super) near: bool,
    /// The number of read requests so far, modulo [`FAR_LOOK`].
    reads: u8,
    /// Whether the bits have been checked or need no check.
    pub(super) done: bool,
    /// Whether this rank has stood back, so that its earlier observations are old.
    stood: bool,
    failures: u8,
    /// Whether this rank's bit is set.
    pub(super) wants: bool,
}

impl Courtesy {
    pub(super) fn new(geometry: &Geometry, home: u32) -> Courtesy {
        let near = geometry.node_of(home) == geometry.node();
        let (done, stood, failures, wants) = (false, false, 0, false);
        Courtesy { near, reads: 0, done, stood, failures, wants }
    }

    /// Begins a new request.
    #[inline]
    pub(super) fn begin(&mut self, kind: AccessKind) {
        (self.failures, self.stood, self.done) = (0, false, false);
        if kind == AccessKind::Read && !self.near {
            self.reads = (self.reads + 1) % FAR_LOOK;
            self.done = self.reads != 0;
        }
    }

    /// Notes that a turn was taken.
    #[inline]
    pub(super) fn asked(&mut self) {
        (self.failures, self.stood, self.done) = (0, false, true);
    }

    /// Notes that all bits have been read. Returns whether this rank stood back.
    #[inline]
    pub(super) fn end(&mut self) -> bool {
        self.done = true;
        std::mem::take(&mut self.stood)
    }
}

impl Direct {
    /// Stands back for those of `owed` that want to ask. `None` if no rank does, or no longer does.
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
            let (state, bits) = (Pending::SweepWants { at, owed: wanting }, gone << READERS_A_WORD);
            return self.access(state, Word::Readers(at), WordOp::And(!bits));
        }
        if self.patience == Patience::Try {
            return self.refuse(Refusal::Busy);
        }
        self.courtesy.stood = true;
        self.state = Pending::StandBack { at, owed: wanting };
        Action::StandBack
    }

    /// Counts a turn that another rank took first. `Some` if there were too many failures.
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
        Some(self.access(Pending::Want, Word::Readers(at), WordOp::Or(bit)))
    }

    /// Clears the bit, because this rank has asked or no longer wants to.
    pub(super) fn unwant(&mut self, entered: bool) -> Action {
        let (at, bit) = self.geometry.wanting_bit();
        self.courtesy.wants = false;
        self.access(Pending::Unwant { entered }, Word::Readers(at), WordOp::And(!bit))
    }

    /// Asks even though others want to, for a rank that must not stand back for long. A rank that
    /// the system stopped with its bit set delays others, but not for ever.
    pub fn insist(&mut self) {
        if matches!(self.state, Pending::StandBack { .. }) {
            self.courtesy.done = true;
            self.state = Pending::Start;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_far_reader_looks_for_wishes_at_few_requests_and_others_at_each() {
        let looks = |rank, kind| {
            let mut courtesy = Courtesy::new(&Geometry::new(2, 1, rank), 0);
            let look = |_: &u32| {
                courtesy.begin(kind);
                !courtesy.done
            };
            (0..3 * u32::from(FAR_LOOK)).filter(look).count()
        };
        let every = 3 * usize::from(FAR_LOOK);
        assert_eq!((looks(1, AccessKind::Read), looks(1, AccessKind::Write)), (3, every));
        assert_eq!((looks(0, AccessKind::Read), looks(0, AccessKind::Write)), (every, every));
    }
}
