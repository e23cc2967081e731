//! A seeded random generator for tests: it decides the order of steps, nothing more.

use hikyaku_nic::random::Random;

/// The generator. Its numbers are remainders, so that a seed goes on naming the walk that it named
/// when it found something.
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
