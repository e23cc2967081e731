//! Grids (MPI 5.0 §8.5.1, §8.5.4–8.5.6).
//!
//! Ranks count along the last dimension first, as in the standard (row-major):
//!
//! ```text
//!   dims [2, 3]     (0,0) 0   (0,1) 1   (0,2) 2
//!                   (1,0) 3   (1,1) 4   (1,2) 5
//! ```
//!
//! The neighbours of a rank come in pairs, one pair per dimension: first the one below, then the
//! one above. So block `s` of a neighbour collective belongs to dimension `s / 2`, and data sent as
//! block `s` arrives as block `s ^ 1`.

use super::{Link, Links, Topology, TopologyError};

/// A grid of ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cartesian {
    dims: Vec<u32>,
    periods: Vec<bool>,
    size: u32,
}

/// The source and destination of shifted data (MPI_Cart_shift).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shift {
    /// The rank that sends to this one; `None` beyond the border.
    pub source: Option<u32>,
    /// The rank that receives from this one; `None` beyond the border.
    pub destination: Option<u32>,
}

impl Cartesian {
    /// A grid with these extents, periodic in the dimensions that `periods` marks. Without
    /// dimensions it is a grid of one rank.
    ///
    /// # Errors
    /// A dimension of 0, another number of periods than of dimensions, or more than `u32::MAX`
    /// ranks.
    pub fn new(dims: &[u32], periods: &[bool]) -> Result<Cartesian, TopologyError> {
        if dims.len() != periods.len() {
            let (given, dims) = (periods.len(), dims.len());
            return Err(TopologyError::WrongCount { what: "periods", given, dims });
        }
        if let Some(dimension) = dims.iter().position(|extent| *extent == 0) {
            return Err(TopologyError::EmptyDimension { dimension });
        }
        let needed = dims.iter().fold(1u64, |size, extent| size.saturating_mul(u64::from(*extent)));
        let size = u32::try_from(needed)
            .map_err(|_| TopologyError::TooManyRanks { needed, size: u32::MAX })?;
        Ok(Cartesian { dims: dims.to_vec(), periods: periods.to_vec(), size })
    }

    /// The extents, in ranks.
    pub fn dims(&self) -> &[u32] {
        &self.dims
    }

    /// Which dimensions wrap around.
    pub fn periods(&self) -> &[bool] {
        &self.periods
    }

    /// The coordinates of a rank, which is below the grid's size (MPI_Cart_coords).
    pub fn coordinates(&self, rank: u32) -> Vec<u32> {
        debug_assert!(rank < self.size, "rank {rank} of {}", self.size);
        let mut rest = rank;
        let mut coordinates = vec![0; self.dims.len()];
        for (place, extent) in coordinates.iter_mut().zip(&self.dims).rev() {
            *place = rest % extent;
            rest /= extent;
        }
        coordinates
    }

    /// The rank at some coordinates (MPI_Cart_rank). Coordinates of periodic dimensions wrap
    /// around.
    ///
    /// # Errors
    /// A wrong number of coordinates, or one outside a dimension that is not periodic.
    pub fn rank_at(&self, coordinates: &[i64]) -> Result<u32, TopologyError> {
        if coordinates.len() != self.dims.len() {
            let (given, dims) = (coordinates.len(), self.dims.len());
            return Err(TopologyError::WrongCount { what: "coordinates", given, dims });
        }
        let mut rank = 0;
        for (dimension, &coordinate) in coordinates.iter().enumerate() {
            let extent = self.dims[dimension];
            let place = self.wrapped(dimension, coordinate);
            let place = place.ok_or(TopologyError::Outside { dimension, coordinate, extent })?;
            rank = rank * extent + place;
        }
        Ok(rank)
    }

    /// A coordinate within its dimension; `None` beyond the border.
    fn wrapped(&self, dimension: usize, coordinate: i64) -> Option<u32> {
        let extent = i64::from(self.dims[dimension]);
        let within = coordinate.rem_euclid(extent);
        (self.periods[dimension] || within == coordinate).then_some(within as u32)
    }

    /// The partners of `rank` when data moves by `displacement` along a dimension (MPI_Cart_shift).
    ///
    /// # Errors
    /// There is no such dimension.
    pub fn shift(
        &self,
        rank: u32,
        dimension: usize,
        displacement: i64,
    ) -> Result<Shift, TopologyError> {
        let dims = self.dims.len();
        if dimension >= dims {
            return Err(TopologyError::NoSuchDimension { dimension, dims });
        }
        Ok(Shift {
            source: self.towards(rank, dimension, displacement.saturating_neg()),
            destination: self.towards(rank, dimension, displacement),
        })
    }

