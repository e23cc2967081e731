//! A seeded random generator for tests. It decides only the order of steps.

use hikyaku_nic::random::Random;

/// The generator. Its numbers are remainders, so that a seed that found a fault keeps naming the
/// same walk.
pub(crate) struct Chance(Random);

impl Chance {
    pub(crate) fn new(seed: u64) -> Chance {
        Chance(Random::new(seed))
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.word() % end
    }

    /// An index into `length` elements.
    pub(crate) fn place(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }
}
