//! A seeded source of numbers for tests: the order of things, nothing more (SplitMix64: Steele,
//! Lea, Flood 2014).

/// What comes next follows from the seed.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// One of the numbers before `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// A place in what has `length` of them.
    pub(crate) fn place(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }
}