    /// The rank at this distance along a dimension.
    fn towards(&self, rank: u32, dimension: usize, displacement: i64) -> Option<u32> {
        let stride: u32 = self.dims[dimension + 1..].iter().product();
        let place = rank / stride % self.dims[dimension];
        let there = self.wrapped(dimension, i64::from(place).checked_add(displacement)?)?;
        Some(rank - place * stride + there * stride)
    }

    /// The grid without the dimensions that are not kept, and the ranks of `rank`'s own slice in
    /// the order of the smaller grid (MPI_Cart_sub).
    ///
    /// # Errors
    /// Another number of choices than of dimensions.
    pub fn sub(&self, rank: u32, keep: &[bool]) -> Result<(Cartesian, Vec<u32>), TopologyError> {
        if keep.len() != self.dims.len() {
            let (given, dims) = (keep.len(), self.dims.len());
            return Err(TopologyError::WrongCount { what: "choices", given, dims });
        }
        let kept = |at: &usize| keep[*at];
        let indices = (0..self.dims.len()).filter(kept).collect::<Vec<_>>();
        let dims: Vec<u32> = indices.iter().map(|at| self.dims[*at]).collect();
        let periods: Vec<bool> = indices.iter().map(|at| self.periods[*at]).collect();
        let small = Cartesian::new(&dims, &periods)?;
        let mut place = self.coordinates(rank);
        let ranks = (0..small.size).map(|member| {
            for (at, coordinate) in indices.iter().zip(small.coordinates(member)) {
                place[*at] = coordinate;
            }
            place.iter().zip(&self.dims).fold(0, |rank, (place, extent)| rank * extent + place)
        });
        let ranks = ranks.collect();
        Ok((small, ranks))
    }
}

impl Topology for Cartesian {
    fn size(&self) -> u32 {
        self.size
    }

    fn links(&self, rank: u32) -> Links {
        let slots = || (0..self.dims.len()).flat_map(|dimension| [(dimension, -1), (dimension, 1)]);
        let ends = || (0..).zip(slots().map(|(dimension, by)| self.towards(rank, dimension, by)));
        // A channel is the sent block; it arrives in the opposite one.
        Links {
            sources: ends()
                .map(|(slot, rank)| Link { rank, weight: 1, channel: slot ^ 1 })
                .collect(),
            destinations: ends()
                .map(|(slot, rank)| Link { rank, weight: 1, channel: slot })
                .collect(),
        }
    }

    fn channels(&self) -> u32 {
        (2 * self.dims.len() as u32).max(1)
    }

    /// Bricks: all divisions of the grid into equal boxes of `per_node` ranks.
    fn partitions(&self, per_node: u32) -> Vec<Vec<u32>> {
        let mut bricks = vec![Vec::new()];
        for extent in &self.dims {
            let sides = divisors(*extent);
            bricks = bricks
                .iter()
                .flat_map(|brick| sides.iter().map(move |side| [&brick[..], &[*side]].concat()))
                .filter(|brick| per_node.is_multiple_of(brick.iter().product()))
                .collect();
        }
        bricks.retain(|brick| brick.iter().product::<u32>() == per_node);
        bricks.iter().map(|brick| self.in_bricks(brick)).collect()
    }
}

impl Cartesian {
    /// The number of each rank's brick. Bricks are counted like ranks.
    fn in_bricks(&self, brick: &[u32]) -> Vec<u32> {
        let number = |rank| {
            let place = self.coordinates(rank);
            let sides = self.dims.iter().zip(brick);
            let along = place.iter().zip(sides);
            along.fold(0, |number, (place, (extent, side))| number * (extent / side) + place / side)
        };
        (0..self.size).map(number).collect()
    }
}

