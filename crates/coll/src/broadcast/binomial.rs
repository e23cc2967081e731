//! Broadcast by a binomial tree: in each round, everyone who has the data sends it on.
//!
//! Paper 004's ONE2ALL-BT is this tree with the sends of each rank combined in one TCW chain.

use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;
use crate::part::Data;

/// The sends of a rank follow each other, those to the largest subtrees first.
pub(crate) async fn run<G: Group, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    data: &mut D,
    root: u32,
) -> Result<(), Failure<G>> {
    let reach = receive(team, data, root).await?;
    for child in children(team, root, reach) {
        team.send_part(data.all(), child).await?;
    }
    Ok(())
}

/// The sends of a rank are one chain.
pub(super) async fn run_chained<G: Group, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    data: &mut D,
    root: u32,
) -> Result<(), Failure<G>> {
    let reach = receive(team, data, root).await?;
    let part = |child| (child, data.all());
    team.send_parts(children(team, root, reach).map(part).collect()).await
}

/// Gets the data from the parent; says how many places, this rank's included, it is to reach.
async fn receive<G: Group, D: Data<G::Byte> + ?Sized>(
    team: &Team<'_, G>,
    data: &mut D,
    root: u32,
) -> Result<u64, Failure<G>> {
    // Places are ranks as seen from the root.
    let place = team.before(root);
    let mut reach = 1;
    while reach < u64::from(team.size()) && u64::from(place) & reach == 0 {
        reach <<= 1;
    }
    if place != 0 {
        team.recv_part(data.all_places(), team.before(reach as u32)).await?;
    }
    Ok(reach)
}

/// Whom this rank sends the data to.
fn children<G: Group>(team: &Team<'_, G>, root: u32, reach: u64) -> impl Iterator<Item = u32> {
    let place = u64::from(team.before(root));
    let halves = std::iter::successors(Some(reach >> 1), |half| Some(half >> 1));
    halves
        .take_while(|half| *half > 0)
        .filter(move |half| place + half < u64::from(team.size()))
        .map(|half| team.after(half as u32))
}
