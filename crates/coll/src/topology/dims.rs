//! Balanced dimensions for a number of ranks (MPI_Dims_create, MPI 5.0 §8.5.2).
//!
//! "As close to each other as possible" is taken literally: of all ways to write the number as a
//! product, the one whose largest factor is smallest, and of those the one whose second is, and so
//! on. Factorising greedily by primes, as libraries do, misses it (Träff and Lübbe, EuroMPI 2015).

use super::TopologyError;

/// Fills the zeros in `dims` so that the product is `ranks` and the filled ones are balanced, in
/// non-increasing order. Entries that are not zero stay.
///
/// # Errors
/// [`TopologyError::Indivisible`]: the entries that stay do not divide `ranks`, or none is free and
/// their product is another number.
pub fn dims_create(ranks: u32, dims: &mut [u32]) -> Result<(), TopologyError> {
    let given = dims.iter().filter(|extent| **extent > 0);
    let fixed = given.fold(1u64, |product, extent| product.saturating_mul(u64::from(*extent)));
    let error = TopologyError::Indivisible { ranks, fixed };
    let fixed = u32::try_from(fixed).map_err(|_| error.clone())?;
    if ranks == 0 || !ranks.is_multiple_of(fixed) {
        return Err(error);
    }
    let rest = ranks / fixed;
    let free = dims.iter().filter(|extent| **extent == 0).count();
    let factors = balanced(rest, free, rest, &divisors(rest)).ok_or(error)?;
    let zeros = dims.iter_mut().filter(|extent| **extent == 0);
    for (extent, factor) in zeros.zip(factors) {
        *extent = factor;
    }
    Ok(())
}

/// `number` as a product of `parts` non-increasing factors of at most `most`, lexicographically
/// smallest; `None` if there is none. `divisors` holds those of `number`, and may hold more.
fn balanced(number: u32, parts: usize, most: u32, divisors: &[u32]) -> Option<Vec<u32>> {
    if parts == 0 {
        return (number == 1).then(Vec::new);
    }
    let enough = |factor: u32| {
        // The factor is the largest, so `parts` of them reach the number at least.
        let mut power = 1u64;
        (0..parts).any(|_| {
            power = power.saturating_mul(u64::from(factor));
            power >= u64::from(number)
        })
    };
    let fits = |factor: &&u32| **factor <= most && number.is_multiple_of(**factor);
    divisors.iter().filter(fits).filter(|factor| enough(**factor)).find_map(|&factor| {
        let mut factors = vec![factor];
        factors.extend(balanced(number / factor, parts - 1, factor, divisors)?);
        Some(factors)
    })
}

/// All divisors, ascending.
pub(super) fn divisors(number: u32) -> Vec<u32> {
    let root = number.isqrt();
    let low: Vec<u32> = (1..=root).filter(|factor| number.is_multiple_of(*factor)).collect();
    let high = low.iter().rev().map(|factor| number / factor);
    let mut all = low.clone();
    all.extend(high.filter(|factor| *factor > root));
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn made(ranks: u32, dims: &[u32]) -> Result<Vec<u32>, TopologyError> {
        let mut dims = dims.to_vec();
        dims_create(ranks, &mut dims).map(|()| dims)
    }

    #[test]
    fn the_examples_of_the_standard() {
        assert_eq!(made(6, &[0, 0]), Ok(vec![3, 2]));
        assert_eq!(made(7, &[0, 0]), Ok(vec![7, 1]));
        assert_eq!(made(6, &[0, 3, 0]), Ok(vec![2, 3, 1]));
        assert!(made(7, &[0, 3, 0]).is_err());
    }

    #[test]
    fn what_is_given_stays_and_must_divide() {
        assert_eq!(made(12, &[3, 4]), Ok(vec![3, 4]));
        assert_eq!(made(1, &[]), Ok(vec![]));
        for (ranks, dims) in [(12, vec![3, 3]), (2, vec![]), (0, vec![0]), (8, vec![u32::MAX; 3])] {
            let error = made(ranks, &dims).unwrap_err().to_string();
            assert!(error.contains(&format!("{ranks} ranks cannot")), "{error}");
        }
    }

    #[test]
    fn large_numbers_take_no_time() {
        for ranks in [u32::MAX, 1 << 31, 2_147_483_647, 2_095_133_040, 3 * 1_431_655_751] {
            for parts in [1, 2, 3, 7, 31] {
                let dims = made(ranks, &vec![0; parts]).unwrap();
                assert_eq!(dims.iter().map(|d| u64::from(*d)).product::<u64>(), u64::from(ranks));
            }
        }
        // Greedy prime factors end with a largest factor of 8 here.
        assert_eq!(made(1 << 5 | 1 << 4, &[0, 0, 0]), Ok(vec![4, 4, 3]));
    }

    proptest! {
        #[test]
        fn no_other_factorisation_is_better(ranks in 1u32..400, parts in 1usize..4) {
            let dims = made(ranks, &vec![0; parts]).unwrap();
            prop_assert_eq!(dims.iter().product::<u32>(), ranks);
            prop_assert!(dims.is_sorted_by(|a, b| a >= b));
            let best = all(ranks, parts).into_iter().min().unwrap();
            prop_assert_eq!(dims, best);
        }
    }

    /// Every non-increasing factorisation.
    fn all(ranks: u32, parts: usize) -> Vec<Vec<u32>> {
        if parts == 1 {
            return vec![vec![ranks]];
        }
        let first = (1..=ranks).filter(|factor| ranks.is_multiple_of(*factor));
        let with = |factor: u32| {
            let rest = all(ranks / factor, parts - 1).into_iter();
            rest.filter(move |rest| rest[0] <= factor)
                .map(move |rest| [vec![factor], rest].concat())
        };
        first.flat_map(with).collect()
    }
}
