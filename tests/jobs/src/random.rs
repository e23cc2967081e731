//! Seeded numbers: the same in every run, on every rank and machine.

use std::hash::{BuildHasher, Hasher, RandomState};

/// SplitMix64 (Steele, Lea and Flood 2014): a few instructions a number, good enough to choose
/// sizes and moments, and any seed will do.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Numbers that follow from `seed` alone.
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// A seed that no other run has; print it.
    pub fn fresh_seed() -> u64 {
        RandomState::new().build_hasher().finish()
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not 0. The bias is `bound` / 2^64.
    pub fn below(&mut self, bound: usize) -> usize {
        assert_ne!(bound, 0, "there is no number below 0");
        ((u128::from(self.draw()) * bound as u128) >> 64) as usize
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
    fn the_same_seed_gives_the_published_numbers() {
        let mut random = Random::new(1_234_567);
        assert_eq!(random.draw(), 6_457_827_717_110_365_317);
        assert_eq!(random.draw(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn numbers_are_below_their_bound_and_reach_all_of_it() {
        let mut random = Random::new(5);
        let mut seen = [false; 7];
        (0..200).for_each(|_| seen[random.below(7)] = true);
        assert_eq!(seen, [true; 7]);
        assert_eq!(random.below(1), 0);
    }
}
