//! Allreduce by recursive doubling, which leaders of nodes and rounds also use to agree.
//!
//! In each round, pairs of ranks exchange their values and both combine the two halves in the same
//! order, lower ranks left. So every rank computes the same expression: results are bitwise equal
//! on all ranks and in every run with the same number of ranks, even if the operation is not
//! associative in its last bits, like floating-point addition. The order is that of the ranks, so
//! the operation need not be commutative.

use crate::call::Team;
use crate::combine::{Accumulator, Combine, Reduction};
use crate::error::Failure;
use crate::group::Group;
use crate::scratch::Scratch;

pub(crate) async fn recursive_doubling<G: Group, F: Combine<G::Byte>>(
    team: &Team<'_, G>,
    data: &mut [G::Byte],
    reduction: &mut Reduction<F>,
) -> Result<(), Failure<G>> {
    let (rank, fold) = (team.rank(), Fold::new(team.size()));
    let Some(place) = fold.place_of(rank) else {
        team.send(data, rank + 1).await?;
        return team.recv(data, rank + 1).await;
    };
    let mut scratch = Scratch::new(data.len());
    let mut value = Accumulator::new(data, scratch.bytes());
    if fold.stands_in(rank) {
        team.recv(value.parts().1, rank - 1).await?;
        value.prepend(&mut reduction.combine);
    }
    let mut distance = 1;
    while distance < fold.places {
        let other = place ^ distance;
        let partner = fold.rank_of(other);
        let (mine, theirs) = value.parts();
        team.exchange(mine, partner, theirs, partner).await?;
        if other < place {
            value.prepend(&mut reduction.combine);
        } else {
            value.append(&mut reduction.combine);
        }
        distance <<= 1;
    }
    value.finish();
    if fold.stands_in(rank) {
        team.send(data, rank - 1).await?;
    }
    Ok(())
}

/// Maps any number of ranks to as many places as the largest power of two.
///
/// Algorithms that pair ranks at distances 1, 2, 4, … need a power of two. For other numbers the
/// first ranks share places in pairs of neighbours: the even one sends its part to the odd one,
/// waits, and receives the result at the end. The pairs are neighbours so that the order of places
/// is the order of ranks.
///
/// ```text
///   7 ranks:   0 1   2 3   4 5   6
///   4 places:   0     1     2    3
/// ```
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fold {
    /// The number of places, a power of two.
    pub(crate) places: u32,
    /// The number of places, from place 0 on, that two ranks share.
    folded: u32,
}

impl Fold {
    pub(crate) fn new(size: u32) -> Fold {
        let places = 1 << size.ilog2();
        Fold { places, folded: size - places }
    }

    /// The place of a rank. `None`: its upper neighbour represents it.
    pub(crate) fn place_of(self, rank: u32) -> Option<u32> {
        if rank >= 2 * self.folded {
            return Some(rank - self.folded);
        }
        (rank % 2 == 1).then_some(rank / 2)
    }

    /// Whether a rank represents its lower neighbour.
    pub(crate) fn stands_in(self, rank: u32) -> bool {
        rank < 2 * self.folded && rank % 2 == 1
    }

    /// The rank at a place.
    pub(crate) fn rank_of(self, place: u32) -> u32 {
        if place < self.folded { 2 * place + 1 } else { place + self.folded }
    }

    /// The first rank that a place, or the end of the places, stands for.
    pub(crate) fn first_rank(self, place: u32) -> u32 {
        place + place.min(self.folded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_order_are_ranks_in_order() {
        for size in 1..70 {
            let fold = Fold::new(size);
            assert!(fold.places.is_power_of_two() && fold.places <= size);
            assert_eq!((fold.first_rank(0), fold.first_rank(fold.places)), (0, size));
            for place in 0..fold.places {
                let ranks = fold.first_rank(place)..fold.first_rank(place + 1);
                let standing = fold.rank_of(place);
                assert_eq!(ranks.end, standing + 1);
                assert_eq!(fold.stands_in(standing), ranks.len() == 2);
                assert_eq!(fold.place_of(standing), Some(place));
                assert!(ranks.len() == 1 || fold.place_of(ranks.start).is_none());
            }
        }
    }
}
