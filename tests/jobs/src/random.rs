//! Seeded numbers: the same in every run, on every rank and machine.

use std::hash::{BuildHasher, Hasher, RandomState};

use hikyaku_nic::random;

/// Numbers that choose sizes and moments; any seed is valid.
#[derive(Debug, Clone)]
pub struct Random(random::Random);

impl Random {
    /// Numbers that follow from `seed` alone.
    pub fn new(seed: u64) -> Random {
        Random(random::Random::new(seed))
    }

    /// A seed that no other run has; print it.
    pub fn fresh_seed() -> u64 {
        RandomState::new().build_hasher().finish()
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0.word()
    }

    /// A number below `bound`, which is not 0. The bias is `bound` / 2^64.
    pub fn below(&mut self, bound: usize) -> usize {
        assert_ne!(bound, 0, "there is no number below 0");
        self.0.place(bound)
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_below_their_bound_and_reach_all_of_it() {
        let mut random = Random::new(5);
        let mut seen = [false; 7];
        (0..200).for_each(|_| seen[random.below(7)] = true);
        assert_eq!(seen, [true; 7]);
        assert_eq!(random.below(1), 0);
    }
}
