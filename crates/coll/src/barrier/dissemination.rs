//! Barrier by dissemination: after round k everyone has heard, directly or not, of the 2^k ranks
//! before it.

use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;

pub(super) async fn run<G: Group>(team: &Team<'_, G>) -> Result<(), Failure<G>> {
    let mut distance = 1;
    while distance < team.size() {
        team.exchange(&[], team.after(distance), &mut [], team.before(distance)).await?;
        distance = distance.saturating_mul(2);
    }
    Ok(())
}
