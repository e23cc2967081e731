//! Fault injection, for tests: events that processors and fabrics may cause at any time, and seldom
//! do.
//!
//! ```text
//!   between two steps of a protocol   the rank rests: not, a moment, a time slice, 20 us to 2 ms
//!   an unlocked variable              acquired and released step by step, three times in four
//!   commands to other nodes           refused as if there were no room
//!   contents                          copied in up to four pieces, with rests between
//!   letters of fagus                  handled late; those of different ranks out of order
//!   bells                             not rung: a sleeping rank polls on its own
//!   datagrams of udp                  lost, duplicated and overtaken (`service/sockets.rs`)
//! ```
//!
//! Within a node no operation is ever late. Protocols of atomic operations have races only where a
//! rank loses its processor between two operations, which happens once in millions. The rests find
//! those races. The rest of the table is what a fabric's contract allows.
//!
//! Each rank has its own random generator: the same seed and rank give the same numbers in every
//! run. Their effect also depends on the timing of the other ranks. No faults are injected in
//! virtual time.

use std::cell::RefCell;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use crate::{Word, WordOp};
use hikyaku_nic::fabric::Port;
use hikyaku_nic::random::Random;
use hikyaku_rank::RankPort;

use super::options::Settings;

/// Refused commands per thousand attempts.
const REFUSED: u64 = 30;

/// Bells per thousand that are not rung.
const BELLS_LOST: u64 = 100;

/// Letters per thousand that are handled late, and the maximum delay in polls.
const LATE: u64 = 300;
const LATE_LOOKS: u64 = 12;

/// Per thousand rests: the number that do nothing. Of the others: those below a microsecond, those
/// that yield, and short sleeps. The remaining ones are long sleeps.
const NO_REST: u64 = 550;
const A_MOMENT: u64 = 250;
const GIVE_WAY: u64 = 180;
const SHORT: u64 = 18;

/// A fault of a protocol, or of the fabric under it, that the tests of the protocols must detect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtocolFault {
    /// Writers do not see readers.
    PassesReaders,
    /// Compare-and-swap is a load and a store.
    SwapsInTwo,
    /// An old copy is not updated.
    MovesNothing,
    /// The first piece of the contents is not copied.
    LosesAPiece,
}

impl ProtocolFault {
    /// Performs an operation on a word with the fault.
    pub(super) fn access<E>(
        self,
        word: Word,
        op: WordOp,
        access: impl Fn(WordOp) -> Result<u64, E>,
    ) -> Result<u64, E> {
        match (self, word, op) {
            (ProtocolFault::PassesReaders, Word::Readers(_), WordOp::Load) => Ok(0),
            (ProtocolFault::SwapsInTwo, _, WordOp::CompareSwap { expected, new }) => {
                let old = access(WordOp::Load)?;
                if old == expected {
                    access(WordOp::Swap(new))?;
                }
                Ok(old)
            }
            _ => access(op),
        }
    }

    /// The number of pieces of contents that are not copied.
    fn pieces_lost(self) -> usize {
        match self {
            ProtocolFault::MovesNothing => usize::MAX,
            ProtocolFault::LosesAPiece => 1,
            ProtocolFault::PassesReaders | ProtocolFault::SwapsInTwo => 0,
        }
    }
}

/// Injects faults into one rank's shared variables.
#[derive(Debug)]
pub(super) struct Injector {
    seed: u64,
    random: RefCell<Random>,
    wrong: Option<ProtocolFault>,
}

impl Injector {
    /// Creates the injector for the rank of this port, if there is a seed and time is not virtual.
    pub(super) fn of(settings: Settings, port: &RankPort) -> Option<Rc<Injector>> {
        let seed = settings.faults.filter(|_| !port.capabilities().virtual_time)?;
        Some(Rc::new(Injector::new(seed, port.rank(), settings.wrong)))
    }

    fn new(seed: u64, rank: u32, wrong: Option<ProtocolFault>) -> Injector {
        let random = RefCell::new(Random::new(seed ^ (u64::from(rank) << 48)));
        Injector { seed, random, wrong }
    }

    /// The seed for other faults.
    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    /// A number below `limit`.
    fn below(&self, limit: u64) -> u64 {
        self.random.borrow_mut().below(limit)
    }

    /// Rests for a random time, which may be none.
    #[cold]
    #[expect(clippy::disallowed_methods, reason = "nothing is waited for: it is to be late")]
    pub(super) fn rest(&self) {
        let mut drawn = self.below(1000);
        let mut is = |share: u64| {
            let is = drawn < share;
            drawn = drawn.wrapping_sub(share);
            is
        };
        if is(NO_REST) {
            return;
        }
        if is(A_MOMENT) {
            return (0..self.below(100)).for_each(|_| std::hint::spin_loop());
        }
        if is(GIVE_WAY) {
            return thread::yield_now();
        }
        let microseconds = if is(SHORT) { 20 + self.below(180) } else { self.below(2000) };
        thread::sleep(Duration::from_micros(microseconds));
    }

    /// Whether an unlocked variable is acquired or released on the fast path this time.
    pub(super) fn takes_fast_path(&self) -> bool {
        self.below(4) == 0
    }

    /// Whether a command is refused.
    pub(super) fn refuses(&self) -> bool {
        self.below(1000) < REFUSED
    }

    /// Whether a bell is not rung.
    pub(super) fn loses_a_bell(&self) -> bool {
        self.below(1000) < BELLS_LOST
    }

    /// The length of the pieces in which this many bytes of contents are copied.
    pub(super) fn piece(&self, length: usize) -> usize {
        let pieces = 1 + self.below(4) as usize;
        length.div_ceil(pieces).next_multiple_of(64)
    }

    /// The delay of a letter in polls.
    pub(super) fn looks_late(&self) -> u64 {
        if self.below(1000) < LATE { 1 + self.below(LATE_LOOKS) } else { 0 }
    }

    /// The fault of the protocol itself.
    pub(super) fn wrong(&self) -> Option<ProtocolFault> {
        self.wrong
    }

    /// The number of pieces of contents that this fault does not copy.
    pub(super) fn pieces_lost(&self) -> usize {
        self.wrong.map_or(0, ProtocolFault::pieces_lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_and_rank_say_what_is_drawn() {
        let draw = |seed, rank| {
            let injector = Injector::new(seed, rank, None);
            [(); 8].map(|()| injector.below(1000))
        };
        assert_eq!(draw(7, 1), draw(7, 1));
        assert_ne!(draw(7, 1), draw(7, 2));
        assert_ne!(draw(7, 1), draw(8, 1));
        let injector = Injector::new(7, 0, None);
        for length in [1, 63, 64, 65, 5600] {
            let piece = injector.piece(length);
            assert!(piece >= length.div_ceil(4) && piece.is_multiple_of(64), "{piece} of {length}");
        }
    }

    #[test]
    fn faults_are_shares_of_a_thousand() {
        let injector = || Injector::new(7, 0, None);
        let (refuses, loses, drawn) = (injector(), injector(), injector());
        for _ in 0..5000 {
            let drawn = drawn.below(1000);
            assert_eq!(refuses.refuses(), drawn < REFUSED);
            assert_eq!(loses.loses_a_bell(), drawn < BELLS_LOST);
        }
    }
}