/// Fills the zeros in `dims` so that the product is `ranks` and the filled extents are balanced, in
/// non-increasing order (MPI_Dims_create, MPI 5.0 §8.5.2). Other entries stay unchanged.
///
/// "As close to each other as possible" is taken literally: of all factorisations, the one with the
/// smallest largest factor, and of those the one with the smallest second factor, and so on. Greedy
/// factorisation by primes, as in other libraries, misses it (Träff and Lübbe, EuroMPI 2015).
///
/// # Errors
/// [`TopologyError::Indivisible`]: the fixed entries do not divide `ranks`, or no entry is zero and
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
/// smallest. `None` if there is none. `divisors` has those of `number`, and may have more.
fn balanced(number: u32, parts: usize, most: u32, divisors: &[u32]) -> Option<Vec<u32>> {
    if number == 1 {
        return Some(vec![1; parts]);
    }
    if parts == 0 {
        return None;
    }
    let enough = |factor: u32| {
        // This factor is the largest, so `parts` times this factor must reach the number.
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

    fn grid(dims: &[u32], periods: &[bool]) -> Cartesian {
        Cartesian::new(dims, periods).unwrap()
    }

    #[test]
    fn ranks_count_along_the_last_dimension_first() {
        let grid = grid(&[2, 3], &[false, true]);
        assert_eq!(grid.coordinates(4), [1, 1]);
        assert_eq!(grid.rank_at(&[1, 4]), Ok(4));
        assert_eq!(grid.rank_at(&[0, -1]), Ok(2));
        let outside = TopologyError::Outside { dimension: 0, coordinate: 2, extent: 2 };
        assert_eq!(grid.rank_at(&[2, 0]), Err(outside));
        assert!(grid.rank_at(&[1]).is_err());
    }

    #[test]
    fn shifts_end_at_borders_and_wrap_around_where_periodic() {
        let grid = grid(&[3, 4], &[false, true]);
        let shift = |rank, dimension, by| {
            let Shift { source, destination } = grid.shift(rank, dimension, by).unwrap();
            (source, destination)
        };
        assert_eq!(shift(1, 0, 1), (None, Some(5)));
        assert_eq!(shift(9, 0, 1), (Some(5), None));
        assert_eq!(shift(5, 0, -2), (None, None));
        assert_eq!(shift(4, 1, 1), (Some(7), Some(5)));
        assert_eq!(shift(4, 1, -6), (Some(6), Some(6)));
        assert_eq!(shift(4, 1, 0), (Some(4), Some(4)));
        for by in [i64::MAX, i64::MIN] {
            assert_eq!(shift(5, 0, by), (None, None));
        }
        assert!(grid.shift(0, 2, 1).is_err());
    }

    #[test]
    fn impossible_grids_are_refused() {
        assert!(Cartesian::new(&[2, 0], &[true; 2]).unwrap_err().to_string().contains("1 is 0"));
        assert!(Cartesian::new(&[2], &[]).unwrap_err().to_string().contains("0 periods"));
        assert!(Cartesian::new(&[1 << 16; 2], &[true; 2]).is_err());
        assert!(Cartesian::new(&[u32::MAX; 9], &[true; 9]).is_err());
        assert_eq!(grid(&[], &[]).size(), 1);
        assert_eq!(grid(&[], &[]).links(0), Links::default());
    }

    #[test]
    fn a_slice_keeps_the_chosen_dimensions() {
        let grid = grid(&[2, 3, 4], &[false, true, false]);
        let (small, ranks) = grid.sub(17, &[true, false, true]).unwrap();
        assert_eq!((small.dims(), small.periods()), (&[2, 4][..], &[false, false][..]));
        assert_eq!(ranks, [4, 5, 6, 7, 16, 17, 18, 19]);
        let (point, ranks) = grid.sub(17, &[false; 3]).unwrap();
        assert_eq!((point.size(), ranks), (1, vec![17]));
        assert!(grid.sub(0, &[true]).is_err());
    }

    /// A small grid with any extents and periods.
    fn small() -> impl Strategy<Value = Cartesian> {
        prop::collection::vec((1u32..5, any::<bool>()), 0..4).prop_map(|dims| {
            let (dims, periods): (Vec<_>, Vec<_>) = dims.into_iter().unzip();
            grid(&dims, &periods)
        })
    }

    proptest! {
        #[test]
        fn places_and_ranks_are_each_others_inverse(grid in small()) {
            for rank in 0..grid.size() {
                let place: Vec<i64> = grid.coordinates(rank).into_iter().map(i64::from).collect();
                prop_assert_eq!(grid.rank_at(&place), Ok(rank));
            }
        }

        #[test]
        fn what_is_sent_as_block_s_arrives_as_block_s_xor_1(grid in small()) {
            for rank in 0..grid.size() {
                for (slot, out) in grid.links(rank).destinations.iter().enumerate() {
                    prop_assert!(out.channel < grid.channels());
                    let Some(to) = out.rank else { continue };
                    let back = grid.links(to).sources[slot ^ 1];
                    prop_assert_eq!((back.rank, back.channel), (Some(rank), out.channel));
                }
            }
        }

        #[test]
        fn bricks_are_equal_and_cover_the_grid(grid in small(), per_node in 1u32..9) {
            for partition in grid.partitions(per_node) {
                let nodes = grid.size() / per_node;
                for node in 0..nodes {
                    let there = partition.iter().filter(|other| **other == node).count();
                    prop_assert_eq!(there, per_node as usize);
                }
            }
        }
    }

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
        // Far more dimensions than a stack has room for.
        assert_eq!(made(2, &vec![0; 1 << 20]).unwrap()[..2], [2, 1]);
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
