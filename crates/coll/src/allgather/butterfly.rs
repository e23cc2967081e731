//! Allgather by butterfly collection (paper 004, Fig. 6): exchange with the neighbour, then at
//! double the distance with double the amount, and so on.
//!
//! Short parts are soon long messages, which is why the paper's throughput is above that of a
//! ping-pong of the same length. Other numbers of ranks than powers of two are folded.

use crate::blocks::{Blocks, disjoint};
use crate::call::Team;
use crate::error::Failure;
use crate::fold::Fold;
use crate::group::Group;

pub(super) async fn run<G: Group>(
    team: &Team<'_, G>,
    data: &mut [G::Byte],
    blocks: &Blocks,
) -> Result<(), Failure<G>> {
    let (rank, fold) = (team.rank(), Fold::new(team.size()));
    let Some(place) = fold.place_of(rank) else {
        team.send(&data[blocks.range(rank)], rank + 1).await?;
        return team.recv(data, rank + 1).await;
    };
    if fold.stands_in(rank) {
        team.recv(&mut data[blocks.range(rank - 1)], rank - 1).await?;
    }
    let bytes_of = |first: u32, places: u32| {
        blocks.span(fold.first_rank(first)..fold.first_rank(first + places))
    };
    let mut distance = 1;
    while distance < fold.places {
        let (here, there) = (place & !(distance - 1), (place ^ distance) & !(distance - 1));
        let (mine, theirs) = (bytes_of(here, distance), bytes_of(there, distance));
        let (mine, theirs) = disjoint(data, mine, theirs);
        let partner = fold.rank_of(place ^ distance);
        team.exchange(mine, partner, theirs, partner).await?;
        distance <<= 1;
    }
    if fold.stands_in(rank) {
        team.send(data, rank - 1).await?;
    }
    Ok(())
}
