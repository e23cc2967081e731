//! Barrier by counters that only grow: everyone adds one to each rank's counter, and goes on when
//! its own has grown by the number of ranks. Paper 003's C and D.
//!
//! That additions of a later barrier may be counted for this one does no harm: a rank is in the
//! later one only when this one has let it go, and then everybody has come.

use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;

/// By one command for each rank. `taken` is ready when the counter has grown.
pub(super) async fn one_by_one<G: Group>(
    team: &Team<'_, G>,
    taken: Option<impl Future<Output = Result<(), G::Error>>>,
) -> Result<(), Failure<G>> {
    let Some(taken) = taken else {
        return team.require(false, "needs ranks that share memory, or remote counters");
    };
    for distance in 0..team.size() {
        team.group().add(team.after(distance)).await?;
    }
    Ok(taken.await?)
}

/// By one command for all.
pub(super) async fn by_multicast<G: Group>(
    team: &Team<'_, G>,
    taken: Option<impl Future<Output = Result<(), G::Error>>>,
) -> Result<(), Failure<G>> {
    let Some(taken) = taken else {
        return team.require(false, "needs ranks that share memory, or multicast to counters");
    };
    team.group().add_to_all().await?;
    Ok(taken.await?)
}
