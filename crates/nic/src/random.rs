//! Random numbers from a seed, for simulations and fault injection.
//!
//! SplitMix64 (Steele, Lea, Flood 2014): it has 64 bits of state, every seed is good, and hashing a
//! key into the seed splits off a stream. Each part of a simulation takes its own stream, named by
//! a key, so that the draws of one part do not change those of another.

/// The golden ratio in 64 bits, SplitMix64's step: multiples of it are spread evenly.
pub const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// A bijection in which every output bit depends on every input bit (SplitMix64's finaliser).
pub fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

/// A deterministic stream of random numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// The stream `key` of `seed`: different keys give unrelated streams.
    pub fn stream(seed: u64, key: u64) -> Random {
        let mut mixed = Random::new(seed);
        let salt = mixed.word();
        Random::new(Random::new(salt ^ key.wrapping_mul(0xD605_BBB5_8C8A_BBB5)).word())
    }

    /// The next 64 random bits.
    pub fn word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state)
    }

    /// A number of `0..bound`; 0 if `bound` is 0. The bias is below `bound / 2^64`.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.word()) * u128::from(bound)) >> 64) as u64
    }

    /// An index into `length` elements; 0 if there are none.
    pub fn place(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// True with a probability of `thousandths` in a thousand.
    pub fn chance(&mut self, thousandths: u32) -> bool {
        thousandths > 0 && self.below(1000) < u64::from(thousandths)
    }

    /// A number of the interval `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A sample of the exponential distribution with this mean: gaps of a Poisson process.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_from_the_seed() {
        // First outputs for seed 1234567 as the algorithm's authors publish them.
        let mut random = Random::new(1_234_567);
        assert_eq!(random.word(), 6_457_827_717_110_365_317);
        assert_eq!(random.word(), 3_203_168_211_198_807_973);
        assert_eq!(Random::stream(1, 2), Random::stream(1, 2));
        assert_ne!(Random::stream(1, 2), Random::stream(1, 3));
        assert_ne!(Random::stream(1, 2), Random::stream(2, 2));
    }

    #[test]
    fn bounds_hold_and_all_values_occur() {
        let mut random = Random::new(7);
        let mut seen = [0u32; 6];
        for _ in 0..6_000 {
            seen[random.place(6)] += 1;
        }
        assert!(seen.iter().all(|&count| (850..1150).contains(&count)), "{seen:?}");
        assert_eq!(random.below(0), 0);
        assert!((0..1000).all(|_| (0.0..1.0).contains(&random.unit())));
    }

    #[test]
    fn exponential_spans_have_their_mean() {
        let mut random = Random::new(3);
        let mean = (0..100_000).map(|_| random.exponential(5.0)).sum::<f64>() / 100_000.0;
        assert!((mean - 5.0).abs() < 0.05, "{mean}");
    }
}
