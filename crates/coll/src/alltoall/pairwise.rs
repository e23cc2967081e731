//! All-to-all with one exchange at a time: in step k with the ranks k further on and k back. Paper
//! 004's "basic" transposition.

use crate::call::Team;
use crate::error::Failure;
use crate::group::Group;

use super::own_part;

pub(super) async fn run<G: Group>(
    team: &Team<'_, G>,
    parts: &[&[G::Byte]],
    mut into: Vec<&mut [G::Byte]>,
) -> Result<(), Failure<G>> {
    own_part(team, parts, &mut into)?;
    for step in 1..team.size() {
        let (to, from) = (team.after(step), team.before(step));
        team.exchange(parts[to as usize], to, into[from as usize], from).await?;
    }
    Ok(())
}
