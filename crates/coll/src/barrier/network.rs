//! Barriers by the port's group of all ranks: by a sync id, or by counters (paper 003's C, D, E).

use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;
use crate::rounds::{Stop, begin_on_network, unless_lost};

use super::{Algorithm, counters};

/// Why a barrier by sync ids is refused.
pub(super) const NEEDS_SYNC: &str = "needs ranks that share memory, or a network that synchronises";

pub(super) async fn run<G: Group>(team: &Team<'_, G>, algorithm: Algorithm) -> Result<(), Stop<G>> {
    begin_on_network(team).await?;
    let group = team.group();
    // Only now: the counts of a call that never has its turn are not waited for.
    let taken = || Some(group.take(u64::from(group.size())));
    match algorithm {
        Algorithm::AtomicAdd => unless_lost(team, counters::one_by_one(team, taken())).await,
        Algorithm::MulticastAdd => unless_lost(team, counters::by_multicast(team, taken())).await,
        _ => {
            let all = async { group.sync().await.map_err(Failure::<G>::from) };
            unless_lost(team, all).await
        }
    }
}
