//! Allreduce by recursive doubling: also how leaders of nodes, and rounds, agree.
//!
//! Each round, pairs of ranks exchange what they have and both combine the two halves in the same
//! order, lower ranks left. So every rank computes the very same expression: results are bitwise
//! equal on all ranks and in every run with the same number of ranks, also where the operation is
//! not associative in its last bits, as floating-point addition is not. The order is that of the
//! ranks, so the operation need not be commutative.

use crate::accumulator::Accumulator;
use crate::call::Team;
use crate::error::Failure;
use crate::fold::Fold;
use crate::group::Group;
use crate::reduction::Reduction;
use crate::scratch::Scratch;

pub(crate) async fn recursive_doubling<G: Group, F: FnMut(&[G::Byte], &mut [G::Byte])>(
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
